"""One way to train a model type, as sums of bytes that hold for models of every size."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ds_lint.footprint.quantities import quantities
from tools.activations import fit, models
from tools.activations.step import measured
from tools.model_shapes import Family, NotDescribed

if TYPE_CHECKING:
    from collections.abc import Sequence

PROBES, TRIALS = 5, 2
MODELS = PROBES + TRIALS
OFF = 0.03  # of the peak of a further model


def described(family: Family, variant: models.Variant, probes: Sequence[models.Probe]) -> dict[str, Any]:
    """What each layer adds, and the highest moments, of ``MODELS`` models; raises NotDescribed."""
    known = models.defaults(family)
    probes = [probe.of(variant) for probe in probes]
    timelines = [measured(family, probe, variant) for probe in probes[:-TRIALS]]
    sizes = [probe.quantities(known) for probe in probes[:-TRIALS]]
    forms = fit.Forms(timelines, sizes)
    layers = [forms.between(*entries[-2:]) for entries in timelines[0].entries]
    peaks = forms.highest(timelines[0].left, [*sizes, *realistic(has_experts="token*chosen" in forms.names)])
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


def realistic(*, has_experts: bool) -> list[dict[str, int]]:
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
