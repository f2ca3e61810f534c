"""The settings in a file, by name; None or empty where it does not say."""

from __future__ import annotations

import os

from ds_lint.facts import Sources
from ds_lint.targets.pin import LIBRARIES
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.diagnostics.finding import Severity, Stack

    Values = dict[str, Any]  # by the name of a setting, a value that ``complaints_about`` finds nothing wrong with

SHARED = "pyproject.toml"  # has the settings of other tools too
OWN_TABLE = "ds-lint"  # in ``tool`` there


class SettingsError(ValueError):
    """Settings that cannot be used; the message has a line for everything that is wrong with them."""


class ConfigEntry:
    """The settings for the configs that a pattern matches (``[[tool.ds-lint.configs]]``)."""

    __slots__ = ("pattern", "sources", "stack")

    def __init__(self, path: str, values: Values) -> None:
        self.pattern: str = values["path"]
        self.stack: Stack | None = values.get("stack")
        self.sources = _sources(path, values)


class Settings:
    """What one file of settings says; ``path`` is empty where there is none."""

    def __init__(self, path: str, values: Values) -> None:
        self.path = path
        self.select: list[str] | None = values.get("select")
        self.extend_select: list[str] = values.get("extend-select", [])
        self.ignore: list[str] = values.get("ignore", [])
        self.preview: bool = values.get("preview", False)
        self.severity: dict[str, Severity] = values.get("severity", {})
        self.per_file_ignores: dict[str, list[str]] = values.get("per-file-ignores", {})
        self.exclude: list[str] | None = values.get("exclude")
        self.extend_exclude: list[str] = values.get("extend-exclude", [])
        self.force_exclude: bool = values.get("force-exclude", False)
        self.include_markdown: bool = values.get("include-markdown", False)
        self.respect_gitignore: bool = values.get("respect-gitignore", True)
        self.fail_on: str | None = values.get("fail-on")
        self.stack: Stack | None = values.get("stack")
        self.sources = _sources(path, values)
        versions = {library: values.get(f"{library}-version") for library in LIBRARIES}
        self.versions: dict[str, str] = {
            library: version for library, version in versions.items() if version is not None
        }
        self.policy: list[str] = values.get("policy", [])
        self.baseline: str | None = values.get("baseline")
        self.configs = [ConfigEntry(path, entry) for entry in values.get("configs", ())]

    @property
    def names_rules(self) -> bool:
        """Whether it says anything about rules that goes for all configs."""
        return self.select is not None or bool(self.extend_select or self.ignore or self.preview or self.severity)

    @property
    def directory(self) -> str:
        """What the paths in the file are relative to."""
        return os.path.dirname(self.path)

    def beside(self, path: str) -> str:
        """A path that the file names, as it is from here."""
        return shown(os.path.join(self.directory, path))


def _sources(path: str, values: Values) -> Sources:
    """Where a table says that facts are to be read from; files and folders lie beside the file of settings."""
    given = {fact.name: values[fact.dashed] for fact in Sources.options() if fact.dashed in values}
    arguments, model = given.get("trainer_args"), given.get("model")
    if arguments is not None and not arguments.lstrip().startswith("--"):
        given["trainer_args"] = shown(os.path.join(os.path.dirname(path), arguments))
    if model is not None and os.path.isdir(folder := shown(os.path.join(os.path.dirname(path), model))):
        given["model"] = folder  # anything else is a name
    return Sources(**given, given_by=shown(path))


NO_SETTINGS = Settings("", {})
