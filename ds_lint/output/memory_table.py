"""``ds-lint memory`` for people: a table of what a run takes by kind, whether it fits, and what makes it fit.

Where a figure is known between bounds, the likely one is first, and the least and the most behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.output.terminal import QUIET, SEVERITY, STRONG, Terminal
from ds_lint.output.text import counted, visible, width_of, wrap
from ds_lint.source.spelling import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ds_lint.memory.advice import Write
    from ds_lint.memory.answer import Answer
    from ds_lint.memory.band import Band
    from ds_lint.memory.placed import Amount
    from ds_lint.memory.setup import TrainingSetup
    from ds_lint.memory.untrained import Untrained

GIB, MIB = 2**30, 2**20
GAP = "  "
NONE = "-"
_WORDS = {  # by whether a run fits
    True: ("fits", SEVERITY["info"]),
    False: ("does not fit", SEVERITY["error"]),
    None: ("may fit", SEVERITY["warning"]),
}
_LABELS = {"live": "live parameters", "page_locked": "page-locked memory", "key_value_cache": "KV cache"}


class _Cell(NamedTuple):
    """A figure as it is shown: the likely one, and its bounds unless it is known exactly."""

    figure: str = NONE
    bounds: str = ""


class _Column(NamedTuple):
    """A place where bytes lie, and what lies there by the label of the row."""

    title: str
    cells: dict[str, _Cell]
    peaks: frozenset[str]  # the labels of rows that are one


def lines(answer: Answer, terminal: Terminal) -> list[str]:
    """The text about one run."""
    return [
        *_heading(answer, terminal),
        "",
        *_table(answer, terminal),
        "",
        *_verdict(answer, terminal),
        *_advice(answer, terminal),
        *_sweep(answer, terminal),
    ]


def in_units(size: float) -> str:
    """A number of bytes as people read it, in units of 1024."""
    if size < GIB / 10:
        return f"{size / MIB:.0f} MiB" if size >= MIB else f"{size / 1024:.0f} KiB"
    return f"{_digits(size / GIB)} GiB"


def label_of(part: str) -> str:
    """The name of a kind for people."""
    return _LABELS.get(part, part.replace("_", " "))


def shown(band: Band) -> str:
    """A quantity in one piece of text."""
    cell = _cell(band)
    return f"{cell.figure} ({cell.bounds})" if cell.bounds else cell.figure


def setup_in_words(setup: TrainingSetup) -> str:
    """What decides about the figures, apart from the model."""
    offloads = [
        f"{what} offload to {'CPU' if where.device == 'cpu' else 'NVMe'}"
        for what, where in (("optimizer", setup.optimizer_offload), ("parameter", setup.parameter_offload))
        if where is not None
    ]
    nodes = f" on {setup.nodes} nodes" if setup.nodes > 1 else ""
    if setup.untrained is not None and setup.untrained.is_served:
        return f"DeepSpeed inference, {setup.dtype}, {counted(setup.ranks, 'rank')}{nodes}"
    stage = " with ".join([f"ZeRO stage {setup.stage}", *([" and ".join(offloads)] if offloads else [])])
    return ", ".join([stage, setup.dtype, *_optimizer(setup), f"{counted(setup.ranks, 'rank')}{nodes}"])


def _digits(value: float) -> str:
    """Three digits or more, none of which is a false one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _optimizer(setup: TrainingSetup) -> Iterator[str]:
    if setup.optimizer:
        yield f"optimizer {setup.optimizer}"


def _heading(answer: Answer, terminal: Terminal) -> Iterator[str]:
    text = f"{answer.name}: {setup_in_words(answer.estimate.setup)}"
    first, *rest = wrap(visible(text), terminal.width, taken=0, indent=2)
    yield terminal.paint(first, STRONG)
    yield from (terminal.paint(line, STRONG) for line in rest)
    about = [answer.model, *_samples(answer.estimate.setup)]
    if answer.launch is not None:
        about.append(f"launched at {answer.launch}")
    for line in wrap(visible("; ".join(about)), terminal.width, taken=2, indent=2):
        yield f"  {line.lstrip()}"


def _samples(setup: TrainingSetup) -> Iterator[str]:
    if setup.untrained is not None:
        yield from _passes(setup.untrained)
        return
    if setup.micro_batch is not None:
        yield f"micro batch {setup.micro_batch}"
    if setup.sequence_length is not None:
        yield f"sequence length {setup.sequence_length}"
    if setup.is_checkpointed is not None:
        yield "activation checkpointing" if setup.is_checkpointed else "no activation checkpointing"


def _passes(work: Untrained) -> Iterator[str]:
    """What a run computes that trains nothing."""
    yield f"{work.work} without training"
    for number, word in ((work.samples, "batch"), (work.prompt, "sequence length"), (work.new_tokens, "new tokens")):
        if number is not None:
            yield f"{word} {number}"


