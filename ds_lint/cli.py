"""The entry point. What ``ds-lint check FILE...`` does not need on a clean file is not imported here."""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_INVALID = 22  # errno.EINVAL
_OF_COLOURS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE")
_OF_HOOKS = ("--detect", "--force-exclude", "--fix")  # what pre-commit passes beside the names of files


def main(arguments: list[str] | None = None) -> int:
    """Run a command line, by default that of this process, and return its exit status.

    For programs that embed ds-lint: the process goes on, and the environment is as before. What is printed goes to
    ``sys.stdout`` and ``sys.stderr``. Raises nothing but KeyboardInterrupt, and BrokenPipeError for a standard output
    that was closed.
    """
    colours = {name: os.environ.get(name) for name in _OF_COLOURS}  # --color sets them
    try:
        try:
            status = run(sys.argv[1:] if arguments is None else arguments)
        except SystemExit as ended:  # of argparse, and of a signal that ends training runs
            status = ended.code if isinstance(ended.code, int) else 0
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if sys.platform == "win32" and error.errno == _INVALID and not error.filename:  # what a closed pipe is there
            raise BrokenPipeError from error
        place = f"{error.filename}: " if error.filename else ""
        from ds_lint.output.harmless import complaint

        sys.stderr.write(complaint(f"{place}{error.strerror or error}"))
        status = 2
    except Exception:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        from traceback import format_exc

        sys.stderr.write(f"{format_exc()}ds-lint: internal error; please report it with the file that caused it\n")
        status = 2
    finally:
        for name, value in colours.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return status


def console() -> NoReturn:
    """Run the command line of this process and end it."""
    gc.disable()  # a run is over before the collector could find anything to collect
    _open_closed_streams()
    if sys.platform == "win32":
        _write_as_elsewhere()
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    os._exit(status)  # skips the interpreter's own clean-up, which costs a tenth of a clean run


def _open_closed_streams() -> None:
    """Let what is written to a closed standard stream go nowhere; else a file or a socket would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _write_as_elsewhere() -> None:
    """Give pipes and files UTF-8 with plain line ends on Windows, too, unless the user asks for another encoding.

    A console gets what it can show, which is all of Unicode.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not stream.isatty():
            encoding = None if os.environ.get("PYTHONIOENCODING") else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace", newline="\n")


def run(arguments: list[str]) -> int:
    """The exit status of a command line: 0 clean, 1 findings, 2 wrong usage, unreadable file or internal error."""
    if arguments[:1] == ["check"]:
        from ds_lint import clean_path

        clean_path.load(clean_path.FOR_ANY_FILE)
        given = [one for one in arguments[1:] if one.startswith("-")]
        may_have_others = any(name.startswith("DS_LINT_") for name in os.environ)  # variables give options, too
        if all(one in _OF_HOOKS for one in given) and not may_have_others:  # the usual calls do without argparse
            return _check([one for one in arguments[1:] if one not in given], given)
    from ds_lint.commands.parser import parse

    return parse(arguments)


def _check(paths: list[str], given: list[str]) -> int:
    from ds_lint import clean_path
    from ds_lint.commands.check import check
    from ds_lint.session.options import Options

    detect = "--detect" in given
    if not detect:  # else most files hold no config
        clean_path.load(clean_path.FOR_CONFIGS)
    force_exclude = True if "--force-exclude" in given else None
    return check(Options(paths=paths, detect=detect, force_exclude=force_exclude, fix="--fix" in given))
