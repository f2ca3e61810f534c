"""How the extractors read Python: conditions, local names, messages, fields."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from tools.extract import source

RECEIVERS = {"args": "", "self": "Accelerator"}


def body(text):
    return source.statements(source.find(ast.parse(dedent(text)), "made"))


def expression(text):
    return ast.parse(text, mode="eval").body


def test_each_branch_has_its_conditions():
    taken, other, last = body(
        """
        def made(self, mode):
            if mode == "fp16":
                self.a = 1
            elif "bf16" in ds_config:
                self.b = 2
            else:
                self.c = 3
        """
    )
    assert source.conditions(taken, RECEIVERS) == ["mode == 'fp16'"]
    assert source.conditions(other, RECEIVERS) == ["mode != 'fp16'", "bf16 is present"]
    assert source.conditions(last, RECEIVERS) == ["mode != 'fp16'", "bf16 is missing"]


def test_that_something_is_there_to_work_on_is_no_condition():
    (statement,) = body("def made(model):\n    if model is not None and model.is_moe:\n        mark(model)")
    assert source.conditions(statement, RECEIVERS) == ["model.is_moe"]


def test_what_happens_after_an_error_happens():
    lines = body(
        "def made():\n    try:\n        read()\n    except OSError:\n        guess()\n    finally:\n        close()"
    )
    assert [ast.unparse(line.node) for line in lines] == ["read()", "guess()", "close()"]


@pytest.mark.parametrize(
    ("test", "opposite"),
    [
        ("a == b", "a != b"),
        ("a in b", "a not in b"),
        ("not a", "a"),
        ("a < b", "not a < b"),
        ("a and b", "not (a and b)"),
    ],
)
def test_the_opposite_of_a_condition(test, opposite):
    assert ast.unparse(source.negated(expression(test))) == opposite


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("args.learning_rate", "learning_rate"),
        ("self.num_processes", "Accelerator.num_processes"),
        ("self.state.plugin", "Accelerator.state.plugin"),
        ("model.config", "model.config"),
    ],
)
def test_owners_are_named_as_told(text, told):
    assert source.text(expression(text), {}, RECEIVERS) == told


def test_names_with_one_meaning_are_spelled_out_and_the_tree_stays_as_it_is():
    _, total = body("def made(args):\n    size = args.size\n    use(size * 2)")
    (call,) = total.calls()
    assert source.text(call.args[0], total.names, RECEIVERS) == "size * 2"
    assert source.text(call.args[0], total.names, {}) == "args.size * 2"
    assert ast.unparse(total.node) == "use(size * 2)"


@pytest.mark.parametrize("assignment", ["size = size + 1", "size = 1\n    size = 2", "for size in sizes: pass"])
def test_names_with_several_meanings_stay(assignment):
    *_, last = body(f"def made(sizes):\n    {assignment}\n    use(size)")
    (call,) = last.calls()
    assert source.text(call.args[0], last.names, {}) == "size"


def test_messages_leave_open_what_is_put_in():
    made = source.find(
        ast.parse(
            "def made(key):\n    why = 'too  ' f'{key} ' 'old'\n    raise ValueError('Please. ' + why)\n    raise key"
        ),
        "made",
    )
    assert list(source.refusals(made, {})) == [("Please. too ... old", [])]


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(LookupError, match="made"):
        source.find(ast.parse(""), "made")
    with pytest.raises(LookupError, match="absent"):
        source.parse(tmp_path / "absent.py")
