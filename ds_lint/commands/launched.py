"""The launches of a project that name a config: found, so that the config is linted with what they tell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.facts import model
from ds_lint.facts.checkpoints import checkpoint_in
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.launches.training_script import TrainingScript, read_training_script
from ds_lint.project.launches import folder_below, launch_files, located_below, text_of
from ds_lint.source.document import Document
from ds_lint.targets.directories import repository_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.facts.checkpoints import Checkpoint
    from ds_lint.launches.launch import Launch
    from ds_lint.project.launches import LaunchFile
    from ds_lint.session.session import Session

_MOST_FILES = 1000  # that the search for the launches of a named config looks at: it must not take long


def add_launches(found: Iterable[tuple[str, Document]], session: Session) -> None:
    """Let the session know what launches tell of these documents, each with the path that it was asked for by."""
    searched: dict[str, dict[str, Document]] = {}
    named: dict[str, dict[str, Document]] = {}
    for asked, document in found:
        if document.kind == "recipe":
            continue
        if os.path.isdir(asked):
            searched.setdefault(asked, {})[os.path.realpath(document.path)] = document
        elif (repository := repository_of(document.path)) is not None:
            named.setdefault(os.path.relpath(repository), {})[os.path.realpath(document.path)] = document
    for directory, documents in searched.items():
        _Project(directory, documents, session).add()
    for directory, documents in named.items():
        _Project(directory, documents, session, most=_MOST_FILES).add()


class _Project:
    """One folder with its launches and the documents that they may name, by their whole paths.

    With ``most``, no more files are looked at, and only those that have the name of a document.
    """

    def __init__(
        self, directory: str, documents: dict[str, Document], session: Session, *, most: int | None = None
    ) -> None:
        self.directory = directory
        self.documents = documents
        self.session = session
        self.most = most
        self.launching: dict[str, Document] = {}
        self.scripts: dict[str, tuple[TrainingScript | None, Document | None]] = {}

    def add(self) -> None:
        names = None if self.most is None else {os.fsencode(os.path.basename(path)) for path in self.documents}
        for file in launch_files(
            self.directory,
            lambda _: None,
            leaves_out=self.session.leaves_out,
            respects_gitignore=self.session.respects_gitignore(self.directory),
            names=names,
            most=self.most,
        ):
            self.add_file(file)

    def add_file(self, file: LaunchFile) -> None:
        for launch in file.launches:
            document = self.document_of(launch, file)
            facts = LaunchFacts(launch, document, *self.script_of(launch, file.path))
            facts.builds_whole_models = self.skips_zero_init(launch, file.path)
            name = facts.model_name
            folder = folder_below(name, file.path, self.directory) if name is not None else None
            facts.model = _model(folder) if folder is not None else None
            facts.checkpoint = self.checkpoint_of(facts, file.path)
            for path in {os.path.realpath(path) for path in self.named_by(launch, facts, file.path)}:
                if path in self.documents:
                    self.documents[path].is_fragment |= facts.fills_in
                    self.session.add_material(facts, self.documents[path].path)

    def document_of(self, launch: Launch, file: LaunchFile) -> Document:
        """The script that has the command: the file, or one that it sources."""
        path = os.path.join(self.directory, launch.path)
        if path not in self.launching:
            text = file.text if launch.path == file.path else text_of(path) or ""
            self.launching[path] = Document(path, text, None, [])
        return self.launching[path]

    def script_of(self, launch: Launch, by: str) -> tuple[TrainingScript | None, Document | None]:
        """What the script shows that a launch starts, and its text; None if it is not in the project."""
        name = os.path.join(launch.cwd or "", launch.script or "")
        path = located_below(name, by, self.directory) if launch.script else None
        if path is None or not path.endswith(".py"):
            return None, None
        if path not in self.scripts:
            text = (text_of(path) or "").removeprefix("\ufeff")
            script = read_training_script(text)
            self.scripts[path] = script, None if script is None else Document(path, text, None, [])
        return self.scripts[path]

    def checkpoint_of(self, facts: LaunchFacts, by: str) -> Checkpoint | None:
        """The checkpoint of the project that a launch resumes from."""
        resumed = facts.resumption
        if resumed is None:
            return None
        folder = folder_below(os.path.join(facts.launch.cwd or "", resumed.folder), by, self.directory)
        return None if folder is None else checkpoint_in(folder, tag=resumed.tag, is_last=resumed.is_last)

    def skips_zero_init(self, launch: Launch, by: str) -> bool:
        """Whether Accelerate's YAML says that models are not built in partitions."""
        name = launch.accelerate_config
        path = located_below(os.path.join(launch.cwd or "", name), by, self.directory) if name else None
        document = self.documents.get(os.path.realpath(path)) if path is not None else None
        if document is None or document.root is None:
            return False
        node = document.root.at(("deepspeed_config", "zero3_init_flag"))
        return node is not None and node.value is False

    def named_by(self, launch: Launch, facts: LaunchFacts, by: str) -> Iterator[str]:
        """The files that a launch names: its DeepSpeed config, Accelerate's YAML, the script with a config in it."""
        names = [launch.deepspeed_config, launch.accelerate_config]
        if launch.deepspeed_config is None:
            names += [launch.script, facts.script.config if facts.script is not None else None]
        for name in filter(None, names):
            path = located_below(os.path.join(launch.cwd or "", name), by, self.directory)
            if path is not None:
                yield path
                yield from self.named_in(path)

    def named_in(self, path: str) -> Iterator[str]:
        """The DeepSpeed config that a YAML of Accelerate names."""
        document = self.documents.get(os.path.realpath(path))
        if document is None or document.kind != "accelerate" or document.root is None:
            return
        from ds_lint.project.references import located

        node = document.root.at(("deepspeed_config", "deepspeed_config_file"))
        named = located(node.value, path) if node is not None and isinstance(node.value, str) else None
        if named is not None:
            yield named


def _model(folder: str) -> model.Model | None:
    try:
        return model.load(folder)
    except UnreadableFact:
        return None
