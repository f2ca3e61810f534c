/** The address of a page: `/DS101.md`, `/zero_optimization.stage.md`. Pages link to each other by such names. */
export function pagePath(subject: string): string {
  return `/${subject.trim()}.md`;
}

/** What a page is about; a link from one page to another has the rule's name too: `/DS102-misplaced-key.md`. */
export function subjectOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.md$/, "");
  return /^DS\d{3}(?=-)/.exec(name)?.[0] ?? name;
}

/** The option for the language of the editor, where pages are translated into it: `zh-cn` is `zh`. */
export function languageOption(editor: string): string[] {
  const language = editor.split("-", 1)[0] ?? "";
  return ["zh", "ko"].includes(language) ? ["--lang", language] : [];
}

/** What `ds-lint explain` prints, as Markdown: the page of a rule is, and what it says of a key are aligned columns. */
export function asMarkdown(printed: string): string {
  return printed.startsWith("# ") ? printed : `\`\`\`text\n${printed.trimEnd()}\n\`\`\`\n`;
}

/** The code of a finding, in whichever of its two forms the editor has it. */
export function codeOf(finding: {
  readonly code?: string | number | { readonly value: string | number } | undefined;
}): string {
  const { code } = finding;
  return String(typeof code === "object" ? code.value : (code ?? ""));
}
