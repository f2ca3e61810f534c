"""Add to ``schemas/activations.json`` what an older release of transformers holds otherwise than newer ones.

    python -m tools.activations.releases --before 4.47.1 llama mistral    # these model types
    python -m tools.activations.releases --before 4.47.1                  # all that the file has

Run it in an environment of the older release, and with the newest of them first: ``--before`` is the release measured
before, up to which nothing else is known. Small models take a step each; a way to train that holds something else than
the file says is described again and written beside the newest, for all releases before that one.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

import transformers

from ds_lint.footprint.activations import variants
from tools.activations import fit, models
from tools.activations.step import measured
from tools.activations.store import STORE, settle, write
from tools.activations.variants import MODELS, OFF, described
from tools.model_shapes import Family, NotDescribed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.knowledge.records import ActivationVariant


def held_otherwise(model_type: str, known: dict[str, Any]) -> dict[str, Any]:
    """The variants of a model type that hold something else in the installed release than is known."""
    family = Family(model_type)
    probes = models.probes(family, MODELS)
    now = variants(known, transformers.__version__)  # type: ignore[arg-type]
    found = {}
    for variant in _variants(family):
        if variant.name in now and not _holds(family, variant, probes[-2:], now[variant.name]):
            found[variant.name] = described(family, variant, probes)
    return found


def _variants(family: Family) -> list[models.Variant]:
    try:
        every = models.variants(family)
    except ImportError:  # peft is too new for the release
        return models.plain_variants(family)
    return [variant for variant in every if not variant.kernels]


def _holds(family: Family, variant: models.Variant, probes: Sequence[models.Probe], known: ActivationVariant) -> bool:
    """Whether what is known gives the peaks of models of the installed release."""
    for probe in probes:
        peak = measured(family, probe, variant).peak
        now = probe.quantities(models.defaults(family))
        expected = max(fit.value(form, now) for form in known["peaks"])
        expected += models.LAYERS * sum(fit.value(form, now) for form in known["layers"])
        if abs(expected - peak) > OFF * peak:
            sys.stdout.write(f"{family.model_type}, {variant.name}: {peak / expected - 1:+.1%}\n")
            return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure model types in the installed release."""
    parser = argparse.ArgumentParser(prog="python -m tools.activations.releases", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="(default: all that the file has)")
    parser.add_argument("--before", required=True, metavar="RELEASE", help="the next newer release that was measured")
    options = parser.parse_args(arguments)
    settle()
    for name in options.names or json.loads(STORE.read_text(encoding="utf-8"))["models"]:
        store = json.loads(STORE.read_text(encoding="utf-8"))
        known = store["models"][name]
        try:
            found = held_otherwise(name, known)
        except (NotDescribed, fit.NotLinear, AttributeError, ImportError, ValueError, TypeError) as reason:
            sys.stdout.write(f"{name}: {type(reason).__name__} {str(reason)[:100]}\n")
            continue
        if found:
            others = [one for one in known.get("older", ()) if one["before"] != options.before]
            known["older"] = [*others, {"before": options.before, "variants": found}]
            write(store)
        sys.stdout.write(f"{name}: {len(found)} variants hold something else in {transformers.__version__}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
