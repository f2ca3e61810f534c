"""Rules about precision: fp16, bf16, dtypes that do not mix (DS4xx)."""

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
    """Both 16-bit modes switched on."""
    bf16 = bf16_section(config)
    if is_on(config, "fp16", "enabled") and is_on(config, bf16, "enabled"):
        one, other = config.member("fp16", "enabled"), config.member(bf16, "enabled")
        assert one is not None and other is not None  # noqa: S101, PT018 - both are on
        if not all(config.is_written((section, "enabled")) for section in ("fp16", bf16)):
            return  # the training arguments switch one on, and it is they that are refused: mixed_precision_conflict
        is_asked = any(set_argument(config, name) for name in ("fp16", "bf16"))  # then Accelerate refuses before
        outcomes = {
            stack: rejected("initialize" if stack == "trainer" and is_asked else "parse") for stack in config.stacks
        }
        yield Problem(
            (bf16, "enabled"),
            other.value.span,
            "fp16 and bf16 are both switched on, and DeepSpeed refuses the two together",
            outcomes,
            help="Switch one of them off: bf16 on Ampere and newer GPUs, fp16 on older ones.",
            label="bf16 is on",
            related=[Related(one.value.span, "and fp16 is on")],
            fix=_left_to_the_arguments(config, ("fp16", "enabled"), (bf16, "enabled")),
        )


def _left_to_the_arguments(config: Config, *paths: KeyPath) -> Fix | None:
    """Both switches as "auto", where the arguments of the run then decide."""
    fixes = [fix for path in paths if (fix := edits.set_to_auto(config, path, "unsafe"))]
    if len(fixes) < len(paths):
        return None
    return Fix('Set both to "auto"', "unsafe", [edit for fix in fixes for edit in fix.edits])


@rule("DS402", "param-dtype-conflict", severity="error", effects=("rejected",), keys=("data_types",))
def param_dtype_conflict(config: Config) -> Iterator[Problem]:
    """``data_types.param_dtype`` that is not the mode which is switched on."""
    member = config.member("data_types", "param_dtype")
    wanted = DTYPE_NAMES.get(str(member.value.value)) if member and member.value.kind == "string" else None
    dtype = model_dtype(config)
    if member is not None and wanted is not None and wanted != dtype:
        yield Problem(
            ("data_types", "param_dtype"),
            member.value.span,
            f"`data_types.param_dtype` says {wanted}, and the config switches on {dtype}: deepspeed.initialize raises",
            rejected("initialize"),
            help=f'Set "{wanted}": {{"enabled": true}}, or delete `param_dtype`.'
            if wanted in ("fp16", "bf16")
            else "Delete `param_dtype`, or switch fp16 and bf16 off.",
            label=f"the model is {dtype}",
            fix=edits.deletion(config, ("data_types", "param_dtype"), "unsafe"),
        )


@rule("DS403", "dtypes-do-not-mix", severity="error", effects=("rejected",), keys=("data_types",))
def dtypes_do_not_mix(config: Config) -> Iterator[Problem]:
    """A gradient accumulation dtype of its own without ZeRO, which only ZeRO's optimizers support."""
    member = config.member("data_types", "grad_accum_dtype")
    wanted = named_accumulation_dtype(config)
    dtype = model_dtype(config)
    accumulated = "fp32" if dtype == "bf16" and config.knowledge.does("bf16-accumulates-in-fp32") else dtype
    if member is not None and wanted is not None and wanted != accumulated and zero_stage(config) == 0:
        yield Problem(
            ("data_types", "grad_accum_dtype"),
            member.value.span,
            f"without ZeRO, a model in {dtype} accumulates its gradients in {accumulated}: "
            f"deepspeed.initialize refuses {wanted}{with_passed_optimizer(config)}",
            rejected("initialize"),
            help="Set `zero_optimization.stage` to 1 or more, or delete `grad_accum_dtype`.",
            label=f"the model is {dtype}",
            fix=edits.deletion(config, ("data_types", "grad_accum_dtype"), "unsafe"),
        )


