// The page of a rule, as `ds-lint explain` prints it, in short.

import { element, prose } from "./elements.js";

const SECTIONS = ["What it catches", "Why it matters", "How to fix"];

/** The sections of a page that explain a finding. */
export function explanation(page) {
  const sections = page.split(/^## /m).slice(1);
  return sections
    .map((section) => [section.slice(0, section.indexOf("\n")), section.slice(section.indexOf("\n"))])
    .filter(([title]) => SECTIONS.includes(title))
    .flatMap(([title, text]) => [element("h4", {}, title), ...paragraphs(text)]);
}

function paragraphs(text) {
  return text
    .trim()
    .split(/\n{2,}/)
    .filter((paragraph) => !/^(?:\||```)/.test(paragraph)) // tables and examples are on the page
    .map((paragraph) =>
      /^[-*] /.test(paragraph)
        ? element(
            "ul",
            {},
            paragraph.split(/\n[-*] /).map((item) => element("li", {}, prose(plain(item.replace(/^[-*] /, ""))))),
          )
        : element("p", {}, prose(plain(paragraph))),
    );
}

/** A text without the addresses of its links, and without emphasis. */
function plain(text) {
  return text
    .replace(/\[([^\]]+)\]\([^)]*\)/g, "$1")
    .replace(/(^|\s)\*{1,2}([^*\n]+)\*{1,2}/g, "$1$2")
    .replace(/\s*\n\s*/g, " ");
}
