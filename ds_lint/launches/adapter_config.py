"""The LoRA adapters that a script configures: ``LoraConfig`` of peft with arguments that are written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import CodePlace, keyword, last_name, place, value_of

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.trained_names import TrainedNames

_LORA = "LoraConfig"
_ARGUMENTS = ("r", "target_modules", "modules_to_save")


class AdapterConfig(NamedTuple):
    """A call of ``LoraConfig``, which is made under these conditions.

    ``options`` are the arguments that decide about the adapters, lists as tuples, and expressions that are not written
    out as UNKNOWN; what is missing has the default of peft.
    """

    place: CodePlace
    conditions: tuple[tuple[str, bool], ...]
    options: tuple[tuple[str, Any], ...]


def adapter_configs(trained: TrainedNames, sources: SourceReader) -> Iterator[AdapterConfig]:
    """All adapters that a script configures."""
    for call in trained.names.calls:
        if last_name(call) == _LORA:
            yield AdapterConfig(place(call.func), sources.conditions(call) or (), tuple(_options(call, trained)))


def _options(call: ast.Call, trained: TrainedNames) -> Iterator[tuple[str, Any]]:
    is_open = any(given.arg is None for given in call.keywords) or bool(call.args)
    for name in _ARGUMENTS:
        given = keyword(call, name)
        if given is None:
            if is_open:
                yield name, UNKNOWN
            continue
        yield name, value_of(trained.meant(given) or given)
