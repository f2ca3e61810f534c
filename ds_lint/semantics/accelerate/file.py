"""A YAML of ``accelerate launch`` as the rules see it."""

from __future__ import annotations

from ds_lint.knowledge.stacks import beginning
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.deepspeed_config import (
    PRECISION,
    config_file,
    made_by_launch,
    replace_precision,
    setting_of,
)
from ds_lint.semantics.accelerate.launch import AccelerateLaunch
from ds_lint.semantics.made_config import SourceSetting
from ds_lint.source.tree import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Member


class AccelerateFile:
    """The launch that a file or the flags of a command describe, and the DeepSpeed config that the plugin makes of it.

    ``launch`` is None for a file that cannot be read, or that is not a mapping; ``made`` if no config is made: the run
    is of another type, or the settings name a file.
    """

    __slots__ = ("is_command", "launch", "made")

    def __init__(self, document: Document, knowledge: Knowledge, flags: Sequence[Member] = ()) -> None:
        root = document.root
        self.is_command = document.command is not None and document.preset is None
        self.launch: AccelerateLaunch | None = None
        if root is not None and root.kind == "object" and not document.issues:
            if self.is_command:
                no_file = Node("object", root.span)
                of_settings = variables_of_settings() if document.command is not None and document.command[0] else None
                self.launch = AccelerateLaunch(no_file, knowledge, root.members, is_command=True, variables=of_settings)
            else:
                self.launch = AccelerateLaunch(root, knowledge, flags)
        self.made = made_by_launch(self.launch) if self.launch is not None and _makes_config(self.launch) else None

    def key(self, path: KeyPath | None) -> KeyPath | None:
        """The key of the YAML for a key of the config that is made of it; of flags, the config is all there is."""
        if self.is_command:
            return path
        return self.made.source(path) if self.made is not None else path

    def is_default(self, path: KeyPath) -> bool:
        """Whether no key of the YAML sets a value of the config that is made."""
        return self.made is not None and self.made.is_default(path)

    @property
    def library(self) -> str:
        """The library that makes the config, and its release."""
        return f"Accelerate {self.launch.release}" if self.launch is not None else "Accelerate"

    @property
    def precision(self) -> Any:
        """The precision that ``Accelerator()`` gets from the environment, unless the script names one."""
        word = self.launch.value("mixed_precision") if self.launch is not None else UNKNOWN
        return word.lower() if isinstance(word, str) else UNKNOWN

    def inherit(self, environment: Mapping[str, str | None]) -> None:
        """Let variables of the launching script count for what neither a flag nor the file sets."""
        if self.launch is None or self.launch.launcher != "deepspeed" or not any(map(_is_accelerates, environment)):
            return
        for name, variable in variables_of_settings().items():
            if variable not in environment:
                continue
            text = environment[variable]
            self.launch.exported[name] = SourceSetting(UNKNOWN if text is None else text)
            if self.launch.value(name) is None:
                self.launch.settings[name] = self.launch.exported[name]
        self.made = made_by_launch(self.launch) if _makes_config(self.launch) else None

    def replace(self, values: dict[str, Any], *, has_config: bool) -> None:
        """Let the keywords of the script's own plugin count; with a whole config, nothing is made of the settings."""
        if self.launch is None or self.launch.launcher != "deepspeed":
            return
        for name, value in values.items():
            self.launch.replace(name, value)
        if has_config:
            self.launch.replace("deepspeed_config_file", UNKNOWN)
        self.made = made_by_launch(self.launch) if _makes_config(self.launch) else None

    def replace_precision(self, word: Any) -> None:
        """Let the script's precision count; UNKNOWN if it is not known."""
        if self.made is not None:
            replace_precision(self.made, word)

    @property
    def unchecked(self) -> list[str]:
        """What is not checked, as no table tells of it at this release, and from which release on it is."""
        launch = self.launch
        if launch is None or launch.distributed_type != "FSDP" or launch.table("fsdp_plugin"):
            return []
        return [f"FSDP settings (checked since accelerate {beginning('accelerate', 'fsdp_plugin')})"]

    def named_config(self) -> str | None:
        """What the settings name as the DeepSpeed config; None if they name none."""
        if self.launch is None or self.launch.launcher != "deepspeed":
            return None
        file = config_file(self.launch)
        return file.value if file is not None and isinstance(file.value, str) else None

    def advice(self, path: KeyPath | None) -> str:
        """Where in the YAML to do what a message advises for a key of the config that is made of it, if one is."""
        if self.made is None and path is None:  # a YAML that asks for FSDP
            return ""
        name = setting_of(path)
        if self.is_command:
            if name is not None:
                shown = self.launch.shown(name) if self.launch is not None else name
                return f"Of this command, the {'flag' if shown.startswith('-') else 'variable'} is `{shown}`."
            return "Here, let the command name a DeepSpeed config, and set it there."
        if name is not None:
            return f"In this file, the setting is `{name if name == PRECISION else f'deepspeed_config.{name}'}`."
        return "In this file, name a DeepSpeed config with `deepspeed_config.deepspeed_config_file`, and set it there."


def _is_accelerates(variable: str) -> bool:
    return variable.startswith("ACCELERATE_")


def variables_of_settings() -> dict[str, str]:
    """The variable of each setting."""
    from ds_lint.launches.flag_config import variables  # few launches have some

    return {name: variable for variable, name in variables().items()}


def _makes_config(launch: AccelerateLaunch) -> bool:
    """Whether the plugin makes a config of the settings."""
    member = launch.root.member("deepspeed_config")
    is_section = member is None or member.value.kind in ("object", "null")
    return launch.is_followed and launch.launcher == "deepspeed" and is_section and config_file(launch) is None
