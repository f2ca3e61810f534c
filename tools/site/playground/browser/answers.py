"""What the page asks of ds-lint, and the answers: its own command line, on files that exist in the browser alone.

A request and its answer are JSON, since objects that both languages share would have to be given up by hand.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import shutil
from contextlib import redirect_stderr, redirect_stdout
from errno import ENOENT
from tempfile import mkdtemp
from traceback import format_exc
from typing import TYPE_CHECKING, Any

from ds_lint import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

FOR_CHECKS = ("extend-select", "preview")
FOR_MEMORY = ("parameters", "micro-batch", "sequence-length")
_SWITCHES = ("preview",)
_COMMANDS = {
    "check": ["check", "--output-format=json"],
    "fix": ["check", "--output-format=json", "--fix"],
    "effective": ["effective", "--output-format=json"],
    "memory": ["memory"],
    "explain": ["explain"],
}


def answer(request: str) -> str:
    """The answer to a request: the exit status, what ds-lint writes, and the files that it changed.

    ``command`` is what to do; ``files`` are the texts by their names, ``options`` the values of options of the
    command line by their names without dashes, and ``path`` is the config, the launch or the rule that it is about.
    """
    given = json.loads(request)
    files: dict[str, str] = given.get("files", {})
    output, errors = io.StringIO(), io.StringIO()
    changed: dict[str, str] = {}
    before, folder = os.getcwd(), mkdtemp()
    try:
        os.chdir(folder)
        _write(files)
        with redirect_stdout(output), redirect_stderr(errors):
            status = _status(arguments(given))
        changed = {name: text for name, old in files.items() if (text := _read(name)) != old}
    except OSError as error:
        errors.write(f"{error.filename}: {error.strerror}\n")
        status = 2
    finally:
        os.chdir(before)
        shutil.rmtree(folder)
    written = output.getvalue()
    if given["command"] == "effective" and status == 0:
        written = _with_shown_values(written)
    return json.dumps({"status": status, "output": written, "errors": errors.getvalue(), "changed": changed})


def arguments(given: dict[str, Any]) -> list[str]:
    """The command line of a request."""
    command, options = given["command"], given.get("options", {})
    if command == "explain":
        return [*_COMMANDS[command], given["path"]]
    words = [*_COMMANDS[command], *_options(command, options)]
    if command in ("check", "fix"):
        return [*words, "--", *_checked(given["files"], options)]
    return [*words, "--", given["path"]]


def _options(command: str, options: dict[str, str]) -> Iterator[str]:
    for name, value in options.items():
        if (name in FOR_CHECKS and command not in ("check", "fix")) or (name in FOR_MEMORY and command != "memory"):
            continue
        yield f"--{name}" if name in _SWITCHES else f"--{name}={value}"


def _checked(files: dict[str, str], options: dict[str, str]) -> list[str]:
    """The files that are checked: those that are not the value of an option, such as the folder of the model."""
    values = [posixpath.normpath(value) for name, value in options.items() if name in ("model", "trainer-args")]
    return [name for name in files if not any(name == one or name.startswith(f"{one}/") for one in values)]


def _with_shown_values(written: str) -> str:
    """Effective values with their texts, since JavaScript knows neither 1.0 nor large numbers."""
    content = json.loads(written)
    for value in content["values"]:
        value["shown"] = json.dumps(value["value"], ensure_ascii=False)
    return json.dumps(content)


def _status(words: list[str]) -> int:
    """The exit status of a command line; what ends a process in ``cli.main`` ends no more than the answer here."""
    try:
        return cli.run(words)
    except SystemExit as ended:  # of argparse, for an option that it does not understand
        return ended.code if isinstance(ended.code, int) else 2
    except Exception:  # noqa: BLE001 - whatever it is, the next request is answered
        print(format_exc())  # noqa: T201
        return 2


def _write(files: dict[str, str]) -> None:
    """Write the files below the working directory. Raises OSError, for names of other places, too."""
    for name, text in files.items():
        if posixpath.normpath(name) != name or name.startswith(("/", "../", "-")) or name in ("", ".", ".."):
            raise FileNotFoundError(ENOENT, "not the name of a file in this folder", name)
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w", encoding="utf-8", newline="", errors="surrogatepass") as file:
            file.write(text)


def _read(name: str) -> str:
    with open(name, encoding="utf-8", newline="", errors="surrogatepass") as file:
        return file.read()