@rule("DS404", "autocast-module-not-importable", severity="error", effects=("rejected",), keys=("torch_autocast",))
def autocast_module_not_importable(config: Config) -> Iterator[Problem]:
    """Names in ``lower_precision_safe_modules`` that are no ``package.Class``, which DeepSpeed imports."""
    path = ("torch_autocast", "lower_precision_safe_modules")
    modules = config.node(*path)
    if modules is None or not is_truthy(config.node("torch_autocast", "enabled")):
        return
    for item in modules.items if modules.kind == "array" else [modules]:
        if item.kind == "string" and "." not in str(item.value) and item.value != "auto":
            yield Problem(
                path,
                item.span,
                f"DeepSpeed imports every class of `{path[-1]}`, and {item.value!r} names no package: "
                "deepspeed.initialize raises",
                rejected("initialize"),
                help='Write the full name, like "torch.nn.Linear".',
                label="no package",
            )


@rule("DS406", "auto-cast-without-fp16", severity="error", effects=("rejected", "risk"), keys=("fp16",))
def auto_cast_without_fp16(config: Config) -> Iterator[Problem]:
    """Inputs cast to fp16 for a model that is not.

    Source: ``_forward_prologue`` in ``deepspeed/runtime/engine.py``, which looks at inputs without a name only.
    """
    member = config.member("fp16", "auto_cast")
    if member is None or not is_on(config, "fp16", "auto_cast") or model_dtype(config) == "fp16":
        return
    if not is_looked_at(config, "fp16"):
        return
    enabled = config.node("fp16", "enabled")
    if config.stack == "trainer" or (enabled is not None and enabled.value == "auto" and config.stack != "deepspeed"):
        return  # the Trainer names every input, and what is named is not cast
    dtype = model_dtype(config)
    yield Problem(
        ("fp16", "auto_cast"),
        member.value.span,
        f"`auto_cast` casts the inputs to fp16, and the model is {dtype}: the first step raises",
        {"deepspeed": rejected("train"), "accelerate": RISK},
        help="Set `fp16.enabled` to true, or delete `auto_cast`.",
        label=f"the model is {dtype}",
        fix=edits.deletion(config, ("fp16", "auto_cast"), "unsafe"),
    )


@rule("DS407", "amp-with-zero", severity="error", effects=("rejected",), keys=("amp",))
def amp_with_zero(config: Config) -> Iterator[Problem]:
    """NVIDIA's apex/amp, which does not go with ZeRO; DeepSpeed 0.19.8 removed it."""
    member = config.member("amp", "enabled")
    key = config.knowledge.find(("amp", "enabled"))
    if member is None or key is None or not is_on(config, "amp", "enabled") or not zero_stage(config):
        return
    yield Problem(
        ("amp", "enabled"),
        member.value.span,
        f"amp does not go with ZeRO, and this is stage {zero_stage(config)}: deepspeed.initialize raises",
        rejected("initialize"),
        help='Delete `amp`, and switch on "bf16" or "fp16".',
        label="not with ZeRO",
        fix=edits.deletion(config, ("amp",), "unsafe"),
    )


@rule("DS410", "autocast-with-quantized-weights", severity="error", effects=("rejected",), keys=("torch_autocast",))
def autocast_with_quantized_weights(config: Config) -> Iterator[Problem]:
    """Autocast of torch with weights that ZeRO++ quantizes for communication."""
    quantized = config.member("zero_optimization", "zero_quantized_weights")
    autocast = config.member("torch_autocast", "enabled")
    if quantized is None or autocast is None or not is_on(config, "torch_autocast", "enabled"):
        return
    if is_on(config, "zero_optimization", "zero_quantized_weights"):
        yield Problem(
            ("torch_autocast", "enabled"),
            autocast.value.span,
            "torch_autocast does not go with `zero_quantized_weights`: deepspeed.initialize raises",
            rejected("initialize"),
            help='Switch one of them off; weights can be quantized with "bf16" or "fp16".',
            label="on",
            related=[Related(quantized.value.span, "and the weights are quantized")],
        )
