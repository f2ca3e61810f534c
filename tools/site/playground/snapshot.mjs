// Writes the picture of Python's memory that the playground starts from: node snapshot.mjs PACKAGES FOLDER SNAPSHOT
// PACKAGES is what lies in FOLDER in the browser. It takes a second to start Python and to import ds-lint, and a tenth
// of it to read the picture. Requests of each kind are answered before, so that their modules and tables are in it.

import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { loadPyodide } from "pyodide";

const [packages, folder, target] = process.argv.slice(2);
const JSON_CONFIG =
  '{"train_micro_batch_size_per_gpu": 1, "zero-optimization": {"stage": 3}, "bf16": {"enabled": true}}';
const FILES = {
  "ds_config.json": JSON_CONFIG,
  "accelerate.yaml":
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n",
  "recipe.yaml":
    "stage: sft\ndo_train: true\nfinetuning_type: lora\ntemplate: llama3\ndeepspeed: ds_config.json\nbf16: true\n",
  "train.py": `import deepspeed\n\nengine, *_ = deepspeed.initialize(model=model, config=${JSON_CONFIG.replace("true", "True")})\n`,
};
const CONFIG = { "ds_config.json": JSON_CONFIG };
const REQUESTS = [
  ...["deepspeed", "trainer", "accelerate"].map((stack) => ({ command: "check", files: CONFIG, options: { stack } })),
  { command: "check", files: FILES, options: {} },
  { command: "fix", files: CONFIG, options: {} },
  {
    command: "effective",
    files: CONFIG,
    options: { stack: "trainer", "trainer-args": "--bf16" },
    path: "ds_config.json",
  },
  {
    command: "memory",
    files: CONFIG,
    options: { stack: "deepspeed", "world-size": "8", gpu: "A100-80GB", parameters: "7B" },
    path: "ds_config.json",
  },
  { command: "explain", path: "DS101" },
];

const pyodide = await loadPyodide({ _makeSnapshot: true });
pyodide.mountNodeFS(folder, packages);
pyodide.globals.set("folder", folder);
pyodide.globals.set("requests", JSON.stringify(REQUESTS));
pyodide.runPython(`
import gc, json, os, sys

sys.dont_write_bytecode = True
sys.path.insert(0, folder)
os.chdir("/tmp")
import answers
import ds_lint.launches.scripts  # without a parser of the shell, which the page has

for request in json.loads(requests):
    given = json.loads(answers.answer(json.dumps(request)))
    if given["status"] not in (0, 1):
        raise SystemExit(f"{request}: {given}")
del request, given, requests, folder
gc.collect()
`);
pyodide.FS.unmount(folder);
writeFileSync(target, gzipSync(pyodide.makeMemorySnapshot(), { level: 9 }));
