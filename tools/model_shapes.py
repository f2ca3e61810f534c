"""Write ``schemas/shapes.json``: the shape of every parameter of a model, in terms of the keys of its ``config.json``.

    python -m tools.model_shapes llama mixtral t5        # these model types, beside those that the file has
    python -m tools.model_shapes --changed               # those of the file that have other shapes in this release
    python -m tools.model_shapes                         # all that the file has, again

Run it in an environment that has torch and transformers. For each model type the class that generates text is built
many times on the meta device, which allocates nothing, each time with other sizes. A number that is a product of keys
in every one of these models, or a sum of two such products, is written as that. What is found has to give the shapes
of further models that were not looked at before, in their order, by which ZeRO cuts them; a model type for which it
does not is left out, with a message.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import random
import re
import sys
import warnings
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.facts.shapes import Kind, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

STORE = Path(__file__).parent.parent / "schemas" / "shapes.json"
SEED = 20261122
PROBES, TRIALS = 9, 4  # models to find the expressions with, and models to hold them against
MOST_SWITCHES = 5
_GIVEN = 64  # of a size that a class works out where it is not given
CASES = 6  # models to find out what stands in for a key that is left out


PARTS = ("text_config", "vision_config")  # of a model of several modalities


class Same(NamedTuple):
    """In a case of a model type: that a key is the same as another."""

    key: str


# What cannot be described at once: several cases of a model type. A number is where the sizes begin, anything else is
# the same in the whole case.
CASES_OF: dict[str, tuple[dict[str, Any], ...]] = {
    "deepseek_v2": ({"first_k_dense_replace": 2}, {"first_k_dense_replace": 2, "q_lora_rank": None}),
    "deepseek_v3": ({}, {"q_lora_rank": None}),
    "falcon": (
        {"hidden_size": 1024, "num_attention_heads": 16, "new_decoder_architecture": False},
        {"hidden_size": 1024, "num_attention_heads": 16, "num_kv_heads": 4, "new_decoder_architecture": True},
    ),
    "glm4_moe": ({"num_attention_heads": 32, "head_dim": 128, "first_k_dense_replace": 2},),
    "deberta-v2": (
        {
            "relative_attention": True,
            "share_att_key": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
        },
    ),
    "marian": ({"decoder_vocab_size": Same("vocab_size")},),
    "mt5": ({"num_heads": 8},),  # the 6 of its class do not divide its width
    "opt": ({"word_embed_proj_dim": Same("hidden_size")}, {"word_embed_proj_dim": 320}),
    "qwen3_moe": ({"head_dim": 128},),
    "seed_oss": ({"num_attention_heads": 32},),  # the 80 of its class do not divide its width
    "umt5": ({"num_heads": 8},),
}
# Keys that must go with the number of layers, which is varied.
FOLLOWING: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "gpt_neo": lambda given: {
        "attention_types": [[["global"], given.get("num_hidden_layers", given.get("num_layers", 24))]]
    },
}
# Switches that a config class works out of a key with words, as an expression of that key.
DERIVED = {"is_gated_act": ("feed_forward_proj", "'gated-' in feed_forward_proj")}

_LAYERS = re.compile(r"(num_.*layers|n_layers?|.*_layers|depth|n_enc|num_layers_.*)$")
_NO_SIZE = re.compile(r"(.*_token_id|.*_index|chunk_size_feed_forward|pretraining_tp|num_labels|.*_idx)$")
_SPECIAL = ("transformers_version", "architectures", "model_type", "dtype", "torch_dtype", "_name_or_path")
_NO_STRUCTURE = re.compile(  # decides nothing about parameters, whatever it says
    r"(.*_act|.*activation.*|rope_.*|.*_token_id|id2label|label2id|problem_type|.*_init.*|_.*|dtype|.*_dropout|"
    r".*attn_implementation|quantization_config|auto_map|scale_attn.*|.*_cache|output_.*|return_dict|tokenizer_class|"
    r"torch_dtype|transformers_version|architectures|model_type|layer_norm_epsilon|use_bfloat16|task_specific_params|"
    r"sliding_window|max_window_layers|n_group|topk_group|topk_method|num_experts_per_tok|dense_act_fn|"
    r"summary_.*|is_decoder|attn_config|attention_types|attention_layers|no_rope_layers|reorder_and_upcast_attn|experts_implementation)$"
)

Signature = list[tuple[str, tuple[int, ...]]]  # names without indices and shapes, in the order of the model


class NotDescribed(Exception):  # noqa: N818 - an answer, not an accident
    """Why a model type is left out."""


class Probe(NamedTuple):
    """A model that was built: the numbers of its config, its switches, and its parameters."""

    numbers: dict[str, int]
    parameters: Parameters


class Parameters(dict[str, list[tuple[int, ...]]]):
    """The shapes of a model's parameters by name without indices."""

    def __init__(self, named: Iterable[tuple[str, Any]], plain: _Plain) -> None:
        super().__init__()
        self.in_order: Signature = []
        self.runs: list[list[str]] = [[]]  # the names, cut where a layer follows on another
        self.first: dict[str, int] = {}  # the layer that has the first one
        before: list[tuple[str, int]] = []
        entrance: list[str] = []  # what is before the stack of layers
        for name, parameter in named:
            without, shape = plain(name), tuple(parameter.shape)
            self.setdefault(without, []).append(shape)
            self.in_order.append((without, shape))
            now = _numbers_in(name, without)
            self.first.setdefault(without, now[0][1] if now else 0)
            if [stack for stack, _ in now[:1]] != [stack for stack, _ in before[:1]]:
                entrance = self.runs[-1][-1:]
            if _is_next_layer(before, now):
                self.runs.append(list(entrance))
            self.runs[-1].append(without)
            before = now


