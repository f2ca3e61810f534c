"""Scripts that build a config in many ways: what the reader says of it is what arrives when the script is run."""

from __future__ import annotations

import random
import sys

import pytest
from python_modules import agrees, arriving
from python_scripts import DECIDED, ODD, UNDECIDED, odd_script, script

from ds_lint.source import python
from ds_lint.source.python_names import ModuleNames
from ds_lint.source.python_syntax import parsed
from ds_lint.source.python_values import Values
from ds_lint.source.tree import Fraction, plain, walk

KNOWN = 0.97  # of the scripts in which nothing depends on what is not in them
FEW, MANY = 150, 1000


@pytest.fixture(autouse=True)
def _arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "12"])


def run(seed, *, undecided):
    """A script that runs to its end, what arrives, and the documents that are read in it."""
    for number in range(20):  # some raise: a value where another part wants a section
        code, names = script(random.Random(100 * seed + number).choice, undecided=undecided)
        sys.argv[:] = ["train.py", "12"]
        try:
            arrived = arriving(code, input=lambda: "3")
        except TypeError:
            continue
        return code, names, arrived, [one for one in python.read(code, "train.py") if one.stack == "deepspeed"]
    raise AssertionError("no script runs")


def is_known(document, arrived):
    """Whether a document is what arrives, to its ground."""
    if document.is_fragment or plain(document.root) != arrived:
        return False
    return all(member.value.kind != "template" for _, member in walk(document.root))


def wrong(documents, arrived):
    return [
        one for one in documents if not any(agrees(one.root, value, may_have_more=one.is_fragment) for value in arrived)
    ]


def measure(seeds, *, undecided):
    """How many of some scripts are known; none may be read wrongly."""
    known = 0
    for seed in seeds:
        code, names, arrived, documents = run(seed, undecided=undecided)
        assert not wrong(documents, arrived), (names, code)
        known += any(is_known(one, arrived[0]) for one in documents)
    return known / len(seeds)


def test_straight_scripts_are_known():
    assert measure(range(FEW), undecided=False) >= KNOWN


def test_nothing_is_wrong_where_a_script_depends_on_more():
    measure(range(FEW), undecided=True)


@pytest.mark.long
def test_a_thousand_straight_scripts_are_known():
    assert measure(range(MANY), undecided=False) >= KNOWN


@pytest.mark.long
def test_nothing_is_wrong_in_a_thousand():
    measure(range(MANY), undecided=True)


@pytest.mark.parametrize("code", ODD, ids=lambda _: "")
def test_nothing_is_wrong_in_odd_scripts(code, capsys):
    module = odd_script(code)
    arrived = arriving(module)
    capsys.readouterr()
    documents = [one for one in python.read(module, "train.py") if one.stack == "deepspeed"]
    assert not wrong(documents, arrived)


def test_there_are_many_ways():
    assert len(DECIDED) >= 30
    assert len(UNDECIDED) >= 30


def only(code):
    (document,) = [one for one in python.read(code, "train.py") if one.stack is not None]
    return document


def test_what_a_loop_writes_is_where_the_text_has_it():
    code = (
        'config = {"train_batch_size": 1}\nfor key, value in [("gradient_clipping", 1.0), ("zero_optimization", {})]:\n'
    )
    document = only(f"{code}    config[key] = value\ndeepspeed.initialize(config=config)\n")
    member = document.root.member("gradient_clipping")
    assert document.text[member.key_span.start : member.key_span.end] == '"gradient_clipping"'
    assert document.text[member.value.span.start : member.value.span.end] == "1.0"


def test_a_text_that_writes_several_values_is_not_replaced():
    code = 'config = {}\nfor key in ("fp16", "bf16"):\n    config[key] = {"enabled": True}\n'
    document = only(f"{code}deepspeed.initialize(config=config)\n")
    assert document.has_stand_in(document.root.at(("fp16", "enabled")).span)


