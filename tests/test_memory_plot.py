"""``ds-lint memory --plot``: marks lie where arithmetic puts them, and words say what is shown."""

from __future__ import annotations

import importlib.util
import itertools
import re
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from page_layout import CHROMIUM, measured

from ds_lint import __version__
from ds_lint.commands.parser import parse
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint.answer import Answer
from ds_lint.footprint.band import Band, exactly
from ds_lint.footprint.capacity import Capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.setup import Offload, TrainingSetup
from ds_lint.footprint.sweep import sweep
from ds_lint.output import kind_colours, memory_blocks, memory_page, memory_plot, memory_png, memory_svg, memory_table
from ds_lint.output.axis import scale_of
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import width_of

GIB = 2**30
SVG = "{http://www.w3.org/2000/svg}"
SETUP = TrainingSetup(
    tuple(Tensor(f"layers.{layer}.weight", 2**24) for layer in range(64)),
    ranks=8, nodes=1, stage=2, architecture={}, optimizer_offload=Offload("cpu"),
)  # fmt: skip
TEXT = Terminal(80, encoding="utf-8")
TORN = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}" * 2


@pytest.fixture
def answer():
    return Answer("a<b>&.json", None, "a model", "A100", estimate(SETUP), Capacity(8 * GIB, 64 * GIB))


@pytest.fixture
def narrow(answer):
    """A run that a capacity of 1 GiB cuts off on the GPU."""
    return answer._replace(capacity=Capacity(GIB, 64 * GIB))


@pytest.fixture
def everywhere():
    """A run with something on GPUs, hosts and NVMe, and two sizes of the GPU."""
    offload = Offload("nvme", is_pinned=True, buffer_count=4)
    made = estimate(SETUP._replace(stage=3, optimizer_offload=offload, parameter_offload=offload))
    return Answer("z.json", None, "a model", "A100", made, Capacity(8 * GIB, 64 * GIB, 4 * GIB), left_out=("a critic",))


def parsed(answer):
    return ET.fromstring(memory_svg.svg(answer))  # noqa: S314 - it is ours


def of_class(root, tag, style):
    return [one for one in root.iter(f"{SVG}{tag}") if style in one.get("class", "").split()]


def begins(path):
    """The x at which a path begins."""
    return float(re.match(r"M([\d.]+) ", path.get("d"))[1])


def x_of(size, chart):
    return memory_svg.MARGIN + size / chart.scale.longest * memory_svg.LANE


def with_bands(answer, *bands, **capacity):
    """The run with these bands of the GPU, one for each phase."""
    peak = answer.estimate.peaks["step"]
    peaks = {
        f"phase {index}": peak._replace(tensors=band, allowance=exactly(0), held={"parameters": band})
        for index, band in enumerate(bands)
    }
    return answer._replace(estimate=answer.estimate._replace(peaks=peaks), capacity=Capacity(**capacity))


# ------------------------------------------------------------------------------------------------------ what is drawn


@pytest.mark.parametrize(
    ("longest", "labels"),
    [
        (120 * GIB, ["0 GiB", "20", "40", "60", "80", "100", "120"]),
        (121 * GIB, ["0 GiB", "50", "100"]),
        (0.9 * GIB, ["0 GiB", "0.2", "0.4", "0.6", "0.8"]),
        (11_000 * GIB, ["0 GiB", "5,000", "10,000"]),
        (90 * 2**20, ["0 MiB", "20", "40", "60", "80"]),
        (1, ["0 KiB"]),
    ],
)
def test_ticks_are_round_numbers(longest, labels):
    scale = scale_of(longest)
    found = [label for _, label in scale.ticks]
    assert found[: len(labels)] == labels
    assert all(at <= longest for at, _ in scale.ticks)


