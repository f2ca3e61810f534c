import assert from "node:assert/strict";
import { test } from "node:test";
import { advice, ended, nothingToStart } from "../src/advice";
import type { Launcher } from "../src/launchers";

const venv: Launcher = {
  command: "/p/.venv/bin/python",
  args: ["-m", "ds_lint"],
  origin: ".venv in the folder",
  interpreter: "/p/.venv/bin/python",
};

test("what is missing is named, with the Python that misses it, and can be installed there", () => {
  const said = advice(venv, { state: "no-ds-lint", pip: true }, undefined);
  assert.match(said.message, /not installed for \/p\/.venv\/bin\/python \(from .venv in the folder\)/);
  assert.deepEqual(said.install, {
    command: "/p/.venv/bin/python",
    args: ["-m", "pip", "install", "--upgrade", "deepspeed-lint[lsp]"],
  });
});

test("uv installs where there is no pip", () => {
  const said = advice(venv, { state: "no-pygls", pip: false }, "/bin/uv");
  assert.equal(said.install?.command, "/bin/uv");
  assert.ok(said.install?.args.includes("/p/.venv/bin/python"));
  assert.equal(advice(venv, { state: "no-pygls", pip: false }, undefined).install, undefined);
});

test("nothing is installed into a Python that could not run it", () => {
  assert.equal(advice(venv, { state: "old-python", version: "3.8" }, undefined).install, undefined);
});

test("without trust, trust is what helps", () => {
  assert.equal(nothingToStart(false).untrusted, true);
  assert.equal(nothingToStart(true).untrusted, undefined);
});

test("a server that ended has the last word", () => {
  assert.match(ended(venv, "ImportError: no module named pygls").message, /ended. ImportError: no module named pygls$/);
});
