"""``ds-lint memory`` for people: a table of what a run takes by kind, whether it fits, and what makes it fit.

Where a figure is known between bounds, the likely one is first, and the least and the most behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.footprint import kernels
from ds_lint.footprint.shared_memory import may_be_too_small
from ds_lint.output.terminal import QUIET, SEVERITY, STRONG, Terminal
from ds_lint.output.text import counted, visible, width_of, wrap
from ds_lint.source.spelling import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.answer import Answer
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.changes import Write
    from ds_lint.footprint.fsdp.sharding import FsdpSharding
    from ds_lint.footprint.largest import Largest
    from ds_lint.footprint.placed import Amount
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.footprint.sweep import SweepRow
    from ds_lint.footprint.untrained import Untrained

GIB, MIB = 2**30, 2**20
GAP = "  "
NONE = "-"
_WORDS = {  # by whether a run fits
    True: ("fits", SEVERITY["info"]),
    False: ("does not fit", SEVERITY["error"]),
    None: ("may fit", SEVERITY["warning"]),
}
_SHM = "/dev/shm"  # noqa: S108 - of the node
_SHOWN = 4  # changes that suffice alone
_GROWN = (("micro batch", "micro_batch"), ("length", "sequence_length"), ("model", "parameters"))
_LABELS = {
    "live": "live parameters",
    "page_locked": "page-locked memory",
    "unpacked": "unpacked weight",
    "key_value_cache": "KV cache",
}


class _Cell(NamedTuple):
    """A figure as it is shown: the likely one, and its bounds unless it is known exactly."""

    figure: str = NONE
    bounds: str = ""


class _Column(NamedTuple):
    """A place where bytes lie, and what lies there by the label of the row."""

    title: str
    cells: dict[str, _Cell]
    peaks: frozenset[str]  # the labels of rows that are one

    def cell(self, label: str) -> _Cell:
        """What lies there by a label; nothing if there is no such row."""
        return self.cells.get(label, _Cell())


class FitSentence(NamedTuple):
    """Whether a run fits in one place, in a word, and the reason for it."""

    word: str
    reason: str
    is_enough: bool | None


class AdviceGroup(NamedTuple):
    """Advice below one line."""

    heading: str
    advice: tuple[Advice, ...] = ()
    others: int = 0  # that are not shown


def lines(answer: Answer, terminal: Terminal) -> list[str]:
    """The text about one run."""
    if answer.assumed is not None:
        return _unwritten(answer, answer.assumed, terminal)
    return [
        *_heading(answer, terminal),
        "",
        *_table(answer, terminal),
        "",
        *_verdict(answer, terminal),
        *_open_facts(answer, terminal),
        *_growth(answer, terminal),
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
    nodes = f" on {setup.nodes} nodes" if setup.nodes > 1 else ""
    ranks = f"{counted(setup.world, 'rank')}{nodes}"
    if setup.fsdp is not None:
        return ", ".join([_fsdp_in_words(setup.fsdp), setup.dtype, *_optimizer(setup), ranks, *_parallelism(setup)])
    offloads = [
        f"{what} offload to {'CPU' if where.device == 'cpu' else 'NVMe'}"
        for what, where in (("optimizer", setup.optimizer_offload), ("parameter", setup.parameter_offload))
        if where is not None
    ]
    if setup.untrained is not None and setup.untrained.is_served:
        return f"DeepSpeed inference, {setup.dtype}, {ranks}"
    stage = " with ".join([f"ZeRO stage {setup.stage}", *([" and ".join(offloads)] if offloads else [])])
    return ", ".join([stage, setup.dtype, *_optimizer(setup), ranks, *_parallelism(setup)])


def _parallelism(setup: TrainingSetup) -> Iterator[str]:
    """The degrees of parallelism beside ZeRO's."""
    degrees, stage = setup.part.degrees, setup.part.stage
    place = f" (stage {stage.number + 1} of {stage.stages})" if stage is not None else ""
    for name, size in (
        ("tensor parallelism", f"{degrees.tensors}"),
        ("pipeline parallelism", f"{degrees.stages}{place}"),
        ("sequence parallelism", f"{setup.sequence_ranks}"),
        ("expert parallelism", f"{degrees.experts}"),
    ):
        if size != "1":
            yield f"{name} {size}"


def _fsdp_in_words(sharding: FsdpSharding) -> str:
    """The version and the strategy; FSDP 2 has a switch in place of the words."""
    strategy = sharding.strategy
    if sharding.version == 2:
        strategy = "parameters sharded" if sharding.reshards else "parameters gathered until the backward pass"
    offload = " with offload to CPU" if sharding.offloads else ""
    return f"FSDP {sharding.version}, {strategy}{offload}"


