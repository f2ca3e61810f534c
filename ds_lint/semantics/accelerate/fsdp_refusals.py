"""The settings of FSDP with which ``accelerate launch``, the plugin, ``Accelerator()`` or ``prepare`` raises.

Sources: ``prepare_multi_gpu_env`` in ``accelerate/utils/launch.py``, and ``FullyShardedDataParallelPlugin`` in
``utils/dataclasses.py``.
"""

from __future__ import annotations

from ds_lint.knowledge.suggestions import choice
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.fsdp import LOADING, SYNCING, TRANSFORMER, FsdpPlugin
from ds_lint.semantics.accelerate.refusal import LaunchRefusal, is_integer, listed, of
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.records import StackFacts
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch

# The words for a field, or a number for each that torch has.
_WORDS = {
    "sharding_strategy": "FSDP_SHARDING_STRATEGY",
    "backward_prefetch": "FSDP_BACKWARD_PREFETCH",
    "state_dict_type": "FSDP_STATE_DICT_TYPE",
}


def fsdp_refusals(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The values of the settings with which the launch or the plugin raises."""
    if not launch.value("use_fsdp"):
        return
    yield from _loading(launch)
    plugin = FsdpPlugin(launch)
    if not plugin.is_known:
        return
    yield from _version(plugin)
    if plugin.version in (1, 2):
        yield from _values(launch, plugin)
        yield from _layer_classes(plugin)
        yield from _offloaded_activations(plugin)


def _loading(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The two switches that the launch compares; any text counts as on."""
    loading, syncing = launch.setting(LOADING), launch.setting(SYNCING)
    if launch.variables:
        return  # no command of accelerate
    if UNKNOWN not in (loading.value, syncing.value) and loading.value and not syncing.value and syncing.member:
        yield of(
            syncing,
            SYNCING,
            f"off, and `{LOADING}` is on",
            f"Delete the key, or write `{LOADING}: false`.",
        )


def _version(plugin: FsdpPlugin) -> Iterator[LaunchRefusal]:
    text = plugin.text("fsdp_version")
    if plugin.version is UNKNOWN and text is not UNKNOWN:
        yield _field(plugin, "fsdp_version", "not a whole number", "Write 1 or 2.")
    elif (
        plugin.version is not UNKNOWN
        and plugin.version not in (1, 2)
        and plugin.is_on("reshard_after_forward") is not None
    ):
        yield _field(plugin, "fsdp_version", "neither 1 nor 2", "Write 1 or 2.")


def _values(launch: AccelerateLaunch, plugin: FsdpPlugin) -> Iterator[LaunchRefusal]:
    for field, facts in plugin.checked():
        text = plugin.text(field)
        if text in (UNKNOWN, None) or ("policy" in facts and facts["policy"] != plugin.policy):
            continue
        if facts.get("kind") == "flag" and flag(text) is None:
            meant = " in FSDP 2" if field == "reshard_after_forward" else ""
            yield _field(plugin, field, f"neither true nor false{meant}", "Write `true` or `false`.")
        elif facts.get("kind") == "integer" and not is_integer(text):
            advice = "Write a number such as 100000000; YAML reads 1e8 as a string."
            yield _field(plugin, field, "not a whole number", advice)
        elif "takes" in facts:
            yield from _values_as_written(launch, plugin, field, text, facts["takes"])
        elif field == "auto_wrap_policy" and text.upper() not in launch.words("FSDP_AUTO_WRAP_POLICY"):
            yield _not_a_word(plugin, field, launch.words("FSDP_AUTO_WRAP_POLICY"))
        elif field in _WORDS and not _is_word(text, launch.words(_WORDS[field]), field):
            yield _not_a_word(plugin, field, launch.words(_WORDS[field]))
        elif field == "state_dict_type" and plugin.version == 2:
            yield from _state_dict_type(launch, plugin, facts)


def _values_as_written(
    launch: AccelerateLaunch, plugin: FsdpPlugin, field: str, text: str, takes: list[str]
) -> Iterator[LaunchRefusal]:
    """A text that older releases do not find among the words of an enumeration, or that torch has no number for."""
    words = launch.words(_WORDS[field]) if field in _WORDS else []
    is_number = "numbers" in takes and is_integer(text) and 0 < int(text) <= max(len(words), _OF_TORCH)
    if not takes or is_number or ("words" in takes and text in words):
        return
    if "words" in takes:
        yield _not_a_word(plugin, field, words)
    else:
        advice = f"Write the number: {', '.join(f'{number} for {word}' for number, word in enumerate(words, 1))}."
        yield _field(plugin, field, f"not a number, which accelerate {launch.release} needs", advice)


_OF_TORCH = 5  # strategies that torch has a number for


def _is_word(text: str, words: list[str], field: str) -> bool:
    numbers = len(words) - 1 if field == "backward_prefetch" else len(words)  # torch has no word for no prefetch
    return text.upper() in (*words, _TORCH_WORD) or 0 < (count(text) or 0) <= numbers


_TORCH_WORD = "_HYBRID_SHARD_ZERO2"  # for the strategy that accelerate calls HYBRID_SHARD_ZERO2


def _not_a_word(plugin: FsdpPlugin, field: str, words: list[str]) -> LaunchRefusal:
    meant = choice(str(plugin.text(field)).upper(), words)
    return _field(
        plugin, field, f"not one of {listed(words)}", f"Write {meant}." if meant else "Write one of these words."
    )


def _state_dict_type(launch: AccelerateLaunch, plugin: FsdpPlugin, facts: StackFacts) -> Iterator[LaunchRefusal]:
    """The types that version 2 does not take."""
    for refused in facts.get("refused", ()):
        sign, word = refused.split()
        if (plugin.state_dict_type == word) == (sign == "=="):
            taken = [one for one in launch.words("FSDP_STATE_DICT_TYPE") if (one == word) != (sign == "==")]
            what = f"{plugin.state_dict_type}, and FSDP 2 takes only {listed(taken)}"
            yield _field(plugin, "state_dict_type", what, f"Write {' or '.join(taken)}.")


def _layer_classes(plugin: FsdpPlugin) -> Iterator[LaunchRefusal]:
    """Names that no class of a model can have: the text is split at commas, and nothing is stripped."""
    text = plugin.text("transformer_cls_names_to_wrap")
    if plugin.policy != TRANSFORMER or text in (UNKNOWN, None):
        return
    setting = plugin.setting("transformer_cls_names_to_wrap")
    name = "fsdp_transformer_layer_cls_to_wrap"
    if not text and setting.member is None:
        policy = plugin.setting("auto_wrap_policy")
        yield LaunchRefusal(
            policy.path,
            policy.member,
            f"`{name}` is missing, and this release does not ask the model: `accelerator.prepare` raises",
            f"Write the class of the layers, such as `{name}: LlamaDecoderLayer`.",
            stage="initialize",
            label="without the class of the layers",
        )
        return
    wrong = [name for name in text.split(",") if not name.isidentifier()]
    if wrong:
        yield LaunchRefusal(
            setting.path,
            setting.member,
            f'`{name}` names a class "{wrong[0]}", which no model has: `accelerator.prepare` raises',
            f"Write the names in one string, separated by commas without spaces, such as `{name}: LlamaDecoderLayer`.",
            stage="initialize",
            label="not the name of a class",
        )


def _offloaded_activations(plugin: FsdpPlugin) -> Iterator[LaunchRefusal]:
    if not plugin.is_on("activation_checkpointing_offload"):
        return
    if plugin.is_on("activation_checkpointing") is False:
        yield _field(
            plugin,
            "activation_checkpointing_offload",
            "on, and `fsdp_activation_checkpointing` is off",
            "Write `fsdp_activation_checkpointing: true`.",
        )
    elif plugin.version == 1:
        yield _field(
            plugin,
            "activation_checkpointing_offload",
            "on, and FSDP 1 does not offload activations",
            "Write `fsdp_version: 2`.",
        )


def _field(plugin: FsdpPlugin, field: str, problem: str, advice: str) -> LaunchRefusal:
    return of(plugin.setting(field), plugin.argument(field) or field, problem, advice, stage="initialize")