@pytest.mark.parametrize("plot", [("svg", memory_svg.LANE), ("page", 320)])
def test_labels_of_ticks_do_not_overlap(plot):
    """On a phone the bars of the page are 320 pixels long; a figure is 7.5 pixels wide."""
    name, lane = plot
    letter, near = (memory_svg.LETTER, 0.12) if name == "svg" else (7.5, 0.1)
    for exponent, factor in itertools.product(range(10, 50), (1.0, 1.2, 1.49, 1.51, 1.9)):
        longest = 2.0**exponent * factor
        scale, end = scale_of(longest), -1.0
        for at, label in scale.ticks:
            share, width = scale.share(at), len(label) * letter
            left = share * lane - (0 if share < near else width if share > 1 - near else width / 2)
            assert left >= end, (longest, label)
            end = left + width
        assert end <= lane + width / 2


def test_every_phase_has_a_bar_in_every_place(everywhere):
    gpu, host, nvme = memory_plot.charts(everywhere)
    phases = list(everywhere.estimate.peaks)
    assert [bar.label for bar in gpu.bars] == [bar.label for bar in host.bars] == phases
    assert [bar.whole for bar in gpu.bars] == [peak.gpu for peak in everywhere.estimate.peaks.values()]
    assert [bar.label for bar in nvme.bars] == ["all phases"]
    for bar in (*gpu.bars, *host.bars, *nvme.bars):
        assert sum(bar.kinds.values()) == pytest.approx(bar.whole.likely)


def test_a_sweep_has_a_bar_for_every_row(answer):
    rows = tuple(sweep(SETUP, Capacity(8 * GIB, 64 * GIB)))
    gpu, host, *_ = memory_plot.charts(answer._replace(rows=rows))
    assert [bar.whole for bar in gpu.bars] == [row.estimate.gpu_bytes for row in rows]
    assert [bar.whole for bar in host.bars] == [row.estimate.host_bytes for row in rows]
    assert [bar.is_chosen for bar in gpu.bars] == [row.is_chosen for row in rows]


def test_a_place_has_no_bars_of_rows_with_nothing_there(everywhere):
    first, *others = sweep(SETUP, Capacity(8 * GIB, 64 * GIB))
    rows = (first._replace(estimate=everywhere.estimate), *others)
    gpu, _, nvme = memory_plot.charts(everywhere._replace(rows=rows))
    there = [any(amount.bytes.most for amount in row.estimate.nvme.values()) for row in rows]
    assert (len(gpu.bars), len(nvme.bars)) == (len(rows), sum(there))
    assert 0 < sum(there) < len(rows)


def test_other_phases_and_kinds_are_drawn(answer):
    """What a later kind of run has needs no change of the picture."""
    peak = answer.estimate.peaks["step"]
    held = {"kv_cache": exactly(GIB), "critic": exactly(GIB), "parameters": exactly(GIB)}
    other = peak._replace(held=held, tensors=exactly(3 * GIB), allowance=exactly(0))
    answer = answer._replace(estimate=answer.estimate._replace(peaks={"evaluation": other}))
    (bar,) = memory_plot.charts(answer)[0].bars
    assert (bar.label, list(bar.kinds)) == ("evaluation", ["parameters", "kv_cache", "critic"])
    looks = kind_colours.looks(held)
    assert len(set(looks.values())) == 3
    page = memory_page.page(answer, "ds-lint memory")
    for drawn in (memory_svg.svg(answer), page, "\n".join(memory_blocks.lines(answer, TEXT))):
        assert "evaluation" in drawn
        assert "kv cache" in drawn


