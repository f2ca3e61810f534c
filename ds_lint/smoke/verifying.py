"""What the text asks for against what the ranks saw: one function a property."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ds_lint.facts.smoke import CPU, CUDA, Check, Held
from ds_lint.smoke import schedules
from ds_lint.smoke.asked import BATCH, GATHER, ZERO, Asked, Batch, Promise, ranks_of_a_copy
from ds_lint.spelling import is_comment
from ds_lint.switches import is_on
from ds_lint.tree import dotted

if TYPE_CHECKING:
    from ds_lint.smoke.job import Engine, Evidence, Exported, Job, Parameter

MOST_PERSISTENT = 0.1  # of all elements, above which ZeRO-3 is said to shard little
NEARLY_ALL = 0.5
_GATHER = "Set `zero_optimization.stage3_gather_16bit_weights_on_model_save` to true."
_RECIPE = (
    f"{_GATHER[:-1]}, or recover the weights from the "
    "checkpoint: python zero_to_fp32.py CHECKPOINT_FOLDER OUTPUT_FOLDER (the script lies in the checkpoint)."
)
_IN_ORDER = (
    "zero_to_fp32 takes the partitions in the order of the model, and `round_robin_gradients` deals them out in "
    "another; set that to false."
)
_ADAGRAD = (
    "torch.optim.Adagrad makes its states at once, for the whole model, and the engine keeps them beside those of the "
    "partition; take another optimizer."
)
_WITHOUT_NVME = (
    "The checkpoint lacks what is on NVMe: save the weights with "
    "`zero_optimization.stage3_gather_16bit_weights_on_model_save`."
)
_ROUND_ROBIN = ("zero_optimization", "round_robin_gradients")
_TOLERANCE = 1e-6  # relative, of learning rates
_CLIPPED = 0.02  # relative, of norms: those of 16-bit gradients are rounded
_SUB_GROUP = 1e9  # the default of sub_group_size: deepspeed/runtime/zero/config.py
_SWAPPABLE = 2**20  # bytes, MIN_SWAPPABLE_BYTES in deepspeed/runtime/swap_tensor/utils.py
_FP32 = 4  # bytes of an element


@dataclass
class Runs:
    """All that was seen of one config: the run, the run that resumed from it, and what was saved."""

    job: Job
    adapted: frozenset[str]  # dotted key paths
    train: list[Evidence]
    resumed: list[Evidence] | None
    resume_error: str | None
    exported: Exported | None
    export_error: str | None
    real_shapes: list[int] | None  # elements of the parameters of the user's own model
    real_batch: Batch | None  # of the user's own world, where its size is known
    is_resume_cut_off: bool = False  # by something that says nothing about the config

    @property
    def engine(self) -> Engine:
        """What the engine of rank 0 says."""
        engine = self.train[0].engine
        assert engine is not None  # noqa: S101 - a run that came to its end was looked at
        return engine

    @property
    def world_size(self) -> int:
        """Ranks of the run."""
        return self.job.world_size

    @property
    def steps_made(self) -> int:
        """Steps up to the checkpoint that were not skipped."""
        return sum(not step.is_skipped for step in self.train[0].steps[: self.job.steps])

    def held(self, kind: str) -> list[int]:
        """Elements of a kind by rank."""
        return [one.held.get(kind, Held(0, 0)).elements for one in self.train]


Verify = Callable[[Asked, Runs], Iterator[Check]]


def verify(asked: Asked, runs: Runs) -> list[Check]:
    """Every property that the text promises."""
    return [check for property_ in _PROPERTIES for check in property_(asked, runs)]


def _checked(
    id: str,
    promise: Promise,
    observed: Any,
    is_kept: bool,
    *,
    kept: str,
    broken: str,
    unit: str | None = None,
    bad: str = "fail",
    help: str = "",
    adapted: bool = False,
) -> Check:
    """A check of one promise, with one sentence for either outcome."""
    status, message = ("pass", kept) if is_kept else (bad, broken)
    return Check(id, status, promise.key, promise.value, observed, unit, message, "" if is_kept else help, adapted)


def _spelling(asked: Asked, promise: Promise) -> str:
    """How to write a mistyped key that made a promise."""
    for meant, written in asked.written_as.items():
        if promise.key is not None and (promise.key == written or promise.key.startswith(f"{written}.")):
            return f"Write it as `{meant}{promise.key[len(written) :]}`."
    return ""


def _skipped(id: str, key: str | None, why: str) -> Check:
    return Check(id, "skip", key, None, None, None, why)


# ------------------------------------------------------------------------------------------------------------ sharding


def _stage(asked: Asked, runs: Runs) -> Iterator[Check]:
    promise = asked.stage
    if promise is None:
        yield _skipped("stage", asked.key(ZERO, "stage"), "which stage the text asks for cannot be told")
        return
    stage = runs.engine.stage
    yield _checked(
        "stage",
        promise,
        stage,
        stage == promise.value,
        kept=f"the engine runs ZeRO stage {stage}",
        broken=f"`{promise.key}` asks for ZeRO stage {promise.value}, and the engine runs stage {stage}"
        + (": every rank holds everything" if stage == 0 else ""),
        help=_spelling(asked, promise),
    )


def _sharding(asked: Asked, runs: Runs) -> Iterator[Check]:
    """What each rank holds of parameters, master weights, states and gradients, to the element."""
    promise = asked.stage
    if promise is None or promise.value == 0:
        return
    if runs.world_size == 1:
        verified = "see the run on CPU ranks" if runs.job.mode == CUDA else "sharding was not verified"
        yield _skipped("parameters", promise.key, f"one rank has nobody to share with: {verified}")
        return
    if (copies := ranks_of_a_copy(asked.final)) > 1:
        yield _skipped(
            "parameters", promise.key, f"{copies} ranks share each copy of the model: shares were not counted"
        )
        return
    stage, ranks = promise.value, runs.world_size
    parameters = [parameter for parameter in runs.train[0].parameters if parameter.is_trainable]
    whole = sum(parameter.elements for parameter in runs.train[0].parameters)
    part = partition(parameters, stage, ranks)
    adapted = bool(runs.adapted & {f"{ZERO}.stage3_param_persistence_threshold", f"{ZERO}.param_persistence_threshold"})
    states = asked.states or states_of(runs.train[0]) if runs.steps_made else ()
    expected = promised_shares(asked, runs.train[0].parameters, states, ranks)
    if not runs.steps_made:
        yield _skipped("optimizer-states", promise.key, "no step was made, so there are no states to count")
    if "parameters" not in expected and asked.parameter_offload is not None:
        key = asked.parameter_offload.key
        yield _skipped("parameters", key, "parameters come into memory from NVMe while they are used")
    for kind, elements in expected.items():
        observed = runs.held(kind)
        yield _checked(
            _ID.get(kind, "optimizer-states"),
            Promise([elements] * ranks, promise.key),
            observed,
            all(held == elements for held in observed),
            unit="elements",
            kept=f"each rank holds {elements:,} elements of {kind}"
            + (f", 1/{ranks} of {whole:,}" if elements < whole else ""),
            broken=f"a rank holds {max(observed, default=0):,} elements of {kind}, and stage {stage} on {ranks} ranks "
            f"promises {elements:,} of the model's {whole:,}",
            help=_ADAGRAD if kind == "sum" else "",
            adapted=adapted and kind == "parameters" and stage == 3,
        )
    yield from _gradients(asked, runs, whole, part, expected["master weights"])


_ID = {"parameters": "parameters", "master weights": "master-weights"}


def promised_shares(asked: Asked, parameters: list[Parameter], states: Iterable[str], ranks: int) -> dict[str, int]:
    """Elements of each kind that a rank is to hold in memory at the stage that is asked for, 1 to 3."""
    assert asked.stage is not None  # noqa: S101 - somebody has asked for one
    stage = asked.stage.value
    trainable = [parameter for parameter in parameters if parameter.is_trainable]
    is_swapped = asked.optimizer_offload is not None and asked.optimizer_offload.value == "nvme" and stage == 3
    in_memory = _not_swapped(asked, trainable, ranks) if is_swapped else partition(trainable, stage, ranks)
    whole = sum(parameter.elements for parameter in parameters)
    expected = {"parameters": partition(parameters, stage, ranks) if stage == 3 else whole, "master weights": in_memory}
    if stage == 3 and asked.parameter_offload is not None and asked.parameter_offload.value == "nvme":
        del expected["parameters"]
    return expected | (dict.fromkeys(states, in_memory) if has_plain_states(asked) else {})


def has_plain_states(asked: Asked) -> bool:
    """Whether each state of the optimizer is as large as what it updates; some keep more than that."""
    return not (asked.optimizer or "").lower().startswith(("muon", "onebit", "zeroone"))


def states_of(evidence: Evidence) -> list[str]:
    """The names of what the optimizer keeps."""
    return [kind for kind in evidence.held if kind not in ("parameters", "master weights", "gradients")]


def _not_swapped(asked: Asked, parameters: list[Parameter], ranks: int) -> int:
    """Elements of the shares that stay in memory where the optimizer is on NVMe: those of small groups.

    Sources: ``_create_fp16_sub_groups`` in deepspeed/runtime/zero/stage3.py, ``is_swappable_tensor`` in
    deepspeed/runtime/swap_tensor/optimizer_utils.py.
    """
    most = asked.number(ZERO, "sub_group_size") or _SUB_GROUP
    least = max(_SWAPPABLE, asked.number("aio", "block_size") or 0) / _FP32
    by_group: dict[int, list[int]] = {}
    for parameter in parameters:
        by_group.setdefault(parameter.group, []).append(math.ceil(parameter.elements / ranks))
    return sum(size for shares in by_group.values() for size in _sub_groups(shares, most) if size < least)


def _sub_groups(shares: list[int], most: float) -> Iterator[int]:
    """The sizes of the runs of shares that are worked on together: each ends with the share that reaches the size."""
    size = 0
    for share in shares:
        size += share
        if size >= most:
            yield size
            size = 0
    if size:
        yield size


def _gradients(asked: Asked, runs: Runs, whole: int, part: int, in_memory: int) -> Iterator[Check]:
    """Between two micro steps stage 1 keeps all gradients, stage 2 those of its share, stage 3 its share exactly.

    A parameter that the border between two ranks goes through is kept whole by both of them in stage 2.
    """
    assert asked.stage is not None  # noqa: S101 - asked before
    stage = asked.stage.value
    in_window = [one.held_in_window.elements for one in runs.train if one.held_in_window is not None]
    observed = in_window or runs.held("gradients")
    if stage == 1 and not in_window:
        yield _skipped(
            "gradients", asked.stage.key, "a step of one micro step does not show what stage 1 keeps between"
        )
        return
    most = whole if stage == 1 else part if in_window else in_memory  # at their end they follow the states to NVMe
    if stage == 2 and in_window:
        most += max(parameter.elements for parameter in runs.train[0].parameters)
    is_kept = all(part <= held <= most for held in observed) if stage == 2 else all(held == most for held in observed)
    when = "between two micro steps " if in_window else ""
    promised = f"{'at most ' if stage == 2 and in_window else ''}{most:,}"
    yield _checked(
        "gradients",
        Promise([most] * runs.world_size, asked.stage.key),
        observed,
        is_kept,
        unit="elements",
        kept=f"{when}each rank holds {_range(observed)} elements of gradients"
        + (", all of them, as stage 1 does" if stage == 1 else f", of {whole:,}"),
        broken=f"{when}a rank holds {max(observed, default=0):,} elements of gradients, and stage {stage} promises "
        f"{promised}",
        adapted=bool(in_window) and any(key.endswith("gradient_accumulation_steps") for key in runs.adapted),
    )


def _range(numbers: list[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def partition(parameters: list[Parameter], stage: int, ranks: int) -> int:
    """Elements of a rank's share: stage 3 cuts each parameter, stages 1 and 2 the parameters of a group in a row.

    Sources: ``partition_numel`` in deepspeed/runtime/zero/partition_parameters.py, and the alignment to twice the ranks
    in deepspeed/runtime/zero/stage_1_and_2.py (``nccl_start_alignment_factor``).
    """
    if stage == 3:
        return sum(math.ceil(parameter.elements / ranks) for parameter in parameters)
    groups: dict[int, int] = {}
    for parameter in parameters:
        groups[parameter.group] = groups.get(parameter.group, 0) + parameter.elements
    return sum(2 * math.ceil(elements / (2 * ranks)) for elements in groups.values())


def _persistence(asked: Asked, runs: Runs) -> Iterator[Check]:
    """How much of the user's own model stays whole under the threshold."""
    if asked.stage is None or asked.stage.value != 3:
        return
    threshold = asked.threshold
    key = threshold.key or asked.stage.key
    if runs.real_shapes is None:
        yield _skipped(
            "persistence", key, "which parameters stay whole is judged on the shapes of your model: give --model"
        )
        return
    if threshold.value is None:
        yield _skipped("persistence", key, "the threshold is not known before the run")
        return
    whole = sum(runs.real_shapes)
    kept = persistent(runs.real_shapes, threshold.value, asked.model_threshold)
    share = kept / whole
    bad = "fail" if share > NEARLY_ALL else "warn"
    yield _checked(
        "persistence",
        Promise(f"at most {MOST_PERSISTENT:.0%} of {whole:,}", key),
        kept,
        share <= MOST_PERSISTENT,
        unit="elements",
        bad=bad,
        kept=f"{kept:,} of {whole:,} elements of your model stay whole on every rank ({share:.2%})",
        broken=f"parameters of up to {threshold.value:,} elements stay whole on every rank, which are {kept:,} of "
        f"{whole:,} of your model ({share:.0%}): {'hardly anything' if bad == 'fail' else 'not all of it'} is sharded",
        help="Lower `zero_optimization.stage3_param_persistence_threshold`; 0 shards everything.",
    )


