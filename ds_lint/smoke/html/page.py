"""The report of training runs as one HTML page, which opens without a network and runs no script.

Every text that may come from a config is escaped, and a content security policy forbids the browser to run a script or
to fetch what is not in the page.
"""

from __future__ import annotations

import os
from itertools import chain
from math import isfinite

from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE, SCRIPT, STATUSES, Check, Held, PeakMemory, Verdict
from ds_lint.output import kind_colours, measurements
from ds_lint.output.html_page import (
    Column,
    MadeBy,
    Page,
    badge,
    code,
    listed,
    paragraphs,
    prose,
    sheet,
    table,
    text,
    whole,
)
from ds_lint.output.quantities import in_units
from ds_lint.output.smoke import (
    KINDS,
    basis,
    by_kind,
    config_name,
    formatted,
    headline,
    outcome,
    ranks,
    unsharded,
    written,
)
from ds_lint.output.text import counted, shown_path
from ds_lint.smoke.html import charts, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ds_lint.source.document import Document

ADAPTED = "adapted"  # a class of the style sheet, next to the statuses
BADGES = {
    "pass": ("✓", "verified"),
    ADAPTED: ("≈", "verified with adaptation"),
    "warn": ("!", "warning"),
    "fail": ("✗", "failed"),
    "error": ("?", "not decided"),
    "skip": ("○", "skipped, not verified"),
}
SHOWS = {
    CPU: "the real libraries on CPU ranks: sharding, precision, batch sizes, schedule, saving and resuming. "
    "Kernels, peak memory and speed need a GPU.",
    CUDA: "the real libraries on GPUs, with their kernels, dtypes, placement and peak memory.",
    FAKE: "single ranks of a simulated world: what they hold at that size, and whether the batch sizes fit. "
    "No rank trains or communicates here: training, saving and resuming are shown by the run on a few ranks only.",
    SCRIPT: "your own script with its model and data, started twice: "
    "its first steps, what it saves, and how it resumes.",
}
NOT_CHECKED = '<span class="quiet">not checked</span>'
QUANTITIES = ("Loss", "Learning rate", "Loss scale", "Gradient norm")
SHOWN_RANKS = 32  # bars; more ranks look the same


def render(verdicts: list[Verdict], made_by: MadeBy, documents: Sequence[Document] = ()) -> str:
    """The page of these runs of documents; failed runs come first."""
    by_config: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in sorted(verdicts, key=_badness):
        by_config.setdefault((config_name(verdict, verdicts), verdict.stack), []).append(verdict)
    numbered = list(enumerate(chain.from_iterable(by_config.values()), start=1))
    configs: dict[tuple[str, str], list[tuple[int, Verdict]]] = {}
    for number, verdict in numbered:
        configs.setdefault((config_name(verdict, verdicts), verdict.stack), []).append((number, verdict))
    main = "".join(_config(name, stack, runs, verdicts) for (name, stack), runs in configs.items())
    overview = _overview(numbered) if len(numbered) != 1 else ""
    body = f"{overview}\n<main>\n{main}\n</main>"
    style = kind_colours.css(charts.LOOKS) + sheet(os.path.join(os.path.dirname(__file__), "charts.css"))
    return whole(Page(_title(verdicts), _checked(verdicts), body, style), made_by, documents)


def _badness(verdict: Verdict) -> int:
    return STATUSES.index(verdict.status)


def _title(verdicts: list[Verdict]) -> str:
    names = {config_name(verdict, verdicts) for verdict in verdicts}
    return f"Smoke: {names.pop() if len(names) == 1 else counted(len(names), 'config')}"


