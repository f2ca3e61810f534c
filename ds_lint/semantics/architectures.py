"""What transformers makes of the type of a model, by ``schemas/models.json``, and of families that overflow in fp16."""

from __future__ import annotations

from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.model import Model
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import ModelFacts, ModelTable

TEXT = "text_config."  # where a model of several modalities says what its text model is
_PARTS = ("", TEXT)


def experts_that_are_chosen(model: Model, knowledge: Knowledge) -> list[str]:
    """The classes that run only the experts that the tokens of a rank choose, by their full names."""
    found = (_model_facts("chosen_experts", model, part, knowledge) for part in _PARTS)
    return next((facts["blocks"] for facts in found if facts is not None), [])


def width_places(model: Model, knowledge: Knowledge, part: str = "") -> Iterator[str]:
    """Where a part of the model's config has its hidden size, for ``Model.hidden_size``."""
    known = _model_facts("hidden_sizes", model, part, knowledge)
    key = known.get("key") if known is not None else "hidden_size"
    yield from (f"{part}{name}" for name in (key, "hidden_sizes") if name is not None)


def overflowing_family(model: Model) -> str | None:
    """The family of a model, or of its text model, that overflows in fp16; None where it is none of those."""
    families = tables.load("families")["overflow_in_fp16"]
    types = (model.at(f"{part}model_type") for part in _PARTS)
    return next((name for name in types if isinstance(name, str) and name in families), None)


def trained_in(family: str) -> str:
    """The dtype that a family of ``overflowing_family`` was trained in, as torch names it."""
    return tables.load("families")["overflow_in_fp16"][family]["trained_in"]


def _model_facts(table: ModelTable, model: Model, part: str, knowledge: Knowledge) -> ModelFacts | None:
    model_type = model.at(f"{part}model_type")
    return knowledge.of_model(table, model_type) if isinstance(model_type, str) else None