def persistent(shapes: list[int], threshold: int, most: int) -> int:
    """Elements that ZeRO-3 keeps whole.

    Source: ``mark_persistent_parameters`` in deepspeed/runtime/zero/parameter_offload.py.
    """
    kept = 0
    for elements in shapes:
        if elements + kept <= most and elements <= threshold:
            kept += elements
    return kept


def _offload(asked: Asked, runs: Runs) -> Iterator[Check]:
    engine = runs.engine
    for what, promise, observed in (
        ("optimizer", asked.optimizer_offload, engine.offloads_optimizer),
        ("parameters", asked.parameter_offload, engine.offloads_parameters),
    ):
        if promise is None:
            continue
        least = _swapped_bytes(asked, runs) if observed == "nvme" else 0
        swapped = runs.train[0].swapped_bytes
        place = {"cpu": "host memory", "nvme": "NVMe files", None: "the device"}
        yield _checked(
            "offload",
            promise,
            observed,
            observed == promise.value and swapped >= least,
            kept=f"the parameters go to {place[promise.value]}"
            if what == "parameters"
            else f"the optimizer works in {place[promise.value]}"
            + (f" ({swapped:,} bytes)" if observed == "nvme" else ""),
            broken=f"`{promise.key}` asks for {place[promise.value]}, and at stage {engine.stage} the "
            f"{what} {_goes(what, observed)} {place[observed]}"
            if observed != promise.value
            else f"the NVMe files hold {swapped:,} bytes, and what belongs there takes {least:,}",
            help=_spelling(asked, promise) or _offloading_stage(what, promise.value, engine.stage),
            # On a CPU there is one memory only: where the code puts them shows, and not that it is another place.
            adapted=runs.job.mode == CPU,
        )


