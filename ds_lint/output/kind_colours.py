"""How the kinds of memory look in every picture: a colour, and a texture with which it is known without the colour.

The colours do for a light and for a dark ground. Neighbours in the order of a bar differ in lightness, which people see
who tell no hues apart, and most differ in texture.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal, TypeAlias

    Texture: TypeAlias = Literal["plain", "rising", "falling", "dotted", "upright", "level"]

HATCH = "rgba(255,255,255,.45)"


class Look(NamedTuple):
    """The colour and the texture of a kind."""

    colour: str
    texture: Texture


KNOWN = {  # in the order in which they lie in a bar
    "parameters": Look("#4285c8", "plain"),
    "gradients": Look("#e9a23b", "rising"),
    "master_weights": Look("#1f7f68", "dotted"),
    "optimizer_states": Look("#c084d0", "upright"),
    "buckets": Look("#5557b0", "plain"),
    "live": Look("#dcc64a", "falling"),
    "activations": Look("#c9543f", "plain"),
    "reference_model": Look("#8db9e0", "level"),
    "buffers": Look("#6d5a8c", "dotted"),
    "page_locked": Look("#d7a3b3", "rising"),
    "processes": Look("#7db4c0", "plain"),
}
LAST = {  # which lie at the end
    "allowance": Look("#aab2bc", "falling"),
    "rest_of_the_peak": Look("#68727e", "plain"),
}
OTHERS = (  # of kinds that have none of their own, in turn
    Look("#8f3d78", "plain"),
    Look("#9fb540", "rising"),
    Look("#7a5534", "dotted"),
    Look("#6cc0cc", "level"),
    Look("#3d7a34", "upright"),
    Look("#e08fb0", "dotted"),
)
# A texture as the background of CSS, and as a square of an SVG pattern: its side, and what is drawn in it.
_LINES = "repeating-linear-gradient({angle}deg,{hatch} 0 2px,transparent 2px {side}px)"
_IN_CSS = {
    "rising": _LINES.format(angle=45, hatch=HATCH, side=8),
    "falling": _LINES.format(angle=-45, hatch=HATCH, side=8),
    "dotted": f"radial-gradient({HATCH} 25%,transparent 30%) 0 0/7px 7px",
    "upright": _LINES.format(angle=90, hatch=HATCH, side=7),
    "level": _LINES.format(angle=0, hatch=HATCH, side=6),
}
_IN_SVG = {
    "rising": (8, '<path d="M-2 2L2 -2M0 8L8 0M6 10L10 6"/>'),
    "falling": (8, '<path d="M-2 6L2 10M0 0L8 8M6 -2L10 2"/>'),
    "dotted": (7, '<circle cx="3.5" cy="3.5" r="1.7"/>'),
    "upright": (7, '<path d="M1 0V7"/>'),
    "level": (6, '<path d="M0 1H6"/>'),
}


def ordered(kinds: Iterable[str]) -> list[str]:
    """Kinds in the order in which they lie in a bar; those that have no look of their own keep theirs, near the end."""
    found = list(dict.fromkeys(kinds))
    others = [kind for kind in found if kind not in KNOWN and kind not in LAST]
    return [*(one for one in KNOWN if one in found), *others, *(one for one in LAST if one in found)]


def looks(kinds: Iterable[str]) -> dict[str, Look]:
    """Kinds in their order, with their looks."""
    found = ordered(kinds)
    others = [kind for kind in found if kind not in KNOWN and kind not in LAST]
    turns = {kind: OTHERS[index % len(OTHERS)] for index, kind in enumerate(others)}
    return {kind: (KNOWN | LAST | turns)[kind] for kind in found}


def css(kinds: Iterable[str]) -> str:
    """The classes ``kind-0``, ``kind-1`` and so on of an HTML page, in the order of the kinds."""
    return "".join(f".kind-{index}{{background:{_in_css(look)}}}\n" for index, look in enumerate(looks(kinds).values()))


def svg(kinds: Iterable[str]) -> tuple[str, str]:
    """The same classes of an SVG: its patterns, and its rules."""
    patterns, rules = "", ""
    for index, look in enumerate(looks(kinds).values()):
        if look.texture == "plain":
            rules += f".kind-{index}{{fill:{look.colour}}}"
            continue
        side, drawn = _IN_SVG[look.texture]
        patterns += (
            f'<pattern id="texture-{index}" width="{side}" height="{side}" patternUnits="userSpaceOnUse">'
            f'<rect width="{side}" height="{side}" fill="{look.colour}"/>'
            f'<g class="hatch">{drawn}</g></pattern>'
        )
        rules += f".kind-{index}{{fill:url(#texture-{index})}}"
    hatch = ".hatch path{stroke:#fff;stroke-opacity:.45;stroke-width:2}.hatch circle{fill:#fff;fill-opacity:.45}"
    return patterns, hatch + rules


def _in_css(look: Look) -> str:
    return look.colour if look.texture == "plain" else f"{_IN_CSS[look.texture]} {look.colour}"
