"""The model that a run trains: a small one of the user's architecture, or a tiny Llama if no model is given."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers
from transformers.integrations import deepspeed as integration

from ds_lint.smoke.observe import lora
from ds_lint.smoke.records.small_model import TINY, TOKEN_KEYS, Sizes, shrink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.records import JsonObject
    from ds_lint.smoke.records.job import Job

CAUSAL, SEQ2SEQ, MASKED, IMAGE_TEXT = "causal", "seq2seq", "masked", "image-text"
_AUTO = {  # what transformers makes a model of each kind with
    CAUSAL: "AutoModelForCausalLM",
    SEQ2SEQ: "AutoModelForSeq2SeqLM",
    MASKED: "AutoModelForMaskedLM",
    IMAGE_TEXT: "AutoModelForImageTextToText",
}
_TASKS = {CAUSAL: "CAUSAL_LM", SEQ2SEQ: "SEQ_2_SEQ_LM"}  # as peft names them
# 24,736 parameters; TINY with the Llama of a config would have a hundred thousand.
DEFAULT: JsonObject = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
_LENGTH = 16  # tokens of a sequence, where the model has as many positions
_PADDED = 2  # positions that RoBERTa and its like never use
# Noise that changes from step to step: dropped elements and layers, masked spans, experts that are chosen by chance.
_NOISE = ("drop", "jitter", "mask_time_prob", "mask_feature_prob", "router_noise", "apply_spec_augment")
# Where the derivative of an activation jumps, roundoff decides whether a token counts, and no bound on roundoff covers
# that: with T5 on a GPU in bf16, gradients differ by four times the bound with ReLU, and by a tenth of it with GELU.
_SMOOTH = {"relu": "gelu", "relu6": "gelu", "leaky_relu": "gelu", "gated-relu": "gated-gelu"}
# Quantised weights are packed, and the code that comes with a model is never run.
_NOT_BUILT = ("quantization_config", "compression_config", "auto_map")


class UnknownArchitecture(ValueError):  # noqa: N818 - the name says what is wrong
    """transformers cannot make the model of a config.json; the message says why, and what to do."""


class Recipe(NamedTuple):
    """Which model to build, in values that pickle and JSON can carry."""

    kind: str  # one of the four above
    config: JsonObject
    vocabulary: int
    special_tokens: list[int]  # which stand for images, padding and the like
    sequence_length: int
    words: str  # "tiny Qwen3"
    seed: int = 0
    adapter_rank: int = 0  # of LoRA adapters; 0: the whole model is trained
    has_other_weights: bool = False  # than the model of the same seed


class Shape(NamedTuple):
    """One parameter of the full-size model."""

    name: str
    numel: int
    dims: tuple[int, ...]


def recipe_of(job: Job) -> Recipe:
    """The recipe of the model of a job, with LoRA adapters if it asks for them."""
    found = recipe(job.model, job.sizes)
    if not job.has_adapters:
        return found
    return found._replace(
        words=f"{found.words} with LoRA adapters",
        adapter_rank=job.sizes.adapter_rank,
        has_other_weights=job.has_other_weights,
    )


def recipe(config: JsonObject | None, sizes: Sizes = TINY) -> Recipe:
    """The recipe of a small model of the architecture; without a config, that of a tiny Llama of the given sizes.

    Dropout and other noise is set to 0: the ranks of a resumed run draw other numbers than before, since a checkpoint
    of DeepSpeed holds no random state, and the losses after it are to be the same to the last bit. Activations are
    smooth ones.
    """
    default = DEFAULT if sizes == TINY else _large_llama(sizes)
    full = _config_of(default if config is None else config)
    kind = _kind(full)
    small = shrink(json.loads(json.dumps(full.to_dict())), sizes).config
    _silence(small)
    _smooth(small)
    if kind == SEQ2SEQ:  # what shifts the labels
        for key in ("pad_token_id", "decoder_start_token_id"):
            small[key] = small.get(key) or 0
    made = _config_of(small)
    cls = _class_of(made, kind)
    if (fed := _without_memory(made, cls).main_input_name) != "input_ids":
        raise _refusal(f"trains a {_family(cls)} on {fed}, and the run has only text")
    text = _text_of(made)
    return Recipe(
        kind,
        small,
        vocabulary=text.vocab_size,
        special_tokens=sorted(set(_special_tokens(small))),
        sequence_length=_sequence_length(text),
        words=f"{'tiny' if sizes == TINY else 'small'} {_family(cls)}",
    )


def build(recipe: Recipe) -> Any:
    """The model, with the same weights for the same recipe; seeds torch, reads no parameter.

    For ZeRO-3, partition what it returns, ``deepspeed.zero.Init(module=model, config_dict_or_path=...)``, or have a
    HfDeepSpeedConfig alive, as the Trainer does: then transformers partitions it, and draws the weights in another
    order. In the context of ``deepspeed.zero.Init`` alone transformers would set weights that are not there: some stay
    as torch makes them, some are never set, and some models cannot be made.
    """
    model = build_base(recipe)
    if recipe.adapter_rank:
        model = _with_adapters(model, recipe)
    model.train()
    return model


def _with_adapters(model: Any, recipe: Recipe) -> Any:
    try:
        return lora.attached(model, recipe.adapter_rank, _TASKS.get(recipe.kind))
    except ValueError as error:  # peft knows layers of some models that cannot have adapters
        why = f"peft adds no adapters to the linear layers of a {_family(type(model))}: {_one_line(error).rstrip('.')}"
        raise UnknownArchitecture(f"{why}; without --model the run uses a tiny Llama") from error


def build_base(recipe: Recipe) -> Any:
    """The same model without adapters."""
    torch.manual_seed(recipe.seed + recipe.has_other_weights)
    return auto_class(recipe).from_config(_config_of(recipe.config), trust_remote_code=False)


def build_whole(recipe: Recipe) -> Any:
    """The same model on each rank in one piece, also if transformers knows of ZeRO-3."""
    with _unpartitioned():
        return build(recipe)


def auto_class(recipe: Recipe) -> Any:
    """The class of transformers that loads a saved model of this kind."""
    return getattr(transformers, _AUTO[recipe.kind])


def full_size(config: JsonObject) -> tuple[Any, str]:
    """The model of a config.json in its full size, without memory for its weights, and what it is in words."""
    full = _config_of(config)
    cls = _named_class(full)
    return _without_memory(full, cls), f"full-size {_family(cls)}"


def shapes(config: Recipe | JsonObject) -> list[Shape]:
    """The trainable parameters of a model in its full size, without memory for them; those that are tied once."""
    model, _ = full_size(config.config if isinstance(config, Recipe) else config)
    return [
        Shape(name, math.prod(parameter.shape), tuple(parameter.shape))
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]


def _large_llama(sizes: Sizes) -> JsonObject:
    """The Llama that is as large as the sizes allow, for what does not happen to a smaller one."""
    return DEFAULT | {
        "vocab_size": sizes.vocabulary,
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.feed_forward,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.heads,
    }


def _config_of(config: JsonObject) -> Any:
    """The config as transformers reads it, with what it fills in."""
    model_type = config.get("model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        raise _refusal(f"does not know model_type {model_type}" if model_type else "needs a model_type in config.json")
    kept = {key: value for key, value in copy.deepcopy(config).items() if key not in _NOT_BUILT}
    try:
        return transformers.CONFIG_MAPPING[model_type].from_dict(kept)
    except Exception as error:
        raise _refusal(f"does not accept the config.json of this {model_type}: {_one_line(error)}") from error


def _text_of(config: Any) -> Any:
    """The part of a config that says what the model knows of text."""
    try:
        text = config.get_text_config(decoder=True)
    except ValueError:  # several of them
        text = None
    if not hasattr(text, "vocab_size"):
        raise _refusal(f"has no language model of model_type {config.model_type}")
    return text


def _sequence_length(text: Any) -> int:
    positions = getattr(text, "max_position_embeddings", None) or 0
    return min(_LENGTH, positions - _PADDED) if positions > _PADDED else _LENGTH  # some say -1 for any number


def _family(cls: Any) -> str:
    """``Qwen3`` of ``Qwen3ForCausalLM``."""
    return re.split("For[A-Z]|LMHead|WithLMHead", cls.__name__)[0]


def _kind(config: Any) -> str:
    """What the model learns: what its architectures say, else what its type is mostly used for."""
    classes = {kind: _classes(config, kind) for kind in _AUTO}
    named = set(config.architectures or ())
    for kind, of_kind in classes.items():
        if named & {cls.__name__ for cls in of_kind}:
            return kind
    order = [SEQ2SEQ] if config.is_encoder_decoder else [] if getattr(config, "is_decoder", False) else [MASKED]
    for kind in (*order, CAUSAL, IMAGE_TEXT):
        if classes[kind]:
            return kind
    raise _refusal(f"has no language model of model_type {config.model_type}")


def _classes(config: Any, kind: str) -> tuple[Any, ...]:
    """The classes that transformers makes models of a kind with; none where it makes no such model of the config."""
    auto = getattr(transformers, _AUTO[kind], None)  # a release may not have the newest
    mapping = auto._model_mapping if auto else {}  # noqa: SLF001 - where from_config looks
    if type(config) not in mapping:
        return ()
    found = mapping[type(config)]
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


def _class_of(config: Any, kind: str) -> Any:
    """The class of a kind that the config names, else the first."""
    of_kind = _classes(config, kind)
    return next((cls for cls in of_kind if cls.__name__ in (config.architectures or ())), of_kind[0])


def _named_class(config: Any) -> Any:
    """The class that the config names, whatever it learns; else that of its kind."""
    named = [getattr(transformers, name, None) for name in config.architectures or ()]
    return next((cls for cls in named if hasattr(cls, "from_pretrained")), None) or _class_of(config, _kind(config))


def _without_memory(config: Any, cls: Any) -> Any:
    """The model without its weights."""
    try:
        with _unpartitioned(), torch.device("meta"):
            return cls(_part_for(cls, config))
    except Exception as error:
        raise _refusal(f"cannot build a {_family(cls)} of this config.json: {_one_line(error)}") from error


def _part_for(cls: Any, config: Any) -> Any:
    """Some classes are made of the text part of a config only, as in ``from_config`` (models/auto/auto_factory.py)."""
    text = getattr(config, "sub_configs", {}).get("text_config")
    return config.get_text_config() if text is not None and cls.config_class == text else config


@contextlib.contextmanager
def _unpartitioned() -> Iterator[None]:
    """Where transformers knows of a DeepSpeed config with ZeRO-3, it partitions what it builds; here it does not."""
    reference = integration._hf_deepspeed_config_weak_ref  # noqa: SLF001 - there are functions to set it, none to get it
    registered = reference() if reference else None
    integration.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        if registered is not None:
            integration.set_hf_deepspeed_config(registered)


def _special_tokens(part: JsonObject) -> Iterator[int]:
    for key, value in part.items():
        if isinstance(value, dict):
            yield from _special_tokens(value)
        elif key.endswith(TOKEN_KEYS):
            yield from (token for token in (value if isinstance(value, list) else [value]) if isinstance(token, int))


def _silence(part: JsonObject) -> None:
    for key, value in part.items():
        if isinstance(value, dict):
            _silence(value)
        elif isinstance(value, (int, float)) and any(word in key for word in _NOISE):
            part[key] = type(value)(0)


def _smooth(part: JsonObject) -> None:
    for key, value in part.items():
        if isinstance(value, dict):
            _smooth(value)
        elif isinstance(value, str) and value in _SMOOTH:
            part[key] = _SMOOTH[value]


def _refusal(what: str) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"transformers {transformers.__version__} {what}; without --model the run uses a tiny Llama"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
