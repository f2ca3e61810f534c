"""``ds-lint memory --plot``: bars by kind against the capacity of a GPU and of a host, as SVG, HTML or PNG.

The SVG is text with words in it, so that it can be searched, read aloud and scaled. Its colours follow the theme of the
reader; kinds differ in lightness too, and each has its name in the legend, its figure in a title, and a place in the
order of the legend, so that no meaning hangs on a colour alone.
"""

from __future__ import annotations

from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.output.memory_table import in_units, label_of, setup_in_words, shown
from ds_lint.source import replacement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.memory.answer import Answer
    from ds_lint.memory.band import Band
    from ds_lint.memory.estimate import Estimate

WIDTH, RIGHT = 860, 110  # of the drawing, and of the sums at the right
_BAR, _STEP = 22, 40  # the height of a bar, and the distance between two
_FARTHEST = 3  # times the capacity, where a longer bar is cut off
_LETTER = 7.2  # the width of a letter, a little more than it is on average

_REST = "rest_of_the_peak"  # what the highest peak has beside the parts of a step

# By kind in the order of the legend: the fill on a light and on a dark ground (a palette that colour-blind people tell
# apart, https://www.nature.com/articles/nmeth.1618).
COLOURS = {
    "parameters": ("#0072b2", "#4ba3d9"),
    "gradients": ("#e69f00", "#e69f00"),
    "master_weights": ("#009e73", "#2fbf96"),
    "optimizer_states": ("#56b4e9", "#8fd0f5"),
    "buckets": ("#cc79a7", "#dd9abf"),
    "live": ("#8a8a00", "#f0e442"),
    "activations": ("#d55e00", "#f08a3c"),
    "allowance": ("#7f7f7f", "#a8a8a8"),
    _REST: ("#4d4d4d", "#d0d0d0"),
}


class Bar(NamedTuple):
    """A setup at a place: the likely bytes by kind, the band of the whole, and the memory that there is."""

    label: str
    place: str
    kinds: dict[str, float]
    whole: Band
    room: int | None


def bars(answer: Answer) -> list[Bar]:
    """The bars of the setup, and of every row of a sweep; of the host only if it holds anything."""
    setups = [("this config", answer.estimate)] if not answer.rows else []
    for row in answer.rows:
        mark = " (this config)" if row.is_chosen else ""
        setups.append((f"{row.words.removeprefix('ZeRO ')}{mark}", row.estimate))
    found = [bar for label, estimate in setups for bar in _bars(label, estimate, answer)]
    return sorted(found, key=lambda bar: bar.place != "per GPU")


def _bars(label: str, estimate: Estimate, answer: Answer) -> Iterator[Bar]:
    on_host = {name: amount.bytes for name, amount in estimate.host.items()}
    places = (
        ("per GPU", estimate.held, estimate.gpu_bytes, answer.capacity.gpu),
        ("per host", on_host, estimate.host_bytes, answer.capacity.host),
    )
    for place, parts, whole, room in places:
        kinds = {name: parts[name].likely for name in COLOURS if name in parts and parts[name].likely}
        rest = whole.likely - sum(kinds.values())
        if rest >= 1:
            kinds[_REST] = rest
        if place == "per GPU" or whole.most:
            yield Bar(label, place, kinds, whole, room)


def svg(answer: Answer) -> str:
    """The drawing as a document of its own."""
    drawn = bars(answer)
    places = list(dict.fromkeys(bar.place for bar in drawn))
    legend, top = _legend(drawn)
    groups = []
    left = round(32 + _LETTER * max(len(bar.label) for bar in drawn))
    for place in places:
        group = [bar for bar in drawn if bar.place == place]
        groups.append(_group(place, group, top, _Scale(left, _longest(group))))
        top += 44 + _STEP * len(group)
    title = f"Memory of {answer.name}: {setup_in_words(answer.estimate.setup)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        'role="img" aria-labelledby="title description">\n'
        f'<title id="title">{escape(title)}</title>\n'
        f'<desc id="description">{escape(_description(drawn))}</desc>\n'
        f"<style>{_style()}</style>\n"
        f'<rect class="ground" width="{WIDTH}" height="{top}"/>\n'
        f'<text class="title" x="16" y="28">{escape(_shortened(title))}</text>\n'
        f"{legend}\n{''.join(groups)}</svg>\n"
    )


