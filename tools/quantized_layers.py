"""Write schemas/quantization.json: which linear layers transformers does not quantize, and what others then take.

    python -m tools.quantized_layers [--write]

Without ``--write`` the exit status is 1 if the stored file differs from what the installed releases do. Run it in an
environment that has torch, transformers, accelerate and bitsandbytes; the build of bitsandbytes for CPUs is enough.

``stays`` is found on torch's meta device: every model type of ``shapes.json`` is built as its class makes it, and
transformers replaces its linear layers. What it leaves alone, although it is a linear layer by its kind and neither the
head nor the last module, stays. ``counted`` are the storages behind the parameters of small models that are saved and
loaded again with a ``BitsAndBytesConfig``, and the scales and tables beside them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_lint.facts.shapes import head, in_order, kinds
from tools.extract.reading import STUMBLES, error_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

STORE = Path(__file__).parent.parent / "schemas" / "quantization.json"
_PACKABLE = ("linear", "conv1d")
_SIZES = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 168, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
MODELS: dict[str, dict[str, Any]] = {  # small ones, by their model type
    "llama": {**_SIZES, **_HEADS},
    "qwen2": {**_SIZES, **_HEADS, "tie_word_embeddings": True},
    "gpt2": {"vocab_size": 97, "n_embd": 60, "n_layer": 2, "n_head": 3, "n_positions": 33},
    "qwen3_moe": {**_SIZES, **_HEADS, **_EXPERTS, "head_dim": 16},
    "falcon": {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "t5": {"vocab_size": 97, "d_model": 64, "d_kv": 16, "d_ff": 120, "num_layers": 2, "num_heads": 4},
}
_NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
_DOUBLE = {**_NF4, "bnb_4bit_use_double_quant": True}
WAYS: tuple[dict[str, Any], ...] = (  # the arguments of ``BitsAndBytesConfig``
    _NF4,
    {"load_in_4bit": True},  # fp4
    _DOUBLE,
    {**_DOUBLE, "bnb_4bit_quant_storage": "bfloat16"},
    {**_NF4, "bnb_4bit_quant_storage": "float32"},
    {"load_in_8bit": True},
    {**_NF4, "llm_int8_skip_modules": ["lm_head", "o_proj", "model.layers.1.mlp"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write the store; 1 if it differs, 2 if the libraries are not laid out as they are known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the store")
    options = parser.parse_args(arguments)
    try:
        found = installed()
    except STUMBLES as error:
        sys.stderr.write(f"error: {error_text(error)}\n")
        return 2
    stored = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    differing = [name for name in found if found[name] != stored.get(name)]
    if options.write:
        dated = {"date": dt.datetime.now(tz=dt.timezone.utc).date().isoformat()}
        STORE.write_text(_text(dated | found if differing else stored), encoding="utf-8", newline="\n")
        return 0
    sys.stdout.write("".join(f"{name} differs\n" for name in differing))
    return 1 if differing else 0


def installed() -> dict[str, Any]:
    """What the installed releases do."""
    stays = {model_type: names for model_type in _model_types() if (names := sorted(left_alone(model_type)))}
    return {
        **{library: version(library).partition("+")[0] for library in ("transformers", "bitsandbytes")},
        "stays": stays,
        "models": MODELS,
        "counted": [
            {"model": model_type, "quantization": way, **held(model_type, way)} for model_type in MODELS for way in WAYS
        ],
    }


def left_alone(model_type: str) -> Iterator[str]:
    """The kinds of linear layers of a model type that transformers leaves alone, wherever they are in it."""
    import torch
    import transformers
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear
    from transformers.quantizers.base import HfQuantizer

    config = _config(model_type)
    described = kinds({**config.to_dict(), "model_type": model_type})
    if not described:
        return
    store = json.loads((STORE.parent / "shapes.json").read_text(encoding="utf-8"))
    with torch.device("meta"):
        model = getattr(transformers, store["models"][model_type]["class"])(config)
    model.tie_weights()
    skipped = HfQuantizer.get_modules_to_not_convert(model, None, model._keep_in_fp32_modules)  # noqa: SLF001
    replace_with_bnb_linear(model, skipped, transformers.BitsAndBytesConfig(load_in_4bit=True))
    replaced = [name for name, module in model.named_modules() if type(module).__name__ == "Linear4bit"]
    there = {name for name, _ in model.named_modules()}
    last = in_order(described)[-1].name.removesuffix(".weight")
    for kind in described:
        module = kind.name.removesuffix(".weight")
        pattern = re.compile(re.escape(module).replace(r"\#", r"\d+") + "$")
        is_there = any(map(pattern.match, there))
        is_last = module in (head(config.to_dict()), last)
        if kind.layer in _PACKABLE and is_there and not is_last and not any(map(pattern.match, replaced)):
            yield kind.name


def held(model_type: str, way: dict[str, Any]) -> dict[str, int]:
    """The bytes of the storages behind the parameters of a small model, and of what bitsandbytes keeps beside them."""
    import torch
    import transformers

    store = json.loads((STORE.parent / "shapes.json").read_text(encoding="utf-8"))
    made = getattr(transformers, store["models"][model_type]["class"])
    with tempfile.TemporaryDirectory() as folder:
        made(_config(model_type, **MODELS[model_type])).to(torch.bfloat16).save_pretrained(folder)
        quantization = transformers.BitsAndBytesConfig(**way)
        model = made.from_pretrained(folder, quantization_config=quantization, dtype=torch.bfloat16)
    seen: set[int] = set()
    return {
        "parameters": _bytes(model.parameters(), seen),
        "beside": _bytes((one for parameter in model.parameters() for one in _beside(parameter)), seen),
    }


def _beside(parameter: Any) -> Iterator[Any]:
    state = getattr(parameter, "quant_state", None)
    for one in (state, getattr(state, "state2", None)):
        if one is not None:
            yield from (one.absmax, one.code)
    if getattr(parameter, "SCB", None) is not None:
        yield parameter.SCB


def _bytes(tensors: Iterable[Any], seen: set[int]) -> int:
    found = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            found += storage.nbytes()
    return found


def _config(model_type: str, **values: Any) -> Any:
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type](**values)


def _model_types() -> list[str]:
    store = json.loads((STORE.parent / "shapes.json").read_text(encoding="utf-8"))
    return sorted(store["models"])


def _text(store: dict[str, Any]) -> str:
    """The store with one line for each model type and each count."""
    lines = []
    for name, value in store.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
        elif isinstance(value, list):
            inner = ",\n".join(f"  {json.dumps(one)}" for one in value)
            lines.append(f" {json.dumps(name)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
