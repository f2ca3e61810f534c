"""Write schemas/launchers.json: how many words each option of a launcher takes, and what backends of DeepSpeed refuse.

    python -m tools.launcher_options [--write [--all]] [--cache DIR]

``--write`` adds the newest releases that the stores know to those that the file has; a removed option stays, and
``only`` has the releases of those that some lack. ``--all`` adds every release that the stores know. Without
``--write`` the exit status is 1 if the file lacks an option of the installed releases. Only ``ast`` reads the sources.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_lint.launches import launchers
from tools.extract import parsers, source
from tools.extract.reading import STUMBLES, error_text
from tools.extract.releases import UnavailableError, fetch, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMAS = Path(__file__).parent.parent / "schemas"
STORE = SCHEMAS / "launchers.json"
# The launcher, the library that has it, and where its parser is.
LAUNCHERS = {name: one.parser for name, one in launchers.LAUNCHERS.items() if one.parser is not None}
# The actions, as their source says them: those of argparse, and the classes that torchrun has.
_BOOLEAN = ("BooleanOptionalAction", "argparse.BooleanOptionalAction")  # which has its opposite beside it
_WITHOUT_VALUE = {
    *("'store_true'", "'store_false'", "'store_const'", "'append_const'", "'count'", "'help'", "'version'"),
    *("check_env", *_BOOLEAN),
}
_WITH_DASHES = "CustomArgumentParser"  # which takes a dash for each underscore: accelerate/commands/utils.py
_WITH_VALUE = {"'store'", "'append'", "'extend'", "env", "_PrintCompletionAction"}
_REST = ("REMAINDER", "argparse.REMAINDER")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write the store; 1 if it differs, 2 if a launcher is not laid out as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="add the newest known releases, which are downloaded")
    parser.add_argument("--all", action="store_true", help="add all known releases")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep what is downloaded here, and use it again")
    options = parser.parse_args(arguments)
    stored = json.loads(STORE.read_text(encoding="utf-8"))
    try:
        found = {launcher: newest(launcher) if options.write else (None, installed(launcher)) for launcher in LAUNCHERS}
        for launcher, (release, now) in found.items():
            _verify(launcher, release, now, stored[launcher]["options"])
    except (*STUMBLES, UnavailableError) as error:
        sys.stderr.write(f"error: {error_text(error)}\n")
        return 2
    if options.write:
        for launcher, (release, now) in found.items():
            every = _every(launcher, options.cache) if options.all else {}
            stored[launcher] = with_releases(stored[launcher], {**every, str(release): now})
        stored["deepspeed"]["backends"] = backends(stored["deepspeed"]["releases"][-1])
        STORE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        return 0
    missing = [
        f"{launcher} {option}"
        for launcher, (_, now) in found.items()
        for option, takes in now.items()
        if stored[launcher]["options"].get(option) != takes
    ]
    if backends() != stored["deepspeed"]["backends"]:
        missing.append("deepspeed backends")
    sys.stdout.write("".join(f"{line}\n" for line in missing))
    return 1 if missing else 0


def with_releases(known: dict[str, Any], found: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The record of a launcher with the options of more releases."""
    has: dict[str, Mapping[str, str]] = {one: _at(known, one) for one in known["releases"]} | dict(found)
    releases = sorted(has, key=number)
    options = dict(sorted({name: takes for one in releases for name, takes in has[one].items()}.items()))
    return {
        **known,
        "releases": releases,
        "options": {**known["options"], **options},
        "only": {name: {"runs": runs} for name in options if (runs := _runs(name, releases, has)) is not None},
    }


def _at(known: Mapping[str, Any], release: str) -> dict[str, str]:
    """The options that a stored release has."""
    releases = known["releases"]
    place = releases.index(release)

    def has(name: str) -> bool:
        runs = known.get("only", {}).get(name, {"runs": [{"since": releases[0]}]})["runs"]
        return any(
            releases.index(run["since"]) <= place <= releases.index(run.get("until", releases[-1])) for run in runs
        )

    return {name: takes for name, takes in known["options"].items() if has(name)}


def _runs(name: str, releases: Sequence[str], has: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]] | None:
    """From which release to which an option is there; None for one that all have."""
    runs: list[dict[str, str]] = []
    is_there = False
    for one in releases:
        if name in has[one] and not is_there:
            runs.append({"since": one})
        if name in has[one]:
            runs[-1]["until"] = one
        is_there = name in has[one]
    if is_there:
        del runs[-1]["until"]
    return None if runs == [{"since": releases[0]}] else runs


def _every(launcher: str, cache: Path | None) -> dict[str, dict[str, str]]:
    """The options of every release that the store of the library knows."""
    library, files = LAUNCHERS[launcher]
    found = {}
    for release in json.loads((SCHEMAS / f"{library}.json").read_text(encoding="utf-8"))["releases"]:
        with tempfile.TemporaryDirectory() as folder:
            found[release] = _options(fetch(library, release, cache or Path(folder)), files)
    return found


