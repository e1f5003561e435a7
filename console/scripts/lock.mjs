// A package-lock.json without the addresses that npm puts there for donations: a lock file of ours holds no address.
// node lock.mjs [FOLDER]    the console's own, or that of another folder
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
const path = join(folder, "package-lock.json");
const lock = JSON.parse(readFileSync(path, "utf8"));
for (const entry of Object.values(lock.packages)) delete entry.funding;
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
