"""A training run as people and programs read it: what the config requests, and what the ranks showed.

Imported only for a smoke run, so a clean check does not pay for it.
"""

from __future__ import annotations

from math import isfinite

from ds_lint.diagnostics.verdict import (
    COVERAGE,
    CPU,
    CUDA,
    FAKE,
    SCRIPT,
    STATUSES,
    WITHOUT_CONFIG,
    Adaptation,
    Check,
    Held,
    RankEnd,
    RunNode,
    ScriptEngine,
    Step,
    Verdict,
)
from ds_lint.output import measurements
from ds_lint.output.quantities import in_units
from ds_lint.output.terminal import QUIET, SEVERITY, STRONG
from ds_lint.output.text import counted, shown_path, visible, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable
    from typing import Any

    from ds_lint.output.terminal import Terminal

    Json = dict[str, object]
    RunRecord = dict[str, Any]  # a run in a report, or a part of it: what ``as_object`` makes

STYLES = {"error": SEVERITY["error"], "fail": SEVERITY["error"], "warn": SEVERITY["warning"], "skip": QUIET}

# What some checks prove together, by their ids: one word where one of them passed and none did worse.
PROVED = {
    "shards": ("parameters", "gradients", "master-weights", "optimizer-states", "units"),
    "trains": ("loss",),
    "saves": ("export", "recovery"),
    "resumes": ("resume",),
    "fits": ("world", "world-shares"),
}

STATES = "optimizer states"
KINDS = ("parameters", "gradients", "master weights", STATES)  # what else a rank holds, the optimizer keeps
SIZES_OF_ELEMENTS = (1, 2, 4, 8)  # bytes; any other quotient means that several dtypes are mixed

BLOCKS = "█▓▒░"  # one for each of KINDS
ASCII_BLOCKS = "#=+."
BAR = 40  # columns of the longest bar
LEAST_BAR = 8
SHOWN_RANKS = 8
LONGEST_VALUE = 300  # characters of a value from a config


# ------------------------------------------------------------------------------------------------------- for terminals


def lines(verdicts: list[Verdict], terminal: Terminal, helped: Collection[Hashable] = ()) -> list[str]:
    """Each run in short: its headline, then what did not pass, what did, what was adapted, and what the ranks hold.

    ``helped`` are the subjects of checks to which a finding has given the help already.
    """
    several = len({(verdict.path, verdict.place) for verdict in verdicts}) > 1
    rows: list[str] = []
    for verdict in verdicts:
        if rows:
            rows.append("")
        rows += _headline(verdict, f"smoke: {config_name(verdict, verdicts)} " if several else "smoke: ", terminal)
        rows += _not_passed(verdict, terminal, helped)
        rows += _passed(verdict, terminal)
        rows += [line for one in verdict.adaptations for line in _labelled("adapted", QUIET, adapted(one), terminal)]
        rows += _skipped(verdict, terminal)
        rows += _ended(verdict, terminal)
        rows += _measured(verdict, terminal)
        rows += _chart(verdict, verdicts, terminal)
    return rows


def records(verdicts: list[Verdict], terminal: Terminal) -> list[str]:
    """A line for each run and for each of its checks that did not pass, never wrapped."""
    rows = []
    for verdict in verdicts:
        path = terminal.paint(config_name(verdict, verdicts), STRONG)
        rows.append(f"{path}: smoke: {visible(headline(verdict))}")
        for check in _worst_first(verdict, ("error", "fail", "warn")):
            status = terminal.paint(f"{check.status}[{visible(check.id)}]", STYLES[check.status])
            rows.append(f"{path}: smoke: {status} {visible(check.message)}")
        rows += [f"{path}: smoke: not verified: {visible(line)}" for line in not_verified(verdict)]
    return rows


def config_name(verdict: Verdict, verdicts: list[Verdict]) -> str:
    """The file of a config, with the place in it if the runs are with several configs of the file."""
    path = shown_path(verdict.path)
    several = any(other.path == verdict.path and other.place != verdict.place for other in verdicts)
    return f"{path}:{verdict.place}" if several and verdict.place is not None else path


