"""A config that a word of a command names, and that the training framework ships: ``swift sft --deepspeed zero3``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.knowledge.presets import names_preset
from ds_lint.record import Record
from ds_lint.source.tree import Span

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
    def is_accelerates(self) -> bool:
        """Whether this is a YAML of ``accelerate launch``."""
        return self.framework.presets is not None and self.framework.presets.kind == "accelerate"


def preset_word(launch: Launch) -> str | None:
    """The word with which a launch names a config of its framework; None if it names none."""
    framework = launch.framework
    if framework is None or framework.presets is None:
        return None
    is_accelerates = framework.presets.kind == "accelerate"
    word = launch.accelerate_config if is_accelerates else launch.deepspeed_config
    if word is None or (is_accelerates and launch.deepspeed_config is not None):
        return None
    return word if names_preset(framework.name, word) else None


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


def preset_in_recipe(framework: Framework, node: Node | None, value: FieldValues) -> Preset | None:
    """The config that a recipe names in this way; None if it holds one, or names a file."""
    word = node.value if node is not None else None
    if node is None or not isinstance(word, str) or framework.presets is None:
        return None
    is_of_recipe = framework.presets.kind == "deepspeed" and names_preset(framework.name, word)
    return Preset(framework, word, node.span, value) if is_of_recipe else None