def subject(answer: Answer) -> str:
    """What is estimated: a config, or a model for which none is written yet."""
    return answer.name if answer.assumed is None else answer.model


def about(answer: Answer) -> str:
    """What decides about the figures of a run: its setup, or what is known of it if no config is written yet."""
    setup = answer.estimate.setup
    if answer.assumed is None:
        return setup_in_words(setup)
    nodes = f" on {setup.nodes} nodes" if setup.nodes > 1 else ""
    known = [f"{counted(setup.world, 'rank')}{nodes}", setup.dtype, *_optimizer(setup), *_samples(setup)]
    return "; ".join(filter(None, (*known, _of_gpu(answer), _of_host(answer))))


def conclusions(answer: Answer) -> list[str]:
    """Whether the run fits, in sentences, or which of the rows fit if no config is written yet."""
    if answer.assumed is None:
        return [f"{word}: {reason}" for word, reason, _ in sentences(answer)]
    return list(_fastest(answer))


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
        yield f"sequence length {'' if setup.is_length_known else 'up to '}{setup.sequence_length}"
    if setup.is_checkpointed is not None:
        yield "activation checkpointing" if setup.is_checkpointed else "no activation checkpointing"
    yield from kernels.in_words(setup.kernels)


def _passes(work: Untrained) -> Iterator[str]:
    """What a run computes that trains nothing."""
    yield f"{work.work} without training"
    for number, word in ((work.samples, "batch"), (work.prompt, "sequence length"), (work.new_tokens, "new tokens")):
        if number is not None:
            yield f"{word} {number}"


def _table(answer: Answer, terminal: Terminal) -> list[str]:
    """All columns beside each other, or if the terminal is too narrow, below each other."""
    columns = list(columns_of(answer))
    labels = labels_of(columns)
    whole = _drawn(columns, labels, terminal)
    if terminal.width is None or max(width_of(line) for line in _plain(columns, labels)) <= terminal.width:
        return whole
    drawn = [
        _drawn([column], [label for label in labels if column.cells.get(label, _Cell()).figure != NONE], terminal)
        for column in columns
    ]
    return [line for index, one in enumerate(drawn) for line in ([""] if index else []) + one]


def labels_of(columns: Sequence[_Column]) -> list[str]:
    """The labels of the rows with anything in them."""
    named = dict.fromkeys(label for column in columns for label in column.cells)
    return [label for label in named if any(column.cell(label).figure != NONE for column in columns)]


def columns_of(answer: Answer) -> Iterator[_Column]:
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
    for word, reason, is_enough in sentences(answer):
        style = SEVERITY["error"] if is_enough is False else SEVERITY["info" if is_enough else "warning"]
        first, *more = wrap(f"{word}: {reason}", terminal.width, taken=0, indent=2)
        yield terminal.paint(word, style) + first[len(word) :]
        yield from more
    for note in answer.left_out:
        yield from wrap(f"not included: {note}", terminal.width, taken=0, indent=2)


def sentences(answer: Answer) -> Iterator[FitSentence]:
    """Whether the run fits on the GPU and on the host, where their memory is known."""
    fit, needed, there = answer.fit, answer.estimate, answer.capacity
    for found in (
        _sentence(_of_gpu(answer), needed.gpu_bytes, there.gpu, fit.gpu, _least(answer)),
        _sentence(_of_host(answer), needed.host_bytes, there.host, fit.host),
    ):
        if found is not None:
            yield found
    room, shared = there.shared, needed.host.get("shared_memory")
    if room is not None and shared is not None and may_be_too_small(room, shared.bytes):
        yield FitSentence(
            "may not fit", f"{_SHM} has {in_units(room)}, and NCCL takes {shown(shared.bytes)} of it", None
        )


def _of_gpu(answer: Answer) -> str:
    """How much memory there is on the GPU; of what is sold under its name, the smallest and the largest."""
    most, least = answer.capacity.gpu, answer.capacity.least_gpu
    of = f"{in_units(least)} to " if least is not None else ""
    return f"{answer.gpu_name} has {of}{in_units(most)}" if most is not None else ""


def _of_host(answer: Answer) -> str:
    """How much memory there is on the host."""
    return f"the host has {in_units(answer.capacity.host)}" if answer.capacity.host is not None else ""


def _least(answer: Answer) -> str:
    """The answer to what is not known with which the GPU takes the least, and how much that is."""
    answers = [(fact.name, one) for fact in answer.open_facts for one in fact.answers]
    if not answers:
        return ""
    name, least = min(answers, key=lambda one: one[1].gpu.least)
    return f"{in_units(least.gpu.least)} with {name} {least.words}"


