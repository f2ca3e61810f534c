"""The configs that a file reaches without being one: which launches it takes part in, or whose releases it pins.

A launch reaches the config that it names. Its script, the training script, a recipe, Accelerate's YAML, a hostfile and
every other file among its words take part in it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.launched import LaunchFacts
from ds_lint.launches import files as kinds
from ds_lint.project.discovery import candidates
from ds_lint.project.globs import is_below, relative
from ds_lint.project.launches import Naming, may_be_script, naming, read_launches, text_of
from ds_lint.project.references import located
from ds_lint.session.launched import LaunchingProject, scripts_of
from ds_lint.settings.nearest import NAMES
from ds_lint.source.files import ON_DISK
from ds_lint.source.languages import YAML
from ds_lint.targets.directories import repository_of
from ds_lint.targets.files import states_requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ds_lint.project.launches import LaunchFile
    from ds_lint.session.launched import Link
    from ds_lint.session.session import Session
    from ds_lint.source.files import Files

MOST_PINNED = 50  # configs that a file with pins reaches
_MOST_FOLDERS = 200  # that are searched for launches where no repository says what belongs together
_MOST_CALLED = 50  # scripts that one file starts
_SHELL_SCRIPT = re.compile(r"[\w./-]+\.(?:sh|bash|sbatch|slurm|job)\b")
_TRAINS = re.compile(r"deepspeed|Trainer|TrainingArguments|HfArgumentParser|Accelerator|accelerate")
_HOSTFILE = re.compile(r"\s*(?:#.*\n\s*)*\S+[ \t]+slots[ \t]*=[ \t]*\d")


class Reach(NamedTuple):
    """The launches that a file takes part in, and the whole paths of the configs that it names itself."""

    links: list[Link]
    named: list[str]

    @property
    def paths(self) -> list[str]:
        """The whole paths of what it reaches."""
        return list(dict.fromkeys([*self.named, *(path for link in self.links for path in sorted(link.paths))]))


def pins(path: str) -> bool:
    """Whether a file states releases, or has settings of ds-lint, which count for the configs below it."""
    return states_requirements(path) or os.path.basename(path) in NAMES


def helps(path: str) -> bool:
    """Whether a file is of a kind that launches training, says where, or pins releases, whether it does or not."""
    if pins(path) or path.endswith(YAML):
        return True
    text = text_of(path) or ""
    is_launching = kinds.kind_of(path, text[:200].encode(errors="replace")) is not None
    return is_launching or path.endswith(".py") or _HOSTFILE.match(text) is not None


def pinned(path: str, session: Session, on_error: Callable[[OSError], None]) -> Iterator[str]:
    """The files that may hold the configs below a file with pins."""
    folder = os.path.dirname(path)
    if os.path.basename(os.path.abspath(folder)) == "requirements":
        folder = os.path.join(folder, os.pardir)
    folder = os.path.normpath(folder) if folder else os.curdir
    return candidates(
        folder,
        on_error,
        leaves_out=session.leaves_out,
        respects_gitignore=session.respects_gitignore(folder),
        included=session.included,
    )


def reach(paths: Iterable[str], session: Session, files: Files = ON_DISK) -> dict[str, Reach]:
    """What each of these files reaches by the launches of its project."""
    found: dict[str, Reach] = {}
    projects: dict[str, list[str]] = {}
    for path in paths:
        if _may_take_part(path, files):
            projects.setdefault(project_of(path), []).append(path)
    for directory, members in projects.items():
        project = _Project(directory, members, files)
        scripts = _scripts_of(directory, session)
        by = naming(scripts, project.names, files) if project.names else Naming([], [])
        own = [path for path in members if may_be_script(os.path.basename(path))]
        yamls = [path for path in members if path.endswith(YAML)]
        called = [script for path in own for script in project.call(path)]
        for script in dict.fromkeys(map(os.path.normpath, [*by.scripts, *own, *called])):
            project.follow(script)
        for recipe in dict.fromkeys(map(os.path.normpath, [*by.yamls, *yamls])):
            project.add_recipe(recipe)
        found |= project.reach()
    return found


def project_of(path: str) -> str:
    """The root of the project that a file is in: of its repository, else the working directory, or its own folder."""
    repository = repository_of(path)
    if repository is not None:
        return relative(repository, os.curdir)
    return os.curdir if is_below(path, os.curdir) else os.path.dirname(path)


def _may_take_part(path: str, files: Files) -> bool:
    """Whether a launch may have to do with a file; a module may if it trains."""
    if not path.endswith(".py"):
        return True
    return _TRAINS.search(text_of(path, files) or "") is not None


def _scripts_of(directory: str, session: Session) -> list[str]:
    """The scripts of a project; without a repository, of so many folders."""
    if repository_of(os.path.join(directory, "any.sh")) is not None:
        return scripts_of(directory, session)
    return scripts_of(directory, session, most_folders=_MOST_FOLDERS)


class _Project:
    """The launches of a project that some of its files take part in."""

    def __init__(self, directory: str, members: list[str], files: Files) -> None:
        self.names = {name for path in members for name in _names_of(path, directory)}
        self._directory = directory
        self._files = files
        self._launching = LaunchingProject(directory, files)
        self._members = {os.path.realpath(path): path for path in members}
        self._links: dict[str, list[Link]] = {path: [] for path in members}
        self._called: dict[str, list[str]] = {}  # by file, the scripts that it starts, and those that they start

    def reach(self) -> dict[str, Reach]:
        """What the files reach; a training script that nothing launches reaches the config that it names."""
        found = {}
        for whole, path in self._members.items():
            links = self._links[path]
            named: list[str] = []
            if not links and path.endswith(".py"):
                links, named = list(self._launching.links_of_scripts([path])), list(self._named_by_script(path))
            found[path] = Reach(links, [one for one in named if one != whole])
        return found

    def call(self, path: str) -> list[str]:
        """The shell scripts that a file starts or sources, and those that they do, by their names in its text."""
        found: list[str] = []
        waiting = [path]
        while waiting and len(found) < _MOST_CALLED:
            caller = waiting.pop()
            text = text_of(caller, self._files) or ""
            by = relative(caller, self._directory)
            for name in dict.fromkeys(_SHELL_SCRIPT.findall(text)):
                script = located(name.removeprefix("./"), by, root=self._directory, is_there=self._files.has)
                if script is not None and (script := os.path.normpath(script)) not in (*found, os.path.normpath(path)):
                    found.append(script)
                    waiting.append(script)
        self._called[path] = found
        return found

    def follow(self, script: str) -> None:
        """Give the launches of a script to the files that take part in them."""
        file = read_launches(script, self._directory, self._files)
        if file is None:
            return
        callers = [
            path for path in self._members.values() if script in self._called.get(path, ()) or _is_sourced(path, file)
        ]
        for link in self._launching.links(file):
            assert isinstance(link.material, LaunchFacts)  # noqa: S101 - a launch has no recipe for itself
            parts = {*link.paths, os.path.realpath(script), *self._named_by(link.material, file)}
            parts.update(os.path.realpath(document.path) for document in link.material.documents)
            members = [self._members[path] for path in self._members.keys() & parts]
            for path in dict.fromkeys([*members, *callers]):
                self._links[path].append(link)

    def add_recipe(self, path: str) -> None:
        """Give a recipe to itself and to the files that it names."""
        link = self._launching.link_of_recipe(path)
        if link is None:
            return
        for whole in self._members.keys() & {*link.paths, os.path.realpath(path)}:
            self._links[self._members[whole]].append(link)

    def _named_by(self, facts: LaunchFacts, file: LaunchFile) -> Iterator[str]:
        """The files among the words of a launch."""
        launch = facts.launch
        for word in launch.command:
            for name in (word, word.partition("=")[2], f"{word.replace('.', '/')}.py") if word else ():
                if os.path.basename(name) in self.names:
                    path = self._launching.located(launch, name, file.path)
                    if path is not None:
                        yield os.path.realpath(path)

    def _named_by_script(self, path: str) -> Iterator[str]:
        """The config that a training script names."""
        script, _ = self._launching.read_script(path)
        if script is not None and script.config:
            by = relative(path, self._directory)
            named = located(script.config, by, root=self._directory, is_there=self._files.has)
            if named is not None:
                yield os.path.realpath(named)


def _names_of(path: str, directory: str) -> Iterator[str]:
    """The words by which a script may name a file: its name, or that of a module."""
    yield os.path.basename(path)
    if path.endswith(".py"):
        module = relative(path, directory).removesuffix(".py").replace("/", ".")
        parts = module.split(".")
        yield from (".".join(parts[start:]) for start in range(len(parts) - 1))


def _is_sourced(path: str, file: LaunchFile) -> bool:
    """Whether a script sources this one, as far as its text shows."""
    name = re.escape(os.path.basename(path))
    return re.search(rf"(?:^|[\s;&|({{])(?:source|\.)[ \t]+[^\s;&|]*{name}(?![\w.-])", file.text) is not None
