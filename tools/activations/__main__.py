"""Write ``schemas/activations.json``: what a training step of a model type holds beside the model states.

    python -m tools.activations llama mixtral t5      # these model types, beside those that the file has
    python -m tools.activations --changed             # those of the file that hold something else in this release
    python -m tools.activations --missing             # only the ways to train that the file does not have
    python -m tools.activations                       # all that the file has, again

Run it in an environment that has torch, transformers, peft, Liger and Triton, on the CPU. For each model type and
each way to train, small models with sizes by chance take one step each, and every storage is noted as it comes and
goes. What is live at each moment of the step is a sum of bytes for each of the quantities of
``ds_lint/footprint/quantities.py``; the moments that are the highest for some realistic size are written, and what a
further layer adds. What is found has to give the peak of further models, with other sizes and numbers of layers.
A model type for which it does not is left out; of training in 32 bit and of adapters, only the variant is.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from tools.activations import kernels, models, trials
from tools.activations.store import STORE, measured_with, settle, write
from tools.activations.variants import MODELS, described
from tools.model_shapes import Family, NotDescribed

if TYPE_CHECKING:
    from collections.abc import Sequence


def describe(model_type: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the store says of a model type; variants that are ``known`` stay as they are."""
    family = Family(model_type)
    probes = models.probes(family, MODELS)
    found, errors = dict(known or {}), []
    for variant in models.variants(family):
        if variant.name in found:
            continue
        try:
            found[variant.name] = described(family, variant, probes)
        except Exception as reason:  # noqa: BLE001 - whatever a class raises over a way that it does not know
            errors.append(f"{variant.name}: {type(reason).__name__} {reason}"[:200])
    if any(
        not (variant.adapters or variant.dtype == "fp32" or variant.kernels or variant.name in found)
        for variant in models.variants(family)
    ):
        raise NotDescribed("; ".join(errors))
    for line in errors:
        sys.stderr.write(f"{model_type}, {line}\n")
    facts = models.facts(family) | ({"has_liger": True} if kernels.are_for(model_type) else {})
    return {**facts, "variants": found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure model types; 1 if one of them cannot be described."""
    parser = argparse.ArgumentParser(prog="python -m tools.activations", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="(default: all that the file has)")
    parser.add_argument("--changed", action="store_true", help="only those that hold something else than they did")
    parser.add_argument("--missing", action="store_true", help="only the variants that the file does not have")
    options = parser.parse_args(arguments)
    settle()
    if not (options.changed or kernels.is_installed()):
        parser.error("install liger-kernel and triton, whose kernels are measured, too")
    nothing: dict[str, Any] = {**measured_with(), "models": {}}
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else nothing
    left_out = 0
    for name in options.names or list(store["models"]):
        try:
            if options.changed and trials.hold(name, store["models"][name]):
                continue
            before = store["models"].get(name, {})
            known = before.get("variants") if options.missing else None
            store["models"][name] = describe(name, known) | {key: before[key] for key in ("older",) if key in before}
        except NotDescribed as reason:
            left_out += 1
            store["models"].pop(name, None)
            trials.forget(name)
            sys.stdout.write(f"{name}: left out, {reason}\n")
        else:
            trials.record(name, store["models"][name]["variants"], is_complete=not known)
            sys.stdout.write(f"{name}: {len(store['models'][name]['variants'])} variants\n")
        write(store)  # with the releases of before: an interrupted run is not done
    if not options.names:
        store |= measured_with()
    write(store)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