def _placement(asked: Asked, runs: Runs) -> Iterator[Check]:
    """Where the tensors of an offloaded optimizer are, which only a GPU shows: a CPU has no other place."""
    promise = asked.optimizer_offload
    if runs.job.mode != CUDA or promise is None or promise.value != "cpu" or runs.engine.offloads_optimizer != "cpu":
        return
    devices = runs.train[0].devices
    observed = {kind: devices[kind] for kind in ("master weights", *states_of(runs.train[0])) if devices.get(kind)}
    elsewhere = sorted(kind for kind, found in observed.items() if found != ["cpu"])
    yield _checked(
        "offload",
        promise,
        observed,
        not elsewhere,
        kept=f"the {' and '.join(observed)} of the optimizer are tensors in host memory",
        broken=f"the {' and '.join(elsewhere)} of the optimizer are tensors on the GPU",
    )
    if asked.final.value(ZERO, "offload_optimizer", "pin_memory") is True:
        yield _checked(
            "offload",
            asked.promise(True, ZERO, "offload_optimizer", "pin_memory"),
            runs.engine.is_pinned,
            bool(runs.engine.is_pinned),
            bad="warn",
            kept="the host memory of the optimizer is page-locked",
            broken="none of the host memory of the optimizer is page-locked",
        )


