"""A config that is in no file: ``accelerate launch --use_deepspeed --zero_stage 3`` makes it from its flags.

The flags behind ``--use_fsdp`` are the settings of FSDP, and ``--fsdp`` of the script is another way to set it up.
Another launcher has the variables that ``accelerate launch`` would set, such as ``ACCELERATE_DEEPSPEED_ZERO_STAGE``. Or
a word names a config that the training framework ships (``preset.py``).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ds_lint.knowledge import tables
from ds_lint.launches.launch import last_line
from ds_lint.launches.preset import FLAGS, Preset, place_of_word, preset_word
from ds_lint.source.document import Document
from ds_lint.source.languages import language_of
from ds_lint.source.tree import Member, Node, Span

if TYPE_CHECKING:
    from typing import Any

    from ds_lint.frameworks.record import FieldValues
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.word import Word

# One of which such a script has; "swift" and all behind it are of frameworks with configs of their own.
MARKS = (
    b"--use_deepspeed", b"--use-deepspeed", b"ACCELERATE_USE_DEEPSPEED", b"--use_fsdp", b"--use-fsdp",
    b"ACCELERATE_USE_FSDP", b"--fsdp", b"swift", b"--accelerate_config",
    b"deepspeed_configs/", b"examples/deepspeed/",
)  # fmt: skip
_USED = {"ACCELERATE_USE_DEEPSPEED": "use_deepspeed", "ACCELERATE_USE_FSDP": "use_fsdp"}
_OFF = dict.fromkeys(_USED, "false")
_COMMENT = re.compile(r"(?:(?<=\s)|^)#.*", re.MULTILINE)
_CONFIG_FILE, _PRECISION = "ACCELERATE_DEEPSPEED_CONFIG_FILE", "ACCELERATE_MIXED_PRECISION"
_FILES = ("config_file", "deepspeed_config_file")
_OF_TRAINER = ("fsdp", "fsdp_config", "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params")


def has_own_config(launch: Launch) -> bool:
    """Whether a launch certainly makes a config from its flags: none names a file, and there are no others.

    A config of its framework, which a word names, is in no file of the project either.
    """
    around = launch.surroundings
    if preset_word(launch) is not None:
        return True
    if launch.deepspeed_config is not None:
        return False
    if has_fsdp_arguments(launch):
        return True
    if launch.launcher != "accelerate":
        return has_variables(launch)
    return around.is_complete and around.has("use_deepspeed", "use_fsdp") and not around.has(*_FILES)


def has_fsdp_arguments(launch: Launch) -> bool:
    """Whether the flags of the script set FSDP up, and nothing else does."""
    if launch.accelerate_config is not None or launch.surroundings.has("use_fsdp", "use_deepspeed", *_FILES):
        return False
    return bool(launch.arguments.keys() & {"fsdp", "fsdp_config"}) and not has_variables(launch)


def has_variables(launch: Launch) -> bool:
    """Whether the variables of a launch make a config."""
    is_used = any((launch.environment.get(name) or "").lower() == "true" for name in _USED)
    return is_used and launch.launcher in ("torchrun", "python") and _CONFIG_FILE not in launch.environment


@cache
def variables() -> dict[str, str]:
    """The setting that each variable is for, in the newest release."""
    found = {_PRECISION: "mixed_precision"}
    for name, facts in tables.load("accelerate")["plugin"].items():
        variable = facts.get("runs", [facts])[-1].get("environment")
        if variable is not None and name not in ("enable_msamp", "msamp_opt_level"):
            found[variable] = name
    for name, facts in tables.load("accelerate")["fsdp_variables"].items():
        found.setdefault(facts.get("runs", [facts])[-1]["variable"], name)
    return found


def document_of_flags(launch: Launch, script: Document, value: FieldValues) -> Document:
    """The config that a launch makes from its flags, which are in the text of a script.

    ``value`` gives what the framework is started with, beside the config.
    """
    document = Document(script.path, script.text, None, [])
    document.notebook = script.notebook
    language = language_of(script.path)
    document.language = "notebook" if script.notebook is not None else "shell" if language == "json" else language
    document.comments = [Span(*found.span()) for found in _COMMENT.finditer(script.text)]
    document.kind, document.command = "accelerate", identity(launch)
    document.is_dict = True  # a run takes the config that is made
    command = _command(script, launch.line)
    if (word := preset_word(launch)) is not None and (framework := launch.shipped_by or launch.framework) is not None:
        kind = framework.presets.kind if framework.presets is not None else "deepspeed"
        place = place_of_word(script.text, command, FLAGS[kind], word)
        document.kind, document.preset = kind, Preset(framework, word, place, value)
        document.root, document.stack = Node("object", place, None, []), "trainer"
        return document
    if has_fsdp_arguments(launch):
        document.kind, document.stack = "TrainingArguments", "trainer"
        given = {name: launch.arguments[name] for name in _OF_TRAINER if name in launch.arguments}
        members = [
            _member(name, value if isinstance(value, str) else None, script.text, command)
            for name, value in given.items()
        ]
    elif has_variables(launch):
        members = [
            _variable(variable, name, launch.environment[variable], script.text, command)
            for variable, name in {**_USED, **variables()}.items()
            if variable in launch.environment and (launch.environment[variable] or "").lower() != _OFF.get(variable)
        ]
    else:
        members = [_member(name, value, script.text, command) for name, value in launch.surroundings.options]
    document.root = Node("object", command, None, members)
    return document


def identity(launch: Launch) -> tuple[Any, ...]:
    """What tells a launch from the others of a project: whether it has variables comes first."""
    by_variables = has_variables(launch)
    given = tuple(launch.environment.items()) if by_variables else launch.surroundings.options
    return by_variables, launch.path, launch.line, given, preset_word(launch)


def _command(script: Document, line: int) -> Span:
    """The lines of a command: those that a backslash joins."""
    starts = [*script.line_starts(), len(script.text) + 1]
    text = script.text[starts[line - 1] : starts[last_line(script.text.split("\n"), line)] - 1]
    start = starts[line - 1] + len(text) - len(text.lstrip())
    return Span(start, starts[line - 1] + len(text.rstrip()))


def _variable(variable: str, name: str, value: Word, text: str, command: Span) -> Member:
    """A variable where the script sets it, else at the command."""
    found = None
    if value is not None:
        found = re.search(rf"(?<!\w)({variable})=[\"']?({re.escape(value)})", text)
    key = Span(*found.span(1)) if found is not None else command
    there = Span(*found.span(2)) if found is not None and found[2] else key
    if variable in _USED:
        return Member(name, key, Node("string", there, ""))
    return Member(name, key, Node("template", there, "") if value is None else Node("string", there, value))


def _member(name: str, value: Word, text: str, command: Span) -> Member:
    """A flag where the command or a variable of the script has it, else at the command."""
    flag = rf"--{name.replace('_', '[_-]')}(?![\w-])"
    found = None
    if value is not None:
        sought = re.compile(rf"({flag})(?:[ =\t\"']|\\\n)*({re.escape(value)})" if value else f"({flag})()")
        found = sought.search(text, command.start, command.end) or sought.search(text)
    if found is None:
        found = re.compile(rf"({flag})()").search(text, command.start, command.end)
    key = Span(*found.span(1)) if found is not None else command
    there = Span(*found.span(2)) if found is not None and found[2] else key
    if value is None:
        return Member(name, key, Node("template", there, ""))
    return Member(name, key, Node("string", there, value))
