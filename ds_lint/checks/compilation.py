"""Rules about the section ``compile``: DeepCompile and the other settings of ``engine.compile()`` (DS81x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import offloads_optimizer
from ds_lint.semantics.features import is_on, is_truthy, number, tensor_parallel_size, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Span

    _Row = tuple[str, str, Callable[[Config], bool]]  # a key of the section, what is wrong with it, and when

SECTION = "compile"
ZERO = "zero_optimization"
_STATES, _PARAMETERS, _ACTIVATIONS = "offload_opt_states", "offload_parameters", "offload_activation"


@rule("DS811", "compile-conflict", severity="warning", effects=("risk",), keys=(SECTION,))
def compile_conflict(config: Config) -> Iterator[Problem]:
    """Settings that ``engine.compile()`` rejects together; a run that does not call it trains.

    Sources: ``compile`` and ``get_deepspeed_compile_backend`` in ``deepspeed/runtime/engine.py``, ``init_z3`` in
    ``deepspeed/compile/init_z3.py``.
    """
    for name, words, span in _that_hold(_CONFLICTS, config):
        message = f"`{SECTION}.{name}` {words}: engine.compile() raises"
        way_out = "Change or delete one of the two."
        way_out += " Only one target of offload is allowed." if name in (_STATES, _ACTIVATIONS) else ""
        yield Problem((SECTION, name), span, message, RISK, help=way_out, label="conflict")


@rule("DS812", "compile-key-without-effect", severity="warning", effects=("no-effect",), keys=(SECTION,))
def compile_key_without_effect(config: Config) -> Iterator[Problem]:
    """DeepCompile if it falls back to torch's compiler, and its settings if it is off.

    Sources: ``get_deepcompile_backend``, ``get_autosp_backend`` and ``get_autotp_backend`` in
    ``deepspeed/runtime/engine.py``; only ``init_z3`` in ``deepspeed/compile/init_z3.py`` offloads.
    """
    way_out = "Set what the key needs, or delete the key."
    for name, words, span in _that_hold(_WITHOUT_EFFECT, config):
        message = f"`{SECTION}.{name}` has no effect: {words}"
        yield Problem((SECTION, name), span, message, NO_EFFECT, help=way_out, label="no effect")


def _that_hold(table: tuple[_Row, ...], config: Config) -> Iterator[tuple[str, str, Span]]:
    """The rows of a table that apply: the key, what is wrong with it, and the span of its value."""
    for name, words, is_so in table:
        member = config.member(SECTION, name)
        if member is not None and is_so(config):
            yield name, words, member.value.span


@rule("DS813", "deepcompile-without-managed-accumulation", severity="error", effects=("rejected",), keys=(SECTION,))
def deepcompile_without_managed_accumulation(config: Config) -> Iterator[Problem]:
    """DeepCompile with gradient accumulation that the script manages.

    Source: ``_do_sanity_check`` in ``deepspeed/runtime/engine.py``.
    """
    member = config.member("managed_gradient_accumulation")
    if member is not None and not is_truthy(member.value) and _is_deep(config):
        yield Problem(
            ("managed_gradient_accumulation",),
            member.value.span,
            "`managed_gradient_accumulation` is off, but DeepCompile needs it: deepspeed.initialize raises",
            rejected("initialize"),
            help="Delete `managed_gradient_accumulation`, or set `compile.deepcompile` to false.",
            label="off",
            fix=edits.deletion(config, ("managed_gradient_accumulation",), "unsafe"),
        )


def _is_deep(config: Config) -> bool:
    return is_on(config, SECTION, "deepcompile")


def _sets(config: Config, name: str) -> bool:
    return is_on(config, SECTION, name)


def _passes(config: Config) -> set[str]:
    node = config.node(SECTION, "passes")
    return {str(item.value) for item in node.items} if node is not None else set()


def _compiles_stage_3(config: Config) -> bool:
    return _is_deep(config) and zero_stage(config) == 3 and not _passes(config) & {"autosp", "autotp"}


def _offloads_both(config: Config) -> bool:
    """Whether ZeRO offloads parameters and optimizer to the CPU, which enables ``offload_parameters``."""
    return all(config.value(ZERO, name, "device") == "cpu" for name in ("offload_param", "offload_optimizer"))


def _offloads_parameters(config: Config) -> bool:
    return _sets(config, _PARAMETERS) or _offloads_both(config)


def _offloads_states_twice(config: Config) -> bool:
    return (
        _compiles_stage_3(config)
        and _sets(config, _STATES)
        and offloads_optimizer(config)
        and config.knowledge.does("deepcompile-refuses-two-offloads")
    )


def _offloads_states_and_parameters(config: Config) -> bool:
    return (
        _compiles_stage_3(config)
        and _sets(config, _STATES)
        and _offloads_parameters(config)
        and not offloads_optimizer(config)
        and config.knowledge.does("deepcompile-refuses-two-offloads")
    )


def _offloads_activations_too(config: Config) -> bool:
    return (
        _compiles_stage_3(config)
        and _sets(config, _ACTIVATIONS)
        and (_sets(config, _STATES) or _offloads_parameters(config))
        and config.knowledge.does("deepcompile-refuses-activations-beside")
    )


def _compiles_around_experts(config: Config) -> bool:
    return _sets(config, "autoep_non_moe")


def _parallelizes_sequences(config: Config) -> bool:
    """Whether ``deepspeed.initialize`` creates a mesh in which ranks share a sequence."""
    size = number(config.value("sequence_parallel_size")) or 0
    return size > 1 and config.node("data_parallel_size") is not None


def _overlaps_tensor_parallelism(config: Config) -> bool:
    is_overlapped = is_on(config, "tensor_parallel", "tp_overlap_comm")
    return _is_deep(config) and _passes(config) == {"autotp"} and tensor_parallel_size(config) > 1 and is_overlapped


def _combines_tensor_parallelism(config: Config) -> bool:
    passes = _passes(config)
    return _is_deep(config) and "autotp" in passes and bool(passes & {"autosp", "z1", "z3"})


_AROUND = "autoep_non_moe"
_CONFLICTS: tuple[_Row, ...] = (
    (
        _STATES,
        "conflicts with `zero_optimization.offload_optimizer`, which moves the same states",
        _offloads_states_twice,
    ),
    (
        _STATES,
        "conflicts with the offload of parameters",
        _offloads_states_and_parameters,
    ),
    (
        _ACTIVATIONS,
        "conflicts with the offload of parameters or states",
        _offloads_activations_too,
    ),
    ("passes", "combines `autotp` with `autosp`, `z1` or `z3`", _combines_tensor_parallelism),
    ("passes", "with `autotp` conflicts with `tensor_parallel.tp_overlap_comm`", _overlaps_tensor_parallelism),
    (
        _AROUND,
        "conflicts with `compile.deepcompile`",
        lambda config: _compiles_around_experts(config) and _is_deep(config),
    ),
    (
        _AROUND,
        "conflicts with ZeRO stage 3",
        lambda config: _compiles_around_experts(config) and zero_stage(config) == 3,
    ),
    (
        _AROUND,
        "conflicts with tensor parallelism",
        lambda config: _compiles_around_experts(config) and tensor_parallel_size(config) > 1,
    ),
    (
        _AROUND,
        "conflicts with sequence parallelism",
        lambda config: _compiles_around_experts(config) and _parallelizes_sequences(config),
    ),
    (
        _AROUND,
        'conflicts with `expert_parallel.comm_backend` "deepep"',
        lambda config: _compiles_around_experts(config) and config.value("expert_parallel", "comm_backend") == "deepep",
    ),
    (
        _AROUND,
        "conflicts with offload of the optimizer or parameters",
        lambda config: (
            _compiles_around_experts(config)
            and any(
                config.value(ZERO, name, "device") in ("cpu", "nvme") for name in ("offload_optimizer", "offload_param")
            )
        ),
    ),
    (
        _AROUND,
        "needs AutoEP, but `expert_parallel.enabled` is not true",
        lambda config: _compiles_around_experts(config) and not is_truthy(config.node("expert_parallel", "enabled")),
    ),
)


def _only_at_stage_3(name: str) -> tuple[str, str, Callable[[Config], bool]]:
    return (
        name,
        "DeepCompile offloads only at ZeRO stage 3",
        lambda config: _is_deep(config) and _sets(config, name) and zero_stage(config) in (1, 2),
    )


def _without_deepcompile(name: str) -> tuple[str, str, Callable[[Config], bool]]:
    return name, "`compile.deepcompile` is off", lambda config: _sets(config, name) and not _is_deep(config)


_WITHOUT_EFFECT: tuple[_Row, ...] = (
    (
        "deepcompile",
        "without ZeRO, engine.compile() falls back to torch's compiler",
        lambda config: _is_deep(config) and zero_stage(config) == 0 and not _passes(config) & {"autosp", "autotp"},
    ),
    (
        "passes",
        "AutoSP works only at ZeRO stages 0 and 1, so engine.compile() falls back to torch's compiler",
        lambda config: _is_deep(config) and "autosp" in _passes(config) and zero_stage(config) in (2, 3),
    ),
    (
        "passes",
        "`autotp` needs `tensor_parallel.autotp_size` above 1, so engine.compile() falls back to torch's compiler",
        lambda config: _is_deep(config) and _passes(config) == {"autotp"} and tensor_parallel_size(config) <= 1,
    ),
    ("passes", "`compile.deepcompile` is off", lambda config: bool(_passes(config)) and not _is_deep(config)),
    *(
        entry(name)
        for name in (_ACTIVATIONS, _STATES, _PARAMETERS)
        for entry in (_only_at_stage_3, _without_deepcompile)
    ),
    _without_deepcompile("free_activation"),
    _without_deepcompile("symmetric_memory"),
)
