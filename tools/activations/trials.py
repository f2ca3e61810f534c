"""Two models of each model type, and the most bytes that a step of them held: whether a release changed any.

What a description consists of depends on the models that it is found with. Found again, it has other moments although
nothing changed, and for some sizes none is found at all. So a new release is measured for the bytes of the same models
first: where they are the same, the description holds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tools.activations import kernels, models
from tools.activations.step import measured
from tools.model_shapes import Family

if TYPE_CHECKING:
    from collections.abc import Iterable

STORE = Path(__file__).parent / "trials.json"
MODELS = 2


def hold(model_type: str, described: dict[str, Any]) -> bool:
    """Whether the models hold what they held, and their class has the same facts; prints what differs."""
    known = _stored().get(model_type, [])
    facts = models.facts(Family(model_type))
    if other := [name for name in facts if facts[name] != described[name]]:
        sys.stdout.write(f"{model_type}: other {', '.join(other)}\n")
        return False
    changed = {
        name
        for trial in known
        for name, peak in _peaks(model_type, _probe(trial), trial["peaks"]).items()
        if peak != trial["peaks"][name] and (kernels.is_installed() or kernels.LIGER not in name.split())
    }
    if changed:
        sys.stdout.write(f"{model_type}: other bytes: {', '.join(sorted(changed))}\n")
    return bool(known) and not changed


def record(model_type: str, variants: Iterable[str], *, is_complete: bool = True) -> None:
    """Write down what the models hold in the installed release; of some variants beside others if not complete."""
    names = list(variants)
    probes = models.probes(Family(model_type), MODELS)
    known = _stored().get(model_type, []) if not is_complete else []
    before = [trial["peaks"] for trial in known] or [{}] * len(probes)
    found = [
        {
            **probe._asdict(),
            "peaks": peaks | _peaks(model_type, probe, [name for name in names if name not in peaks]),
        }
        for probe, peaks in zip(probes, before, strict=True)
    ]
    _write(_stored() | {model_type: found})


def forget(model_type: str) -> None:
    """Drop a model type that has no description."""
    _write({name: trials for name, trials in _stored().items() if name != model_type})


def _peaks(model_type: str, probe: models.Probe, names: Iterable[str]) -> dict[str, int | None]:
    """The peak of each of these variants, in bytes; None where the release cannot train it."""
    family = Family(model_type)
    known = {variant.name: variant for variant in models.variants(family)}
    return {name: _peak(family, probe, known.get(name)) for name in names}


def _peak(family: Family, probe: models.Probe, variant: models.Variant | None) -> int | None:
    if variant is None:
        return None
    torch.manual_seed(0)  # which expert a token chooses depends on the weights
    try:
        return measured(family, probe.of(variant), variant).peak
    except Exception:  # noqa: BLE001 - whatever a class raises over a config or a way that it does not know
        return None


def _probe(trial: dict[str, Any]) -> models.Probe:
    return models.Probe(**{field: trial[field] for field in models.Probe._fields})


def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    return found


def _write(trials: dict[str, Any]) -> None:
    """One line for each model, so that a diff shows which changed."""
    lines = [
        f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(trial)}" for trial in found) + "\n ]"
        for name, found in sorted(trials.items())
    ]
    STORE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8", newline="\n")