def _numbers_in(name: str, without: str) -> list[tuple[str, int]]:
    """The numbers that a name has where ``#`` stands without them, each with what is before it."""
    words = without.split(".")
    places = [place for place, word in enumerate(words) if word == "#"]
    return [(".".join(words[:place]), int(name.split(".")[place])) for place in places]


def _is_next_layer(before: list[tuple[str, int]], now: list[tuple[str, int]]) -> bool:
    """Whether the second of two parameters is in another layer of the same stack."""
    for (stack, number), (other, after) in zip(before, now, strict=False):
        if stack != other or number != after:
            return stack == other
    return False


class _Plain:
    """Names without the indices of layers; an index into modules that differ stays, as of a ``Sequential``.

    Layers may differ, too, but not what is numbered within one: of those of T5 one is attention and one feed-forward.
    """

    def __init__(self, model: Any) -> None:
        from torch.nn import ModuleList, Sequential

        self.sequences = {
            name
            for name, module in model.named_modules()
            if isinstance(module, Sequential) or (isinstance(module, ModuleList) and _is_of_parts(name, module))
        }

    def __call__(self, name: str) -> str:
        parts = name.split(".")
        return ".".join(
            "#" if part.isdigit() and ".".join(parts[:place]) not in self.sequences else part
            for place, part in enumerate(parts)
        )


def _is_of_parts(name: str, module: Any) -> bool:
    """Whether the modules of a list within a layer have different parameters."""
    shapes = [[(key, value.shape) for key, value in one.named_parameters()] for one in module]
    return any(part.isdigit() for part in name.split(".")) and any(one != shapes[0] for one in shapes)


class Family:
    """One model type of transformers, the class that is built for it, and the case of it that is described."""

    def __init__(self, model_type: str, case: dict[str, Any] | None = None) -> None:
        import transformers
        from transformers.models.auto import modeling_auto as auto
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

        tables = (
            auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
            auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
            getattr(auto, "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", {}),  # since 4.46
            auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        )
        name = next((table[model_type] for table in tables if model_type in table), None)
        if name is None or model_type not in CONFIG_MAPPING_NAMES:
            raise NotDescribed("no class of it generates text")
        self.model_type = model_type
        self.name = name if isinstance(name, str) else name[0]
        self.config_class = getattr(transformers, CONFIG_MAPPING_NAMES[model_type])
        self.model_class = getattr(transformers, self.name)
        given = case or {}
        self.case = {name: value for name, value in given.items() if not isinstance(value, Same)}
        self.same = {name: value.key for name, value in given.items() if isinstance(value, Same)}
        self.following = FOLLOWING.get(model_type)
        self.modules: dict[str, str] = {}  # what takes adapters, by the name of its weight without indices
        self.heads: set[str] = set()  # the layers that make logits, of which peft knows
        self.source = Path(sys.modules[self.model_class.__module__].__file__ or "").read_text(encoding="utf-8")
        self.optional_keys = [  # what the class has only if config.json has it
            name
            for name in re.findall(r"getattr\((?:self\.)?config, \"(\w+)\"", self.source)
            if not _NO_STRUCTURE.match(name)
        ]

    def config(self, given: dict[str, Any]) -> Any:
        """A config with these keys, of which those of its parts are dotted."""
        nested: dict[str, Any] = {}
        for name, value in given.items():
            part, _, key = name.rpartition(".")
            (nested.setdefault(part, {}) if part else nested)[key] = value
        if self.following is not None:
            nested |= self.following(given)
        return self.config_class(**nested)

    def keys(self, given: dict[str, Any]) -> dict[str, Any]:
        """Every key of such a config with what it is, those of its parts dotted."""
        found: dict[str, Any] = self.config(given).to_dict()
        for part in PARTS:
            of_part = found.pop(part, None)
            found |= {f"{part}.{name}": value for name, value in of_part.items()} if isinstance(of_part, dict) else {}
        return found

    def build(self, given: dict[str, Any]) -> tuple[Any, Parameters]:
        """A config with these keys, and the shapes of its model's parameters."""
        import torch

        with torch.device("meta"):
            config = self.config(given)
            model = self.model_class(config)
        plain = _Plain(model)
        self._look_at(model, plain)
        return config, Parameters(model.named_parameters(), plain)

    def _look_at(self, model: Any, plain: _Plain) -> None:
        """See which parameters are weights of layers that take adapters, as peft tells them apart."""
        from torch.nn import Embedding, Linear
        from transformers.pytorch_utils import Conv1D

        head = model.get_output_embeddings()
        for name, module in model.named_modules():
            classes = {"linear": Linear, "conv1d": Conv1D, "embedding": Embedding}
            kind = next((word for word, one in classes.items() if isinstance(module, one)), None)
            if kind is not None:
                self.modules[f"{plain(name)}.weight"] = kind
            if module is head:
                self.heads.add(plain(name))

    def try_build(self, given: dict[str, Any]) -> Parameters | None:
        """The shapes, or None where the class refuses such a config."""
        try:
            return self.build(given)[1]
        except Exception:  # noqa: BLE001 - whatever a class raises over sizes that do not go together
            return None


