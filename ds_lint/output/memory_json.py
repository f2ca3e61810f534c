"""``ds-lint memory`` for programs, as ``schemas/memory.schema.json`` describes it."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, TypeAlias

from ds_lint import __version__
from ds_lint.footprint.band import total
from ds_lint.output.text import slashed

if TYPE_CHECKING:
    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.answer import Answer
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.fsdp.sharding import FsdpSharding
    from ds_lint.footprint.largest import Largest, LargestSizes
    from ds_lint.footprint.open_facts import OpenFact
    from ds_lint.footprint.placed import Amount
    from ds_lint.footprint.setup import Offload, TrainingSetup
    from ds_lint.footprint.sweep import SweepRow
    from ds_lint.frameworks.record import PackedWeights

VERSION = 1  # raised when a reader of it would have to change

Json: TypeAlias = "dict[str, object]"


def text(answers: list[Answer], notes: list[str]) -> str:
    """The report: of one run itself, of several in ``runs``."""
    head: Json = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        **({"notes": notes} if notes else {}),
    }
    runs = [as_object(answer) for answer in answers]
    return dumps(head | (runs[0] if len(runs) == 1 else {"runs": runs}), indent=2) + "\n"


def as_object(answer: Answer) -> Json:
    """What is answered about one run."""
    estimate, capacity = answer.estimate, answer.capacity
    if answer.assumed is not None:
        return _unwritten(answer, answer.assumed)
    rank = _parts(estimate.rank)
    rank["total"] = {
        "elements": _band(total([amount.elements for amount in estimate.rank.values()])),
        "bytes": _band(estimate.gpu_bytes),
    }
    return {
        "path": slashed(answer.name),
        "launch": answer.launch,
        "setup": _setup(estimate.setup),
        "rank": rank,
        "host": {"bytes": _band(estimate.host_bytes), "parts": _parts(estimate.host)},
        "nvme": {
            "bytes": _band(total([amount.bytes for amount in estimate.nvme.values()])),
            "parts": _parts(estimate.nvme),
        },
        "peaks": {name: {"gpu": _band(peak.gpu), "host": _band(peak.host)} for name, peak in estimate.peaks.items()},
        "capacity": capacity._asdict(),
        "fits": answer.fit._asdict(),
        "left_out": list(answer.left_out),
        "open_facts": [_open_fact(fact) for fact in answer.open_facts],
        "advice": [_advice(advice, is_whole=not answer.left_out) for advice in answer.advice],
        **_least_ranks(answer),
        **_largest_sizes(answer),
        **({"sweep": [_row(row, answer) for row in answer.rows]} if answer.rows else {}),
    }


def _least_ranks(answer: Answer) -> Json:
    """What the run needs, if nothing within reach makes it fit."""
    least = answer.least_ranks
    if least is None:
        return {}
    if not answer.capacity.is_in_reach(least.estimate, "likely"):
        return {"needs_at_least": None}
    setup = least.estimate.setup
    found = _advice(least, is_whole=not answer.left_out)
    return {"needs_at_least": {"ranks": setup.world, "nodes": setup.nodes, **found}}


def _unwritten(answer: Answer, assumed: tuple[str, ...]) -> Json:
    """What has no config: of its setup nothing that a row decides."""
    decided = ("stage", "offload_optimizer", "offload_param", "activation_checkpointing")
    setup = _setup(answer.estimate.setup)
    return {
        "path": None,
        "setup": {name: value for name, value in setup.items() if name not in decided},
        "assumed": list(assumed),
        "capacity": answer.capacity._asdict(),
        "left_out": list(answer.left_out),
        **_least_ranks(answer),
        "sweep": [_row(row, answer) for row in answer.rows],
    }


def _largest_sizes(answer: Answer) -> Json:
    """With ``--largest``: what the run may grow to, each alone."""
    found = answer.largest
    if found is None:
        return {}
    names = ("micro_batch", "sequence_length", "parameters")
    return {"largest": {name: _largest(getattr(found, name), is_whole=not answer.left_out) for name in names}}


def _open_fact(fact: OpenFact) -> Json:
    return {
        "fact": fact.name,
        "give": fact.give,
        "answers": [
            {"answer": one.words, "rank_bytes": _band(one.gpu), "host_bytes": _band(one.host)} for one in fact.answers
        ],
    }


def _advice(advice: Advice, *, is_whole: bool) -> Json:
    return {
        "change": advice.words,
        "key": advice.writes[0].key,
        "writes": [write._asdict() for write in advice.writes],
        "rank_bytes": _band(advice.estimate.gpu_bytes),
        "host_bytes": _band(advice.estimate.host_bytes),
        "is_sure": advice.is_sure and is_whole,
        "price": [price._asdict() for price in advice.price],
    }


def _row(row: SweepRow, answer: Answer) -> Json:
    is_whole = not answer.left_out
    return {
        "stage": row.stage,
        "offload": list(row.offload),
        "device": row.device,
        "checkpointing": row.checkpointing,
        "is_chosen": row.is_chosen,
        "rank_bytes": _band(row.estimate.gpu_bytes),
        "host_bytes": _band(row.estimate.host_bytes),
        "fits": answer.fit_of(row.estimate)._asdict(),
        "largest_micro_batch": _largest(row.largest, is_whole=is_whole),
        **_others(row.sizes, is_whole=is_whole),
        "rank": {"likely": row.places[0], "surely": row.places[1] if is_whole else None},
    }


def _others(sizes: LargestSizes, *, is_whole: bool) -> Json:
    """With ``--largest``: what a row may grow to beside the micro batch."""
    if sizes.parameters is None:
        return {}
    return {
        "largest_sequence_length": _largest(sizes.sequence_length, is_whole=is_whole),
        "largest_parameters": _largest(sizes.parameters, is_whole=is_whole),
    }


def _largest(largest: Largest | None, *, is_whole: bool) -> Json:
    """The largest numbers that fit; what is left out leaves nothing sure."""
    likely, surely = largest if largest is not None else (None, None)
    return {"likely": likely, "surely": surely if is_whole else None}


def _parts(amounts: dict[str, Amount]) -> Json:
    return {
        name: {"elements": _band(amount.elements), "bytes": _band(amount.bytes)} for name, amount in amounts.items()
    }


def _band(band: Band) -> Json:
    """The bounds, as whole numbers."""
    return {name: round(value) for name, value in band._asdict().items()}


def _setup(setup: TrainingSetup) -> Json:
    return {
        "parameters": setup.saved_count,
        "ranks": setup.world,
        "nodes": setup.nodes,
        "stage": setup.stage if setup.fsdp is None else None,
        **({"fsdp": _fsdp(setup.fsdp, setup)} if setup.fsdp is not None else {}),
        "dtype": setup.dtype,
        "optimizer": setup.optimizer or None,
        "offload_optimizer": _offload(setup.optimizer_offload),
        "offload_param": _offload(setup.parameter_offload),
        "micro_batch": setup.micro_batch,
        "sequence_length": setup.sequence_length,
        "activation_checkpointing": setup.is_checkpointed,
        **_parallelism(setup),
        **({"quantization": _quantization(setup.weights)} if setup.weights is not None else {}),
    }


def _quantization(weights: PackedWeights) -> Json:
    return {
        "method": weights.method,
        "bits": weights.bits or None,
        "double": weights.is_nested,
        "source": weights.source,
    }


def _fsdp(sharding: FsdpSharding, setup: TrainingSetup) -> Json:
    return {
        "version": sharding.version,
        "strategy": sharding.strategy,
        "shard_ranks": sharding.ranks(setup.ranks, setup.ranks_per_node),
        "offload": "cpu" if sharding.offloads else None,
        "wrap_policy": sharding.policy,
    }


def _parallelism(setup: TrainingSetup) -> Json:
    """The degrees of parallelism beside ZeRO's, if anything is divided."""
    degrees, stage = setup.part.degrees, setup.part.stage
    found = {
        "tensors": degrees.tensors,
        "stages": degrees.stages,
        "sequences": setup.sequence_ranks,
        "experts": degrees.experts,
    }
    if max(found.values()) == 1:
        return {}
    return {"parallelism": found | {"stage": stage.number if stage is not None else None}}


def _offload(offload: Offload | None) -> str | None:
    return offload.device if offload is not None else None
