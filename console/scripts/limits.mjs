// Limits that no linter knows: source files of at most 300 lines, no `any`, and a first load of at most 250 kB (gzip).
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const MAX_LINES = 300;
const MAX_FIRST_LOAD = 250_000;
const GENERATED = new Set(["src/api/schema.d.ts"]);
const root = fileURLToPath(new URL("..", import.meta.url));
const built = process.env.REGENTE_CONSOLE_OUT ?? join(root, "../src/regente/console/static");
const problems = [];

function* filesIn(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* filesIn(path);
    else yield path;
  }
}

for (const path of filesIn(join(root, "src"))) {
  const name = relative(root, path);
  if (GENERATED.has(name) || !/\.(tsx?|css)$/.test(name)) continue;
  const text = readFileSync(path, "utf8");
  const lines = text.split("\n").length - 1;
  if (lines > MAX_LINES) problems.push(`${name}: ${lines} lines, at most ${MAX_LINES}`);
  if (/(:|<|\bas|\|) ?any\b[^:'"]*$/m.test(text.replace(/\/\/.*$/gm, ""))) problems.push(`${name}: any`);
}

// What index.html names, what those files import at once, and the overview in the larger language: all of it is fetched
// before the first page shows.
const AT_ONCE = /^assets\/(Overview|pt-BR)-/;

function firstLoad() {
  const seen = new Map();
  const wanted = [...readFileSync(join(built, "index.html"), "utf8").matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((m) => m[1]);
  wanted.push(...[...filesIn(built)].map((path) => relative(built, path)).filter((name) => AT_ONCE.test(name)));
  while (wanted.length) {
    const name = wanted.pop();
    if (seen.has(name)) continue;
    const body = readFileSync(join(built, name));
    seen.set(name, gzipSync(body, { level: 9 }).length);
    if (!name.endsWith(".js")) continue;
    for (const [, found] of body.toString().matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) wanted.push(`assets/${found}`);
  }
  return seen;
}

if (existsSync(join(built, "index.html"))) {
  const load = firstLoad();
  const total = [...load.values()].reduce((sum, bytes) => sum + bytes, 0);
  const everything = [...filesIn(built)].reduce((sum, path) => sum + gzipSync(readFileSync(path)).length, 0);
  console.log(`first load: ${(total / 1000).toFixed(1)} kB gz of ${MAX_FIRST_LOAD / 1000}; whole console: ${(everything / 1000).toFixed(1)} kB gz`);
  if (total > MAX_FIRST_LOAD) problems.push(`the first load is ${total} bytes: ${JSON.stringify([...load])}`);
} else {
  problems.push("the console has not been built: run `npm run build` first");
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length ? 1 : 0;