def _offloading_stage(what: str, place: str, stage: int) -> str:
    """The stages that offload it, where another one runs."""
    if stage < 3 and (what == "parameters" or place == "nvme"):
        return f"Set `{ZERO}.stage` to 3, or take the offloading out."
    return f"Set `{ZERO}.stage` to 1, 2 or 3, or take the offloading out." if stage == 0 else ""


def _swapped_bytes(asked: Asked, runs: Runs) -> int:
    """The bytes of weights and states that all ranks together have on NVMe, at the least."""
    everything, ranks = runs.train[0].parameters, runs.world_size
    parameters = [parameter for parameter in everything if parameter.is_trainable]
    optimizer, weights = asked.optimizer_offload, asked.parameter_offload
    swapped = 0
    if optimizer is not None and optimizer.value == "nvme":
        shares = partition(parameters, 3, ranks) - _not_swapped(asked, parameters, ranks)
        swapped += shares * _FP32 * (1 + len(asked.states or ()))
    if weights is not None and weights.value == "nvme":
        size = _FP32 if asked.dtype.value == "float32" else _FP32 // 2
        shares_of_each = (math.ceil(parameter.elements / ranks) * size for parameter in everything)
        swapped += sum(share for share in shares_of_each if share >= _SWAPPABLE)
    return ranks * swapped


def _goes(what: str, place: str | None) -> str:
    """The verb of what is offloaded, or is not."""
    verb = "stay on" if place is None else "go to"
    return verb if what == "parameters" else {"stay on": "stays on", "go to": "goes to"}[verb]


# ----------------------------------------------------------------------------------------------------------- precision


def _dtypes(asked: Asked, runs: Runs) -> Iterator[Check]:
    evidence = runs.train[0]
    for kind, promise in (
        ("parameters", asked.dtype),
        ("master weights", asked.master_dtype),
        ("gradients", asked.accumulation_dtype),
    ):
        observed = evidence.dtypes.get(kind)
        if promise is None or not observed:
            continue
        yield _dtype(asked, kind, promise, observed, "fp16.enabled" in runs.adapted and promise.value == "float16")
    promise = asked.communication_dtype
    if promise is not None:
        yield _dtype(asked, "communication", promise, [runs.engine.communication_dtype], adapted=False)


def _dtype(asked: Asked, kind: str, promise: Promise, observed: list[str], adapted: bool) -> Check:
    what = "gradients are reduced in" if kind == "communication" else f"{kind} are"
    return _checked(
        "dtypes",
        promise,
        observed,
        observed == [promise.value],
        kept=f"{what} {promise.value}",
        broken=f"{what} {' and '.join(observed)}, and the config asks for {promise.value}",
        help=_spelling(asked, promise),
        adapted=adapted,
    )


