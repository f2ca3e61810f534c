"""The configs that a path stands for, each with what a launch or a recipe tells of its run.

A path is that of a config, or of a file that launches training: then each launch has the config that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.commands.documents import STANDARD_INPUT
from ds_lint.commands.one_config import UnreadableConfigError, config_in, config_of_launch, document_at, with_place
from ds_lint.source.languages import language_of
from ds_lint.source.spelling import AUTO
from ds_lint.targets.directories import repository_of

if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.project.launches import LaunchFile
    from ds_lint.semantics.basis import Basis
    from ds_lint.semantics.config import Config
    from ds_lint.session.launched import LaunchingProject
    from ds_lint.session.material import Material
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

_NO_LAUNCHES = (".json", ".hjson", ".md")  # endings of files that start nothing


class LaunchedConfig(NamedTuple):
    """A config, and what tells of its run; several launches that tell the same are one, named by the first."""

    config: Config
    material: Material | None = None

    @property
    def origin(self) -> str | None:
        """The launch or the recipe, in words."""
        return self.material.origin if self.material is not None else None


def launched_configs(path: str, session: Session) -> list[LaunchedConfig]:
    """What a path stands for; raises OSError if there is no such file, UnreadableConfigError if it has no config."""
    if path != STANDARD_INPUT:
        name, place = with_place(path)
        is_line = len(place) < 2 or language_of(name) == "notebook"
        if not name.endswith(_NO_LAUNCHES) and is_line and (found := _of_launches(name, place, session)):
            return found
    return _of_config(document_at(path), session)


def _of_launches(path: str, place: tuple[int, ...], session: Session) -> list[LaunchedConfig]:
    """The configs of the launches in a file, or of the one at a line; none if no launch there names one."""
    from ds_lint.project.launches import read_launches  # which takes a parser of the shell
    from ds_lint.session.launched import LaunchingProject
    from ds_lint.session.reached import project_of

    directory = project_of(path)
    file = read_launches(path, directory)
    if file is None:
        return []
    project = LaunchingProject(directory)
    launches = [one for one in project.launches(file) if _is_at(one, place, file)]
    found = []
    for launch in launches:
        config = _named_config(launch, file.path, project, session)
        if config is not None:
            found.append(LaunchedConfig(config, launch))
    if not file.launches and language_of(path) == "shell":
        raise UnreadableConfigError(f"{path}:{file.misread[0]} is not understood, and no other line launches training")
    if not launches and language_of(path) == "shell":
        first, *rest = (str(launch.line) for launch in file.launches)
        lines = f"a launch at {first}" if not rest else f"launches at {', '.join([first, *rest[:-1]])} and {rest[-1]}"
        raise UnreadableConfigError(f"{path} has {lines}, and none at {place[0]}")
    if launches and not found and language_of(path) not in ("python", "notebook"):
        line = launches[0].launch.line
        raise UnreadableConfigError(f"{path}:{line} launches training with no DeepSpeed config that is in the project")
    return found


def _is_at(launch: LaunchFacts, place: tuple[int, ...], file: LaunchFile) -> bool:
    """Whether a launch is at a line, in a notebook in a cell, or at a line of it."""
    if file.notebook is None:
        return place in ((), (launch.launch.line,))
    return file.notebook.cell_line(launch.launch.line)[: len(place)] == place


def _of_config(document: Document, session: Session) -> list[LaunchedConfig]:
    """A config by each launch and recipe of its project that names it; alone if there is none."""
    if repository_of(document.path) is not None or document.language in ("notebook", "shell"):
        from ds_lint.session.launched import add_launches

        add_launches([(document.path, document)], session)
    context = session.context(document.path)
    basis = context.basis.but(policies=())
    material = [one for one in context.material if one.may_name(document)]
    if not material:
        return [LaunchedConfig(read_config(document, basis, session, takes_fsdp=True))]
    from ds_lint.session.material import grouped, with_material

    groups = grouped(material)
    return [
        LaunchedConfig(read_config(document, with_material(one, basis), session, takes_fsdp=True), one)
        for one, *_ in groups
    ]


def _named_config(launch: LaunchFacts, by: str, project: LaunchingProject, session: Session) -> Config | None:
    """The config that a launch names; None if it is not found."""
    from ds_lint.session.flag_configs import flag_config
    from ds_lint.session.material import with_material
    from ds_lint.source import documents
    from ds_lint.source.files import bytes_of

    made = flag_config(launch)
    if made is not None:
        basis = with_material(launch, session.context(made.path).basis.but(policies=()))
        return read_config(made, basis, session, takes_fsdp=True)
    paths = list(project.named_by(launch, by))
    if launch.written:
        paths.insert(0, launch.document.path)
    for path in paths:
        named = (one for one in documents.configs_in(bytes_of(path), path) if not one.is_of_fsdp)
        found = [one for one in named if launch.may_name(one)]
        if len(found) != 1 or (language_of(path) == "json" and found[0].root is None):
            continue
        basis = with_material(launch, session.context(path).basis.but(policies=()))
        return read_config(found[0], basis, session, takes_fsdp=True)
    return _of_inference(launch, by, session)


def _of_inference(launch: LaunchFacts, by: str, session: Session) -> Config | None:
    """An empty config for a launch whose script needs none: ``init_inference`` has its own arguments."""
    from ds_lint.session.material import with_material
    from ds_lint.source import documents

    call = launch.script.calls.inference if launch.script is not None else None
    if call is None or not call.function.endswith("init_inference"):
        return None
    (document,) = documents.configs_in(b"{}", f"{by}.json")
    document.path = by
    basis = with_material(launch, session.context(by).basis.but(policies=()))
    return read_config(document, basis, session)


def read_config(document: Document, basis: Basis, session: Session, *, takes_fsdp: bool = False) -> Config:
    """The config of a document with a stack: of several that may load it, the one that its values are written for.

    With ``takes_fsdp`` a run with FSDP has a config, too, in which there is nothing.
    """
    if document.kind == "recipe" and basis.facts.recipe is None:
        from ds_lint.facts.training_recipe import TrainingRecipe  # most configs are JSON

        basis = basis.but(facts=basis.facts.with_recipe(TrainingRecipe(document)))  # which names the model
    config = config_in(document, basis)
    if config.accelerate is not None:
        from ds_lint.semantics.fsdp_setup import fsdp_setup

        _add_ranks(config)
        if not takes_fsdp or fsdp_setup(config) is None:
            config = config_of_launch(config, config.accelerate, session)
    if config.stack is None:
        is_trainers = AUTO in document.text or config.facts.recipe is not None
        config = config_in(document, config.basis.but(stack="trainer" if is_trainers else "deepspeed"))
    return config


def named_model(material: Material | None) -> str | None:
    """The name of the model in a launch or a recipe."""
    return material.model_name if material is not None else None


def _add_ranks(config: Config) -> None:
    """The ranks and nodes that a YAML of Accelerate sets, if nothing else tells."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or config.facts.world_size is not None:
        return
    ranks, nodes = launch.value("num_processes"), launch.value("num_machines")
    if isinstance(ranks, int) and ranks > 0:
        config.facts = config.facts.copy()
        config.facts.world_size = ranks
        config.facts.nodes = nodes if isinstance(nodes, int) and nodes > 0 else config.facts.nodes
        config.facts.tell("world size", f"{ranks}, by {config.document.path}")
