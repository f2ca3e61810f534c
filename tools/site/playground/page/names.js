// The name that a pasted text gets, by what it looks like; ds-lint reads a file by the end of its name.

const KINDS = [
  ["accelerate.yaml", /^(?:compute_environment|distributed_type|deepspeed_config)[ \t]*:/m],
  ["notebook.ipynb", /^\s*\{[\s\S]*"cells"\s*:\s*\[/],
  ["ds_config.json", /^\s*[{[]/],
  ["train.py", /^(?:import|from)[ \t]+\w|^(?:def|class)[ \t]+\w+.*:/m],
  ["run.sh", /^#!.*sh\b|\b(?:torchrun|deepspeed|accelerate launch|srun|python3?)[ \t]+(?:-|\S+\.py)/m],
  ["recipe.yaml", /^\w[\w.-]*[ \t]*:/m],
];

/** What to call a text. */
export function nameOf(text) {
  return KINDS.find(([, looks]) => looks.test(text))?.[0] ?? "ds_config.json";
}

/** A name that is not taken yet. */
export function freeName(name, taken) {
  const [, stem, ending] = /^(.*?)(\.[^.]*)?$/.exec(name);
  let free = name;
  for (let number = 2; taken.includes(free); number += 1) {
    free = `${stem}-${number}${ending ?? ""}`;
  }
  return free;
}
