"""Write schemas/peft.json: which layers the installed peft gives adapters to if nothing names them.

    python -m tools.lora_targets [--write]

Without ``--write`` the exit status is 1 if the stored file differs from what the installed release says. Run it in an
environment that has peft and transformers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE = Path(__file__).parent.parent / "schemas" / "peft.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write the store; 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the store")
    options = parser.parse_args(arguments)
    found = installed()
    if options.write:
        STORE.write_text(_text(found), encoding="utf-8", newline="\n")
        return 0
    stored = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    differing = [name for name in found if found[name] != stored.get(name)]
    sys.stdout.write("".join(f"{name} differs\n" for name in differing))
    return 1 if differing else 0


def installed() -> dict[str, Any]:
    """The targets by model type, and what becomes of those that name experts, which newer transformers fuse."""
    from peft.utils import transformers_weight_conversion as conversion
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as TARGETS

    known = vars(conversion)  # names that peft has for itself
    renamed, fused = known["_MOE_TARGET_MODULE_MAPPING"], known["_MOE_FUSED_TARGETS"]
    is_converted = known["get_checkpoint_conversion_mapping"]
    types = {
        model_type: like
        for model_type, like in known["_MODEL_TO_CONVERSION_PATTERN"].items()
        if like in renamed and is_converted(model_type) is not None
    }
    return {
        "release": importlib.metadata.version("peft"),
        "transformers": importlib.metadata.version("transformers"),
        "targets": dict(TARGETS),
        "experts": {like: {"renamed": renamed[like], "fused": fused.get(like, {})} for like in renamed},
        "experts_like": types,
    }


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
