"""The part of each parameter that a rank holds under tensor parallelism, of the rank that holds most.

``schemas/tensor_parallel.json`` has the parameters that AutoTP of DeepSpeed divides, by model type, measured with the
real engine (``tools/tensor_parallel.py``). Megatron divides the matrices within the layers evenly, and beside them the
embedding of words and the head by the vocabulary, which it pads (``_vocab_size_with_padding`` in its tokenizer.py).
"""

from __future__ import annotations

import re
from math import prod

from ds_lint.footprint.parallelism import MEGATRON
from ds_lint.footprint.quantities import sizes
from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.parallelism import Degrees
    from ds_lint.knowledge.records import DividedParameter, JsonObject, TensorParallelModel

_INDEX = re.compile(r"(?<=\.)\d+(?=\.)")
_OF_LLAMA = ("llama", "qwen2")  # presets that divide the matrices of the layers as the plan does, and nothing beside
_LLAMAS = {f"model.layers.#.{name}.weight" for name in ("self_attn.o_proj", "self_attn.q_proj", "mlp.down_proj")}
_VOCABULARY = 128  # ``make_vocab_size_divisible_by`` of Megatron, times the ranks
_OF_TOKENS = re.compile(r"(wte|embed_tokens|embed_in|word_embeddings|shared|lm_head|embed_out|tok_embeddings)\.weight$")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)\.weight$")
_EXPERT = re.compile(r"\bexperts\b")


def refusal(architecture: JsonObject, degrees: Degrees) -> str | None:
    """Why DeepSpeed does not divide a model, in words; None if it does, or if the model type was not measured."""
    has_usual_plan = degrees.divides_tensors != MEGATRON and degrees.partition is None
    measured = _measured(architecture) if degrees.tensors > 1 and has_usual_plan else None
    if measured is None or "refused" not in measured:
        return None
    store = tables.load("tensor_parallel")
    words = measured["refused"]
    return (
        f"DeepSpeed {store['deepspeed']} does not divide a model of type {architecture.get('model_type')} of "
        f"transformers {store['transformers']} ({words})"
    )


def is_known(architecture: JsonObject, degrees: Degrees, parameters: tuple[Tensor, ...]) -> bool:
    """Whether it is known which parameters are divided: those of models without adapters, of known types and shapes."""
    if not all(one.shape for one in parameters) or any(
        one.packed is not None or "lora_" in one.name for one in parameters
    ):
        return False
    if degrees.divides_tensors == MEGATRON:
        return True
    measured = _measured(architecture)
    if measured is None or "divided" not in measured:
        return False
    return degrees.partition is None or (degrees.partition in _OF_LLAMA and _LLAMAS.issubset(measured["divided"]))


def of_rank(parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees) -> tuple[Tensor, ...]:
    """The parameters as the rank that holds most of them has them."""
    if degrees.divides_tensors == MEGATRON:
        return tuple(_by_megatron(one, degrees.tensors) for one in parameters)
    rules = _rules(parameters, architecture, degrees)
    heads = _key_value_heads(architecture)
    found = []
    for one in parameters:
        rule = rules.get(_INDEX.sub("#", one.name))
        if rule is None or rule["dimension"] >= len(one.shape):
            found.append(one)
            continue
        place = rule["dimension"]
        found.append(
            _with_size(one, place, part(one.shape[place], degrees.tensors, heads if rule["by"] == "heads" else 0))
        )
    return tuple(found)


def divides_logits(parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees) -> bool:
    """Whether each rank computes the logits and the loss of a part of the vocabulary (``VocabParallelLinear``)."""
    if degrees.divides_tensors == MEGATRON:
        return True
    return any(
        _OF_TOKENS.search(name) and rule["dimension"] == 0 and not _HEAD.search(name)
        for name, rule in _rules(parameters, architecture, degrees).items()
    )


def divides_layers(parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees) -> bool:
    """Whether the layers are divided, and not the head alone."""
    return degrees.divides_tensors == MEGATRON or any("#" in name for name in _rules(parameters, architecture, degrees))


def _rules(parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees) -> dict[str, DividedParameter]:
    measured = _measured(architecture)
    if measured is None:
        return {}
    is_tied = not any(_HEAD.search(one.name) for one in parameters)
    rules = measured.get("tied") if is_tied else measured.get("divided")
    is_of_layers = degrees.partition is not None
    return {name: rule for name, rule in (rules or {}).items() if "#" in name or not is_of_layers}


def part(size: int, ranks: int, heads: int = 0) -> int:
    """What the first rank has of a dimension, by heads where these divide it (``get_shard_size`` in tp_shard.py)."""
    if heads and size % heads == 0:
        return size // heads * -(-heads // ranks)
    return -(-size // ranks)


def _measured(architecture: JsonObject) -> TensorParallelModel | None:
    return tables.load("tensor_parallel")["models"].get(str(architecture.get("model_type")))


def _key_value_heads(architecture: JsonObject) -> int:
    measured = tables.load("activations")["models"].get(str(architecture.get("model_type")))
    known = sizes(architecture, measured["defaults"] if measured is not None else {})
    return known["key_value_heads"] if known is not None else 0


def _by_megatron(one: Tensor, ranks: int) -> Tensor:
    """A parameter as Megatron divides it; biases and norms are so small that they count whole."""
    if len(one.shape) < 2 or _EXPERT.search(one.name):
        return one
    if _OF_TOKENS.search(one.name):
        padded = ranks * _VOCABULARY * -(-one.shape[0] // (ranks * _VOCABULARY))
        return _with_size(one, 0, padded // ranks)
    is_in_a_layer = "#" in one.name or _INDEX.search(one.name) is not None
    return _with_size(one, 0, -(-one.shape[0] // ranks)) if is_in_a_layer else one


def _with_size(one: Tensor, place: int, size: int) -> Tensor:
    shape = (*one.shape[:place], size, *one.shape[place + 1 :])
    return one._replace(shape=shape, size=prod(shape))
