"""Rules about the keywords that a script gives classes of transformers and trl (DS68x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.refused_keywords import refused_keywords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.semantics.refused_keywords import RefusedKeyword


@rule("DS683", "unknown-training-keyword", severity="error", effects=("rejected",), kind="syntax", alone_on="names")
def unknown_training_keyword(config: Config) -> Iterator[Problem]:
    """A keyword that TrainingArguments, a config of trl or a trainer does not take."""
    for one in refused_keywords(config):
        yield Problem(
            None,
            one.span,
            _message(one),
            rejected("initialize"),
            help=_help(one),
            label=f"did you mean `{one.meant}`?" if one.meant else "unknown keyword",
            severity="info" if one.only else None,
            fix=_fix(one, config),
            subject=one.name,
        )


def _message(one: RefusedKeyword) -> str:
    of = f"`{one.shown}` has no keyword `{one.name}`"
    if one.removed_in:
        of = f"`{one.shown}` has no `{one.name}` since {one.library} {one.removed_in}"
    elif one.new_in:
        of = f"`{one.shown}` has no `{one.name}` before {one.library} {one.new_in}"
    return f"{of}: the call raises a TypeError" + (f" with {one.only}" if one.only else "")


def _help(one: RefusedKeyword) -> str:
    if one.belongs_to:
        renamed = f" as `{one.meant}`" if one.meant and one.meant != one.name else ""
        return f"Pass it to `{one.belongs_to}`{renamed}, which `{one.shown}` gets as `args`."
    if one.meant:
        return f"Write `{one.meant}`."
    if one.instead:
        return f"Use {one.instead} instead."
    if one.new_in:
        return f"Upgrade to {one.library} {one.new_in}, or delete the keyword."
    return "Delete the keyword."


def _fix(one: RefusedKeyword, config: Config) -> Fix | None:
    """The keyword that is meant, if it is written in the call, and not in a dict that this unpacks."""
    is_written = config.document.text[one.span.start : one.span.end] == one.name
    if not one.meant or one.belongs_to or not is_written or config.document.notebook is not None:
        return None
    return Fix(f"Write {one.meant}", "safe" if one.is_certain else "unsafe", [Edit(one.span, one.meant)])
