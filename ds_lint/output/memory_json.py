"""``ds-lint memory`` for programs, as ``schemas/memory.schema.json`` describes it."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, TypeAlias

from ds_lint import __version__
from ds_lint.memory.band import total

if TYPE_CHECKING:
    from ds_lint.memory.advice import Advice
    from ds_lint.memory.answer import Answer
    from ds_lint.memory.band import Band
    from ds_lint.memory.placed import Amount
    from ds_lint.memory.setup import Offload, TrainingSetup
    from ds_lint.memory.sweep import SweepRow

VERSION = 1  # raised when a reader of it would have to change

Json: TypeAlias = "dict[str, object]"


def text(answers: list[Answer], notes: list[str]) -> str:
    """The report: of one run itself, of several in ``runs``."""
    head: Json = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        **({"notes": notes} if notes else {}),
    }
    runs = [_run(answer) for answer in answers]
    return dumps(head | (runs[0] if len(runs) == 1 else {"runs": runs}), indent=2) + "\n"


def _run(answer: Answer) -> Json:
    estimate, capacity = answer.estimate, answer.capacity
    rank = _parts(estimate.rank)
    rank["total"] = {
        "elements": _band(total([amount.elements for amount in estimate.rank.values()])),
        "bytes": _band(estimate.gpu_bytes),
    }
    return {
        "path": answer.name,
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
        "advice": [_advice(advice, is_whole=not answer.left_out) for advice in answer.advice],
        **({"sweep": [_row(row, answer) for row in answer.rows]} if answer.rows else {}),
    }


def _advice(advice: Advice, *, is_whole: bool) -> Json:
    return {
        "change": advice.words,
        "key": advice.writes[0].key,
        "writes": [write._asdict() for write in advice.writes],
        "rank_bytes": _band(advice.estimate.gpu_bytes),
        "host_bytes": _band(advice.estimate.host_bytes),
        "is_sure": advice.is_sure and is_whole,
    }


def _row(row: SweepRow, answer: Answer) -> Json:
    return {
        "stage": row.stage,
        "offload": list(row.offload),
        "is_chosen": row.is_chosen,
        "rank_bytes": _band(row.estimate.gpu_bytes),
        "host_bytes": _band(row.estimate.host_bytes),
        "fits": answer.fit_of(row.estimate)._asdict(),
    }


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
        "stage": setup.stage,
        "dtype": setup.dtype,
        "optimizer": setup.optimizer or None,
        "offload_optimizer": _offload(setup.optimizer_offload),
        "offload_param": _offload(setup.parameter_offload),
        "micro_batch": setup.micro_batch,
        "sequence_length": setup.sequence_length,
        "activation_checkpointing": setup.is_checkpointed,
        **_parallelism(setup),
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
