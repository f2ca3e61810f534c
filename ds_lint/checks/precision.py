"""Rules about precision: fp16, bf16, and dtypes that do not work together (DS4xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Fix, Related
from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import with_passed_optimizer
from ds_lint.semantics.features import (
    DTYPE_NAMES,
    bf16_section,
    is_looked_at,
    is_on,
    is_truthy,
    model_dtype,
    named_accumulation_dtype,
    set_argument,
    zero_stage,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath


@rule("DS401", "fp16-and-bf16", severity="error", effects=("rejected",), keys=("fp16",))
def fp16_and_bf16(config: Config) -> Iterator[Problem]:
    """Both 16-bit modes enabled."""
    bf16 = bf16_section(config)
    if is_on(config, "fp16", "enabled") and is_on(config, bf16, "enabled"):
        one, other = config.member("fp16", "enabled"), config.member(bf16, "enabled")
        assert one is not None and other is not None  # noqa: S101, PT018 - both are enabled
        if not all(config.is_written((section, "enabled")) for section in ("fp16", bf16)):
            return  # the training arguments enable one, and mixed_precision_conflict reports them
        is_given = any(set_argument(config, name) for name in ("fp16", "bf16"))  # then Accelerate raises earlier
        outcomes = {
            stack: rejected("initialize" if stack == "trainer" and is_given else "parse") for stack in config.stacks
        }
        yield Problem(
            (bf16, "enabled"),
            other.value.span,
            f"`fp16` and `{bf16}` are both enabled, but DeepSpeed accepts only one of them",
            outcomes,
            help="Enable only one: bf16 on Ampere and newer GPUs, fp16 on older GPUs.",
            label="bf16 is enabled",
            related=[Related(one.value.span, "fp16 is enabled")],
            fix=_left_to_the_arguments(config, ("fp16", "enabled"), (bf16, "enabled")),
        )


def _left_to_the_arguments(config: Config, *paths: KeyPath) -> Fix | None:
    """Both switches set to "auto", so that the training arguments decide."""
    fixes = [fix for path in paths if (fix := edits.set_to_auto(config, path, "unsafe"))]
    if len(fixes) < len(paths):
        return None
    return Fix('Set both to "auto"', "unsafe", [edit for fix in fixes for edit in fix.edits])


@rule("DS402", "param-dtype-conflict", severity="error", effects=("rejected",), keys=("data_types",))
def param_dtype_conflict(config: Config) -> Iterator[Problem]:
    """A ``data_types.param_dtype`` other than the dtype that ``fp16`` and ``bf16`` select."""
    member = config.member("data_types", "param_dtype")
    wanted = DTYPE_NAMES.get(str(member.value.value)) if member and member.value.kind == "string" else None
    dtype = model_dtype(config)
    if member is not None and wanted is not None and wanted != dtype:
        yield Problem(
            ("data_types", "param_dtype"),
            member.value.span,
            f"`data_types.param_dtype` is {wanted}, but the config selects {dtype}: deepspeed.initialize raises",
            rejected("initialize"),
            help=f'Set "{wanted}": {{"enabled": true}}, or delete `param_dtype`.'
            if wanted in ("fp16", "bf16")
            else "Delete `param_dtype`, or disable fp16 and bf16.",
            label=f"the model is {dtype}",
            fix=edits.deletion(config, ("data_types", "param_dtype"), "unsafe"),
        )


@rule("DS403", "dtypes-do-not-mix", severity="error", effects=("rejected",), keys=("data_types",))
def dtypes_do_not_mix(config: Config) -> Iterator[Problem]:
    """A separate gradient accumulation dtype without ZeRO; only ZeRO's optimizers support one."""
    member = config.member("data_types", "grad_accum_dtype")
    wanted = named_accumulation_dtype(config)
    dtype = model_dtype(config)
    accumulated = "fp32" if dtype == "bf16" and config.knowledge.does("bf16-accumulates-in-fp32") else dtype
    if member is not None and wanted is not None and wanted != accumulated and zero_stage(config) == 0:
        yield Problem(
            ("data_types", "grad_accum_dtype"),
            member.value.span,
            f"the {dtype} model accumulates gradients in {accumulated} without ZeRO: "
            f"deepspeed.initialize rejects {wanted}{with_passed_optimizer(config)}",
            rejected("initialize"),
            help="Set `zero_optimization.stage` to 1 or more, or delete `grad_accum_dtype`.",
            label=f"the model is {dtype}",
            fix=edits.deletion(config, ("data_types", "grad_accum_dtype"), "unsafe"),
        )


