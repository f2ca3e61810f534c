"""The environment variables of a launch that findings are about: few launches have any."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.facts.set_variables import set_variables
from ds_lint.knowledge.environment import meant
from ds_lint.knowledge.environment_values import refusal
from ds_lint.knowledge.plugin_variables import keys_of_variables
from ds_lint.launches.surroundings import OF_RANKS
from ds_lint.project.variable_reads import files_with, read_names
from ds_lint.source.document import Document

if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.set_variable import SetVariable
    from ds_lint.source.files import Files


class LaunchVariables:
    """Reads what the launches of a project set."""

    def __init__(self, directory: str, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._is_read: dict[str, bool] = {}
        self._documents: dict[str, Document | None] = {}

    def of(self, launch: LaunchFacts) -> tuple[SetVariable, ...]:
        """Those of a launch."""
        found = set_variables(launch, self._document)
        slips = {one.name for one in found if meant(one.name) is not None} - self._is_read.keys()
        if slips:
            read = read_names(self._directory, slips, self._files)
            self._is_read.update((name, name in read) for name in slips)
        return tuple(one for one in found if self._counts(one, launch))

    def _counts(self, one: SetVariable, launch: LaunchFacts) -> bool:
        if one.name in self._is_read:
            return not self._is_read[one.name]
        if one.name in OF_RANKS:
            texts = (launch.document.text, one.document.text)
            is_used = any(re.search(rf"\$\{{?{one.name}\b", text) for text in texts)
            return one.value is not None and not one.is_in_script and not is_used and not self._is_several(launch)
        return one.name in keys_of_variables() or (one.value is not None and refusal(one.name, one.value) is not None)

    def _is_several(self, launch: LaunchFacts) -> bool:
        """Whether Python starts a script that another file with ranks names too, which may start the others."""
        script = launch.launch.script
        if launch.launch.launcher != "python" or script is None:
            return False
        own, name = os.path.abspath(launch.document.path), os.path.basename(script)
        return any(os.path.abspath(path) != own for path in files_with(self._directory, (name, "RANK"), self._files))

    def _document(self, place: str) -> Document | None:
        """A file of the project that a launch sources."""
        if place not in self._documents:
            path = os.path.join(self._directory, place)
            try:
                text = self._files.bytes_of(path).decode("utf-8", "replace").replace("\r\n", "\n")
                self._documents[place] = Document(path, text, None, [])
            except OSError:
                self._documents[place] = None
        return self._documents[place]
