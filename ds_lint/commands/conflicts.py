"""Which options cannot be combined, for a complaint before anything is done."""

from __future__ import annotations

from ds_lint.commands.documents import STANDARD_INPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

COUNTED_IN = ("full", "concise", "json")  # formats of --statistics
SHOWN_IN = ("full", "json")  # and of what is shown instead of a report
WATCHED_IN = ("full", "concise", "github")  # and of --watch

_SHOWN = {"--show-settings": "settings", "--show-files": "files", "--show-launches": "launches"}
_CHANGES = ("--fix", "--fix-only", "--add-ignore", "--write-baseline")
_NEED_REPORTS = (*_CHANGES, "--diff", "--smoke", "--smoke-launches", "--smoke-sbatch", "--statistics", "--output-file")
_NOT_IN_A_JOB = (*_CHANGES, "--diff", "--smoke-launch", "--smoke-launches", "--smoke-ranks")
_WITHOUT_REPORT = (
    "--statistics", "--output-file", "--output-format", "--smoke", "--smoke-launches", "--smoke-sbatch",
    "--write-baseline",
)  # fmt: skip
_OF_LAUNCHES = ("smoke_launches", "smoke_timeout", "smoke_device", "smoke_report")  # which work without --smoke


def complaint(options: Namespace) -> str | None:
    """What is wrong with the options of ``check`` or ``upgrade`` as a whole; None if nothing is."""
    return next(_complaints(options), None)


def _complaints(options: Namespace) -> Iterator[str]:
    if options.statistics and options.output_format not in (None, *COUNTED_IN):
        yield f"--statistics has the formats {', '.join(COUNTED_IN)}, not {_format(options)}"
    if not hasattr(options, "fix"):  # of an upgrade
        return
    if options.watch:
        yield from _with_watch(options)
    shown = list(_given(_SHOWN, options))
    if len(shown) > 1:
        yield f"{shown[0]} prints {_SHOWN[shown[0]]}, and {shown[1]} prints {_SHOWN[shown[1]]}; use one of them"
    if shown:
        yield from _with_shown(shown[0], options)
        return
    if options.unsafe_fixes and not (options.fix or options.fix_only or options.diff):
        yield "--unsafe-fixes needs --fix or --fix-only, which apply the fixes, or --diff, which shows them"
    if options.diff:
        yield from _with_diff(options)
    if options.fix_only:
        yield from _without_report("--fix-only", options)
    if options.add_ignore:
        yield from _with_ignores(options)
    if options.smoke_sbatch is None:
        yield from _about_runs(options)
    else:
        yield from _with_batch_script(options)


def _with_shown(show: str, options: Namespace) -> Iterator[str]:
    is_asked = "output-format" not in options.said_by  # a variable of CI is about reports
    if is_asked and options.output_format not in (None, *SHOWN_IN):
        yield f"{show} has the formats {', '.join(SHOWN_IN)}, not {options.output_format}"
    for name in _given(_NEED_REPORTS, options):
        yield f"{show} checks nothing and cannot be combined with {name}"


def _with_watch(options: Namespace) -> Iterator[str]:
    if options.output_format not in (None, *WATCHED_IN):
        yield f"--watch has the formats {', '.join(WATCHED_IN)}, not {_format(options)}"
    if STANDARD_INPUT in options.paths:
        yield "--watch needs files or directories: standard input is read once"
    for name in _given((*_SHOWN, *_NEED_REPORTS), options):
        if name != "--statistics":
            yield f"--watch only checks; run {name} without it"


def _with_diff(options: Namespace) -> Iterator[str]:
    for name in _given(("--smoke", "--smoke-launches", "--statistics"), options):
        yield f"--diff prints no report and cannot be combined with {name}"
    for name in _given(("--write-baseline", "--add-ignore"), options):
        yield f"--diff changes nothing and cannot be combined with {name}"


def _without_report(option: str, options: Namespace) -> Iterator[str]:
    for name in _given(_WITHOUT_REPORT, options):
        yield f"{option} prints no report and cannot be combined with {name}"


def _with_ignores(options: Namespace) -> Iterator[str]:
    yield from _without_report("--add-ignore", options)
    for name in _given(("--fix", "--fix-only"), options):
        yield f"--add-ignore suppresses findings and cannot be combined with {name}; run {name} first"
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
    for name in _given(_NOT_IN_A_JOB, options):
        yield f"--smoke-sbatch only writes the script of a job and cannot be combined with {name}"
    if STANDARD_INPUT in options.paths:
        yield "--smoke-sbatch needs files or directories: the job does not read this standard input"


def _given(names: Iterable[str], options: Namespace) -> Iterator[str]:
    """The options among these that are on the command line."""
    for name in names:
        option = name.removeprefix("--")
        if getattr(options, option.replace("-", "_")) and option not in options.said_by:
            yield name


def _format(options: Namespace) -> str:
    variable = options.said_by.get("output-format")
    return f"{options.output_format} ({variable})" if variable else str(options.output_format)
