"""Read the given facts, each with its own reader."""

from __future__ import annotations

from ds_lint.facts import Facts
from ds_lint.facts.unreadable import UnreadableFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts import Sources

_COUNTS = ("world_size", "nodes", "micro_batch", "sequence_length")
_MOST = 10**12  # of anything that is counted, far above all that there is; floats count as exactly


def gather(sources: Sources) -> Facts:
    """The facts that these sources tell; raises UnreadableFact where one does not."""
    _refuse_what_is_too_large(sources)
    facts = Facts(world_size=sources.world_size, nodes=sources.nodes)
    if sources.world_size is not None:
        facts.origins["world size"] = f"{sources.world_size}, by {sources.said_by['world_size']}"
    if sources.nodes is not None:
        facts.origins["nodes"] = f"{sources.nodes}, by {sources.said_by['nodes']}"
    if sources.nodes is not None and sources.world_size is not None and sources.nodes > sources.world_size:
        raise UnreadableFact(
            f"{sources.nodes} nodes and {sources.world_size} ranks: every node needs at least one rank"
        )
    if sources.trainer_args is not None:
        _read_training_arguments(facts, sources.trainer_args, sources.said_by["trainer_args"])
    if sources.model is not None:
        _read_model(facts, sources.model, sources.said_by["model"])
    if sources.parameters is not None:
        _read_parameters(facts, sources.parameters, sources.said_by["parameters"])
    if sources.gpu is not None:
        _read_gpu(facts, sources.gpu, sources.said_by["gpu"])
    if sources.host_memory is not None:
        _read_host_memory(facts, sources.host_memory, sources.said_by["host_memory"])
    facts.async_io, facts.adapters = sources.async_io, sources.adapters
    if sources.lora is not None:
        _read_lora(facts, sources.lora, sources.said_by["lora"])
    if sources.here:
        _look_around(facts)
    if sources.gpu_memory is not None:
        _read_gpu_memory(facts, sources.gpu_memory, sources.said_by["gpu_memory"])
    facts.micro_batch, facts.sequence_length = sources.micro_batch, sources.sequence_length
    return facts


def _refuse_what_is_too_large(sources: Sources) -> None:
    for name in _COUNTS:
        if (count := getattr(sources, name)) is not None and count > _MOST:
            raise UnreadableFact(f"{sources.said_by[name]} is more than {_MOST:,}")


def _read_training_arguments(facts: Facts, source: object, said_by: str) -> None:
    from ds_lint.facts import training

    facts.training = training.arguments_of(source, said_by)
    facts.origins["training arguments"] = facts.training.origin
    facts.doubts = [
        f"{facts.training.origin}: {name} is not a training argument, so it counts as one of the script's own; "
        f"did you mean {meant}?"
        for name, meant in facts.training.slips.items()
    ]


def _read_model(facts: Facts, name: str, said_by: str) -> None:
    from ds_lint.facts import model

    facts.model = model.load(name)
    facts.origins["model"] = f"{facts.model.origin}, by {said_by}"


def _read_parameters(facts: Facts, text: str, said_by: str) -> None:
    """Take the number of parameters for a model whose own shapes are not known, or are packed."""
    from ds_lint.facts import parameter_count

    count = parameter_count.parameter_count(text)
    if facts.model is None or facts.model.parameter_count is None:
        facts.model = parameter_count.stand_in(count)
        facts.origins["model"] = f"{facts.model.origin}, by {said_by}"


def _read_gpu(facts: Facts, name: str, said_by: str) -> None:
    from ds_lint.facts import gpu

    facts.gpu = gpu.named(name)
    facts.origins["GPU"] = f"{facts.gpu.origin}, by {said_by}"


def _read_gpu_memory(facts: Facts, text: str, said_by: str) -> None:
    """The memory of each GPU, whatever its name says."""
    from ds_lint.facts import gpu, host

    facts.gpu = gpu.of_size(host.size(text), facts.gpu)
    facts.origins["GPU"] = f"{facts.gpu.origin}, by {said_by}"


def _read_host_memory(facts: Facts, text: str, said_by: str) -> None:
    from ds_lint.facts import host

    facts.host_memory = host.size(text)
    facts.origins["host memory"] = f"{text.strip()}, by {said_by}"


def _read_lora(facts: Facts, text: str, said_by: str) -> None:
    from ds_lint.facts import lora

    facts.lora = lora.asked(text, said_by)
    facts.adapters = facts.adapters or said_by
    facts.origins["adapters"] = f"{text.strip()}, by {said_by}"


def _look_around(facts: Facts) -> None:
    """Ask this machine for the facts that are not given."""
    from ds_lint.facts import gpu, host

    if facts.gpu is None and (found := gpu.here()) is not None:
        facts.gpu = found
        facts.origins["GPU"] = found.origin
    if facts.host_memory is None and (memory := host.memory()) is not None:
        facts.host_memory = memory
        facts.origins["host memory"] = f"{memory / 2**30:.0f} GiB, reported by this machine"
    facts.async_io = host.has_async_io()
    if facts.async_io is not None:
        facts.origins["libaio"] = f"{'found' if facts.async_io else 'not found'} by the compiler of this machine"
