"""What the rules of ds-lint say about a GPU, each against a run on one.

A claim is a sentence of a rule about a config (``tools/gpu/claimed/of_*.py``). What happens is seen in a fork with the
real libraries. A claim that does not hold is a rule to be fixed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
import threading
from typing import TYPE_CHECKING

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.choice import choose
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents
from ds_lint.targets.distributions import installed
from tools.gpu import builds, claimed
from tools.gpu.claimed import of_features, of_memory, of_optimizers, of_precision
from tools.gpu.claimed.claim import IT
from tools.gpu.forks import CallFailed, forks
from tools.gpu.setting import ERROR, FAIL, PASS, Item, Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ds_lint.diagnostics.finding import Finding
    from tools.gpu.claimed.claim import Claim
    from tools.gpu.forks import Forks
    from tools.gpu.setting import Result, Setting

QUESTION = "Do DeepSpeed and transformers do on a GPU what the rules of ds-lint say?"
LANES = 4  # each claim has a process of its own, and most of its time is the start of CUDA and NCCL
CLAIMS: tuple[Claim, ...] = (*of_optimizers.CLAIMS, *of_memory.CLAIMS, *of_precision.CLAIMS, *of_features.CLAIMS)
_TIMES = "times:pace"  # of claims that need the machine to themselves
_TURNS, _ALONE = threading.Semaphore(LANES), threading.Lock()
_GRACE = 25.0  # seconds more, for a process that has to import the libraries first
_LONGEST = 600  # characters of a question


def items(setting: Setting) -> list[Item]:
    """Every claim: first what only a GPU answers, the quick before the slow, then what CPUs have answered as well."""
    order = sorted(CLAIMS, key=lambda claim: (claim.question is None, claim.seconds))
    return [Item(claim.name, functools.partial(_measured, setting, claim), claim.seconds) for claim in order]


def lane(setting: Setting) -> AbstractContextManager[Forks]:
    """A process with the libraries."""
    return forks(setting)


def reported(claim: Claim) -> list[Finding]:
    """What ds-lint finds in the config of a claim, with every rule, for the installed releases."""
    facts = dict(claim.facts)
    with tempfile.TemporaryDirectory() as folder:
        if "model" in facts:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(facts["model"], file)
            facts["model"] = folder
        known = gather(Sources(**{"world_size": 1, **facts}))
        basis = Basis(
            knowledge(choose("", {}, installed("")).newest),
            stack=claim.stack,  # type: ignore[arg-type] # one of the three
            facts=known,
        )
        return list(lint(documents.from_dict(claim.config), basis, every_rule()).findings)


def _measured(setting: Setting, claim: Claim, process: Forks) -> Result:
    if not setting.rehearses:
        for op in claim.how.get("needed", ()):
            builds.result(setting.ops, op)  # other claims come first while it is built
    arguments = {
        "function": claim.look,
        "device": setting.device,
        "folder": os.path.join(setting.folder, claim.name),
        "runs": {name: {"config": one, **claim.how} for name, one in {IT: claim.config, **claim.others}.items()},
    }
    record = {
        "rule": claim.rule,
        "claim": claim.says,
        "finding": next((one.message for one in reported(claim) if one.code == claim.rule), None),
        "config": claim.config,
        "others": claim.others,
        "expected": claim.expected,
    }
    try:
        with _turn(claim):
            answer = process.call(claimed.OBSERVE, arguments, claim.seconds + _GRACE)
    except CallFailed as failed:
        return {"status": ERROR, **record, "error": str(failed)}
    if "question" in answer:
        raise Unanswered(str(answer["question"]))
    observed: Result = answer["observed"]
    holds = claim.holds(observed)
    if setting.rehearses and claim.question is not None:
        seen = "as claimed" if holds else "not as claimed"
        raise Unanswered(f"{claim.question} On the CPU, {seen}: {_short(observed[IT])}"[:_LONGEST])
    return {"status": PASS if holds else FAIL, **record, "observed": observed}


@contextlib.contextmanager
def _turn(claim: Claim) -> Iterator[None]:
    """Where a claim may use the machine: beside those of other lanes, unless it is about how long something takes."""
    is_alone = claim.look == _TIMES
    taken = 0
    with _ALONE if is_alone else contextlib.nullcontext():  # two that wait for all turns would wait for each other
        try:
            for _ in range(LANES if is_alone else 1):
                _TURNS.acquire()
                taken += 1
            yield
        finally:
            for _ in range(taken):
                _TURNS.release()


def _short(run: Result) -> str:
    if raised := run.get("raised"):
        return "{stage} raises {type} in step {step}: {message}".format(**raised) if "stage" in raised else str(run)
    return f"losses {run['losses']}, {run['ops']}" if "losses" in run else json.dumps(run)
