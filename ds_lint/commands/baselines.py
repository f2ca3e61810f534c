"""The baselines of a run: written with --write-baseline, and the findings that they suppress."""

from __future__ import annotations

from ds_lint.linter.engine import default_rules
from ds_lint.output.text import counted
from ds_lint.settings import baseline
from ds_lint.settings.record import SettingsError
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.context import LintContext
    from ds_lint.settings.baseline import Baseline
    from ds_lint.settings.record import Settings

    Linted = list[tuple[FileReport, LintContext]]


def suppress(linted: Linted, *, is_written: bool) -> list[str]:
    """Remove the findings of the baselines, which are written first if ``is_written``; returns notes for people."""
    by_path: dict[str, Linted] = {}
    for report, context in linted:
        if context.baseline is not None:
            by_path.setdefault(context.baseline, []).append((report, context))
    notes = []
    for path, files in by_path.items():
        if is_written:
            notes.append(_written(path, files))
        known = _read(path, files[0][1].settings)
        if known.has_counts:
            notes.append(
                f"{shown(path)} has only numbers of findings, so new findings of the same rule stay hidden; update it "
                "with --write-baseline"
            )
        for report, _ in files:
            known.suppress(report)
        count = sum(known.outdated(report.path, _rule_names(context)) for report, context in _one_of_each_path(files))
        if count:
            notes.append(
                f"{shown(path)} has {counted(count, 'finding')} that no longer {'exists' if count == 1 else 'exist'}; "
                "update it with --write-baseline"
            )
    return notes


def _read(path: str, settings: Settings) -> Baseline:
    """The baseline in a file; an error names the settings file, if that names the baseline."""
    try:
        return baseline.load(path)
    except SettingsError as error:
        if settings.baseline == path:
            raise SettingsError(f"{settings.giver('baseline')}: baseline: {error}") from None
        raise


def _written(path: str, files: Linted) -> str:
    """Write a baseline, and return a note about it."""
    reports = [report for report, _ in files]
    baseline.write(path, [(report, _rule_names(context)) for report, context in files])
    number = sum(len(report.findings) for report in reports)
    use = "" if all(context.settings.baseline for _, context in files) else f"; use it with --baseline {shown(path)}"
    concerned = counted(len({report.path for report in reports if report.findings}), "file")
    return f"wrote {shown(path)}: {counted(number, 'finding')} in {concerned}{use}"


def _rule_names(context: LintContext) -> list[str]:
    """The names of the rules that a config was linted with."""
    return [rule.name for rule in (default_rules() if context.rules is None else context.rules)]


def _one_of_each_path(files: Linted) -> Linted:
    """A file that holds several configs counts once."""
    return list({report.path: (report, context) for report, context in files}.values())
