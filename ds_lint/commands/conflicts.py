"""Which options cannot be combined, for a complaint before anything is done."""

from __future__ import annotations

from ds_lint.commands import other_reports
from ds_lint.commands.documents import STANDARD_INPUT
from ds_lint.commands.options import CheckOptions
from ds_lint.session.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

COUNTED_IN = ("full", "concise", "json")  # formats of --statistics
SHOWN_IN = ("full", "json")  # and of what is shown instead of a report
WATCHED_IN = ("full", "concise", "github")  # and of --watch

_SHOWN = {"--show-settings": "settings", "--show-files": "files", "--show-launches": "launches"}
_OF_LAUNCHES = ("smoke_launches", "smoke_timeout", "smoke_device")  # which work without --smoke

# Why the options that have one of these words in ``not_with`` are refused.
_REFUSALS = {
    "shown": "{by} checks nothing and cannot be combined with {name}",
    "watch": "--watch only checks; run {name} without it",
    "diff": "--diff prints no report and cannot be combined with {name}",
    "undone": "--diff changes nothing and cannot be combined with {name}",
    "fix-only": "--fix-only prints no report and cannot be combined with {name}",
    "add-ignore": "--add-ignore prints no report and cannot be combined with {name}",
    "suppressed": "--add-ignore suppresses findings and cannot be combined with {name}; run {name} first",
    "job": "--smoke-sbatch only writes the script of a job and cannot be combined with {name}",
}


def complaint(options: Namespace) -> str | None:
    """What is wrong with the options of ``check`` or ``upgrade`` as a whole; None if nothing is."""
    return next(_complaints(options), None)


def _complaints(options: Namespace) -> Iterator[str]:
    if options.statistics and options.output_format not in (None, *COUNTED_IN):
        yield f"--statistics has the formats {', '.join(COUNTED_IN)}, not {_format(options)}"
    if options.select == []:
        yield "--select names no rule; name codes, prefixes of codes, names or ALL, or leave the option out"
    has_runs = any(getattr(options, name, None) for name in ("smoke", "smoke_launches", "smoke_sbatch"))
    if options.report or options.output_file:
        yield from other_reports.complaints(options, options.paths, has_runs=has_runs)
    if not hasattr(options, "fix"):  # of an upgrade
        return
    if options.watch:
        yield from _with_watch(options)
    shown = [name for name in _SHOWN if getattr(options, name[2:].replace("-", "_"))]
    if len(shown) > 1:
        yield f"{shown[0]} prints {_SHOWN[shown[0]]}, and {shown[1]} prints {_SHOWN[shown[1]]}; use one of them"
    if shown:
        yield from _with_shown(shown[0], options)
        return
    if options.diff:
        yield from _refused("diff", options)
        yield from _refused("undone", options)
    if options.fix_only:
        yield from _refused("fix-only", options)
    if options.add_ignore:
        yield from _with_ignores(options)
    if options.smoke_sbatch is None:
        yield from _about_runs(options)
    else:
        yield from _with_batch_script(options)


def _refused(word: str, options: Namespace, by: str = "") -> Iterator[str]:
    """Why the options that are given cannot be combined with what this word stands for."""
    for option in (*Options.options(), *CheckOptions.options()):
        is_given = getattr(options, option.name) and option.dashed not in options.given_by
        if is_given and word in option.not_with.split():
            yield _REFUSALS[word].format(by=by, name=f"--{option.dashed}")


def _with_shown(show: str, options: Namespace) -> Iterator[str]:
    is_given = "output-format" not in options.given_by  # a variable of CI is about reports
    if is_given and options.output_format not in (None, *SHOWN_IN):
        yield f"{show} has the formats {', '.join(SHOWN_IN)}, not {options.output_format}"
    yield from _refused("shown", options, show)


def _with_watch(options: Namespace) -> Iterator[str]:
    if options.output_format not in (None, *WATCHED_IN):
        yield f"--watch has the formats {', '.join(WATCHED_IN)}, not {_format(options)}"
    if STANDARD_INPUT in options.paths:
        yield "--watch needs files or directories: standard input is read once"
    yield from _refused("watch", options)


def _with_ignores(options: Namespace) -> Iterator[str]:
    yield from _refused("add-ignore", options)
    yield from _refused("suppressed", options)
    if options.isolated:
        yield "--add-ignore may write settings, which --isolated ignores; use one of them"
    if STANDARD_INPUT in options.paths:
        yield "--add-ignore changes files and cannot change standard input"


def _about_runs(options: Namespace) -> Iterator[str]:
    if options.smoke_launch is not None and options.smoke_ranks is not None:
        yield "--smoke-ranks and --smoke-launch both set the number of ranks; use one of them"
    given = (name for name, value in vars(options).items() if name.startswith("smoke_") and value)
    allowed = _OF_LAUNCHES if options.smoke_launches else ()
    if not options.smoke and (name := next((name for name in given if name not in allowed), None)):
        yield f"--{name.replace('_', '-')} needs --smoke"
    if options.smoke_launches and not options.smoke and options.smoke_device == "cuda":
        yield "--smoke-launches runs each launch on the devices that it asks for; only --smoke-device cpu changes them"


def _with_batch_script(options: Namespace) -> Iterator[str]:
    yield from _refused("job", options)
    if STANDARD_INPUT in options.paths:
        yield "--smoke-sbatch needs files or directories: the job does not read this standard input"


def _format(options: Namespace) -> str:
    variable = options.given_by.get("output-format")
    return f"{options.output_format} ({variable})" if variable else str(options.output_format)