def newest(launcher: str) -> tuple[str, dict[str, str]]:
    """The newest release of its library that the stores know, and the options that the launcher has there."""
    library, files = LAUNCHERS[launcher]
    release = json.loads((SCHEMAS / f"{library}.json").read_text(encoding="utf-8"))["releases"][-1]
    with tempfile.TemporaryDirectory() as folder:
        return release, _options(fetch(library, release, Path(folder)), files)


def installed(launcher: str) -> dict[str, str]:
    """The options of a launcher in the installed release, each with how many words it takes, as ``nargs`` says it."""
    library, files = LAUNCHERS[launcher]
    return _options(Path(str(importlib.metadata.distribution(library).locate_file(""))), files)


def backends(release: str | None = None) -> dict[str, list[str]]:
    """What each ``--launcher`` of DeepSpeed refuses on several nodes; of the installed release if none is named."""
    if release is None:
        return _backends(Path(str(importlib.metadata.distribution("deepspeed").locate_file(""))))
    with tempfile.TemporaryDirectory() as folder:
        return _backends(fetch("deepspeed", release, Path(folder)))


def _backends(folder: Path) -> dict[str, list[str]]:
    """``LAUNCHER_CLASSES`` with the options and slots over which each class raises."""
    module = source.parse(folder / "deepspeed/launcher/runner.py")
    constants = {
        name.id: ast.literal_eval(node.value)
        for node in source.parse(folder / "deepspeed/launcher/constants.py").body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    classes = next(
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAUNCHER_CLASSES"
    )
    assert isinstance(classes, ast.Dict)  # noqa: S101 - or the release is laid out in another way
    runners = source.parse(folder / "deepspeed/launcher/multinode_runner.py")
    defined = {node.name: node for node in runners.body if isinstance(node, ast.ClassDef)}
    return {
        constants[ast.unparse(key)]: _refused(defined[ast.unparse(value)])
        for key, value in zip(classes.keys, classes.values, strict=True)
        if key is not None
    }


# What a condition before a ``raise`` of a backend names, and what the store calls it.
_REFUSED = {"self.args.include": "filters", "self.args.num_gpus": "numbers", "process_per_node": "unequal"}


def _refused(runner: ast.ClassDef) -> list[str]:
    checks = [node for node in ast.walk(runner) if isinstance(node, ast.If)]
    tests = [ast.unparse(node.test) for node in checks if any(isinstance(one, ast.Raise) for one in node.body)]
    return [word for name, word in _REFUSED.items() if any(name in test for test in tests)]


def _verify(launcher: str, release: str | None, found: Mapping[str, str], known: Mapping[str, str]) -> None:
    """A release has at least half of the options that are known."""
    if len(found) < len(known) / 2:
        library = LAUNCHERS[launcher][0]
        release = release or importlib.metadata.version(library)
        raise LookupError(f"only {len(found)} options of {launcher} in {library} {release}; {len(known)} are known")


def _options(folder: Path, files: Sequence[str]) -> dict[str, str]:
    return {option: takes for file in files for option, takes in _defined(folder / file).items()}


def _defined(path: Path) -> dict[str, str]:
    """The options that calls of ``add_argument`` define in a module."""
    module = source.parse(path)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and _adds_option(node)]
    calls = [call for function in functions for call in parsers.added(function)]
    found = {name: _takes(call) for call in calls for name in _names(call)}
    if any(isinstance(node, ast.Name) and node.id == _WITH_DASHES for node in ast.walk(module)):
        found |= {name.replace("_", "-"): takes for name, takes in found.items() if "_" in name[2:]}
    if not found:
        raise LookupError(f"no function in {path} adds an option to a parser")
    return found


def _adds_option(function: ast.FunctionDef) -> bool:
    """Whether a function adds an option by its name; others only repeat those that are there."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    added = (parsers.names(call) for call in calls if ast.unparse(call.func).endswith(".add_argument"))
    return any(name.startswith("-") for names in added for name in names)


def _names(call: ast.Call) -> list[str]:
    """The names of the option that a call adds; none for an argument without a name."""
    names = [name for name in parsers.names(call) if name.startswith("-")]
    if _action(call) in _BOOLEAN:
        names += [f"--no-{name[2:]}" for name in names if name.startswith("--")]
    return names


def _action(call: ast.Call) -> str:
    action = source.keyword(call, "action")
    return "'store'" if action is None else ast.unparse(action)


def _takes(call: ast.Call) -> str:
    """``0``, ``1``, or what ``nargs`` says."""
    action = _action(call)
    if action in _WITHOUT_VALUE:
        return "0"
    if action not in _WITH_VALUE:
        raise LookupError(f"an option has the action {action}")
    nargs = source.keyword(call, "nargs")
    if nargs is None:
        return "1"
    if ast.unparse(nargs) in _REST:
        return argparse.REMAINDER
    if not isinstance(nargs, ast.Constant):
        raise LookupError(f"how many words an option takes is {ast.unparse(nargs)}")  # noqa: TRY004 - another layout
    return str(nargs.value)


if __name__ == "__main__":
    sys.exit(main())
