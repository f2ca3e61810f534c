"""The stand-ins for GPUs in the user's own processes: each is there as soon as its library is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.probe import imports

if TYPE_CHECKING:
    from types import ModuleType


def install() -> None:
    """Let ranks of the user's command train on CPUs."""
    imports.after("deepspeed", _of_deepspeed)
    imports.after("accelerate.state", _of_accelerate)
    imports.after("transformers.training_args", _of_transformers)


def _of_deepspeed(_deepspeed: ModuleType) -> None:
    from ds_lint.smoke.standins import device, ops

    device.ask_no_processor()
    ops.install(builds=False)
    device.stand_in_of_deepspeed()


def _of_accelerate(state: ModuleType) -> None:
    from ds_lint.smoke.standins import device

    device.stand_in_of_accelerate(state)


def _of_transformers(training_args: ModuleType) -> None:
    from ds_lint.smoke.standins import device

    device.stand_in_of_transformers(training_args)