def test_each_dict_that_a_function_passes_on_is_a_config():
    code = "def launch(config):\n    deepspeed.initialize(config=config)\n"
    found = python.read(f"{code}launch({{'train_batch_size': 1}})\nlaunch({{'train_batch_size': 2}})\n", "a.py")
    assert [(one.stack, plain(one.root)) for one in found] == [
        ("deepspeed", {"train_batch_size": 1}),
        ("deepspeed", {"train_batch_size": 2}),
    ]


@pytest.mark.parametrize("product", ["0.9 * size * size", "size * 0.9 + 1", "-(0.5 * size)"])
def test_the_product_of_a_fraction_may_be_one(product):
    document = only(f"config = {{'train_batch_size': {product}}}\ndeepspeed.initialize(config=config)\n")
    assert isinstance(document.root.get("train_batch_size"), Fraction)


@pytest.mark.parametrize("product", ["2.0 * size", "int(0.9 * size)", "round(0.9 * size)", "size * size", "size / 2"])
def test_another_may_not_be(product):
    document = only(f"config = {{'train_batch_size': {product}}}\ndeepspeed.initialize(config=config)\n")
    assert document.root.get("train_batch_size").kind == "template"
    assert not isinstance(document.root.get("train_batch_size"), Fraction)


@pytest.mark.parametrize(
    ("before", "call", "expected", "is_open"),
    [
        ("common = dict(lr=1e-5, fp16=True)", "TrainingArguments('out', **common, bf16=False)",
         {"lr": 1e-5, "fp16": True, "bf16": False}, False),
        ("args = parse()", "TrainingArguments('out', **vars(args), bf16=False)", {"bf16": False}, True),
        ("for n in (1, 2):", "    TrainingArguments(steps=n, bf16=True)", {"steps": "n", "bf16": True}, False),
    ],
)  # fmt: skip
def test_keywords_of_a_call_are_those_behind_the_stars(before, call, expected, is_open):
    code = f"{before}\n{call}\n"
    names = ModuleNames(parsed(code))
    value = Values(names, code).keywords(next(one for one in names.calls if one.func.id == "TrainingArguments"))
    assert ({k: v for k, v in plain(value.node).items() if k != "steps"}, value.is_open) == (
        {k: v for k, v in expected.items() if k != "steps"}, is_open,
    )  # fmt: skip
    if "steps" in expected:
        assert value.node.get("steps").kind == "template"


@pytest.mark.parametrize(
    "code",
    [
        "x = 9 ** 9 ** 9",
        "x = 1 << 10 ** 9",
        "x = 'a' * 10 ** 10",
        "x = [0] * 10 ** 10",
        "x = f'{1:1000000000}'",
        "x = '%1000000000d' % 1",
        "x = '{:1000000000}'.format(1)",
        "x = 'a'.ljust(10 ** 10)",
        "x = round(1, -10 ** 9)",
        "x = pow(10, 10 ** 9)",
        "x = sum(range(10 ** 12))",
        "x = list(range(10 ** 12))",
        "x = [a for a in range(10 ** 12)]",
        "x = 1\nwhile True:\n    x += 1",
        "def f(x):\n    return f(x + 1)\nx = f(1)",
        "f = lambda x: f(f(x))\nx = f(1)",
        "x = 'a'\nfor _ in range(200):\n    x = x + x",
        "x = ['a']\nfor _ in range(200):\n    x = x + x",
        "x = {}\nx['x'] = x",
        "x = []\nx.append(x)",
        "x = " + "(" * 90 + "1" + ")" * 90,
        "x = " + "1 + " * 5000 + "1",
        "x = " + "-" * 5000 + "1",
        "x = 1\n" + "if x:\n pass\nel" * 500 + "se:\n pass",
        "class A:\n    def __getattr__(self, name):\n        return self.other\nx = A().y",
        "for x in iter(lambda: 1, 2):\n    pass",
    ],
)
def test_a_module_that_never_ends_is_read(code):
    module = f"{code}\nconfig = {{'zero_optimization': {{'stage': 2}}, 'x': x}}\ndeepspeed.initialize(config=config)\n"
    assert isinstance(python.read(module, "a.py"), list)
