"""Write the reports of ``ds-lint check`` over many configs, so that a change that means nothing shows nothing.

    python -m tools.reports BEFORE ../shared/corpus examples
    (change the code)
    python -m tools.reports AFTER ../shared/corpus examples --against BEFORE

Each stack and each output format has a file of its own, and so have fixes, training arguments, older releases and
``ds-lint effective``. With ``--against`` what differs is printed, and the exit status is 1 where anything does.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path

from ds_lint.cli import run
from ds_lint.output import FORMATS
from tools import differences

ARGUMENTS = "--learning_rate 5e-5 --per_device_train_batch_size 4 --bf16 --lr_scheduler_type cosine --warmup_steps 10"
STACKS = ("any", "deepspeed", "trainer", "accelerate")


def configs(paths: list[Path]) -> list[str]:
    """The files below the paths, in an order that does not change."""
    found = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return sorted(str(file) for file in found if file.is_file())


def printed(words: list[str]) -> str:
    """What a command line prints, and its exit status."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(words)
    return f"{out.getvalue()}{err.getvalue()}exit status {status}\n"


def command_lines(files: list[str]) -> dict[str, list[list[str]]]:
    """The command lines whose output is compared, by the name of the file that it is kept in."""
    found = {"rules": [["rules"]]}
    for stack in STACKS:
        check = ["check", "--isolated", *(() if stack == "any" else ("--stack", stack))]
        for name in FORMATS:
            found[f"{stack}.{name}"] = [[*check, "--output-format", name, *files]]
        found[f"{stack}.diff"] = [[*check, "--diff", "--unsafe-fixes", *files]]
        found[f"{stack}.all"] = [[*check, "--select", "DS", "--world-size", "3", *files]]
        found[f"{stack}.older"] = [[*check, "--deepspeed-version", ">=0.9.5,<0.16", *files]]
        found[f"{stack}.arguments"] = [[*check, "--trainer-args", ARGUMENTS, "--world-size", "8", *files]]
        if stack != "any":
            found[f"{stack}.effective"] = [["effective", "--isolated", "--stack", stack, file] for file in files]
    return found


def main() -> int:
    """Write them, and compare them with those of another folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the reports are written")
    parser.add_argument("paths", type=Path, nargs="+", help="configs, and folders of them")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="reports to compare them with")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    files = configs(arguments.paths)
    os.environ["COLUMNS"] = "120"
    differ = 0
    for name, lines in command_lines(files).items():
        text = "".join(printed(words) for words in lines)
        report = text.encode(errors="surrogateescape")  # as bytes: a text file would turn the \r of a config into \n
        (arguments.folder / name).write_bytes(report)
        if arguments.against is not None:
            before = (arguments.against / name).read_bytes()
            if before != report:
                differ += 1
                differences.show(name, before.decode(errors="surrogateescape"), text)
    sys.stdout.write(f"{len(files)} files, {differ} reports differ\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