def describe(model_type: str) -> dict[str, Any]:
    """What the store says of a model type: the first case, and below it the others."""
    first, *others = [_described(Family(model_type, case)) for case in CASES_OF.get(model_type, ({},))]
    return first | ({"others": others} if others else {})


def _described(family: Family) -> dict[str, Any]:
    dice = random.Random(SEED)  # noqa: S311 - sizes to try
    start, keys = _start(family)
    base = family.try_build(start)
    if base is None:
        raise NotDescribed("its smallest config builds no model")
    sizes = _sizes(family, start, keys, base)
    switches = _switches(family, start, keys, base)
    fixed = _fixed(family, start, keys, {*sizes, *switches, *family.same})
    usual = family.keys({})
    needs = {name: fixed.pop(name) for name in family.case if name in fixed and usual.get(name) != fixed[name]}
    combinations = [
        dict(zip(switches, values, strict=True)) for values in itertools.product((False, True), repeat=len(switches))
    ]
    built: dict[int, list[Probe]] = {}
    for _ in range(PROBES + TRIALS):
        numbers = _varied(family, start, sizes, dice, combinations)
        for place, combination in enumerate(combinations):
            shapes = family.try_build({**start, **numbers, **combination})
            if shapes is not None:
                built.setdefault(place, []).append(Probe({**_numbers(start, sizes), **numbers}, shapes))
    if len(built.get(0, ())) < PROBES:
        raise NotDescribed("too few sizes go together")
    tables = {place: _table(family, probes[:PROBES]) for place, probes in built.items() if len(probes) >= PROBES}
    order = _in_one_order([run for probes in built.values() for run in probes[0].parameters.runs])
    facts: dict[str, Any] = {
        "class": family.name,
        "prefix": getattr(family.model_class, "base_model_prefix", ""),
        "head": next(iter(family.heads), None),
        "parameters": sorted(_joined(tables, combinations), key=lambda entry: order.index(entry["name"])),
        "keys": {},
        "fixed": fixed,
    }
    facts |= ({"same": family.same} if family.same else {}) | ({"needs": needs} if needs else {})
    used = _used(facts["parameters"], [*sizes, *switches])
    facts["keys"] = {
        key: _otherwise(family, start, sizes, key, facts, dice) | _other_names(family, start, key) for key in used
    }
    _derive(family, start, facts["keys"])
    for place, probes in built.items():
        for probe in probes:
            if place in tables and probe.parameters.in_order != evaluated(
                facts, {**probe.numbers, **combinations[place]}
            ):
                raise NotDescribed("what was found does not give the shapes of other models, or their order")
    return facts


def _derive(family: Family, start: dict[str, Any], keys: dict[str, Any]) -> None:
    """Put in place of a switch that is left out what the class works out of a key with words."""
    for switch, (key, expression) in DERIVED.items():
        if switch not in keys:
            continue
        usual = family.keys({})[key]
        for word in ("relu", "gelu", "gated-gelu", "gated-silu"):
            given = {name: value for name, value in start.items() if name != switch}
            meant = bool(eval(expression, {"__builtins__": {}}, {key: word}))  # noqa: S307
            if family.try_build({**given, key: word}) != family.try_build({**given, key: word, switch: meant}):
                raise NotDescribed(f"{switch} does not follow from {key}")
        keys[key] = {"missing": repr(usual), "is_text": True}
        keys[switch] = keys.pop(switch) | {"missing": expression}


