"""One finding as ``full`` tells it: headline, frames, footers."""

from __future__ import annotations

from ds_lint.diagnostics.report import page_url
from ds_lint.output.frame import Mark, Sheet, frame, margin_for
from ds_lint.output.sentences import doubt, outcome
from ds_lint.output.terminal import FRAME, SEVERITY, STRONG
from ds_lint.output.text import shown_path, visible, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding, Fix, Related
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document


def story(report: Report, file: FileReport, finding: Finding, terminal: Terminal) -> list[str]:
    """The lines of one finding."""
    excerpts, unread = _excerpts(report, file, finding)
    sheet = Sheet(max(margin_for(document, marks) for _, document, marks in excerpts), terminal)
    lines = _headline(finding, terminal)
    for path, document, marks in excerpts:
        place = f"{shown_path(path)}:{document.shown_place(marks[0].span.start)}"
        lines.append(sheet.heading("-->" if marks[0].primary else ":::", place))
        lines += frame(document, marks, sheet)
    for related in unread:
        label = f": {visible(related.label)}" if related.label else ""
        lines.append(sheet.heading(":::", shown_path(related.path or "") + label))
    if finding.effects:  # else the message says what happens
        lines += _footer("effect", f"{outcome(finding)}; the stack is unknown (set --stack)", sheet)
    if finding.doubts:
        lines += _footer("unknown", doubt(finding), sheet)
    if finding.confirmed:
        lines += _footer("run", f"the training run confirms it: {finding.confirmed}", sheet)
    if finding.releases:
        lines += _footer("releases", finding.affected_releases, sheet)
    if finding.help and not _does_the_fix_help(finding):
        lines += _footer("help", finding.help, sheet)
    if finding.fix:
        lines += _footer("fix", f"{finding.fix.title} ({_fixed_how(finding.fix, file)})", sheet)
    return lines


def _does_the_fix_help(finding: Finding) -> bool:
    """Whether ``--fix`` does what the help says, so that its title is enough."""
    return finding.fix is not None and finding.fix.applied_with == "safe"


def _fixed_how(fix: Fix, file: FileReport) -> str:
    """How safe it is, and why it is not applied, where that is known."""
    if not fix.refusal or fix.applied_with == fix.safety or (fix.applied_with and file.applies_unsafe):
        return fix.safety
    return f"{fix.safety}, {'only with --unsafe-fixes' if fix.applied_with else 'not applied'}: {fix.refusal}"


def _excerpts(
    report: Report, file: FileReport, finding: Finding
) -> tuple[list[tuple[str, Document, list[Mark]]], list[Related]]:
    """What to underline, file by file and the finding's own first, and the places in files that were not read."""
    place = file.place(finding)
    path = place.path or file.path
    primary = Mark(place.span, place.label, SEVERITY[finding.severity], primary=True)
    excerpts = {path: (path, file.shown_document(finding), [primary])}
    unread = []
    for related in file.related(finding):
        path = related.path or file.path
        document = file.document if path == file.path else report.document(path)
        if document:
            mark = Mark(related.span, related.label, FRAME, primary=False)
            excerpts.setdefault(path, (path, document, []))[2].append(mark)
        else:
            unread.append(related)
    return list(excerpts.values()), unread


def _headline(finding: Finding, terminal: Terminal) -> list[str]:
    taken = len(f"{finding.severity}[{finding.code}] {finding.name}: ")
    first, *rest = (terminal.paint(line, STRONG) for line in wrap(visible(finding.message), terminal.width, taken, 4))
    code = terminal.link(finding.code, page_url(finding))
    rule = terminal.paint(f"{finding.severity}[{code}]", SEVERITY[finding.severity])
    return [f"{rule} {finding.name}: {first}", *rest]


def _footer(title: str, text: str, sheet: Sheet) -> list[str]:
    """``= title: text``; what does not fit hangs below the text."""
    indent = sheet.margin + len(f" = {title}: ")
    lines: list[str] = []
    for paragraph in text.split("\n"):
        first, *rest = wrap(visible(paragraph), sheet.terminal.width, indent, indent)
        lines += [" " * indent + first, *rest]
    start = sheet.heading(" =", sheet.terminal.paint(title, STRONG))
    return [f"{start}: {lines[0][indent:]}", *lines[1:]]
