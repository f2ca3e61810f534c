"""``ds-lint convert --smoke``: the original and what corresponds to it, each trained for a few steps, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CPU
from ds_lint.facts import Facts
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.choice import choose
from ds_lint.output.quantities import in_units
from ds_lint.output.smoke import KINDS, STATES, as_object
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.smoke.expected.adaptation import adapt
from ds_lint.smoke.processes.client import Pool, ended_by_signal
from ds_lint.smoke.small_run.options import STEPS, STEPS_AFTER, RunOptions
from ds_lint.smoke.small_run.proof import prove
from ds_lint.source import documents
from ds_lint.targets.distributions import installed

if TYPE_CHECKING:
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.source.document import Document

_CONVERTED = {True: "converted.yaml", False: "converted.json"}  # where it is not written to a file
_SAVED = {"resume": "resumes", "export": "saved model", "recovery": "checkpoint"}


class Comparison(NamedTuple):
    """The run of the original and that of its counterpart, in that order."""

    original: Verdict
    counterpart: Verdict

    @property
    def is_made(self) -> bool:
        """Whether both runs show something."""
        return "error" not in (self.original.status, self.counterpart.status)


def compare(original: Document, text: str, *, to_fsdp: bool, ranks: int, facts: Facts) -> Comparison:
    """Train with both through Accelerate, on CPU ranks, with batches of the same size; raises CouldNotRun."""
    counterpart = documents.from_bytes(text.encode(), _CONVERTED[to_fsdp])
    with ended_by_signal(), Pool() as pool:
        _ = pool.versions
        target = choose("", {}, installed("")).newest
        run_facts = Facts()
        run_facts.model = facts.model
        deepspeed = original if to_fsdp else counterpart
        config = configs.from_document(deepspeed, Basis(knowledge(target), "accelerate", run_facts))
        script = adapt(config, pool.folder, ranks=ranks, mode=CPU, steps=STEPS + STEPS_AFTER).script
        batch = (script.batch_size, script.accumulation_steps) if script is not None else None
        options = RunOptions(ranks=ranks, simulates=False, batch=batch)
        found = [
            prove(pool, one, stack="accelerate", facts=run_facts, target=target, options=options)
            for one in (original, counterpart)
        ]
    return Comparison(found[0][0], found[1][0])


def table(comparison: Comparison) -> str:
    """The two runs side by side: memory of the fullest rank, seconds, losses, and what is saved."""
    runs = [comparison.original, comparison.counterpart]
    rows = [("", *(_strategy(one) for one in runs)), ("run", *(one.status for one in runs))]
    rows += [(f"{kind} of a rank", *(_bytes(one, kind) for one in runs)) for kind in KINDS]
    rows.append(("all of these", *(in_units(sum(map(sum, _held(one).values()))) for one in runs)))
    rows.append(("seconds", *(f"{one.seconds:.1f}" for one in runs)))
    rows.append(("losses", *(" ".join(f"{step.loss:.4f}" for step in one.steps) for one in runs)))
    for name, words in _SAVED.items():
        rows.append((words, *(_outcome(one, name) for one in runs)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    errors = (f"{_strategy(one)} could not run: {one.error}" for one in runs if one.error is not None)
    return "\n".join([*lines, *errors]) + "\n"


def as_json(comparison: Comparison) -> dict[str, object]:
    """Both runs, as a report of ``ds-lint check --smoke`` has them."""
    return {"original": as_object(comparison.original), "counterpart": as_object(comparison.counterpart)}


def _strategy(run: Verdict) -> str:
    return {"fsdp1": "FSDP 1", "fsdp2": "FSDP 2", None: "DeepSpeed"}[run.strategy]


def _held(run: Verdict) -> dict[str, list[int]]:
    """Bytes by kind, of the rank that holds most."""
    fullest = max(run.held, key=lambda held: sum(one.bytes for one in held.values()), default={})
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for kind, amount in fullest.items():
        found[kind if kind in found else STATES].append(amount.bytes)
    return found


def _bytes(run: Verdict, kind: str) -> str:
    return in_units(sum(_held(run)[kind]))


def _outcome(run: Verdict, name: str) -> str:
    return next((check.status for check in run.checks if check.id == name), "not checked")
