"""Whose kernels compute the layers and the loss of a run, and whether its sequences are as long as the longest.

Both decide what a step holds: with Liger's kernels a layer keeps a third less, and the logits are never whole.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts import own_arguments
from ds_lint.footprint import parallelism
from ds_lint.frameworks import FRAMEWORKS
from ds_lint.frameworks.record import CUT_LOSS, LIGER, LIGER_LOSS, LIGER_MLP, LIGER_NORMS, OFF, TRUE
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.targets.pin import is_exact, version_of
from ds_lint.targets.releases import numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts import Facts
    from ds_lint.semantics.config import Config

_KINDS = {name: kind for one in FRAMEWORKS.values() for name, kind in one.kernels.items()}
_LESS = {  # the fields with which a run keeps less, as users call what they switch on
    **{name: name for one in FRAMEWORKS.values() for name in one.fusing},
    "torch_compile": "torch.compile",
    "use_unsloth": "Unsloth",
    "use_unsloth_gc": "Unsloth",
}
_SUM_HEAD_GRADIENTS = (0, 6, 2), (0, 8, 2)  # ``fused_linear_cross_entropy_forward``, read of all releases of Liger
_PACKING = dict.fromkeys((*(name for one in FRAMEWORKS.values() for name in one.packing), "pad_to_max_length"))
# What the text of a script says, whatever its arguments are.
_KEEPS_LESS = {
    "unsloth": "Unsloth",
    "torch.compile(": "torch.compile",
    "save_on_cpu(": "torch.autograd.graph.save_on_cpu",
}
_PUTS_LIGER = ("apply_liger_kernel_to_", "AutoLigerKernelForCausalLM")
_CUTS = ("cce_patch(", "linear_cross_entropy(")
_FILLS = ("group_texts(", "ConstantLengthDataset(", 'padding="max_length"', "padding='max_length'", "packing=True")


class Kernels(NamedTuple):
    """Whose kernels compute; None where that is not known.

    ``others`` make a run keep less, in ways of which there is no figure.
    """

    layers: str | None  # transformers or liger
    loss: str | None  # logits, fused or cut, as in ``memory.activations.Pass``
    others: tuple[str, ...] = ()
    sums_head_gradients: bool = False  # of the chunks of a fused loss, as some releases do
    is_assumed: bool = False  # nothing is known of what trains


def of(config: Config) -> Kernels:
    """The kernels of a run, by its training arguments, its framework's fields and the text of its script."""
    facts = config.facts
    if facts.kernels is not None:
        return Kernels(facts.kernels, "fused" if facts.kernels == "liger" else "logits")
    text = _text(facts)
    others = dict.fromkeys(name for field, name in _LESS.items() if _is_given(config, field))
    others |= dict.fromkeys(name for words, name in _KEEPS_LESS.items() if words in text)
    if parallelism.computes_in_tiles(config):
        others.setdefault("tiles of the sequence")
    chosen = {kind for field, kind in _KINDS.items() if _is_given(config, field)}
    if any(words in text for words in _PUTS_LIGER) and not _has_liger_field(text):
        chosen.add(LIGER)
    if any(words in text for words in _CUTS):
        chosen.add(CUT_LOSS)
    if not chosen and facts.launch is None and facts.recipe is None and facts.training is None:
        return Kernels("transformers", "logits", is_assumed=True)
    if not chosen:
        usual = "transformers" if _shows_none(config, text) else None
        return Kernels(usual, "logits" if usual is not None else None, tuple(others))
    layers, loss = _replaced(chosen, is_partial=_chooses_some(config))
    return Kernels(layers, loss, tuple(others), _sums_head_gradients(config))


def in_words(kernels: Kernels) -> Iterator[str]:
    """What is not as usual about the kernels of a run."""
    if kernels.layers == "liger" or kernels.loss == "fused":
        yield "kernels of Liger"
    if kernels.loss == "cut":
        yield "cut cross-entropy"
    if kernels.others:
        yield f"{' and '.join(kernels.others)}, which may keep fewer activations"


def _replaced(chosen: set[str], *, is_partial: bool) -> tuple[str | None, str | None]:
    """Whose kernels compute the layers and the loss, by what is replaced."""
    if is_partial:
        return None, None
    parts = chosen & {LIGER_NORMS, LIGER_MLP}
    layers = "liger" if LIGER in chosen or len(parts) == 2 else None if parts else "transformers"
    loss = "cut" if CUT_LOSS in chosen else "fused" if chosen & {LIGER, LIGER_LOSS} else "logits"
    return layers, loss


def _sums_head_gradients(config: Config) -> bool:
    """Whether the project pins a release of Liger that adds gradients of the head as matrices of their own."""
    pin = config.basis.pins.get("liger-kernel")
    release = numbers_of(version_of(pin.specifier)) if pin is not None and is_exact(pin.specifier) else None
    first, last = _SUM_HEAD_GRADIENTS
    return release is not None and first <= release <= last


def are_sequences_full(config: Config) -> bool | None:
    """Whether every sequence is as long as the longest may be: packed, cut, or padded; None if not known."""
    facts = config.facts
    if facts.packing is not None:
        return facts.packing
    for name in _PACKING:
        if any(value in TRUE for value in own_arguments.values(facts, name)):
            return True
    record = facts.recipe.record if facts.recipe is not None else facts.launch.framework if facts.launch else None
    if record is not None and record.packed_by[0]:
        field, value = record.packed_by
        is_off = any(one in OFF[1:] for name in record.packing for one in own_arguments.values(facts, name))
        if not is_off and any(one == value for one in own_arguments.values(facts, field)):
            return True
    return any(words in _text(facts) for words in _FILLS) or None


def _is_given(config: Config, name: str) -> bool:
    """Whether a training argument, or a field of a framework or a script, is switched on."""
    argument = config.argument(name) if config.stack == "trainer" else None
    if argument is not None and argument.value:
        return True
    return any(value not in OFF and value is not UNKNOWN for value in own_arguments.values(config.facts, name))


def _chooses_some(config: Config) -> bool:
    """Whether the run says which of Liger's kernels it wants."""
    argument = config.argument("liger_kernel_config") if config.stack == "trainer" else None
    return argument is not None and argument.value is not None


def _has_liger_field(text: str) -> bool:
    """Whether an argument of a script switches Liger on, which is not given."""
    return any(name in text for name, kind in _KINDS.items() if kind == LIGER)


def _shows_none(config: Config, text: str) -> bool:
    """Whether all that could replace kernels is known, and does not."""
    facts = config.facts
    if "liger" in text or "cut_cross_entropy" in text:
        return False
    if facts.recipe is not None:
        return not facts.recipe.record.trains_otherwise(facts.recipe.value)
    training = facts.training if config.stack == "trainer" else None
    if training is not None:
        return not any(map(training.may_be_set, ("use_liger_kernel", "torch_compile")))
    script = facts.launch.script if facts.launch is not None else None
    return script is not None and not script.may_run_own_models


def _text(facts: Facts) -> str:
    """The text of the script of a run."""
    document = facts.launch.script_document if facts.launch is not None else None
    return document.content if document is not None else ""