def _loss(asked: Asked, runs: Runs) -> Iterator[Check]:
    steps = list(zip(*([step.loss for step in one.steps] for one in runs.train), strict=True))  # by step, of each rank
    bad = [loss for step in steps for loss in step if not math.isfinite(loss)][:1]
    number = sum(not all(map(math.isfinite, step)) for step in steps)
    kind = "not a number" if any(map(math.isnan, bad)) else "infinite"
    yield _checked(
        "loss",
        Promise("finite", asked.dtype.key),
        [step[0] for step in steps],
        not bad,
        kept=f"the loss of all {len(steps)} steps is finite",
        broken=f"the loss of {number} of {len(steps)} steps is {kind}",
        help="The model is small and its data are made up, so that the config is to blame: look at the learning rate, "
        "its warm-up, and the precision.",
    )


def _overflow(asked: Asked, runs: Runs) -> Iterator[Check]:
    """A loss scale under which no step is made; a dynamic one comes down by itself."""
    if asked.dtype.value != "float16":
        return
    steps = runs.train[0].steps
    skipped = sum(step.is_skipped for step in steps)
    scales = [step.loss_scale for step in steps]
    key = asked.key("fp16", "loss_scale") if asked.is_loss_scale_static else asked.key("fp16", "initial_scale_power")
    is_static = asked.is_loss_scale_static
    is_broken = skipped > 0 if is_static else skipped == len(steps)
    yield _checked(
        "overflow",
        Promise("steps that are made", key or asked.dtype.key),
        f"{skipped} of {len(steps)} skipped",
        not is_broken,
        unit="steps",
        bad="fail" if is_static else "warn",
        kept=f"{len(steps) - skipped} of {len(steps)} steps were made"
        + (f", the first {skipped} skipped while the loss scale came down" if skipped else ""),
        broken=f"{'all' if skipped == len(steps) else f'{skipped} of'} {len(steps)} steps overflowed and were skipped: "
        "the loss scale "
        + (
            f"stays {_scale(scales[-1])}, so {'none' if skipped == len(steps) else 'not all'} will ever be made"
            if is_static
            else f"came down from {_scale(scales[0])} to {_scale(scales[-1])} and has to come down further"
        ),
        help="Set `fp16.loss_scale` to 0, which adapts it, or to a power of two that the gradients bear."
        if is_static
        else "Set `fp16.initial_scale_power` to 16 or less, and the first steps are made.",
        adapted="fp16.enabled" in runs.adapted,
    )


def _scale(scale: float | None) -> str:
    """A loss scale as people think of it: a power of two."""
    power = math.log2(scale) if scale else 0.5
    return f"2^{power:.0f}" if power.is_integer() else f"{scale or 0:g}"


def _loss_scale(asked: Asked, runs: Runs) -> Iterator[Check]:
    """Gradients are divided by the loss scale, so the loss has to have been multiplied by it."""
    found = runs.train[0].scalings
    if asked.dtype.value != "float16" or not found:
        return
    applied, divisor = found[0]
    key = asked.key("fp16", "loss_scale") if asked.is_loss_scale_static else None
    yield _checked(
        "loss-scale",
        Promise(divisor, key or asked.dtype.key),
        applied,
        _is_scaled(runs),
        kept=f"the loss is scaled by {divisor:g}, and the gradients by as much",
        broken=f"the loss is scaled by {applied:g}, and the gradients are divided by {divisor:g}: they are "
        f"{divisor / applied if applied else math.inf:g} times too small",
        help="DeepSpeed scales the loss from stage 1 on: set `zero_optimization.stage` to 1, or use bf16."
        if runs.engine.stage == 0
        else "",
        adapted="fp16.enabled" in runs.adapted,
    )


def _is_scaled(runs: Runs) -> bool:
    return all(math.isclose(applied, divisor, rel_tol=_CLIPPED) for applied, divisor in runs.train[0].scalings)


# ------------------------------------------------------------------------------------- batch, learning rate, clipping


def _batch(asked: Asked, runs: Runs) -> Iterator[Check]:
    promised = asked.batch(runs.world_size)
    if promised is None:
        return
    observed = _batch_of_a_step(asked, runs)
    keys = [key for name in BATCH if (key := asked.key(name)) is not None]
    key = next((key for key in keys if key in asked.written_as.values()), keys[0] if keys else None)
    real = (
        f"; on your {asked.config.world_size} ranks {_product(runs.real_batch, asked.config.world_size)}"
        if runs.real_batch
        else ""
    )
    yield _checked(
        "batch",
        Promise(promised.train, key),
        observed.train,
        observed == promised,
        unit="samples a step",
        kept=f"a step takes {_product(observed, runs.world_size)} samples{real}",
        broken=f"a step takes {_product(observed, runs.world_size)} samples, and the config asks for "
        f"{_product(promised, runs.world_size)}",
        help=next(filter(None, (_spelling(asked, Promise(None, asked.key(name))) for name in BATCH)), ""),
        adapted=any("batch_size" in key or "accumulation" in key for key in runs.adapted),
    )


def _batch_of_a_step(asked: Asked, runs: Runs) -> Batch:
    """What the model was given for the first step, counted in its forward passes."""
    passes = [one.samples[0] if one.samples else [] for one in runs.train]
    whole = sum(map(sum, passes)) // ranks_of_a_copy(asked.final)
    return Batch(whole, max(passes[0], default=0), len(passes[0]))