def _sentence(
    there: str, needed: Band, room: int | None, is_enough: bool | None, least: str = ""
) -> FitSentence | None:
    """None if the memory there is not known; ``least`` is what another answer than the assumed one takes."""
    if room is None or not needed.most:
        return None
    if is_enough is False:
        return FitSentence("does not fit", f"{there}, but the run takes at least {in_units(needed.least)}", is_enough)
    if is_enough:
        return FitSentence("fits", f"{there}, and the run takes at most {in_units(needed.most)}", is_enough)
    if needed.most <= room:
        return FitSentence("may fit", f"{there}, and what is counted takes at most {in_units(needed.most)}", is_enough)
    bounds = f"{in_units(needed.least)} to {in_units(needed.most)}, likely {in_units(needed.likely)}"
    if needed.least > room:
        bounds += f", but at least {least}"
    return FitSentence("may not fit", f"{there}, and the run takes {bounds}", is_enough)


def _advice(answer: Answer, terminal: Terminal) -> Iterator[str]:
    """What makes it likely fit, and what makes it surely fit: what the run then takes, what to write, and the price."""
    for group in advice_groups(answer):
        yield ""
        yield from wrap(group.heading, terminal.width, taken=0, indent=2)
        for one in group.advice:
            yield from _piece(one, terminal)
        if group.others:
            yield f"  and {counted(group.others, 'other')} (--output-format json)"


def _piece(one: Advice, terminal: Terminal) -> Iterator[str]:
    first, *rest = wrap(f"  {one.words}: {result_of(one)}", terminal.width, taken=0, indent=4)
    yield terminal.paint(first[: 2 + len(one.words)], STRONG) + first[2 + len(one.words) :]
    yield from rest
    for write in one.writes:
        yield terminal.paint(f"      {to_write(write)}", QUIET)
    for line in prices_of(one):
        yield from wrap(f"      {line}", terminal.width, taken=0, indent=8)


def advice_groups(answer: Answer) -> Iterator[AdviceGroup]:
    """What makes it likely fit, and what makes it surely fit, or that nothing does."""
    what = "what is counted" if answer.left_out else "it"
    for is_sure, how in ((False, "likely"), (True, "surely")):
        found = [one for one in answer.advice if one.is_sure is is_sure]
        if found:
            makes = "This makes" if len(found) == 1 else "Each of these changes makes"
            yield AdviceGroup(f"{makes} {what} {how} fit:", tuple(found[:_SHOWN]), max(len(found) - _SHOWN, 0))
    if not answer.advice and answer.surely_fails:
        yield AdviceGroup(_needed(answer))


def result_of(advice: Advice) -> str:
    """What the run takes after the changes."""
    takes = f"{shown(advice.estimate.gpu_bytes)} per GPU"
    if advice.estimate.host_bytes.most:
        takes += f", {shown(advice.estimate.host_bytes)} per host"
    return takes


def prices_of(advice: Advice) -> Iterator[str]:
    """What the changes cost, a line for each kind of price."""
    for kind in dict.fromkeys(price.kind for price in advice.price):
        words = "; ".join(price.words for price in advice.price if price.kind == kind)
        yield f"{kind}: {words}"


def _needed(answer: Answer) -> str:
    """What the model would need at least, where nothing that is within reach makes it fit."""
    least = answer.least_ranks
    if least is None:
        return "No change of stage, offload, micro batch or ranks makes it fit."
    setup = least.estimate.setup
    how = ", ".join(change.words for change in least.changes[:-1])
    if not answer.capacity.is_in_reach(least.estimate, "likely"):
        return (
            f"Nothing makes it fit: on {setup.world:,} such GPUs{f' with {how}' if how else ''}, each still likely "
            f"takes {shown(least.estimate.gpu_bytes)}."
        )
    nodes = f" on {setup.nodes} nodes" if setup.nodes > 1 else ""
    return (
        f"Nothing within reach makes it fit. It likely needs {setup.world:,} such GPUs{nodes}"
        f"{f' with {how}' if how else ''}: {shown(least.estimate.gpu_bytes)} per GPU."
    )


def to_write(write: Write) -> str:
    """A key and its value, as they are written where they belong."""
    if write.place == "script":
        return f"{write.key} in the script"
    if write.place == "data":
        return f"{write.key.replace('_', ' ')}: {write.value}, where the samples are made"
    if write.place == "arguments":
        return f"--{write.key} {write.value}"
    if write.place == "launch":
        return f"{write.key.replace('_', ' ')}: {write.value}"
    return f"{write.key} = {as_json(write.value)}"


