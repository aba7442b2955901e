// Lets Node find what the server has beside the console: `/client/` is the JavaScript client's folder.
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import { register } from "node:module";

const client = new URL("../../clients/js/src/", import.meta.url).href;

register(
  "data:text/javascript," +
    encodeURIComponent(`export function resolve(specifier, context, next) {
      const served = /^\\.\\.\\/client\\/(.+)$/.exec(specifier);
      return served ? next(${JSON.stringify(client)} + served[1], context) : next(specifier, context);
    }`),
);
