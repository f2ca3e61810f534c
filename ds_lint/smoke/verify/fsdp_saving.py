"""What a run with FSDP saves: the checkpoint that resumes, the weights in it, and the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.records.failure import Failure
from ds_lint.smoke.verify.check import skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.fsdp_expectation import FsdpExpectation
    from ds_lint.smoke.verify.fsdp_run import ShardedRun

# The file or folder of each kind of checkpoint, as in accelerate/utils/fsdp_utils.py.
_FILES = {
    "FULL_STATE_DICT": "pytorch_model_fsdp.bin",
    "SHARDED_STATE_DICT": "pytorch_model_fsdp_0",
    "LOCAL_STATE_DICT": "pytorch_model_fsdp_rank0.bin",
}
_NAMED = 3  # of many


def resume(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """Fresh processes restore every tensor, and repeat the next losses bit for bit."""
    key = expectation.key("state_dict_type")
    if isinstance(run.resumed, Failure):
        yield Check(
            "resume",
            "fail" if run.resumed.stage is not None else "error",
            key,
            "all tensors and the same losses",
            None,
            None,
            f"a new process does not resume: {run.resumed.message}",
        )
        return
    whole = sum(len(one.fingerprint) for one in run.train)
    lost = [
        name
        for before, after in zip(run.train, run.resumed, strict=True)
        for name, digest in before.fingerprint.items()
        if after.fingerprint.get(name) != digest
    ]
    before = [[step.loss for step in one.steps[run.steps :]] for one in run.train]
    after = [[step.loss for step in one.steps] for one in run.resumed]
    is_kept = not lost and before == after and all(len(one) == run.steps_after for one in before)
    yield Check(
        "resume",
        "pass" if is_kept else "fail",
        key,
        "all tensors and the same losses",
        f"{whole - len(lost)} of {whole} tensors",
        "tensors",
        f"new processes restore all {whole} tensors of the checkpoint and repeat the next {run.steps_after} losses "
        "bitwise"
        if is_kept
        else f"new processes restore {whole - len(lost)} of {whole} tensors of the checkpoint"
        + ", and their next losses differ" * (before != after),
        f"Not restored: {_named(sorted(set(lost)))}." if lost else "",
    )


def export(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The saved model is the trained one."""
    key = expectation.key("state_dict_type")
    requested = "from_pretrained loads the trained weights"
    if isinstance(run.exported, str):
        yield Check("export", "error", key, requested, None, None, f"the saved model was not checked: {run.exported}")
        return
    exported, saved = run.exported
    wrong = sorted(name for name, digest in saved.trained.items() if (exported.loaded or {}).get(name) != digest)
    whole, broken = len(saved.trained), None
    if saved.incomplete:
        broken = f"the ranks do not have all elements of {_named(saved.incomplete)}"
    elif exported.empty:
        broken = f"the weights file holds {len(exported.empty)} empty tensors ({exported.empty[0]})"
    elif exported.loaded is None:
        broken = f"the saved model does not load: {exported.load_error}"
    elif wrong:
        made_up = [name for name in wrong if name in exported.missing]
        broken = (
            f"{len(made_up)} of {whole} tensors are missing from the saved model ({_named(made_up)})"
            if made_up
            else f"{len(wrong)} of {whole} tensors of the saved model differ from the trained ones ({_named(wrong)})"
        )
    yield Check(
        "export",
        "pass" if broken is None else "fail",
        key,
        requested,
        f"{whole - len(wrong)} of {whole} tensors",
        None,
        broken or f"the saved model loads with from_pretrained, and all {whole} tensors equal the trained ones bitwise",
    )


def recovery(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The checkpoint is of the kind that the file asks for, and has the trained weights."""
    if isinstance(run.exported, str):
        return
    key, kind = expectation.key("state_dict_type"), expectation.state_dict_type
    _, saved = run.exported
    requested = f"a checkpoint with the trained weights as {kind}"
    if _FILES.get(kind) not in saved.files:
        found = ", ".join(saved.files) or "nothing"
        message = f"the file asks for {kind}, but the checkpoint has no {_FILES.get(kind)}: it has {found}"
        yield Check("recovery", "fail", key, requested, found, None, message)
        return
    if kind == "LOCAL_STATE_DICT":
        yield skipped("recovery", key, "flat shards are read only by the ranks that resume")
        return
    kept = saved.kept or {}
    wrong = sorted(name for name, digest in saved.trained.items() if kept.get(name) != digest)
    whole = len(saved.trained)
    missing = [name for name in wrong if name not in kept]
    yield Check(
        "recovery",
        "fail" if wrong else "pass",
        key,
        requested,
        f"{whole - len(wrong)} of {whole} tensors",
        "tensors",
        (
            f"the checkpoint cannot be read: {saved.error}"
            if saved.error is not None
            else f"{len(missing) or len(wrong)} of {whole} tensors of the checkpoint "
            f"{'are missing' if missing else 'differ from the trained ones'} ({_named(missing or wrong)})"
        )
        if wrong
        else f"the checkpoint, {_FILES[kind]}, has all {whole} trained tensors, bitwise",
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