@rule("DS404", "autocast-module-not-importable", severity="error", effects=("rejected",), keys=("torch_autocast",))
def autocast_module_not_importable(config: Config) -> Iterator[Problem]:
    """Names in ``lower_precision_safe_modules`` without a package; DeepSpeed imports them as ``package.Class``."""
    path = ("torch_autocast", "lower_precision_safe_modules")
    modules = config.node(*path)
    if modules is None or not is_truthy(config.node("torch_autocast", "enabled")):
        return
    for item in modules.items if modules.kind == "array" else [modules]:
        if item.kind == "string" and "." not in str(item.value) and item.value != "auto":
            yield Problem(
                path,
                item.span,
                f"`{path[-1]}` has {item.value!r} without its package: deepspeed.initialize raises",
                rejected("initialize"),
                help='Write the full name, for example "torch.nn.Linear": DeepSpeed imports each class.',
                label="no package name",
            )


@rule("DS406", "auto-cast-without-fp16", severity="error", effects=("rejected", "risk"), keys=("fp16",))
def auto_cast_without_fp16(config: Config) -> Iterator[Problem]:
    """``fp16.auto_cast`` for a model in another dtype than fp16.

    Source: ``_forward_prologue`` in ``deepspeed/runtime/engine.py``, which casts positional inputs only.
    """
    member = config.member("fp16", "auto_cast")
    if member is None or not is_on(config, "fp16", "auto_cast") or model_dtype(config) == "fp16":
        return
    if not is_looked_at(config, "fp16"):
        return
    enabled = config.node("fp16", "enabled")
    if config.stack == "trainer" or (enabled is not None and enabled.value == "auto" and config.stack != "deepspeed"):
        return  # the Trainer passes inputs by keyword, and DeepSpeed does not cast those
    dtype = model_dtype(config)
    yield Problem(
        ("fp16", "auto_cast"),
        member.value.span,
        f"`auto_cast` casts the inputs to fp16, but the model is {dtype}: the first step raises",
        {"deepspeed": rejected("train"), "accelerate": RISK},
        help="Set `fp16.enabled` to true, or delete `auto_cast`.",
        label=f"the model is {dtype}",
        fix=edits.deletion(config, ("fp16", "auto_cast"), "unsafe"),
    )


@rule("DS407", "amp-with-zero", severity="error", effects=("rejected",), keys=("amp",))
def amp_with_zero(config: Config) -> Iterator[Problem]:
    """NVIDIA's apex/amp together with ZeRO; DeepSpeed 0.19.8 removed the section."""
    member = config.member("amp", "enabled")
    key = config.knowledge.find(("amp", "enabled"))
    if member is None or key is None or not is_on(config, "amp", "enabled") or not zero_stage(config):
        return
    yield Problem(
        ("amp", "enabled"),
        member.value.span,
        f"`amp` does not work with ZeRO, but the stage is {zero_stage(config)}: deepspeed.initialize raises",
        rejected("initialize"),
        help="Delete `amp`, and enable `bf16` or `fp16`.",
        label="does not work with ZeRO",
        fix=edits.deletion(config, ("amp",), "unsafe"),
    )


@rule("DS410", "autocast-with-quantized-weights", severity="error", effects=("rejected",), keys=("torch_autocast",))
def autocast_with_quantized_weights(config: Config) -> Iterator[Problem]:
    """torch.autocast together with weights that ZeRO++ quantizes for communication."""
    quantized = config.member("zero_optimization", "zero_quantized_weights")
    autocast = config.member("torch_autocast", "enabled")
    if quantized is None or autocast is None or not is_on(config, "torch_autocast", "enabled"):
        return
    if is_on(config, "zero_optimization", "zero_quantized_weights"):
        yield Problem(
            ("torch_autocast", "enabled"),
            autocast.value.span,
            "`torch_autocast` does not work with `zero_quantized_weights`: deepspeed.initialize raises",
            rejected("initialize"),
            help="Disable one of the two. Quantized weights work with `bf16` and `fp16`.",
            label="enabled",
            related=[Related(quantized.value.span, "the weights are quantized")],
        )
