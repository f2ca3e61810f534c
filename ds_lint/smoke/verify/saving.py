"""Whether a checkpoint resumes, and a saved model loads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CUDA, Check
from ds_lint.smoke.expected.expectation import GATHER, ZERO, Expectation, Requested, ranks_of_a_tensor
from ds_lint.smoke.records.failure import Failure
from ds_lint.smoke.records.job import keeps_frozen
from ds_lint.smoke.verify.check import ObservedRun, SmallRun, checked, skipped
from ds_lint.smoke.verify.steps import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.job import Exported


class _Saved(NamedTuple):
    """What a run saves for ``from_pretrained``, in words."""

    what: str
    loader: str
    file: str
    starts: tuple[str, ...]  # of the names of its files


_MODEL = _Saved("model", "from_pretrained", "model.safetensors", ("model", "pytorch_model"))
_ADAPTERS = _Saved("adapter", "PeftModel.from_pretrained", "adapter_model.safetensors", ("adapter_model",))
_STATE_DICT = _Saved("model", "torch.load", "pytorch_model.bin", ("model", "pytorch_model"))
LOSS_TOLERANCE = 1e-3  # relative, of losses that ranks on GPUs repeat
_GATHER = "Set `zero_optimization.stage3_gather_16bit_weights_on_model_save` to true."
_RECIPE = (
    f"{_GATHER[:-1]}, or recover the weights from the "
    "checkpoint: python zero_to_fp32.py CHECKPOINT_FOLDER OUTPUT_FOLDER (the script is in the checkpoint)."
)
_WITHOUT_NVME = (
    "The checkpoint does not contain the weights on NVMe. Save the model with "
    "`zero_optimization.stage3_gather_16bit_weights_on_model_save`."
)


def resume(expectation: Expectation, run: SmallRun) -> Iterator[Check]:
    """Whether a new process continues from the checkpoint."""
    offload = expectation.optimizer_offload
    key = offload.key if offload and offload.value == "nvme" else (expectation.stage.key if expectation.stage else None)
    requested = Requested("every tensor and the next losses, bitwise", key)
    if isinstance(run.resumed, Failure):
        status, what = ("error", "did not finish its") if run.resumed.stage is None else ("fail", "fails to")
        message = f"a new process {what} resume: {run.resumed.message}"
        yield Check("resume", status, key, requested.value, None, None, message)
        return
    lost = [
        name
        for before, after in zip(run.train, run.resumed, strict=True)
        for name, digest in before.fingerprint.items()
        if after.fingerprint.get(name) != digest
    ]
    whole = sum(len(one.fingerprint) for one in run.train)
    before = [step.loss for step in run.train[0].steps[run.steps :]]
    after = [step.loss for step in run.resumed[0].steps]
    are_bitwise = before == after or all(map(math.isnan, [*before, *after]))
    # Some kernels of a GPU have no deterministic form, and NCCL chooses its algorithm in each process again.
    are_close = run.mode == CUDA and len(before) == len(after) and _are_close(before, after)
    are_equal = len(before) == run.steps_after and (are_bitwise or are_close)
    rates = [step.learning_rates for step in run.train[0].steps[run.steps :]]
    resumed_rates = [step.learning_rates for step in run.resumed[0].steps]
    other = " and ".join(["losses"] * (not are_equal) + ["learning rates"] * (rates != resumed_rates))
    yield checked(
        "resume",
        requested,
        f"{whole - len(lost)} of {whole} tensors, losses {_exact(after)} instead of {_exact(before)}",
        not lost and are_equal and rates == resumed_rates,
        unit="tensors",
        kept=f"a new process restores all {whole} tensors of the checkpoint and repeats the next "
        f"{len(before)} losses {'bitwise' if are_bitwise else f'to {LOSS_TOLERANCE:.1%}, as a GPU allows'}",
        broken=f"a new process restores {whole - len(lost)} of {whole} tensors of the checkpoint"
        + f", and its next {other} differ" * bool(other),
        help=" ".join(
            filter(
                None,
                (
                    f'Set `{ZERO}.offload_optimizer.device` to "cpu" to resume. DeepSpeed does not restore NVMe states.'
                    * (offload is not None and offload.value == "nvme"),
                    f"Not restored: {', '.join(sorted(set(lost))[:3])}." * bool(lost),
                    f"The learning rates are {_firsts(resumed_rates)}, not {_firsts(rates)}."
                    * (rates != resumed_rates),
                ),
            )
        ),
    )


def _are_close(before: list[float], after: list[float]) -> bool:
    return all(math.isclose(one, other, rel_tol=LOSS_TOLERANCE) for one, other in zip(before, after, strict=True))


def _exact(losses: list[float]) -> str:
    """Losses with enough digits to show a difference of one bit."""
    return ", ".join(f"{loss:.9g}" for loss in losses)


def _firsts(rates: list[list[float]]) -> str:
    """The rates of the first parameter group."""
    return listed([of_groups[0] for of_groups in rates])


def export(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Whether the saved model is the trained one."""
    stage = expectation.stage.value if expectation.stage else 0
    of_stage = expectation.stage.key if expectation.stage else None
    key = of_stage if expectation.gathers else expectation.key(*GATHER) if expectation.is_written(*GATHER) else of_stage
    saved = _ADAPTERS if run.has_adapters else _MODEL if run.is_of_transformers else _STATE_DICT
    requested = Requested(f"{saved.loader} loads the trained {'adapter' if saved is _ADAPTERS else 'weights'}", key)
    exported = run.exported
    if (why := run.train[0].uncompared) is not None:
        yield skipped("export", key, why)
        return
    if isinstance(exported, str):
        message = f"the saved {saved.what} was not checked: {exported}"
        yield Check("export", "error", key, requested.value, None, None, message)
        return
    if exported.loaded is not None and not exported.empty and ranks_of_a_tensor(expectation.final) > 1:
        yield skipped(
            "export",
            key,
            f"the saved {saved.what} loads, but each rank holds only a part of every tensor to compare with",
        )
        return
    if saved is _MODEL and exported.loaded is None and is_split(expectation):
        yield Check(
            "export", "warn", key, requested.value, "a part of each tensor", None,
            "engine.save_16bit_model saves the part of each tensor that rank 0 has, and from_pretrained rejects it",
            "Gather the tensors of all ranks before saving, or save a checkpoint.",
        )  # fmt: skip
        return
    trained = run.trained_names
    live = {name: digest for name, digest in run.train[0].live.items() if saved is not _ADAPTERS or name in trained}
    loaded = exported.loaded or {}
    # A framework may save the fp32 weights themselves.
    masters = run.train[0].trained
    of_parts = _in_files_of_parts(exported) if saved is _STATE_DICT else {}
    wrong = sorted(
        name
        for name, digest in live.items()
        if loaded.get(name) not in (digest, masters.get(name, digest)) and not name.endswith(of_parts.get(digest, ()))
    )
    lost = sorted(set(exported.missing) & set(run.train[0].saved_buffers))
    if exported.loaded is not None and not wrong and not exported.empty and lost:
        yield Check(
            "export", "fail", key, requested.value, f"{len(lost)} are missing", None,
            f"the saved {saved.what} lacks {len(lost)} buffers of the model ({', '.join(lost[:3])}), so "
            f"{saved.loader} makes them up",
        )  # fmt: skip
        return
    is_kept = exported.loaded is not None and not wrong and not exported.empty
    yield checked(
        "export",
        requested,
        _seen(exported, wrong, len(live)),
        is_kept,
        kept=f"the saved {saved.what} loads with {saved.loader}, and all {len(live)} tensors equal the trained ones "
        "bitwise",
        broken=(_reshaped(saved, exported, live) if ranks_of_a_tensor(expectation.final) == 1 else "")
        or _nothing_to_load(saved, exported, wrong, stage, live, run.train[0].save_refusal),
        help=_to_save(expectation, exported, stage),
    )


