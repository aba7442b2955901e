// A proxy that breaks what runs through it: between any two frames, in the middle of one, in pieces of any size.
//
// A client's address begins with the name of its line, `http://127.0.0.1:1234/<line>/v1/…`. Each answer of a line takes the
// next of its faults; when they are used up, answers run through whole.
//
// Fault: { frames, bytes?, clean?, slice? }: let so many frames through, and so many bytes of the next one; then break the
// connection, or end the answer as if it were whole (`clean`). `slice` hands everything on in pieces of so many bytes.

import { createServer, request } from "node:http";
import { connect } from "node:net";

export class Proxy {
  #target;
  #server;
  #lines = new Map();
  #cutters = new Map();
  #sockets = new Set(); // what was upgraded, which the server no longer knows

  url = "";

  // What each line has been asked for, in order: "GET /v1/…".
  asked = new Map();

  // How many frames went through the latest answer of each line.
  frames = new Map();

  // The comments that went through each line.
  comments = new Map();

  static async to(target) {
    const proxy = new Proxy();
    proxy.#target = new URL(target);
    proxy.#server = createServer((incoming, outgoing) => proxy.#answer(incoming, outgoing));
    proxy.#server.on("upgrade", (incoming, socket, head) => proxy.#upgrade(incoming, socket, head));
    proxy.#server.keepAliveTimeout = 60_000;
    await new Promise((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  // The address of a line that breaks as told.
  line(name, ...faults) {
    this.#lines.set(name, faults);
    this.asked.set(name, []);
    this.comments.set(name, []);
    this.frames.set(name, 0);
    return `${this.url}/${name}`;
  }

  // Breaks the answer that runs through a line now, so many frames from now on. It needs a fault that counts: `{ frames: 1e6 }`.
  cut(name, frames) {
    this.#cutters.get(name).breakIn(frames);
  }

  async close() {
    this.#server.closeAllConnections();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #route(incoming) {
    const [, name, path] = /^\/([^/]+)(\/.*)$/.exec(incoming.url);
    this.asked.get(name)?.push(`${incoming.method} ${path}`);
    const headers = { ...incoming.headers, host: this.#target.host };
    return { name, options: { hostname: this.#target.hostname, port: this.#target.port, path, headers, method: incoming.method } };
  }

  // Only answers that stream can be cut: the others take none of the faults.
  #fault(name) {
    return this.#lines.get(name)?.shift();
  }

  #cutter(name, fault, endOf) {
    const cutter = new Cutter(fault, endOf, (frames) => this.frames.set(name, frames));
    this.#cutters.set(name, cutter);
    return cutter;
  }

  #answer(incoming, outgoing) {
    const { name, options } = this.#route(incoming);
    const upstream = request({ ...options, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      const streams = String(answer.headers["content-type"]).startsWith("text/event-stream");
      const fault = streams ? this.#fault(name) : undefined;
      const cutter = this.#cutter(name, fault, eventEnd);
      answer.on("data", (data) => {
        if (data[0] === 0x3a) this.comments.get(name)?.push(String(data).trimEnd());
        for (const piece of cutter.take(data)) outgoing.write(piece);
        if (!cutter.done) return;
        answer.removeAllListeners("data").removeAllListeners("end").destroy();
        if (fault.clean) outgoing.end();
        else outgoing.write("", () => outgoing.socket?.destroySoon());
      });
      answer.on("end", () => outgoing.end());
      answer.on("error", () => outgoing.destroy());
      if (fault?.frames === 0 && !fault.bytes) {
        answer.destroy();
        outgoing.destroy();
      }
    });
    upstream.on("error", () => outgoing.destroy());
    outgoing.on("close", () => upstream.destroy());
    incoming.pipe(upstream);
  }

  #upgrade(incoming, socket, head) {
    const { name, options } = this.#route(incoming);
    const upstream = connect(Number(options.port), options.hostname);
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    const lines = Object.entries(options.headers).map(([field, value]) => `${field}: ${value}\r\n`);
    upstream.write(`GET ${options.path} HTTP/1.1\r\n${lines.join("")}\r\n`);
    upstream.write(head);
    const fault = this.#fault(name);
    const cutter = this.#cutter(name, fault, webSocketEnd);
    let greeting = Buffer.alloc(0);
    let upgraded = false;
    upstream.on("data", (data) => {
      if (!upgraded) {
        greeting = Buffer.concat([greeting, data]);
        const end = greeting.indexOf("\r\n\r\n");
        if (end < 0) return;
        upgraded = true;
        socket.write(greeting.subarray(0, end + 4));
        data = greeting.subarray(end + 4);
      }
      for (const piece of cutter.take(data)) socket.write(piece);
      if (cutter.done) {
        upstream.removeAllListeners("data").destroy();
        socket.destroySoon();
      }
    });
    socket.on("data", (data) => upstream.write(data));
    for (const [one, other] of [[socket, upstream], [upstream, socket]]) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroySoon());
    }
  }
}

// Lets so much through as a fault says. `endOf` returns where the first frame of some bytes ends, or -1.
class Cutter {
  #fault;
  #endOf;
  #counted;
  #frames = 0;
  #left;
  #waiting = Buffer.alloc(0);

  done = false;

  constructor(fault, endOf, counted) {
    this.#fault = fault;
    this.#endOf = endOf;
    this.#counted = counted;
    this.#left = fault?.frames ?? Infinity;
  }

  breakIn(frames) {
    this.#left = frames;
  }

  take(data) {
    if (this.done) return [];
    if (this.#fault === undefined) return [data];
    this.#waiting = Buffer.concat([this.#waiting, data]);
    const through = [];
    for (let end; this.#left > 0 && (end = this.#endOf(this.#waiting)) >= 0; this.#left -= 1) {
      through.push(this.#waiting.subarray(0, end));
      this.#counted((this.#frames += 1));
      this.#waiting = this.#waiting.subarray(end);
    }
    if (this.#left === 0) {
      const bytes = this.#fault.bytes ?? 0;
      if (this.#waiting.length >= bytes) {
        through.push(this.#waiting.subarray(0, bytes));
        this.done = true;
      }
    }
    return through.flatMap((frame) => sliced(frame, this.#fault.slice));
  }
}

function sliced(frame, size) {
  if (size === undefined) return frame.length > 0 ? [frame] : [];
  return Array.from({ length: Math.ceil(frame.length / size) }, (_, place) => frame.subarray(place * size, (place + 1) * size));
}

function eventEnd(bytes) {
  const end = bytes.indexOf("\n\n");
  return end < 0 ? -1 : end + 2;
}

function webSocketEnd(bytes) {
  if (bytes.length < 2) return -1;
  const short = bytes[1] & 0x7f;
  const header = short === 127 ? 10 : short === 126 ? 4 : 2;
  if (bytes.length < header) return -1;
  const length = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short;
  return bytes.length < header + length ? -1 : header + length;
}
