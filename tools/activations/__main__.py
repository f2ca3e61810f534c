"""Write ``schemas/activations.json``: what a training step of a model type holds beside the model states.

    python -m tools.activations llama mixtral t5      # these model types, beside those that the file has
    python -m tools.activations --changed             # those of the file that hold something else in this release
    python -m tools.activations                       # all that the file has, again

Run it in an environment that has torch, transformers, peft, Liger and Triton, on the CPU. For each model type and
each way to train, small models with sizes by chance take one step each, and every storage is noted as it comes and
goes. What is live at each moment of the step is a sum of bytes for each of the quantities of
``ds_lint/memory/quantities.py``; the moments that are the highest for some realistic size are written, and what a
further layer adds. What is found has to give the
peak of further models, with other sizes and numbers of layers. A model type for which it does not is left out; of
training in 32 bit and of adapters, only the variant is.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import logging
import random
import re
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peft
import torch
import transformers

from ds_lint.memory.quantities import quantities
from tools.activations import fit, kernels, models, trials
from tools.activations.step import measured
from tools.model_shapes import Family, NotDescribed

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE = Path(__file__).parents[2] / "schemas" / "activations.json"
PROBES, TRIALS = 5, 2
OFF = 0.03  # of the peak of a further model


def describe(model_type: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the store says of a model type; variants that are ``known`` stay as they are."""
    family = Family(model_type)
    probes = models.probes(family, PROBES + TRIALS)
    found, errors = dict(known or {}), []
    for variant in models.variants(family):
        if variant.name in found:
            continue
        try:
            found[variant.name] = _variant(family, variant, probes)
        except Exception as reason:  # noqa: BLE001 - whatever a class raises over a way that it does not know
            errors.append(f"{variant.name}: {type(reason).__name__} {reason}"[:200])
    if any(
        not (variant.adapters or variant.dtype == "fp32" or variant.kernels or variant.name in found)
        for variant in models.variants(family)
    ):
        raise NotDescribed("; ".join(errors))
    for line in errors:
        sys.stderr.write(f"{model_type}, {line}\n")
    return {**models.facts(family), "variants": found}


def _variant(family: Family, variant: models.Variant, probes: Sequence[models.Probe]) -> dict[str, Any]:
    known = models.defaults(family)
    probes = [probe.of(variant) for probe in probes]
    timelines = [measured(family, probe, variant) for probe in probes[:-TRIALS]]
    sizes = [probe.quantities(known) for probe in probes[:-TRIALS]]
    forms = fit.Forms(timelines, sizes)
    layers = [forms.between(*entries[-2:]) for entries in timelines[0].entries]
    peaks = forms.highest(timelines[0].left, [*sizes, *_realistic(has_experts="token*chosen" in forms.names)])
    for layer in layers:
        peaks = [fit.difference(peak, {name: models.LAYERS * held for name, held in layer.items()}) for peak in peaks]
    for probe in probes[-TRIALS:]:
        count = 5 if probe is not probes[-1] else 2
        peak = measured(family, probe, variant, count).peak
        now = probe.quantities(known)
        expected = max(fit.value(one, now) for one in peaks) + count * sum(fit.value(one, now) for one in layers)
        if abs(expected - peak) > OFF * peak:
            raise NotDescribed(f"{expected / peak - 1:+.1%} of the peak of a further model")
    return {"layers": layers, "peaks": peaks}


def _realistic(*, has_experts: bool) -> list[dict[str, int]]:
    """Sizes as models have them, for the choice of the moments that can be the highest."""
    dice = random.Random(0)  # noqa: S311 - sizes to try
    found = []
    for _ in range(600):
        hidden = dice.choice([512, 768, 1024, 2048, 3072, 4096, 5120, 8192])
        heads = hidden // dice.choice([64, 128]) if dice.random() < 0.8 else 16
        given = {
            "hidden": hidden,
            "intermediate": int(hidden * dice.uniform(1.3, 6)),
            "vocabulary": dice.choice([30000, 50000, 100000, 152000, 260000]),
            "heads": heads,
            "key_value_heads": max(1, heads // dice.choice([1, 2, 4, 8])),
            "head_dim": dice.choice([64, 96, 128, 256]),
            "key_value_rank": 512,
            "query_rank": 1536,
            "plain_head": 128,
            "rotary_head": 64,
            "value_head": 128,
        }
        if has_experts:
            given |= {
                "experts": dice.choice([8, 16, 64, 128, 256]),
                "chosen": dice.choice([1, 2, 4, 6, 8]),
                "expert_intermediate": int(hidden * dice.uniform(0.25, 3.5)),
                "shared_intermediate": int(hidden * dice.uniform(0.0, 2)),
            }
        found.append(
            quantities(given, dice.choice([1, 2, 4, 16]), dice.choice([256, 1024, 4096, 16384]), dice.choice([8, 64]))
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure model types; 1 if one of them cannot be described."""
    parser = argparse.ArgumentParser(prog="python -m tools.activations", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="(default: all that the file has)")
    parser.add_argument("--changed", action="store_true", help="only those that hold something else than they did")
    parser.add_argument("--missing", action="store_true", help="only the variants that the file does not have")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not (options.changed or kernels.is_installed()):
        parser.error("install liger-kernel and triton, whose kernels are measured, too")
    nothing: dict[str, Any] = {**_measured_with(), "models": {}}
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else nothing
    left_out = 0
    for name in options.names or list(store["models"]):
        try:
            if options.changed and trials.hold(name, store["models"][name]):
                continue
            known = store["models"][name]["variants"] if options.missing and name in store["models"] else None
            store["models"][name] = describe(name, known)
        except NotDescribed as reason:
            left_out += 1
            store["models"].pop(name, None)
            trials.forget(name)
            sys.stdout.write(f"{name}: left out, {reason}\n")
        else:
            trials.record(name, store["models"][name]["variants"], is_complete=not known)
            sys.stdout.write(f"{name}: {len(store['models'][name]['variants'])} variants\n")
        _write(store)  # with the releases of before: an interrupted run is not done
    if not options.names:
        store |= _measured_with()
    _write(store)
    return 1 if left_out else 0


def _measured_with() -> dict[str, str]:
    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
        "peft": peft.__version__,
        **({"liger": metadata.version("liger-kernel")} if kernels.is_installed() else {}),
        "measured": dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
    }


def _write(store: dict[str, Any]) -> None:
    """The store with one line for each sum."""
    store["models"] = dict(sorted(store["models"].items()))
    text = json.dumps(store, indent=1)
    text = re.sub(r"\n {6,}(?=\S)|\n {5}(?=[\]}])", " ", text)
    STORE.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
