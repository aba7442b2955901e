// The package `@perdure/client` as npm would install it: packed, unpacked, and found by its exports.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const CLIENTS = dirname(dirname(fileURLToPath(import.meta.url)));

// Returns `{ folder, load(name), remove() }`: a folder in which the package is installed, and what it exports there. It lies in
// `node_modules`, where the package finds the React that is installed here.
export function installed() {
  const folder = mkdtempSync(join(CLIENTS, "node_modules", ".installed-"));
  const place = join(folder, "node_modules", "@perdure", "client");
  mkdirSync(place, { recursive: true });
  const packing = ["pack", "--silent", "--pack-destination", folder, join(CLIENTS, "../../clients/js")];
  const packed = execFileSync("npm", packing, { encoding: "utf8" }).trim();
  execFileSync("tar", ["-xzf", join(folder, packed), "-C", place, "--strip-components=1"]);
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  const { resolve } = createRequire(join(folder, "package.json"));
  return {
    folder,
    load: (name) => import(pathToFileURL(resolve(name)).href),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
