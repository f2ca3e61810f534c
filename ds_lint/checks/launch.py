"""Rules about tensor and sequence parallelism: what they demand of the number of ranks, and of each other (DS8xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.batch import DATA, SEQUENCE
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
    """``autotp_size`` above the world size, or no divisor of it."""
    member = config.member(*TENSOR_PARALLEL)
    size = number(member.value.value) if member else None
    ranks = config.world_size
    if member is None or size is None or ranks is None or size <= 1:
        return
    if size > ranks:
        wrong, label = (
            f"needs at least as many, and the run has {ranks}: deepspeed.initialize raises",
            f"more than {ranks}",
        )
    elif ranks % size:
        wrong = f"leaves {ranks % size:g} of the {ranks} ranks of the run over: deepspeed.initialize raises there"
        label = f"does not divide {ranks}"
    else:
        return
    yield Problem(
        TENSOR_PARALLEL,
        member.value.span,
        f"tensor parallelism over {size:g} ranks {wrong}",
        rejected("initialize"),
        help=f"Write a number that divides {ranks}, or start more ranks.",
        label=label,
    )


@rule("DS802", "tensor-parallel-at-stage-3", severity="error", effects=("rejected",), keys=("tensor_parallel",))
def tensor_parallel_at_stage_3(config: Config) -> Iterator[Problem]:
    """AutoTP with partitioned parameters, which DeepSpeed refused for a while."""
    member = config.member(*TENSOR_PARALLEL)
    size = number(member.value.value) if member else None
    if member is None or size is None or size <= 1 or zero_stage(config) != 3:
        return
    if config.knowledge.does("tensor-parallel-refuses-stage-3"):
        stage = config.member("zero_optimization", "stage")
        yield Problem(
            TENSOR_PARALLEL,
            member.value.span,
            f"DeepSpeed {config.knowledge.deepspeed} does not combine AutoTP with ZeRO stage 3: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help="Set `stage` to 2, set `autotp_size` to 0, or upgrade to "
            f"DeepSpeed {config.knowledge.ended('tensor-parallel-refuses-stage-3')}.",
            label="not with stage 3",
            related=[Related(stage.value.span, "stage 3")] if stage else [],
        )


@rule("DS804", "two-tensor-parallel-sizes", severity="error", effects=("rejected",), keys=("tensor_parallel",))
def two_tensor_parallel_sizes(config: Config) -> Iterator[Problem]:
    """``tp.tp_size`` that is not ``autotp_size``.

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
            f"`tp.tp_size` is {size:g}, and `autotp_size` is {wanted:g}: deepspeed.initialize raises",
            rejected("initialize"),
            help="Delete `tp_size`: DeepSpeed sets it to `autotp_size`.",
            label=f"not {wanted:g}",
            related=[Related(autotp.value.span, f"autotp_size {wanted:g}")],
            fix=edits.deletion(config, path, "unsafe"),
        )


@rule("DS805", "tensor-parallel-left-off", severity="warning", effects=("no-effect",), keys=("tensor_parallel",))
def tensor_parallel_left_off(config: Config) -> Iterator[Problem]:
    """Settings of tensor parallelism without ``autotp_size``, which alone switches it on."""
    if tensor_parallel_size(config) > 1:
        return
    is_said = config.member(*TENSOR_PARALLEL) is not None
    path, size = _inner_size(config)
    member = config.member(*path) if size > 1 else None
    if member is None and not is_said:
        for name in _OF_TENSOR_PARALLELISM:
            path = ("tensor_parallel", name)
            if (member := config.member(*path)) is not None and is_truthy(member.value):
                break
    if member is not None and (size > 1 or is_truthy(member.value)):
        yield Problem(
            path,
            member.value.span,
            f"`{'.'.join(path)}` changes nothing: only `tensor_parallel.autotp_size` above 1 switches tensor "
            f"parallelism on, and it is {'not above 1' if is_said else 'not set'}",
            NO_EFFECT,
            help='Set "autotp_size", or delete the key. A script that calls deepspeed.tp_model_init sets it as well.',
            label="off",
        )


_OF_TENSOR_PARALLELISM = ("partition_config", "preset_model", "vocab_parallel_lm_head", "tp_overlap_comm")


@rule("DS806", "unknown-tensor-parallel-preset", severity="warning", effects=("no-effect",), keys=("tensor_parallel",))
def unknown_tensor_parallel_preset(config: Config) -> Iterator[Problem]:
    """A ``preset_model`` for which there is no preset: DeepSpeed goes on as if there was none.

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
            f'there is no preset "{member.value.value}": DeepSpeed partitions the model as without `preset_model`',
            NO_EFFECT,
            help=f"Write one of {', '.join(presets)}, or delete the key.",
            label="no such preset",
        )


@rule(
    "DS807", "sequence-parallel-mesh", severity="error", effects=("rejected", "risk", "ignored"), keys=(SEQUENCE, DATA)
)
def sequence_parallel_mesh(config: Config) -> Iterator[Problem]:
    """Ranks that do not make up a mesh of data-parallel and sequence-parallel groups.

    Sources: ``deepspeed.initialize``, which makes the mesh where both keys stand, and ``DeepSpeedConfig.__init__``,
    which divides the world size by ``sequence_parallel_size`` alone too.
    """
    sequence, data = config.member(SEQUENCE), config.member(DATA)
    if sequence is None and data is not None:
        yield Problem(
            (DATA,),
            data.key_span,
            f"nothing reads `{DATA}`: DeepSpeed makes a mesh of ranks only where `{SEQUENCE}` stands beside it",
            IGNORED,
            help=f"Delete `{DATA}`, or add `{SEQUENCE}`.",
            label="not read",
            severity="warning",
            fix=edits.deletion(config, (DATA,), "safe"),
        )
    ranks, size = config.world_size, _whole(config, SEQUENCE)
    if sequence is None or not ranks or not size:
        return
    others = _whole(config, DATA)
    is_unseen = (
        config.from_file and "deepspeed" in config.stacks and not config.knowledge.does("mesh-is-read-from-files")
    )
    if data is not None and is_unseen:
        return
    if data is not None and others and others * size != ranks:
        yield Problem(
            (DATA,),
            data.value.span,
            f"{others} data-parallel groups of {size} ranks are {others * size} ranks, and the run has {ranks}: "
            f"deepspeed.initialize raises{'' if others * size > ranks else ' on those that are left over'}",
            rejected("initialize"),
            help=f"Write {ranks // size}." if ranks % size == 0 else f"Write sizes whose product is {ranks}.",
            label=f"not {ranks} ranks",
            related=[Related(sequence.value.span, f"x {size}")],
        )
    elif data is None and ranks % size:
        yield Problem(
            (SEQUENCE,),
            sequence.value.span,
            f"{ranks} ranks do not make groups of {size}: DeepSpeed computes batch sizes with "
            f"{ranks / size:.3g} ranks, and what sets up the groups raises",
            RISK,
            help=f"Write a number that divides {ranks}.",
            label=f"does not divide {ranks}",
            severity="warning",
        )


def _whole(config: Config, name: str) -> int | None:
    value = config.value(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _inner_size(config: Config) -> tuple[tuple[str, ...], float]:
    """Where ``tp_size`` stands, under the name of its section or the alias, and what it is; 1 where it is not there."""
    for section in ("tp", "tensor_parallel"):
        path = ("tensor_parallel", section, "tp_size")
        node = config.node(*path)
        if node is not None:
            return path, number_of(node) or 1
    return ("tensor_parallel", "tp", "tp_size"), 1
