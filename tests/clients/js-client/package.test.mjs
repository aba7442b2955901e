// The packed package: what it exports, what of it needs no browser, and its types.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, it } from "node:test";
import { fileURLToPath } from "node:url";

import { installed } from "../lib/installed.mjs";

const TSC = join(dirname(dirname(fileURLToPath(import.meta.url))), "node_modules", ".bin", "tsc");

let client;

before(() => {
  client = installed();
});

after(() => client.remove());

it("holds its modules, their types and its licence, and nothing else", () => {
  const files = readdirSync(join(client.folder, "node_modules", "@perdure", "client"));

  assert.deepEqual(files.sort(), ["LICENSE", "README.md", "package.json", "src"]);
});

it("says how each module is called, and exports what its types say", async () => {
  for (const name of ["", "/reducer", "/commands", "/schema", "/react"]) {
    const exported = Object.keys(await client.load(`@perdure/client${name}`));
    writeFileSync(
      join(client.folder, `exports${name.replace("/", "-")}.ts`),
      `import type * as types from "@perdure/client${name}";\n${exported.map((one) => `export type T${one} = typeof types.${one};`).join("\n")}\n`,
    );
    assert.ok(exported.length > 0);
  }
  compile();
});

it("is typed: what is right passes, and what is wrong is told", () => {
  writeFileSync(join(client.folder, "use.ts"), `
    import { createClient, messagesOf, reduce, initialState, viewOf, secondsLeft, commands, ApiError, UnsettledError } from "@perdure/client";
    import { useSession } from "@perdure/client/react";

    const client = createClient({ url: "https://api.example.com", getToken: async () => "token" });
    const session = client.session("case-42", { agent: "support" });
    const stop: () => void = session.subscribe(() => {
      const { messages, indicator, activity, connection } = session.getView();
      const texts: string[] = messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "text" ? [part.text] : [])));
      if (activity.kind === "tools") activity.names.join(texts[0] ?? indicator ?? "");
      const left: number | null = secondsLeft(connection);
    });
    const sending = session.actions.send("hello", { delivery: "queue" });
    sending.then((receipt) => receipt.turn_id satisfies string | undefined);
    await sending.confirmed;
    await session.actions.approve("call-1-0", { arguments: { order: 7 } }).catch((error: unknown) => {
      if (error instanceof UnsettledError) return error.resend();
      if (error instanceof ApiError && error.code === "not_pending") return null;
      throw error;
    });
    const state = reduce(initialState("s"), { type: "stream", events: [], cursor: "c" });
    messagesOf(state).map(({ key, origin }) => key + origin);
    viewOf(state).interrupts[0]?.deciding;
    const { method, path } = commands.requestOf(commands.message("s", "hello", { key: "k" }));
    const { state: held, actions, retryNow } = useSession({ client, id: "case-42", initial: state });
    stop();

    // @ts-expect-error
    createClient({});
    // @ts-expect-error
    session.actions.send(7);
    // @ts-expect-error
    session.actions.move("m-1", { next_to: "m-2" });
    // @ts-expect-error
    commands.message("s", "hello", {});
    // @ts-expect-error
    reduce(state, { type: "nothing" });
    // @ts-expect-error
    session.getView().messages[0].nothing;
  `);
  compile();
});

it("is used as its README shows", () => {
  const readme = readFileSync(join(client.folder, "node_modules", "@perdure", "client", "README.md"), "utf8");
  const examples = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
  assert.equal(examples.length, 3);
  examples.forEach((code, index) => writeFileSync(join(client.folder, `readme-${index}.ts`), code));
  compile();
});

it("imports nothing of Node and nothing but React, and touches no page", async () => {
  const saved = globalThis.document;
  assert.equal(saved, undefined);
  const { createClient, messagesOf, stateOf } = await client.load("@perdure/client");

  assert.deepEqual(messagesOf(stateOf([])), []);
  assert.equal(createClient({ url: "http://nowhere", transport: "stream" }).session("s").getView().exists, false);
});

function compile() {
  const options = ["--noEmit", "--strict", "--skipLibCheck", "false", "--module", "nodenext", "--target", "es2023", "--lib", "es2023,dom"];
  const files = readdirSync(client.folder).filter((name) => name.endsWith(".ts"));
  try {
    execFileSync(TSC, [...options, ...files], { cwd: client.folder, encoding: "utf8" });
  } catch (error) {
    assert.fail(error.stdout);
  }
}