def _headline(verdict: Verdict, start: str, terminal: Terminal) -> list[str]:
    word = start + outcome(verdict)
    rest = visible(headline(verdict).removeprefix(outcome(verdict)).lstrip(" "))
    first, *more = wrap(rest, terminal.width, len(word) + 1, indent=2)
    between = "" if first.startswith(",") else " "
    return [f"{terminal.paint(word, STYLES.get(verdict.status, STRONG))}{between}{first}", *more]


def _not_passed(verdict: Verdict, terminal: Terminal, helped: Collection[Hashable]) -> list[str]:
    rows = []
    for check in _worst_first(verdict, ("error", "fail", "warn")):
        rows += _labelled(f"{check.status}[{check.id}]", STYLES[check.status], _with_key(check), terminal)
        if check.help and check.subject not in helped:
            rows += _labelled("= help:", STRONG, check.help, terminal, indent=4)
    return rows


def _with_key(check: Check) -> str:
    return f"{check.key}: {check.message}" if check.key and check.key not in check.message else check.message


def _passed(verdict: Verdict, terminal: Terminal) -> list[str]:
    rows = []
    if verdict.mode == FAKE:  # how much a rank of so many holds is what one wants to know
        return [
            line
            for check in verdict.checks
            if check.status == "pass"
            for line in _labelled(f"{basis(verdict, check)}:", QUIET, check.message, terminal)
        ]
    all_ids = [check.id for check in verdict.checks]
    for label, is_adapted in (("verified:", False), ("verified with adaptation:", True)):
        ids = [check.id for check in verdict.checks if check.status == "pass" and check.adapted == is_adapted]
        if ids:
            rows += _labelled(
                label, QUIET, ", ".join(_times(name, ids, all_ids) for name in dict.fromkeys(ids)), terminal
            )
    return rows


def basis(verdict: Verdict, check: Check) -> str:
    """What a check rests on: ranks that train, engines of single ranks of a world that is not there, or arithmetic."""
    if verdict.mode != FAKE:
        return "trained"
    return "computed" if check.adapted else "simulated"


def _times(name: str, some: list[str], every: list[str]) -> str:
    """``dtypes``, or ``dtypes (3 of 4)`` where checks of that name came out differently."""
    number, whole = some.count(name), every.count(name)
    return name if number == whole else f"{name} ({number} of {whole})"


def _skipped(verdict: Verdict, terminal: Terminal) -> list[str]:
    return [line for one in not_verified(verdict) for line in _labelled("not verified:", QUIET, one, terminal)]


def not_verified(verdict: Verdict) -> list[str]:
    """``gradients: why``: the skipped checks with the same reason, and the keys that no check is about."""
    reasons: dict[str, list[str]] = {}
    for check in verdict.checks:
        if check.status == "skip":
            name = f"`{check.key}`" if check.id == COVERAGE else check.id
            reasons.setdefault(check.message, []).append(name)
    if verdict.mode == FAKE and any(check.status == "pass" for check in verdict.checks):
        reasons[f"no rank of the {verdict.world_size:,} trains; the run on a few ranks shows them there only"] = [
            *("gradients", "losses", "communication", "saving", "resuming")
        ]
    return [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in reasons.items()]


def _ended(verdict: Verdict, terminal: Terminal) -> list[str]:
    ranks_by_end: dict[str, list[str]] = {}
    for rank in verdict.ranks:
        if rank.exit != "ok":
            error = f": {rank.error.strip().partition(chr(10))[0]}" if rank.error else ""
            ranks_by_end.setdefault(f"{rank.exit} in phase {rank.phase}{error}", []).append(str(rank.rank))
    rows = []
    for end, numbers in ranks_by_end.items():
        some = [*numbers[:SHOWN_RANKS], *([f"{len(numbers) - SHOWN_RANKS} more"] if numbers[SHOWN_RANKS:] else [])]
        label = f"rank{'s' if len(numbers) > 1 else ''} {_enumerated(some)}:"
        rows += _labelled(label, SEVERITY["error"], end, terminal)
    if verdict.log:
        rows += _labelled("log:", QUIET, shown_path(verdict.log), terminal)
    return rows


def _measured(verdict: Verdict, terminal: Terminal) -> list[str]:
    if verdict.measured is None or verdict.engine is None:
        return []
    found = measurements.sentences(verdict.measured, verdict.engine.device)
    return [line for label, text in found for line in _labelled(label, QUIET, text, terminal)]


