"""The settings in a file, by name; None or empty where it does not say."""

from __future__ import annotations

import os

from ds_lint.facts import Sources
from ds_lint.targets.pin import LIBRARIES
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ds_lint.diagnostics.finding import Severity, Stack

    Values = dict[str, Any]  # by the name of a setting, a value that ``complaints_about`` finds nothing wrong with
    Ignored = tuple["Layer", str, str, list[str]]  # what says it, with which setting, pattern and rules
    Pattern = tuple[str, str]  # with the folder where it starts first

SHARED = "pyproject.toml"  # has the settings of other tools too
OWN_TABLE = "ds-lint"  # in ``tool`` there


class SettingsError(ValueError):
    """Settings that cannot be used; the message has a line for everything that is wrong with them."""

    files: tuple[str, ...] = ()  # that were extended on the way, or should have been


class Layer:
    """What one file says, or the command line, which has no path: then ``option`` is what gives it."""

    __slots__ = ("directory", "option", "path", "values")

    def __init__(self, path: str, directory: str, values: Values, option: str | None = None) -> None:
        self.path = path
        self.directory = directory  # that its paths are relative to
        self.values = values
        self.option = option

    def giver(self, name: str) -> str:
        """Who gives a setting: a file, or an option, which has its name unless it may give any."""
        return shown(self.path) if self.path else self.option or f"--{name}"

    def beside(self, path: str) -> str:
        """A path that it names, as it is from here."""
        return shown(os.path.join(self.directory, path))

    def patterns(self, name: str) -> list[Pattern]:
        """The patterns of a setting."""
        return [(self.directory, pattern) for pattern in self.values.get(name, ())]


class ConfigEntry:
    """The settings for the configs that a pattern matches (``[[tool.ds-lint.configs]]``)."""

    __slots__ = ("directory", "pattern", "sources", "stack")

    def __init__(self, layer: Layer, values: Values) -> None:
        self.directory = layer.directory
        self.pattern: str = values["path"]
        self.stack: Stack | None = values.get("stack")
        self.sources = _sources(layer, values)


class Settings:
    """What a file says over the files that it extends; ``path`` is empty where there is none.

    ``layers`` are all that say something, in the order in which they count, with what the command line gives at the
    end. A setting is that of the last layer that has it; what adds to others is that of all.
    """

    def __init__(
        self,
        path: str,
        values: Values,
        directory: str | None = None,
        *,
        extended: Sequence[Layer] = (),
        given: Sequence[Layer] = (),
    ) -> None:
        self.path = path
        self.directory = os.path.dirname(path) if directory is None else directory
        self.layers = [*extended, Layer(path, self.directory, values), *given]
        self._extended = extended
        self.severity: dict[str, Severity] = {}
        for layer in self.layers:
            new = layer.values.get("severity", {})
            self.severity = {word: self.severity[word] for word in self.severity if word not in new} | new
        self.preview: bool = self._last("preview", False)
        self.per_file_ignores = self._ignores()
        self.exclude = self._patterns("exclude")
        self.extend_exclude = self._added("extend-exclude")
        self.include = self._patterns("include")
        self.extend_include = self._added("extend-include")
        self.force_exclude: bool = self._last("force-exclude", False)
        self.include_markdown: bool = self._last("include-markdown", False)
        self.respect_gitignore: bool = self._last("respect-gitignore", True)
        self.fail_on: str | None = self._last("fail-on")
        self.unsafe_fixes: bool = self._last("unsafe-fixes", False)
        self.output_format: str | None = self._last("output-format")
        self.stack: Stack | None = self._last("stack")
        self.sources = _sources(self.layers[0], self.layers[0].values)
        for layer in self.layers[1:]:
            self.sources = _sources(layer, layer.values).over(self.sources)
        versions = {library: self._last(f"{library}-version") for library in LIBRARIES}
        self.versions: dict[str, str] = {
            library: version for library, version in versions.items() if version is not None
        }
        layer = self.layer("policy")
        self.policy = [layer.beside(path) for path in layer.values.get("policy", ())]
        layer = self.layer("baseline")
        self.baseline = layer.beside(layer.values["baseline"]) if "baseline" in layer.values else None
        layer = self.layer("configs")
        self.configs = [ConfigEntry(layer, entry) for entry in layer.values.get("configs", ())]

    def layer(self, name: str) -> Layer:
        """The layer whose setting counts; the file itself if none has it."""
        own = self.layers[len(self._extended)]
        return next((layer for layer in reversed(self.layers) if name in layer.values), own)

    def giver(self, name: str) -> str:
        """Who gives a setting: a file or an option."""
        return self.layer(name).giver(name)

    def below(self, given: Sequence[Layer]) -> Settings:
        """The same below what the command line gives."""
        if not given:
            return self
        own = self.layers[len(self._extended)]
        return Settings(self.path, own.values, self.directory, extended=self._extended, given=given)

    def names(self, *settings: str) -> bool:
        """Whether any layer has one of these settings."""
        return any(name in layer.values for layer in self.layers for name in settings)

    @property
    def names_rules(self) -> bool:
        """Whether it says anything about rules that goes for all configs."""
        return self.names("select", "extend-select", "ignore", "preview", "severity")

    @property
    def extends(self) -> list[str]:
        """The files that it extends, the nearest first."""
        return [layer.path for layer in reversed(self._extended)]

    def beside(self, path: str) -> str:
        """A path that the file names, as it is from here."""
        return shown(os.path.join(self.directory, path))

    def _last(self, name: str, otherwise: Any = None) -> Any:
        return self.layer(name).values.get(name, otherwise)

    def _patterns(self, name: str) -> list[Pattern] | None:
        layer = self.layer(name)
        return layer.patterns(name) if name in layer.values else None

    def _added(self, name: str) -> list[Pattern]:
        return [pattern for layer in self.layers for pattern in layer.patterns(name)]

    def _ignores(self) -> list[Ignored]:
        """What is ignored for some configs, with its layer and setting."""
        last = self.layer("per-file-ignores")
        return [
            (layer, name, pattern, words)
            for layer in self.layers
            for name in ("per-file-ignores", "extend-per-file-ignores")
            if layer is last or name != "per-file-ignores"
            for pattern, words in layer.values.get(name, {}).items()
        ]


def _sources(layer: Layer, values: Values) -> Sources:
    """Where a table says that facts are to be read from; files and folders lie beside the file of settings."""
    names = {fact.name: fact.dashed for fact in Sources.options() if fact.dashed in values}
    given = {name: values[dashed] for name, dashed in names.items()}
    arguments, model = given.get("trainer_args"), given.get("model")
    if arguments is not None and not arguments.lstrip().startswith("--"):
        given["trainer_args"] = layer.beside(arguments)
    if model is not None and os.path.isdir(folder := layer.beside(model)):
        given["model"] = folder  # anything else is a name
    return Sources(**given, given_by={name: layer.giver(dashed) for name, dashed in names.items()})


NO_SETTINGS = Settings("", {})
