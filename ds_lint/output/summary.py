"""The closing lines for people: how many findings, what the files were linted for, and what to do next.

A clean run ends here too, so this module imports nothing that only findings need.
"""

from __future__ import annotations

from ds_lint.diagnostics.finding import SEVERITIES, STACKS
from ds_lint.output.terminal import SEVERITY, STRONG
from ds_lint.output.text import counted, shown_path, visible, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.terminal import Terminal

# What supplies a fact.
OPTIONS = {
    "world size": "--world-size N",
    "training arguments": "--trainer-args FILE",
    "model": "--model NAME",
    "size of the model": "its weights beside config.json",
}


def summary(report: Report, terminal: Terminal) -> list[str]:
    """The last lines of ``full`` and ``concise``: what was linted, and why the status is 2."""
    if report.is_quiet:
        return []
    return [*_outcome(report, terminal), *(_wrapped(line, terminal) for line in _unreadable(report))]


def _unreadable(report: Report) -> list[str]:
    """The first complaint again, which a long report pushes out of sight; the lines of a run have its reason."""
    complaints = report.unreadable
    if not complaints:
        return []
    first = complaints[0]
    reason = first.summary if first.path is None else f"{first.path}: {first.summary}"
    more = f", and {len(complaints) - 1} more" if len(complaints) > 1 else ""
    return [f"Exit status 2: {visible(reason)}{more}"]


def _outcome(report: Report, terminal: Terminal) -> list[str]:
    lines = [_wrapped(f"note: {visible(note)}", terminal) for note in report.notes]
    if report.fixed:
        lines.append(_fixed(report.fixed))
    lines += [_wrapped(line, terminal) for file in report.files for line in not_fixed(file)]
    findings = report.findings
    if not report.files:
        return [*lines, "No DeepSpeed configs found."]
    target = _target(report.files)
    possible = [_wrapped(line, terminal) for line in _possible_advisories(report)]
    if suppressed := _suppressed(report.files):
        lines.append(_wrapped(suppressed, terminal))
    if not findings:
        subject = _subject(report.files)
        text = _wrapped(f"{subject}: no findings{_of_what(report)}. {target}", terminal)
        text = terminal.paint(subject, STRONG) + text[len(subject) :] if text.startswith(subject) else text
        return [*lines, text, *possible]
    lines.append(_counts(findings, terminal) + f" in {_where(report.files)}")
    lines += [_wrapped(target, terminal), *possible]
    if report.can_fix and (hint := _fixable(report)):
        lines.append(_wrapped(hint, terminal))
    lines.append(_wrapped(_next_step(findings), terminal))
    return lines


def _of_what(report: Report) -> str:
    """What "no findings" is about if there is no complete training run; empty if nothing is missing."""
    is_missing = any(file.smoke == [] for file in report.files)  # a run was requested
    is_incomplete = any(run.status == "error" for run in report.smoke)
    return " without the training run" if is_missing or is_incomplete else ""


def _fixed(findings: list[Finding]) -> str:
    return f"Fixed {counted(len(findings), 'finding')}."


def not_fixed(file: FileReport) -> list[str]:
    """A line for each fix that was tried and not applied, with the reason."""
    lines = []
    for unfixed in file.unfixed:
        everything = "both" if len(unfixed.brings) == 1 else "all of it" if unfixed.brings else "it"
        way = f" (--unsafe-fixes fixes {everything})" if unfixed.is_fixed_by_all else ""
        place = f"{shown_path(file.path)}:{file.document.shown_place(unfixed.finding.span.start)}"
        lines.append(f"{place}: {unfixed.finding.code} not fixed: {unfixed.reason}{way}")
    return lines


def _fixable(report: Report) -> str:
    """How many findings the fixes resolve; empty if there are none."""
    ways = [
        "safe" if finding.fix.applied_with and file.applies_unsafe else finding.fix.applied_with
        for file in report.files
        for finding in file.findings
        if finding.fix
    ]
    safe, unsafe = ways.count("safe"), ways.count("unsafe")
    most = "up to " if any(file.may_be_unfixable for file in report.files) else ""
    if not safe:
        return f"{most}{unsafe} fixable with --fix --unsafe-fixes" if unsafe else ""
    return f"{most}{safe} fixable with --fix" + (f", {unsafe} more with --unsafe-fixes" if unsafe else "")


