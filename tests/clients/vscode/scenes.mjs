// Plays scenes in VS Code and prints what was seen, as JSON by scene; tests/clients/test_vscode.py says what should be.
// node scenes.mjs '{"home", "workspace", "extensions": [VSIX], "pythons": {"with", "without"}, "dying": PROGRAM}' [FIRST]
// A scene needs none of those before it: FIRST is the one to begin with.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, CodeServer, QUIET, until } from "./code_server.mjs";
import { Hands } from "./hands.mjs";

const { home, workspace, extensions, pythons, dying } = JSON.parse(process.argv[2]);
const first = process.argv[3] ?? "untrusted";
const SETTINGS = {
  ...QUIET,
  "[jsonc]": {
    "editor.autoClosingBrackets": "never", // settings.json is in this language too
    "editor.codeActionsOnSave": { "source.fixAll.ds-lint": "explicit" },
  },
};

const scenes = {
  async untrusted(hands) {
    await hands.open("ds_config.json");
    const [message] = await hands.texts(".notification-toast");
    const running = servers();
    await hands.closeNotifications();
    await hands.trustFolder();
    await hands.open("ds_config.json");
    return { message, running };
  },

  async finding(hands) {
    await hands.open("ds_config.json");
    await hands.waitForSquiggles(2);
    await hands.waitForStatus(/deepspeed/);
    return { squiggles: await hands.squiggles("error"), status: await hands.status() };
  },

  async hover(hands) {
    await hands.open("ds_config.json");
    await hands.waitForStatus(/deepspeed/);
    await hands.goTo(5, 8);
    const rows = await hands.hover();
    await hands.closeWidgets();
    return rows;
  },

  async explained(hands) {
    await hands.open("ds_config.json");
    await hands.waitForSquiggles(2);
    await hands.goTo(3, 8);
    await hands.command("ds-lint: Explain This Finding");
    const page = await hands.framed(/What it catches/);
    await hands.closeTab();
    return page;
  },

  async quickFix(hands) {
    await hands.open("one_wrong.json");
    await hands.waitForSquiggles(2);
    await hands.goTo(3, 8);
    const entries = await hands.quickFixes();
    await hands.press("Enter");
    await hands.waitForSquiggles(1);
    await hands.save();
    return { entries, saved: saved("one_wrong.json") };
  },

  async fixAll(hands) {
    await hands.open("all_wrong.json");
    await hands.waitForSquiggles(2);
    const [{ pid }] = servers();
    process.kill(pid, "SIGSTOP"); // it answers late, and the cursor moves before
    try {
      await hands.command("ds-lint: Fix All");
      await hands.press("ArrowRight");
      await hands.settled();
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await hands.waitForSquiggles(0);
    await hands.save();
    return saved("all_wrong.json");
  },

  async fixedOnSave(hands) {
    const before = saved("on_save.jsonc");
    await hands.open("on_save.jsonc");
    await hands.waitForSquiggles(1);
    await hands.press("Control+s");
    await hands.waitForSquiggles(0);
    return until(() => saved("on_save.jsonc") !== before && saved("on_save.jsonc"));
  },

  async completion(hands) {
    await hands.open("zero3.json");
    await hands.goTo(4, 5);
    await hands.type('"over');
    const keys = await hands.suggestions(/overlap_comm/);
    await hands.press("Enter");
    await hands.press("End");
    await hands.type(": f");
    const values = await hands.suggestions(/false/);
    await hands.press("Enter");
    await hands.save();
    return { keys, values, saved: saved("zero3.json") };
  },

  async python(hands) {
    await hands.open("train.py");
    await hands.waitForSquiggles(1);
    await hands.goTo(4, 8);
    await hands.quickFixes();
    await hands.press("Enter");
    await hands.waitForSquiggles(0);
    await hands.save();
    return saved("train.py");
  },

  async accelerate(hands) {
    await hands.open("accelerate.yaml");
    await hands.waitForSquiggles(1);
    const status = await hands.waitForStatus(/accelerate/);
    await hands.goTo(3, 6);
    const hover = await hands.hover();
    await hands.closeWidgets();
    await hands.command("ds-lint: Fix All");
    await hands.waitForSquiggles(0);
    await hands.save();
    return { status, hover, saved: saved("accelerate.yaml") };
  },

  async otherFiles(hands) {
    await hands.open("ds_config.json");
    await hands.waitForStatus(/deepspeed/);
    await hands.command("View: Close All Editors");
    await hands.open("package.json");
    await hands.settled();
    const commands = await hands.commandsLike("ds-lint: ");
    const status = await hands.status();
    return { problems: await hands.problems(), status, commands };
  },

  async target(hands) {
    await hands.open("ds_config.json");
    await hands.waitForStatus(/deepspeed/);
    await hands.clickStatus();
    const rows = await hands.texts(".quick-input-list .monaco-list-row");
    await hands.closeWidgets();
    return rows;
  },

  async smoke(hands) {
    await hands.open("it's $HOME.json");
    await hands.waitForStatus(/deepspeed/);
    await hands.command("ds-lint: Run Smoke");
    const terminal = await hands.terminal(/reused by tasks/);
    await hands.closeTerminal();
    return terminal;
  },

  async pinned(hands) {
    await hands.open("ds_config.json");
    await hands.waitForStatus(/deepspeed/);
    writeFileSync(join(workspace, "requirements.txt"), "deepspeed==0.15.4\n");
    const byProject = await hands.waitForStatus(/0\.15\.4/);
    await hands.settings({ "ds-lint.deepspeedVersion": "0.16.9", "ds-lint.stack": "trainer" });
    const byEditor = await hands.waitForStatus(/0\.16\.9/);
    return { byProject, byEditor };
  },

  async crashed(hands) {
    await hands.open("ds_config.json");
    await hands.waitForStatus(/deepspeed/);
    const [{ pid }] = servers();
    process.kill(pid, "SIGKILL");
    await until(() => servers().some((server) => server.pid !== pid));
    await hands.goTo(6, 8);
    const rows = await hands.hover();
    await hands.closeWidgets();
    return rows;
  },

  async selected(hands) {
    await hands.open("ds_config.json");
    await hands.waitForStatus(/deepspeed/);
    await hands.settings({ "stand-in.selected": pythons.with });
    await until(() => servers().some((server) => server.command.startsWith(pythons.with)));
    await hands.waitForStatus(/deepspeed/);
    return { python: pythons.with, servers: servers().map((server) => server.command) };
  },

  async dying(hands) {
    await hands.open("ds_config.json");
    await hands.settings({ "stand-in.selected": pythons.with, "ds-lint.path": dying });
    const [message] = await hands.texts(".notification-toast");
    await hands.settled();
    await hands.closeNotifications();
    return { message, tries: readFileSync(join(home, "tries"), "utf8") };
  },

  async missing(hands) {
    await hands.open("ds_config.json");
    await hands.settings({ "ds-lint.interpreter": pythons.without });
    const [message] = await hands.texts(".notification-toast");
    const status = await hands.waitForStatus(/^ds-lint$/);
    await hands.clickButton("Install ds-lint");
    const terminal = await hands.terminal(/reused by tasks/);
    await hands.closeTerminal();
    await hands.settings({});
    await hands.open("ds_config.json");
    const foundAgain = await hands.waitForStatus(/deepspeed/);
    await hands.waitForSquiggles(2);
    return { message, status, terminal, foundAgain };
  },

  async notebook(hands) {
    await hands.open("train.ipynb"); // the last: VS Code keeps a notebook for a while after it is closed
    await hands.waitForSquiggles(1);
  },
};

/** A file of the project as it lies on the disk. */
function saved(file) {
  return readFileSync(join(workspace, file), "utf8");
}

/** What comes of it, unless that takes longer than any scene: what asks a page that hangs waits for ever. */
function inTime(outcome) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error("a scene hangs")), 90_000));
  return Promise.race([outcome, late]);
}

