/** The address of a page: `/DS101.md`, `/zero_optimization.stage.md`. Pages link to each other by such names. */
export function pagePath(subject: string): string {
  return `/${subject.trim()}.md`;
}

/** What a page is about; a link from one page to another has the rule's name too: `/DS102-misplaced-key.md`. */
export function subjectOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.md$/, "");
  return /^DS\d{3}(?=-)/.exec(name)?.[0] ?? name;
}

/** The code of a finding, in whichever of its two forms the editor has it. */
export function codeOf(finding: {
  readonly code?: string | number | { readonly value: string | number } | undefined;
}): string {
  const { code } = finding;
  return String(typeof code === "object" ? code.value : (code ?? ""));
}