def open_facts(answer: Answer) -> Iterator[tuple[str, str]]:
    """What is not known and makes the bands wider, each with how to give it and what the run takes by every answer."""
    for fact in answer.open_facts:
        is_of_gpu = any(one.gpu != answer.estimate.gpu_bytes for one in fact.answers)
        bands = [(one.words, one.gpu if is_of_gpu else one.host) for one in fact.answers]
        place = "" if is_of_gpu else " of host memory"
        answers = ", ".join(f"{words} {_bound(band.least)} to {_bound(band.most)} GiB" for words, band in bands)
        yield f"{fact.name} ({fact.give})", f"{answers}{place}"


def _open_facts(answer: Answer, terminal: Terminal) -> Iterator[str]:
    if not answer.open_facts:
        return
    yield ""
    yield "Not known, each with what the run then takes:"
    for name, answers in open_facts(answer):
        yield from wrap(f"  {name}: {answers}", terminal.width, taken=0, indent=4)


def _growth(answer: Answer, terminal: Terminal) -> Iterator[str]:
    """With ``--largest``: the largest micro batch, sequence length and model that fit, each alone."""
    found = answer.largest
    if found is None:
        return
    if answer.capacity.gpu is None:
        yield from wrap("largest that fits: not known (set --gpu)", terminal.width, taken=0, indent=2)
        return
    is_whole = not answer.left_out
    parts = []
    if found.micro_batch is not None:
        parts.append(f"micro batch {_either(found.micro_batch, is_whole=is_whole)}")
    if found.sequence_length is not None:
        parts.append(f"sequence length {_either(found.sequence_length, is_whole=is_whole)}")
        if found.positions is not None and found.sequence_length.likely == found.positions:
            parts[-1] += ", all that the model has"
    if found.parameters is not None:
        parts.append(f"{_either(found.parameters, is_whole=is_whole)} parameters")
    yield from wrap(f"largest that fits, each alone: {'; '.join(parts)}", terminal.width, taken=0, indent=2)


def _either(largest: Largest, *, is_whole: bool) -> str:
    """The largest number that likely fits, and if it is another, the one that surely does."""
    likely, surely = largest.likely, largest.surely if is_whole else 0
    if not likely:
        return "none"
    return _count(likely) if likely == surely else f"{_count(likely)} (surely {_count(surely) if surely else 'none'})"


def _count(number: int) -> str:
    """A number as people read it: of parameters, in millions or billions."""
    for unit, word in ((10**9, "billion"), (10**6, "million")):
        if number >= unit:
            return f"{number / unit:,.3g} {word}"
    return f"{number:,}"


def _unwritten(answer: Answer, assumed: tuple[str, ...], terminal: Terminal) -> list[str]:
    """The text about a run without a config: all stages, the faster first, and the fastest that fit."""
    first, *rest = wrap(visible(f"{answer.model}; {about(answer)}"), terminal.width, taken=0, indent=2)
    text = [terminal.paint(first, STRONG), *(terminal.paint(line, STRONG) for line in rest)]
    if assumed:
        text += wrap(f"  assumed: {', '.join(assumed)}", terminal.width, taken=0, indent=4)
    for note in answer.left_out:
        text += wrap(f"  not included: {note}", terminal.width, taken=0, indent=4)
    return [*text, *_sweep(answer, terminal)]


def _sweep(answer: Answer, terminal: Terminal) -> list[str]:
    """A row for each stage, offload and checkpointing, the faster first; the one of the config has a mark."""
    if not answer.rows:
        return []
    text = ["", *_rows(answer, terminal)]
    grown = [title for title, name in _GROWN if any(getattr(row.sizes, name) is not None for row in answer.rows)]
    if grown and answer.capacity.gpu is not None:
        legend = f"{', '.join(grown)}: the largest that likely fits, and in brackets the largest that surely does"
        text += wrap(legend, terminal.width, taken=0, indent=2)
    if answer.assumed is None and answer.estimate.setup.kernels.is_assumed:
        text += wrap("kernels: those of transformers in all rows (--kernels)", terminal.width, taken=0, indent=2)
    found = [line for one in _fastest(answer) for line in wrap(one, terminal.width, taken=0, indent=2)]
    return [*text, *(["", *found] if found else [])]


def _fastest(answer: Answer) -> Iterator[str]:
    """The fastest rows that likely and surely fit."""
    if answer.capacity.gpu is None:
        return
    places = (("likely", 0), ("surely", 1))
    for word, place in places if not answer.left_out else places[:1]:
        row = next((row for row in answer.rows if row.places[place] == 1), None)
        if row is None and answer.least_ranks is not None:
            yield _needed(answer)
            return
        if row is None:
            yield f"nothing {word} fits"
            continue
        what = f"{row.words}, micro batch {row.largest[place]:,}" if row.largest is not None else row.words
        yield f"fastest that {word} fits: {what}"


