"""Options that ds-lint says a launcher refuses, against the parsers of the launchers themselves."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import random
from pathlib import Path

import pytest
from installed import measured_with_the_newest

from ds_lint.knowledge import tables
from ds_lint.launches.launcher_parser import refused_options
from ds_lint.launches.script_options import OF_DEEPSPEED
from ds_lint.semantics.refused_launcher_options import options_at
from tools.extract.releases import fetch

pytest.importorskip("accelerate")
pytest.importorskip("deepspeed")
pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

AGREE = 0.99
# The module with the parser of a launcher, and the function that makes it, or parses with it.
PARSERS = {
    "deepspeed": ("deepspeed.launcher.runner", "parse_args"),
    "torchrun": ("torch.distributed.run", "get_args_parser"),
    "accelerate": ("accelerate.commands.launch", "launch_command_parser"),
}
OLDER = {
    "deepspeed": ("0.15.4", "0.12.6", "0.9.5"),
    "torchrun": ("2.12.1", "2.6.0", "2.1.2"),
    "accelerate": ("1.12.0", "1.0.1", "0.30.1"),
}


def test_the_options_that_deepspeed_adds_to_a_parser_of_a_script():
    import deepspeed

    parser = deepspeed.add_config_arguments(argparse.ArgumentParser(add_help=False))
    added = {one.dest: "1" if one.nargs is None else str(one.nargs) for one in parser._actions}
    assert added == {name: takes for name, takes in OF_DEEPSPEED.items() if name != "deepspeed_mpi"}


def parser_of(launcher, tree=None):
    """The function of the installed release, or of one whose package lies in a folder."""
    module_name, name = PARSERS[launcher]
    module = importlib.import_module(module_name)
    if tree is None:
        return getattr(module, name)
    path = Path(tree, *module_name.split(".")).with_suffix(".py")
    functions = [one for one in ast.parse(path.read_text()).body if isinstance(one, ast.FunctionDef)]
    namespace = dict(vars(module))
    source = ast.Module([one for one in functions if one.name == name], [])
    exec(compile(source, path, "exec"), namespace)  # noqa: S102 - the parser of a release
    return namespace[name]


def ended(launcher, function, words):
    """The status with which the parser ends, 0 if it does not, and what it says."""
    said, status = io.StringIO(), 0
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            if launcher == "deepspeed":
                function(words)
            else:
                function().parse_args(words)
    except SystemExit as ending:
        status = ending.code
    return status, said.getvalue()


def is_ambiguous(said):
    """Whether an option may be several; two spellings of one are the same in newer releases of Python."""
    *_, listed = said.strip().rpartition("could match ")
    return "ambiguous option" in said and len({one.replace("-", "_") for one in listed.split(", ")}) > 1


def random_words(options, draw):
    """A command line behind the launcher: options, as they are, cut off, misspelled or unknown, and a script."""
    words = []
    for _ in range(draw.randint(1, 4)):
        name = draw.choice(sorted(options))
        kind = draw.choice(("plain", "plain", "plain", "cut", "slip", "longer", "other", "dashes"))
        if kind == "cut" and len(name) > 6:
            name = name[: draw.randint(5, len(name))]
        elif kind == "slip" and len(name) > 6:
            at = draw.randint(3, len(name) - 1)
            name = name[:at] + name[at + 1 :]
        elif kind == "longer":
            name += draw.choice(("s", "_size", "x"))
        elif kind == "other":
            name = draw.choice(("--lr", "--num_workers", "--deepspeed_config", "-n", "--gpus"))
        elif kind == "dashes":
            name = "--" + name.strip("-").replace("_", "-") if draw.random() < 0.5 else name
        value = draw.choice(("8", "2", "localhost", "1"))
        form = draw.choice(("behind", "behind", "equals", "bare"))
        words += [f"{name}={value}"] if form == "equals" else [name, value] if form == "behind" else [name]
        if options.get(name) == "0" and form == "behind":
            words.pop()
    return [*words, "train.py", "--lr", "1e-5"]


def differences(launcher, function, release, number, seed):
    known = tables.load("launchers")[launcher]
    options = options_at(known, release)
    draw = random.Random(seed)
    wrong = []
    for _ in range(number):
        words = random_words(known["options"], draw)
        refused = any(refused_options(words, options, abbreviates=launcher != "accelerate"))
        status, said = ended(launcher, function, words)  # it may end because of a value before
        if (refused and status != 2) or (not refused and ("unrecognized" in said or is_ambiguous(said))):
            wrong.append((refused, words, said[-200:]))
    return wrong


@pytest.mark.parametrize("launcher", PARSERS)
def test_the_installed_launchers_refuse_what_ds_lint_says(launcher):
    library = tables.load("launchers")[launcher]["library"]
    release = importlib.import_module(library).__version__.partition("+")[0]
    wrong = differences(launcher, parser_of(launcher), release, 60, seed=1)
    assert len(wrong) <= 60 * (1 - AGREE), wrong[:5]


@pytest.mark.long
@pytest.mark.parametrize(("launcher", "release"), [(name, one) for name, them in OLDER.items() for one in them])
def test_other_releases_refuse_what_ds_lint_says(launcher, release, tmp_path):
    library = tables.load("launchers")[launcher]["library"]
    wrong = differences(launcher, parser_of(launcher, fetch(library, release, tmp_path)), release, 400, seed=2)
    assert len(wrong) <= 400 * (1 - AGREE), wrong[:5]
