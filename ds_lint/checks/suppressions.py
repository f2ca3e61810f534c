"""Rules about the comments that are addressed to ds-lint itself (DS0xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.diagnostics.problem import ADVICE, Problem
from ds_lint.diagnostics.rule import named, rule
from ds_lint.diagnostics.suppression import suppressions_of
from ds_lint.knowledge.suggestions import no_such_rule
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.suppression import Suppression, Word
    from ds_lint.semantics.config import Config

_HOW = "Name the rules one by one, by code or name: `ds-lint: ignore[unknown-key, DS105] reason`."


@rule("DS012", "unclear-suppression", severity="warning", effects=("advice",), kind="syntax")
def unclear_suppression(config: Config) -> Iterator[Problem]:
    """Comments for ds-lint that name no rule, or none that there is, or that stand too far down."""
    for suppression in suppressions_of(config.document):
        if suppression.is_too_late:
            yield Problem(
                None,
                suppression.span,
                "a comment about the whole file has to stand above its first key: here it holds nothing back",
                ADVICE,
                help="Move it to the top, or write `ignore` for the next line alone.",
                label="too far down",
            )
        if not suppression.words:
            yield Problem(
                None,
                suppression.span,
                "this comment names no rule, so it holds nothing back",
                ADVICE,
                help=_HOW,
                label="which rules?",
            )
        for word in suppression.words:
            if named(word.text) is None:
                yield Problem(
                    None,
                    word.span,
                    f"a comment holds nothing back with this: {no_such_rule(word.text)}",
                    ADVICE,
                    help=_HOW,
                    label="no rule",
                )


@rule("DS013", "unused-suppression", severity="info", effects=("advice",), kind="syntax")
def unused_suppression(config: Config) -> Iterator[Problem]:
    """Comments for ds-lint that hold nothing back; it is known after all other findings (``suppression.apply``)."""
    if config.is_upgrade:
        return  # only what changes is reported
    for suppression in suppressions_of(config.document):
        place = "in this file" if suppression.line is None else f"in line {suppression.line}"
        for word in suppression.unused:
            yield Problem(
                None,
                word.span,
                f"there is no finding of `{word.text}` {place}, so this comment holds nothing back",
                ADVICE,
                help="Delete it, if no other stack, release or fact needs it.",
                label="unused",
                fix=_deletion(config.document.text, suppression, word),
            )


def _deletion(text: str, suppression: Suppression, word: Word) -> Fix | None:
    """Delete the comment where none of it is needed; one that says something before may be needed for that."""
    comment = suppression.comment
    says_more = text[comment.start : suppression.span.start].strip("#/* \t") != ""
    if says_more or len(suppression.unused) < len(suppression.words) or word is not suppression.words[0]:
        return None
    start = comment.start - len(text[: comment.start]) + len(text[: comment.start].rstrip(" \t"))
    return Fix("Delete the comment", "unsafe", [Edit(Span(start, comment.end), "")])
