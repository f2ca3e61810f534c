"""How the extractors read Python: conditions, local names, messages, fields."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from tools.extract import forms, source

RECEIVERS = {"args": "", "self": "Accelerator"}


def body(text):
    return source.statements(source.find(forms.simplified(ast.parse(dedent(text))), "made"))


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


@pytest.mark.parametrize(
    ("version", "is_older"), [("5.9.0", True), ("5.10.1", False), ("5.10.1.dev0", False), ("5.11", False)]
)
def test_a_package_says_how_old_it_is(tmp_path, version, is_older):
    assert not source.predates(tmp_path, "5.10.1")  # one that does not say it
    (tmp_path / "__init__.py").write_text(f'__version__ = "{version}"\n')
    assert source.predates(tmp_path, "5.10.1") is is_older


def test_the_version_of_deepspeed_stands_where_it_is_built_or_installed(tmp_path):
    package = tmp_path / "deepspeed"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = version\n")
    (tmp_path / "version.txt").write_text("0.6.7\n")
    assert source.predates(package, "0.7")
    (package / "git_version_info_installed.py").write_text("version='0.18.9'\n")
    assert not source.predates(package, "0.7")


def test_a_default_that_comes_from_elsewhere_is_an_error():
    for value in ("field(**KNOWN['lr'])", "deprecated_field(default=5)"):
        with pytest.raises(LookupError, match="a default is given by"):
            source.default(expression(value))
    assert source.default(expression("helper(5)")) == {"default_is": "helper(5)"}


def test_the_body_of_a_while_has_its_condition_and_an_unknown_statement_is_an_error():
    (taken,) = body("def made(self):\n    while self.is_left():\n        take()")
    assert source.conditions(taken, RECEIVERS) == ["Accelerator.is_left()"]
    with pytest.raises(LookupError, match="a statement is not followed: match mode:"):
        source.statements(
            source.find(ast.parse("def made(mode):\n    match mode:\n        case 'fp16':\n            take()"), "made")
        )


def test_a_match_has_the_conditions_of_a_chain_of_ifs():
    lines = body(
        """
        def made(mode, n):
            match mode:
                case "fp16":
                    a()
                case "bf16" | "fp8" if n:
                    b()
                case None:
                    c()
                case Mode(name=name):
                    use(name)
                case _:
                    e()
        """
    )
    told = [(ast.unparse(line.node), source.conditions(line, RECEIVERS)) for line in lines]
    not_fp16, not_other = "mode != 'fp16'", "not (mode in ['bf16', 'fp8'] and n)"
    assert told == [
        ("a()", ["mode == 'fp16'"]),
        ("b()", [not_fp16, "mode in ['bf16', 'fp8']", "n"]),
        ("c()", [not_fp16, not_other, "mode is None"]),
        ("name = Mode(name=name)", [not_fp16, not_other, "mode is Mode(name=name)"]),
        ("use(name)", [not_fp16, not_other, "mode is Mode(name=name)"]),
        ("e()", [not_fp16, not_other, "mode is not Mode(name=name)"]),
    ]


def test_hints_are_left_out_in_functions_and_stay_in_classes():
    tree = forms.simplified(
        ast.parse("x: int = 1\nclass Made:\n    a: int = 1\n    def made(self):\n        b: int = 2\n        c: int")
    )
    told = "x: int = 1\n\nclass Made:\n    a: int = 1\n\n    def made(self):\n        b = 2\n        c: int"
    assert ast.unparse(tree) == told


def test_what_stands_in_the_else_of_a_loop_is_read():
    loops = ("for x in xs():\n        a()\n", "while more():\n        c()\n")
    text = "def made():\n    {}    else:\n        b()\n    {}    else:\n        d()".format(*loops)
    assert [ast.unparse(one.node) for one in body(text)] == ["a()", "b()", "c()", "d()"]


def test_an_early_return_is_a_condition_of_what_follows():
    lines = body("def made(x):\n    if x:\n        return\n    if not x:\n        a()\n    b()")
    lines[1].verify_reached()  # says the same itself
    with pytest.raises(LookupError, match=r"before b\(\), the function returns where x"):
        lines[2].verify_reached()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("refuse('this is wrong')", "refuse"),
        ("self.refuse(f'{mode} is not known')", "self.refuse"),
        ("problem = ValueError('this is wrong')", "ValueError"),
        ("logger.warning('this is wrong')", None),
        ("problems.append('this is wrong')", None),
        ("self.fill('optimizer.params', 'two words')", None),
    ],
)
def test_a_message_that_is_handed_on_is_an_error(call, name):
    made = source.find(ast.parse(f"def made(self, mode):\n    {call}"), "made")
    if name is None:
        assert list(source.refusals(made, {})) == []
    else:
        with pytest.raises(LookupError, match=f"made hands a message to {name}, which may raise and is not read"):
            list(source.refusals(made, {}))


def test_a_message_that_a_function_is_handed_is_an_error():
    with pytest.raises(LookupError, match="refuse raises with a message that it is handed"):
        list(source.refusals(source.find(ast.parse("def refuse(why):\n    raise ValueError(why)"), "refuse"), {}))
