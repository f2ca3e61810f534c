"""``ds-lint completion``: what the scripts of the shells are made of. tests/clients has the shells themselves."""

from __future__ import annotations

import argparse

import pytest

from ds_lint.commands import completion
from ds_lint.commands.completion import commands
from ds_lint.commands.options import SHELLS
from ds_lint.commands.parser import command_line
from ds_lint.commands.shells import ANYTHING, FILES, Words
from ds_lint.linter.engine import every_rule


@pytest.fixture(scope="module")
def told():
    return {command.name: command for command in commands(command_line())}


def taken(command, name):
    return next(option.takes for option in command.options if name in option.names)


def words(found):
    assert isinstance(found, Words)
    return [word for word, _ in found.words]


def test_every_option_is_known_but_those_that_are_hidden(told):
    (subcommands,) = (one for one in command_line()._actions if isinstance(one, argparse._SubParsersAction))
    for name, parser in subcommands.choices.items():
        known = {spelling for option in told[name].options for spelling in option.names}
        assert known == set(parser._option_string_actions) - {"--smoke-join"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_has_the_options_of_every_command(shell, run):
    assert run("completion", shell).stdout == completion.SHELLS[shell](commands(command_line()))


def test_what_an_option_takes(told):
    check = told["check"]
    assert words(taken(check, "--stack")) == ["deepspeed", "trainer", "accelerate"]
    assert taken(check, "--settings") == FILES
    assert taken(check, "--host-memory") == ANYTHING
    assert taken(check, "--fix") is None
    assert taken(check, "--ignore").is_list
    assert words(taken(check, "--transformers-version"))[-1].startswith("4.2")
    assert "A100" in words(taken(check, "--gpu"))


def test_rules_and_keys_can_be_explained(told):
    subjects = words(told["explain"].takes)
    assert {word for rule in every_rule() for word in (rule.code, rule.name)} <= set(subjects)
    assert "zero_optimization.offload_optimizer.device" in subjects


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_text_for_its_shell(run, shell):
    result = run("completion", shell)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"ds-lint completion {shell}" in result.stdout.partition("\n\n")[0]
    assert "smoke-join" not in result.stdout


def test_another_shell_is_wrong_usage(run):
    assert run("completion", "tcsh").returncode == 2