def page(answer: Answer) -> str:
    """A page with the drawing, and the same as a table."""
    title = escape(f"Memory of {answer.name}")
    rows = "".join(
        f"<tr><th scope='row'>{escape(bar.label)}</th><td>{bar.place}</td><td>{escape(shown(bar.whole))}</td>"
        f"<td>{in_units(bar.room) if bar.room is not None else 'not known'}</td></tr>"
        for bar in bars(answer)
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<style>:root{color-scheme:light dark}body{font:15px system-ui,sans-serif;margin:2rem auto;max-width:900px;"
        "padding:0 1rem}svg{max-width:100%;height:auto}table{border-collapse:collapse}"
        "th,td{padding:.25rem .75rem;text-align:left}td{font-variant-numeric:tabular-nums}</style></head>\n"
        f"<body><h1>{title}</h1>\n{svg(answer)}"
        "<table><thead><tr><th>setup</th><th>where</th><th>takes</th><th>memory</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></body></html>\n"
    )


def write_png(answer: Answer, path: str) -> None:
    """The bars as a picture; raises ImportError if matplotlib is not installed."""
    from matplotlib.figure import Figure  # without pyplot, which looks for a display

    drawn = bars(answer)
    places = list(dict.fromkeys(bar.place for bar in drawn))
    figure = Figure(figsize=(10, 1.6 + 0.5 * len(drawn)), layout="constrained")
    axes = figure.subplots(len(places), 1, squeeze=False)
    for place, axis in zip(places, axes[:, 0], strict=True):
        group = [bar for bar in drawn if bar.place == place]
        for kind in _kinds(group):
            left = [_start(bar, kind) / 2**30 for bar in group]
            sizes = [bar.kinds.get(kind, 0) / 2**30 for bar in group]
            axis.barh([bar.label for bar in group], sizes, left=left, color=COLOURS[kind][0], label=label_of(kind))
        room = group[0].room
        if room is not None:
            axis.axvline(room / 2**30, color="black", linestyle="--", label=f"capacity {in_units(room)}")
        axis.invert_yaxis()
        axis.set_xlabel(f"GiB {place}")
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    figure.suptitle(f"{answer.name}: {setup_in_words(answer.estimate.setup)}", fontsize=10)
    picture = BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    replacement.write(path, picture.getvalue(), is_report=True)


class _Scale(NamedTuple):
    """Where bytes are drawn, right of the names of the bars; what is more than ``longest`` is cut off."""

    left: int
    longest: float

    def x(self, size: float) -> float:
        """The place of so many bytes."""
        return self.left + min(size / self.longest, 1) * (WIDTH - self.left - RIGHT)


def _longest(group: Sequence[Bar]) -> float:
    """The bytes of the longest bar that is drawn: what fits stays readable beside what does not by far."""
    room = group[0].room
    most = max(*(bar.whole.most for bar in group), room or 0, 1)
    return most if room is None else min(most, _FARTHEST * room)


def _group(place: str, group: Sequence[Bar], top: int, scale: _Scale) -> str:
    """The bars of a place on one scale, with the line of the capacity."""
    room = group[0].room
    bottom = top + 18 + _STEP * len(group)
    lines = [f'<text class="place" x="16" y="{top + 4}">{place}</text>\n']
    for index, bar in enumerate(group):
        y = top + 18 + index * _STEP
        lines.append(f'<text x="16" y="{y + 15}">{escape(bar.label)}</text>\n')
        for kind in _kinds([bar]):
            begin, end = (scale.x(_start(bar, kind) + more) for more in (0, bar.kinds[kind]))
            title = escape(f"{label_of(kind)}: {in_units(bar.kinds[kind])}")
            lines.append(
                f'<rect class="{kind}" x="{begin:.1f}" y="{y}" width="{end - begin:.1f}" height="{_BAR}">'
                f"<title>{title}</title></rect>\n"
            )
        if bar.whole.likely > scale.longest:
            lines.append(_cut(y))
        elif not bar.whole.is_exact:
            lines.append(_whisker(bar.whole, y, scale))
        over = " over" if room is not None and bar.whole.least > room else ""
        lines.append(
            f'<text class="sum{over}" x="{WIDTH - RIGHT + 12}" y="{y + 15}">{in_units(bar.whole.likely)}</text>\n'
        )
    if room is not None:
        x = scale.x(room)
        lines.append(f'<line class="room" x1="{x:.1f}" x2="{x:.1f}" y1="{top + 8}" y2="{bottom - 10}"/>\n')
        lines.append(f'<text class="room" x="{x:.1f}" y="{top + 4}">capacity {in_units(room)}</text>\n')
    return "".join(lines)


def _cut(y: int) -> str:
    """Two slanting lines through the end of a bar that goes on."""
    x = WIDTH - RIGHT - 16
    return f'<path class="cut" d="M{x} {y + _BAR + 3}l8 -{_BAR + 6}M{x + 6} {y + _BAR + 3}l8 -{_BAR + 6}"/>\n'


def _whisker(whole: Band, y: int, scale: _Scale) -> str:
    """A line from the least to the most."""
    x1, x2, middle = scale.x(whole.least), scale.x(whole.most), y + _BAR / 2
    return (
        f'<path class="bounds" d="M{x1:.1f} {middle - 5}v10M{x1:.1f} {middle}H{x2:.1f}M{x2:.1f} {middle - 5}v10">'
        f"<title>{in_units(whole.least)} to {in_units(whole.most)}</title></path>\n"
    )


def _legend(drawn: Sequence[Bar]) -> tuple[str, int]:
    """What the colours mean, in as many lines as it takes, and where the bars can begin below it."""
    x, y, items = 16.0, 48, []
    for kind in _kinds(drawn):
        text = label_of(kind)
        if x + 30 + len(text) * _LETTER > WIDTH:
            x, y = 16.0, y + 22
        items.append(f'<rect class="{kind}" x="{x:.0f}" y="{y}" width="12" height="12"/>')
        items.append(f'<text x="{x + 18:.0f}" y="{y + 11}">{text}</text>')
        x += 34 + len(text) * _LETTER
    return "".join(items), y + 48


def _kinds(drawn: Sequence[Bar]) -> list[str]:
    """The kinds that there are, in the order of the legend."""
    return [kind for kind in COLOURS if any(kind in bar.kinds for bar in drawn)]


def _start(bar: Bar, kind: str) -> float:
    """Where a kind begins in its bar, in bytes."""
    before = list(COLOURS)[: list(COLOURS).index(kind)]
    return sum(bar.kinds.get(one, 0) for one in before)


def _description(drawn: Sequence[Bar]) -> str:
    """What the drawing shows, for those who do not see it."""
    sentences = []
    for bar in drawn:
        parts = ", ".join(f"{label_of(kind)} {in_units(bar.kinds[kind])}" for kind in _kinds([bar]))
        room = f" of {in_units(bar.room)}" if bar.room is not None else ""
        sentences.append(f"{bar.label}, {bar.place}: {shown(bar.whole)}{room}: {parts}.")
    return " ".join(sentences)


def _shortened(text: str) -> str:
    most = int((WIDTH - 32) / _LETTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _style() -> str:
    light = "".join(f".{kind}{{fill:{colours[0]}}}" for kind, colours in COLOURS.items())
    dark = "".join(f".{kind}{{fill:{colours[1]}}}" for kind, colours in COLOURS.items())
    return (
        "text{font:13px system-ui,sans-serif;fill:#1f2328}.title,.place{font-weight:600}"
        ".ground{fill:#ffffff}rect{stroke:#ffffff}"
        ".sum.over{font-weight:700;fill:#b3261e}line.room{stroke:#b3261e;stroke-width:2;stroke-dasharray:5 4}"
        "text.room{fill:#b3261e;text-anchor:end}.bounds{stroke:#1f2328;stroke-width:1.5;fill:none}"
        ".cut{stroke:#ffffff;stroke-width:3;fill:none}"
        f"{light}"
        "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}"
        "rect{stroke:#0d1117}.bounds{stroke:#e6edf3}.cut{stroke:#0d1117}"
        f".sum.over,text.room{{fill:#ff8f85}}line.room{{stroke:#ff8f85}}{dark}}}"
    )
