"""Write ``schemas/forward_activations.json``: what a forward pass without autograd holds beside the parameters.

    python -m tools.activations.forward llama gemma2     # these model types, beside those that the file has
    python -m tools.activations.forward                  # all that the file and ``schemas/activations.json`` have

Run it in an environment that has torch and transformers, on the CPU. The passes are those of an evaluation (with
labels, so the logits of all tokens), of a prompt that is generated from (with a cache, and the logits that ``generate``
asks for), and of one more token behind a cache. They are measured as training steps are (``tools/activations``): the
storages of small models with sizes by chance, as they come and go, and held against further models. For the pass of one
more token, ``token`` stands for a token in the cache before it, and ``sequence`` for the new one of each sequence.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import transformers

from ds_lint.footprint.quantities import KEYS, quantities, sizes
from tools.activations import fit, models
from tools.activations.step import as_on_a_gpu
from tools.activations.store import SCHEMAS, measured_with, settle, write
from tools.activations.timeline import Recorder, Storage, Timeline, on_entry, stacks
from tools.activations.variants import OFF, PROBES, TRIALS, realistic
from tools.model_shapes import Family, NotDescribed

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE, TRAINED = SCHEMAS / "forward_activations.json", SCHEMAS / "activations.json"
_NOT_USED = ("peft", "liger")  # by these passes
PASSES = ("evaluation", "prompt", "token")
LAYERS = models.LAYERS
SIZES = 60  # of models for the choice of the moments that can be the highest, beside realistic ones
SLIGHT = 0.04  # of the peak of a pass of one token
OFF_BEHIND_CACHE = 0.08  # of the peak of a further model, whose cache is a few tokens long


class Way(NamedTuple):
    """One way to run a model: the pass, the kind of attention and the dtype."""

    name: str  # of PASSES
    attention: str
    dtype: str = "bf16"

    @property
    def key(self) -> str:
        """The name in the store."""
        return " ".join(word for word in (self.name, self.attention, "fp32" if self.dtype == "fp32" else "") if word)

    @property
    def variant(self) -> models.Variant:
        """The model for it, as it would be trained."""
        return models.Variant(self.attention, is_checkpointed=False, adapters="", dtype=self.dtype)


class BehindCache(fit.Forms):
    """The forms of a pass of one token: what it computes of a cache has one token more than the cache."""

    def _of(self, sizes: np.ndarray) -> np.ndarray:
        try:
            return super()._of(sizes)
        except fit.NotLinear:
            coefficients = self._of_grown(sizes)
        if coefficients is not None:
            return coefficients
        if (sizes < SLIGHT * self._peaks).all():  # beside a cache of usual length it is nothing
            coefficients = np.zeros(len(self.names))
            coefficients[self.names.index("one")] = sizes.mean()
            return coefficients
        raise fit.NotLinear(f"a storage of {sizes.astype(int).tolist()} bytes")

    def _of_grown(self, sizes: np.ndarray) -> np.ndarray | None:
        """The bytes for each token of the cache and of the pass, of one quantity or of two."""
        names = [name for name in self.names if name.replace("token*", "sequence*") in self.names and "token*" in name]
        places = [[self.names.index(name), self.names.index(name.replace("token*", "sequence*"))] for name in names]
        grown = [self._table[:, both].sum(axis=1) for both in places]
        for count in (1, 2):
            for chosen in itertools.combinations(range(len(names)), count):
                columns = np.stack([grown[one] for one in chosen], axis=1)
                found, *_ = np.linalg.lstsq(columns, sizes, rcond=None)
                if (found > 0).all() and np.abs(columns @ found - sizes).max() < 1e-6 * sizes.max():
                    coefficients = np.zeros(len(self.names))
                    for one, number in zip(chosen, found, strict=True):
                        coefficients[places[one]] = number
                    return coefficients
        return None


def ways(family: Family) -> list[Way]:
    """The ways to run a model type."""
    kinds = models.attentions(family)
    names: tuple[str, ...] = PASSES if family.model_class.can_generate() else PASSES[:1]
    if family.config_class().is_encoder_decoder:  # of which the cache of the source does not grow
        names = PASSES[:2]
    return [Way(name, kind) for name in names for kind in kinds] + [Way(name, kinds[0], "fp32") for name in names]


def counted(sizes_of: dict[str, int], micro_batch: int, length: int) -> dict[str, int]:
    """The quantities of a pass: those of a training step, and those of one token of each sequence."""
    single = quantities(sizes_of, micro_batch, 1)
    return quantities(sizes_of, micro_batch, length) | {
        name.replace("token*", "sequence*"): number for name, number in single.items() if name.startswith("token*")
    }


def measured(family: Family, probe: models.Probe, way: Way, layers: int = LAYERS) -> Timeline:
    """What a pass of a model with so many layers in each stack holds."""
    counts = {key: layers for size in ("layers", "decoder_layers") for key in KEYS[size] if key in probe.config}
    model = models.build(family, probe, way.variant, counts).eval()
    model.config.use_cache = way.name != "evaluation"
    inputs = models.batch(family, probe, way.variant)
    if way.name != "evaluation":
        del inputs["labels"]
    if way.name != "evaluation" and model._supports_logits_to_keep():  # noqa: SLF001 - as generate asks
        inputs["logits_to_keep"] = 1
    start = torch.ones((probe.micro_batch, 1), dtype=torch.long)
    if model.config.is_encoder_decoder and way.name != "evaluation":
        inputs["decoder_input_ids"] = start
    known = [*model.parameters(), *model.buffers(), *(one for one in inputs.values() if torch.is_tensor(one)), start]
    recorder = Recorder(known)
    with as_on_a_gpu(), torch.no_grad(), recorder:
        if way.name != "token":
            entries, hooks = _watched(model, recorder)
            model(**inputs)
            _remove(hooks)
            return Timeline(recorder.storages(), entries, recorder.moments - 1, recorder.moments)
        further = _behind_a_cache(model, inputs, start)
        mark = recorder.moment()
        entries, hooks = _watched(model, recorder)
        model(**further)
        _remove(hooks)
    storages = [
        Storage(one.size, max(one.since - mark, 0), one.until - mark) for one in recorder.storages() if one.until > mark
    ]
    moved = [[moment - mark for moment in stack] for stack in entries]
    return Timeline(storages, moved, recorder.moments - 1 - mark, recorder.moments - mark)


def _behind_a_cache(model: Any, inputs: dict[str, Any], start: torch.Tensor) -> dict[str, Any]:
    """The inputs for a further token, with the cache that a pass over the prompt leaves."""
    further = {"input_ids": start, "past_key_values": model(**inputs).past_key_values}
    if (mask := inputs.get("attention_mask")) is not None:
        further["attention_mask"] = torch.cat([mask, start], dim=1)
    if "logits_to_keep" in inputs:
        further["logits_to_keep"] = 1
    return further


def _watched(model: Any, recorder: Recorder) -> tuple[list[list[int]], list[Any]]:
    layers = stacks(model)
    entries: list[list[int]] = [[] for _ in layers]
    hooks = [
        layer.register_forward_pre_hook(on_entry(recorder, found, len(stack), None))
        for stack, found in zip(layers, entries, strict=True)
        for layer in stack
    ]
    return entries, hooks


def _remove(hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()


def describe(model_type: str) -> dict[str, Any]:
    """What the store says of a model type."""
    family = Family(model_type)
    probes = models.probes(family, PROBES + TRIALS)
    found: dict[str, Any] = {}
    for way in ways(family):
        try:
            found[way.key] = _variant(family, way, probes)
        except Exception as reason:  # noqa: BLE001, PERF203 - whatever a class raises over a way that it does not know
            sys.stderr.write(f"{model_type}, {way.key}: {type(reason).__name__} {reason}\n"[:240])
    usual = models.attentions(family)[0]
    if f"evaluation {usual}" not in found:
        raise NotDescribed("no evaluation with the usual attention")
    slides = windows(family)
    facts = models.facts(family)
    del facts["has_rms_norm"]  # norms differ in what they keep for a backward pass
    return {**facts, **({"windows": slides} if slides is not None else {}), "variants": found}


def windows(family: Family) -> dict[str, Any] | None:
    """Which layers keep a window of tokens alone if the config.json does not say; None if none ever does.

    The cache of transformers is made for configs with some numbers of layers, and asked which of its layers slide.
    """
    usual = family.config_class().to_dict()
    if "sliding_window" not in usual:
        return None
    switch = "use_sliding_window" if "use_sliding_window" in usual else None
    if "max_window_layers" in usual:
        return {"switch": switch, "pattern": None, "window": usual["sliding_window"]}
    if switch is None and usual["sliding_window"] is None and "layer_types" not in usual:
        return {"switch": None, "pattern": [1], "window": None}
    names = [key for key in KEYS["layers"] if key in usual]
    kinds = []
    for layers in (23, 24):
        given = {**dict.fromkeys(names, layers), **({switch: True} if switch else {}), "sliding_window": 64}
        config = family.config_class(**given)
        kinds.append([int(layer.is_sliding) for layer in transformers.DynamicCache(config=config).layers])
    pattern = next(
        (one for size in range(1, 12) if all(_repeats(one := kinds[0][:size], found) for found in kinds)), None
    )
    if pattern is not None and not any(pattern):
        return None
    return {"switch": switch, "pattern": pattern, "window": usual["sliding_window"]}


def _repeats(pattern: list[int], kinds: list[int]) -> bool:
    return all(kind == pattern[place % len(pattern)] for place, kind in enumerate(kinds))


def _variant(family: Family, way: Way, probes: Sequence[models.Probe]) -> dict[str, Any]:
    known = models.defaults(family)
    timelines = [measured(family, probe, way) for probe in probes[:-TRIALS]]
    points = [_counted(probe, known) for probe in probes[:-TRIALS]]
    forms = (BehindCache if way.name == "token" else fit.Forms)(timelines, points)
    if way.name == "token":
        first = forms.at(0)
        layers = [{name: round(held / LAYERS, 3) for name, held in first.items()}]
    else:
        layers = [forms.between(*entries[-2:]) for entries in timelines[0].entries if len(entries) > 1]
    others = [_counted(probe, known) for probe in models.probes(family, SIZES)]
    peaks = forms.highest(timelines[0].left, [*others, *_usual(has_experts="token*chosen" in forms.names)])
    for layer in layers:
        peaks = [fit.difference(peak, {name: LAYERS * held for name, held in layer.items()}) for peak in peaks]
    for probe in probes[-TRIALS:]:
        count = 5 if probe is not probes[-1] else 2
        peak, now = measured(family, probe, way, count).peak, _counted(probe, known)
        expected = max(fit.value(one, now) for one in peaks) + count * sum(fit.value(one, now) for one in layers)
        if abs(expected - peak) > (OFF_BEHIND_CACHE if way.name == "token" else OFF) * peak:
            raise NotDescribed(f"{expected / peak - 1:+.1%} of the peak of a further model")
    return {"layers": layers, "peaks": peaks}


def _counted(probe: models.Probe, known: dict[str, Any]) -> dict[str, int]:
    return counted(sizes(probe.config, known) or {}, probe.micro_batch, probe.sequence_length)


def _usual(*, has_experts: bool) -> list[dict[str, int]]:
    """Realistic sizes, each with one token of every sequence beside."""
    found = []
    for point in realistic(has_experts=has_experts):
        length = point["position"]
        single = {
            name.replace("token*", "sequence*"): number // length
            for name, number in point.items()
            if name.startswith("token*")
        }
        found.append(point | single)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure model types; 1 if one of them cannot be described."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="(default: all that the files have)")
    options = parser.parse_args(arguments)
    settle()
    nothing: dict[str, Any] = {**measured_with(_NOT_USED), "models": {}}
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else nothing
    trained = json.loads(TRAINED.read_text(encoding="utf-8"))["models"]
    left_out = 0
    for name in options.names or sorted({*store["models"], *trained}):
        try:
            store["models"][name] = describe(name)
        except NotDescribed as reason:
            left_out += 1
            store["models"].pop(name, None)
            sys.stdout.write(f"{name}: left out, {reason}\n")
        else:
            sys.stdout.write(f"{name}: {', '.join(store['models'][name]['variants'])}\n")
        sys.stdout.flush()
        write(store, STORE)  # with the releases of before: an interrupted run is not done
    if not options.names:
        store |= measured_with(_NOT_USED)
    write(store, STORE)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