def _checked(verdicts: list[Verdict]) -> Iterator[tuple[str, str]]:
    """What all runs have in common, in short; what they do not is told of each."""
    if len(configs := _different(config_name(one, verdicts) for one in verdicts)) > 1:
        yield "configs", ", ".join(configs)
    facts = {
        "stack": _different(one.stack for one in verdicts),
        "ran on": _different(map(ranks, verdicts)),
        "model": _different(one.model for one in verdicts if one.model),
    }
    for name in dict.fromkeys(name for one in verdicts for name in one.versions):
        facts[name] = _different(one.versions[name] for one in verdicts if name in one.versions)
    for name, found in facts.items():
        if found:
            yield name, ", ".join(found)


def _different(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(found))


def _overview(numbered: list[tuple[int, Verdict]]) -> str:
    """How many runs there are, and a way to each; a single one says it all itself."""
    verdicts = [verdict for _, verdict in numbered]
    counts = text(_counts(verdicts))
    entries = "".join(_entry(number, verdict, config_name(verdict, verdicts)) for number, verdict in numbered)
    return f'<nav aria-label="Runs"><p class="quiet">{counts}</p><ol>{entries}</ol></nav>'


def _counts(verdicts: list[Verdict]) -> str:
    outcomes = [outcome(verdict) for verdict in verdicts]
    numbers = ", ".join(f"{outcomes.count(name)} {name}" for name in dict.fromkeys(outcomes))
    return f"{counted(len(verdicts), 'training run')} of a few steps with the installed libraries: {numbers or 'none'}."


def _entry(number: int, verdict: Verdict, name: str) -> str:
    where = f"{ranks(verdict)}, {verdict.stack} stack"
    return (
        f'<li><a href="#run-{number}">{_badge(verdict.status, outcome(verdict))}'
        f'<code>{text(name)}</code><span class="quiet">{text(where)}</span></a></li>'
    )


# ------------------------------------------------------------------------------------------------------- a config


def _config(name: str, stack: str, runs: list[tuple[int, Verdict]], verdicts: list[Verdict]) -> str:
    heading = f"<h2><code>{text(name)}</code> <small>{text(stack)} stack</small></h2>"
    if len(runs) == len(verdicts):  # the title names it
        heading = ""
    return f"<section>{heading}{_where(runs)}{''.join(_run(number, one, verdicts) for number, one in runs)}</section>\n"


def _where(runs: list[tuple[int, Verdict]]) -> str:
    """The checks by run: a row per check, a column per run; the worst of several checks with one name."""
    if len(runs) == 1:
        return ""
    names = list(dict.fromkeys(check.id for _, verdict in runs for check in verdict.checks))
    found = [{check.id: check for check in reversed(_worst_first(verdict))} for _, verdict in runs]
    rows = [
        [text(name), *(_status(checks[name]) if name in checks else NOT_CHECKED for checks in found)] for name in names
    ]
    columns = [Column("Check", "name"), *(Column(ranks(verdict)) for _, verdict in runs)]
    return f"<article>{table('Checks by run', columns, rows)}</article>"


def _run(number: int, verdict: Verdict, verdicts: list[Verdict]) -> str:
    parts = (
        _error(verdict),
        _checks(verdict),
        _plots(verdict, verdicts),
        _measured(verdict),
        _adaptations(verdict),
        _ranks(verdict),
        _circumstances(verdict),
    )
    word = outcome(verdict)
    return (
        f'<article id="run-{number}" class="{verdict.status}">'
        f"<h3>{_badge(verdict.status, word)} {prose(headline(verdict).removeprefix(word).lstrip(' ,'))}</h3>"
        f'<p class="quiet">This run shows {text(SHOWS[verdict.mode])}</p>'
        f"{''.join(f'<section>{part}</section>' for part in parts if part)}</article>"
    )


def _error(verdict: Verdict) -> str:
    log = f"<p>Output of the libraries: <code>{text(shown_path(verdict.log))}</code></p>" if verdict.log else ""
    error = (verdict.error or "").strip()
    has_more = "\n" in error  # than the headline has
    return (f'<div class="error-text">{paragraphs(error)}</div>' if has_more else "") + log


# ------------------------------------------------------------------------------------------------------- tables


