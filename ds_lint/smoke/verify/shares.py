"""What each rank holds: the stage, its share of the model states, and the parameters that stay whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import CUDA, Check
from ds_lint.semantics.features import is_on
from ds_lint.smoke.expected.expectation import ZERO, Expectation, Requested, ranks_of_a_copy
from ds_lint.smoke.expected.partitions import ALIGNED, Layout, in_partition, partition, touched
from ds_lint.smoke.records.job import FP32, SWAPPABLE
from ds_lint.smoke.verify.check import ObservedRun, ScriptRun, SmallRun, checked, skipped, spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.smoke.records.job import Evidence, TrainedParameter

STATES = "optimizer-states"  # the check of a kind that none of these is about
CHECK_OF = {"parameters": "parameters", "master weights": "master-weights"}
MOST_PERSISTENT = 0.1  # of all elements; above it the check warns
NEARLY_ALL = 0.5
_LARGE = 10**7  # elements; the thresholds are made for models that one GPU cannot hold
_ADAGRAD = (
    "Use another optimizer. torch.optim.Adagrad creates its states at once for the whole model, and the engine keeps "
    "them in addition to those of the partition."
)


def stage(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The ZeRO stage of the engine."""
    requested = expectation.stage
    if requested is None:
        yield skipped("stage", expectation.key(ZERO, "stage"), "the requested ZeRO stage is unknown")
        return
    stage = run.engine.stage
    yield checked(
        "stage",
        requested,
        stage,
        stage == requested.value,
        kept=f"the engine runs ZeRO stage {stage}",
        broken=f"the engine runs ZeRO stage {stage}, but `{requested.key}` asks for stage {requested.value}",
        help=" ".join(
            filter(None, (spelling(expectation, requested), "Every rank holds all model states." * (stage == 0)))
        ),
    )


