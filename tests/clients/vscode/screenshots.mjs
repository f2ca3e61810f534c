// Makes the pictures of docs/vscode.md, in a folder that has a .venv with ds-lint: node screenshots.mjs VSIX PROJECT OUT

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browser, CodeServer, QUIET } from "./code_server.mjs";
import { Hands } from "./hands.mjs";

const [vsix, project, out] = process.argv.slice(2);
const CALM = {
  ...QUIET,
  "editor.fontSize": 13,
  "editor.guides.bracketPairs": false,
  "editor.matchBrackets": "never",
  "editor.occurrencesHighlight": "off",
  "editor.overviewRulerBorder": false,
  "editor.renderLineHighlight": "none",
  "editor.scrollbar.vertical": "hidden",
  "breadcrumbs.enabled": false,
  "files.exclude": { ".venv": true },
  "window.menuBarVisibility": "hidden",
  "workbench.layoutControl.enabled": false,
  "workbench.activityBar.location": "hidden",
};
const THEMES = { light: "Default Light Modern", dark: "Default Dark Modern" };

const WRONG = `{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_cliping": 0.5,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "offload_param": {"device": "cpu"},
    "overlap_com": true
  }
}
`;
const UNFINISHED = `{
  "train_micro_batch_size_per_gpu": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {
    "stage": 3,
    
  }
}
`;
const FILES = {
  "ds_config.json": WRONG,
  "zero3.json": UNFINISHED,
  "requirements.txt": "deepspeed==0.18.9\ntransformers==5.12.0\naccelerate==1.12.0\n",
};

const pictures = {
  async finding(hands) {
    await hands.open("ds_config.json");
    await hands.waitForSquiggles(2);
    await hands.waitForStatus(/deepspeed/);
    await hands.goTo(3, 8);
    await hands.hover();
    await hands.settled();
  },

  async fix(hands) {
    await hands.closeWidgets();
    await hands.press("Control+b");
    await hands.goTo(8, 8);
    await hands.quickFixes();
  },

  async target(hands) {
    await hands.closeWidgets();
    await hands.clickStatus();
    await hands.texts(".quick-input-list .monaco-list-row");
  },

  async completion(hands) {
    await hands.open("zero3.json");
    await hands.waitForStatus(/deepspeed/);
    await hands.press("Control+b");
    await hands.goTo(6, 5);
    await hands.type('"stage3_p');
    await hands.suggestions(/stage3_p/);
    await hands.press("Control+Space");
    await hands.settled();
  },

  async explained(hands) {
    await hands.closeWidgets();
    await hands.goTo(7, 34);
    await hands.command("ds-lint: Explain This Finding");
    await hands.framed(/What it catches/);
    await hands.settled();
  },
};
async function take(theme, names) {
  const home = mkdtempSync(join(tmpdir(), "pictures-"));
  const server = new CodeServer(home);
  let chromium;
  try {
    server.install(vsix);
    server.settings({ ...CALM, "workbench.colorTheme": THEMES[theme] });
    await server.start({ trusting: true });
    chromium = await browser();
    const page = await chromium.newPage({ viewport: { width: 960, height: 540 } });
    const hands = new Hands(page);
    await hands.openFolder(server.address, project);
    await page.addStyleTag({ content: '[id="status.workbench.keyboardLayout"] { display: none !important; }' });
    for (const name of names) {
      await pictures[name](hands);
      await page.screenshot({ path: join(out, `vscode-${name}.png`) });
    }
  } finally {
    await chromium?.close();
    server.stop();
    rmSync(home, { recursive: true });
  }
}

mkdirSync(out, { recursive: true });
for (const [name, text] of Object.entries(FILES)) {
  writeFileSync(join(project, name), text);
}
await take("light", ["finding", "fix", "target", "explained"]);
await take("dark", ["completion"]);