def _checks(verdict: Verdict) -> str:
    if not verdict.checks:
        return ""
    columns = [
        Column("Check", "name"),
        Column("Status", "status"),
        Column("Key", "key"),
        Column("Expected", "value"),
        Column("Observed", "value"),
        Column("Result"),
    ]
    rows = [
        [
            text(check.id),
            _status(check) + _basis(verdict, check),
            code(check.key),
            values.expected(check, verdict.world_size),
            values.observed(check, verdict.world_size),
            prose(check.message) + (f'<span class="help">{paragraphs(check.help)}</span>' if check.help else ""),
        ]
        for check in _worst_first(verdict)
    ]
    return table("Expected and observed", columns, rows)


def _basis(verdict: Verdict, check: Check) -> str:
    """What a check of a world that is not there rests on."""
    return f' <span class="quiet">{basis(verdict, check)}</span>' if verdict.mode == FAKE else ""


def _worst_first(verdict: Verdict) -> list[Check]:
    return sorted(verdict.checks, key=lambda check: (STATUSES.index(check.status), not check.adapted))


def _adaptations(verdict: Verdict) -> str:
    if not verdict.adaptations:
        return ""
    columns = [Column("Key", "key"), Column("In the config", "number"), Column("In this run", "number"), Column("Why")]
    rows = [
        [
            code(one.key),
            code(written(one.before)) if one.before is not None else "not set",
            code(written(one.after)) if one.after is not None else "removed",
            prose(one.why),
        ]
        for one in verdict.adaptations
    ]
    return table("Adapted for this run", columns, rows)


def _ranks(verdict: Verdict) -> str:
    if not verdict.peak_bytes and all(rank.exit == "ok" for rank in verdict.ranks):
        return ""
    columns = [
        Column("Rank", "number"),
        Column("Ended"),
        Column("Last phase"),
        Column("Peak GPU memory", "number"),
        Column("Error", "lines"),
    ]
    peaks = dict(enumerate(verdict.peak_bytes))
    rows = [
        [
            f"{rank.rank:,}",
            _badge("pass" if rank.exit == "ok" else "fail", rank.exit),
            text(rank.phase),
            text(in_units(peaks[rank.rank])) if rank.rank in peaks else "",
            paragraphs(rank.error or ""),
        ]
        for rank in verdict.ranks
    ]
    return table("Ranks", columns, rows)


def _measured(verdict: Verdict) -> str:
    """What was measured, in sentences, and the peaks of each rank."""
    if verdict.measured is None or verdict.engine is None:
        return ""
    found = measurements.sentences(verdict.measured, verdict.engine.device)
    sentences = listed((label.rstrip(":"), sentence) for label, sentence in found)
    on_gpu = {peak.rank: peak for peak in verdict.measured.gpu_peaks}
    columns = [
        Column("Rank", "number"),
        Column("Peak GPU memory", "number"),
        Column("When"),
        Column("Reserved by torch", "number"),
        Column("Peak host memory", "number"),
        Column("When"),
    ]
    rows = [
        [f"{host.rank:,}", *_peak(on_gpu.get(host.rank), has_reserved=True), *_peak(host)]
        for host in verdict.measured.host_peaks[:SHOWN_RANKS]
    ]
    return f"<h4>Time, memory and files</h4>{sentences}{table('Peaks by rank', columns, rows) if rows else ''}"


def _peak(peak: PeakMemory | None, *, has_reserved: bool = False) -> list[str]:
    if peak is None:
        return ["", "", ""] if has_reserved else ["", ""]
    cells = [text(in_units(peak.bytes)), text(measurements.when(peak))]
    return [*cells, text(in_units(peak.reserved or 0))] if has_reserved else cells


def _circumstances(verdict: Verdict) -> str:
    facts = {"model": verdict.model, "parameters": f"{verdict.parameter_count:,}", **verdict.versions}
    return f"<h4>Model and versions</h4>{listed(facts.items())}"


# ------------------------------------------------------------------------------------------------------- plots


