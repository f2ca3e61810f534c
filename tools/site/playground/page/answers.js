// What ds-lint answers, as elements.

import { element, prose } from "./elements.js";
import { explanation } from "./explanation.js";

const SITE = new URL("..", import.meta.url).href;
const PUBLISHED = "https://ds-lint.readthedocs.io/en/latest/"; // in a finding; this may be another copy of the site
const NOUNS = { error: "error", warning: "warning", info: "note" };

/** How many findings there are, in words. */
export function counted(findings) {
  const parts = Object.entries(NOUNS)
    .map(([severity, noun]) => [findings.filter((one) => one.severity === severity).length, noun])
    .filter(([count]) => count > 0)
    .map(([count, noun]) => `${count} ${noun}${count === 1 ? "" : "s"}`);
  return parts.join(", ") || "No findings";
}

/** The findings of a report; `actions` has what the user can do with one. */
export function findings(report, actions) {
  return element(
    "ol",
    { class: "findings" },
    report.findings.map((finding) => item(finding, actions)),
  );
}

function item(finding, { go, fix, explain }) {
  const { line, column } = finding.span.start;
  const place = `${finding.path}:${line}:${column}`;
  return element(
    "li",
    { class: finding.severity },
    element(
      "button",
      { type: "button", class: "go", onclick: () => go(finding) },
      element("strong", {}, `${NOUNS[finding.severity]} ${finding.code}`),
      ` ${finding.name} `,
      element("span", { class: "place" }, place),
    ),
    element("p", {}, prose(finding.message)),
    finding.help && element("p", { class: "help" }, prose(finding.help)),
    finding.related.length > 0 && element("ul", {}, finding.related.map(relation)),
    element(
      "div",
      { class: "actions" },
      finding.fix &&
        element(
          "button",
          { type: "button", onclick: () => fix(finding) },
          prose(`${finding.fix.title} (${finding.fix.safety})`),
        ),
      details(finding, explain),
    ),
  );
}

function relation({ path, span, label }) {
  return element("li", {}, `${path}${span ? `:${span.start.line}` : ""}: `, prose(label));
}

function details(finding, explain) {
  const page = finding.url.startsWith(PUBLISHED) ? SITE + finding.url.slice(PUBLISHED.length) : finding.url;
  const link = element("a", { href: page }, `The page of ${finding.advisory ?? finding.code}`);
  const one = element("details", {}, element("summary", {}, `Explain ${finding.code}`), link);
  one.addEventListener(
    "toggle",
    async () => {
      link.before(...explanation(await explain(finding.advisory ?? finding.code)));
    },
    { once: true },
  );
  return one;
}

/** What was checked, and what ds-lint says beside the findings. */
export function circumstances(report, errors) {
  const files = report?.files ?? [];
  const targets = new Set(files.filter((file) => !file.error).map(target));
  return [
    ...[...targets].map((text) => element("p", { class: "target" }, text)),
    ...(report?.notes ?? []).map((note) => element("p", { class: "note" }, prose(note))),
    ...files
      .filter((file) => file.error)
      .map((file) => element("p", { class: "problem" }, `${file.path}: ${file.error}`)),
    report === undefined && errors && element("pre", { class: "problem" }, errors),
  ].filter(Boolean);
}

function target(file) {
  const releases = Object.entries(file.target).map(([library, release]) => `${library} ${release}`);
  return `Checked against ${releases.join(", ")}; stack ${file.stack ?? "unknown: all that may load it"}`;
}

/** The values of a config as the stack uses them. */
export function values(given) {
  const shown = element(
    "tbody",
    {},
    given.values.map((value) =>
      element(
        "tr",
        { class: value.by === "default" && "default" },
        element("th", { scope: "row" }, element("code", {}, value.key)),
        element("td", {}, value.is_known ? element("code", {}, value.shown) : "unknown"),
        element("td", {}, value.source),
      ),
    ),
  );
  const head = ["Key", "Value", "Source"].map((name) => element("th", { scope: "col" }, name));
  return [
    ...given.rejected.map((one) => element("p", { class: "problem" }, `${one.code}: `, prose(one.message))),
    ...(given.notes ?? []).map((note) => element("p", { class: "note" }, prose(note))),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, head)), shown)),
  ];
}

/** Text in columns, which the keyboard scrolls. */
export function columns(label, text) {
  return element("pre", { tabindex: "0", role: "region", "aria-label": label }, text);
}

/** The findings with all that leads to them, as Markdown for an issue. */
export function markdown(files, options, report, link) {
  const flags = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  const texts = Object.entries(files).map(([name, text]) => {
    const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
    return `\`${name}\`:\n\n${fence}${name.split(".").at(-1)}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
  });
  const found = report.findings.map(
    ({ path, span: { start }, code, severity, message }) =>
      `- \`${path}:${start.line}:${start.column}\` ${NOUNS[severity]} ${code}: ${message}`,
  );
  const targets = [...new Set(report.files.filter((file) => !file.error).map(target))];
  return [
    ...texts,
    `ds-lint ${report.tool.version}${flags.length ? ` with \`${flags.join(" ")}\`` : ""}: ${counted(report.findings)}.`,
    ...targets.map((text) => `${text}.`),
    "",
    ...found,
    "",
    `[Open in the playground](${link})`,
    "",
  ].join("\n");
}
