// Plays scenes in the playground and prints what was seen, as JSON by scene; tests/clients/test_playground.py says what
// should be. node scenes.mjs '{"address", "links": {"sample", ...}, "axe": SCRIPT}'

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const { address, links, axe } = JSON.parse(process.argv[2]);
const YAML = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stag: 2\n";

/** What a user of the playground does and sees. */
class Hands {
  constructor(page) {
    this.page = page;
    this.text = page.getByRole("textbox", { name: /^Text of/ });
    this.status = page.getByRole("status");
  }

  /** Follow a link to the playground from the playground; without one, show what it shows at first. */
  async open(fragment = links.sample) {
    await this.tab("Findings").click();
    await this.page.evaluate((wanted) => {
      location.hash = "";
      location.hash = wanted;
    }, fragment);
    await this.page.waitForFunction((wanted) => location.hash.endsWith(wanted), fragment);
    return this.answered(/./);
  }

  /** Wait for an answer with such a status. */
  async answered(pattern) {
    await this.page.locator('[aria-busy="false"]').waitFor();
    await this.status.filter({ hasText: pattern }).waitFor();
    return this.status.textContent();
  }

  press(name) {
    return this.page.getByRole("button", { name, exact: true }).click();
  }

  tab(name) {
    return this.page.getByRole("tab", { name, exact: true });
  }

  /** The codes and places of the findings. */
  findings() {
    return this.page.locator(".findings .go").allTextContents();
  }

  /** Replace the text as by pasting. */
  async paste(text) {
    await this.page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
    await this.text.focus();
    await this.page.keyboard.press("Control+a");
    await this.page.keyboard.press("Control+v");
  }

  clipboard() {
    return this.page.evaluate(() => navigator.clipboard.readText());
  }

  selected() {
    return this.text.evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd));
  }

  names() {
    return this.page.getByRole("tablist", { name: "Files" }).getByRole("tab").allTextContents();
  }

  /** What of the page is wider than the window. */
  wide() {
    return this.page.evaluate(() =>
      document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth : 0,
    );
  }

  async violations() {
    await this.page.evaluate(readFileSync(axe, "utf8"));
    const { violations } = await this.page.evaluate(() => globalThis.axe.run("[data-ds-lint-playground]"));
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  }
}

