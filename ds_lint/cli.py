"""The entry point. What ``ds-lint check FILE...`` does not need on a clean file is not imported here."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_OF_HOOKS = ("--detect", "--force-exclude", "--fix")  # what pre-commit passes beside the names of files


def main() -> NoReturn:
    """Run the command line of this process and end it."""
    gc.disable()  # a run is over before the collector could find anything to collect
    _open_closed_streams()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        from ds_lint.output.harmless import complaint

        sys.stderr.write(complaint(f"{place}{error.strerror or error}"))
        status = 2
    except Exception:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        from traceback import format_exc

        sys.stderr.write(f"{format_exc()}ds-lint: internal error; please report it with the file that caused it\n")
        status = 2
    os._exit(status)  # skips the interpreter's own clean-up, which costs a tenth of a clean run


def _open_closed_streams() -> None:
    """Let what is written to a closed standard stream go nowhere; else a file or a socket would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


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
