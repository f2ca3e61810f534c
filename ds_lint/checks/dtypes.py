"""Rules about dtypes other than the model's: autocast, gradient accumulation, communication (DS4xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import OVERRIDDEN, RISK, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.features import bf16_section, certain_dtype, is_on, named_accumulation_dtype, zero_stage
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

_NO_LOSS_SCALE = " Only a model in fp16 has a loss scale, which keeps gradients in the range of fp16."


@rule("DS414", "autocast-beside-16-bit-model", severity="warning", effects=("overridden",), keys=("torch_autocast",))
def autocast_beside_16_bit_model(config: Config) -> Iterator[Problem]:
    """torch.autocast, which keeps parameters in fp32, together with a section that casts them to 16 bits."""
    autocast = config.member("torch_autocast", "enabled")
    if autocast is None or not is_on(config, "torch_autocast", "enabled"):
        return
    for mode, section in (("fp16", "fp16"), ("bf16", bf16_section(config))):
        member = config.member(section, "enabled")
        by_argument = _is_switched_on_by_argument(config, mode)
        if not by_argument and not is_on(config, section, "enabled"):
            continue
        if is_on(config, section, f"{mode}_master_weights_and_grads"):
            return  # 16-bit states are intended
        yield Problem(
            ("torch_autocast", "enabled"),
            autocast.value.span,
            "`torch_autocast` is for fp32 parameters, but "
            f"`{'--' if by_argument else ''}{mode}` casts them: weights, gradients and reductions are {mode}",
            OVERRIDDEN,
            help=f"Disable {mode} to train with autocast, or delete `torch_autocast`: beside {mode} it only sets the "
            "dtype of single operations in the forward pass.",
            label="enabled",
            related=[Related(member.value.span, "the parameters are cast")] if member else [],
        )
        return


def _is_switched_on_by_argument(config: Config, mode: str) -> bool:
    """Whether the Trainer enables a 16-bit mode, because it fills in an "auto" or adds the section."""
    enabled = config.node(mode, "enabled")
    if config.stack != "trainer" or (enabled is not None and enabled.value != AUTO):
        return False
    argument = config.argument(mode)
    return argument is not None and argument.value is True


@rule("DS415", "narrow-gradient-accumulation", severity="warning", effects=("risk",), keys=("data_types",))
def narrow_gradient_accumulation(config: Config) -> Iterator[Problem]:
    """A dtype for gradient accumulation that holds less than the dtype of the gradients.

    At stage 2 the gradients stay in the dtype of the model: ``use_grad_accum_attribute`` in
    deepspeed/runtime/zero/stage_1_and_2.py is off if gradients are partitioned.
    """
    path = ("data_types", "grad_accum_dtype")
    member = config.member(*path)
    wanted = named_accumulation_dtype(config)
    if member is None or zero_stage(config) not in (1, 3):
        return  # at stage 0 dtypes-do-not-mix
    dtype = certain_dtype(config)
    loss = _what_is_lost(wanted, dtype)
    if loss:
        yield Problem(
            path,
            member.value.span,
            f"DeepSpeed accumulates gradients of the {dtype} model in {wanted}: {loss}",
            RISK,
            help='Set `grad_accum_dtype` to "fp32", or delete it.' + (_NO_LOSS_SCALE if wanted == "fp16" else ""),
            label=f"the model is {dtype}",
        )


@rule("DS416", "narrow-communication", severity="warning", effects=("risk",), keys=("communication_data_type",))
def narrow_communication(config: Config) -> Iterator[Problem]:
    """Gradients that DeepSpeed reduces in fp16 for a model without a loss scale."""
    member = config.member("communication_data_type")
    if member is None or str(member.value.value).lower() != "fp16":
        return
    dtype = certain_dtype(config)
    loss = _what_is_lost("fp16", dtype)
    if loss:
        yield Problem(
            ("communication_data_type",),
            member.value.span,
            f"DeepSpeed reduces gradients of the {dtype} model in fp16: {loss}",
            RISK,
            help='Set it to "fp32", or delete it: DeepSpeed then sums gradients over the ranks in the dtype of the '
            f"model.{_NO_LOSS_SCALE}",
            label=f"the model is {dtype}",
        )


def _what_is_lost(narrow: str | None, dtype: str | None) -> str | None:
    """What the gradients of a model lose in a narrower dtype."""
    if narrow == "fp16" and dtype in ("bf16", "fp32"):
        return "values below 6e-8 become 0, sums above 65504 infinite"
    if narrow == "bf16" and dtype == "fp32":
        return "each addition keeps 8 bits, and small gradients are lost next to large ones"
    return None
