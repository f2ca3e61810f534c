import assert from "node:assert/strict";
import { test } from "node:test";
import { Crashes } from "../src/crashes";
import { asMarkdown, codeOf, languageOption, pagePath, subjectOf } from "../src/explaining";
import { mayBeConfig } from "../src/marks";
import { smokeArguments } from "../src/smoke";
import { placeOf, rows, summary, type Target } from "../src/target";

test("a file may be a config by its words or by its name", () => {
  assert.ok(mayBeConfig("/p/train.json", '{"zero_optimization": {}}'));
  assert.ok(mayBeConfig("/p/ds_config.json", ""));
  assert.ok(mayBeConfig("C:\\p\\zero3.json", "{}"));
  assert.ok(mayBeConfig("/p/train.py", "plugin = DeepSpeedPlugin(zero_stage=3)"));
  assert.ok(mayBeConfig("/p/default.yaml", "distributed_type: NO"));
  assert.ok(!mayBeConfig("/p/train.py", "print(1)"));
  assert.ok(!mayBeConfig("/p/package.json", '{"name": "demo"}'));
  assert.ok(!mayBeConfig("/deepspeed/tsconfig.json", "{}"));
});

test("three crashes within three minutes are borne, and any number over a day", () => {
  const crashes = new Crashes();
  assert.deepEqual(
    [0, 1, 2, 3].map((second) => crashes.mayRestart(second * 1000)),
    [true, true, true, false],
  );
  const others = new Crashes();
  assert.ok(Array.from({ length: 24 }, (_, hour) => others.mayRestart(hour * 3_600_000)).every((may) => may));
});

test("pages are found by the links between them", () => {
  assert.equal(subjectOf(pagePath("DS101")), "DS101");
  assert.equal(subjectOf("/DS102-misplaced-key.md"), "DS102");
  assert.equal(subjectOf(pagePath("zero_optimization.stage")), "zero_optimization.stage");
  assert.equal(subjectOf(pagePath("unknown-key")), "unknown-key");
});

test("pages are in the language of the editor, where there are such", () => {
  assert.deepEqual(languageOption("zh-cn"), ["--lang", "zh"]);
  assert.deepEqual(languageOption("ko"), ["--lang", "ko"]);
  assert.deepEqual(languageOption("en"), []);
});

test("what is said of a key keeps its columns", () => {
  assert.equal(asMarkdown("# DS101: unknown-key\n"), "# DS101: unknown-key\n");
  assert.equal(asMarkdown("steps\n  type  integer\n"), "```text\nsteps\n  type  integer\n```\n");
});

test("a finding has its code in either form", () => {
  assert.equal(codeOf({ code: "DS101" }), "DS101");
  assert.equal(codeOf({ code: { value: "DS101" } }), "DS101");
  assert.equal(codeOf({}), "");
});

test("a smoke run is made on the terms of the settings", () => {
  const settings: Record<string, unknown> = { stack: "trainer", worldSize: 8, model: " ", nodes: null, gpu: "H100" };
  settings.trainerArgs = "--bf16 --output_dir 'a b'";
  assert.deepEqual(
    smokeArguments("/p/it's $HOME.json", (name) => settings[name]),
    [
      "check",
      "/p/it's $HOME.json",
      "--smoke",
      "--stack=trainer",
      "--world-size=8",
      "--trainer-args=--bf16 --output_dir 'a b'",
      "--gpu=H100",
    ],
  );
});

const TARGET: Target = {
  config: true,
  target: {
    deepspeed: { version: "0.18.9", oldest: "0.14.0", source: "/p/requirements.txt:3" },
    transformers: { version: "5.12.0", oldest: "5.12.0", source: "installed in /env/lib" },
    accelerate: { version: "1.12.0", oldest: "1.12.0", source: "the newest one known" },
  },
  settings: null,
  stack: "trainer",
  stacks: ["trainer"],
};

test("the status bar has releases and stack in a line", () => {
  assert.equal(summary(TARGET), "deepspeed 0.14.0 to 0.18.9 · transformers 5.12.0 · trainer");
  assert.match(summary({ ...TARGET, stack: null, stacks: ["trainer", "accelerate"] }), /· trainer or accelerate$/);
  assert.match(summary({ ...TARGET, stack: null, stacks: ["deepspeed", "trainer", "accelerate"] }), /· any stack$/);
});

test("each row has its source", () => {
  const [deepspeed] = rows(TARGET);
  assert.deepEqual(deepspeed, { name: "deepspeed", value: "0.14.0 to 0.18.9", source: "/p/requirements.txt:3" });
  assert.equal(
    rows({ ...TARGET, stack: null, stacks: ["trainer", "accelerate"] }).at(-1)?.source,
    "may be trainer, accelerate",
  );
});

test("a source that is a place in a file can be gone to", () => {
  assert.deepEqual(placeOf("/p/requirements.txt:3"), { path: "/p/requirements.txt", line: 3 });
  assert.deepEqual(placeOf("C:\\p\\uv.lock:12"), { path: "C:\\p\\uv.lock", line: 12 });
  assert.deepEqual(placeOf("/p/pyproject.toml"), { path: "/p/pyproject.toml", line: 1 });
  assert.equal(placeOf("installed in /env/lib"), undefined);
});
