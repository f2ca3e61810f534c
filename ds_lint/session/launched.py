"""The launches of a project, each with the files that it names and what it tells of them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.checkpoints import checkpoint_in
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.model import named_or_in
from ds_lint.frameworks import by_flag
from ds_lint.launches.flag_config import has_own_config
from ds_lint.launches.launch import module_places, without_launcher
from ds_lint.launches.notebook_kernel import in_home, in_notebook
from ds_lint.launches.ports import beside
from ds_lint.launches.preset import with_shipped_file
from ds_lint.launches.recipe import recipe_of
from ds_lint.project.globs import relative
from ds_lint.project.launches import (
    NOTEBOOK,
    SUBMITTED,
    Naming,
    at_once,
    launch_files,
    modules_naming,
    naming,
    read_launches,
    read_notebook,
    scripts_below,
    text_of,
)
from ds_lint.project.references import located
from ds_lint.session.composed import composed_config
from ds_lint.session.launch_variables import LaunchVariables
from ds_lint.source.document import Document
from ds_lint.source.files import ON_DISK
from ds_lint.source.languages import YAML
from ds_lint.source.recognition import LONGEST_RECIPE, as_recipe
from ds_lint.targets.directories import repository_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ds_lint.facts.checkpoints import Checkpoint
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.scripts import WrittenConfig
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.project.launches import LaunchFile, UnlessItFails
    from ds_lint.session.material import Material
    from ds_lint.session.session import Session
    from ds_lint.source.files import Files
    from ds_lint.source.notebook_cells import Notebook

_NAMED_IN_YAML = re.compile(r"^[ \t]+deepspeed_config_file:[ \t]*['\"]?([\w./-]+)", re.MULTILINE)
MOST_SCRIPTS = 1000  # that the search for the launches of a named config looks at: it must not take long


class Link(NamedTuple):
    """What a launch or a recipe tells, and the whole paths of the configs, recipes and scripts that it names.

    ``unread`` is the script that it starts, where Python does not parse it; ``caller`` the file that calls the one with
    the launch.
    """

    material: Material
    paths: frozenset[str]
    unread: str = ""
    caller: str = ""

    @property
    def place(self) -> str:
        """The file with the launch, within the project."""
        return self.material.launch.path if isinstance(self.material, LaunchFacts) else ""


def add_launches(
    found: Sequence[tuple[str, Document]],
    session: Session,
    unless_it_fails: UnlessItFails = at_once,
    *,
    directories: Iterable[str] = (),
) -> list[LaunchingProject]:
    """Let the session know what launches tell of these documents, each with the path it is given by.

    Returns the ``directories`` with the launches in them, and the folders that lead to documents.
    """
    searched: dict[str, dict[str, Document]] = {directory: {} for directory in directories}
    projects: list[LaunchingProject] = []
    named: dict[str, dict[str, Document]] = {}
    alone: dict[str, dict[str, Document]] = {}
    for given, document in found:
        if os.path.isdir(given):
            group = searched.setdefault(given, {})
        elif (repository := repository_of(document.path)) is not None:
            group = named.setdefault(relative(repository, os.curdir), {})
        elif document.language in ("notebook", "python", "shell"):
            group = alone.setdefault(os.path.dirname(document.path) or os.curdir, {})
        else:
            continue
        group[os.path.realpath(document.path)] = document
    for directory, documents in searched.items():
        project = LaunchingProject(directory, documents=documents)
        projects.append(project)
        for file in launch_files(
            directory,
            lambda _: None,
            leaves_out=session.leaves_out,
            respects_gitignore=session.respects_gitignore(directory),
            unless_it_fails=unless_it_fails,
        ):
            links = unless_it_fails(lambda: list(project.links(file)), file.path)  # noqa: B023 - called at once
            _add(links or [], documents, session)
        _add(
            unless_it_fails(lambda: list(project.links_of_scripts(_modules(directory, documents, session))), directory)  # noqa: B023 - called at once
            or [],
            documents,
            session,
        )
    known = {os.path.realpath(document.path) for _, document in found if document.kind == "recipe"}
    for directory, documents in (*named.items(), *alone.items()):
        scripts, yamls = set[str](), list[str]()
        if directory in named:
            names = {os.path.basename(path) for path in documents}
            by = naming(scripts_of(directory, session), names)
            scripts.update(map(os.path.normpath, by.scripts))
            yamls = [path for path in by.yamls if os.path.realpath(path) not in known]
        own = {os.path.normpath(one.path) for one in documents.values() if one.language in ("notebook", "shell")}
        project = LaunchingProject(directory, documents=documents)
        _add(project.linked(Naming(sorted(scripts | own), yamls), unless_it_fails), documents, session)
        if directory in named:
            modules = unless_it_fails(lambda: list(_modules(directory, documents, session)), directory) or []  # noqa: B023 - called at once
            if modules:  # which a launch may start that does not name the config
                by = naming(scripts_of(directory, session), {os.path.basename(path) for path in modules})
                launching = [*by.scripts, *(path for path in modules if path.endswith(NOTEBOOK))]
                _add(project.linked(Naming(launching, []), unless_it_fails), documents, session)
            _add(project.links_of_scripts(modules), documents, session)
        else:
            _add(project.links_of_scripts(), documents, session)
    return projects


def _modules(directory: str, documents: dict[str, Document], session: Session) -> Iterator[str]:
    """The modules that name one of these configs or recipes, or import a module that has a config."""
    names = {os.path.basename(one.path) for one in documents.values() if one.language == "json" or one.kind == "recipe"}
    held = (os.path.basename(one.path) for one in documents.values() if one.is_python and one.is_fragment)
    names.update(f"{name.removesuffix('.py')} import" for name in held)
    yield from modules_naming(
        directory,
        names,
        MOST_SCRIPTS,
        leaves_out=session.leaves_out,
        respects_gitignore=session.respects_gitignore(directory),
    )


def scripts_of(directory: str, session: Session, *, most_folders: int | None = None) -> list[str]:
    """The scripts of a repository that are looked at for a file that is named; of a folder, in so many folders."""
    entered = 0

    def leaves_out(path: str, is_folder: bool) -> bool:
        nonlocal entered
        entered += is_folder
        return (most_folders is not None and is_folder and entered > most_folders) or session.leaves_out(
            path, is_folder
        )

    return scripts_below(
        directory,
        MOST_SCRIPTS,
        leaves_out=leaves_out,
        respects_gitignore=session.respects_gitignore(directory),
    )


def _add(links: Iterable[Link], documents: dict[str, Document], session: Session) -> None:
    for link in links:
        for path in link.paths & documents.keys():
            session.add_material(link.material, documents[path].path)
            if link.unread:
                session.say(f"{link.unread} is launched, but Python cannot parse it, so nothing is known of it")


class LaunchingProject:
    """A folder whose launches are read; ``documents`` are read already, by their whole paths."""

    def __init__(
        self, directory: str, files: Files = ON_DISK, *, documents: Mapping[str, Document] | None = None
    ) -> None:
        self.directory = directory
        self.files = files
        self.documents = documents or {}
        self.launching: dict[str, Document] = {}
        self.seen: list[tuple[LaunchFacts, LaunchFile]] = []  # the launches that were read
        self.scripts: dict[str, tuple[TrainingScript | None, Document | None]] = {}
        self.variables = LaunchVariables(directory, files)
        self._checkpoints: dict[tuple[str, str | None, bool], Checkpoint | None] = {}

    def linked(self, by: Naming, unless_it_fails: UnlessItFails = at_once) -> Iterator[Link]:
        """The launches in these scripts, and these recipes."""
        links = list[Link]()
        for path in by.scripts:
            links += unless_it_fails(lambda: self._links_at(path), path) or ()  # noqa: B023 - called at once
        yield from as_called(links)
        for path in by.yamls:
            link = unless_it_fails(lambda: self.link_of_recipe(path), path)  # noqa: B023 - called at once
            if link is not None:
                yield link

    def _links_at(self, path: str) -> list[Link]:
        file = read_launches(path, self.directory, self.files)
        return list(self.links(file)) if file is not None else []

    def links_of_scripts(self, modules: Iterable[str] = ()) -> Iterator[Link]:
        """The scripts that hold a config, and these modules, if no launch starts them, as far as they were read."""
        started = {os.path.realpath(path) for path in self.scripts}
        languages = ("notebook", "python")
        held = {os.path.realpath(one.path): one.path for one in self.documents.values() if one.language in languages}
        held.update((os.path.realpath(path), path) for path in modules)
        for whole, path in held.items():
            if path.endswith(NOTEBOOK):
                yield from self._links_of_notebook(path)
                continue
            if whole in started:
                continue
            script, document = self.read_script(path)
            if script is not None and document is not None and script.stack is not None:
                place = relative(path, self.directory)
                words: list[str | None] = [None] if script.depends_on_flags else []
                launch = without_launcher(place, words)
                facts = LaunchFacts(launch, document, script, document, self.recipe_of(launch, script, place))
                facts.variables = self.variables.of(facts)
                yield Link(facts, frozenset([whole, *map(os.path.realpath, self.named_by(facts, place))]))

    def _links_of_notebook(self, path: str) -> Iterator[Link]:
        """A notebook that trains in its own process, with the config that it holds or names."""
        notebook = read_notebook(path, self.directory, self.files)
        if notebook is None:
            return
        from ds_lint.launches.training_script import read_training_script

        script = read_training_script(notebook.python)
        if script is None or script.stack is None:
            return
        document = _document_of(path, notebook.notebook, notebook.python)
        place = relative(path, self.directory)
        facts = LaunchFacts(in_notebook(place, script, notebook), document, script, document)
        facts.written = _written(facts, notebook.written, script.config_line, notebook.notebook.text)
        facts.variables = self.variables.of(facts)
        whole = os.path.realpath(path)
        yield Link(facts, frozenset([whole, *map(os.path.realpath, self.named_by(facts, place))]))

    def link_of_recipe(self, path: str) -> Link | None:
        """A recipe linked to the config that it names; None if the file is not one, or the config is not found."""
        document = self.document_at(path)
        if document is None or not as_recipe(document):
            return None
        from ds_lint.facts.training_recipe import TrainingRecipe  # few projects have one

        recipe = TrainingRecipe(document)
        config = (
            located(recipe.named, relative(path, self.directory), root=self.directory, is_there=self.files.has)
            if recipe.named
            else None
        )
        return Link(recipe, frozenset([os.path.realpath(config)])) if config is not None else None

    def links(self, file: LaunchFile) -> Iterator[Link]:
        """The launches of a file, linked to the files that they name."""
        for facts in self.launches(file):
            self.seen.append((facts, file))
            caller = file.path if facts.launch.path != file.path else ""
            yield Link(facts, frozenset(self._whole_paths(facts, file)), self._unread(facts, file.path), caller)

    def launches(self, file: LaunchFile) -> Iterator[LaunchFacts]:
        """The launches of a file, with what they tell."""
        taken = beside(file.launches, file.path, file.text)
        for place, launch in enumerate(file.launches):
            cell = self._script_of_cell(launch, file)
            by_cell = cell is not None
            script, text = cell or self.script_of(launch, file.path)
            framework = launch.framework or (by_flag(launch.arguments) if script is None else None)
            launch = with_shipped_file(launch, framework, os.path.join(self.directory, file.path))  # noqa: PLW2901 - the same
            recipe = self.recipe_of(launch, script, file.path)
            facts = LaunchFacts(launch, self.document_of(launch, file), script, text, recipe)
            of_flag = (launch.surroundings.option("zero3_init_flag") or "").lower()
            facts.builds_whole_models = (
                of_flag == "false" if of_flag else self.value_in_yaml(launch, file.path, "zero3_init_flag") is False
            )
            facts.names_experts = bool(self.value_in_yaml(launch, file.path, "deepspeed_moe_layer_cls_names"))
            name = facts.model_name
            folder = located(name, file.path, root=self.directory, is_there=os.path.isdir) if name else None
            model = named_or_in(name, folder)
            facts.model = model if model is not None and facts.trains(model, is_here=folder is not None) else None
            facts.checkpoint = self.checkpoint_of(facts, file.path)
            facts.fsdp_config = self._fsdp_config_of(facts, file.path)
            facts.variables = self.variables.of(facts)
            facts.port_taken = taken.get(place)
            facts.composed = composed_config(facts, lambda name: self.located(launch, name, file.path), self.files)  # noqa: B023 - called at once
            if launch.path == file.path:
                facts.written = _written(facts, file.written, launch.line, file.text)
            if not facts.written and by_cell and not facts.named_configs:
                facts.written = _lines_of(_of_script(launch, file))  # the script may hold the config itself
            yield facts

    def _fsdp_config_of(self, facts: LaunchFacts, by: str) -> Document | None:
        """The JSON that ``fsdp_config`` of the training arguments names."""
        given = facts.training.given.get("fsdp_config") if facts.training is not None else None
        name = given.value if given is not None else None
        if not isinstance(name, str) or not name.endswith(".json"):
            return None
        path = self.located(facts.launch, name, by)
        return self.document_at(path) if path is not None else None

    def _whole_paths(self, facts: LaunchFacts, file: LaunchFile) -> Iterator[str]:
        """The files that a launch names, and the one that writes its config."""
        for path in self.named_by(facts, file.path):
            yield os.path.realpath(path)
        if facts.written or has_own_config(facts.launch):
            yield os.path.realpath(os.path.join(self.directory, file.path))

    def document_of(self, launch: Launch, file: LaunchFile) -> Document:
        """The script that has the command: the file, or one that it sources."""
        path = self._shown(os.path.join(self.directory, launch.path))
        if path not in self.launching:
            text = file.text if launch.path == file.path else text_of(path, self.files) or ""
            self.launching[path] = Document(path, text, None, [])
            self.launching[path].notebook = file.notebook if launch.path == file.path else None
        return self.launching[path]

    def _shown(self, path: str) -> str:
        """The path of a file as the user gives it, if it is a notebook that holds a config, too."""
        known = self.documents.get(os.path.realpath(path)) if path.endswith(NOTEBOOK) else None
        return known.path if known is not None else path

    def _script_of_cell(self, launch: Launch, file: LaunchFile) -> tuple[TrainingScript | None, Document | None] | None:
        """What the script shows that a cell has written before the launch; None if none has."""
        parts = _of_script(launch, file)
        if not parts or file.notebook is None:
            return None
        key = f"{file.path}:{parts[0].line}"
        if key not in self.scripts:
            lines = file.text.split("\n")
            kept = {number for part in parts for number in range(part.line, part.end_line + 1)}
            text = "\n".join(line if number in kept else "" for number, line in enumerate(lines, 1))
            from ds_lint.launches.training_script import read_training_script

            script, whole = read_training_script(text), self._shown(os.path.join(self.directory, file.path))
            document = None if script is None else _document_of(whole, file.notebook, text)
            self.scripts[key] = script, document
        return self.scripts[key]

    def script_of(self, launch: Launch, by: str) -> tuple[TrainingScript | None, Document | None]:
        """What the script shows that a launch starts, and its text; None if it is not in the project."""
        path = self.located_script(launch, by)
        return self.read_script(path) if path is not None and path.endswith(".py") else (None, None)

    def read_script(self, path: str) -> tuple[TrainingScript | None, Document | None]:
        """What a script shows, and its text."""
        if path not in self.scripts:
            text = self._python(path)
            from ds_lint.launches.training_script import read_training_script  # what the rules know of Python is long

            script = read_training_script(text, path, self.module_at)
            if script is not None and self.files.has(f"{path.removesuffix('.py')}.args"):
                script = script.with_more_flags()  # as HfArgumentParser takes them from there
            if script is not None and script.path:
                path_of_text, text = script.path, self._python(script.path)
            else:
                path_of_text = path
            self.scripts[path] = script, None if script is None else Document(path_of_text, text, None, [])
        return self.scripts[path]

    def _python(self, path: str) -> str:
        return (text_of(path, self.files) or "").removeprefix("\ufeff")

    def module_at(self, name: str, by: str) -> tuple[str, str] | None:
        """The module of the project that a module at a path imports, with its text."""
        place = relative(by, self.directory)
        level = len(name) - len(name.lstrip("."))
        parts = [part for part in name.lstrip(".").split(".") if part]
        below = os.path.join("", *parts)
        folder = os.path.dirname(place)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        for ending in (".py", f"{os.sep}__init__.py"):
            end = f"{below}{ending}" if parts else "__init__.py"
            beside = os.path.join(folder, end)
            path = os.path.join(self.directory, beside)
            if not self.files.has(path):
                path = "" if level else self._imported(end, place)
            if path:
                return path, self._python(path)
        return None

    def _imported(self, end: str, place: str) -> str:
        """A module below a folder that Python may look in: one above the importing module, or its ``src``."""
        for folder in ("", "src"):
            path = located(os.path.join(folder, end), place, root=self.directory, is_there=self.files.has)
            if path is not None:
                return path
        return ""

    def _unread(self, facts: LaunchFacts, by: str) -> str:
        """The path of the script that a launch starts, if it is in the project and Python does not parse it."""
        path = self.located(facts.launch, facts.launch.script, by)
        return path if path is not None and self.scripts.get(path, ("", None))[0] is None else ""

    def recipe_of(self, launch: Launch, script: TrainingScript | None, by: str) -> Document | None:
        """The recipe that a launch or its script starts with, if it is in the project."""
        recipe = recipe_of(launch, script)
        path = self.located(launch, recipe.path, by) if recipe is not None else None
        return self.document_at(path) if path is not None else None

    def checkpoint_of(self, facts: LaunchFacts, by: str) -> Checkpoint | None:
        """The checkpoint of the project that a launch resumes from."""
        resumed = facts.resumption
        if resumed is None:
            return None
        name = os.path.join(facts.launch.cwd or "", resumed.folder)
        folder = located(name, by, root=self.directory, is_there=os.path.isdir)
        if folder is None:
            return None
        key = (folder, resumed.tag, resumed.is_last)
        if key not in self._checkpoints:
            self._checkpoints[key] = checkpoint_in(folder, tag=resumed.tag, is_last=resumed.is_last)
        return self._checkpoints[key]

    def value_in_yaml(self, launch: Launch, by: str, setting: str) -> object:
        """What Accelerate's YAML says under ``deepspeed_config``; None if that is nothing."""
        path = self.located(launch, launch.accelerate_config, by)
        document = self.document_at(path) if path is not None else None
        if document is None or document.root is None:
            return None
        node = document.root.at(("deepspeed_config", setting))
        return node.value if node is not None else None

    def named_by(self, facts: LaunchFacts, by: str) -> Iterator[str]:
        """The files that a launch names, or that the files name that it starts with."""
        launch, recipe = facts.launch, facts.recipe
        names: list[str | None] = [*facts.named_configs, launch.accelerate_config]
        if launch.deepspeed_config is None:
            names.append(recipe.named if recipe is not None else None)
        paths = [self.located(launch, name, by) for name in names]
        if launch.deepspeed_config is None:
            paths.append(self.located_script(launch, by))
        for path in paths:
            if path is not None:
                yield path
                yield from self.named_in(path)
        if recipe is not None:
            yield recipe.document.path
        if facts.composed is not None:
            yield from facts.composed.paths
        if facts.script is not None and facts.script.imported_config is not None:
            yield facts.script.imported_config[0]

    def named_in(self, path: str) -> Iterator[str]:
        """The DeepSpeed config that a YAML of Accelerate names."""
        document = self.document_at(path) if path.endswith(YAML) else None
        if document is None or document.root is None:
            return
        node = document.root.at(("deepspeed_config", "deepspeed_config_file"))
        name = node.value if node is not None else None
        by = relative(path, self.directory)
        named = located(name, by, root=self.directory, is_there=self.files.has) if isinstance(name, str) else None
        if named is not None:
            yield named

    def located(self, launch: Launch, name: str | None, by: str) -> str | None:
        """The file of the project that a launch names."""
        if not name:
            return None
        whole = os.path.join(launch.cwd or "", name)
        return located(whole, by, root=self.directory, is_there=self.files.has)

    def located_script(self, launch: Launch, by: str) -> str | None:
        """The script of the project that a launch starts, also as the module behind ``-m``."""
        name = launch.script or ""
        path = self.located(launch, name, by)
        places = iter(module_places(name))
        while path is None and (place := next(places, None)) is not None:
            path = self.located(launch, place, by)
        return path

    def document_at(self, path: str) -> Document | None:
        """A YAML or JSON of the project."""
        whole = os.path.realpath(path)
        if whole in self.documents:
            return self.documents[whole]
        text = text_of(path, self.files)
        if text is None or len(text) > LONGEST_RECIPE:
            return None
        from ds_lint.source import json, yaml

        return json.parse(text, path) if path.endswith(".json") else yaml.parse(text, path)