def _wrapped(text: str, terminal: Terminal) -> str:
    return "\n".join(wrap(text, terminal.width, taken=0, indent=2))


def _subject(files: list[FileReport]) -> str:
    paths = {file.path for file in files}
    return shown_path(files[0].path) if len(paths) == 1 else counted(len(paths), "file")


def _where(files: list[FileReport]) -> str:
    """``config.json``, ``3 files`` when all have findings, else ``2 of 5 files``."""
    paths = {file.path for file in files}
    concerned = {file.place(finding).path or file.path for file in files for finding in file.findings}
    if paths == concerned:
        return _subject(files)
    if concerned <= paths:
        return f"{len(concerned)} of {counted(len(paths), 'file')}"
    return shown_path(concerned.pop()) if len(concerned) == 1 else counted(len(concerned), "file")


def _counts(findings: list[Finding], terminal: Terminal) -> str:
    parts = []
    for severity in SEVERITIES:
        number = sum(finding.severity == severity for finding in findings)
        if number:
            parts.append(terminal.paint(counted(number, severity), SEVERITY[severity]))
    return ", ".join(parts)


def _suppressed(files: list[FileReport]) -> str:
    """How many findings are suppressed, and by what; empty if there are none."""
    numbers: dict[str, int] = {}
    for file in files:
        for name, number in file.unreported.items():
            numbers[name] = numbers.get(name, 0) + number
    whose = {"comments": "comments in the files", "baseline": "the baseline"}
    parts = [f"{counted(number, 'finding')} by {whose[name]}" for name, number in numbers.items()]
    return f"Suppressed: {', '.join(parts)}" if parts else ""


def _target(files: list[FileReport]) -> str:
    """What the files were checked against, so that a clean result is not taken for more than it is."""
    configs = [file for file in files if not (file.document.is_of_names or file.document.is_of_fsdp)]
    about_configs = (_stacks(configs), _missing(configs)) if configs else ()
    return "; ".join(part for part in (_targets(files), *about_configs) if part)


def _targets(files: list[FileReport]) -> str:
    versions: dict[str, list[str]] = {}
    for file in files:
        for library, newest in file.target.items():
            version = " to ".join(file.ranges[library]) if library in file.ranges else newest
            seen = versions.setdefault(library, [])
            if version not in seen:
                seen.append(version)
    return visible(
        "Checked against " + ", ".join(f"{library} {' and '.join(seen)}" for library, seen in versions.items())
    )


def _stacks(files: list[FileReport]) -> str:
    numbers: dict[str, int] = {}
    for file in files:
        numbers[_stack(file)] = numbers.get(_stack(file), 0) + 1
    if len(numbers) == 1:
        return f"stack {next(iter(numbers))}"
    noun = "file" if len({file.path for file in files}) == len(files) else "config"
    return "stack " + ", ".join(f"{stack} for {counted(number, noun)}" for stack, number in sorted(numbers.items()))


def _stack(file: FileReport) -> str:
    if file.stack:
        return file.stack
    if 0 < len(file.stacks) < len(STACKS):  # an "auto" that the stack must fill
        return f"{' or '.join(file.stacks)} (set --stack)"
    return "unknown (set --stack)"


def _missing(files: list[FileReport]) -> str:
    facts = list(dict.fromkeys(fact for file in files for fact in file.missing))
    if not facts:
        return ""
    everywhere = all(set(file.missing) == set(facts) for file in files)
    named = (f"{visible(fact)} ({OPTIONS[fact]})" if fact in OPTIONS else visible(fact) for fact in facts)
    return f"unknown{'' if everywhere else ' for some files'}: {', '.join(named)}"


def _possible_advisories(report: Report) -> Iterator[str]:
    """How many known defects of the project's releases may apply, for which a fact is missing; nothing if none may."""
    possible = {one for file in report.files if file.states_releases for one in file.possible_advisories}
    possible -= {finding.advisory for finding in report.findings}
    if possible:
        number, paths = counted(len(possible), "known defect"), " ".join(map(shown_path, report.named))
        yield f"May reach {number} of these releases; for what is not known: ds-lint advisories {paths or 'PATH'}"


def _next_step(findings: list[Finding]) -> str:
    """The page of the worst rule."""
    worst = min(findings, key=lambda finding: SEVERITIES.index(finding.severity))
    return f"For details: ds-lint explain {worst.advisory or worst.code}"