def sharding(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The exact number of elements of parameters, master weights, states and gradients on each rank."""
    requested = expectation.stage
    if requested is None or requested.value == 0:
        return
    if run.world_size == 1:
        verified = "see the run on CPU ranks" if run.mode == CUDA else "sharding is not checked"
        yield skipped("parameters", requested.key, f"one rank has no other ranks to share with: {verified}")
        return
    if (copies := ranks_of_a_copy(expectation.final)) > 1:
        yield skipped(
            "parameters", requested.key, f"{copies} ranks share each copy of the model, so shares are not checked"
        )
        return
    stage, ranks = requested.value, run.world_size
    whole = sum(parameter.elements for parameter in run.train[0].parameters)
    trained = sum(parameter.elements for parameter in run.train[0].parameters if parameter.is_trainable)
    adapted = bool(run.adapted & {f"{ZERO}.stage3_param_persistence_threshold", f"{ZERO}.param_persistence_threshold"})
    states = expectation.states or states_of(run.train[0]) if run.steps_made else ()
    expected = expected_shares(expectation, run.train[0].parameters, states, ranks)
    if not run.steps_made:
        yield skipped(STATES, requested.key, "DeepSpeed made no step, so there are no states to count")
    kept_whole = whole_in_run(expectation, run.train[0].parameters) if stage == 3 and "parameters" in expected else 0
    if kept_whole and not run.steps_made:
        del expected["parameters"]  # a step that is made gathers those that stay whole
        yield skipped(
            "parameters", requested.key, "DeepSpeed made no step, after which it keeps small parameters whole"
        )
    elif "parameters" not in expected and expectation.parameter_offload is not None:
        key = expectation.parameter_offload.key
        yield skipped("parameters", key, "parameters on NVMe are in memory only while they are used")
    if kept_whole and "parameters" in expected:
        expected["parameters"] += kept_whole
    has_experts = any(one.expert_ranks > 1 for one in run.train[0].parameters)
    part = "" if has_experts else f"1/{ranks} "  # fewer ranks share an expert
    for kind, elements in expected.items():
        observed, most = run.held(kind), whole if kind == "parameters" else trained
        of_all = f"the model's {whole:,}" if most == whole else f"the {most:,} that are trained"
        yield checked(
            CHECK_OF.get(kind, STATES),
            Requested([elements] * ranks, requested.key),
            observed,
            all(held == elements for held in observed),
            unit="elements",
            kept=f"each rank holds {elements:,} elements of {kind}"
            + (f", {part}of {most:,}" if elements < most else ""),
            broken=f"a rank holds {max(observed, default=0):,} elements of {kind}, but its share at stage {stage} on "
            f"{ranks} ranks is {elements:,} of {of_all}",
            help=_ADAGRAD if kind == "sum" else "",
            adapted=adapted and kind == "parameters" and stage == 3,
        )
    yield from _gradients(expectation, run, trained, expected["master weights"])


def untrained(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The parameters of an engine that makes no step, such as a reference model: ZeRO-3 shards them too."""
    requested = expectation.stage
    if requested is None or requested.value != 3 or run.world_size == 1:
        yield skipped("start", None, "the script makes no optimizer step with this engine")
        return
    parameters, observed = run.train[0].parameters, run.held("parameters")
    whole = sum(one.elements for one in parameters)
    share = partition(parameters, 3, run.world_size) + whole_in_run(expectation, parameters)
    yield checked(
        "parameters",
        Requested([share] * run.world_size, requested.key),
        observed,
        all(held <= share for held in observed),
        unit="elements",
        kept=f"each rank holds {max(observed):,} of {whole:,} elements of a model that is not trained",
        broken=f"a rank holds {max(observed):,} elements of a model that is not trained, not its share of {share:,}",
        help=f"At stage 3, each of {run.world_size} ranks holds {share:,} of {whole:,} elements.",
    )


def expected_shares(
    expectation: Expectation, parameters: list[TrainedParameter], states: Iterable[str], ranks: int
) -> dict[str, int]:
    """The elements of each kind that a rank should hold in memory at the requested stage, 1 to 3."""
    assert expectation.stage is not None  # noqa: S101 - a stage was requested
    stage = expectation.stage.value
    trainable = [parameter for parameter in parameters if parameter.is_trainable]
    is_swapped = (
        expectation.optimizer_offload is not None and expectation.optimizer_offload.value == "nvme" and stage == 3
    )
    in_memory = (
        not_swapped(expectation, trainable, ranks)
        if is_swapped
        else partition(trainable, stage, ranks, layout_of(expectation))
    )
    whole = sum(parameter.elements for parameter in parameters)
    expected = {"parameters": partition(parameters, stage, ranks) if stage == 3 else whole, "master weights": in_memory}
    if stage == 3 and expectation.parameter_offload is not None and expectation.parameter_offload.value == "nvme":
        del expected["parameters"]
    return expected | (dict.fromkeys(states, in_memory) if has_plain_states(expectation) else {})


def whole_in_run(expectation: Expectation, parameters: list[TrainedParameter]) -> int:
    """The elements that ZeRO-3 keeps whole in this run, beside the partitions; none of a small model."""
    threshold = expectation.setting("stage3_param_persistence_threshold") or 0
    return persistent([one.elements for one in parameters], int(threshold), expectation.model_threshold)


def has_plain_states(expectation: Expectation) -> bool:
    """Whether each state of the optimizer is as large as what it updates; some optimizers keep more."""
    return not (expectation.optimizer or "").lower().startswith(("muon", "onebit", "zeroone"))


def states_of(evidence: Evidence) -> list[str]:
    """The names of the optimizer states."""
    return [kind for kind in evidence.held if kind not in ("parameters", "master weights", "gradients")]


def not_swapped(expectation: Expectation, parameters: list[TrainedParameter], ranks: int) -> int:
    """Elements of the shares that stay in memory if the optimizer is on NVMe: those of small groups.

    Sources: ``_create_fp16_sub_groups`` in deepspeed/runtime/zero/stage3.py, ``is_swappable_tensor`` in
    deepspeed/runtime/swap_tensor/optimizer_utils.py.
    """
    most = expectation.setting("sub_group_size") or math.inf
    least = max(SWAPPABLE, expectation.number("aio", "block_size") or 0) / FP32
    by_group: dict[int, list[int]] = {}
    for parameter in parameters:
        by_group.setdefault(parameter.group, []).append(math.ceil(parameter.elements / ranks))
    return sum(size for shares in by_group.values() for size in _sub_groups(shares, most) if size < least)


def _sub_groups(shares: list[int], most: float) -> Iterator[int]:
    """The sizes of the sub-groups of shares: each ends with the share that reaches the size."""
    size = 0
    for share in shares:
        size += share
        if size >= most:
            yield size
            size = 0
    if size:
        yield size


def _gradients(expectation: Expectation, run: ObservedRun, whole: int, in_memory: int) -> Iterator[Check]:
    """Between two micro steps stage 1 keeps all gradients, stage 2 those of its share, stage 3 exactly its share."""
    assert expectation.stage is not None  # noqa: S101 - checked before
    stage, ranks = expectation.stage.value, run.world_size
    in_window = [one.held_in_window.elements for one in run.train if one.held_in_window is not None]
    observed = in_window or run.held("gradients")
    batch = expectation.batch(ranks) if isinstance(run, SmallRun) else None
    if not in_window and batch is not None and batch.accumulation_steps > 1:
        yield Check(
            "gradients", "fail", expectation.stage.key, f"{batch.accumulation_steps} micro steps", None, None,
            "no rank holds gradients between two micro steps: the engine makes a step after each micro step",
        )  # fmt: skip
        return
    if stage == 1 and not in_window:
        yield skipped(
            "gradients",
            expectation.stage.key,
            "a step with one micro step does not show the gradients that stage 1 keeps between micro steps",
        )
        return
    # At the end of the step, those of an optimizer on NVMe go there with its states.
    expected = gradients_in_window(expectation, run.train[0].parameters, ranks) if in_window else [in_memory] * ranks
    exact = _exact_share(expectation, run) if in_window and stage == 2 else None
    if in_window and stage == 1 and isinstance(run, ScriptRun):  # what gets no gradient has none to keep
        unused = run.without_gradient
        used = [one for one in run.train[0].parameters if one.name not in unused]
        expected = gradients_in_window(expectation, used, ranks)
    wrong = [pair for pair in zip(observed, expected, strict=True) if pair[0] not in (pair[1], exact)]
    when = "between two micro steps " if in_window else ""
    yield checked(
        "gradients",
        Requested(expected, expectation.stage.key),
        observed,
        not wrong,
        unit="elements",
        kept=f"{when}each rank holds {least_to_most(observed)} elements of gradients"
        + (", which is all of them, as expected at stage 1" if stage == 1 else f", of {whole:,}"),
        broken=f"{when}a rank holds {wrong[0][0]:,} elements of gradients, not {wrong[0][1]:,} as at stage {stage}"
        if wrong
        else "",
        adapted=bool(in_window) and any(key.endswith("gradient_accumulation_steps") for key in run.adapted),
    )


def gradients_in_window(expectation: Expectation, parameters: list[TrainedParameter], ranks: int) -> list[int]:
    """By rank, the elements of the gradients between two micro steps.

    At stage 2, a parameter that crosses a border of shares has its whole gradient on each of its ranks
    (``get_all_grad_tensors`` in deepspeed/runtime/zero/stage_1_and_2.py), except in two cases: gradients in fp32 of
    16-bit weights are accumulated in a tensor of the share (``_use_compact_grad_partition_buffer``), and 16-bit master
    weights in host memory have only the gradients of what they update (``async_accumulate_grad_in_cpu_via_gpu``).
    """
    assert expectation.stage is not None  # noqa: S101 - checked before
    stage, layout = expectation.stage.value, layout_of(expectation)
    trainable = [parameter for parameter in parameters if parameter.is_trainable]
    if stage == 1:
        return [sum(parameter.elements for parameter in trainable)] * ranks
    if stage == 3:
        return [partition(trainable, stage, ranks)] * ranks
    if expectation.optimizer_offload is not None and expectation.master_dtype.value != "float32":
        return in_partition(trainable, ranks, layout)
    if expectation.optimizer_offload is None and _accumulates_apart(expectation):
        return [partition(trainable, stage, ranks, layout)] * ranks
    return touched(trainable, ranks, layout)


def _exact_share(expectation: Expectation, run: ObservedRun) -> int:
    """The elements of a share of stage 2, which is all that releases such as 0.16.9 keep (``get_flat_partition``)."""
    trainable = [parameter for parameter in run.train[0].parameters if parameter.is_trainable]
    return partition(trainable, 2, run.world_size, layout_of(expectation))


def _accumulates_apart(expectation: Expectation) -> bool:
    """Whether gradients are accumulated in fp32, but the weights are in 16 bits."""
    wanted = expectation.accumulation_dtype
    return wanted is not None and wanted.value == "float32" != expectation.dtype.value


def layout_of(expectation: Expectation) -> Layout:
    """The layout of the flat tensors of stages 1 and 2; BF16_Optimizer (stage 1 with fp32 gradients) aligns nothing."""
    size = 4 if expectation.dtype.value == "float32" else 2
    is_plain = expectation.stage is not None and expectation.stage.value == 1 and _accumulates_apart(expectation)
    is_aligned = is_on(expectation.final, ZERO, "parameter_alignment") and not is_plain
    return Layout(ALIGNED // size if is_aligned else 1, is_on(expectation.final, ZERO, "round_robin_gradients"))


def least_to_most(numbers: list[int]) -> str:
    """Elements by rank, in words."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def persistence(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """How much of the user's model stays whole below the threshold."""
    if expectation.stage is None or expectation.stage.value != 3:
        return
    threshold = expectation.threshold
    key = threshold.key or expectation.stage.key
    if isinstance(run.real_shapes, str):
        yield skipped("persistence", key, run.real_shapes)
        return
    if threshold.value is None:
        yield skipped("persistence", key, "the threshold is unknown before the run")
        return
    whole = sum(run.real_shapes)
    kept = persistent(run.real_shapes, threshold.value, expectation.model_threshold)
    if isinstance(run, ScriptRun) and kept and whole < _LARGE:
        why = f"{kept:,} of the {whole:,} elements of the model stay whole below the threshold of {threshold.value:,}"
        yield skipped("persistence", key, f"{why}: the model is too small to show what the threshold does")
        return
    share = kept / whole
    bad = "fail" if share > NEARLY_ALL else "warn"
    yield checked(
        "persistence",
        Requested(f"at most {MOST_PERSISTENT:.0%} of {whole:,}", key),
        kept,
        share <= MOST_PERSISTENT,
        unit="elements",
        bad=bad,
        kept=f"{kept:,} of {whole:,} elements of your model stay whole on every rank ({share:.2%})",
        broken=f"parameters of up to {threshold.value:,} elements stay whole on every rank: {kept:,} of {whole:,} "
        f"({share:.0%})",
        help="Lower `zero_optimization.stage3_param_persistence_threshold`; 0 shards everything. ZeRO shards "
        f"{'little' if bad == 'fail' else 'only a part'} of your model.",
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