def as_called(links: Sequence[Link]) -> list[Link]:
    """The links without those of scripts that another one calls, as ``project.launches`` leaves them out."""
    called = {link.place for link in links if link.caller}
    return [
        link
        for link in links
        if link.caller or link.place not in called or any(SUBMITTED in one.text for one in link.material.documents[:1])
    ]


def _document_of(path: str, notebook: Notebook, python: str) -> Document:
    """The cells of a notebook, of which a part is read as Python."""
    document = Document(path, notebook.text, None, [])
    document.language, document.notebook, document.content = "notebook", notebook, python
    return document


def _written(facts: LaunchFacts, written: Sequence[WrittenConfig], line: int, text: str) -> tuple[tuple[int, int], ...]:
    """The lines of the configs that a launch at a line names, if the same script has written them before.

    A YAML of Accelerate may name another one.
    """
    launch = facts.launch
    names = [launch.deepspeed_config, launch.accelerate_config]
    left = [name for name in (names if any(names) else facts.named_configs) if name]
    found: list[tuple[int, int]] = []
    while left and launch.cwd is not None:
        name = left.pop(0)
        place = _place(name, launch.cwd)
        ones = [one for one in written if os.path.normpath(one.place) == place]
        before = [one for one in ones if one.since < line]
        lines = _lines_of(_last(before or ([] if facts.is_mentioned else ones)))  # cells may run in another order
        found += lines
        for first, last in lines if name == launch.accelerate_config else ():
            named = _NAMED_IN_YAML.findall("\n".join(text.split("\n")[first - 1 : last]))
            left += [one for one in named if one != name]
        if found and not any(names):
            break
    return tuple(found)


def _of_script(launch: Launch, file: LaunchFile) -> list[WrittenConfig]:
    """The cells that have written the script of a launch."""
    if not launch.script or launch.cwd is None or launch.path != file.path:
        return []
    place = _place(launch.script, launch.cwd)
    return _last([one for one in file.written if one.is_whole and one.since < launch.line and one.place == place])


def _place(name: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, in_home(name)))


def _last(written: list[WrittenConfig]) -> list[WrittenConfig]:
    """What the file consists of in the end: the last that was written, with what was added to it."""
    starts = [number for number, one in enumerate(written) if not one.is_added]
    return written[starts[-1] :] if starts else []


def _lines_of(parts: list[WrittenConfig]) -> tuple[tuple[int, int], ...]:
    return tuple((part.line, part.end_line) for part in parts)
