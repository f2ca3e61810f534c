// The fields of what is known of the run: options of the command line, by their names without dashes.

import { element, identity } from "./elements.js";

const STACKS = { "": "inferred", deepspeed: "deepspeed.initialize", trainer: "Trainer", accelerate: "Accelerate" };
const FIELDS = [
  { name: "stack", label: "Stack", choices: STACKS },
  { name: "world-size", label: "World size", number: true },
  { name: "nodes", label: "Nodes", number: true },
  { name: "deepspeed-version", label: "DeepSpeed" },
  { name: "transformers-version", label: "transformers" },
  { name: "accelerate-version", label: "Accelerate" },
  { name: "trainer-args", label: "Training arguments", example: "--bf16 True --max_grad_norm 1.0", isWide: true },
  { name: "model", label: "Model" },
  { name: "gpu", label: "GPU" },
  { name: "host-memory", label: "Host memory", example: "512GB" },
  { name: "parameters", label: "Parameters", example: "7B" },
  { name: "micro-batch", label: "Micro batch", number: true },
  { name: "sequence-length", label: "Sequence length", number: true },
  { name: "extend-select", label: "More rules", example: "ALL" },
  { name: "preview", label: "Rules in preview", isSwitch: true },
];

export class Fields {
  /** `changed` is called after each change. */
  constructor(changed) {
    this.inputs = new Map(FIELDS.map((field) => [field.name, input(field, changed)]));
    this.element = element(
      "div",
      { class: "fields" },
      FIELDS.map((field) => labelled(field, this.inputs.get(field.name))),
    );
  }

  /** Suggest values: lists of them by the names of fields. */
  suggest(choices) {
    for (const [name, values] of Object.entries(choices)) {
      const list = element(
        "datalist",
        { id: identity(name) },
        values.map((value) => element("option", { value })),
      );
      this.inputs.get(name).after(list);
      this.inputs.get(name).setAttribute("list", list.id);
    }
  }

  /** What is known, in words, or what could be said. */
  get summary() {
    const { values } = this;
    const known = FIELDS.filter((field) => field.name in values).map(({ name, label, isSwitch }) =>
      isSwitch ? label : `${label} ${values[name]}`,
    );
    return known.join(", ") || "stack, releases, world size, training arguments, model";
  }

  get values() {
    const values = {};
    for (const [name, one] of this.inputs) {
      const value = one.type === "checkbox" ? (one.checked ? "true" : "") : one.value.trim();
      if (value !== "") {
        values[name] = value;
      }
    }
    return values;
  }

  set values(values) {
    for (const [name, one] of this.inputs) {
      one.value = values[name] ?? "";
      one.checked = name in values;
    }
  }
}

function input(field, changed) {
  if (field.choices) {
    const options = Object.entries(field.choices).map(([value, text]) => element("option", { value }, text));
    return element("select", { onchange: changed }, options);
  }
  if (field.isSwitch) {
    return element("input", { type: "checkbox", onchange: changed });
  }
  const kind = field.number ? { type: "number", min: "1", step: "1" } : { type: "text", spellcheck: "false" };
  return element("input", { ...kind, autocomplete: "off", placeholder: field.example, oninput: changed });
}

function labelled(field, one) {
  return element("label", { class: field.isWide && "wide" }, element("span", {}, field.label), one);
}