def is_split(expectation: Expectation) -> bool:
    """Whether DeepSpeed's own loop saves parts of tensors: what ``save_16bit_model`` gathers is sharded by ZeRO-3."""
    return expectation.config.stack != "trainer" and ranks_of_a_tensor(expectation.final) > 1


def _reshaped(saved: _Saved, exported: Exported, live: dict[str, str]) -> str:
    """Tensors of the file whose shape is not that of the model, such as the share of a rank; empty if there are none.

    The exception of ``from_pretrained`` names none of them. Adapters have other names in their file.
    """
    shapes = {name: (_shape(exported.stored[name]), _shape(live[name])) for name in live if name in exported.stored}
    other = sorted(name for name, (stored, trained) in shapes.items() if stored and trained and stored != trained)
    if not other:
        return ""
    stored, trained = shapes[other[0]]
    return (
        f"{len(other)} of {len(live)} tensors of the saved {saved.what} have another shape than the trained ones: "
        f"{other[0]} is {stored}, not {trained}"
    )


def _in_another_dtype(exported: Exported, wrong: list[str], live: dict[str, str]) -> str:
    """What is wrong with tensors if all of them are saved in a dtype that rounds them; else empty."""
    pairs = {(exported.stored.get(name, "").partition(" ")[0], live[name].partition(" ")[0]) for name in wrong}
    if len(pairs) != 1:
        return ""
    (stored, trained) = pairs.pop()
    return f"are in {stored}, and the trained ones in {trained}" if stored and trained and stored != trained else ""


def _shape(digest: str) -> str:
    """The shape in a digest of ``probes.digest``; empty for a tensor without elements."""
    start, end = digest.find("["), digest.find("]")
    return digest[start : end + 1] if start >= 0 else ""


def _in_files_of_parts(exported: Exported) -> dict[str, tuple[str, ...]]:
    """The names in the files by the digest of their tensors, as ends of the names in the whole model.

    sentence-transformers saves each module of a model by itself, and some of them in a folder below.
    """
    names: dict[str, list[str]] = {}
    for name, digest in exported.stored.items():
        names.setdefault(digest, []).append(f".{name.rpartition('/')[2]}")
    return {digest: tuple(ends) for digest, ends in names.items()}