def _labelled(label: str, style: str, text: str, terminal: Terminal, indent: int = 2) -> list[str]:
    label = visible(label)
    first, *more = wrap(visible(text), terminal.width, indent + len(label) + 1, indent + 2)
    return [f"{' ' * indent}{terminal.paint(label, style)} {first}", *more]


def _chart(verdict: Verdict, verdicts: list[Verdict], terminal: Terminal) -> list[str]:
    """A bar for each rank, and one for a rank that shards nothing."""
    bars = {f"rank {rank}": by_kind(held) for rank, held in enumerate(verdict.held[:SHOWN_RANKS])}
    reference = unsharded(verdict, verdicts)
    if reference:
        bars["unsharded"] = reference
    most = max((sum(_bytes(kinds)) for kinds in bars.values()), default=0)
    if not most:
        return []
    blocks = BLOCKS if terminal.can_show(BLOCKS) else ASCII_BLOCKS
    margin = max(map(len, bars))
    room = max(LEAST_BAR, min(BAR, (terminal.width or 80) - margin - len("    999.9 MiB  ")))
    rows = ["  " + terminal.paint("bytes by rank", STRONG)]
    for label, kinds in bars.items():
        bar = _bar(_bytes(kinds), most, room, blocks)
        rows.append(f"  {label:<{margin}}  {bar} {in_units(sum(_bytes(kinds)))}")
    if len(verdict.held) > SHOWN_RANKS:
        rows.append(f"  and {counted(len(verdict.held) - SHOWN_RANKS, 'more rank')}")
    legend = "  ".join(f"{block} {kind}" for block, kind in zip(blocks, KINDS, strict=True))
    return [*rows, *("  " + line.strip() for line in wrap(legend, terminal.width, taken=2, indent=2))]


def _bar(parts: list[int], most: int, room: int, blocks: str) -> str:
    """Parts end where their sum does, so that the bar is as long as the whole, however many parts are rounded."""
    bar = ""
    total = 0
    for part, block in zip(parts, blocks, strict=True):
        total += part
        bar += block * (round(total * room / most) - len(bar))
    return bar


def _bytes(kinds: dict[str, Held]) -> list[int]:
    return [kinds[kind].bytes if kind in kinds else 0 for kind in KINDS]


# ------------------------------------------------------------------------------------------------------- in words


def headline(verdict: Verdict) -> str:
    """How a run went, in one sentence."""
    return f"{_outcome_and_limit(verdict)} {course(verdict)}"


def course(verdict: Verdict) -> str:
    """The sentence without the outcome: where the run was made, how long it took, and what came of it."""
    launched = f" launched at {verdict.launch}" if verdict.launch else ""
    nodes = f" of {counted(len(verdict.nodes), 'node')}" if verdict.nodes else ""
    where = f"on {ranks(verdict)}{nodes}{launched}, {verdict.stack} stack, {verdict.seconds:,.1f} s"
    if not verdict.world_size:  # a command that has not come to any
        where = f"in {verdict.seconds:,.1f} s{launched}"
    return f"{where}: {_what_came_of_it(verdict)}"


def phase_in_words(part: str, phase: str) -> str:
    """What rank 0 does in a part of a run."""
    return phase if part in ("train", phase) else f"{part}: {phase}"


def outcome(verdict: Verdict) -> str:
    """How a run ended, in a word or two."""
    if verdict.status == "error":
        return "incomplete" if _has_answers(verdict) else "could not run"
    return {"fail": "failed", "warn": "passed with warnings", "pass": "passed"}[verdict.status]


def _outcome_and_limit(verdict: Verdict) -> str:
    """The same, and why the arithmetic of the steps was not compared: a run that passed without it proves less."""
    why = verdict.why_not_compared if verdict.status in ("pass", "warn") else ""
    return f"{outcome(verdict)}, arithmetic not compared: {why};" if why else outcome(verdict)


def _has_answers(verdict: Verdict) -> bool:
    return verdict.error is None and any(check.status in ("pass", "warn", "fail") for check in verdict.checks)


def ranks(verdict: Verdict) -> str:
    """``2 CPU ranks``, ``8 GPUs``, ``rank 0 of 1,024 simulated``."""
    device = verdict.engine.device if verdict.engine is not None else verdict.mode
    noun = {CPU: "CPU rank", CUDA: "GPU", SCRIPT: "rank"}.get(device)
    if noun is None:
        return f"rank 0 of {verdict.world_size:,} simulated"
    return f"{verdict.world_size:,} {noun}{'' if verdict.world_size == 1 else 's'}"


