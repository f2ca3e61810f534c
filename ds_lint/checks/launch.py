"""Rules about tensor and sequence parallelism, their group sizes and the world size (DS8xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.batch import DATA, SEQUENCE, sequence_parallel_ranks
from ds_lint.semantics.features import is_truthy, number, number_of, tensor_parallel_size, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

TENSOR_PARALLEL = ("tensor_parallel", "autotp_size")


@rule(
    "DS801", "more-tensor-parallel-ranks-than-ranks", severity="error", effects=("rejected",), keys=("tensor_parallel",)
)
def more_tensor_parallel_ranks_than_ranks(config: Config) -> Iterator[Problem]:
    """``autotp_size`` that is larger than the world size or does not divide it."""
    member = config.member(*TENSOR_PARALLEL)
    size = number(member.value.value) if member else None
    ranks = config.world_size
    if member is None or size is None or ranks is None or size <= 1:
        return
    if size > ranks:
        wrong, label = (
            f"is larger than the world size {ranks}: deepspeed.initialize raises",
            f"more than {ranks}",
        )
    elif ranks % size:
        wrong = f"does not divide the {ranks} ranks: deepspeed.initialize raises on {ranks % size:g} of them"
        label = f"does not divide {ranks}"
    else:
        return
    yield Problem(
        TENSOR_PARALLEL,
        member.value.span,
        f"`tensor_parallel.autotp_size` is {size:g}, which {wrong}",
        rejected("initialize"),
        help=f"Set `autotp_size` to a divisor of {ranks}, or start more ranks.",
        label=label,
        subject=ranks,
    )


@rule("DS802", "tensor-parallel-at-stage-3", severity="error", effects=("rejected",), keys=("tensor_parallel",))
def tensor_parallel_at_stage_3(config: Config) -> Iterator[Problem]:
    """AutoTP with partitioned parameters, which DeepSpeed rejects in a range of releases."""
    member = config.member(*TENSOR_PARALLEL)
    size = number(member.value.value) if member else None
    if member is None or size is None or size <= 1 or zero_stage(config) != 3:
        return
    if config.knowledge.does("tensor-parallel-refuses-stage-3"):
        stage = config.member("zero_optimization", "stage")
        yield Problem(
            TENSOR_PARALLEL,
            member.value.span,
            f"DeepSpeed {config.knowledge.deepspeed} does not support tensor parallelism with ZeRO stage 3: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help="Set `stage` to 2, set `autotp_size` to 0, or upgrade to "
            f"DeepSpeed {config.knowledge.ended('tensor-parallel-refuses-stage-3')}.",
            label="not supported with stage 3",
            related=[Related(stage.value.span, "stage 3")] if stage else [],
        )


@rule("DS804", "two-tensor-parallel-sizes", severity="error", effects=("rejected",), keys=("tensor_parallel",))
def two_tensor_parallel_sizes(config: Config) -> Iterator[Problem]:
    """``tp.tp_size`` that differs from ``autotp_size``.

    Source: ``_apply_autotp_partitioning`` in ``deepspeed/runtime/engine.py``.
    """
    path, size = _inner_size(config)
    member = config.member(*path)
    autotp = config.member(*TENSOR_PARALLEL)
    wanted = tensor_parallel_size(config)
    if member is None or autotp is None or wanted <= 1 or size in (1, wanted):
        return
    if config.knowledge.does("tensor-parallel-sizes-must-agree"):
        yield Problem(
            path,
            member.value.span,
            f"`tp.tp_size` is {size:g}, but `autotp_size` is {wanted:g}: deepspeed.initialize raises",
            rejected("initialize"),
            help="Delete `tp_size`. DeepSpeed sets it to `autotp_size`.",
            label=f"not {wanted:g}",
            related=[Related(autotp.value.span, f"autotp_size {wanted:g}")],
            fix=edits.deletion(config, path, "unsafe"),
        )


@rule("DS805", "tensor-parallel-left-off", severity="warning", effects=("no-effect",), keys=("tensor_parallel",))
def tensor_parallel_left_off(config: Config) -> Iterator[Problem]:
    """Settings of tensor parallelism without ``autotp_size``, the only key that enables it."""
    if tensor_parallel_size(config) > 1:
        return
    is_set = config.member(*TENSOR_PARALLEL) is not None
    path, size = _inner_size(config)
    member = config.member(*path) if size > 1 else None
    if member is None and not is_set:
        for name in _OF_TENSOR_PARALLELISM:
            path = ("tensor_parallel", name)
            if (member := config.member(*path)) is not None and is_truthy(member.value):
                break
    if member is not None and (size > 1 or is_truthy(member.value)):
        yield Problem(
            path,
            member.value.span,
            f"`{'.'.join(path)}` has no effect: `tensor_parallel.autotp_size` is "
            f"{'not above 1' if is_set else 'not set'}, so tensor parallelism is off",
            NO_EFFECT,
            help="Set `autotp_size` above 1, or delete the key. deepspeed.tp_model_init in a script sets it too.",
            label="off",
        )


_OF_TENSOR_PARALLELISM = ("partition_config", "preset_model", "vocab_parallel_lm_head", "tp_overlap_comm")


@rule("DS806", "unknown-tensor-parallel-preset", severity="warning", effects=("no-effect",), keys=("tensor_parallel",))
def unknown_tensor_parallel_preset(config: Config) -> Iterator[Problem]:
    """A ``preset_model`` for which DeepSpeed has no preset, so that it ignores the value.

    Source: ``AutoTPPresets.get_preset`` in ``deepspeed/module_inject/autotp_config.py``.
    """
    path = ("tensor_parallel", "preset_model")
    member, key = config.member(*path), config.knowledge.find(path)
    if member is None or key is None or member.value.kind != "string" or tensor_parallel_size(config) <= 1:
        return
    presets = key.facts["presets"]
    if member.value.value and str(member.value.value).lower() not in presets:
        yield Problem(
            path,
            member.value.span,
            f'unknown preset "{member.value.value}": DeepSpeed silently ignores it and partitions without a preset',
            NO_EFFECT,
            help=f"Set it to one of {', '.join(presets)}, or delete the key.",
            label="unknown preset",
        )


@rule(
    "DS807", "sequence-parallel-mesh", severity="error", effects=("rejected", "risk", "ignored"), keys=(SEQUENCE, DATA)
)
def sequence_parallel_mesh(config: Config) -> Iterator[Problem]:
    """Sizes of data-parallel and sequence-parallel groups that do not match the world size.

    Sources: ``deepspeed.initialize``, which creates the mesh if both keys are set, and ``DeepSpeedConfig.__init__``,
    which divides the world size by ``sequence_parallel_size``, even if that is the only key.
    """
    sequence, data = config.member(SEQUENCE), config.member(DATA)
    if sequence is None and data is not None:
        yield Problem(
            (DATA,),
            data.key_span,
            f"DeepSpeed ignores `{DATA}` without `{SEQUENCE}`: it creates a mesh only if both are set",
            IGNORED,
            help=f"Delete `{DATA}`, or add `{SEQUENCE}`.",
            label="ignored",
            severity="warning",
            fix=edits.deletion(config, (DATA,), "safe"),
        )
    ranks, size = config.world_size, _whole(config, SEQUENCE)
    if sequence is None or not ranks or not size:
        return
    others = _whole(config, DATA)
    is_path = config.from_file and "deepspeed" in config.stacks  # plain DeepSpeed gets the path, the others a dict
    if data is not None and is_path and not config.knowledge.does("mesh-is-read-from-files"):
        return
    if data is not None and others and others * size != ranks:
        yield Problem(
            (DATA,),
            data.value.span,
            f"`{DATA}` {others} x `{SEQUENCE}` {size} = {others * size}, but the world size is {ranks}: "
            f"deepspeed.initialize raises{'' if others * size > ranks else ' on the ranks outside the mesh'}",
            rejected("initialize"),
            help=f"Set `{DATA}` to {ranks // size}." if ranks % size == 0 else f"Set sizes whose product is {ranks}.",
            label=f"not {ranks} ranks",
            related=[Related(sequence.value.span, f"x {size}")],
            subject=ranks,
        )
    elif data is None and ranks % size and sequence_parallel_ranks(config, from_file=is_path):
        yield Problem(
            (SEQUENCE,),
            sequence.value.span,
            f"`{SEQUENCE}` {size} does not divide the world size {ranks}: the code that creates the groups raises",
            RISK,
            help=f"Set `{SEQUENCE}` to a divisor of {ranks}. DeepSpeed computes batch sizes for {ranks / size:.3g} "
            "ranks.",
            label=f"does not divide {ranks}",
            severity="warning",
            subject=ranks,
        )


def _whole(config: Config, name: str) -> int | None:
    value = config.value(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _inner_size(config: Config) -> tuple[tuple[str, ...], float]:
    """The path of ``tp_size``, under the name of its section or the alias, and its value; 1 if it is not set."""
    for section in ("tp", "tensor_parallel"):
        path = ("tensor_parallel", section, "tp_size")
        node = config.node(*path)
        if node is not None:
            return path, number_of(node) or 1
    return ("tensor_parallel", "tp", "tp_size"), 1
