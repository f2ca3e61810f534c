// The playground: texts on one side, what ds-lint says of them on the other. Nothing of it leaves the browser.

import { circumstances, columns, counted, findings, markdown, values } from "./answers.js";
import { Editor } from "./editor.js";
import { element, identity, tabList } from "./elements.js";
import { Fields } from "./fields.js";
import { packed, unpacked } from "./link.js";
import { freeName, nameOf } from "./names.js";
import { edited, placesIn } from "./places.js";
import { Questions } from "./questions.js";

const HERE = new URL(".", import.meta.url).href;
const PAUSE = 300; // milliseconds without a key before a text is checked
const MOST_BYTES = 1_000_000; // of a file
const WITHOUT =
  "The playground needs WebAssembly, which this browser does not have. Install ds-lint instead: " +
  "pip install deepspeed-lint, then ds-lint check ds_config.json.";
const SAMPLE = {
  "ds_config.json": `{
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "zero-optimization": {"stage": 3},
  "optimizer": {"type": "AdamW", "params": {"lr": "3e-5"}}
}
`,
};
const PANELS = ["Findings", "Effective config", "Memory"];

class Playground {
  constructor(place) {
    this.place = place;
    this.questions = new Questions();
    this.files = { ...SAMPLE };
    this.active = "ds_config.json";
    this.panel = 0;
    this.before = []; // what the texts were before each fix
    this.turn = 0; // counts what was asked, since an answer may come after the next change
    this.#build();
  }

  // ------------------------------------------------------------------------------------------------------- elements

  #build() {
    this.editor = new Editor({
      changed: (text) => this.#typed(text),
      pasted: (text) => this.#pasted(text),
    });
    this.fields = new Fields(() => this.#checkSoon());
    this.fileTabs = element("div", { class: "tabs" });
    this.name = element("input", { type: "text", spellcheck: "false", onchange: () => this.#rename(this.name.value) });
    this.status = element("p", { role: "status", class: "status" });
    this.said = element("div", { class: "said" });
    this.outputTabs = element("div", { class: "tabs" });
    this.panels = PANELS.map((name) => element("div", { id: identity("panel"), role: "tabpanel", "aria-label": name }));
    this.choice = element("input", {
      type: "file",
      multiple: true,
      hidden: true,
      onchange: () => this.#open(this.choice.files),
    });
    this.fixAll = this.#button("Apply all safe fixes", () => this.#applySafe());
    this.undo = this.#button("Undo fix", () => this.#undo());
    this.copied = element("textarea", { readonly: true, hidden: true, "aria-label": "What could not be copied" });
    const source = element(
      "section",
      { class: "source", id: identity("file"), role: "tabpanel" },
      element(
        "div",
        { class: "actions" },
        element("label", {}, element("span", {}, "File name"), this.name),
        this.#button("Remove file", () => this.#remove()),
      ),
      this.editor.element,
    );
    this.source = source;
    const output = element(
      "section",
      { class: "output", "aria-label": "What ds-lint says" },
      this.status,
      element(
        "div",
        { class: "actions" },
        this.fixAll,
        this.undo,
        this.#button("Copy link", () => this.#copyLink()),
        this.#button("Copy as Markdown", () => this.#copyMarkdown()),
      ),
      this.copied,
      this.outputTabs,
      ...this.panels,
      this.said,
    );
    this.known = element("summary");
    this.run = element(
      "details",
      { class: "run", open: matchMedia("(min-width: 60em)").matches },
      this.known,
      this.fields.element,
    );
    this.place.replaceChildren(
      element(
        "div",
        {
          class: "ds-lint-playground",
          role: "group",
          "aria-label": "Playground",
          ondragover: (event) => event.preventDefault(),
          ondrop: (event) => {
            event.preventDefault();
            this.#open(event.dataTransfer.files);
          },
          onkeydown: (event) => this.#key(event),
        },
        this.run,
        element(
          "div",
          { class: "columns" },
          element(
            "div",
            { class: "side" },
            element(
              "div",
              { class: "bar" },
              this.fileTabs,
              this.#button("New file", () => this.#add("new.json", "")),
              this.#button("Open files", () => this.choice.click()),
              this.choice,
            ),
            source,
          ),
          output,
        ),
      ),
    );
  }

  #button(name, act) {
    return element("button", { type: "button", onclick: act }, name);
  }

  // ---------------------------------------------------------------------------------------------------------- state

  /** Show what an address carries, if anything, and check it. */
  async open(fragment) {
    this.#wait();
    const shown = await unpacked(fragment);
    if (shown && Object.keys(shown.files).length > 0) {
      this.#load(shown);
    } else {
      this.#changed();
    }
  }

  #load({ files, options }) {
    this.files = files;
    this.active = Object.keys(files)[0];
    this.fields.values = options;
    this.before = [];
    this.#changed();
  }

