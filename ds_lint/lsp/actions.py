"""Quick fixes, all fixes at once, and comments that suppress a finding.

What a fix does is tried before it is offered, as ``--fix`` tries it: the finding disappears, and none is new.
"""

from __future__ import annotations

import time
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint.diagnostics.finding import Edit
from ds_lint.fixes.application import SAFE, fix_one
from ds_lint.fixes.suppressing import suppress
from ds_lint.lsp.diagnostics import InFile, diagnostic
from ds_lint.lsp.documents import Found
from ds_lint.output.text import counted
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.lsp.documents import LintResult, OpenDocument

FIX_ALL = "source.fixAll.ds-lint"
KINDS = (types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll, FIX_ALL)
_WITH_COMMENTS = ("jsonc", "json5", "hjson")  # languages
_MOST = 50  # findings whose fixes are tried, for a client that does not request all
_LONGEST = 1.0  # seconds to try them in
_MOST_LINES = 20_000  # to compare one by one


def actions(
    opened: OpenDocument, result: LintResult, context: types.CodeActionContext, place: types.Range
) -> list[types.CodeAction]:
    """What may be done about the findings in a range, and about all of them if a client asks for that."""
    found: list[types.CodeAction] = []
    if _wants(context, types.CodeActionKind.QuickFix.value, by_default=True):
        found += _quick_fixes(opened, result, place)
    if _wants(context, FIX_ALL, by_default=False):
        found += _fix_all(opened, result, FIX_ALL)
    return found


def _wants(context: types.CodeActionContext, kind: str, *, by_default: bool) -> bool:
    """Whether a client asks for a kind of action: a kind stands for all that begin with it."""
    if not context.only:
        return by_default
    kinds = (str(getattr(one, "value", one)) for one in context.only)
    return any(kind == one or kind.startswith(f"{one}.") for one in kinds)


def _quick_fixes(opened: OpenDocument, result: LintResult, place: types.Range) -> Iterator[types.CodeAction]:
    start, end = result.lines.span(place)
    numbered = enumerate(result.found)
    here = [one for one in numbered if one[1].finding.span.start <= end and start <= one[1].finding.span.end][:_MOST]
    suppressions: list[types.CodeAction] = []
    until = time.monotonic() + _LONGEST
    for number, (finding, report) in here:
        if time.monotonic() > until:
            break
        found = [diagnostic(Found(finding, report), InFile(result.lines, report.document), opened.uri, number)]
        if finding.fix is not None and (text := _fixed(result, report, finding)) is not None:
            is_safe = finding.fix.safety in SAFE
            title = finding.fix.title if is_safe else f"{finding.fix.title} (unsafe: needs your decision)"
            yield from _action(opened, result, title, text, diagnostics=found, is_preferred=is_safe or None)
        if (text := _suppressed(opened, result, report, finding)) is not None:
            suppressions += _action(opened, result, f"Ignore {finding.name} here", text, diagnostics=found)
    safeties = result.context.safeties
    is_safe_to_fix = [one.fix is not None and one.fix.safety in safeties for one, _ in result.found]
    if 1 < sum(is_safe_to_fix) <= _MOST and any(each.finding.fix is not None for _, each in here):
        yield from _fix_all(opened, result, types.CodeActionKind.QuickFix)
    yield from suppressions


def _fixed(result: LintResult, report: FileReport, finding: Finding) -> str | None:
    """The text with the fix of one finding; None if it would not do what it promises."""
    context = result.context
    after = fix_one(result.by_all(report), finding, context.lint_by_all, codes=context.codes)
    return after.document.text if after is not None else None


def _fix_all(opened: OpenDocument, result: LintResult, kind: str) -> Iterator[types.CodeAction]:
    """What ``ds-lint check --fix`` does to the text; none if that is nothing."""
    if not result.reports:
        return
    fixed = result.context.fixed([report.document for report in result.reports], result.context.safeties)
    number, text = sum(len(report.fixed or ()) for report in fixed), fixed[-1].document.text
    title = f"Fix all auto-fixable problems ({counted(number, 'finding')})"
    yield from _action(opened, result, title, text, kind=kind)


def _suppressed(opened: OpenDocument, result: LintResult, report: FileReport, finding: Finding) -> str | None:
    """The text with a comment that suppresses a finding; None if the language or the stack has no comments."""
    context = result.context
    if not context.takes_comments(report):
        return None
    document = report.document
    has_comments = document.has_own_comments or any(issue.kind == "comment" for issue in document.issues)
    if opened.language not in _WITH_COMMENTS and not has_comments:
        return None
    done = suppress(document, [finding], lambda changed: context.lint(changed, context.rules))
    return done.text if done.comments else None


def _action(
    opened: OpenDocument,
    result: LintResult,
    title: str,
    after: str,
    *,
    kind: str = types.CodeActionKind.QuickFix,
    diagnostics: list[types.Diagnostic] | None = None,
    is_preferred: bool | None = None,
) -> Iterator[types.CodeAction]:
    """The action that makes another text of the one that was linted; none where both are the same to the client."""
    lines = result.lines
    edits = [
        types.TextEdit(lines.range(Span(edit.span.start + lines.hidden, edit.span.end + lines.hidden)), edit.text)
        for edit in differences(lines.text[lines.hidden :], after.removeprefix(lines.text[: lines.hidden]))
    ]
    if edits:
        edit = types.WorkspaceEdit(changes={opened.uri: edits})
        yield types.CodeAction(title, kind, diagnostics, is_preferred, edit=edit)


def differences(before: str, after: str) -> list[Edit]:
    """The edits that make one text of another, as small as a comparison of their lines makes them."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if len(old) + len(new) > _MOST_LINES:
        old, new = [before], [after]
    places = _places(old)
    edits = []
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            edits.append(_trimmed(before, places[start], places[end], "".join(new[new_start:new_end])))
    return edits


def _places(lines: Sequence[str]) -> list[int]:
    """Where each line begins, and where the last one ends."""
    places = [0]
    for line in lines:
        places.append(places[-1] + len(line))
    return places


def _trimmed(text: str, start: int, end: int, new: str) -> Edit:
    """The edit without what stays the same at its ends; a line break of two characters is not parted."""
    same = _common(text[start:end], new)
    same -= text.startswith("\r\n", start + same - 1)
    start, new = start + same, new[same:]
    same = _common(text[start:end][::-1], new[::-1])
    same -= text.startswith("\r\n", end - same - 1)
    return Edit(Span(start, end - same), new[: len(new) - same])


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