const scenes = {
  async first(hands) {
    await hands.page.goto(address);
    const status = await hands.answered(/./);
    const marks = await hands.page.locator("mark").allTextContents();
    return { status, marks, findings: await hands.findings() };
  },

  async fixes(hands) {
    await hands.open();
    await hands.press("Write 3e-5 (safe)");
    const one = await hands.answered("1 error");
    await hands.press("Apply all safe fixes");
    const all = [await hands.answered("No findings"), await hands.text.inputValue()];
    await hands.press("Undo fix");
    await hands.answered("1 error");
    return { one, all, undone: await hands.text.inputValue() };
  },

  async explained(hands) {
    await hands.open();
    await hands.page.getByText("Explain DS101").click();
    await hands.page.getByRole("heading", { name: "Why it matters" }).waitFor();
    return hands.page.getByRole("link", { name: "The page of DS101" }).getAttribute("href");
  },

  async link(hands) {
    await hands.open();
    await hands.text.fill('{"train_batch_size": 6, "é😀": 1}');
    await hands.page.getByLabel("Stack").selectOption("Trainer");
    await hands.page.getByLabel("World size").fill("4");
    await hands.page.getByLabel("Training arguments").fill("--bf16 True");
    await hands.press("Copy link");
    await hands.status.filter({ hasText: "The link is copied" }).waitFor();
    const link = await hands.clipboard();
    await hands.open(links.json);
    await hands.open(new URL(link).hash.slice(1));
    return {
      link,
      text: await hands.text.inputValue(),
      stack: await hands.page.getByLabel("Stack").inputValue(),
      ranks: await hands.page.getByLabel("World size").inputValue(),
      findings: await hands.findings(),
      marks: await hands.page.locator("mark").allTextContents(),
    };
  },

  async markdown(hands) {
    await hands.open();
    await hands.press("Copy as Markdown");
    await hands.answered("The Markdown is copied");
    return hands.clipboard();
  },

  async examples(hands) {
    const seen = {};
    for (const [name, fragment] of Object.entries(links)) {
      await hands.open(fragment);
      seen[name] = { files: await hands.names(), findings: await hands.findings() };
    }
    return seen;
  },

  async values(hands) {
    await hands.open();
    await hands.tab("Effective config").click();
    const row = hands.page.getByRole("row", { name: /^zero_optimization.stage|^gradient_clipping/ });
    return row.first().textContent();
  },

  async memory(hands) {
    await hands.open();
    await hands.text.fill('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}');
    await hands.tab("Memory").click();
    const missing = await hands.page.getByText("the model is not known").textContent();
    await hands.page.getByLabel("Parameters").fill("7B");
    await hands.page.getByLabel("World size").fill("8");
    await hands.page.getByLabel("GPU").fill("A100-80GB");
    const table = hands.page.getByRole("region", { name: "Memory" });
    await table.waitFor();
    return { missing, table: await table.textContent() };
  },

  async paste(hands) {
    await hands.open();
    await hands.paste(YAML);
    await hands.answered(/error|warning/);
    return { names: await hands.names(), findings: await hands.findings() };
  },

  async drop(hands) {
    await hands.open();
    const files = { "run.sh": "deepspeed --num_gpus 4 train.py --deepspeed ds.json\n", "ds.json": '{"train_batch_size": 6}\n' };
    const dropped = await hands.page.evaluateHandle((given) => {
      const transfer = new DataTransfer();
      for (const [name, text] of Object.entries(given)) {
        transfer.items.add(new File([text], name));
      }
      return transfer;
    }, files);
    await hands.page.getByRole("group", { name: "Playground" }).dispatchEvent("drop", { dataTransfer: dropped });
    await hands.tab("run.sh").waitFor();
    await hands.answered(/./);
    return { names: await hands.names(), findings: await hands.findings() };
  },

  async refused(hands) {
    await hands.open();
    await hands.page.getByLabel("DeepSpeed", { exact: true }).fill("x");
    await hands.answered("ds-lint cannot check this");
    return hands.page.locator(".problem").textContent();
  },

  async deep(hands) {
    await hands.open();
    await hands.text.fill(`{"a": ${"[".repeat(5000)}${"]".repeat(5000)}}`);
    const deep = await hands.answered("too deep");
    await hands.open();
    return { deep, then: await hands.answered("2 errors") };
  },

  async keyboard(hands) {
    await hands.open();
    const { keyboard } = hands.page;
    await hands.text.focus();
    await keyboard.press("F8");
    const first = await hands.selected();
    await keyboard.press("F8");
    const second = await hands.selected();
    const reached = [];
    for (let steps = 0; steps < 12 && reached.at(-1) !== "Memory"; steps += 1) {
      await keyboard.press("Tab");
      if ((await hands.page.evaluate(() => document.activeElement.getAttribute("role"))) === "tab") {
        await keyboard.press("ArrowRight");
        await keyboard.press("ArrowRight");
      }
      reached.push(await hands.page.evaluate(() => document.activeElement.textContent));
    }
    await keyboard.press("Home");
    await keyboard.press("Tab");
    await keyboard.press("Enter"); // on the first finding
    return { first, second, reached, back: await hands.selected() };
  },

  async accessible(hands) {
    const seen = {};
    for (const [scheme, width] of [["light", 1280], ["dark", 390]]) {
      await hands.page.emulateMedia({ colorScheme: scheme });
      await hands.page.setViewportSize({ width, height: 800 });
      await hands.open();
      seen[scheme] = await hands.violations();
    }
    await hands.page.emulateMedia({ colorScheme: "light" });
    await hands.page.setViewportSize({ width: 1280, height: 800 });
    seen.tree = await hands.page.getByRole("group", { name: "Playground" }).ariaSnapshot();
    return seen;
  },

  async later(hands) {
    await hands.page.goto(`${address}later.html`);
    const before = await hands.page.getByRole("status").count();
    await hands.press("Try it in the browser");
    const status = await hands.answered(/./);
    await hands.page.goto(address);
    return { before, status };
  },

  async widths(hands) {
    const seen = {};
    for (const width of [390, 1280]) {
      await hands.page.setViewportSize({ width, height: 800 });
      await hands.open();
      await hands.text.fill(`{"${"long_".repeat(60)}": 1}`);
      await hands.answered("1 error");
      for (const name of ["Memory", "Effective config", "Findings"]) {
        await hands.tab(name).click();
        await hands.page.getByRole("tabpanel", { name }).locator("> *").first().waitFor();
        seen[`${name} at ${width}`] = await hands.wide();
      }
    }
    return seen;
  },
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const seen = {};
try {
  const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] });
  const asked = new Set();
  const problems = [];
  context.on("request", (request) => asked.add(request.url()));
  context.on("response", (response) => response.status() < 400 || problems.push(`${response.status()} ${response.url()}`));
  context.on("weberror", (error) => problems.push(`${error.error()}`));
  const page = await context.newPage();
  page.setDefaultTimeout(20_000); // a machine that does other work takes its time
  for (const [name, play] of Object.entries(scenes)) {
    const begun = Date.now();
    try {
      seen[name] = { saw: (await play(new Hands(page))) ?? null };
    } catch (error) {
      seen[name] = { error: `${error}`, page: await page.getByRole("group").first().innerText().catch(() => "") };
    }
    seen[name].seconds = (Date.now() - begun) / 1000;
  }
  seen.requests = { saw: { asked: [...asked].filter((url) => url !== "about:blank"), problems } };
  const bare = await browser.newContext();
  await bare.addInitScript(() => {
    delete globalThis.WebAssembly;
  });
  const without = await bare.newPage();
  await without.goto(address);
  seen.without = { saw: await without.getByText("WebAssembly").textContent() };
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen, undefined, 1));