/** The language servers that run below the test's folders. */
function servers() {
  const lines = execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" }).split("\n");
  return lines
    .map((line) => /^ *(?<pid>\d+) (?<command>.* -m ds_lint lsp)$/.exec(line)?.groups)
    .filter((found) => found !== undefined && (found.command.startsWith(workspace) || found.command.startsWith(home)))
    .map(({ pid, command }) => ({ pid: Number(pid), command }));
}

const server = new CodeServer(home);
const seen = {};
let chromium;
try {
  for (const extension of extensions) {
    server.install(extension);
  }
  server.settings(SETTINGS);
  await server.start({ trusting: first !== "untrusted" });
  chromium = await browser();
  const page = await chromium.newPage({ viewport: { width: 1200, height: 800 } });
  page.setDefaultTimeout(20_000); // a machine that does other work takes its time
  const hands = new Hands(page);
  await hands.openFolder(server.address, workspace);
  for (const [name, play] of Object.entries(scenes).slice(Object.keys(scenes).indexOf(first))) {
    const begun = Date.now();
    try {
      seen[name] = { saw: (await inTime(play(hands))) ?? null };
    } catch (error) {
      const picture = join(home, `${name}.png`);
      await inTime(page.screenshot({ path: picture })).catch(() => undefined);
      seen[name] = { error: `${error}`, picture };
      break; // what it leaves behind may be in the way of the next
    } finally {
      seen[name].seconds = (Date.now() - begun) / 1000;
    }
  }
} finally {
  await inTime(chromium?.close()).catch(() => undefined);
  server.stop();
}
console.log(JSON.stringify(seen, undefined, 1));
process.exit(); // whatever a browser that hangs leaves open
