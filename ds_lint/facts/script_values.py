"""What an argument of a training script is under a launch, and an expression of such arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.facts.argument_values import FALSE_WORDS, TRUE_WORDS
from ds_lint.facts.loaded_data import data_of
from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.loaded_files import FILE
from ds_lint.launches.model_sources import ARGS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.script_options import ScriptArgument
    from ds_lint.launches.training_script import TrainingScript


_CALLS = (f"{FILE}(", "os.environ.get(", "os.getenv(")


def script_value(text: str, launch: Launch, script: TrainingScript | None) -> Any:
    """The value of an expression of the script under a launch."""
    try:
        return evaluate(text, lambda name: _look_up(name, launch, script))
    except (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError):
        return UNKNOWN  # as of what the script does not reach


def conditions_hold(
    conditions: Iterable[tuple[str, bool]], launch: Launch, script: TrainingScript | None
) -> bool | None:
    """Whether expressions of the script are as true or false as they have to be; None if that is not known."""
    values = [(script_value(text, launch, script), wanted) for text, wanted in conditions]
    if any(value is not UNKNOWN and bool(value) is not wanted for value, wanted in values):
        return False
    return None if any(value is UNKNOWN for value, _ in values) else True


def _look_up(text: str, launch: Launch, script: TrainingScript | None) -> Any:
    if text == "sys.argv":
        words = [launch.script, *launch.flags]
        return UNKNOWN if None in words else words
    if text == "os.environ":
        return {name: UNKNOWN if word is None else word for name, word in launch.environment.items()}
    if text.startswith(_CALLS):
        return _called(text, launch, script)
    owner, _, name = text.partition(".")
    return argument_of(name, launch, script) if owner == ARGS and name.isidentifier() else UNKNOWN


def _called(text: str, launch: Launch, script: TrainingScript | None) -> Any:
    """What a call of the script gives: a variable of the environment, or what a file of data has."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or call.keywords or f"{ast.unparse(call.func)}(" not in _CALLS:
        return UNKNOWN
    given = [script_value(ast.unparse(one), launch, script) for one in call.args]
    if UNKNOWN in given[:1] or not given:
        return UNKNOWN
    if ast.unparse(call.func) == FILE:
        return data_of(*given) if isinstance(given[0], str) else UNKNOWN
    if given[0] in launch.environment:
        word = launch.environment[given[0]]
        return UNKNOWN if word is None else word
    return given[1] if len(given) > 1 else None


def argument_of(name: str, launch: Launch, script: TrainingScript | None) -> Any:
    """What an argument of the script is, given or by default."""
    declared = script.arguments.get(name) if script is not None else None
    arguments = launch.arguments
    if (flag := flag_of(name, launch, script)) is not None:
        return converted(arguments[flag], declared)
    if declared is None or any(one.sets is None for one in launch.loose) or _may_be_abbreviated(declared, launch):
        return UNKNOWN
    if f"no_{name}" in arguments:
        return False if declared.kind == "bool" and declared.default is True else UNKNOWN
    return declared.default


def flag_of(name: str, launch: Launch, script: TrainingScript | None) -> str | None:
    """By which flag a launch gives an argument of the script; the last one counts."""
    declared = script.arguments.get(name) if script is not None else None
    flags = declared.flags if declared is not None else ()
    return next((flag for flag in reversed(launch.arguments) if flag in flags or flag == name), None)


def _may_be_abbreviated(declared: ScriptArgument, launch: Launch) -> bool:
    """Whether a flag may be a shorter form of the argument's, as argparse takes one."""
    return any(long.startswith(flag) and long != flag for flag in launch.arguments for long in declared.flags)


def converted(given: Any, declared: ScriptArgument | None) -> Any:
    """What the parser makes of what is behind a flag."""
    kind = declared.kind if declared is not None else "text"
    if given is True:
        return given if declared is None else declared.bare
    if isinstance(given, list) and declared is not None and declared.takes in ("1", "?") and given[-1] is not None:
        given = given[-1] if declared.flags else UNKNOWN  # a flag that is given twice
    if not isinstance(given, str) or kind == "?":
        return UNKNOWN
    if kind == "bool":
        word = given.lower()
        return True if word in TRUE_WORDS else False if word in FALSE_WORDS else UNKNOWN
    try:
        return given if kind == "text" else int(given) if kind == "int" else float(given)
    except ValueError:
        return UNKNOWN
