"""The files of a project that name missing files, as documents for the rules about those names."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.frameworks import SCRIPT
from ds_lint.knowledge.presets import misspelt_file, names_file
from ds_lint.launches.named_files import NamedFile, named_files
from ds_lint.launches.script_configs import configs_named_in
from ds_lint.project.absent_files import NamedTogether, absent_files
from ds_lint.project.discovery import candidates
from ds_lint.project.globs import is_below, relative
from ds_lint.project.launches import NOTEBOOK, data_of, may_be_script, read_launches, read_notebook
from ds_lint.project.made_files import brings_files
from ds_lint.project.of_tests import is_of_tests
from ds_lint.project.tree import ProjectTree
from ds_lint.session.launched import LaunchingProject
from ds_lint.session.reached import project_of
from ds_lint.source.absent_name import AbsentName, document_of, pattern_of
from ds_lint.source.command_text import span_in_command
from ds_lint.source.languages import YAML
from ds_lint.source.recognition import framework_keys
from ds_lint.source.tree import Span
from ds_lint.targets.directories import repository_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.launch import Launch
    from ds_lint.project.absent_files import AbsentFile
    from ds_lint.project.launches import LaunchFile, UnlessItFails
    from ds_lint.session.session import Session
    from ds_lint.source.absent_name import Role
    from ds_lint.source.document import Document
    from ds_lint.source.notebook_cells import Notebook

_NAMES_CONFIG = re.compile(
    rb"\bdeepspeed\s*=|hf_ds_config|config_params|DeepSpeedPlugin|HfDeepSpeedConfig|HfTrainerDeepSpeedConfig|"
    rb"deepspeed\.initialize|DeepSpeedStrategy"
)
_IN_IMAGE = ("dockerfile", "containerfile")  # whose files are not where the project has them
_CONTAINERS = ("docker", "podman")
_MOVES = re.compile(
    r"working-directory:|download-artifact|repository:|--chdir|--workdir|--directory|-wdir|--cwd|\bcwd=|#SBATCH\s+-D\b"
)
_KEYS: dict[str, Role] = {"deepspeed_config_file": "config", "deepspeed_hostfile": "hostfile"}


class _Text(NamedTuple):
    """A file of the project by its path as the user gives it."""

    path: str
    text: str
    notebook: Notebook | None = None


class _AbsentNames:
    """The names of missing files, by the file that has them."""

    def __init__(self) -> None:
        self.texts: dict[str, _Text] = {}
        self.names: dict[str, dict[tuple[int, str], AbsentName]] = {}

    def add(self, text: _Text, span: Span, absent: AbsentFile) -> None:
        one = absent.named
        self.texts[text.path] = text
        shown = relative(one.name, os.curdir) if os.path.isabs(one.name) else one.name
        name = AbsentName(span, shown, one.role, one.taker, absent.nearest)
        self.names.setdefault(text.path, {}).setdefault((span.start, one.name), name)

    def documents(self) -> Iterator[Document]:
        for path, names in self.names.items():
            text = self.texts[path]
            yield document_of(path, text.text, list(names.values()), text.notebook)


def documents_with_absent_names(
    paths: Iterable[str],
    documents: Sequence[tuple[str, Document]],
    projects: Sequence[LaunchingProject],
    session: Session,
    unless_it_fails: UnlessItFails,
) -> list[Document]:
    """The files in these folders, and those among these paths, that name missing files.

    ``documents`` are the configs that are known, each with the path of the command line that leads to it.
    """
    reader = _Reader(session)
    for project in projects:
        for facts, file in project.seen:
            unless_it_fails(lambda: reader.add_launch(facts, file, project), file.path)  # noqa: B023 - called at once
    for path in paths:
        if os.path.isdir(path):
            for module in reader.modules(path):
                unless_it_fails(lambda: reader.add_module(module, path), module)  # noqa: B023 - called at once
        elif os.path.isfile(path) and not session.forbids(path, is_folder=False):
            unless_it_fails(lambda: reader.add_named(path), path)  # noqa: B023 - called at once
    for given, document in documents:
        if document.kind in ("accelerate", "recipe"):
            unless_it_fails(lambda: reader.add_yaml(document, given), document.path)  # noqa: B023 - called at once
    return list(reader.found.documents())


class _Reader:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.found = _AbsentNames()
        self._trees: dict[str, ProjectTree] = {}

    def modules(self, directory: str) -> Iterator[str]:
        """The modules and notebooks below a folder that may name a config."""
        for path in candidates(
            directory,
            lambda _: None,
            leaves_out=self.session.leaves_out,
            respects_gitignore=self.session.respects_gitignore(directory),
        ):
            if path.endswith((".py", NOTEBOOK)):
                yield path

    def add_named(self, path: str) -> None:
        """Add what a file names that the command line names."""
        directory = project_of(path)
        if path.endswith((".py", NOTEBOOK)):
            self.add_module(path, directory)
        if may_be_script(os.path.basename(path)) and (file := read_launches(path, directory)) is not None:
            project = LaunchingProject(directory)
            for facts in project.launches(file):
                self.add_launch(facts, file, project)

    def add_launch(self, facts: LaunchFacts, file: LaunchFile, project: LaunchingProject) -> None:
        """Add what a launch names."""
        launch, document = facts.launch, facts.document
        if launch.record is None or launch.cwd is None or _is_of_image(file.path) or is_of_tests(file.path):
            return
        text = _Text(document.path, document.text, document.notebook)
        tree = self._tree(project.directory)
        before = "\n".join(text.text.split("\n")[: launch.line])
        if launch.path != file.path:  # a script that this one sources
            before = f"{file.text}\n{before}"
        if brings_files(before) or _moves(launch, text.text):
            return
        names = [one for one in named_files(launch, facts.script) if not _may_be_unread(one, facts)]
        written = {posixpath.normpath(one.place) for one in file.written}
        names = [one for one in names if posixpath.normpath(posixpath.join(launch.cwd, one.name)) not in written]
        outputs = tuple(
            f"{posixpath.normpath(value)}/"
            for name, value in launch.arguments.items()
            if isinstance(value, str)
            and name.endswith(("_dir", "_path", "output", "save", "dir"))
            and "out" in name + value
        )
        names = [one for one in names if not posixpath.normpath(one.name).startswith(outputs or ("\0",))]
        by = self._place(os.path.join(project.directory, file.path), tree)
        names = list(_not_shipped(names, _framework(facts)))
        naming = NamedTogether(by, launch.cwd, names, may_be_shipped=_is_of_framework(facts))
        for absent in absent_files(naming, tree):
            self.found.add(text, span_in_command(text.text, launch.line, pattern_of(absent.named.name)), absent)

    def add_module(self, path: str, directory: str) -> None:
        """Add what a module or a notebook names in Python."""
        data = data_of(path)
        if data is None or b"json" not in data or _NAMES_CONFIG.search(data) is None:
            return
        tree = self._tree(directory)
        by = self._place(path, tree)
        if is_of_tests(by):
            return
        if path.endswith(NOTEBOOK):
            reading = read_notebook(path, directory)
            if reading is None:
                return
            text, python = _Text(path, reading.notebook.text, reading.notebook), reading.python
        else:
            text = _Text(path, data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n"))
            python = text.text
        for name, span, line in configs_named_in(python, "" if text.notebook is not None else path):
            if brings_files("\n".join(text.text.split("\n")[:line])):
                continue
            naming = NamedTogether(by, ".", [NamedFile("config", name, "DeepSpeed")])
            for absent in absent_files(naming, tree):
                self.found.add(text, span, absent)

    def add_yaml(self, document: Document, given: str) -> None:
        """Add what a YAML of Accelerate or a recipe names."""
        directory = given if os.path.isdir(given) else project_of(document.path)
        if document.root is None or not document.path.endswith(YAML) or is_of_tests(document.path):
            return
        is_recipe = document.kind == "recipe"
        framework = framework_keys(document.root)[0] if is_recipe else ""
        paths = [("deepspeed",)] if is_recipe else [("deepspeed_config", key) for key in _KEYS]
        tree = self._tree(directory)
        text = _Text(document.path, document.text)
        for path in paths:
            node = document.root.at(path)
            if node is None or not isinstance(node.value, str) or not node.value:
                continue
            role = "config" if is_recipe else _KEYS[path[-1]]
            if role == "config" and not node.value.endswith((".json", ".hjson")):
                continue
            taker = "DeepSpeed" if role == "config" else "deepspeed"
            names = list(_not_shipped([NamedFile(role, node.value, taker)], framework))
            naming = NamedTogether(self._place(document.path, tree), ".", names, may_be_shipped=is_recipe)
            for absent in absent_files(naming, tree):
                self.found.add(text, _inside(node.span, document.text, node.value), absent)

    def _tree(self, directory: str) -> ProjectTree:
        repository = repository_of(os.path.join(directory, "any"))
        root, here = repository or os.path.abspath(directory), os.getcwd()
        if repository is None and is_below(root, here):
            root = here
        if root not in self._trees:
            self._trees[root] = ProjectTree(root, is_repository=repository is not None)
        return self._trees[root]

    def _place(self, path: str, tree: ProjectTree) -> str:
        return relative(os.path.abspath(path), tree.root)


def _moves(launch: Launch, text: str) -> bool:
    """Whether a launch may start in a folder that does not show: of a step, a job, a process or a container."""
    is_in_container = posixpath.basename(launch.command[0] or "") in _CONTAINERS
    return is_in_container or _MOVES.search(text) is not None


def _is_of_image(path: str) -> bool:
    name = posixpath.basename(path).lower()
    return name.startswith(_IN_IMAGE) or name.endswith(".dockerfile")


def _is_of_framework(facts: LaunchFacts) -> bool:
    """Whether a launch may run in the repository of a training framework."""
    if facts.launch.framework is not None or facts.framework is not None:
        return True
    return facts.recipe is not None and facts.recipe.framework != SCRIPT.name


def _framework(facts: LaunchFacts) -> str:
    """The framework whose program is started, or whose recipe it starts with; "" if none is known."""
    started = facts.launch.framework or facts.framework
    if started is not None:
        return started.name
    return facts.recipe.framework if facts.recipe is not None else ""


def _not_shipped(names: Iterable[NamedFile], framework: str) -> Iterator[NamedFile]:
    """The files without the configs that the repository of a framework has, where one starts it."""
    for one in names:
        if one.role != "config" or not names_file(framework, one.name):
            yield one._replace(meant=misspelt_file(framework, one.name)) if one.role == "config" else one


def _may_be_unread(one: NamedFile, facts: LaunchFacts) -> bool:
    """Whether the script may not read the config of this name: it shows no stack, or puts something before the name."""
    if one.role != "config" or facts.script_document is None or facts.script is None:
        return False
    if facts.stack is None and not facts.script.parses_flags:
        return True
    text = facts.script_document.content
    flags = [name for name, value in facts.launch.arguments.items() if value == one.name]
    return any(
        re.search(
            rf"(?:join|Path|joinpath|exists|isfile)\([^()]*\w+\.{flag}\b|\{{\w+\.{flag}\}}|[/+]\s*\w+\.{flag}\b|"
            rf"open\(\w+\.{flag}\s*,\s*(?:mode\s*=\s*)?['\"][wax]",
            text,
        )
        for flag in flags
    )


def _inside(span: Span, text: str, name: str) -> Span:
    start = text.find(name, span.start, span.end)
    return span if start < 0 else Span(start, start + len(name))