def _what_came_of_it(verdict: Verdict) -> str:
    if verdict.error:
        return verdict.error.strip().partition("\n")[0]
    numbers = {status: sum(check.status == status for check in verdict.checks) for status in STATUSES}
    of_all = f" of {counted(sum(check.id != COVERAGE for check in verdict.checks), 'check')}"
    bad: list[str] = []
    for status, words in (("fail", "failed"), ("error", "could not be decided")):
        if numbers[status]:
            bad.append(f"{numbers[status]}{'' if bad else of_all} {words}")
    if bad:
        return _enumerated(bad)
    proved = _proved(verdict)
    if not proved:
        return f"{numbers['pass']}{of_all} passed"
    stage = _stage(verdict)
    what = "the script" if verdict.stack == WITHOUT_CONFIG else "the config"
    return f"{f'ZeRO stage {stage}' if stage else what} {_enumerated(proved)}"


def _proved(verdict: Verdict) -> list[str]:
    words = []
    for word, ids in PROVED.items():
        if word == "shards" and (verdict.world_size == 1 or not _stage(verdict)):
            continue  # what a rank holds is as requested, and it is everything
        checks = [check for check in verdict.checks if check.id in ids and check.status != "skip"]
        if checks and all(check.status == "pass" for check in checks):
            words.append(f"{word} (with adaptation)" if any(check.adapted for check in checks) else word)
    return words


def _stage(verdict: Verdict) -> int:
    """The stage of ZeRO that a check found; 0 where none did."""
    for check in verdict.checks:
        if check.id == "stage" and check.status == "pass" and isinstance(check.expected, int):
            return check.expected
    return 0


