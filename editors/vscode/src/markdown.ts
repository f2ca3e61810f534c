const BETWEEN_PARTS = "\n\n---\n\n";
const FINDING = /^\*\*DS\d{3} /;

/**
 * What the server says of a place but for its findings: VS Code shows those itself, above the hover. Other editors do
 * not, so the server sends both.
 */
export function withoutFindings(hover: string): string {
  return hover
    .split(BETWEEN_PARTS)
    .filter((part) => !FINDING.test(part))
    .join(BETWEEN_PARTS);
}
