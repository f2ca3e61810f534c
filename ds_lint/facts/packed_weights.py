"""Quantized weights: what asks for them, and what each parameter takes once transformers has loaded the model.

bitsandbytes packs the weights of linear layers: of 4 bit, two in a byte, with a scale in fp32 for each 64 of them; of
8 bit, one in a byte, with a scale for each row. Double quantization packs the scales of 4 bit, too, 256 of them with
one scale. ``schemas/quantization.json`` has the layers that stay as they are, and storages of the real classes that
``tools/quantized_layers.py`` counted.
"""

from __future__ import annotations

import re
from math import prod

from ds_lint.facts.model import BYTES
from ds_lint.facts.shapes import head, in_order, kinds
from ds_lint.facts.tensors import Packed, Tensor
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.frameworks.record import BITSANDBYTES, PackedWeights
from ds_lint.frameworks.trl import TRL
from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.facts import Facts
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.model import Model
    from ds_lint.frameworks.record import FieldValues
    from ds_lint.launches.model_loading import QuantizedLoad

_WIDTHS = {**BYTES, "uint8": 1, "int8": 1}
_FULL = 4  # bytes of a scale, and of an entry of a table
_BLOCK, _NESTED_BLOCK = 64, 256  # weights with one scale, and scales with one (``quantize_4bit``)
_TABLE, _NESTED_TABLE = 16 * _FULL, 256 * _FULL  # beside each weight; the offset of its scales has no size to speak of
_LAYERS = ("linear", "conv1d")
_THREE_DIMENSIONS = 3
_WORDS = {"nf4": 4, "fp4": 4, "int4": 4, "int8": 8}
_STORAGES = tuple(_WIDTHS)
_NESTED = ("use_bnb_nested_quant", "bnb_4bit_use_double_quant", "double_quantization", "use_nested_quant")
_DISK = {  # bytes of an element, by the dtypes of safetensors
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
# Methods whose weights transformers makes 16 bit where the GPU cannot compute with them, or if it is told to.
_UNPACKED = ("fp8", "fbgemm_fp8", "mxfp4")


def parsed(text: str, source: str = "--quantization") -> PackedWeights:
    """The quantization that ``nf4,double,storage=bfloat16,skip=lm_head+score`` means; raises UnreadableFact."""
    word, *rest = (part.strip() for part in text.split(","))
    if word not in _WORDS:
        if not rest and word in ("none", "off"):
            return PackedWeights("", source=source)
        raise UnreadableFact(
            f"{text!r} does not describe quantized weights: write nf4, fp4 or int8, such as nf4,double, or none"
        )
    found = PackedWeights(BITSANDBYTES, _WORDS[word], source=source)
    for part in rest:
        name, _, value = part.partition("=")
        if part == "double" and found.bits == _WORDS["nf4"]:
            found = found._replace(is_nested=True)
        elif name == "storage" and value in _STORAGES:
            found = found._replace(storage=value)
        elif name == "skip" and value:
            found = found._replace(skipped=tuple(filter(None, re.split(r"[+\s]+", value))))
        else:
            raise UnreadableFact(f"{part!r} is not a part of {text!r} that ds-lint knows: double, storage=, skip=")
    return found


def requested(facts: Facts) -> PackedWeights | None:
    """How the weights of the model of a run are quantized; None if they are not, or nothing tells that they are."""
    if facts.packed is not None:
        return facts.packed if facts.packed.method else None
    if facts.model is not None and (found := of_files(facts.model)) is not None:
        return found
    recipe = facts.recipe
    if recipe is not None:
        given = recipe.quantization
        found = recipe.record.packed(recipe.value) if given is not None else None
        if found is None or given is None:
            return None
        return found._replace(source=f"`{given.name}`, {given.argument.origin}")
    return _of_launch(facts.launch) if facts.launch is not None else None


def of_files(model: Model) -> PackedWeights | None:
    """How the weights in the files of a model are quantized; None if they are not."""
    given = model.quantization_config
    if given is None:
        return None
    method, source = model.quantization or "a method that is not known", f"{model.path}/config.json"
    if method != BITSANDBYTES:
        return PackedWeights(method, is_in_files=True, source=source)
    bits = 8 if given.get("load_in_8bit") or given.get("_load_in_8bit") else 4
    skipped = given.get("llm_int8_skip_modules")
    return PackedWeights(
        BITSANDBYTES,
        bits,
        given.get("bnb_4bit_use_double_quant") is True,
        storage if (storage := given.get("bnb_4bit_quant_storage")) in _STORAGES else "uint8",
        tuple(map(str, skipped)) if isinstance(skipped, list) else None,
        computes_in_full=given.get("bnb_4bit_compute_dtype", "float32") == "float32",
        is_in_files=True,
        source=source,
    )


def _of_launch(launch: LaunchFacts) -> PackedWeights | None:
    loads = launch.script.calls.quantizations if launch.script is not None else ()
    for loaded in loads:
        from ds_lint.facts.script_values import conditions_hold  # few scripts quantize

        if conditions_hold(loaded.conditions, launch.launch, launch.script):
            return _of_load(loaded)._replace(source=f"`{loaded.argument}`, {launch.at(loaded.place)}")
    if launch.recipe is not None:
        return None
    framework, arguments = launch.framework or TRL, launch.values
    value: FieldValues = lambda name: True if name in arguments and arguments[name] is None else arguments.get(name)  # noqa: E731
    found, name = framework.packed(value), framework.quantized(value)
    if found is None or name is None:
        return None
    if launch.framework is None and found.bits == _WORDS["nf4"] and not {*_NESTED} & {*arguments}:
        found = found._replace(
            is_nested=None
        )  # a script of the user's own has the flags of TRL, and defaults of its own
    return found._replace(source=f"`--{name}`, {launch.origin}")


def _of_load(loaded: QuantizedLoad) -> PackedWeights:
    """How a script quantizes a model that it loads, by the arguments that it writes out."""
    options = dict(loaded.options)
    if loaded.argument == "load_in_8bit":
        return PackedWeights(BITSANDBYTES, 8, skipped=_skipped(options))
    nested = options.get("bnb_4bit_use_double_quant", False)
    storage = options.get("bnb_4bit_quant_storage", "uint8")
    computed = options.get("bnb_4bit_compute_dtype", "float32")
    return PackedWeights(
        BITSANDBYTES,
        4,
        nested if isinstance(nested, bool) else None,
        storage if storage in _STORAGES else "uint8" if storage is None else None,
        _skipped(options),
        computes_in_full=None if computed is UNKNOWN else computed in ("float32", None),
    )


def _skipped(options: dict[str, Any]) -> tuple[str, ...] | None:
    found = options.get("llm_int8_skip_modules")
    return tuple(map(str, found)) if isinstance(found, (list, tuple)) else None


# ------------------------------------------------------------------------------------------------------- parameters


def packed(
    weights: PackedWeights, shape: tuple[int, ...], *, run: str = "bfloat16", is_transposed: bool = False
) -> Packed:
    """What a weight of this shape takes; ``run`` is the dtype that the run trains in, as torch names it.

    An experts' weight of three dimensions is packed as one. Pure, so FSDP may ask for the bytes of a weight, too.
    """
    count = prod(shape)
    if weights.bits == 8:
        rows = shape[-1] if is_transposed else prod(shape[:-1])
        return Packed(count, 1, (_FULL * rows,) * 3)
    storage = run if weights.storage == "" else weights.storage or "uint8"
    blocks = -(-count // _BLOCK)
    plain = _FULL * blocks + _TABLE
    nested = blocks + _FULL * -(-blocks // _NESTED_BLOCK) + _NESTED_TABLE + _TABLE
    likely = nested if weights.is_nested else plain
    known = weights.is_nested is not None
    bounds = (likely,) * 3 if known else (min(nested, plain), likely, max(nested, plain))
    return Packed(count, _WIDTHS[storage], bounds)


def stored(weights: PackedWeights, count: int, storage: str) -> int:
    """The elements of the tensor in which so many weights are packed."""
    if weights.bits == 8:
        return count
    packed_bytes = (count + 1) // 2
    return -(-packed_bytes // _WIDTHS[storage])


def packed_tensors(
    tensors: list[Tensor], model: Model, weights: PackedWeights, *, run: str, has_linear_experts: bool
) -> list[Tensor]:
    """The parameters of a model after transformers has quantized it.

    ``has_linear_experts`` says that each expert is a module of linear layers, as before transformers 5.
    """
    if weights.method != BITSANDBYTES:
        return [_of_another_method(tensors, model, weights), *(one for one in tensors if one.is_trained)]
    layers = {kind.name: kind for kind in kinds(model.config) or []}
    names = _Names(model, weights)
    storage = run if weights.storage == "" else weights.storage or "uint8"
    found = []
    for tensor, name in zip(tensors, _numbered(tensors), strict=True):
        kind = layers.get(tensor.name)
        is_layer = kind is not None and (kind.layer in _LAYERS and names.may_pack(kind.name))
        are_experts = len(tensor.shape) == _THREE_DIMENSIONS and ".experts." in tensor.name
        if (
            tensor.is_trained
            or kind is None
            or not (is_layer or (are_experts and (has_linear_experts or weights.packs_experts)))
            or names.stays(name)
        ):
            found.append(tensor)
            continue
        takes = packed(weights, tensor.shape, run=run, is_transposed=kind.layer == "conv1d")
        if are_experts and has_linear_experts:
            takes = takes._replace(parts=tensor.shape[0] * (1 + ("gate_up" in tensor.name)))
        found.append(tensor._replace(size=stored(weights, tensor.size, storage), packed=takes))
    return found


class _Names:
    """Which layers stay as they are, by their names (``should_convert_module`` in transformers)."""

    def __init__(self, model: Model, weights: PackedWeights) -> None:
        self._never = set(tables.load("quantization")["stays"].get(model.model_type or "", ()))
        skipped = weights.skipped
        if skipped is None:
            found = in_order(kinds(model.config) or [])
            last = found[-1].name.removesuffix(".weight") if found else ""
            skipped = tuple(filter(None, (head(model.config), last)))
        self._patterns = [(pattern, one) for one in skipped if (pattern := _pattern(one)) is not None]

    def may_pack(self, kind: str) -> bool:
        """Whether transformers packs parameters of a kind if nothing tells it not to."""
        return kind not in self._never

    def stays(self, name: str) -> bool:
        """Whether a parameter stays because its module is to be skipped."""
        module = name.rpartition(".")[0]
        return any(pattern.match(module) or module.endswith(text) for pattern, text in self._patterns)


def _pattern(text: str) -> re.Pattern[str] | None:
    """Modules by a pattern of their names; None if it is none, for which transformers raises."""
    try:
        return re.compile(rf"(?:{text})(?:(?<=\.)|(?=\.|$))")
    except re.error:
        return None


def _numbered(tensors: list[Tensor]) -> list[str]:
    """The names of parameters, with the number of the layer where only the kind is known."""
    seen: dict[str, int] = {}
    found = []
    for tensor in tensors:
        number = seen.get(tensor.name, 0)
        seen[tensor.name] = number + 1
        found.append(tensor.name.replace("#", str(number), 1).replace("#", "0"))
    return found


def _of_another_method(tensors: list[Tensor], model: Model, weights: PackedWeights) -> Tensor:
    """All weights that are not trained, as the files have them; none of their bytes if nothing tells them."""
    count = sum(tensor.size for tensor in tensors if not tensor.is_trained)
    size = bytes_in_files(model) if weights.is_in_files else None
    if size is None:
        return Tensor("the weights", 0, is_trained=False, packed=Packed(count, 0, (0, 0, 0)))
    most = max(size, 2 * count) if weights.method in _UNPACKED else size
    return Tensor("the weights", 0, is_trained=False, packed=Packed(count, 0, (size, size, most)))


def bytes_in_files(model: Model) -> int | None:
    """The bytes of all tensors in the files of a model; None if its headers are not here, or a dtype is not known."""
    if model.parameters is None or any(one.dtype not in _DISK for one in model.parameters):
        return None
    return sum(one.count * _DISK[one.dtype] for one in model.parameters)
