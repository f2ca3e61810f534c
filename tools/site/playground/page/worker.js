// ds-lint in a worker: Python from a picture of its memory in which ds-lint is imported, and the files that it reads.

import createPyodideModule from "./pyodide.asm.js";
import { loadPyodide } from "./pyodide.js";

const HERE = new URL(".", import.meta.url).href;
const PAGE = 65_536; // bytes of a page of WebAssembly's memory
const JSON_ALONE = /\.json$/i;

let parser; // of shell scripts, once one may be among the files
let parse;
const answering = start();

self.onmessage = async ({ data: { id, request } }) => {
  try {
    const answer = await answering;
    if (Object.keys(request.files ?? {}).some((name) => !JSON_ALONE.test(name))) {
      parser ??= shell();
      parse = await parser;
    }
    self.postMessage({ id, answer: answer(JSON.stringify(request)) });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};

/** The function that answers requests, of `browser/answers.py`. */
async function start() {
  const files = unpacked("ds-lint.packed");
  const snapshot = unpacked("python.snapshot");
  const pyodide = await loadPyodide({
    indexURL: HERE,
    _loadSnapshot: snapshot,
    createPyodideModule: async (settings) => createPyodideModule(enlarged(settings, (await snapshot).byteLength)),
    stdout: () => {},
    stderr: () => {},
  });
  pyodide.registerJsModule("ds_lint_page", { parse: (text) => parse(text) });
  put(await files, pyodide.FS);
  return pyodide.pyimport("answers").answer;
}

async function shell() {
  const { shellParser } = await import("./shell.js");
  return shellParser(`${HERE}tree-sitter-bash.wasm`);
}

/**
 * The content of a compressed file; servers must not take it for one that the browser is to unpack. The browser asks
 * whether what it has is still right: modules of one release must not meet the tables of another.
 */
async function unpacked(name) {
  const response = await fetch(`${HERE}${name}`, { cache: "no-cache" });
  if (!response.ok) {
    throw new Error(`${name}: ${response.status} ${response.statusText}`);
  }
  return new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Settings under which the memory has room for the snapshot, which Pyodide copies into it without asking for more. */
function enlarged(settings, bytes) {
  const instantiate = settings.instantiateWasm;
  settings.instantiateWasm = (imports, done) =>
    instantiate(imports, (instance, module) => {
      const { memory } = instance.exports;
      memory.grow(Math.max(0, Math.ceil((bytes - memory.buffer.byteLength) / PAGE)));
      done(instance, module);
    });
  return settings;
}

/** Write the files: a line with their names and sizes in JSON, and behind it their contents. */
function put(content, FS) {
  const bytes = new Uint8Array(content);
  let start = bytes.indexOf(10) + 1;
  const { folder, sizes } = JSON.parse(new TextDecoder().decode(bytes.subarray(0, start)));
  for (const [name, size] of sizes) {
    const path = `${folder}/${name}`;
    FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    FS.writeFile(path, bytes.subarray(start, start + size), { canOwn: true });
    start += size;
  }
}
