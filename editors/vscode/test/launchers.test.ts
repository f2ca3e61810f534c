import assert from "node:assert/strict";
import { test } from "node:test";
import { launchers, type Surroundings, search } from "../src/launchers";

function around(differs: Partial<Surroundings> & { readonly files?: readonly string[] } = {}): Surroundings {
  const { files = [], ...rest } = differs;
  return {
    path: "",
    interpreter: "",
    selected: undefined,
    folders: ["/home/me/project"],
    trusted: true,
    home: "/home/me",
    searchPath: "/usr/bin:/home/me/.local/bin",
    platform: "linux",
    isFile: (path) => files.includes(path),
    ...rest,
  };
}

function commands(differs: Parameters<typeof around>[0]): string[] {
  return launchers(around(differs)).map((launcher) => launcher.command);
}

const VENV = "/home/me/project/.venv/bin/python";
const TOOL = "/home/me/.local/bin/ds-lint";

test("the selected environment comes first, then the folder's, then the PATH", () => {
  const found = commands({ selected: "/opt/conda/bin/python", files: [VENV, TOOL] });
  assert.deepEqual(found, ["/opt/conda/bin/python", VENV, TOOL]);
});

test("an interpreter runs the module, a program runs itself", () => {
  assert.deepEqual(
    launchers(around({ files: [VENV, TOOL] })).map((launcher) => launcher.args),
    [["-m", "ds_lint"], []],
  );
});

test("what the settings name stands alone", () => {
  assert.deepEqual(commands({ path: "/opt/ds-lint", selected: "/opt/conda/bin/python", files: [TOOL] }), [
    "/opt/ds-lint",
  ]);
  assert.deepEqual(commands({ interpreter: "/opt/python", files: [TOOL] }), ["/opt/python"]);
});

test("paths in the settings may begin at home or in the folder", () => {
  assert.deepEqual(commands({ interpreter: "~/env/bin/python" }), ["/home/me/env/bin/python"]);
  assert.deepEqual(commands({ interpreter: "env/bin/python" }), ["/home/me/project/env/bin/python"]);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: as people write it in VS Code's settings
  assert.deepEqual(commands({ path: "${workspaceFolder}/bin/ds-lint" }), ["/home/me/project/bin/ds-lint"]);
  assert.deepEqual(commands({ interpreter: "~other/python" }), ["/home/me/project/~other/python"]);
});

test("nothing of a folder that is not trusted is run", () => {
  const differs = { trusted: false, selected: "/home/me/project/env/bin/python", files: [VENV, TOOL] };
  assert.deepEqual(commands(differs), [TOOL]);
  assert.deepEqual(commands({ trusted: false, interpreter: "env/bin/python" }), []);
  assert.deepEqual(commands({ trusted: false, interpreter: "../project/../project/env/bin/python" }), []);
  assert.deepEqual(commands({ trusted: false, interpreter: "/home/me/project-2/bin/python" }), [
    "/home/me/project-2/bin/python",
  ]);
});

test("the PATH is searched for whole paths only", () => {
  const files = ["ds-lint", "bin/ds-lint", "/home/me/project/ds-lint"];
  assert.equal(search("ds-lint", around({ searchPath: ".:bin::", files })), undefined);
});

test("on Windows programs and environments lie elsewhere", () => {
  const windows = {
    platform: "win32",
    folders: ["C:\\work"],
    home: "C:\\Users\\me",
    searchPath: "C:\\tools;D:\\bin",
    files: ["C:\\work\\.venv\\Scripts\\python.exe", "D:\\bin\\ds-lint.exe"],
  } as const;
  assert.deepEqual(commands(windows), [...windows.files]);
  assert.deepEqual(commands({ ...windows, trusted: false }), ["D:\\bin\\ds-lint.exe"]);
});