def _to_save(expectation: Expectation, exported: Exported, stage: int) -> str:
    """How to get weights that are not saved."""
    node = expectation.config.written.at((ZERO, "stage"))
    if exported.empty and node is not None and node.kind == "string":
        return f"Write the stage without quotes. Accelerate does not recognize {node.value!r} as stage 3. {_RECIPE}"
    if expectation.gathers:
        return ""
    # The Trainer gathers tensors of tensor parallelism; save_16bit_model of DeepSpeed gathers only at stage 3.
    is_gathered = ranks_of_a_tensor(expectation.final) > 1 and expectation.config.stack != "deepspeed"
    return _RECIPE if stage == 3 else _GATHER if is_gathered else ""


def _seen(exported: Exported, wrong: list[str], whole: int) -> str:
    if exported.empty:
        return f"{len(exported.empty)} empty tensors"
    return "nothing that loads" if exported.loaded is None else f"{whole - len(wrong)} of {whole} tensors"


def _nothing_to_load(
    saved: _Saved, exported: Exported, wrong: list[str], stage: int, live: dict[str, str], refusal: str | None
) -> str:
    whole = len(live)
    if refusal is not None:
        return f"accelerator.get_state_dict raises: {refusal.partition('. ')[0]}"
    weights = [name for name in exported.files if name.startswith(saved.starts)]
    if exported.empty:
        return f"the weights file holds {len(exported.empty)} empty tensors ({exported.empty[0]}), so it is unusable"
    if not weights:
        return (
            f"stage {stage} saves no weights that {saved.loader} can load: {saved.file} is missing"
            if stage == 3
            else ("no weights file was saved")
        )
    if exported.loaded is None:
        return f"the saved {saved.what} does not load: {exported.load_error}"
    if rounded := _in_another_dtype(exported, wrong, live):
        return f"{len(wrong)} of {whole} tensors of the saved {saved.what} {rounded}"
    made_up = [name for name in wrong if name in exported.missing]
    if made_up:
        return f"{len(made_up)} of {whole} tensors are missing from the saved {saved.what} ({', '.join(made_up[:3])})"
    differ = f"{len(wrong)} of {whole} tensors of the saved {saved.what} differ from the trained ones"
    return f"{differ} ({', '.join(wrong[:3])})"


def recovery(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Whether zero_to_fp32 recovers the weights of the ranks."""
    if expectation.stage is None or expectation.stage.value == 0:
        return
    if (why := run.train[0].uncompared) is not None:
        yield skipped("recovery", expectation.stage.key, why)
        return
    if isinstance(run.exported, str):
        return
    if run.engine.stage == 0:
        yield skipped("recovery", expectation.stage.key, "without ZeRO there are no partitions to recover weights from")
        return
    recovered = run.exported.recovered
    updated, every = run.trained_names, run.train[0].trained
    saves_frozen = keeps_frozen(expectation.config.stack, has_adapters=run.has_adapters)
    trained = every if saves_frozen else {name: every[name] for name in every if name in updated}
    wrong = [name for name, digest in trained.items() if digest not in (recovered or {}).get(name, ())]
    offload = expectation.optimizer_offload
    is_swapped = offload is not None and offload.value == "nvme" and (recovered is None or bool(wrong))
    if recovered is not None and wrong and not any(name in recovered for name in wrong) and updated.isdisjoint(wrong):
        yield _without_frozen(expectation, len(trained), len(wrong))
        return
    yield checked(
        "recovery",
        Requested(
            "zero_to_fp32 recovers the weights", offload.key if offload and is_swapped else expectation.stage.key
        ),
        f"{len(trained) - len(wrong)} of {len(trained)} tensors",
        recovered is not None and not wrong,
        unit="tensors",
        bad="warn" if ranks_of_a_tensor(expectation.final) > 1 else "fail",  # it knows no parts of tensors
        kept=f"zero_to_fp32 recovers all {len(trained)} {'' if saves_frozen else 'trained '}tensors from the "
        "checkpoint, bitwise"
        + ("" if saves_frozen else "; the Trainer saves no frozen weights with the adapter of a model"),
        broken=f"zero_to_fp32 recovers {len(trained) - len(wrong)} of {len(trained)} tensors from the checkpoint"
        + (f": {run.exported.recovery_error}" if run.exported.recovery_error else ", and wrong values for the others"),
        help=_WITHOUT_NVME if is_swapped else "",
    )


def _without_frozen(expectation: Expectation, whole: int, missing: int) -> Check:
    """All that was trained is recovered, but what was frozen is not there.

    Source: ``_save_checkpoint`` in deepspeed/runtime/engine.py records frozen weights only from stage 2 on.
    """
    key = expectation.stage.key if expectation.stage is not None else None
    return Check(
        "recovery",
        "warn",
        key,
        "zero_to_fp32 recovers the weights",
        f"{whole - missing} of {whole} tensors",
        "tensors",
        f"zero_to_fp32 recovers the {whole - missing} trained tensors and silently leaves out {missing} frozen ones",
        f"Set `{ZERO}.stage` to 2, or load the recovered weights into the base model with strict=False.",
    )
