"""One rank of a simulated world: a real engine for that many ranks, up to its first step.

The messages of the other ranks are made up, so nothing is trained. The batch sizes, the groups of ranks and the share
of each rank are real, and they are the user's own: nothing in the config is adapted to this machine.
"""

from __future__ import annotations

import copy
import importlib.util
from typing import TYPE_CHECKING, Any

import deepspeed
import torch
from transformers import Trainer

from ds_lint.smoke.expected.partitions import partition
from ds_lint.smoke.observe import probes
from ds_lint.smoke.rank import training_model
from ds_lint.smoke.rank.deepspeed_run import OPTIMIZERS
from ds_lint.smoke.records.job import FAKE_GROUP, FullSize, Job, TrainedParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.observe.observation import Watch
    from ds_lint.smoke.records.job import Evidence

# What is made of each element of a share: weight, master weight, two states, and a step's gradient and numbers between.
_BYTES_OF_SHARE = 40


def is_possible() -> bool:
    """Whether this torch can simulate other ranks."""
    try:
        return importlib.util.find_spec(FAKE_GROUP) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def simulate(job: Job, _rank: int, config: Any, watch: Watch) -> None:
    """Make the engine of this rank, of the user's own model if its share fits into memory, and observe it."""
    watch.enter("model")
    _gather_nothing()
    deepspeed.init_distributed(dist_backend=job.mode, verbose=False)
    evidence = watch.evidence
    model = _full_size(job, evidence)
    if model is None:
        recipe = training_model.recipe_of(job)
        model = training_model.build(recipe)
        evidence.model = ", shapes of the ".join(filter(None, (recipe.words, evidence.model)))
    evidence.parameters = _parameters(job, model)
    if evidence.full_size is not None and evidence.full_size.is_built:
        _give_memory(job, model, config)
    watch.enter("initialize")
    optimizer = OPTIMIZERS[job.optimizer](_groups(model, evidence.parameters), lr=1e-3) if job.optimizer else None
    engine = deepspeed.initialize(
        model=model,
        model_parameters=None if optimizer else _groups(model, evidence.parameters),
        optimizer=optimizer,
        config=config,
    )[0]
    if job.makes_states:
        _make_states(engine)
    watch.measure(engine)


def _gather_nothing() -> None:
    """Leave what the other ranks would send unset: ZeRO-3 gathers each weight once, to hang a hook on it.

    The group fills it with copies of this rank's share, which takes a second for every billion elements.
    """
    gather = torch.distributed.all_gather_into_tensor

    def unset(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        return gather(output_tensor, input_tensor, group=group, async_op=True) if async_op else None

    torch.distributed.all_gather_into_tensor = unset


def _make_states(engine: Any) -> None:
    """Let the optimizer make its states, as it does in its first step: of the share that this rank holds."""
    optimizer, masters = engine.optimizer, probes.masters(engine)
    for master in masters:
        master.grad = torch.zeros_like(master)
    if hasattr(optimizer, "_optimizer_step"):
        for group in range(len(masters)):
            optimizer._optimizer_step(group)  # noqa: SLF001 - the step of one group, without the gradients of the others
    else:  # BF16_Optimizer
        probes.inner_optimizer(engine).step()


def _full_size(job: Job, evidence: Evidence) -> Any:
    """The user's own model without its weights; None if no model is given, or it is too large."""
    if job.model is None or job.memory is None:
        return None
    model, words = training_model.full_size(job.model)
    parameters = _parameters(job, model)
    needed = _needed(job, parameters)
    is_built = job.stage > 0 and needed <= job.memory
    evidence.full_size = FullSize(parameters, needed, is_built)
    evidence.model = words
    return model if is_built else None


def _needed(job: Job, parameters: list[TrainedParameter]) -> int:
    """The memory that making the engine takes; stages 1 and 2 copy all weights into one tensor.

    The weights themselves take none, because nothing writes to them.
    """
    elements = [parameter.elements for parameter in parameters]
    whole = max(elements) if job.stage == 3 else sum(elements)
    size = int(_dtype(job).itemsize) + (torch.float32.itemsize if job.accumulates_apart else 0)
    return whole * size + partition(parameters, job.stage, job.world_size) * _BYTES_OF_SHARE


def _dtype(job: Job) -> torch.dtype:
    found = getattr(torch, job.dtype)
    assert isinstance(found, torch.dtype)  # noqa: S101 - its name came from one
    return found


def _parameters(job: Job, model: Any) -> list[TrainedParameter]:
    """The parameters, in the groups of the Trainer if the stack is the Trainer."""
    decayed = set(Trainer.get_decay_parameter_names(None, model)) if job.decays_apart else None
    return [
        TrainedParameter(
            name, parameter.numel(), int(decayed is not None and name not in decayed), parameter.requires_grad
        )
        for name, parameter in model.named_parameters()
    ]


def _groups(model: Any, parameters: list[TrainedParameter]) -> list[dict[str, list[Any]]]:
    """The trainable parameters as an optimizer takes them."""
    tensors = dict(model.named_parameters())
    groups: dict[int, list[Any]] = {}
    for parameter in sorted(parameters, key=lambda one: one.group):
        if parameter.is_trainable:
            groups.setdefault(parameter.group, []).append(tensors[parameter.name])
    return [{"params": group} for group in groups.values()]


def _give_memory(job: Job, model: Any, config: Any) -> None:
    """Give the weights memory that nothing writes to; under ZeRO-3 each is partitioned as soon as it has any.

    A whole model would not fit. It is not built within ``zero.Init``, because transformers sets weights that are not
    there.
    """
    weights = _with_memory(model, _dtype(job))
    if job.stage == 3:
        init = deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(config))
        init._convert_to_zero_parameters(weights)  # noqa: SLF001 - its public way takes a module with all its weights
    for _ in weights:
        pass
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_meta:
                setattr(module, name, torch.zeros_like(buffer, device="cpu"))


def _with_memory(model: Any, dtype: torch.dtype) -> Iterator[torch.nn.Parameter]:
    """Replace each weight, where modules share one by the same, and yield it."""
    made: dict[torch.nn.Parameter, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            is_new = weight not in made
            if is_new:
                made[weight] = torch.nn.Parameter(torch.empty(weight.shape, dtype=dtype), weight.requires_grad)
            setattr(module, name, made[weight])
            if is_new:
                yield made[weight]
