// A real `perdure dev` in a folder of its own, that a test may kill and start again at the same address and file.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
export const PYTHON = process.env.PERDURE_PYTHON ?? join(HERE, "../../.venv/bin/python");
const PATH = [process.env.PYTHONPATH, HERE].filter(Boolean).join(delimiter);

export class Server {
  #folder = mkdtempSync(join(tmpdir(), "perdure-clients-"));
  #process = null;
  #port = "0";

  url = "";

  constructor() {
    mkdirSync(join(this.#folder, "holds"));
  }

  static async started() {
    const server = new Server();
    await server.start();
    return server;
  }

  async start() {
    const log = openSync(join(this.#folder, "stderr.log"), "a");
    const options = ["--agents", "client_agents:agent", "--db", "sessions.db", "--port", this.#port];
    this.#process = spawn(PYTHON, ["-m", "perdure", "dev", ...options], {
      cwd: this.#folder,
      env: { ...process.env, PERDURE_HOLDS: join(this.#folder, "holds"), PYTHONPATH: PATH, PYTHONUNBUFFERED: "1" },
      stdio: ["ignore", "pipe", log],
    });
    closeSync(log);
    for await (const line of createInterface({ input: this.#process.stdout })) {
      if (line.startsWith("ready ")) {
        this.url = line.split(" ")[1];
        this.#port = new URL(this.url).port;
        return;
      }
    }
    assert.fail(`\`perdure dev\` ended before it was ready:\n${this.complaints()}`);
  }

  // As a power cut would: SIGKILL, nothing is cleaned up.
  async kill() {
    await this.#end("SIGKILL");
  }

  // As a deployment does: SIGTERM, and what runs may come to its end.
  async stop() {
    await this.#end("SIGTERM");
  }

  async close() {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  // Lets every answer that holds for `name` go on.
  release(name) {
    writeFileSync(join(this.#folder, "holds", name), "");
  }

  complaints() {
    return readFileSync(join(this.#folder, "stderr.log"), "utf8");
  }

  async #end(signal) {
    const running = this.#process;
    this.#process = null;
    if (running === null) return;
    await new Promise((resolve) => {
      running.once("exit", resolve);
      running.kill(signal);
    });
  }
}
