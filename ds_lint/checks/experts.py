"""Rules about expert parallelism (AutoEP): the world size that it needs, and what it conflicts with (DS8xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.features import is_on, is_truthy, number, number_of, tensor_parallel_size, zero_stage
from ds_lint.semantics.related import beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath

    # The key at fault, what is wrong, when, and what to write.
    Conflict = tuple[KeyPath, str, Callable[[Config], bool], str]

SECTION = "expert_parallel"
ZERO = "zero_optimization"
SIZE = (SECTION, "autoep_size")


@rule("DS808", "experts-do-not-divide-the-ranks", severity="error", effects=("rejected",), keys=(SECTION,))
def experts_do_not_divide_the_ranks(config: Config) -> Iterator[Problem]:
    """``autoep_size`` that does not divide the world size.

    Source: ``build_folding_spec`` in ``deepspeed/module_inject/auto_ep_folding.py``.
    """
    member = config.member(*SIZE)
    ranks, size = config.world_size, _ranks_that_share_experts(config)
    if member is not None and _is_enabled(config) and ranks and size >= 1 and ranks % size:
        yield Problem(
            SIZE,
            member.value.span,
            f"`{SECTION}.autoep_size` is {size:g}, which does not divide the world size {ranks}: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help=f"Set `autoep_size` to a divisor of {ranks}, or start more ranks.",
            label=f"does not divide {ranks}",
            subject=ranks,
        )


@rule("DS809", "expert-parallel-conflict", severity="error", effects=("rejected",), keys=(SECTION,))
def expert_parallel_conflict(config: Config) -> Iterator[Problem]:
    """Settings that expert parallelism rejects together; DeepSpeed names the first of them, this rule names all.

    Sources: ``validate_autoep_config`` in ``deepspeed/module_inject/auto_ep_config.py``, ``validate_folding_global`` in
    ``auto_ep_folding.py`` next to it, and ``_validate_zero3_moe_compatibility`` in ``deepspeed/runtime/engine.py``.
    """
    if not _is_enabled(config):
        return
    for path, words, is_so, instead in (*_OF_THE_SECTION, *_OF_TENSOR_PARALLELISM, *_OF_STAGE_3):
        member = config.member(*path)
        if member is not None and is_so(config):
            yield Problem(
                path,
                member.value.span if path != (SECTION,) else member.key_span,
                f"expert parallelism {words}: deepspeed.initialize raises",
                rejected("initialize"),
                help=instead,
                label="conflicts with expert parallelism" if path[0] != SECTION else "rejected",
                related=beside(config, ZERO, "stage") if path[0] == ZERO else [],
            )


@rule("DS810", "expert-parallel-key-without-effect", severity="warning", effects=("no-effect",), keys=(SECTION,))
def expert_parallel_key_without_effect(config: Config) -> Iterator[Problem]:
    """Keys of AutoEP that DeepSpeed uses only if another key is set.

    Sources: ``validate_autoep_config`` in ``deepspeed/module_inject/auto_ep_config.py``, which warns of some, and
    ``AutoEPMoELayer`` in ``auto_ep_layer.py`` next to it, which passes the sizes of buffers to DeepEP only.
    """
    for name, other, is_so in _WITHOUT_EFFECT if _is_enabled(config) else ():
        member = config.member(SECTION, name)
        if member is not None and is_truthy(member.value) and is_so(config):
            yield Problem(
                (SECTION, name),
                member.value.span,
                f"`{SECTION}.{name}` has no effect: DeepSpeed uses it only with {other}",
                NO_EFFECT,
                help=f"Set {other}, or delete `{name}`.",
                label="no effect",
            )


def _is_enabled(config: Config) -> bool:
    return is_truthy(config.node(SECTION, "enabled"))


def _ranks_that_share_experts(config: Config) -> float:
    node = config.node(*SIZE)
    return 1 if node is None else number(node.value) or 0


def _is_folded(config: Config) -> bool:
    """Whether tensor parallelism is on as well, and the two share the ranks."""
    return tensor_parallel_size(config) > 1


def _says(name: str, value: str) -> Callable[[Config], bool]:
    return lambda config: config.value(SECTION, name) == value


def _has_no_grouped_mm(config: Config) -> bool:
    node = config.node(SECTION, "use_grouped_mm")
    return node is not None and not is_truthy(node)


def _has_more_limited_groups(config: Config) -> bool:
    groups, limited = (number(config.value(SECTION, name)) for name in ("num_expert_groups", "num_limited_groups"))
    return groups is not None and limited is not None and limited > groups >= 1


def _has_no_token_limit(config: Config) -> bool:
    limit = config.node(SECTION, "comm_max_tokens_per_rank")
    return config.value(SECTION, "comm_backend") == "deepep" and (limit is None or limit.value == 0)


_OF_THE_SECTION: tuple[Conflict, ...] = (
    (
        (SECTION, "comm_backend"),
        'with `comm_backend` "deepep" needs a `comm_max_tokens_per_rank` above 0',
        _has_no_token_limit,
        'Set it to the most tokens that a rank routes (micro batch size x longest sequence), or use "comm".',
    ),
    (
        (SECTION, "combine_impl"),
        'does not support `combine_impl` "fused_weighted_sum" with `comm_backend` "deepep" and `autoep_size` above 1',
        lambda config: (
            _says("combine_impl", "fused_weighted_sum")(config)
            and _says("comm_backend", "deepep")(config)
            and _ranks_that_share_experts(config) > 1
        ),
        'Delete `combine_impl`, or set `comm_backend` to "comm".',
    ),
    (
        (SECTION, "combine_impl"),
        'does not support `combine_impl` "fused_weighted_sum" with tensor parallelism',
        lambda config: _says("combine_impl", "fused_weighted_sum")(config) and _is_folded(config),
        "Delete `combine_impl`, or set `tensor_parallel.autotp_size` to 1.",
    ),
    (
        (SECTION, "combine_impl"),
        'does not support `combine_impl` "fused_weighted_sum" with `score_apply` "pre"',
        lambda config: _says("combine_impl", "fused_weighted_sum")(config) and _says("score_apply", "pre")(config),
        'Delete `combine_impl`, or set `score_apply` to "post".',
    ),
    (
        (SECTION, "row_weighting_impl"),
        'with `row_weighting_impl` "fused" needs `comm_backend` "deepep"',
        lambda config: _says("row_weighting_impl", "fused")(config) and not _says("comm_backend", "deepep")(config),
        'Delete `row_weighting_impl`, or set `comm_backend` to "deepep".',
    ),
    (
        (SECTION, "row_weighting_impl"),
        'with `row_weighting_impl` "fused" needs an `autoep_size` above 1',
        lambda config: (
            _says("row_weighting_impl", "fused")(config)
            and _says("comm_backend", "deepep")(config)
            and _ranks_that_share_experts(config) == 1
        ),
        "Delete `row_weighting_impl`, or set `autoep_size`.",
    ),
    (
        (SECTION, "gate_up_impl"),
        'with `gate_up_impl` "fused" needs `use_grouped_mm`, which is off',
        lambda config: _says("gate_up_impl", "fused")(config) and _has_no_grouped_mm(config),
        "Delete `gate_up_impl`, or set `use_grouped_mm` to true.",
    ),
    (
        (SECTION, "num_limited_groups"),
        "needs a `num_limited_groups` of at most `num_expert_groups`",
        _has_more_limited_groups,
        "Set `num_limited_groups` to at most `num_expert_groups`.",
    ),
)


def _are_two_presets(config: Config) -> bool:
    one, other = config.value("tensor_parallel", "preset_model"), config.value(SECTION, "preset_model")
    return one is not None and other is not None and one != other


_OFF = "Set `tensor_parallel.autotp_size` to 1, or "

_OF_TENSOR_PARALLELISM: tuple[Conflict, ...] = (
    (
        ("tensor_parallel", "autotp_size"),
        "does not support tensor parallelism in this release of DeepSpeed",
        lambda config: _is_folded(config) and not config.knowledge.does("expert-parallel-folds-with-tensor-parallel"),
        _OFF + "upgrade DeepSpeed.",
    ),
    (
        ("tensor_parallel", "autotp_size"),
        "with tensor parallelism needs an `autoep_size` above 1",
        lambda config: (
            _is_folded(config)
            and _ranks_that_share_experts(config) == 1
            and config.knowledge.does("expert-parallel-folds-with-tensor-parallel")
        ),
        _OFF + "set `expert_parallel.autoep_size`.",
    ),
    (
        ("tensor_parallel", "autotp_size"),
        "with tensor parallelism does not support ZeRO stage 3",
        lambda config: (
            _is_folded(config) and zero_stage(config) == 3 and config.knowledge.does("folding-refuses-stage-3")
        ),
        _OFF + "`zero_optimization.stage` to 2.",
    ),
    (
        (SECTION, "async_split_plan"),
        "with `async_split_plan` does not support tensor parallelism",
        lambda config: (
            _is_folded(config)
            and config.value(SECTION, "async_split_plan") is True
            and _ranks_that_share_experts(config) > 1
        ),
        _OFF + "delete `async_split_plan`.",
    ),
    (
        ("compile", "deepcompile"),
        "with tensor parallelism does not support DeepCompile",
        lambda config: _is_folded(config) and is_on(config, "compile", "deepcompile"),
        _OFF + "set `compile.deepcompile` to false.",
    ),
    (
        ("use_data_before_expert_parallelism",),
        "with tensor parallelism does not support `use_data_before_expert_parallelism`",
        lambda config: _is_folded(config) and is_truthy(config.node("use_data_before_expert_parallelism")),
        _OFF + "delete the key.",
    ),
    (
        (ZERO, "offload_optimizer"),
        "with tensor parallelism does not support offload",
        lambda config: _is_folded(config) and config.section(ZERO, "offload_optimizer") is not None,
        _OFF + "delete `offload_optimizer`.",
    ),
    (
        (ZERO, "offload_param"),
        "with tensor parallelism does not support offload",
        lambda config: _is_folded(config) and config.section(ZERO, "offload_param") is not None,
        _OFF + "delete `offload_param`.",
    ),
    (
        ("tensor_parallel", "preset_model"),
        "needs the same `preset_model` as `tensor_parallel`",
        _are_two_presets,
        "Set both to the same model, or delete one.",
    ),
)


def _is_at_stage_3(config: Config) -> bool:
    return zero_stage(config) == 3 and config.knowledge.does("expert-parallel-takes-stage-3")


def _has_secondary_groups(config: Config) -> bool:
    node = config.node(ZERO, "zero_hpz_partition_size")
    return node is not None and (number_of(node) or 0) > 1


_OF_STAGE_3: tuple[Conflict, ...] = (
    (
        (SECTION,),
        "does not support ZeRO stage 3 in this release of DeepSpeed",
        lambda config: zero_stage(config) == 3 and not config.knowledge.does("expert-parallel-takes-stage-3"),
        "Set `zero_optimization.stage` to 2, or upgrade DeepSpeed.",
    ),
    (
        (ZERO, "zero_quantized_gradients"),
        "at ZeRO stage 3 does not support `zero_quantized_gradients`",
        lambda config: _is_at_stage_3(config) and is_on(config, ZERO, "zero_quantized_gradients"),
        "Delete `zero_quantized_gradients`, or set `stage` to 2.",
    ),
    (
        (ZERO, "zero_hpz_partition_size"),
        "at ZeRO stage 3 does not support `zero_hpz_partition_size` above 1",
        lambda config: _is_at_stage_3(config) and _has_secondary_groups(config),
        "Delete `zero_hpz_partition_size`, or set `stage` to 2.",
    ),
    (
        ("sequence_parallel_size",),
        "at ZeRO stage 3 does not support sequence parallelism",
        lambda config: (
            _is_at_stage_3(config)
            and config.node("data_parallel_size") is not None
            and (number(config.value("sequence_parallel_size")) or 0) > 1
        ),
        "Delete `sequence_parallel_size`, or set `zero_optimization.stage` to 2.",
    ),
)


def _has_none_shared(config: Config) -> bool:
    return config.value(SECTION, "has_shared_experts") is False  # if the key is not set, a preset may have some


def _is_not_over_deepep(config: Config) -> bool:
    return not _says("comm_backend", "deepep")(config)


_WITHOUT_EFFECT: tuple[tuple[str, str, Callable[[Config], bool]], ...] = (
    ("shared_experts_pattern", "`has_shared_experts` true", _has_none_shared),
    ("shared_experts_gate_pattern", "`has_shared_experts` true", _has_none_shared),
    ("comm_num_sm", '`comm_backend` "deepep"', _is_not_over_deepep),
    ("comm_qp_margin", '`comm_backend` "deepep"', _is_not_over_deepep),
    ("comm_max_tokens_per_rank", '`comm_backend` "deepep"', _is_not_over_deepep),
    ("top_k_attr", '`top_k` "auto"', lambda config: number(config.value(SECTION, "top_k")) is not None),
)