def _plots(verdict: Verdict, verdicts: list[Verdict]) -> str:
    figures = _memory(verdict, verdicts) + _steps(verdict)
    return f'<div class="plots">{figures}</div>' if figures else ""


def _memory(verdict: Verdict, verdicts: list[Verdict]) -> str:
    bars = {f"rank {rank}": by_kind(held) for rank, held in enumerate(verdict.held[:SHOWN_RANKS])}
    if not any(amount.bytes for kinds in bars.values() for amount in kinds.values()):
        return ""
    when = "Your model, computed from the checked numbers" if verdict.mode == FAKE else "After the steps"
    caption = f"{when}, model states only: no activations, no buffers."
    if len(verdict.held) > SHOWN_RANKS:
        caption = f"{caption} The first {SHOWN_RANKS} of {len(verdict.held):,} ranks."
    if reference := unsharded(verdict, verdicts):
        bars["unsharded"] = reference
        caption = f"{caption} “unsharded” is what a rank holds without sharding."
    kinds = [kind for kind in KINDS if any(kind in held for held in bars.values())]
    rows = [
        [text(label), *(_held(held.get(kind)) for kind in kinds), text(in_units(_sum(held)))]
        for label, held in bars.items()
    ]
    columns = [Column("Rank"), *(Column(kind.capitalize(), "number") for kind in kinds), Column("Total", "number")]
    description = "; ".join(f"{label} {in_units(_sum(held))}" for label, held in bars.items())
    plot = f'<div class="plot" role="img" aria-label="{text(description)}">{charts.memory(bars)}</div>'
    return _figure("Bytes by rank", plot, caption, columns, rows)


def _held(amount: Held | None) -> str:
    if amount is None:
        return ""
    return f'{text(in_units(amount.bytes))}<span class="help">{amount.elements:,} elements</span>'


def _sum(held: dict[str, Held]) -> int:
    return sum(amount.bytes for amount in held.values())


def _steps(verdict: Verdict) -> str:
    if verdict.mode == FAKE or not verdict.steps:
        return ""
    numbered = list(enumerate(verdict.steps, start=1))
    skipped = [index for index, step in numbered if step.is_skipped]
    infinite = [index for index, step in numbered if not isfinite(step.loss)]
    caption = (
        f"Skipped (✗), because gradients overflowed: {_counted_off(skipped)}." if skipped else "No step was skipped."
    )
    if infinite:
        caption = f"{caption} Not drawn, because the loss is not finite: {_counted_off(infinite)}."
    columns = [Column("Step", "number"), *(Column(heading, "number") for heading in QUANTITIES), Column("Skipped")]
    rows = [
        [
            str(index),
            text(formatted(step.loss)),
            text(formatted(step.learning_rates)),
            text(formatted(step.loss_scale)) if step.loss_scale is not None else "",
            text(formatted(step.gradient_norm)) if step.gradient_norm is not None else "",
            "✗ skipped" if step.is_skipped else "no",
        ]
        for index, step in numbered
    ]
    return _figure("Steps", charts.steps(verdict.steps), caption, columns, rows)


def _counted_off(steps: list[int]) -> str:
    return f"{'step' if len(steps) == 1 else 'steps'} {', '.join(map(str, steps))}"


def _figure(title: str, plot: str, caption: str, columns: list[Column], rows: list[list[str]]) -> str:
    """A plot, and a folded table of its numbers."""
    return (
        f"<figure><h4>{text(title)}</h4>{plot}<figcaption>{text(caption)}</figcaption>"
        f"<details><summary>Numbers</summary>{table(title, columns, rows)}</details></figure>"
    )


# ------------------------------------------------------------------------------------------------------- markup


def _status(check: Check) -> str:
    kind = ADAPTED if check.status == "pass" and check.adapted else check.status
    return _badge(kind, BADGES[kind][1])


def _badge(kind: str, words: str) -> str:
    return badge(kind, BADGES[kind][0], words)
