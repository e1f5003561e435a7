// Removes the funding URLs from package-lock.json: lock files carry no addresses.
// node lock.mjs [FOLDER]    default: the console
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
const path = join(folder, "package-lock.json");
const lock = JSON.parse(readFileSync(path, "utf8"));
for (const entry of Object.values(lock.packages)) delete entry.funding;
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