def test_neighbours_in_a_bar_differ_in_lightness_or_texture():
    """What is seen without hues."""

    def lightness(look):
        channels = [int(look.colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
        return 116 * (0.2126 * red + 0.7152 * green + 0.0722 * blue) ** (1 / 3) - 16

    looks = [*kind_colours.KNOWN.values(), *kind_colours.OTHERS, *kind_colours.LAST.values()]
    assert len(set(looks)) == len(looks)
    for one, other in itertools.pairwise(looks):
        assert abs(lightness(one) - lightness(other)) >= 10 or one.texture != other.texture, (one, other)
        assert 35 <= lightness(one) <= 82  # seen on white and on black


# ---------------------------------------------------------------------------------------------------------------- SVG


def test_the_drawing_is_well_formed_and_has_words(answer):
    root = parsed(answer)
    texts = [text for one in root.iter(f"{SVG}text") if (text := one.text)]
    assert texts[0] == "Memory of a<b>&.json"
    assert {"per GPU", "per host", "parameters", "capacity 8.00 GiB", "capacity 64.0 GiB", "step"} <= set(texts)
    assert root.get("role") == "img"
    assert "per GPU, capacity 8.00 GiB. initialization: " in root.find(f"{SVG}desc").text
    assert "prefers-color-scheme:dark" in root.find(f"{SVG}style").text
    assert memory_svg.svg(answer) == memory_svg.svg(answer)


def test_ticks_capacity_and_bars_lie_where_they_belong(everywhere):
    root, drawn = parsed(everywhere), memory_plot.charts(everywhere)
    gpu = drawn[0]
    rooms = [begins(one) for one in of_class(root, "path", "room")]
    assert rooms[:2] == pytest.approx([x_of(4 * GIB, gpu), x_of(8 * GIB, gpu)], abs=0.06)
    labels = {one.text: float(one.get("x")) for one in of_class(root, "text", "room")}
    assert labels["smallest 4.00 GiB"] == pytest.approx(x_of(4 * GIB, gpu), abs=0.06)
    assert labels["largest 8.00 GiB"] == pytest.approx(x_of(8 * GIB, gpu), abs=0.06)
    ticks = [float(one.get("x")) for one in of_class(root, "text", "quiet") if (one.text or "")[0].isdigit()]
    assert ticks == pytest.approx([x_of(at, chart) for chart in drawn for at, _ in chart.scale.ticks], abs=0.06)
    parts = [begins(one) for one in of_class(root, "path", "part")]
    expected = []
    for chart in drawn:
        for bar in chart.bars:
            expected += [x_of(sum(list(bar.kinds.values())[:index]), chart) for index in range(len(bar.kinds))]
    assert parts == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize(
    ("band", "capacity", "torn"),
    [
        ((1, 2, 3), 2, (False, False)),
        ((1, 2, 5.7), 2, (False, False)),  # at most three times the capacity
        ((1, 2, 7), 2, (False, True)),
        ((1, 9, 20), 2, (True, True)),
        ((8, 9, 20), 2, (True, False)),  # no part of the band is there
        ((1, 2, 9), None, (False, True)),
        ((9, 9, 9), None, (False, False)),
    ],
)
def test_only_what_goes_on_is_torn(answer, band, capacity, torn):
    gpu = capacity and capacity * GIB
    cut = with_bands(answer, Band(*(one * GIB for one in band)), gpu=gpu)
    root = parsed(cut)
    is_cut = [one for one in of_class(root, "path", "cut") if "part" in one.get("class")]
    assert (bool(is_cut), len(of_class(root, "path", "cut")) > len(is_cut)) == torn
    page = memory_page.page(cut, "ds-lint memory")
    assert ('class="bar cut"' in page, 'class="band cut"' in page) == torn
    assert ("A torn end is cut off" in page) == any(torn)
    lines = memory_blocks.lines(cut, TEXT)
    assert any(TORN in line for line in lines[:-1]) == any(torn)
    assert (f"{TORN} goes on" in lines[-1]) == any(torn)


def test_nothing_is_drawn_beside_the_sheet(narrow):
    for one in parsed(narrow).iter(f"{SVG}text"):
        x, width = float(one.get("x")), width_of(one.text or "") * memory_svg.LETTER * 0.95
        style = one.get("class", "").split()
        left = x - (width if {"last", "sum"} & set(style) else width / 2 if "middle" in style else 0)
        assert left >= 0
        assert left + width <= memory_svg.WIDTH + 1, one.text


# --------------------------------------------------------------------------------------------------------------- HTML


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append({"tag": tag, **dict(attrs)})

    def handle_data(self, data):
        self.text += data


def test_a_page_is_safe_and_complete(everywhere):
    hostile = everywhere._replace(
        name="<script>alert('x')</script>\x1b", launch='a.sh:1"><img src=//x>', model="\u202e<b>", left_out=("<i>",)
    )
    html = memory_page.page(hostile, "ds-lint memory", ["<u>note"])
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    tags = {one["tag"] for one in page.elements}
    assert not tags & {"script", "img", "link", "iframe", "object", "base", "i>", "u"}
    assert "default-src 'none'" in html
    assert "Memory: <script>alert('x')</script><U+001B>" in page.text
    assert "<U+202E><b>" in page.text
    assert "not included: <i>" in page.text
    assert "<u>note" in page.text
    assert {"caption", "dl", "h1", "h2", "h3"} <= tags
    assert {one.get("scope") for one in page.elements if one["tag"] == "th"} == {"col", "row"}
    figures = [one for one in page.elements if one["tag"] == "td" and one.get("class") == "figure"]
    assert len(figures) >= 3 * 8
    assert [one["aria-label"][:8] for one in page.elements if one.get("role") == "img"] == [
        "per GPU,",
        "per host",
        "on NVMe.",
    ]


def test_the_page_says_what_was_checked_and_what_made_it(everywhere):
    html = memory_page.page(everywhere, "ds-lint memory z.json --plot a.html")
    header, footer = (re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1] for tag in ("header", "footer"))
    for words in ("<h1>Memory: z.json</h1>", "<dt>model</dt><dd>a model</dd>", "<dt>ranks</dt><dd>8</dd>"):
        assert words in header
    assert f"ds-lint {__version__}" in footer
    assert "<code>ds-lint memory z.json --plot a.html</code>" in footer


def test_the_verdict_is_that_of_the_table(narrow, everywhere):
    for answer in (narrow, everywhere):
        said = list(memory_table.sentences(answer))
        assert said
        text = " ".join(Page(memory_page.page(answer, "ds-lint memory")).text.split())
        svg = " ".join(one.text or "" for one in parsed(answer).iter(f"{SVG}text"))
        table = "\n".join(memory_table.lines(answer, Terminal()))
        for word, reason, _ in said:
            assert f"{word} {reason}" in text
            assert f"{word}: {reason}" in svg
            assert f"{word}: {reason}" in table


@pytest.mark.parametrize(
    ("capacity", "status", "word"),
    [
        (Capacity(80 * GIB, 640 * GIB), "pass", "fits"),
        (Capacity(80 * GIB, GIB), "fail", "does not fit"),
        (Capacity(4 * GIB, 640 * GIB), "warn", "may not fit"),
        (Capacity(), "skip", "not compared"),
    ],
)
def test_the_badge_is_that_of_the_worst_place(answer, capacity, status, word):
    html = memory_page.page(answer._replace(capacity=capacity), "ds-lint memory")
    assert f'<article class="{status}">' in html
    assert re.search(
        rf'<h2 class="verdict"><span class="badge {status}"><span aria-hidden="true">.</span> {word}<', html
    )


def test_shares_of_the_page_are_those_of_the_bytes(answer):
    html, (gpu, *_) = memory_page.page(answer, "ds-lint memory"), memory_plot.charts(answer)
    rooms = re.findall(r'<s class="room" style="left:([\d.]+)%">', html)
    assert float(rooms[0]) == pytest.approx(800 * GIB / gpu.scale.longest, abs=0.01)
    first = gpu.bars[0]
    widths = [float(one) for one in re.findall(r'<i class="kind-\d+" style="width:([\d.]+)%"', html)]
    shares = [100 * size / first.whole.likely for size in first.kinds.values()]
    assert widths[: len(shares)] == pytest.approx(shares, abs=0.01)


def test_the_page_has_every_figure_of_the_table(everywhere):
    text = unescape(memory_page.page(everywhere, "ds-lint memory"))
    for column in memory_table.columns_of(everywhere):
        for cell in column.cells.values():
            assert cell.figure in text
            assert cell.bounds in text


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("is_sweep", [False, True])
def test_a_browser_shows_all_of_it_at_every_width(tmp_path, everywhere, width, is_sweep):
    """No text overlaps another, none is smaller than 12 pixels, and nothing lies beside the screen."""
    shown = everywhere._replace(rows=tuple(sweep(SETUP, Capacity(8 * GIB, 64 * GIB)))) if is_sweep else everywhere
    assert measured(memory_page.page(shown, "ds-lint memory"), width, tmp_path) == f"{width} wide: "


# ----------------------------------------------------------------------------------------------------------- terminal


def test_the_picture_in_a_terminal(answer):
    """A full block is surely there, a lighter one likely, the lightest at the most."""
    drawn = with_bands(
        answer, Band(2 * GIB, 4 * GIB, 8 * GIB), exactly(4.25 * GIB), Band(10 * GIB, 20 * GIB, 40 * GIB), gpu=8 * GIB
    )
    host = memory_blocks.lines(drawn, TEXT).index("per host")
    assert [line.replace(TORN, ">>") for line in memory_blocks.lines(drawn, TEXT)[:host]] == [
        "",
        "per GPU",
        "                        ┃ capacity 8.00 GiB",
        "phase 0  P███▓▓▓▋░░░░░░░┃                                4.00 GiB (2.00 to 8.00)",
        "phase 1  P███████▏      ┃                                4.25 GiB",
        "phase 2  P██████████████┃███▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▍░░░░░>>  20.0 GiB (10.0 to 40.0)",
        "         ┴────────┴─────────┴────────┴─────────┴───────",
        "         0 GiB    5         10       15        20",
        "",
    ]  # fmt: skip


def test_a_terminal_without_blocks_gets_ascii(everywhere, narrow):
    for answer in (everywhere, narrow):
        assert "\n".join(memory_blocks.lines(answer, Terminal(80, encoding="ascii"))).isascii()
        assert "█" in "\n".join(memory_blocks.lines(answer, TEXT))


@pytest.mark.parametrize("width", [30, 40, 80, 200])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_lines_are_as_wide_as_the_terminal(everywhere, width, encoding):
    for shown in (everywhere, everywhere._replace(rows=tuple(sweep(SETUP, Capacity(8 * GIB, 64 * GIB))))):
        lines = memory_blocks.lines(shown, Terminal(width, encoding=encoding))
        assert max(map(width_of, lines)) <= width
        painted = memory_blocks.lines(shown, Terminal(width, colour=True, encoding=encoding))
        assert [re.sub(r"\x1b\[[\d;]*m", "", line) for line in painted] == lines
        assert painted != lines


def test_every_kind_has_a_letter_of_its_own(everywhere):
    kinds = memory_plot.kinds_of(memory_plot.charts(everywhere))
    letters = memory_blocks._letters(kinds)
    assert len(set(letters.values())) == len(kinds)
    legend = "\n".join(memory_blocks.lines(everywhere, TEXT)).rpartition("\n\n")[2]
    svg, page = memory_svg.svg(everywhere), memory_page.page(everywhere, "ds-lint memory")
    for kind, letter in letters.items():
        label = memory_table.label_of(kind)
        assert f"{letter} {label}" in legend
        assert f">{label}</text>" in svg
        assert f"</i>{label}</li>" in page
    many = [f"kind {number}" for number in range(30)]
    assert len(set(memory_blocks._letters(many).values())) == 30


# -------------------------------------------------------------------------------------------------------------- files


def test_a_picture_without_matplotlib_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert parse(["memory", "ds.json", "--plot", str(tmp_path / "a.png")]) == 2
    assert capsys.readouterr().err == (
        "ds-lint: --plot needs matplotlib for .png (pip install matplotlib); .svg, .html and - need nothing\n"
    )


def test_a_picture_is_a_png(everywhere, narrow):
    for answer in (
        everywhere,
        narrow,
        everywhere._replace(name="$\\frac$", rows=tuple(sweep(SETUP, Capacity(8 * GIB, 64 * GIB)))),
    ):
        assert memory_png.png(answer).startswith(b"\x89PNG")
    assert memory_png.png(narrow) == memory_png.png(narrow)