class _SweepColumn(NamedTuple):
    """A column of a sweep; those that count least are left out of a narrow terminal."""

    title: str
    cells: list[str]
    is_number: bool = True
    is_left_out: int = 0  # in which order: 1 first; 0 never

    @property
    def lines(self) -> list[str]:
        """The title and the cells, all of the same width."""
        width = max(map(width_of, (self.title, *self.cells)))
        return [one.rjust(width) if self.is_number else one.ljust(width) for one in (self.title, *self.cells)]


def _rows(answer: Answer, terminal: Terminal) -> list[str]:
    """The heading and the rows of a sweep."""
    columns = _sweep_columns(answer)
    while terminal.width is not None and _width(columns) > terminal.width and any(one.is_left_out for one in columns):
        least = min(one.is_left_out for one in columns if one.is_left_out)
        columns = [one for one in columns if one.is_left_out != least]
    heading, *lines = map(GAP.join, zip(*(column.lines for column in columns), strict=True))
    text = [terminal.paint(f"  {heading}".rstrip(), STRONG)]
    for row, line in zip(answer.rows, lines, strict=True):
        whole = f"{'>' if row.is_chosen else ' '} {line}".rstrip()
        word, style = _WORDS[answer.verdict_of(row.estimate)] if answer.capacity.is_known else ("", "")
        is_shown = bool(word) and whole.endswith(word)
        before = whole[: len(whole) - len(word)] if is_shown else whole
        text.append(
            (terminal.paint(before, STRONG) if row.is_chosen else before)
            + (terminal.paint(word, style) if is_shown else "")
        )
    return text


def _width(columns: Sequence[_SweepColumn]) -> int:
    return 2 + sum(width_of(column.lines[0]) for column in columns) + len(GAP) * (len(columns) - 1)


def _sweep_columns(answer: Answer) -> list[_SweepColumn]:
    """The columns of a sweep; what no row has has none."""
    rows = answer.rows
    gpu, host = ([row.estimate.gpu_bytes for row in rows], [row.estimate.host_bytes for row in rows])
    columns = [
        _SweepColumn("stage", [str(row.stage) for row in rows]),
        _SweepColumn("offload", list(map(_offload, rows)), is_number=False),
    ]
    if any(row.checkpointing is not None for row in rows):
        words = {None: "?", True: "on", False: "off"}
        columns.append(_SweepColumn("checkpointing", [words[row.checkpointing] for row in rows], is_number=False))
    columns += growth_columns(answer)
    columns += [
        _SweepColumn("per GPU", [_cell(band).figure for band in gpu]),
        _SweepColumn("", [_cell(band).bounds for band in gpu], is_number=False, is_left_out=2),
        _SweepColumn("per host", [_cell(band).figure for band in host], is_left_out=3),
        _SweepColumn("", [_cell(band).bounds for band in host], is_number=False, is_left_out=1),
    ]
    if answer.capacity.is_known:
        words_ = [_WORDS[answer.verdict_of(row.estimate)][0] for row in rows]
        columns.append(_SweepColumn("", words_, is_number=False, is_left_out=4))
    return columns


def growth_columns(answer: Answer) -> list[_SweepColumn]:
    """What each row of a sweep may grow to."""
    columns = []
    for title, name in _GROWN:
        found = [getattr(row.sizes, name) for row in answer.rows]
        if any(one is not None for one in found):
            columns.append(_SweepColumn(title, [_pair(one, is_whole=not answer.left_out) for one in found]))
    return columns


def _offload(row: SweepRow) -> str:
    return (" + ".join(row.offload) or "none") + (" NVMe" if row.device == "nvme" else "")


def _pair(largest: Largest | None, *, is_whole: bool) -> str:
    """The largest number that likely fits, and the one that surely does in brackets."""
    if largest is None or not largest.likely:
        return NONE
    surely = largest.surely if is_whole else 0
    return f"{_short(largest.likely)} ({_short(surely) if surely else NONE})"


def _short(number: int) -> str:
    for unit, word in ((10**9, "B"), (10**6, "M")):
        if number >= unit:
            return f"{number / unit:.3g}{word}"
    return f"{number:,}"


def joined(texts: Iterable[list[str]]) -> str:
    """Several runs, with an empty line between them."""
    return "\n\n".join("\n".join(one) for one in texts) + "\n"