def holds(model_type: str, facts: dict[str, Any]) -> bool:
    """Whether what the store says of a model type gives the shapes of further models of the installed release."""
    families = [Family(model_type, case) for case in CASES_OF.get(model_type, ({},))]
    described = [facts, *facts.get("others", ())]
    return len(families) == len(described) and all(map(_holds, families, described))


def _holds(family: Family, facts: dict[str, Any]) -> bool:
    dice = random.Random(family.model_type)  # noqa: S311 - sizes to try
    start, _ = _start(family)
    usual = family.keys(start)
    words = {key: usual[key] for key, substitute in facts["keys"].items() if substitute.get("is_text")}
    if any(switch in facts["keys"] and key not in words for switch, (key, _) in DERIVED.items()):
        return False
    switches = [key for key in facts["keys"] if isinstance(usual.get(key), bool)]
    sizes = {key: usual.get(key) or _GIVEN for key in facts["keys"] if key not in (*switches, *words)}
    start |= {key: size for key, size in sizes.items() if not usual.get(key)}
    for place in range(TRIALS):
        chosen = {key: place % 2 == 1 if place < 2 else dice.random() < 0.5 for key in switches}
        numbers = {**_numbers(start, sizes), **_varied(family, start, sizes, dice, [chosen])}
        shapes = family.try_build({**start, **numbers, **chosen})
        if shapes is None or shapes.in_order != evaluated(facts, {**numbers, **chosen}):
            return False
    values = {**_numbers(start, sizes), **dict.fromkeys(switches, False), **words}
    recorded = facts["class"], facts["prefix"], facts["head"] is None or facts["head"] in family.heads
    return recorded == (family.name, family.model_class.base_model_prefix, True) and all(
        _is_default(family, facts, {**start, **values}, values, key)
        and _other_names(family, start, key)
        == {which: names for which, names in facts["keys"][key].items() if which in ("also", "over")}
        for key in facts["keys"]
        if key not in words
    )


def _is_default(family: Family, facts: dict[str, Any], given: dict[str, Any], values: dict[str, Any], key: str) -> bool:
    """Whether a key that is left out is what the store says."""
    otherwise = facts["keys"][key].get("missing")
    shapes = family.try_build({name: value for name, value in given.items() if name != key})
    if otherwise is None or shapes is None:
        return True
    return shapes.in_order == evaluated(facts, {**values, key: _constant(otherwise, values)})


def evaluated(facts: dict[str, Any], values: dict[str, Any]) -> Signature:
    """The parameters that the store gives for these values of keys."""
    found = [
        Kind(
            entry["name"],
            tuple(_number(size, values) for size in entry["shape"]),
            _number(entry.get("times", 1), values),
            first=_number(entry.get("first", 0), values),
        )
        for entry in facts["parameters"]
        if all(values[key] == value for key, value in entry.get("if", {}).items())
    ]
    return [(kind.name, kind.shape) for kind in in_order(found)]


def _number(expression: str | int, values: dict[str, Any]) -> int:
    if isinstance(expression, int):
        return expression
    plain = {name.replace(".", "__"): value for name, value in values.items()}
    return int(eval(expression.replace(".", "__"), {"__builtins__": {}}, plain))  # noqa: S307


# ---------------------------------------------------------------------------------------------------------- configs


