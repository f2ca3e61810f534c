"""The documented arithmetic that a config asks for, as a rule for the reference run; or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.diagnostics.verdict import CUDA
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.constructors import optimizer_constructor
from ds_lint.semantics.features import is_on
from ds_lint.smoke.expected.expectation import ZERO, Expectation
from ds_lint.smoke.records.job import CPU_ADAM, FUSED, UpdateRule
from ds_lint.source.tree import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.smoke.records.accelerate_script import AccelerateScript

# What does not change the result, with the values for which that is so; None for any.
_HARMLESS: Mapping[str, Any] = {
    "lr": None,
    "torch_adam": None,
    "foreach": None,
    "fused": None,
    "capturable": None,
    "differentiable": None,
    "set_grad_none": None,
    "fp32_optimizer_states": True,
    "amsgrad": False,
    "maximize": False,
    "lr_decay": 0,
    "initial_accumulator_value": 0,
}
_UNDERSTOOD = {
    "adam": ("betas", "eps", "weight_decay", "bias_correction", "adam_w_mode"),
    "lion": ("betas", "weight_decay"),
    "adagrad": ("eps", "weight_decay"),
    "sgd": ("momentum", "dampening", "weight_decay", "nesterov"),
}
_KINDS = {"adam": "adam", "adamw": "adam", "lion": "lion", "adagrad": "adagrad", "sgd": "sgd"}
_TRAINERS = ("adamw_torch", "adamw_torch_fused")


class NoReference(NamedTuple):
    """Why no reference run is made."""

    key: str | None
    why: str


def on_device(rule: UpdateRule, expectation: Expectation, mode: str) -> UpdateRule:
    """The rule as what computes it on this device."""
    constructor = optimizer_constructor(expectation.final)
    is_fused = expectation.optimizer is not None and constructor is not None and constructor.name.startswith(FUSED)
    return rule._replace(is_fast=mode == CUDA and is_fused)


def update_rule(
    expectation: Expectation, script: AccelerateScript | None = None, *, by: str = "the reference run"
) -> UpdateRule | NoReference:
    """The rule of the optimizer in the config, of the script, or of the training arguments; ``by`` computes it."""
    if expectation.optimizer is None and expectation.config.stack == "trainer":
        return _of_arguments(expectation, by)
    if expectation.optimizer is None and script is not None:
        return _adamw("AdamW", script.weight_decay, (0.9, 0.999), 1e-8)
    if expectation.optimizer is None:  # as deepspeed_run.py makes it
        decay = 0.0 if expectation.optimizer_of_script == CPU_ADAM else 0.01
        return _adamw("AdamW", decay, (0.9, 0.999), 1e-8)
    name, key = expectation.optimizer, expectation.key("optimizer", "type")
    kind = _KINDS.get(name.lower())
    constructor = optimizer_constructor(expectation.final)
    if kind is None or constructor is None:
        return NoReference(key, f"{by} has no arithmetic for {name}")
    section = expectation.final.section("optimizer", "params")
    given = plain(section) if section is not None else {}
    assert isinstance(given, dict)  # noqa: S101 - a section is one
    for param, value in given.items():
        harmless = param in _HARMLESS and (_HARMLESS[param] is None or _HARMLESS[param] == value)
        if value is UNKNOWN or not (harmless or param in _UNDERSTOOD[kind]):
            here = expectation.key("optimizer", "params", param)
            return NoReference(here, f"{by} has no arithmetic for {name} with `{param}`")
    cycle = expectation.schedule
    if cycle is not None and cycle[0] == "OneCycle" and kind != "sgd" and cycle[1].get("cycle_momentum", True):
        why = f"OneCycle changes the betas in every step, and {by} has no arithmetic for it"
        return NoReference(expectation.key("scheduler", "type"), why)
    values = {param: given.get(param, constructor.default(param)) for param in _UNDERSTOOD[kind]}
    if is_on(expectation.final, ZERO, "offload_optimizer", "super_offload") or not _is_offloaded_whole(expectation):
        return NoReference(expectation.key(ZERO, "offload_optimizer"), "two optimizers share the weights")
    return _rule(name, kind, values)


def rule_of_config(expectation: Expectation) -> UpdateRule | NoReference | None:
    """The rule of the optimizer in the config of a script; None if the script makes its optimizer."""
    return update_rule(expectation, by="ds-lint") if expectation.optimizer is not None else None


def _rule(name: str, kind: str, values: Mapping[str, Any]) -> UpdateRule:
    """The rule with these hyperparameters; unset ones have the default of the class."""
    betas = values.get("betas") or (0.0, 0.0)
    adam_w_mode = values.get("adam_w_mode")
    corrects_bias = values.get("bias_correction")
    return UpdateRule(
        name,
        kind,
        decay=float(values.get("weight_decay") or 0.0),
        betas=(float(betas[0]), float(betas[1])),
        epsilon=float(values.get("eps") or 0.0),
        momentum=float(values.get("momentum") or 0.0),
        dampening=float(values.get("dampening") or 0.0),
        is_nesterov=bool(values.get("nesterov")),
        # DeepSpeed's Adam is AdamW unless adam_w_mode is off, and its AdamW is always AdamW.
        is_decoupled=kind == "lion" or name.lower() == "adamw" or (kind == "adam" and adam_w_mode in (None, True)),
        corrects_bias=corrects_bias is None or bool(corrects_bias),
    )


def _of_arguments(expectation: Expectation, by: str) -> UpdateRule | NoReference:
    """The optimizer that the Trainer makes."""
    values = {}
    for name in ("optim", "adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay", "optim_args"):
        found = expectation.config.argument(name)
        values[name] = found.value if found is not None else None
    if str(values["optim"] or _TRAINERS[0]) not in _TRAINERS:
        return NoReference(None, f"{by} has no arithmetic for `--optim {values['optim']}`")
    if values["optim_args"]:
        return NoReference(None, f"{by} has no arithmetic for `--optim_args {values['optim_args']}`")
    betas = _number(values["adam_beta1"], 0.9), _number(values["adam_beta2"], 0.999)
    return _adamw("AdamW", _number(values["weight_decay"], 0.0), betas, _number(values["adam_epsilon"], 1e-8))


def _adamw(name: str, decay: float, betas: tuple[float, float], epsilon: float) -> UpdateRule:
    return UpdateRule(name, "adam", decay, betas, epsilon, is_decoupled=True)


def _number(value: Any, default: float) -> float:
    return float(value) if value is not None and value is not UNKNOWN else default


def _is_offloaded_whole(expectation: Expectation) -> bool:
    """Whether one optimizer makes all steps: at stage 3, ``ratio`` leaves a part of them to one on the GPU."""
    return expectation.number(ZERO, "offload_optimizer", "ratio") in (None, 1)
