"""What a run takes for sure, although not everything is known of it: rules claim no more.

Of ranks that are not known there are as many as need the least memory. Parameters that may be frozen are frozen: a run
may train adapters, and only a script that loads its model itself, and in which nothing freezes any, shows that it does
not. What splits the model in other ways than ZeRO, what is quantized, and what does not train is not counted at all.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint import setup
from ds_lint.footprint.doubts import is_quantized, is_split_otherwise, not_training, surely_trains_all
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.remembered import by_tensors
from ds_lint.semantics.config import once
from ds_lint.semantics.features import adapter_argument, named_accumulation_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.semantics.config import Config

_COUNTLESS = 1024  # ranks: of what they share, each holds less than a thousandth


class Needs(NamedTuple):
    """What a run takes if all is trained, and what it takes whatever is frozen; the same if nothing can be."""

    trained: Estimate
    surely: Estimate

    @property
    def trains_all(self) -> bool:
        """Whether the run surely trains what is counted as trained."""
        return self.surely is self.trained


@once
def of_gpu(config: Config) -> Needs | None:
    """What a run takes on each GPU; of ranks that are not known, what each of them holds however many there are.

    Activations count only if the user says how long sequences are: an argument of the script says how long one may be.
    """
    found = setup.of(config, ranks=_COUNTLESS)
    if found is not None and config.facts.sequence_length is None:
        found = found._replace(sequence_length=None)
    return _needs(config, _with_any_kernels(found))


@once
def of_gpu_at_full_length(config: Config) -> Needs | None:
    """The same if every sequence is as long as the arguments of the script allow."""
    return _needs(config, _with_any_kernels(setup.of(config, ranks=_COUNTLESS)))


@once
def of_host(config: Config) -> Needs | None:
    """What a run takes in the host memory of each node; None if it is not known how many nodes there are."""
    nodes = 1 if config.world_size == 1 else config.facts.nodes
    found = setup.of(config, ranks=nodes) if nodes else None
    return _needs(config, found._replace(nodes=nodes)) if found is not None and nodes else None


def of_gpu_without_offload(config: Config) -> Estimate | None:
    """What a run takes on each GPU if nothing is offloaded; None if the most is not known, or nothing is offloaded."""
    found = setup.of(config)
    if found is None or (found.optimizer_offload is None and found.parameter_offload is None):
        return None
    if is_quantized(config) or is_split_otherwise(config) or not_training(config) is not None:
        return None
    if not found.part.is_sure or not found.optimizer or setup.is_dtype_assumed(config):
        return None
    needed = estimate(found._replace(optimizer_offload=None, parameter_offload=None))
    return needed if "activations" in needed.parts else None


def _with_any_kernels(found: TrainingSetup | None) -> TrainingSetup | None:
    """A setup whose kernels may be any, also such as keep nothing, if nothing shows them."""
    if found is None or (found.kernels.layers is not None and not found.kernels.is_assumed):
        return found
    return found._replace(kernels=found.kernels._replace(others=("unknown kernels",)))


def _needs(config: Config, found: TrainingSetup | None) -> Needs | None:
    if (
        found is None
        or not found.part.is_sure
        or is_quantized(config)
        or is_split_otherwise(config)
        or not_training(config) is not None
    ):
        return None
    has_adapters = adapter_argument(config) is not None and all(tensor.is_trained for tensor in found.tensors)
    if has_adapters or _has_bf16_optimizer(config, found):
        found = _frozen(found)
    trained = estimate(found)
    return Needs(trained, trained if surely_trains_all(config) else estimate(_frozen(found)))


@by_tensors
def _frozen_tensors(found: TrainingSetup) -> tuple[Tensor, ...]:
    return tuple(tensor._replace(is_trained=False) for tensor in found.tensors)


def _frozen(found: TrainingSetup) -> TrainingSetup:
    return found._replace(tensors=_frozen_tensors(found))


def _has_bf16_optimizer(config: Config, found: TrainingSetup) -> bool:
    """Whether ``BF16_Optimizer`` of an older release holds the states, of which nothing is counted.

    Source: ``_do_optimizer_sanity_check`` in ``deepspeed/runtime/engine.py``.
    """
    is_possible = found.dtype == "bf16" and found.stage < 2 and named_accumulation_dtype(config) is None
    return is_possible and config.knowledge.does("bf16-accumulates-in-fp32")
