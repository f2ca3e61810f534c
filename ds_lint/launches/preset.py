"""A config that a word of a command names, and that the training framework ships: ``swift sft --deepspeed zero3``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.knowledge.presets import names_file, names_preset
from ds_lint.record import Record
from ds_lint.source.tree import Span
from ds_lint.targets.starting_folders import may_lie_here

if TYPE_CHECKING:
    from ds_lint.frameworks.record import FieldValues, Framework
    from ds_lint.launches.launch import Launch
    from ds_lint.source.tree import Node

FLAGS = {"deepspeed": "deepspeed", "accelerate": "accelerate_config"}  # that name a config, by what reads it


class Preset(Record):
    """The config of a framework that a word names; ``value`` gives what else the framework is started with."""

    framework: Framework
    word: str
    place: Span
    value: FieldValues

    @property
    def is_file(self) -> bool:
        """Whether it lies in the repository of the framework, and not in the package."""
        return self.framework.presets is not None and self.framework.presets.in_repository

    @property
    def is_accelerates(self) -> bool:
        """Whether this is a YAML of ``accelerate launch``."""
        return self.framework.presets is not None and self.framework.presets.kind == "accelerate"


def preset_word(launch: Launch) -> str | None:
    """The word with which a launch names a config of its framework; None if it names none."""
    if launch.shipped_by is not None:
        return launch.deepspeed_config
    framework = launch.framework
    if framework is None or framework.presets is None:
        return None
    is_accelerates = framework.presets.kind == "accelerate"
    word = launch.accelerate_config if is_accelerates else launch.deepspeed_config
    if word is None or (is_accelerates and launch.deepspeed_config is not None):
        return None
    return word if names_preset(framework.name, word) else None


def with_shipped_file(launch: Launch, framework: Framework | None, by: str) -> Launch:
    """The launch, with the fact that it takes a config of the framework's repository, which the project does not have.

    ``by`` is the script that has the command.
    """
    word = launch.deepspeed_config
    if framework is None or word is None or not names_file(framework.name, word):
        return launch
    is_here = may_lie_here(os.path.join(launch.cwd or "", word), by)
    return launch._replace(shipped_by=None if is_here else framework)


def place_of_word(text: str, command: Span, flag: str, word: str) -> Span:
    """Where a script has the word: behind its flag, else in a variable before the command, else the flag or command."""
    dashed = flag.replace("_", "[_-]")
    behind = re.compile(rf"--{dashed}(?:[ =\t\"']|\\\n)+({re.escape(word)})(?![\w./-])")
    found = behind.search(text, command.start, command.end)
    if found is not None:
        return Span(*found.span(1))
    alone = re.compile(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])")
    before = [one for one in alone.finditer(text) if one.start() < command.start]
    found = before[-1] if before else alone.search(text) or re.compile(rf"--{dashed}(?![\w-])").search(text)
    return Span(*found.span()) if found is not None else command


def preset_in_recipe(framework: Framework, node: Node | None, value: FieldValues, by: str) -> Preset | None:
    """The config that a recipe, the file ``by``, names in this way; None if it holds one, or names its own file."""
    word = node.value if node is not None else None
    if node is None or not isinstance(word, str) or framework.presets is None:
        return None
    is_shipped = names_preset(framework.name, word) or (names_file(framework.name, word) and not may_lie_here(word, by))
    is_of_recipe = framework.presets.kind == "deepspeed" and is_shipped
    return Preset(framework, word, node.span, value) if is_of_recipe else None
