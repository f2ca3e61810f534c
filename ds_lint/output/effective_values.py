"""The values of a config as the stack uses it, for people and for programs."""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.output.terminal import ADDED, QUIET, REMOVED
from ds_lint.output.text import visible, width_of, wrap
from ds_lint.source.spelling import AUTO, as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.output.terminal import Terminal
    from ds_lint.semantics.effective import Value

    Json = dict[str, object]

WIDEST = 60  # columns of a value in a pipe, beyond which its source is not aligned
GAP = 3  # columns before the source
SIGNS = {"- ": REMOVED, "+ ": ADDED}


def lines(values: list[Value], terminal: Terminal, signs: list[str] | None = None) -> list[str]:
    """A line for each value, with its source beside it, or below it if both do not fit; ``signs`` come before."""
    signs = signs or [""] * len(values)
    texts = [visible(f"{sign}{value.key} = {_shown(value)}") for sign, value in zip(signs, values, strict=True)]
    sources = [visible(value.source) for value in values]
    room = terminal.width
    widest = WIDEST if room is None else room - GAP - min(max(map(width_of, sources), default=0), room // 2)
    width = max((width_of(text) for text in texts if width_of(text) <= widest), default=0)
    rows = []
    for sign, text, source in zip(signs, texts, sources, strict=True):
        first, *rest = wrap(source, room, taken=width + GAP, indent=width + GAP)
        if room is not None and width_of(text) > width:
            shown, rest = [], [" " * (width + GAP) + first, *rest]
        else:
            shown = [" " * (max(width - width_of(text), 0) + GAP) + terminal.paint(first, QUIET)]
        rows.append((terminal.paint(text, SIGNS[sign]) if sign else text) + "".join(shown))
        rows += [terminal.paint(line, QUIET) for line in rest]
    return rows


def as_object(value: Value) -> Json:
    """One value for programs."""
    is_known = value.value is not UNKNOWN
    return {
        "key": value.key,
        "is_known": is_known,
        "value": without_unknown(value.value) if is_known else None,
        "by": value.by,
        "source": value.source,
    }


def _shown(value: Value) -> str:
    """The value as the config would have it; a secret is masked here, so that its column has the width of the mask."""
    if value.value is UNKNOWN:
        return "?"
    from ds_lint.output.secrets import MASK, is_secret

    is_hidden = isinstance(value.value, str) and is_secret(value.path[-1])
    return as_json(MASK if is_hidden and value.value != AUTO else without_unknown(value.value))


def without_unknown(value: object) -> object:
    """A value as JSON can hold it: what is unknown in an array is null, and infinite numbers are texts."""
    if isinstance(value, list):
        return [without_unknown(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return str(value)
    return None if value is UNKNOWN else value
