"""Write schemas/launchers.json: how many words each option of a launcher takes, read from the sources of its releases.

    python -m tools.launcher_options [--write]

Without ``--write`` the exit status is 1 if the stored file differs from what the installed releases say. Only ``ast``
reads the sources.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract import parsers, source
from tools.extract.releases import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STORE = Path(__file__).parent.parent / "schemas" / "launchers.json"
# The launcher, the library that has it, where its parser is, and releases whose options are kept beside the installed.
LAUNCHERS = {
    "deepspeed": ("deepspeed", ("deepspeed/launcher/runner.py",), ("0.5.10", "0.9.5", "0.12.6", "0.15.4")),
    "torchrun": ("torch", ("torch/distributed/run.py", "torch/distributed/launch.py"), ()),
    "accelerate": ("accelerate", ("accelerate/commands/launch.py",), ("0.15.0", "0.21.0", "0.27.2", "1.0.1")),
}
_WITHOUT_VALUE = {"store_true", "store_false", "store_const", "count", "help", "version", "check_env"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write the store; 1 if it differs, 2 if a launcher is not laid out as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the store, with older releases downloaded")
    options = parser.parse_args(arguments)
    stored = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    known = {launcher: stored.get(launcher, {}).get("options", {}) for launcher in LAUNCHERS}
    try:
        found = {launcher: _options_now(launcher, known[launcher]) for launcher in LAUNCHERS}
        written = _all(found) if options.write else None
    except LookupError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if written is not None:
        STORE.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        return 0
    missing = [
        f"{launcher} {option}"
        for launcher, now in found.items()
        for option, takes in now.items()
        if known[launcher].get(option) != takes
    ]
    sys.stdout.write("".join(f"{line}\n" for line in missing))
    return 1 if missing else 0


def _options_now(launcher: str, known: Mapping[str, str]) -> dict[str, str]:
    """The options of a launcher in the installed release, which has at least half of those that are known."""
    found = installed(launcher)
    if len(found) < len(known) / 2:
        library = LAUNCHERS[launcher][0]
        release = importlib.metadata.version(library)
        raise LookupError(f"only {len(found)} options of {launcher} in {library} {release}; {len(known)} are known")
    return found


def installed(launcher: str) -> dict[str, str]:
    """The options of a launcher in the installed release, each with how many words it takes, as ``nargs`` says it."""
    library, files, _ = LAUNCHERS[launcher]
    folder = Path(str(importlib.metadata.distribution(library).locate_file("")))
    return _options(folder, files)


def _all(now: Mapping[str, Mapping[str, str]]) -> Mapping[str, object]:
    """The store, with the options of the installed releases ``now`` beside those of the older ones."""
    stored = {}
    with tempfile.TemporaryDirectory() as folder:
        for launcher, (library, files, older) in LAUNCHERS.items():
            options: dict[str, str] = {}
            for release in older:
                options |= _options(fetch(library, release, Path(folder)), files)
            options |= now[launcher]
            releases = [*older, importlib.metadata.version(library).partition("+")[0]]
            stored[launcher] = {"library": library, "releases": releases, "options": dict(sorted(options.items()))}
    return stored


def _options(folder: Path, files: Sequence[str]) -> dict[str, str]:
    return {option: takes for file in files for option, takes in _defined(folder / file).items()}


def _defined(path: Path) -> dict[str, str]:
    """The options that calls of ``add_argument`` define in a module."""
    module = source.parse(path)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and _adds_option(node)]
    calls = [call for function in functions for call in parsers.added(function)]
    found = {
        name: _takes({keyword.arg: keyword.value for keyword in call.keywords})
        for call in calls
        for name in parsers.names(call)
        if name.startswith("-")
    }
    if not found:
        raise LookupError(f"no function in {path} adds an option to a parser")
    return found


def _adds_option(function: ast.FunctionDef) -> bool:
    """Whether a function adds an option by its name; others only repeat those that are there."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    added = (parsers.names(call) for call in calls if ast.unparse(call.func).endswith(".add_argument"))
    return any(name.startswith("-") for names in added for name in names)


def _takes(keywords: Mapping[str | None, ast.expr]) -> str:
    """``0``, ``1``, or what ``nargs`` says."""
    action = keywords.get("action")
    if action is not None and not isinstance(action, (ast.Constant, ast.Name)):
        raise LookupError(f"an option has the action {ast.unparse(action)}")
    name = action.value if isinstance(action, ast.Constant) else action.id if isinstance(action, ast.Name) else None
    if name in _WITHOUT_VALUE:
        return "0"
    nargs = keywords.get("nargs")
    return str(nargs.value) if isinstance(nargs, ast.Constant) else "1"


if __name__ == "__main__":
    sys.exit(main())
