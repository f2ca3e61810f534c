"""Write schemas/peft.json: which layers the installed peft gives adapters to if nothing names them.

    python -m tools.lora_targets [--write]

Without ``--write`` the exit status is 1 if the stored file differs from what the installed release says. Run it in an
environment that has peft and transformers.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.extract.reading import STUMBLES, error_text

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE = Path(__file__).parent.parent / "schemas" / "peft.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write the store; 1 if it differs, 2 if peft is not laid out as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the store")
    options = parser.parse_args(arguments)
    try:
        found = installed()
    except STUMBLES as error:
        sys.stderr.write(f"error: {error_text(error)}\n")
        return 2
    if options.write:
        STORE.write_text(_text(found), encoding="utf-8", newline="\n")
        return 0
    stored = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    differing = [name for name in found if found[name] != stored.get(name)]
    sys.stdout.write("".join(f"{name} differs\n" for name in differing))
    return 1 if differing else 0


def installed() -> dict[str, Any]:
    """The targets by model type, and what becomes of those that name experts, which newer transformers fuse."""
    targets = _named(_TARGETS, "TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING")
    renamed, fused = _named(_CONVERSION, "_MOE_TARGET_MODULE_MAPPING"), _named(_CONVERSION, "_MOE_FUSED_TARGETS")
    is_converted = _named(_CONVERSION, "get_checkpoint_conversion_mapping")
    types = {
        model_type: like
        for model_type, like in _named(_CONVERSION, "_MODEL_TO_CONVERSION_PATTERN").items()
        if like in renamed and is_converted(model_type) is not None
    }
    if not types:
        raise LookupError(f"no model type of {_CONVERSION} has experts whose targets are renamed")
    return {
        "release": importlib.metadata.version("peft"),
        "transformers": importlib.metadata.version("transformers"),
        "targets": dict(targets),
        "experts": {like: {"renamed": renamed[like], "fused": fused.get(like, {})} for like in renamed},
        "experts_like": types,
    }


_TARGETS = "peft.utils.constants"
_CONVERSION = "peft.utils.transformers_weight_conversion"  # whose names peft has for itself


def _named(module: str, name: str) -> Any:
    """What a module of peft has under a name, which is not empty."""
    release = importlib.metadata.version("peft")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise LookupError(f"peft {release} has no module {module}: {error}") from error
    if not found:
        raise LookupError(f"{module} of peft {release} has no {name}, or an empty one")
    return found


def _text(store: dict[str, Any]) -> str:
    """The store with one line for each model type."""
    lines = []
    for name, value in store.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
