// A text with the numbers of its lines, and with marks where findings are.

import { element } from "./elements.js";

export class Editor {
  constructor({ changed, pasted }) {
    this.lines = element("pre", { class: "lines", "aria-hidden": "true" });
    this.marks = element("pre", { class: "marks", "aria-hidden": "true" });
    this.area = element("textarea", {
      wrap: "off",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      autocorrect: "off",
      oninput: () => {
        this.#draw([]); // the places of findings are those of the text before
        changed(this.area.value);
      },
      onscroll: () => this.#scroll(),
      onpaste: () => {
        const { selectionStart, selectionEnd, value } = this.area;
        if (selectionEnd - selectionStart === value.length) {
          setTimeout(() => pasted(this.area.value)); // once the text is there
        }
      },
    });
    this.element = element(
      "div",
      { class: "editor" },
      this.lines,
      element("div", { class: "text" }, this.marks, this.area),
    );
  }

  /** Show a text; `spans` are `{start, end, severity}` in it. */
  show(name, text, spans) {
    this.area.setAttribute("aria-label", `Text of ${name}`);
    if (this.area.value !== text) {
      this.area.value = text;
    }
    this.#draw(spans);
  }

  /** Lead the user to a place. */
  select(start, end) {
    this.area.focus();
    this.area.setSelectionRange(start, end);
    const height = this.area.scrollHeight / Math.max(1, this.area.value.split("\n").length);
    const line = this.area.value.slice(0, start).split("\n").length - 1;
    this.area.scrollTop = Math.max(0, height * line - this.area.clientHeight / 3);
  }

  get caret() {
    return this.area.selectionStart;
  }

  #draw(spans) {
    const text = this.area.value;
    const count = text.split("\n").length;
    this.lines.textContent = Array.from({ length: count }, (_, index) => index + 1).join("\n");
    this.marks.replaceChildren(...marked(text, spans), "\n");
    this.#scroll();
  }

  #scroll() {
    this.marks.scrollTop = this.area.scrollTop;
    this.marks.scrollLeft = this.area.scrollLeft;
    this.lines.scrollTop = this.area.scrollTop;
  }
}

function marked(text, spans) {
  const parts = [];
  let end = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start >= end) {
      parts.push(text.slice(end, span.start));
      parts.push(element("mark", { class: span.severity }, text.slice(span.start, span.end)));
      end = span.end;
    }
  }
  return [...parts, text.slice(end)];
}
