"""Which scripts take the local rank that a launcher passes (DS866): what is read from them, what Python does."""

from __future__ import annotations

import sys

import pytest

from ds_lint.launches.training_script import read_training_script

ARGPARSE = "import argparse\n"
MADE = ARGPARSE + "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float)\n"
PARSED = "args = parser.parse_args()\n"
IN_FUNCTIONS = """\
import argparse
def add(parser):
    group = parser.add_argument_group("sizes")
    group.add_argument("--width", type=int)
    {}
    return parser
def options():
    parser = argparse.ArgumentParser()
    parser = add(parser)
    return parser
def main():
    args = options().parse_args()
if __name__ == "__main__":
    main()
"""
BOTH, OF_DEEPSPEED, OF_TORCH = ("--local_rank", "--local-rank"), ("--local_rank",), ("--local-rank",)
# Scripts, and what their parsers take.
SCRIPTS = [
    (MADE + PARSED, ()),
    (MADE + "import sys\nargs = parser.parse_args(sys.argv[1:])\n", ()),
    (MADE + "parser.add_argument('--local_rank', type=int, default=-1)\n" + PARSED, OF_DEEPSPEED),
    (MADE + "parser.add_argument('--local-rank', type=int)\n" + PARSED, OF_TORCH),
    (MADE + "parser.add_argument('--local_rank', '--local-rank', type=int)\n" + PARSED, BOTH),
    (MADE + "parser.add_argument('--local_rank_id', type=int)\n" + PARSED, OF_DEEPSPEED),  # which argparse completes
    (MADE.replace("r()", "r(allow_abbrev=False)") + "parser.add_argument('--local_rank_id')\n" + PARSED, ()),
    (MADE + "parser.add_argument('files', nargs='*')\n" + PARSED, ()),
    (IN_FUNCTIONS.format("pass"), ()),
    (IN_FUNCTIONS.format("group.add_argument('--local_rank', type=int)"), OF_DEEPSPEED),
]


def parsers(script):
    return [one.takes for one in read_training_script(script).calls.parsers]


@pytest.mark.parametrize(("script", "takes"), SCRIPTS)
def test_what_a_parser_takes(script, takes, monkeypatch):
    """DS866."""
    assert parsers(script) == [takes]
    for option in BOTH:
        monkeypatch.setattr(sys, "argv", ["train.py", f"{option}=0"])
        if option in takes:
            exec(script, {"__name__": "__main__"})  # noqa: S102 - the scripts above
        else:
            with pytest.raises(SystemExit):
                exec(script, {"__name__": "__main__"})  # noqa: S102


@pytest.mark.parametrize(
    "script",
    [
        MADE + "args, others = parser.parse_known_args()\n",
        MADE + "args = parser.parse_args(['--lr', '1'])\n",
        MADE + "import sys\nsys.argv = [one for one in sys.argv if 'rank' not in one]\n" + PARSED,
        MADE + "import sys\ndel sys.argv[1]\n" + PARSED,
        MADE + "import sys\nclean(sys.argv)\n" + PARSED,
        MADE + "from ours import add_options\nadd_options(parser)\n" + PARSED,
        MADE + "for one in names:\n    parser.add_argument(f'--{one}')\n" + PARSED,
        MADE + "parser.add_argument('rest', nargs=argparse.REMAINDER)\n" + PARSED,
        MADE + "parser.add_argument('rest', nargs='...')\n" + PARSED,
        MADE + "if is_alone:\n    " + PARSED,
        MADE + "try:\n    args = parser.parse_args()\nexcept SystemExit:\n    pass\n",
        MADE + "parser = adapted(parser)\n" + PARSED,
        MADE + "parser._add_action(action)\n" + PARSED,
        MADE + "def unused():\n    return parser.parse_args()\n",
        MADE.replace("r()", "r(parents=[other])") + PARSED,
        "from ours import parser\n" + PARSED,
        "from ours import ArgumentParser\nparser = ArgumentParser()\n" + PARSED,
    ],
)
def test_parsers_of_which_not_everything_is_known(script):
    assert parsers(script) == []
