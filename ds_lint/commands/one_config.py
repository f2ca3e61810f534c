"""The one config that a command line names: of a file with several, by its place, as in ``train.py:12``."""

from __future__ import annotations

import os

from ds_lint.commands import streams
from ds_lint.commands.documents import STANDARD_INPUT
from ds_lint.project.references import located
from ds_lint.semantics import configs
from ds_lint.source import documents
from ds_lint.source.counts import count
from ds_lint.source.dialect import hjson_refusal, json_refuses
from ds_lint.source.files import bytes_of
from ds_lint.source.languages import JSON, YAML
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.semantics.accelerate.file import AccelerateFile
    from ds_lint.semantics.basis import Basis
    from ds_lint.semantics.config import Config
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document


class UnreadableConfigError(ValueError):
    """A text that no library reads as a config, or a file of several without the place of one."""


def one_config(path: str, session: Session) -> Config:
    """The config at a path; raises OSError if there is no such file, UnreadableConfigError if no library can read it.

    Of the YAML of a launch it is the config that the plugin makes, which is absent if the run is of another type or the
    settings name a file. Of a recipe it is the config that it holds or names, with its training arguments.
    """
    document = document_at(path)
    return config_in(document, session.context(document.path).basis.but(policies=()))


def config_in(document: Document, basis: Basis) -> Config:
    """The config in a document, or that a recipe in it names; raises UnreadableConfigError if none can be read."""
    if json_refuses(document) and hjson_refusal(document) is not None:
        raise UnreadableConfigError(f"{document.path} cannot be read by any library; run ds-lint check to see why")
    if document.kind == "recipe":
        from ds_lint.facts.training_recipe import TrainingRecipe  # most configs are JSON

        return _config_of_recipe(basis.facts.recipe or TrainingRecipe(document), basis)
    return configs.from_document(document, basis)


def _config_of_recipe(recipe: TrainingRecipe, basis: Basis) -> Config:
    """The config that a recipe holds or names."""
    path = recipe.document.path
    if recipe.held is not None or recipe.preset is not None:
        return configs.from_document(recipe.document, basis)
    if recipe.named is None:
        raise UnreadableConfigError(f"{path} names no DeepSpeed config in a file")
    found = located(recipe.named, path)
    if found is None:
        raise UnreadableConfigError(f"{path}: {recipe.named}, the value of `deepspeed`, is not found")
    named = documents.from_bytes(bytes_of(found), found)
    return configs.from_document(named, basis.but(facts=basis.facts.with_recipe(recipe)))


def config_of_launch(config: Config, file: AccelerateFile, session: Session) -> Config:
    """The DeepSpeed config of a launch: the one that the plugin makes, or the one that the settings name."""
    path = config.document.path
    if file.made is not None:
        return config
    if file.launch is None:
        raise UnreadableConfigError(f"{path} cannot be read by accelerate; run ds-lint check to see why")
    named = file.named_config()
    if named is None:
        raise UnreadableConfigError(
            f"{path} has no DeepSpeed config: `distributed_type` is {file.launch.distributed_type}"
        )
    found = located(named, path)
    if found is None:
        raise UnreadableConfigError(f"{path}: {named}, the value of `deepspeed_config_file`, is not found")
    basis = session.context(found).basis.but(policies=(), stack=config.stack, facts=config.facts)
    return configs.from_document(documents.from_bytes(bytes_of(found), found), basis)


def document_at(path: str) -> Document:
    """The document of one config, by the path of its file or by its place in the file."""
    name, place = ("<stdin>", ()) if path == STANDARD_INPUT else with_place(path)
    data = streams.standard_input().read() if path == STANDARD_INPUT else bytes_of(name)
    found = [one for one in documents.configs_in(data, name) if not one.is_of_fsdp]
    if path != STANDARD_INPUT and not name.endswith((*JSON, *YAML)) and _may_have_flags(data):
        from ds_lint.session.flag_configs import flag_configs  # few scripts make a config of flags
        from ds_lint.session.reached import project_of

        found += flag_configs(name, project_of(name))
    if place:
        found = [one for one in found if _is_at(one, place)]
    if not found:
        if documents.unparsed(data, name, is_named=True):
            raise UnreadableConfigError(f"{name}: Python cannot parse it; run ds-lint check {name} to see why")
        raise UnreadableConfigError(f"{name} has no config" + (f" at {_shown(place)}" if place else ""))
    if len(found) > 1:
        *first, last = [_shown(_places(one)[0]) for one in found]
        raise UnreadableConfigError(
            f"{name} has {len(found)} configs, at {', '.join(first)} and {last}; name one with its place: {name}:{last}"
        )
    return found[0]


def with_place(path: str) -> tuple[str, tuple[int, ...]]:
    """The file and the place that a path names; a file whose name ends like that is meant as it is."""
    place: tuple[int, ...] = ()
    while not os.path.exists(path):
        name, _, number = path.rpartition(":")
        line = count(number)
        if not name or line is None or len(place) == 2:
            break
        path, place = name, (line, *place)
    return path, place


def _is_at(document: Document, place: tuple[int, ...]) -> bool:
    """Whether a place is in a config: a line, in a notebook a cell, or a cell and a line of it."""
    first, last = (one[: len(place)] for one in _places(document))
    return first <= place <= last


def _places(document: Document) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where a config begins and ends: the line, in a notebook with the cell."""
    span = document.root.span if document.root is not None else Span(0, 0)
    first, last = (document.cell_at(offset) or document.position(offset)[:1] for offset in (span.start, span.end - 1))
    return first, last


def _shown(place: tuple[int, ...]) -> str:
    return ":".join(map(str, place))


def _may_have_flags(data: bytes) -> bool:
    """Whether a launch in a file may make a config of its flags."""
    from ds_lint.launches.flag_config import MARKS

    return any(mark in data for mark in MARKS)