  get #shown() {
    return { files: this.files, options: this.fields.values };
  }

  /** The texts, or which of them are there, have changed. */
  #changed(report) {
    this.report = report;
    this.#draw();
    this.#check();
  }

  #typed(text) {
    this.files[this.active] = text;
    this.report = undefined;
    this.#checkSoon();
  }

  #pasted(text) {
    const name = nameOf(text);
    if (name !== this.active && name.split(".").at(-1) !== this.active.split(".").at(-1)) {
      this.#rename(name);
    }
  }

  #rename(name) {
    const taken = Object.keys(this.files).filter((one) => one !== this.active);
    const wanted = freeName(name.trim().replace(/^\/+/, "") || this.active, taken);
    this.files = Object.fromEntries(
      Object.entries(this.files).map(([one, text]) => [one === this.active ? wanted : one, text]),
    );
    this.active = wanted;
    this.#changed();
  }

  #add(name, text) {
    const free = freeName(name, Object.keys(this.files));
    this.files[free] = text;
    this.active = free;
    this.#changed();
    this.editor.area.focus();
  }

  #remove() {
    delete this.files[this.active];
    if (Object.keys(this.files).length === 0) {
      this.files = { "ds_config.json": "" };
    }
    this.active = Object.keys(this.files)[0];
    this.#changed();
    this.fileTabs.querySelector('[aria-selected="true"]').focus();
  }

  async #open(list) {
    this.#wait();
    const given = [...list];
    const small = given.filter((file) => file.size <= MOST_BYTES);
    const texts = await Promise.all(small.map(async (file) => [file.name, await text(file)]));
    if (texts.length > 0) {
      const isSample = JSON.stringify(this.files) === JSON.stringify(SAMPLE);
      this.files = { ...(isSample ? {} : this.files), ...Object.fromEntries(texts) };
      this.active = texts[0][0];
    }
    this.#changed();
    if (small.length < given.length) {
      this.#say(`Files of more than ${MOST_BYTES.toLocaleString("en")} bytes are not opened.`);
    }
  }

  // --------------------------------------------------------------------------------------------------------- asking

  #checkSoon() {
    this.#wait();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#check(), PAUSE);
  }

  async #check() {
    clearTimeout(this.timer);
    this.turn += 1;
    const turn = this.turn;
    this.known.textContent = `Run: ${this.fields.summary}`;
    this.#wait();
    if (this.report === undefined && this.status.textContent === "") {
      this.#say("ds-lint is starting.");
    }
    try {
      const given = await this.questions.ask({ command: "check", ...this.#shown });
      if (turn === this.turn) {
        this.#answered(given);
        await this.#drawPanel();
      }
    } catch (error) {
      this.report = undefined;
      this.#draw();
      this.#drawPanel();
      this.said.replaceChildren();
      this.#say(
        /call stack/.test(error.message)
          ? "These files nest too deep for the stack of a browser."
          : `ds-lint does not run in this browser: ${error.message}`,
      );
    }
    if (turn === this.turn) {
      this.place.firstElementChild.setAttribute("aria-busy", "false");
    }
  }

  /** What is shown is not the answer to what is asked. */
  #wait() {
    this.place.firstElementChild.setAttribute("aria-busy", "true");
  }

  #answered({ output, errors }) {
    try {
      this.report = withOwnPaths(JSON.parse(output));
    } catch {
      this.report = undefined; // an option that ds-lint does not understand
    }
    this.said.replaceChildren(...circumstances(this.report, errors || output));
    this.#say(this.report === undefined ? "ds-lint cannot check this" : counted(this.report.findings));
    this.#draw();
  }

  #say(sentence) {
    if (this.status.textContent !== sentence) {
      this.status.textContent = sentence;
    }
  }

  /** The config that effective values and memory are of: the file that is shown, else the first one with a config. */
  get #config() {
    const configs = (this.report?.files ?? []).filter((file) => !file.error).map((file) => file.path);
    const path = configs.includes(this.active) ? this.active : (configs[0] ?? this.active);
    const line = this.editor.area.value.slice(0, this.editor.caret).split("\n").length;
    const isOneOfSeveral = configs.filter((one) => one === path).length > 1;
    return isOneOfSeveral && path === this.active ? `${path}:${line}` : path;
  }

  // -------------------------------------------------------------------------------------------------------- drawing

  #draw() {
    const names = Object.keys(this.files);
    const chosen = names.indexOf(this.active);
    const hadFocus = this.fileTabs.contains(document.activeElement);
    const items = names.map((name) => ({ name, panel: this.source }));
    this.fileTabs.replaceChildren(
      tabList("Files", items, chosen, (index, byKeyboard) => {
        this.active = names[index];
        this.#draw();
        if (byKeyboard) {
          this.fileTabs.querySelector('[aria-selected="true"]').focus();
        }
        this.#drawPanel();
      }),
    );
    if (hadFocus) {
      this.fileTabs.querySelector('[aria-selected="true"]').focus();
    }
    this.source.setAttribute("aria-label", this.active);
    this.name.value = this.active;
    this.editor.show(this.active, this.files[this.active], this.#spans());
    const found = this.report?.findings ?? [];
    this.fixAll.disabled = !found.some((finding) => finding.fix?.safety === "safe");
    this.undo.disabled = this.before.length === 0;
    this.#drawOutputTabs();
  }

  #drawOutputTabs(byKeyboard) {
    const items = PANELS.map((name, index) => ({ name, panel: this.panels[index] }));
    this.outputTabs.replaceChildren(
      tabList("Answers", items, this.panel, (index, isByKeyboard) => {
        this.panel = index;
        this.#drawOutputTabs(isByKeyboard);
        this.#drawPanel();
      }),
    );
    this.panels.forEach((panel, index) => {
      panel.hidden = index !== this.panel;
    });
    if (byKeyboard) {
      this.outputTabs.querySelector('[aria-selected="true"]').focus();
    }
  }

  #spans() {
    const place = placesIn(this.files[this.active]);
    return (this.report?.findings ?? [])
      .filter((finding) => finding.path === this.active)
      .map(({ span, severity }) => ({ start: place(span.start.offset), end: place(span.end.offset), severity }));
  }

  async #drawPanel() {
    const panel = this.panels[this.panel];
    for (const other of this.panels.filter((one) => one !== panel || this.report === undefined)) {
      other.replaceChildren();
    }
    if (this.report === undefined) {
      return;
    }
    if (this.panel === 0) {
      const actions = {
        go: (finding) => this.#go(finding),
        fix: (finding) => this.#apply(finding),
        explain: async (code) => (await this.questions.ask({ command: "explain", path: code })).output,
      };
      panel.replaceChildren(findings(this.report, actions));
    } else {
      const { turn, panel: number } = this;
      const command = this.panel === 1 ? "effective" : "memory";
      const given = await this.questions.ask({ command, ...this.#shown, path: this.#config });
      if (turn === this.turn && number === this.panel) {
        panel.replaceChildren(...this.#told(command, given));
      }
    }
  }

  #told(command, { status, output, errors }) {
    if (status === 2) {
      return [element("p", { class: "problem" }, (errors || output).replace(/^ds-lint: /gm, ""))];
    }
    return command === "effective" ? values(JSON.parse(output)) : [columns("Memory", output)];
  }

  // --------------------------------------------------------------------------------------------------------- actions

  #go(finding) {
    if (finding.path in this.files) {
      this.active = finding.path;
      this.#draw();
      const place = placesIn(this.files[this.active]);
      this.editor.select(place(finding.span.start.offset), place(finding.span.end.offset));
    }
  }

  /** F8 leads from finding to finding, as in VS Code. */
  #key(event) {
    const found = this.report?.findings ?? [];
    if (event.key !== "F8" || found.length === 0) {
      return;
    }
    event.preventDefault();
    const step = event.shiftKey ? -1 : 1;
    const from = found.indexOf(this.gone);
    this.gone = found.at(from < 0 && step < 0 ? -1 : (from + step + found.length) % found.length);
    this.#go(this.gone);
  }

  #apply(finding) {
    const path = finding.fix.path ?? finding.path;
    this.#fixed({ [path]: edited(this.files[path], finding.fix.edits) });
  }

  async #applySafe() {
    this.#wait();
    const { changed } = await this.questions.ask({ command: "fix", ...this.#shown });
    this.#fixed(changed ?? {});
  }

  #fixed(texts) {
    if (Object.keys(texts).length === 0) {
      this.#say("No fix can be applied.");
      this.place.firstElementChild.setAttribute("aria-busy", "false");
      return;
    }
    this.before.push({ ...this.files });
    this.files = { ...this.files, ...texts };
    this.active = texts[this.active] === undefined ? Object.keys(texts)[0] : this.active;
    this.#changed();
    this.editor.area.focus();
  }

  #undo() {
    this.files = this.before.pop();
    this.active = this.active in this.files ? this.active : Object.keys(this.files)[0];
    this.#changed();
    this.editor.area.focus();
  }

  async #link() {
    return `${HERE}#${await packed(this.#shown)}`;
  }

  async #copyLink() {
    const link = await this.#link();
    const isOwn = location.href.split(/[?#]/)[0].replace(/index\.html$/, "") === HERE;
    if (isOwn) {
      history.replaceState(null, "", link); // a reload shows the same
    }
    await this.#copy(link, `The link is copied: ${link.length.toLocaleString("en")} characters.`);
  }

  async #copyMarkdown() {
    if (this.report !== undefined) {
      const { files, options } = this.#shown;
      await this.#copy(markdown(files, options, this.report, await this.#link()), "The Markdown is copied.");
    }
  }

  async #copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      this.copied.hidden = true;
      this.#say(done);
    } catch {
      this.copied.hidden = false;
      this.copied.value = text;
      this.copied.select();
      this.#say("The browser does not allow to copy: take it from the field.");
    }
  }
}

