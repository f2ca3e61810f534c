"""From which folder a launch resumes, as far as its script and its flags show."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import CodePlace, place
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.launches.word import Argument

_OBJECTS = ("args", "arguments", "training_args", "opt", "options", "cfg", "config")
_EXISTENCE = ("exists", "isdir", "is_dir", "listdir")


class Resumption(NamedTuple):
    """A folder with a checkpoint that a launch resumes from.

    ``is_last`` says that the folder has several of the Trainer's checkpoints, of which the last is taken. ``tag`` is
    None if the file ``latest`` names it. ``place`` is the call of the script; None if a flag of the command tells it.
    """

    folder: str
    is_last: bool
    tag: str | None
    place: CodePlace | None


def resumption(
    launch: Launch, stack: Stack | None, text: str | None, script: TrainingScript | None
) -> Resumption | None:
    """What a launch resumes from; None if it does not, or that is not known."""
    if stack == "trainer":
        return _of_trainer(launch, text)
    if stack != "deepspeed" or text is None or script is None or "load_checkpoint" not in text:
        return None
    names = ModuleNames(parsed(text))
    calls = [
        call for call in names.calls if isinstance(call.func, ast.Attribute) and call.func.attr == "load_checkpoint"
    ]
    return _of_engine(calls[0], names, _Values(script, launch.arguments)) if len(calls) == 1 else None


def _of_trainer(launch: Launch, text: str | None) -> Resumption | None:
    """``--resume_from_checkpoint``, which scripts hand to ``trainer.train``."""
    given, output = launch.arguments.get("resume_from_checkpoint"), launch.arguments.get("output_dir")
    if given is None or (text is not None and "resume_from_checkpoint" not in text):
        return None
    if given is True or (isinstance(given, str) and given.lower() == "true"):
        return Resumption(output, True, None, None) if isinstance(output, str) else None
    is_folder = isinstance(given, str) and given.lower() not in ("", "false", "none", "null")
    return Resumption(str(given), False, None, None) if is_folder else None


def _of_engine(call: ast.Call, names: ModuleNames, known: _Values) -> Resumption | None:
    """``engine.load_checkpoint(FOLDER, TAG)`` that certainly runs and loads the states of the optimizer."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    given.update(zip(("load_dir", "tag"), call.args, strict=False))
    partial = ("load_optimizer_states", "load_module_only", None)
    if len(call.args) > 2 or any(name in given for name in partial) or "load_dir" not in given:
        return None
    folder, tag = known.text(given["load_dir"]), known.text(given["tag"]) if "tag" in given else None
    if folder is None or ("tag" in given and tag is None) or not all(map(known.holds, _conditions(call, names))):
        return None
    return Resumption(folder, False, tag, place(call.func))


def _conditions(node: ast.AST, names: ModuleNames) -> Iterator[ast.expr | None]:
    """The conditions under which a node runs; None for one that is not understood."""
    below: ast.AST = node
    around = names.parents.get(node)
    while around is not None:
        if isinstance(around, ast.If) and below is not around.test:
            yield around.test if below in around.body else None
        elif isinstance(around, (ast.IfExp, ast.Try, ast.While, ast.For, ast.ExceptHandler, ast.BoolOp)):
            yield None
        below, around = around, names.parents.get(around)


class _Values:
    """What the arguments of a script are: the flags of the launch over the defaults."""

    def __init__(self, script: TrainingScript, flags: dict[str, Argument]) -> None:
        self.script = script
        self.flags = flags

    def text(self, node: ast.expr) -> str | None:
        """The text that an expression is; None if it is not known."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        value = self._argument(node)
        return value if isinstance(value, str) else None

    def holds(self, condition: ast.expr | None) -> bool:
        """Whether a condition is certainly met where there is a checkpoint."""
        if isinstance(condition, ast.Call) and dotted_name(condition.func).rpartition(".")[2] in _EXISTENCE:
            return True
        if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and isinstance(condition.ops[0], ast.IsNot):
            return self._argument(condition.left) not in (None, "")
        return condition is not None and self._argument(condition) not in (None, "", False, "False", "false")

    def _argument(self, node: ast.expr) -> object:
        owner, _, name = dotted_name(node).rpartition(".")
        if owner not in _OBJECTS:
            return None
        declared = self.script.arguments.get(name)
        default = declared.default if declared is not None and declared.default is not UNKNOWN else None
        return self.flags.get(name, default)
