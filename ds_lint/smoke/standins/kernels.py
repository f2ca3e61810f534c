"""DeepSpeed's compiled optimizers in torch operations: the same formulas, in float32 as the kernels compute.

The arguments are those of the C++ functions, in their order; they come converted from `pybind.function`. Tensors are
read into float32 and written back in their own type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# Types of parameters and states that the CPU kernels know (`create_invoker` in csrc/adam/cpu_adam_impl.cpp, and alike).
TYPES = {
    (torch.float32, torch.float32),
    (torch.float16, torch.float32),
    (torch.float16, torch.float16),
    (torch.bfloat16, torch.float32),
    (torch.bfloat16, torch.bfloat16),
}


def _check_types(optimizer: str, parameter: Tensor, state: Tensor) -> None:
    if (parameter.dtype, state.dtype) not in TYPES:
        raise RuntimeError(
            f"{optimizer} optimizer with param type {parameter.dtype} and state type {state.dtype} is not supported on "
            "current hardware"
        )


# ----------------------------------------------------------------------------------------------------------------- Adam


class CPUAdam:
    """csrc/adam/cpu_adam_impl.cpp: optimizers by number, which say whether they are AdamW."""

    def __init__(self) -> None:
        self._decoupled: dict[int, bool] = {}

    def create(
        self,
        optimizer: int,
        _rate: Tensor,
        _beta1: Tensor,
        _beta2: Tensor,
        _epsilon: Tensor,
        _decay: Tensor,
        is_decoupled: bool,
        _logs: bool,
    ) -> int:
        """Note the optimizer; every other hyperparameter comes again with each step."""
        self._decoupled[optimizer] = is_decoupled
        return 0

    def update(
        self,
        optimizer: int,
        step: int,
        rate: Tensor,
        beta1: Tensor,
        beta2: Tensor,
        epsilon: Tensor,
        decay: Tensor,
        corrects_bias: bool,
        *tensors: Tensor,
    ) -> int:
        """`ds_adam_step`: of one parameter."""
        _adam(
            *tensors, step=step, rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon, decay=decay,
            corrects_bias=corrects_bias, is_decoupled=self._decoupled[optimizer],
        )  # fmt: skip
        return 0

    def rollback(
        self,
        _optimizer: int,
        step: int,
        rate: Tensor,
        beta1: Tensor,
        beta2: Tensor,
        epsilon: Tensor,
        decay: Tensor,
        _corrects_bias: bool,
        parameter: Tensor,
        gradient: Tensor,
        momentum: Tensor,
        variance: Tensor,
    ) -> int:
        """`ds_adam_rollback`: undo a step; it always takes AdamW with bias correction for granted."""
        if any(tensor.dtype != torch.float32 for tensor in (parameter, gradient, momentum, variance)):
            return -1
        root = (variance / (1 - beta2 ** float(step))).sqrt()
        before = (parameter + rate * momentum / (1 - beta1 ** float(step)) / (root + epsilon)) / (1 - rate * decay)
        parameter.copy_(torch.where(before.isfinite(), before, 0.0))
        momentum.copy_((momentum - (1 - beta1) * gradient) / beta1)
        variance.copy_((variance - (1 - beta2) * gradient * gradient) / beta2)
        return 0

    def destroy(self, optimizer: int) -> int:
        """Forget the optimizer."""
        self._decoupled.pop(optimizer, None)
        return 0


def multi_tensor_adam(
    _chunk: int,
    _overflow: Tensor,
    tensors: list[list[Tensor]],
    rate: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    epsilon: Tensor,
    step: int,
    mode: int,
    bias_correction: int,
    decay: Tensor,
) -> None:
    """csrc/adam/multi_tensor_adam.cu and csrc/cpu/adam/fused_adam.cpp: many parameters; mode 1 is AdamW."""
    for gradient, parameter, momentum, variance in zip(*tensors, strict=True):
        _adam(
            parameter, gradient, momentum, variance, step=step, rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
            decay=decay, corrects_bias=bias_correction != 0, is_decoupled=mode == 1,
        )  # fmt: skip


def _adam(
    parameter: Tensor, gradient: Tensor, momentum: Tensor, variance: Tensor, *,
    step: int, rate: Tensor, beta1: Tensor, beta2: Tensor, epsilon: Tensor, decay: Tensor, corrects_bias: bool,
    is_decoupled: bool,
) -> None:  # fmt: skip
    _check_types("Adam", parameter, momentum)
    p, g = parameter.float(), gradient.float()
    if decay > 0 and not is_decoupled:
        g = g + decay * p
    m = beta1 * momentum.float() + (1 - beta1) * g
    v = beta2 * variance.float() + (1 - beta2) * g * g
    root = v.sqrt()
    if corrects_bias:
        rate_of_step = rate / (1 - beta1 ** float(step))
        root = root / (1 - beta2 ** float(step)).sqrt()
    else:
        rate_of_step = rate
    if decay > 0 and is_decoupled:
        p = p - rate * decay * p
    parameter.copy_(p - rate_of_step * (m / (root + epsilon)))
    momentum.copy_(m)
    variance.copy_(v)


# ----------------------------------------------------------------------------------------------------------------- Lion


def lion_update(
    _optimizer: int,
    _step: int,
    rate: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    decay: Tensor,
    parameter: Tensor,
    gradient: Tensor,
    momentum: Tensor,
) -> int:
    """csrc/lion/cpu_lion_impl.cpp; where the average is zero, its sign bit counts."""
    _check_types("Lion", parameter, momentum)
    p = parameter.float()
    if decay > 0:
        p = p * (1 - rate * decay)
    parameter.copy_(p - torch.copysign(rate, _average(beta1, momentum, gradient)))
    momentum.copy_(_average(beta2, momentum, gradient))
    return 0


def multi_tensor_lion(
    _chunk: int,
    _overflow: Tensor,
    tensors: list[list[Tensor]],
    rate: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    _step: int,
    decay: Tensor,
) -> None:
    """csrc/lion/multi_tensor_lion.cu; where the average is zero, the parameter grows."""
    for gradient, parameter, momentum in zip(*tensors, strict=True):
        falls = _average(beta1, momentum, gradient) > 0
        parameter.copy_(parameter.float() * (1 - rate * decay) + torch.where(falls, -float(rate), float(rate)))
        momentum.copy_(_average(beta2, momentum, gradient))


def _average(beta: Tensor, momentum: Tensor, gradient: Tensor) -> Tensor:
    return beta * momentum.float() + (1 - beta) * gradient.float()


# -------------------------------------------------------------------------------------------------------------- Adagrad


def adagrad_update(
    _optimizer: int,
    _step: int,
    rate: Tensor,
    epsilon: Tensor,
    decay: Tensor,
    parameter: Tensor,
    gradient: Tensor,
    variance: Tensor,
) -> int:
    """csrc/adagrad/cpu_adagrad.cpp."""
    _check_types("Adagrad", parameter, variance)
    p, g = parameter.float(), gradient.float()
    if decay > 0:
        g = g + decay * p
    v = variance.float() + g * g
    parameter.copy_(p - rate * (g / (v.sqrt() + epsilon)))
    variance.copy_(v)
    return 0


def succeed(*_arguments: Any) -> int:
    """Creates and destroys optimizers that keep nothing: all hyperparameters come with each step."""
    return 0


# ----------------------------------------------------------------------------------------------------------------- LAMB


def lamb(
    parameter: Tensor,
    copied: Tensor,
    momentum: Tensor,
    variance: Tensor,
    gradient: Tensor,
    rate: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    most: Tensor,
    least: Tensor,
    epsilon: Tensor,
    scale: Tensor,
    step: int,
    mode: int,
    bias_correction: int,
    decay: Tensor,
) -> Tensor:
    """csrc/lamb/fused_lamb_cuda_kernel.cu: one parameter, and its copy in the gradient's type; answers the trust ratio.

    In mode 0 epsilon stands under the root.
    """
    _check_lamb_types(parameter, gradient)
    g = gradient.to(parameter.dtype) / scale
    momentum.copy_(beta1 * momentum + (1 - beta1) * g)
    variance.copy_(beta2 * variance + (1 - beta2) * g * g)
    denominator = (variance + epsilon).sqrt() if mode == 0 else variance.sqrt() + epsilon
    update = momentum / denominator + decay * parameter
    weight, change = parameter.norm(), update.norm()
    ratio = torch.ones_like(weight)
    if weight != 0 and change != 0:
        ratio = (weight / change).minimum(most).maximum(least)
    if bias_correction == 1:
        rate = rate * (1 - beta2 ** float(step)).sqrt() / (1 - beta1 ** float(step))
    parameter.copy_(parameter - rate * ratio * update)
    if copied.numel() and gradient.dtype == torch.float16:
        copied.copy_(parameter)
    return ratio.reshape(1)


def _check_lamb_types(parameter: Tensor, gradient: Tensor) -> None:
    if gradient.dtype == torch.float16:
        if parameter.dtype != torch.float32:
            raise RuntimeError("expected parameter to be of float type")
    elif gradient.dtype not in {torch.float32, torch.float64}:
        raise RuntimeError(f'"lamb_cuda_kernel" not implemented for {gradient.dtype}')
    elif parameter.dtype != gradient.dtype:
        raise RuntimeError(f"expected scalar type {gradient.dtype} but found {parameter.dtype}")


# ------------------------------------------------------------------------------------------------------------- the ops


def functions_of(op: str) -> dict[str, tuple[str, Callable[..., Any]]]:
    """The functions of an op by name, each with the kinds of its arguments (deepspeed/ops/csrc, 0.19.8)."""
    adam = CPUAdam()
    update = "int size float float float float float bool tensor tensor tensor tensor"
    ops: dict[str, dict[str, tuple[str, Callable[..., Any]]]] = {
        "fused_adam": {
            "multi_tensor_adam": (
                "int tensor tensors float float float float int int int float",
                multi_tensor_adam,
            )
        },
        "fused_lion": {
            "multi_tensor_lion": ("int tensor tensors float float float int float", multi_tensor_lion),
        },
        "fused_lamb": {
            "lamb": (
                "tensor tensor tensor tensor tensor float float float float float float float int int int float",
                lamb,
            ),
        },
        "cpu_adam": {
            "create_adam": ("int float float float float float bool bool", adam.create),
            "adam_update": (update, adam.update),
            "adam_rollback": (update, adam.rollback),
            "destroy_adam": ("int", adam.destroy),
        },
        "cpu_lion": {
            "create_lion": ("int float float float float bool", succeed),
            "lion_update": ("int size float float float float tensor tensor tensor", lion_update),
            "destroy_lion": ("int", succeed),
        },
        "cpu_adagrad": {
            "create_adagrad": ("int float float float bool", succeed),
            "adagrad_update": ("int size float float float tensor tensor tensor", adagrad_update),
            "destroy_adagrad": ("int", succeed),
        },
    }
    return ops.get(op, {})
