"""Read the given facts, each with its own reader."""

from __future__ import annotations

from ds_lint.facts import Facts
from ds_lint.facts.unreadable import UnreadableFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.facts import Sources

_MOST = 10**12  # of anything that is counted, far above all that there is; floats count as exactly


def gather(sources: Sources) -> Facts:
    """The facts that these sources tell; raises UnreadableFact where one does not."""
    for one in sources.options():
        if one.is_number and (count := getattr(sources, one.name)) is not None and count > _MOST:
            raise UnreadableFact(f"{sources.giver(one.name)} is more than {_MOST:,}")
    facts = Facts()
    facts.async_io, facts.adapters = sources.async_io, sources.adapters
    facts.micro_batch, facts.sequence_length = sources.micro_batch, sources.sequence_length
    facts.attention, facts.activation_checkpointing = sources.attention, sources.activation_checkpointing
    facts.kernels, facts.packing = sources.kernels, sources.packing
    facts.new_tokens = sources.new_tokens
    for name, read in READERS.items():
        if (value := getattr(sources, name)) is not None:
            read(facts, value, sources.giver(name))
    return facts


def _read_world_size(facts: Facts, ranks: int, given_by: str) -> None:
    facts.world_size = ranks
    facts.origins["world size"] = f"{ranks}, by {given_by}"


def _read_nodes(facts: Facts, nodes: int, given_by: str) -> None:
    facts.nodes = nodes
    facts.origins["nodes"] = f"{nodes}, by {given_by}"
    if facts.world_size is not None and nodes > facts.world_size:
        raise UnreadableFact(f"{nodes} nodes and {facts.world_size} ranks: every node needs at least one rank")


def _read_training_arguments(facts: Facts, source: object, given_by: str) -> None:
    from ds_lint.facts import training

    facts.training = training.arguments_of(source, given_by)
    facts.origins["training arguments"] = facts.training.origin
    facts.doubts = [
        f"{facts.training.origin}: {name} is not a training argument, so it counts as one of the script's own; "
        f"did you mean {meant}?"
        for name, meant in facts.training.slips.items()
    ]


def _read_model(facts: Facts, name: str, given_by: str) -> None:
    from ds_lint.facts import model

    facts.model = model.load(name)
    facts.origins["model"] = f"{facts.model.origin}, by {given_by}"


def _read_parameters(facts: Facts, text: str, given_by: str) -> None:
    """Take the number of parameters for a model whose own shapes are not known, or are packed."""
    from ds_lint.facts import parameter_count

    count = parameter_count.parameter_count(text)
    if facts.model is None or facts.model.parameter_count is None:
        facts.model = parameter_count.stand_in(count)
        facts.origins["model"] = f"{facts.model.origin}, by {given_by}"


def _read_gpu(facts: Facts, name: str, given_by: str) -> None:
    from ds_lint.facts import gpu

    facts.gpu = gpu.named(name)
    facts.origins["GPU"] = f"{facts.gpu.origin}, by {given_by}"


def _read_gpu_memory(facts: Facts, text: str, given_by: str) -> None:
    """The memory of each GPU, whatever its name says."""
    from ds_lint.facts import gpu, host

    facts.gpu = gpu.of_size(host.size(text), facts.gpu)
    facts.origins["GPU"] = f"{facts.gpu.origin}, by {given_by}"


def _read_host_memory(facts: Facts, text: str, given_by: str) -> None:
    from ds_lint.facts import host

    facts.host_memory = host.size(text)
    facts.origins["host memory"] = f"{text.strip()}, by {given_by}"


def _read_lora(facts: Facts, text: str, given_by: str) -> None:
    from ds_lint.facts import lora

    facts.lora = lora.parsed(text, given_by)
    facts.adapters = facts.adapters or given_by
    facts.origins["adapters"] = f"{text.strip()}, by {given_by}"


def _read_quantization(facts: Facts, text: str, given_by: str) -> None:
    from ds_lint.facts import packed_weights

    facts.packed = packed_weights.parsed(text, given_by)
    facts.origins["quantized weights"] = f"{text.strip()}, by {given_by}"


def _read_optimizer(facts: Facts, name: str, given_by: str) -> None:
    facts.named_optimizer = name.strip().lower()
    facts.origins["optimizer"] = f"{name.strip()}, by {given_by}"


def _look_around(facts: Facts, _is_here: bool, _given_by: str) -> None:
    """Ask this machine for the facts that are not given."""
    from ds_lint.facts import gpu, host

    if facts.gpu is None and (found := gpu.here()) is not None:
        facts.gpu = found
        facts.origins["GPU"] = found.origin
    if facts.host_memory is None and (memory := host.memory()) is not None:
        facts.host_memory = memory
        facts.origins["host memory"] = f"{memory / 2**30:.0f} GiB, reported by this machine"
    facts.shared_memory = host.shared_memory()
    facts.async_io = host.has_async_io()
    if facts.async_io is not None:
        facts.origins["libaio"] = f"{'found' if facts.async_io else 'not found'} by the compiler of this machine"


# By the name of the fact in ``Sources``; a later reader may build on what an earlier one found.
READERS: dict[str, Callable[[Facts, Any, str], None]] = {
    "world_size": _read_world_size,
    "nodes": _read_nodes,
    "trainer_args": _read_training_arguments,
    "model": _read_model,
    "parameters": _read_parameters,
    "gpu": _read_gpu,
    "host_memory": _read_host_memory,
    "lora": _read_lora,
    "quantization": _read_quantization,
    "optimizer": _read_optimizer,
    "here": _look_around,
    "gpu_memory": _read_gpu_memory,
}