def _enumerated(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def adapted(adaptation: Adaptation) -> str:
    """``zero_optimization.stage3_param_persistence_threshold from 100,000 to 0: the model is tiny``."""
    before, after = adaptation.before, adaptation.after
    if before == after and type(before) is type(after):  # it is only done in another way
        change = ""
    elif before is None:
        change = f"set to {written(after)}"
    elif after is None:
        change = f"removed, was {written(before)}"
    else:
        change = f"from {written(before)} to {written(after)}"
    return ": ".join(part for part in (" ".join(filter(None, (adaptation.key, change))), adaptation.why) if part)


def formatted(value: object, unit: str | None = None) -> str:
    """A value of a check with its unit: numbers in groups of thousands, bytes in larger units."""
    if isinstance(value, (list, tuple)):
        if len(value) > 1 and len({repr(element) for element in value}) == 1:
            return f"{formatted(value[0], unit)} ({len(value)} times)"
        text = ", ".join(formatted(element, unit if unit == "bytes" else None) for element in value)
    elif isinstance(value, dict):
        return _cut(visible(", ".join(f"{key}: {formatted(element, unit)}" for key, element in value.items())))
    elif unit == "bytes" and isinstance(value, int) and not isinstance(value, bool):
        return in_units(value)
    else:
        text = _scalar(value)
    has_unit = unit and unit != "bytes" and value is not None and not isinstance(value, (bool, str))
    return _cut(visible(f"{text} {unit}" if has_unit and text else text))


def _scalar(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.6g}"
    return str(value)


def written(value: object) -> str:
    """A value as it is in a config, numbers in groups of thousands."""
    if value is None or isinstance(value, (bool, int, float)):
        return formatted(value)
    from json import dumps

    return _cut(visible(dumps(value, default=str, ensure_ascii=False)))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


def _worst_first(verdict: Verdict, statuses: tuple[str, ...] = STATUSES) -> list[Check]:
    return [check for status in statuses for check in verdict.checks if check.status == status]


# ------------------------------------------------------------------------------------------------------- what is held


def by_kind(held: dict[str, Held]) -> dict[str, Held]:
    """What a rank holds in the order of ``KINDS``, everything that the optimizer keeps of an element together."""
    states = [amount for kind, amount in held.items() if kind not in KINDS]
    whole = {kind: held[kind] for kind in KINDS if kind in held}
    if states:
        whole[STATES] = _sum([*states, *([held[STATES]] if STATES in held else [])])
    return whole


def _sum(amounts: Iterable[Held]) -> Held:
    elements, sizes = zip(*amounts, strict=True)
    return Held(sum(elements), sum(sizes))


def unsharded(verdict: Verdict, verdicts: list[Verdict]) -> dict[str, Held] | None:
    """What a rank would hold that shards nothing: as a run of one rank showed it, or else computed; None if neither.

    It is computed where a kind has one dtype and where all ranks together hold it of every parameter: a lone rank then
    holds all of that. Frozen parameters, states on NVMe and 8-bit states with their scales have unknown sizes.
    """
    if verdict.world_size == 1 or not verdict.held:
        return None
    for other in verdicts:
        is_same = all(getattr(other, name) == getattr(verdict, name) for name in ("path", "place", "stack", "model"))
        if is_same and other.world_size == 1 and other.held:
            return by_kind(other.held[0])
    whole = {}
    for kind, amount in verdict.held[0].items():
        size, rest = divmod(amount.bytes, amount.elements or 1)
        if rest or size not in SIZES_OF_ELEMENTS or amount.elements * verdict.world_size < verdict.parameter_count:
            return None
        whole[kind] = Held(verdict.parameter_count, verdict.parameter_count * size)
    return by_kind(whole)


# ------------------------------------------------------------------------------------------------------- for programs


def as_object(verdict: Verdict) -> Json:
    """A run as plain dicts and lists; numbers that JSON does not have are words."""
    return {
        "path": verdict.path,
        "stack": verdict.stack,
        "mode": verdict.mode,
        "world_size": verdict.world_size,
        "status": verdict.status,
        "arithmetic": verdict.arithmetic,
        "error": verdict.error,
        "adaptations": [
            {"key": one.key, "from": _plain(one.before), "to": _plain(one.after), "why": one.why}
            for one in verdict.adaptations
        ],
        "checks": [
            {
                **check._asdict(),
                "basis": basis(verdict, check),
                "expected": _plain(check.expected),
                "observed": _plain(check.observed),
            }
            for check in verdict.checks
        ],
        "ranks": [rank._asdict() for rank in verdict.ranks],
        **({"nodes": [node._asdict() for node in verdict.nodes]} if verdict.nodes else {}),
        "seconds": verdict.seconds,
        "model": verdict.model,
        "parameter_count": verdict.parameter_count,
        "steps": [_plain(step._asdict()) for step in verdict.steps],
        "held": [{kind: amount._asdict() for kind, amount in held.items()} for held in verdict.held],
        "peak_bytes": verdict.peak_bytes,
        "engine": verdict.engine._asdict() if verdict.engine is not None else None,
        "launch": verdict.launch,
        "place": verdict.place,
        "versions": verdict.versions,
        "log": verdict.log,
        **({"strategy": verdict.strategy} if verdict.strategy is not None else {}),
        **({"measured": measurements.as_object(verdict.measured)} if verdict.measured is not None else {}),
    }


def verdict_of(run: RunRecord) -> Verdict:
    """The run that ``as_object`` made this of."""
    held = [{kind: Held(**amount) for kind, amount in one.items()} for one in run["held"]]
    adaptations = [Adaptation(one["key"], one["from"], one["to"], one["why"]) for one in run["adaptations"]]
    return Verdict(
        **{
            **{name: value for name, value in run.items() if name != "arithmetic"},
            "adaptations": adaptations,
            "checks": [Check(**{name: one[name] for name in Check._fields}) for one in run["checks"]],
            "ranks": [RankEnd(**one) for one in run["ranks"]],
            "nodes": [RunNode(**one) for one in run.get("nodes", [])],
            "steps": [_step(one) for one in run["steps"]],
            "held": held,
            "measured": measurements.measurements_of(run["measured"]) if "measured" in run else None,
            "engine": ScriptEngine(**run["engine"]) if run.get("engine") else None,
        }
    )


def _step(step: RunRecord) -> Step:
    """A step whose numbers may be words that ``float`` knows."""
    numbers = {name: None if step[name] is None else float(step[name]) for name in ("loss_scale", "gradient_norm")}
    rates = [float(rate) for rate in step["learning_rates"]]
    return Step(float(step["loss"]), rates, is_skipped=step["is_skipped"], **numbers)


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return str(value)
