"""The config that a launch composes with Hydra or OmegaConf, of the files of its project and its own words."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from ds_lint.launches.composing_script import composing_script
from ds_lint.project.launches import text_of
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.facts.composed import ComposedConfig
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.composing_script import ComposingScript
    from ds_lint.source.files import Files
    from ds_lint.source.hydra.composition import Composed
    from ds_lint.source.hydra.overrides import Override

_OPTIONS = {
    "--config-name": "name",
    "-cn": "name",
    "--config-path": "path",
    "-cp": "path",
    "--config-dir": "dir",
    "-cd": "dir",
}
_MOST_MODULES = 500  # of a project


def composed_config(facts: LaunchFacts, locate: Callable[[str], str | None], files: Files) -> ComposedConfig | None:
    """What a launch composes; None if its script composes nothing, or it is not known.

    ``locate`` finds a file of the project that the launch names.
    """
    document = facts.script_document
    script = composing_script(document.content) if document is not None else None
    if script is None or document is None:
        return None
    from ds_lint.facts.composed import ComposedConfig  # few projects compose a config
    from ds_lint.source.hydra.places import NotComposedError

    try:
        composed, overrides = _Composing(facts, locate, files, script, document.path).composed()
    except NotComposedError:
        return None
    if composed.absent and _may_have_schemas(document.path):
        composed = composed._replace(absent=())
    words = tuple(one.word for one in overrides)
    return ComposedConfig(composed, script, facts.launch.environment, words, facts.document)


def _may_have_schemas(script: str) -> bool:
    """Whether a module below the folder of the script registers configs in Python, which no file shows."""
    read = 0
    for here, folders, names in os.walk(os.path.dirname(script) or os.curdir):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in names:
            if name.endswith(".py") and (read := read + 1) <= _MOST_MODULES:
                text = text_of(os.path.join(here, name))
                if text is None or "ConfigStore" in text:
                    return True
    return read > _MOST_MODULES


class _Composing:
    def __init__(
        self,
        facts: LaunchFacts,
        locate: Callable[[str], str | None],
        files: Files,
        script: ComposingScript,
        path: str,
    ) -> None:
        from ds_lint.source.hydra.files import ConfigFolders

        self.facts, self.locate, self.files, self.script = facts, locate, files, script
        self.beside = os.path.dirname(path)
        self.options: dict[str, str | None] = {}
        self.folders = ConfigFolders([], self._read, os.path.isdir)

    def composed(self) -> tuple[Composed, list[Override]]:
        """The config, and the overrides of the command line."""
        from ds_lint.source.hydra.composition import compose
        from ds_lint.source.hydra.places import NotComposedError

        overrides = self._overrides()
        if not self.script.is_of_hydra:
            return self._merged(overrides), overrides
        name = self.options.get("name", self.script.name)
        folder = self.options.get("path", self.script.folder)
        extra = self.options.get("dir", "")
        if name is None or folder is None or extra is None or not name or "://" in folder:
            raise NotComposedError("the name of the config is not known")
        base = folder if os.path.isabs(folder) else os.path.normpath(os.path.join(self.beside, folder))
        found = [base]
        if extra:
            place = self.locate(posixpath.join(extra, f"{name}.yaml"))
            found = [base, os.path.dirname(place)] if place is not None else [base, extra]
        self.folders.folders = found
        return compose(self.folders, name.removesuffix(".yaml"), overrides), overrides

    def _merged(self, overrides: list[Override]) -> Composed:
        from ds_lint.source.hydra.composition import merge_files
        from ds_lint.source.hydra.files import config_file
        from ds_lint.source.hydra.places import NotComposedError

        files = []
        for name in self.script.files:
            value = self.facts.launch.arguments.get(name[2:]) if name.startswith("--") else name
            path = self.locate(value) if isinstance(value, str) else None
            if path is None and isinstance(value, str) and os.path.isfile(os.path.join(self.beside, value)):
                path = os.path.join(self.beside, value)
            text = self._read(path) if path is not None else None
            if path is None or text is None:
                raise NotComposedError(f"{name} is not found")
            files.append(config_file(text, path, self.folders.texts))
        return merge_files(files, self.folders.texts, overrides)

    def _overrides(self) -> list[Override]:
        """The words that override something; raises NotComposedError if others may, too."""
        from ds_lint.source.hydra.overrides import dotlist, of_unknown, override
        from ds_lint.source.hydra.places import NotComposedError

        found: list[Override] = []
        behind = list(self.facts.launch.behind)
        while behind:
            word, detail = behind.pop(0)
            if word is None:
                names = detail.sets if detail is not None else None
                if detail is not None and names is None and detail.may_be_several:
                    continue  # a script is read as if called without arguments
                one = of_unknown(names, self._span("")) if names is not None and self.script.is_of_hydra else None
                if one is None:
                    raise NotComposedError("a word is not known")
                found.append(one)
                continue
            option, sign, value = word.partition("=")
            if self.script.is_of_hydra and option in _OPTIONS:
                taken = value if sign else behind.pop(0)[0] if behind else None
                self.options[_OPTIONS[option]] = taken
                continue
            if word.startswith("-"):
                if word in ("--multirun", "-m"):
                    raise NotComposedError("there are several runs")
                continue
            if self.script.is_of_hydra:
                one = override(word, self._span(word))
            elif self.script.takes_words:
                one = dotlist(word, self._span(word))
            else:
                continue
            if one is None and "=" in word:
                raise NotComposedError(f"{word} is not read")
            if one is not None:
                found.append(one)
        return found

    def _span(self, word: str) -> Span:
        """The place of a word in the text of the launching script, in the whole text."""
        document = self.facts.document
        start = self.folders.texts.start_of(document)
        line = document.line_starts()[min(self.facts.launch.line, len(document.line_starts())) - 1]
        for sought in (word, word.partition("=")[0] + "="):
            at = document.text.find(sought, line) if len(sought) > 1 else -1
            if at != -1:
                return Span(start + at, start + at + len(sought))
        end = document.text.find("\n", line)
        return Span(start + line, start + (end if end != -1 else len(document.text)))

    def _read(self, path: str) -> str | None:
        return text_of(path, self.files)