def _product(batch: Batch | None, ranks: int | None) -> str:
    if batch is None:
        return ""
    return f"{batch.micro} x {batch.accumulation_steps} micro steps x {ranks} ranks = {batch.train}"


def _rates(asked: Asked, runs: Runs) -> Iterator[Check]:
    """The learning rates of the steps against those that the config, or the training arguments, ask for."""
    steps = runs.train[0].steps
    observed = [step.learning_rates[0] for step in steps]
    if any(step.is_skipped for step in steps):
        key = asked.key("scheduler") or asked.key("optimizer", "params", "lr")
        yield _skipped("learning-rate", key, "the schedule waits while steps are skipped")
        return
    if asked.config.stack == "trainer" and (asked.schedule is None or asked.asks_for_schedule):
        yield from _trainers_rates(asked, observed, runs.adapted)
        return
    if (asked.optimizer or "muon").lower() == "muon":
        return  # the script's own, or one with a rate for each kind of parameter
    rate = asked.rate.value if asked.rate is not None else asked.default_rate
    schedule = asked.schedule
    if schedule is None and asked.rate is None:
        yield Check(
            "learning-rate",
            "warn",
            asked.key("optimizer", "params") or asked.key("optimizer"),
            "a learning rate",
            observed,
            None,
            f"the config names no learning rate for {asked.optimizer}, and the run uses {_listed(observed[:1])}",
            "Set `optimizer.params.lr`.",
        )
        return
    if rate is None:
        return
    expected: list[schedules.Rate] | None = [rate] * len(observed)
    if schedule is not None:
        expected = schedules.rates(*schedule, rate, len(observed), asked.config.knowledge)
    if expected is None:
        return
    promise = Promise(
        [one[0] if isinstance(one, list) else one for one in expected],
        asked.key("scheduler") or asked.key("optimizer", "params", "lr"),
    )
    yield _checked(
        "learning-rate",
        promise,
        observed,
        _are_close(observed, promise.value),
        kept=f"the learning rates are those that the config asks for: {_listed(observed)}",
        broken=f"the config asks for the learning rates {_listed(promise.value)}, and the run has {_listed(observed)}",
    )


def _trainers_rates(asked: Asked, observed: list[float], adapted: frozenset[str]) -> Iterator[Check]:
    """The same where the training arguments ask for a schedule."""
    wanted = asked.trainers_schedule
    expected = schedules.trainer_rates(*wanted, len(observed)) if wanted is not None else None
    if expected is None:
        return
    section = asked.key("scheduler", "type") or asked.key("optimizer", "params", "lr") or asked.key("optimizer")
    help_ = (
        "Remove `scheduler`, so that the Trainer makes its own, or take the schedule out of the training arguments."
        if asked.schedule is not None
        else 'Set `optimizer.params.lr` to "auto".'
    )
    yield _checked(
        "learning-rate",
        Promise(expected, section),
        observed,
        _are_close(observed, expected),
        bad="fail" if asked.asks_for_schedule or asked.argument("learning_rate") is not None else "warn",
        kept=f"the learning rates are those that the training arguments ask for: {_listed(observed)}",
        broken=f"the training arguments ask for the learning rates {_listed(expected)}, and the run has "
        f"{_listed(observed)}",
        help=help_,
        adapted="--num_train_epochs" in adapted,
    )


def _are_close(observed: list[float], expected: list[float]) -> bool:
    return len(observed) == len(expected) and all(
        math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-15)
        for one, other in zip(observed, expected, strict=True)
    )


def _listed(rates: list[float]) -> str:
    return ", ".join(f"{rate:.4g}" for rate in rates)


def _exact(losses: list[float]) -> str:
    """Losses with so many digits that those of other bits look different."""
    return ", ".join(f"{loss:.9g}" for loss in losses)


def _clipping(asked: Asked, runs: Runs) -> Iterator[Check]:
    promise, observed = asked.clipping, runs.engine.clipping
    wrong = _wrongly_clipped(asked, runs, observed if promise is None else promise.value)
    if promise is None and not wrong:
        if observed:
            yield Check(
                "clipping",
                "pass",
                asked.key("gradient_clipping"),
                None,
                observed,
                None,
                f"nobody asks for clipping, and the engine clips gradients to a norm of {observed:g} by default",
            )
        return
    promise = promise or Promise(observed, asked.key("gradient_clipping"))
    yield _checked(
        "clipping",
        promise,
        wrong[0] if wrong and math.isclose(observed, promise.value) else observed,
        math.isclose(observed, promise.value) and not wrong,
        kept=_clipped(observed, max((step.gradient_norm or 0.0 for step in runs.train[0].steps), default=0.0)),
        broken=_misclipped(asked, promise, observed, wrong),
        help='The Trainer clips nothing itself: set `gradient_clipping` to "auto".'
        if asked.argument("max_grad_norm") is not None and promise.key is None
        else _spelling(asked, promise),
    )


def _clipped(norm: float, largest: float) -> str:
    if not norm:
        return "gradients are not clipped"
    return f"gradients are clipped to a norm of {norm:g}" + (
        "" if largest > norm else f"; here none was larger than {largest:.3g}"
    )


