"""The classes of layers that settings of FSDP name, and those that a model type has."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record
from ds_lint.semantics.accelerate.fsdp import TRANSFORMER, FsdpPlugin
from ds_lint.semantics.fsdp_arguments import fsdp_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Related
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_FIELD, _KEY = "transformer_cls_names_to_wrap", "transformer_layer_cls_to_wrap"


class NamedLayers(Record):
    """The names, the setting that has them, and its place."""

    names: list[str]
    key: str
    path: KeyPath
    span: Span
    related: list[Related]


def named_layers(config: Config) -> NamedLayers | None:
    """The classes that are wrapped one by one; None if that is not known, or the model decides."""
    arguments = fsdp_arguments(config)
    if arguments is not None and arguments.is_on:
        from ds_lint.semantics.fsdp_places import place_of

        given = arguments.values.get(_KEY)
        if given is None or arguments.policy != TRANSFORMER:
            return None
        texts = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        place = place_of(arguments, config, arguments.as_written(_KEY))
        names = [name for text in texts if isinstance(text, str) for name in text.split(",")]
        return NamedLayers(names, _KEY, place.path, place.span, place.related)
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or launch.launcher != "multi_gpu" or not launch.value("use_fsdp") or not launch.is_followed:
        return None
    plugin = FsdpPlugin(launch)
    text, setting = plugin.text(_FIELD), plugin.setting(_FIELD)
    if not plugin.is_known or plugin.version not in (1, 2) or plugin.policy != TRANSFORMER or text in (UNKNOWN, None):
        return None
    if setting.member is None or setting.path is None:
        return None
    value = setting.member.value
    span = value.span if value.kind == "string" and value.span.start < value.span.end else setting.member.key_span
    return NamedLayers(text.split(","), launch.shown(f"fsdp_{_KEY}").lstrip("-"), setting.path, span, [])


def layers_of(model_type: str | None) -> list[str]:
    """The layers that a model type of transformers may have; none where they are not known."""
    return tables.load("layer_classes")["layers"].get(model_type or "", [])


def is_layer_of_another(name: str) -> bool:
    """Whether any model type has such a layer."""
    return any(name in names for names in tables.load("layer_classes")["layers"].values())


def makes_own_plugin(config: Config) -> bool:
    """Whether the script of the launch may make a plugin of its own, or change the policy."""
    launch = config.facts.launch
    document = launch.script_document if launch is not None else None
    return document is not None and any(word in document.content for word in _OWN)


_OWN = ("FullyShardedDataParallelPlugin", "auto_wrap_policy")