def _table(answer: Answer, terminal: Terminal) -> list[str]:
    """All columns beside each other, or if the terminal is too narrow, below each other."""
    columns = list(_columns(answer))
    named = dict.fromkeys(label for column in columns for label in column.cells)
    labels = [label for label in named if any(column.cells.get(label, _Cell()).figure != NONE for column in columns)]
    whole = _drawn(columns, labels, terminal)
    if terminal.width is None or max(width_of(line) for line in _plain(columns, labels)) <= terminal.width:
        return whole
    drawn = [
        _drawn([column], [label for label in labels if column.cells.get(label, _Cell()).figure != NONE], terminal)
        for column in columns
    ]
    return [line for index, one in enumerate(drawn) for line in ([""] if index else []) + one]


def _columns(answer: Answer) -> Iterator[_Column]:
    """The columns with anything in them; a GPU always has one."""
    estimate = answer.estimate
    places: tuple[tuple[str, dict[str, Amount], dict[str, Band], int | None], ...] = (
        ("per GPU", estimate.rank, {name: peak.gpu for name, peak in estimate.peaks.items()}, answer.capacity.gpu),
        ("per host", estimate.host, {name: peak.host for name, peak in estimate.peaks.items()}, answer.capacity.host),
        ("on NVMe", estimate.nvme, {}, None),
    )
    for title, parts, peaks, room in places:
        if (
            title != "per GPU"
            and not any(amount.bytes.most for amount in parts.values())
            and not any(peak.most for peak in peaks.values())
        ):
            continue
        cells = {label_of(name): _cell(amount.bytes) for name, amount in parts.items()}
        cells |= {_phase(name): _cell(peak) for name, peak in peaks.items()}
        if room is not None:
            least = answer.capacity.least_gpu if title == "per GPU" else None
            cells["capacity"] = _Cell(in_units(least or room), f"to {in_units(room)}" if least else "")
        yield _Column(title, cells, frozenset(map(_phase, peaks)))


def _phase(name: str) -> str:
    return f"peak in a {name}" if name == "step" else f"peak at {name}"


def _cell(band: Band) -> _Cell:
    if not band.most:
        return _Cell()
    return _Cell(in_units(band.likely), "" if band.is_exact else f"{_bound(band.least)} to {_bound(band.most)}")


def _bound(size: float) -> str:
    return _digits(size / GIB) if size >= GIB / 100 else "0"


def _drawn(columns: Sequence[_Column], labels: Sequence[str], terminal: Terminal) -> list[str]:
    """The rows, with a line above the peaks."""
    rows = _plain(columns, labels, terminal)
    peaks = {label for column in columns for label in column.peaks}
    at = next((index for index, label in enumerate(labels, 1) if label in peaks), None)
    width = max(width_of(row) for row in _plain(columns, labels))
    rule = terminal.paint("-" * width, QUIET)
    return rows if at is None else [*rows[:at], rule, *rows[at:]]


def _plain(columns: Sequence[_Column], labels: Sequence[str], terminal: Terminal | None = None) -> list[str]:
    """The rows, painted if the terminal is given."""

    def paint(text: str, style: str) -> str:
        return terminal.paint(text, style) if terminal is not None and style else text

    first = max(map(width_of, labels))
    widths = [
        (
            max(width_of(cell.figure) for cell in (*column.cells.values(), _Cell(column.title))),
            max(width_of(cell.bounds) for cell in column.cells.values()),
        )
        for column in columns
    ]
    rows = [(" " * first, STRONG, [_Cell(column.title) for column in columns])]
    rows += [(label.ljust(first), "", [column.cells.get(label, _Cell("")) for column in columns]) for label in labels]
    text = []
    for label, style, cells in rows:
        pieces = [(label, "")]
        for cell, (figure, bounds) in zip(cells, widths, strict=True):
            pieces.append((GAP + cell.figure.rjust(figure), style or (QUIET if cell.figure == NONE else "")))
            if bounds:
                pieces.append((GAP + cell.bounds.ljust(bounds), QUIET))
        while not pieces[-1][0].strip():
            pieces.pop()
        pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
        text.append("".join(paint(piece, style) for piece, style in pieces))
    return text


def _verdict(answer: Answer, terminal: Terminal) -> Iterator[str]:
    """What is known of whether it fits, and what is not counted."""
    fit = answer.fit
    for is_enough, sentence in (
        (fit.gpu, _sentence(_of_gpu(answer), answer.estimate.gpu_bytes, answer.capacity.gpu, fit.gpu)),
        (fit.host, _sentence(_of_host(answer), answer.estimate.host_bytes, answer.capacity.host, fit.host)),
    ):
        if sentence is None:
            continue
        word, rest = sentence
        style = SEVERITY["error"] if is_enough is False else SEVERITY["info" if is_enough else "warning"]
        first, *more = wrap(f"{word}: {rest}", terminal.width, taken=0, indent=2)
        yield terminal.paint(word, style) + first[len(word) :]
        yield from more
    for note in answer.left_out:
        yield from wrap(f"not included: {note}", terminal.width, taken=0, indent=2)


def _of_gpu(answer: Answer) -> str:
    """How much memory there is on the GPU; of what is sold under its name, the smallest and the largest."""
    most, least = answer.capacity.gpu, answer.capacity.least_gpu
    of = f"{in_units(least)} to " if least is not None else ""
    return f"{answer.gpu_name} has {of}{in_units(most)}" if most is not None else ""