def _start(family: Family) -> tuple[dict[str, Any], dict[str, Any]]:
    """A config with few layers, as keys to give to the class; and every key with what it is then."""
    keys = family.keys({})
    start: dict[str, Any] = {}
    for name, value in keys.items():
        if isinstance(value, int) and not isinstance(value, bool) and _LAYERS.match(_leaf(name)) and value > 4:
            start[name] = 4
    if family.try_build(start) is None:
        start = {}
    start |= family.case
    keys = family.keys(start)
    if "head_dim" in family.optional_keys:
        keys.setdefault("head_dim", None)
    spelled_out = {  # what a class works out of other keys is not to follow them
        name: value for name, value in keys.items() if _is_number(value) and _may_be_size(family, name)
    }
    if family.try_build({**spelled_out, **start}) is not None:
        start = {**spelled_out, **start}
    return start, keys


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _may_be_size(family: Family, name: str) -> bool:
    return _leaf(name) not in _SPECIAL and name not in family.same and not _NO_SIZE.match(_leaf(name))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _sizes(family: Family, start: dict[str, Any], keys: dict[str, Any], base: Any) -> dict[str, int]:
    """The keys with a number that shapes depend on, with what they are to begin with.

    A key that decides which parameters there are is none of them, unless it counts layers.
    """
    found = {}
    for name, value in keys.items():
        if not _may_be_size(family, name) or not (_is_number(value) or value is None):
            continue
        if value is None and (name in family.case or not _may_be_number(family, name)):
            continue
        for other in (2 * value, value + 1, 3 * value, value + 2, value // 2) if value else (1, 2, 64):
            shapes = family.try_build({**start, name: other})
            if shapes is not None and shapes != base:
                if set(shapes) != set(base):
                    continue
                found[name] = value or other
                if not value:
                    start[name] = other
                    base = shapes
                break
            if shapes is not None and value:
                break
    return found


def _may_be_number(family: Family, name: str) -> bool:
    if name == "head_dim":
        return True
    part, _, key = name.rpartition(".")
    config_class = type(getattr(family.config({}), part)) if part else family.config_class
    for one in config_class.__mro__:
        annotation = str(inspect.get_annotations(one).get(key, ""))
        if annotation:
            return "int" in annotation
    return False


def _switches(family: Family, start: dict[str, Any], keys: dict[str, Any], base: Any) -> list[str]:
    """The keys that are true or false and decide which parameters there are."""
    base = family.try_build(start)
    found = []
    for name, value in keys.items():
        if isinstance(value, bool) and _leaf(name) not in _SPECIAL and name not in family.case:
            shapes = family.try_build({**start, name: not value})
            if shapes is not None and shapes != base:
                found.append(name)
    found.sort(key=lambda name: (name != "tie_word_embeddings", "bias" not in name))
    return found[:MOST_SWITCHES]


def _fixed(family: Family, start: dict[str, Any], keys: dict[str, Any], varied: set[str]) -> dict[str, Any]:
    """The other keys that may decide about parameters: what is described holds for these values only."""
    base = family.try_build(start)
    found = {}
    for name, value in keys.items():
        if "." in name and _leaf(name) == "model_type":
            found[name] = value
        if name in varied or _NO_STRUCTURE.match(_leaf(name)) or isinstance(value, float):
            continue
        if not re.search(rf"\b{_leaf(name)}\b", family.source):
            continue
        if isinstance(value, bool) or _is_number(value):
            others: tuple[Any, ...] = (not value,) if isinstance(value, bool) else (value + 1, value * 2, 0)
            if "heads" in name and value > 1:  # whose number divides the width
                others = (value * 2, value // 2)
            tried = [family.try_build({**start, name: other}) for other in others]
            if all(shapes == base for shapes in tried if shapes is not None) and any(tried):
                continue
        if isinstance(value, list) and value and _is_neutral_list(family, start, name, value, base):
            continue
        if value is None and not _may_be_number(family, name):
            continue
        found[name] = value
    found.update({name: None for name in family.optional_keys if name not in keys})
    return found


def _is_neutral_list(family: Family, start: dict[str, Any], name: str, value: list[Any], base: Any) -> bool:
    """Whether it makes no difference which of its words such a list has for which layer."""
    words = {str(one) for one in value} | {"full_attention", "sliding_attention"}
    tried = [family.try_build({**start, name: [word] * len(value)}) for word in sorted(words)]
    return all(shapes == base for shapes in tried if shapes is not None) and sum(s is not None for s in tried) >= 2


def _numbers(start: dict[str, Any], sizes: dict[str, int]) -> dict[str, int]:
    return {name: start.get(name, value) for name, value in sizes.items()}


def _varied(
    family: Family,
    start: dict[str, Any],
    sizes: dict[str, int],
    dice: random.Random,
    combinations: Sequence[dict[str, bool]],
) -> dict[str, int]:
    """Other numbers for the keys that shapes depend on, which go together."""
    for attempt in range(400):
        rate = 0.7 if attempt < 150 else 0.35
        numbers = {}
        for name, value in _numbers(start, sizes).items():
            factors = (1, 2, 3) if not _LAYERS.match(_leaf(name)) else (1, 2)
            numbers[name] = value * dice.choice(factors) if dice.random() < rate else value
            if dice.random() < 0.4 and (
                "vocab" in name or "intermediate" in name or "position" in name or "ffn" in name
            ):
                numbers[name] += dice.choice((16, 48, 80))
            if dice.random() < 0.3 and _LAYERS.match(_leaf(name)):
                numbers[name] += dice.choice((1, 2))
            if "dense" in name:
                numbers[name] = value + dice.choice((0, 0, -1, 1)) if value > 1 else value
            if dice.random() < 0.2 and "head" in name and value % 2 == 0:
                numbers[name] = value // 2
        if not _divides_evenly(numbers):
            continue
        if family.try_build({**start, **numbers, **combinations[0]}) is not None:
            return numbers
    raise NotDescribed("other sizes build no model")


def _divides_evenly(numbers: dict[str, int]) -> bool:
    """Whether the width can be shared out to the heads: some classes round, and no model that is trained has that."""
    for part in {name.rpartition(".")[0] for name in numbers}:
        own = {_leaf(name): value for name, value in numbers.items() if name.rpartition(".")[0] == part}
        widths = [own[name] for name in ("hidden_size", "n_embd", "d_model", "dim", "embed_dim") if name in own]
        heads = [value for name, value in own.items() if "heads" in name or name in ("n_head", "num_key_value_groups")]
        queries, keys = own.get("num_attention_heads"), own.get("num_key_value_heads")
        if queries and keys and queries % keys:
            return False
        if any(width % count for width in widths for count in heads):
            return False
    return True


# ------------------------------------------------------------------------------------------------------- expressions


def _monomials(probes: Sequence[Probe]) -> dict[tuple[int, ...], str]:
    """Products and quotients of keys, by their values in each of the models; the shortest of those that are alike."""
    names = [name for name in probes[0].numbers if len({probe.numbers[name] for probe in probes}) > 1]
    columns = {name: tuple(probe.numbers[name] for probe in probes) for name in names}
    found: dict[tuple[int, ...], str] = {}

    def add(values: tuple[int, ...], text: str) -> None:
        found.setdefault(values, text)

    for name, column in columns.items():
        add(column, name)
    pairs = list(itertools.combinations_with_replacement(names, 2))
    for one, two in pairs:
        add(tuple(map(prod, zip(columns[one], columns[two], strict=True))), f"{one} * {two}")
    for one, two in itertools.permutations(names, 2):
        for values, text in _of_two(one, two, columns):
            add(values, text)
    for one, two in pairs:
        for three in names:
            product = tuple(map(prod, zip(columns[one], columns[two], strict=True)))
            if three not in (one, two) and all(a % b == 0 for a, b in zip(product, columns[three], strict=True)):
                add(tuple(a // b for a, b in zip(product, columns[three], strict=True)), f"{one} * {two} // {three}")
    plain = list(found.items())
    for values, text in plain:
        for factor in (2, 3, 4, 6, 8):
            add(tuple(factor * value for value in values), f"{factor} * {text}")
    for values, text in plain:
        for divisor in (2, 4, 8):
            if all(value % divisor == 0 for value in values):
                add(tuple(value // divisor for value in values), f"{text} // {divisor}")
    return found


def _of_two(one: str, two: str, columns: dict[str, tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], str]]:
    """The quotient of two keys, the first times the square of the second, and the patches of a square image."""
    both = list(zip(columns[one], columns[two], strict=True))
    if all(a % b == 0 for a, b in both):
        yield tuple(a // b for a, b in both), f"{one} // {two}"
    yield tuple(a * b * b for a, b in both), f"{one} * {two} * {two}"
    if all(a >= b for a, b in both):
        yield tuple((a // b) ** 2 for a, b in both), f"({one} // {two}) * ({one} // {two})"


def _expression(wanted: tuple[int, ...], terms: dict[tuple[int, ...], str]) -> str | int | None:
    """A number of each model as an expression of its config: one product, two, or one and a constant."""
    if len(set(wanted)) == 1:
        return wanted[0]
    if wanted in terms:
        return terms[wanted]
    for values, text in terms.items():
        differences = {a - b for a, b in zip(wanted, values, strict=True)}
        if len(differences) == 1 and abs(next(iter(differences))) <= 64:
            (constant,) = differences
            return f"{text} {'+' if constant > 0 else '-'} {abs(constant)}"
    for values, text in terms.items():
        rest = tuple(a - b for a, b in zip(wanted, values, strict=True))
        if rest in terms:
            return f"{text} + {terms[rest]}"
        negative = tuple(-one for one in rest)
        if negative in terms and "//" not in terms[negative]:
            return f"{text} - {terms[negative]}"
    for values, text in terms.items():  # three terms, as in Mamba's projections
        for more, other in itertools.islice(terms.items(), 400):
            rest = tuple(a - b - c for a, b, c in zip(wanted, values, more, strict=True))
            if rest in terms:
                return f"{text} + {other} + {terms[rest]}"
        if "*" in text and text.count("*") > 1:
            break
    return None


def _table(family: Family, probes: Sequence[Probe]) -> list[dict[str, Any]]:
    """Every kind of parameter with its shape and how often there is one."""
    names = list(probes[0].parameters)
    if any(set(probe.parameters) != set(names) for probe in probes):
        raise NotDescribed("its parameters have other names with other sizes")
    terms = _monomials(probes)
    table = []
    for name in names:
        kinds = [list(dict.fromkeys(probe.parameters[name])) for probe in probes]
        if any(len(kind) > 1 for kind in kinds):
            raise NotDescribed(f"{name} has a shape of its own in some layers")
        shapes = [kind[0] for kind in kinds]
        if len({len(shape) for shape in shapes}) > 1:
            raise NotDescribed(f"{name} has more dimensions with other sizes")
        sizes = [_expression(tuple(column), terms) for column in zip(*shapes, strict=True)] if shapes[0] else []
        times = _expression(tuple(len(probe.parameters[name]) for probe in probes), terms)
        if None in sizes or times is None:
            raise NotDescribed(f"{name} {shapes[0]} x {times} follows from no keys")
        first = _expression(tuple(probe.parameters.first[name] for probe in probes), terms) if "#" in name else 0
        layer = {"layer": family.modules[name]} if name in family.modules else {}
        counted = ({} if times == 1 else {"times": times}) | ({"first": first} if first else {})
        table.append({"name": name, "shape": sizes} | counted | layer)
    return table


def _joined(tables: dict[int, list[dict[str, Any]]], combinations: Sequence[dict[str, bool]]) -> list[dict[str, Any]]:
    """The tables of all combinations of switches as one, in which an entry says on which switches it depends."""
    entries: dict[str, tuple[dict[str, Any], set[int]]] = {}
    for place, table in tables.items():
        for entry in table:
            entries.setdefault(json.dumps(entry), (entry, set()))[1].add(place)
    joined = []
    for entry, places in entries.values():
        condition = {
            switch: value
            for switch in (combinations[0] if combinations else ())
            for value in (False, True)
            if all(combinations[place][switch] is value for place in places)
            and any(combinations[place][switch] is not value for place in tables)
        }
        meant = {
            place
            for place in tables
            if all(combinations[place][switch] is value for switch, value in condition.items())
        }
        if meant == places:
            joined.append(entry | ({"if": condition} if condition else {}))
        else:  # one switch decides for another
            joined += [entry | {"if": combinations[place]} for place in sorted(places)]
    return joined


def _in_one_order(runs: Iterable[Sequence[str]]) -> list[str]:
    """All names of several runs of them, each after those that are before it in any of the runs."""
    before: dict[str, list[str]] = {}
    for run in runs:
        for place, name in enumerate(run):
            before.setdefault(name, []).extend(run[max(place - 1, 0) : place])
    ordered: dict[str, None] = {}

    def add(name: str, waiting: frozenset[str]) -> None:
        for previous in before[name]:
            if previous not in ordered and previous not in waiting:
                add(previous, waiting | {name})
        ordered[name] = None

    for name in before:
        add(name, frozenset())
    return list(ordered)


def _used(parameters: Iterable[dict[str, Any]], keys: Sequence[str]) -> list[str]:
    text = " ".join(str([entry["shape"], *map(entry.get, ("times", "first", "if"))]) for entry in parameters)
    return [key for key in keys if re.search(rf"(?<![\w.]){re.escape(key)}\b", text)]


def _otherwise(
    family: Family, start: dict[str, Any], sizes: dict[str, int], key: str, facts: dict[str, Any], dice: random.Random
) -> dict[str, Any]:
    """What a key is where config.json leaves it out, and where it says null."""
    found = {}
    switches = {name: value for name, value in family.keys(start).items() if isinstance(value, bool)}
    for case in ("missing", "null"):
        seen: list[tuple[dict[str, Any], Signature]] = []
        for _ in range(CASES):
            numbers = _plain_numbers(family, start, sizes, key, dice)
            given = {**start, **numbers}
            given.pop(key, None)
            if case == "null":
                given[key] = None
            shapes = family.try_build(given)
            if shapes is None:
                break
            seen.append(({**_numbers(start, sizes), **numbers, **switches}, shapes.in_order))
        if len(seen) == CASES and (answer := next(_standing_in(facts, key, seen, family), None)) is not None:
            found[case] = answer
    return found


def _other_names(family: Family, start: dict[str, Any], key: str) -> dict[str, list[str]]:
    """The names under which ``config.json`` may have a key, beside that which the class keeps it under.

    If a file has a name of ``over`` as well as the key, the name counts: what a class has no field for is set last.
    """
    part, _, leaf = key.rpartition(".")
    config = family.config({})
    config_class = type(getattr(config, part)) if part else type(config)
    source = Path(inspect.getfile(config_class)).read_text(encoding="utf-8")
    names = [name for name, meant in config_class.attribute_map.items() if meant == leaf]
    names += re.findall(r"kwargs\.(?:pop|get)\(\"(\w+)\"", source)
    names = [f"{part}.{name}" if part else name for name in dict.fromkeys(names)]
    found: dict[str, list[str]] = {}
    if part == "text_config" and _may_lie_beside_the_parts(family, start, key):
        found["also"] = [leaf]
    for name in names:
        where = _where_it_counts(family, start, key, name)
        if where is not None:
            found.setdefault(where, []).append(name)
    return found


def _may_lie_beside_the_parts(family: Family, start: dict[str, Any], key: str) -> bool:
    """Whether a file may have a key of the text outside ``text_config``, with all others, as older files do."""
    flat = {name.removeprefix("text_config."): value for name, value in start.items() if "model_type" not in name}
    usual = family.keys(start).get(key) or _GIVEN
    pairs = [
        (family.try_build({**start, key: usual * factor}), family.try_build({**flat, _leaf(key): usual * factor}))
        for factor in (1, 2)
    ]
    return any(one is not None and one == other for one, other in pairs)


def _where_it_counts(family: Family, start: dict[str, Any], key: str, name: str) -> str | None:
    """Whether a name is another one of a key: ``over`` if it counts beside the key, ``also`` if the key does."""
    usual = family.keys(start).get(key)
    if isinstance(usual, bool) or usual is None:
        return None
    shapes: dict[int, Parameters | None] = {}
    for factor in (1, 2, 3, 4):
        shapes[factor] = family.try_build({**start, key: usual * factor})
    for factor, other in ((2, 4), (2, 3), (2, 1)):
        one, both = shapes[factor], family.try_build({**start, key: usual * other, name: usual * factor})
        without = {given: value for given, value in start.items() if given != key}
        alone = family.try_build({**without, name: usual * factor})
        if one is None or alone is None or alone != one or one == shapes[other]:
            continue
        return "over" if both == one else "also"
    return None


def _plain_numbers(
    family: Family, start: dict[str, Any], sizes: dict[str, int], key: str, dice: random.Random
) -> dict[str, int]:
    """Other numbers that build a model where a key is left out, with parameters of the same names."""
    names = set(family.try_build(start) or ())
    for _ in range(100):
        numbers = {name: value * dice.choice((1, 2)) for name, value in _numbers(start, sizes).items() if name != key}
        given = {**start, **numbers}
        given.pop(key, None)
        if set(family.try_build(given) or ()) == names:
            return numbers
    return {name: value for name, value in _numbers(start, sizes).items() if name != key}


def _standing_in(
    facts: dict[str, Any], key: str, seen: Sequence[tuple[dict[str, Any], Signature]], family: Family
) -> Iterator[Any]:
    """The values that give the shapes that were seen: a constant, another key, or a quotient of two."""
    part, _, leaf = key.rpartition(".")
    usual = type(getattr(family.config({}), part))().to_dict() if part else family.config({}).to_dict()
    default = usual.get(leaf)
    of_part = {name: value for name, value in seen[0][0].items() if name.rpartition(".")[0] == part}
    others = [name for name, value in of_part.items() if _is_number(value) and name != key]
    if isinstance(default, bool):
        others = []
    candidates: list[Any] = [default] if default is not None else []
    candidates += [not default] if isinstance(default, bool) else []
    candidates += others + [f"{factor} * {name}" for name in others for factor in (2, 4)]
    candidates += [f"{one} // {two}" for one, two in itertools.permutations(others, 2)]
    for candidate in candidates:
        try:
            if all(
                evaluated(facts, {**values, key: _constant(candidate, values)}) == shapes for values, shapes in seen
            ):
                yield candidate
        except (ZeroDivisionError, KeyError, NameError):  # noqa: PERF203 - some candidates are none
            continue


def _constant(candidate: Any, values: dict[str, Any]) -> Any:
    return candidate if isinstance(candidate, bool) else _number(candidate, values)


# ---------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str] | None = None) -> int:
    """Describe model types; 1 if one of them cannot be."""
    import transformers

    parser = argparse.ArgumentParser(prog="python -m tools.model_shapes", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="(default: all that the file has)")
    parser.add_argument("--changed", action="store_true", help="only those whose shapes are not what the file says")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    nothing = {"transformers": transformers.__version__, "models": {}, "remote_code": {}}
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else nothing
    left_out = 0
    for name in options.names or list(store["models"]):
        try:
            if options.changed and holds(name, store["models"][name]):
                continue
            store["models"][name] = describe(name)
        except NotDescribed as reason:
            left_out += 1
            store["models"].pop(name, None)
            sys.stdout.write(f"{name}: left out, {reason}\n")
        else:
            sys.stdout.write(f"{name}: {len(store['models'][name]['parameters'])} kinds of parameters\n")
        _write(store)  # with the release of before: an interrupted run is not done
    if not options.names:
        store["transformers"] = transformers.__version__
    _write(store)
    return 1 if left_out else 0


def _write(store: dict[str, Any]) -> None:
    """The store with one line for each kind of parameter and each key."""
    store["models"] = dict(sorted(store["models"].items()))
    text = json.dumps(store, indent=1)
    text = re.sub(r"\n {5,}(?=\S)|\n {4}(?=[\]}])", " ", text)
    STORE.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
