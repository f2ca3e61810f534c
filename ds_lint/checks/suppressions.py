"""Rules about suppressions, the comments that are addressed to ds-lint (DS0xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.diagnostics.problem import ADVICE, Problem
from ds_lint.diagnostics.rule import named, rule
from ds_lint.diagnostics.suppression import suppressions_of
from ds_lint.knowledge import advisories
from ds_lint.knowledge.suggestions import no_such_rule
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.suppression import Suppression, Word
    from ds_lint.semantics.config import Config

_HOW = "Name each rule by code or name: `ds-lint: ignore[unknown-key, DS105] reason`."


@rule("DS012", "unclear-suppression", severity="warning", effects=("advice",), kind="syntax")
def unclear_suppression(config: Config) -> Iterator[Problem]:
    """A suppression names no rule or an unknown rule, or is too far down in the file."""
    for suppression in suppressions_of(config.document):
        if suppression.is_too_late:
            yield Problem(
                None,
                suppression.span,
                "a comment about the whole file must be above its first key: here it suppresses nothing",
                ADVICE,
                help="Move it to the top, or write `ignore` for the next line only.",
                label="too far down",
            )
        if not suppression.words:
            yield Problem(
                None,
                suppression.span,
                "this comment names no rule, so it suppresses nothing",
                ADVICE,
                help=_HOW,
                label="no rule named",
            )
        for word in suppression.words:
            if named(word.text) is None and advisories.named(word.text) is None:
                yield Problem(
                    None,
                    word.span,
                    f"this name suppresses nothing: {no_such_rule(word.text)}",
                    ADVICE,
                    help=_HOW,
                    label="unknown rule",
                )


@rule("DS013", "unused-suppression", severity="info", effects=("advice",), kind="syntax")
def unused_suppression(config: Config) -> Iterator[Problem]:
    """A suppression suppresses nothing; this is known after all other findings (``suppression.apply``)."""
    if config.is_upgrade:
        return  # an upgrade reports only what changes
    for suppression in suppressions_of(config.document):
        place = "in this file" if suppression.line is None else f"on line {suppression.line}"
        for word in suppression.unused:
            unwanted = "the comment" if len(suppression.unused) == len(suppression.words) else f"`{word.text}`"
            yield Problem(
                None,
                word.span,
                f"unused suppression: there is no `{word.text}` finding {place}",
                ADVICE,
                help=f"Delete {unwanted}, unless another stack, release or fact needs it.",
                label="unused",
                fix=_deletion(config.document.text, suppression, word),
            )


def _deletion(text: str, suppression: Suppression, word: Word) -> Fix | None:
    """Delete the comment if none of its rules is needed and it has no other text before them."""
    comment = suppression.comment
    says_more = text[comment.start : suppression.span.start].strip("#/* \t") != ""
    if says_more or len(suppression.unused) < len(suppression.words) or word is not suppression.words[0]:
        return None
    start = comment.start - len(text[: comment.start]) + len(text[: comment.start].rstrip(" \t"))
    return Fix("Delete the comment", "unsafe", [Edit(Span(start, comment.end), "")])