def _of_host(answer: Answer) -> str:
    """How much memory there is on the host."""
    return f"the host has {in_units(answer.capacity.host)}" if answer.capacity.host is not None else ""


def _sentence(there: str, needed: Band, room: int | None, is_enough: bool | None) -> tuple[str, str] | None:
    """A verdict in a word and the reason for it; None if the memory there is not known."""
    if room is None or not needed.most:
        return None
    if is_enough is False:
        return "does not fit", f"{there}, but the run takes at least {in_units(needed.least)}"
    if is_enough:
        return "fits", f"{there}, and the run takes at most {in_units(needed.most)}"
    if needed.most <= room:
        return "may fit", f"{there}, and what is counted takes at most {in_units(needed.most)}"
    bounds = f"{in_units(needed.least)} to {in_units(needed.most)}, likely {in_units(needed.likely)}"
    return "may not fit", f"{there}, and the run takes {bounds}"


def _advice(answer: Answer, terminal: Terminal) -> Iterator[str]:
    """Each change with what the run then takes, and below it what to write."""
    if not answer.advice:
        if answer.surely_fails:
            yield from ("", "No change of stage, offload, micro batch or ranks makes it fit.")
        return
    yield ""
    what = "what is counted" if answer.left_out else "it"
    yield f"Each of these changes makes {what} fit:" if len(answer.advice) > 1 else f"This makes {what} fit:"
    for advice in answer.advice:
        takes = f"{shown(advice.estimate.gpu_bytes)} per GPU"
        if advice.estimate.host_bytes.most:
            takes += f", {shown(advice.estimate.host_bytes)} per host"
        text = f"{advice.words}: {takes}" + ("" if advice.is_sure else "; likely, not surely")
        first, *rest = wrap(f"  {text}", terminal.width, taken=0, indent=4)
        yield terminal.paint(first[: 2 + len(advice.words)], STRONG) + first[2 + len(advice.words) :]
        yield from rest
        for write in advice.writes:
            yield terminal.paint(f"      {_to_write(write)}", QUIET)


def _to_write(write: Write) -> str:
    """A key and its value, as they are written where they belong."""
    if write.place == "script":
        return f"{write.key} in the script"
    if write.place == "arguments":
        return f"--{write.key} {write.value}"
    if write.place == "launch":
        return f"{write.key.replace('_', ' ')}: {write.value}"
    return f"{write.key} = {as_json(write.value)}"


def _sweep(answer: Answer, terminal: Terminal) -> list[str]:
    """A row for each stage and offload; the one of the config has a mark. A narrow terminal gets no bounds."""
    if not answer.rows:
        return []
    plain, whole = Terminal(), _rows(answer, terminal, has_bounds=True)
    width = max(map(width_of, _rows(answer, plain, has_bounds=True)))
    if terminal.width is not None and width > terminal.width:
        whole = _rows(answer, terminal, has_bounds=False)
    return ["", *whole]


def _rows(answer: Answer, terminal: Terminal, *, has_bounds: bool) -> list[str]:
    """The heading and the rows of a sweep."""
    needed = [row.estimate for row in answer.rows]
    columns = [
        _column("per GPU", [one.gpu_bytes for one in needed], has_bounds=has_bounds),
        _column("per host", [one.host_bytes for one in needed], has_bounds=has_bounds),
    ]
    offloads = [" and ".join(row.offload) or "none" for row in answer.rows]
    width = max(map(len, (*offloads, "offload")))
    heading = "".join(GAP + column[0] for column in columns)
    rows = [terminal.paint(f"  stage  {'offload'.ljust(width)}{heading}".rstrip(), STRONG)]
    for index, (row, offload) in enumerate(zip(answer.rows, offloads, strict=True), 1):
        mark = ">" if row.is_chosen else " "
        cells = "".join(GAP + column[index] for column in columns)
        text = f"{mark} {row.stage:>5}  {offload.ljust(width)}{cells}"
        word, style = _WORDS[answer.verdict_of(row.estimate)] if answer.capacity.is_known else ("", "")
        text = text if word else text.rstrip()
        painted = terminal.paint(text, STRONG) if row.is_chosen else text
        rows.append(f"{painted}{GAP}{terminal.paint(word, style)}" if word else painted)
    return rows


def _column(title: str, bands: list[Band], *, has_bounds: bool) -> list[str]:
    """A heading and figures with their bounds, all of the same width."""
    cells = [_Cell(title), *map(_cell, bands)]
    figure = max(width_of(cell.figure) for cell in cells)
    bounds = max(width_of(cell.bounds) for cell in cells) if has_bounds else 0
    return [cell.figure.rjust(figure) + (GAP + cell.bounds.ljust(bounds) if bounds else "") for cell in cells]


def joined(texts: Iterable[list[str]]) -> str:
    """Several runs, with an empty line between them."""
    return "\n\n".join("\n".join(one) for one in texts) + "\n"