def _misclipped(asked: Asked, promise: Promise, norm: float, wrong: list[float]) -> str:
    by = "max_grad_norm" if asked.argument("max_grad_norm") is not None else f"`{promise.key or 'gradient_clipping'}`"
    if wrong and math.isclose(norm, promise.value):
        asks = f"at most {promise.value:g}" if promise.value else "gradients that are not clipped"
        return f"a step was made with a gradient of norm {wrong[0]:.3g}, and {by} asks for {asks}"
    got = f"clipped to a norm of {norm:g}" if norm else "not clipped"
    return f"gradients are {got}, and {by} asks for {promise.value:g}"


def _wrongly_clipped(asked: Asked, runs: Runs, norm: float) -> list[float]:
    """The norms of gradients that steps were made with and that are not what this clipping makes of them.

    Each rank clips its share of the gradients; Muon, the 1-bit optimizers and those of MiCS share them otherwise.
    """
    if (asked.optimizer or "").lower().startswith(("muon", "onebit", "zeroone")) or asked.number(
        ZERO, "mics_shard_size"
    ):
        return []
    if not _is_scaled(runs):
        return []  # all norms are wrong
    # In some releases the optimizer of bf16 shares its work without ZeRO too.
    is_shared = runs.engine.stage > 0 or runs.engine.zero_optimizer == "BF16_Optimizer"
    wrong = []
    made = [step for step in runs.train[0].steps if not step.is_skipped]
    for step, squares in zip(made, zip(*(one.squared_norms for one in runs.train), strict=True), strict=False):
        taken = math.sqrt(sum(squares) if is_shared else squares[0])
        before = step.gradient_norm
        if before is None or not math.isfinite(before):
            continue
        expected = min(before, norm) if norm else before
        if not math.isclose(taken, expected, rel_tol=_CLIPPED, abs_tol=1e-6):
            wrong.append(taken)
    return wrong


# -------------------------------------------------------------------------------------------------- saving and resuming


def _resume(asked: Asked, runs: Runs) -> Iterator[Check]:
    offload = asked.optimizer_offload
    key = offload.key if offload and offload.value == "nvme" else (asked.stage.key if asked.stage else None)
    promise = Promise("every tensor and the next losses, bitwise", key)
    if runs.resumed is None:
        status, what = ("error", "was not seen to") if runs.is_resume_cut_off else ("fail", "cannot")
        yield Check(
            "resume", status, key, promise.value, None, None, f"a fresh process {what} resume: {runs.resume_error}"
        )
        return
    lost = [
        name
        for before, after in zip(runs.train, runs.resumed, strict=True)
        for name, digest in before.fingerprint.items()
        if after.fingerprint.get(name) != digest
    ]
    whole = sum(len(one.fingerprint) for one in runs.train)
    before = [step.loss for step in runs.train[0].steps[runs.job.steps :]]
    after = [step.loss for step in runs.resumed[0].steps]
    are_equal = len(before) == runs.job.steps_after and (before == after or all(map(math.isnan, [*before, *after])))
    rates = [step.learning_rates for step in runs.train[0].steps[runs.job.steps :]]
    resumed_rates = [step.learning_rates for step in runs.resumed[0].steps]
    yield _checked(
        "resume",
        promise,
        f"{whole - len(lost)} of {whole} tensors, losses {_exact(after)} instead of {_exact(before)}",
        not lost and are_equal and rates == resumed_rates,
        unit="tensors",
        kept=f"a fresh process restores all {whole} tensors of the checkpoint and repeats the next "
        f"{len(before)} losses bitwise",
        broken=f"a fresh process restores {whole - len(lost)} of {whole} tensors of the checkpoint"
        + (f" (not {', '.join(sorted(set(lost))[:3])})" if lost else "")
        + ("" if are_equal else ", and its next losses are not those of the run that went on")
        + (
            ""
            if rates == resumed_rates
            else f", and its next learning rates are {_firsts(resumed_rates)}, not {_firsts(rates)}"
        ),
        help=f'DeepSpeed does not put NVMe states back: to resume, set `{ZERO}.offload_optimizer.device` to "cpu".'
        if offload and offload.value == "nvme"
        else "",
    )


def _firsts(rates: list[list[float]]) -> str:
    """Those of the first parameter group."""
    return _listed([of_groups[0] for of_groups in rates])


def _export(asked: Asked, runs: Runs) -> Iterator[Check]:
    stage = asked.stage.value if asked.stage else 0
    of_stage = asked.stage.key if asked.stage else None
    key = of_stage if asked.gathers else asked.key(*GATHER) if asked.is_written(*GATHER) else of_stage
    promise = Promise("from_pretrained loads the live weights", key)
    exported = runs.exported
    if exported is None:
        yield Check(
            "export", "error", key, promise.value, None, None, f"what was saved was not looked at: {runs.export_error}"
        )
        return
    live = runs.train[0].live
    loaded = exported.loaded or {}
    wrong = sorted(name for name, digest in live.items() if loaded.get(name) != digest)
    is_kept = exported.loaded is not None and not wrong and not exported.empty
    yield _checked(
        "export",
        promise,
        _seen(exported, wrong, len(live)),
        is_kept,
        kept=f"the saved model loads with from_pretrained, and all {len(live)} tensors equal the live ones bitwise",
        broken=_nothing_to_load(exported, wrong, stage, len(live)),
        help=_to_save(asked, exported, stage),
    )