/** A report whose paths are the names of files here: ds-lint writes `./run.sh` for what it finds in a folder. */
function withOwnPaths(report) {
  const own = (path) => path.replace(/^(?:\.\/)+/, "");
  for (const one of [...report.files, ...report.findings, ...report.findings.flatMap(({ related }) => related)]) {
    one.path = own(one.path);
  }
  for (const { fix } of report.findings) {
    if (fix?.path) {
      fix.path = own(fix.path);
    }
  }
  return report;
}

async function text(file) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await file.arrayBuffer());
}

/** Fill a place of the page; one with the value `later` starts Python when it is used. */
async function fill(place) {
  if (typeof WebAssembly !== "object") {
    place.replaceChildren(element("p", {}, WITHOUT));
    return;
  }
  const playground = new Playground(place);
  playground.questions.start();
  await playground.open(location.hash);
  const choices = await fetch(`${HERE}choices.json`);
  playground.fields.suggest(await choices.json());
  addEventListener("hashchange", () => playground.open(location.hash));
}

function begin(place) {
  if (place.dataset.dsLintPlayground !== "later") {
    return fill(place);
  }
  const start = element(
    "button",
    { type: "button", class: "md-button", onclick: () => fill(place) },
    "Try it in the browser",
  );
  place.replaceChildren(start);
  return undefined;
}

document.head.append(element("link", { rel: "stylesheet", href: `${HERE}playground.css` }));
for (const place of document.querySelectorAll("[data-ds-lint-playground]")) {
  begin(place);
}
