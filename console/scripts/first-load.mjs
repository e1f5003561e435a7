// Fails when the files that a browser fetches before it shows the first page are larger than
// 250 kB (gzip). Biome checks everything else.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const MAX_FIRST_LOAD = 250_000;
const built =
  process.env.REGENTE_CONSOLE_OUT ??
  fileURLToPath(new URL("../../src/regente/console/static", import.meta.url));
const files = readdirSync(built, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(built.length + 1));
const sizeOf = (name) => gzipSync(readFileSync(join(built, name)), { level: 9 }).length;
const matches = (name, pattern) =>
  [...readFileSync(join(built, name), "utf8").matchAll(pattern)].map((match) => match[1]);

// The files that index.html names, the overview and the larger language, and their static imports.
const wanted = [
  ...matches("index.html", /(?:src|href)="\.\/(assets\/[^"]+)"/g),
  ...files.filter((name) => /^assets\/(Overview|pt-BR)-/.test(name)),
];
const sizes = {};
while (wanted.length) {
  const name = wanted.pop();
  if (name in sizes) continue;
  sizes[name] = sizeOf(name);
  if (!name.endsWith(".js")) continue;
  for (const imported of matches(name, /(?:from|import)\s*"\.\/([^"]+\.js)"/g))
    wanted.push(`assets/${imported}`);
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const kilobytes = (bytes) => `${(bytes / 1000).toFixed(1)} kB gz`;
const total = sum(Object.values(sizes));
console.log(
  `first load: ${kilobytes(total)} of ${kilobytes(MAX_FIRST_LOAD)}; ` +
    `whole console: ${kilobytes(sum(files.map(sizeOf)))}`,
);
if (total > MAX_FIRST_LOAD) {
  console.error("The first load is too large:", sizes);
  process.exitCode = 1;
}