def _to_save(asked: Asked, exported: Exported, stage: int) -> str:
    """How to get the weights that were not saved."""
    node = asked.config.written.at((ZERO, "stage"))
    if exported.empty and node is not None and node.kind == "string":
        return f"Write the stage without quotes: Accelerate takes {node.value!r} for no stage 3. {_RECIPE}"
    if asked.gathers:
        return ""
    return _RECIPE if stage == 3 else _GATHER if ranks_of_a_copy(asked.final) > 1 else ""


def _seen(exported: Exported, wrong: list[str], whole: int) -> str:
    if exported.empty:
        return f"{len(exported.empty)} empty tensors"
    return "nothing that loads" if exported.loaded is None else f"{whole - len(wrong)} of {whole} tensors"


def _nothing_to_load(exported: Exported, wrong: list[str], stage: int, whole: int) -> str:
    weights = [name for name in exported.files if name.startswith(("model", "pytorch_model"))]
    if exported.empty:
        return (
            f"the weights file holds {len(exported.empty)} empty tensors ({exported.empty[0]}): the saved model is lost"
        )
    if not weights:
        return (
            f"stage {stage} saves no weights that from_pretrained can load: there is no model.safetensors"
            if stage == 3
            else ("no weights file was saved")
        )
    if exported.loaded is None:
        return f"the saved model does not load: {exported.load_error}"
    made_up = [name for name in wrong if name in exported.missing]
    if made_up:
        return f"{len(made_up)} of {whole} tensors are not in the saved model ({', '.join(made_up[:3])})"
    return f"{len(wrong)} of {whole} tensors of the saved model are not the live ones ({', '.join(wrong[:3])})"


def _recovery(asked: Asked, runs: Runs) -> Iterator[Check]:
    if asked.stage is None or asked.stage.value == 0 or runs.exported is None:
        return
    if not runs.train[0].masters:
        yield _skipped("recovery", asked.stage.key, "the engine showed no fp32 weights to compare with")
        return
    masters, recovered = runs.train[0].masters, runs.exported.recovered
    wrong = [name for name, digest in masters.items() if (recovered or {}).get(name) != digest]
    is_shuffled = is_on(asked.final, *_ROUND_ROBIN)
    offload = asked.optimizer_offload
    is_swapped = offload is not None and offload.value == "nvme" and recovered is None
    culprit = asked.key(*_ROUND_ROBIN) if is_shuffled and wrong else offload.key if offload and is_swapped else None
    yield _checked(
        "recovery",
        Promise("zero_to_fp32 gives the fp32 weights", culprit or asked.stage.key),
        f"{len(masters) - len(wrong)} of {len(masters)} tensors",
        recovered is not None and not wrong,
        unit="tensors",
        kept=f"zero_to_fp32 recovers all {len(masters)} tensors from the checkpoint, bitwise",
        broken=f"zero_to_fp32 recovers {len(masters) - len(wrong)} of {len(masters)} tensors from the checkpoint"
        + (f": {runs.exported.recovery_error}" if runs.exported.recovery_error else ", and other values for the rest"),
        help=_IN_ORDER if is_shuffled else _WITHOUT_NVME if is_swapped else "",
    )


def _keys(asked: Asked, runs: Runs) -> Iterator[Check]:
    """Keys that nothing has read in any part; those that ds-lint knows are read by what this run does not use."""
    unread = set(runs.train[0].unread)
    if runs.resumed is not None:
        unread &= set(runs.resumed[0].unread)
    unknown = {dotted(visit.path): is_comment(visit.member.key) for visit in asked.config.unknown}
    strange = sorted(key for key in unread if unknown.get(key) is False)
    rest = sorted(unread - unknown.keys())
    for key in strange:
        yield Check(
            "keys",
            "warn",
            key,
            "read",
            "never read",
            None,
            f"nothing has read `{key}` during the run",
            "Delete the key, or write the one that is meant.",
        )
    yield Check(
        "keys",
        "pass",
        None,
        "read",
        None if not rest else f"not used in this run: {', '.join(rest)}",
        None,
        "every key was read"
        if not (rest or strange)
        else f"{len(rest)} known {'key was' if len(rest) == 1 else 'keys were'} not used in this run: {', '.join(rest)}"
        if rest
        else "all other keys were read",
    )


_PROPERTIES: tuple[Verify, ...] = (
    _stage,
    _sharding,
    _persistence,
    _offload,
    _placement,
    _dtypes,
    _loss,
    _overflow,
    _loss_scale,
    _batch,
    _rates,
    _clipping,
    _resume,
    _export,
    _recovery,
    _keys,
)
