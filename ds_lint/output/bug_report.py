"""A bug report as Markdown: a heading for each part, and below it text in a block, where no sign has a meaning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.knowledge.advisories import advisories
from ds_lint.knowledge.advisory_words import affected, title
from ds_lint.output import concise, diagnosis, effective_values, launches
from ds_lint.output.harmless import harmless
from ds_lint.output.private import hidden
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import counted, shown_path, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.facts.machine.driver import GpuDriver
    from ds_lint.facts.machine.machine import Machine
    from ds_lint.facts.machine.operators import Ops
    from ds_lint.facts.machine.software import Installed
    from ds_lint.logs.tracebacks import RaisedException
    from ds_lint.output.bug_report_contents import BugReport, EffectiveConfig

UNKNOWN = "not known"
MOST_LAUNCHES, MOST_FINDINGS, MOST_FRAMES, MOST_MESSAGE = 10, 50, 12, 20
_PLAIN = Terminal(encoding="utf-8")
_GIB = 2**30
_HEAD = """\
<!-- Written by ds-lint {version}. Secrets, homes, users, hosts and addresses are hidden: read it before you publish it.
Add what only you know: what you did, what you expected, what happened, and the smallest script that shows it. -->
"""


def render(report: BugReport) -> str:
    """The whole report."""
    parts = [_HEAD.format(version=report.version), *(_part(name, list(lines)) for name, lines in _parts(report))]
    return hidden(harmless("\n".join(parts), documents=report.documents), report.names, report.releases)


def _parts(report: BugReport) -> Iterator[tuple[str, Iterable[str]]]:
    yield "Releases", _releases(report)
    yield "Machine", _machine(report.machine)
    yield "DeepSpeed ops", _ops(report.machine.ops)
    yield "Launch", _launches(report)
    yield "Config", _configs(report)
    yield "Findings", _findings(report)
    yield "Known defects", _defects(report)
    yield "Log", _log(report)
    yield "Training run", _runs(report)


def _part(name: str, lines: list[str]) -> str:
    """A part: its heading, and its lines as a block, but for those that are of Markdown."""
    return "\n".join([f"### {name}", "", *lines, ""])


def _block(lines: Iterable[str]) -> list[str]:
    """Lines between fences that are longer than any that they hold."""
    listed = [line.rstrip() for line in lines]
    longest = max((len(run) for line in listed for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *listed, fence]


def _folded(summary: str, lines: Iterable[str]) -> list[str]:
    return ["<details>", f"<summary>{summary}</summary>", "", *_block(lines), "", "</details>"]


def _aligned(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    listed = [(name, visible(value)) for name, value in rows]
    width = max((len(name) for name, _ in listed), default=0)
    yield from (f"{name:{width}}  {value}".rstrip() for name, value in listed)


# ---------------------------------------------------------------------------------------------------------- the machine


def _releases(report: BugReport) -> list[str]:
    software, torch = report.machine.software, report.machine.torch
    system = software.system if software.distribution is None else f"{software.system} ({software.distribution})"
    built = "no CUDA" if torch is not None else UNKNOWN
    if torch is not None and (torch.cuda or torch.rocm):
        built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm}"
    rows = [
        ("ds-lint", report.version),
        ("Python", software.python or UNKNOWN),
        ("platform", system),
        ("container", software.container or "none is visible"),
        ("environment", software.environment if software.installed else "none with these libraries"),
    ]
    logged = report.diagnosis.releases if report.diagnosis is not None else {}
    rows += [(one.name, _release(one, logged.get(one.name))) for one in software.installed]
    rows += [(one.name, f"not installed; the project pins {one.pinned}") for one in software.missing]
    absent = [name for name in ("deepspeed", "torch") if not any(one.name == name for one in software.installed)]
    rows += [(name, "not installed") for name in absent if not any(one.name == name for one in software.missing)]
    return _block(_aligned([*rows, ("torch built with", built)]))


def _release(one: Installed, logged: str | None) -> str:
    """The installed release, and those of the project and of the log that are others."""
    origin = f" ({one.origin})" if one.origin else ""
    pinned = f"; the project pins {one.pinned}" if one.pinned else ""
    shown = f"; the log shows {logged}" if logged not in (None, one.release) else ""
    return f"{one.release}{origin}{pinned}{shown}"


def _machine(machine: Machine) -> list[str]:
    toolkit, tools, driver = machine.toolkit, machine.tools, machine.driver
    at = f"{toolkit.release or 'release ' + UNKNOWN}, {toolkit.home} ({toolkit.given_by})" if toolkit else "none"
    if toolkit is not None and not toolkit.has_compiler:
        at += ", without nvcc"
    compiler = tools.compiler or "none"
    if tools.compiler is not None:
        compiler += f", release {tools.compiler_release or UNKNOWN}"
    processor = f"{counted(machine.processors, 'core')}" if machine.processors else UNKNOWN
    rows = [
        ("GPUs", _gpus(driver)),
        ("driver", f"{driver.release}, for CUDA up to {driver.cuda or UNKNOWN}" if driver.release else UNKNOWN),
        *([("CUDA_VISIBLE_DEVICES", driver.visible)] if driver.visible is not None else []),
        ("CUDA toolkit", at),
        ("C++ compiler", compiler),
        ("ninja", tools.ninja or "none on PATH"),
        ("processor", f"{processor}{f', {machine.processor}' if machine.processor else ''}"),
        ("memory", _size(machine.memory)),
        ("/dev/shm", _size(machine.shared_memory)),  # noqa: S108 - shown, not used
        ("InfiniBand", ", ".join(machine.infiniband) or "none"),
    ]
    return _block(_aligned(rows))


def _gpus(driver: GpuDriver) -> str:
    if driver.problem is not None:
        return f"none is known: {driver.problem}"
    return ", ".join(
        f"{kind.number} x {kind.name}, {kind.memory} MiB"
        + (f", compute capability {kind.capability[0]}.{kind.capability[1]}" if kind.capability else "")
        for kind in driver.kinds
    )


def _size(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / _GIB:.1f} GiB"


def _ops(ops: Ops) -> list[str]:
    if ops.problem is not None:
        return [f"Not known: {ops.problem}."]
    width = max((len(op.name) for op in ops.ops), default=0)
    rows = [
        f"{op.name:{width}}  {_answer(op.is_installed):9}  {_answer(op.is_compatible):10}  {op.why}" for op in ops.ops
    ]
    built_with = ", ".join(f"{name.removesuffix('_version')} {value}" for name, value in ops.built_with.items())
    about = [
        ("accelerator", ops.accelerator or UNKNOWN),
        ("compiled with", built_with or "nothing was compiled before"),
    ]
    if ops.compilation is not None:
        about.append(("at run time", ops.compilation))
    return _block([*_aligned(about), "", f"{'op':{width}}  installed  compatible", *map(visible, rows)])


def _answer(value: bool | None) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"


# ---------------------------------------------------------------------------------------------------------- the project


def _launches(report: BugReport) -> list[str]:
    lines = [line for file, one in report.launches[:MOST_LAUNCHES] for line in launches.lines(file, one, _PLAIN)]
    left = len(report.launches) - MOST_LAUNCHES
    shown = _block([*lines, *([f"and {left} more"] if left > 0 else [])])
    if not lines:
        shown = ["None was found: add the command that starts the training."]
    default = report.machine.accelerate_default
    if default is not None:
        text = [default.path, "", *default.text.splitlines()]
        shown += ["", *_folded("Accelerate's default config", map(visible, text))]
    return shown


def _configs(report: BugReport) -> list[str]:
    lines: list[str] = []
    for one in report.configs:
        lines += [*_config(one), ""]
    if report.others:
        lines += [*_block([f"not shown: {', '.join(map(shown_path, report.others))}"]), ""]
    return lines[:-1] or ["No DeepSpeed config was found."]


def _config(one: EffectiveConfig) -> list[str]:
    stack = f"stack {one.stack}" if one.is_stack_known else f"stack unknown, taken as {one.stack}"
    target = "".join(f", {library} {release}" for library, release in one.target.items())
    by = f", named by {one.launch}" if one.launch else ""
    head = visible(f"{shown_path(one.path)} ({stack}{target}{by})")
    if one.problem is not None:
        head = shown_path(one.path)
        return _block([head, f"not read: {visible(one.problem)}"])
    changed = effective_values.lines(one.changed, _PLAIN)
    return [
        *_block([head, "values that are not DeepSpeed's defaults:", *changed]),
        "",
        *_folded("All values", effective_values.lines(one.values, _PLAIN)),
    ]


def _findings(report: BugReport) -> list[str]:
    found = [concise.record(file, finding, _PLAIN) for file in report.files for finding in file.findings]
    if not report.files:
        return ["Nothing was checked."]
    if not found:
        return ["`ds-lint check` has none."]
    left = len(found) - MOST_FINDINGS
    return _block([*found[:MOST_FINDINGS], *([f"and {left} more"] if left > 0 else [])])


def _defects(report: BugReport) -> list[str]:
    """The defects of releases that the configs reach, and those that they may reach."""
    known = advisories()
    certain = {one.advisory for file in report.files for one in file.findings if one.advisory in known}
    possible: dict[str, list[str]] = {}
    for file in report.files:
        for name, words in file.possible_advisories.items():
            if name not in certain:
                possible.setdefault(name, words)
    if not report.files:
        return ["Nothing was checked."]
    lines = [f"{one} {affected(known[one])}: {title(known[one])}" for one in sorted(filter(None, certain))]
    others = [
        f"{one} {affected(known[one])}: {title(known[one])} (unknown: {', '.join(possible[one])})"
        for one in sorted(possible)
    ]
    shown = _block(map(visible, lines)) if lines else ["`ds-lint advisories` has none that these configs surely reach."]
    return [*shown, "", *_folded(f"May be reached: {len(others)}", map(visible, others))] if others else shown


# -------------------------------------------------------------------------------------------------------------- the run


def _log(report: BugReport) -> list[str]:
    found = report.diagnosis
    if found is None:
        return ["None was named: `ds-lint bug-report LOG` adds what it shows."]
    lines = [visible(line) for line in diagnosis.lines(found, _PLAIN)]
    if not found.causes:
        return _block(lines)
    shown = [f"{one.path}:{one.line}: {one.text}" for one in found.causes[0].evidence]
    if raised := traceback(report):
        shown += ["", *raised]
    return [*_block(lines), "", *_folded("What shows it", map(visible, shown))]


def traceback(report: BugReport) -> list[str]:
    """The exception that the first cause is about, with what led to it; empty if it is not about one."""
    found = report.diagnosis
    if found is None or not found.causes:
        return []
    places = {(one.path, one.line) for one in found.causes[0].evidence}
    raised = next((one for log in found.logs for one in log.raised if (log.path, one.at) in places), None)
    return list(_chain(raised)) if raised is not None else []


def _chain(raised: RaisedException) -> Iterator[str]:
    """Exceptions, the first one at the top, each with its last calls."""
    for number, one in enumerate(raised.chain):
        if number:
            yield "raised from the one above:" if one.relation == "cause" else "raised while the one above was handled:"
        for frame in one.frames[-MOST_FRAMES:]:
            yield f'  File "{frame.path}", line {frame.line}, in {frame.function}'
        first, *rest = f"{one.name}: {one.message}".split("\n")
        yield first
        yield from rest[:MOST_MESSAGE]


def _runs(report: BugReport) -> list[str]:
    if not report.smoke:
        return ["None was made: `--smoke` trains a few steps with each config."]
    verdicts = [verdict for file in report.files for verdict in file.smoke or ()]
    lines = [f"could not be made: {problem}" for problem in report.problems]
    if verdicts:
        from ds_lint.output import smoke  # few reports have runs

        lines = [*smoke.lines(verdicts, _PLAIN), *lines]
    return _block(map(visible, lines)) if lines else ["No config was found to train with."]
