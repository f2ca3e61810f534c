"""Whether a checkpoint resumes on a number of ranks, and what has to be run before."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ds_lint.checkpoints.record import ResumeAnswer
from ds_lint.targets.releases import numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.checkpoints.record import EngineState, SavedFolder
    from ds_lint.checkpoints.resumed_config import ConfigDifference

_LOADS_CLASSES = "0.16.0"  # of DeepSpeed, which calls torch.load with weights_only=False since
_REFUSES_CLASSES = "2.6"  # of torch, whose torch.load has weights_only=True since
_CONVERTED = {"exp_avg", "exp_avg_sq"}  # what ds_to_universal looks for


def answer(
    saved: SavedFolder,
    path: str,
    world_size: int | None,
    torch: str | None,
    differences: Sequence[ConfigDifference] = (),
) -> ResumeAnswer | None:
    """Whether it resumes; None if it cannot, as weights alone, and nothing was asked."""
    given = _answer(saved, path, world_size, torch)
    raising = next((one for one in differences if one.raises), None)
    if raising is None or (given is not None and given.status == "no" and saved.partition != "none"):
        return given
    ranks = world_size or _written_by(saved)
    if raising.key == "checkpoint.load_universal" and saved.kind == "deepspeed" and saved.engine is not None:
        if (obstacle := _obstacle(saved.engine)) is None:
            return ResumeAnswer(ranks, "convert", raising.text, command(saved, saved.engine, path))
        return ResumeAnswer(ranks, "no", f"{raising.text}; ds_to_universal does not convert it: {obstacle}")
    return ResumeAnswer(ranks, "no", raising.text)


def _answer(saved: SavedFolder, path: str, world_size: int | None, torch: str | None) -> ResumeAnswer | None:
    if world_size is None and saved.partition == "none" and not saved.failures:
        return None
    ranks = world_size or _written_by(saved)
    if saved.partition == "none" and world_size is None:
        return None
    if saved.failures:
        more = f" (and {len(saved.failures) - 1} more)" if len(saved.failures) > 1 else ""
        return ResumeAnswer(ranks, "no", f"{saved.failures[0]}{more}")
    if saved.mistakes:
        return ResumeAnswer(ranks, "no", saved.mistakes[0])
    if saved.partition == "none":
        return ResumeAnswer(ranks, "no", saved.why_none)
    if saved.partition is None:
        return None
    if saved.engine is not None:
        return _of_engine(saved, saved.engine, path, ranks, torch)
    if saved.partition == "same" and ranks != saved.ranks:
        return ResumeAnswer(ranks, "no", f"saved by {_ranks(saved.ranks)}, each of which loads its own file")
    of = f"saved by {_ranks(saved.ranks)}; " if saved.ranks else ""
    return ResumeAnswer(ranks, "yes", f"{of}it loads on any number of ranks")


def _written_by(saved: SavedFolder) -> int | None:
    engine = saved.engine
    if engine is not None and saved.kind != "universal" and engine.data_ranks is not None:
        return engine.data_ranks * engine.model_ranks
    return saved.ranks


def _of_engine(
    saved: SavedFolder, engine: EngineState, path: str, ranks: int | None, torch: str | None
) -> ResumeAnswer:
    if (why := _frozen_left_out(saved, engine)) is not None:
        return ResumeAnswer(ranks, "no", why)
    if ranks is not None and ranks % engine.model_ranks and saved.kind != "universal":
        return ResumeAnswer(ranks, "no", f"{_layout(engine)}, and {ranks} ranks are not a multiple of them")
    if saved.kind == "universal":
        why = "a universal checkpoint loads on any number of ranks, with `checkpoint.load_universal` set to true"
        return ResumeAnswer(ranks, "yes", f"{why}{_on_torch(saved, torch)}")
    written = engine.data_ranks
    data = ranks // engine.model_ranks if ranks is not None else None
    if saved.stage == 0 and not engine.has_partitions:
        of = "the files serve any number of ranks with as many for each expert" if engine.has_experts else (
            "one file serves any number of ranks")  # fmt: skip
        why = f"saved by {_ranks(written)} at stage 0: {of}"
        return ResumeAnswer(ranks, "yes", why)
    if data == written or data is None:
        if torch is not None and _refuses(saved, torch):
            return ResumeAnswer(ranks, "no", _unpickling(saved, torch))
        return ResumeAnswer(ranks, "yes", f"{_same(saved, engine)}{_on_torch(saved, torch)}{_noted(saved)}")
    return _converted(saved, engine, path, ranks)


def _same(saved: SavedFolder, engine: EngineState) -> str:
    if engine.is_pipeline or engine.model_ranks > 1:
        return f"{_layout(engine)} and {_ranks(engine.data_ranks, 'data rank')}; it loads on the same world size"
    return f"saved by {_ranks(engine.data_ranks)} at ZeRO stage {saved.stage}; it loads on the same world size"


def _noted(saved: SavedFolder) -> str:
    """What else is in the folder, which the ranks do not read."""
    odd = [
        note for note in saved.notes if any(words in note for words in ("from another", "from a run", "not read it"))
    ]
    return f"; {odd[0]}" if odd else ""


def _layout(engine: EngineState) -> str:
    of = "stages of a pipeline" if engine.is_pipeline else "model-parallel ranks"
    return f"saved by {engine.model_ranks} {of}"


def _frozen_left_out(saved: SavedFolder, engine: EngineState) -> str | None:
    if not engine.leaves_frozen_out or saved.writer.get("program") == "Trainer" or saved.kind == "universal":
        return None
    return (
        "the frozen weights are left out (exclude_frozen_parameters=True): load_checkpoint() raises RuntimeError, "
        "Missing key(s) in state_dict, unless load_module_strict=False"
    )


def _converted(saved: SavedFolder, engine: EngineState, path: str, ranks: int | None) -> ResumeAnswer:
    data = (ranks or 0) // engine.model_ranks
    raised = (
        "RuntimeError: The size of tensor a must match the size of tensor b"
        if engine.partitions_frozen
        else f"ZeRORuntimeException: used a DP world size of {engine.data_ranks} but the current world size is {data}"
    )
    written = _layout(engine) if engine.model_ranks > 1 else f"saved by {_ranks(engine.data_ranks)}"
    why = f"{written} at ZeRO stage {saved.stage}, and on {_ranks(ranks)} load_checkpoint() raises {raised}"
    if (obstacle := _obstacle(engine)) is not None:
        return ResumeAnswer(ranks, "no", f"{why}; ds_to_universal does not convert it: {obstacle}")
    step = "; convert it to a universal checkpoint and set `checkpoint.load_universal` to true"
    return ResumeAnswer(ranks, "convert", why + step, command(saved, engine, path))


def _obstacle(engine: EngineState) -> str | None:
    """Why ds_to_universal raises."""
    if engine.is_elastic:
        return "its states are of an elastic checkpoint"
    if engine.has_experts and not engine.has_autoep:
        return "with the experts of deepspeed.moe it raises RuntimeError: shape is invalid for input"
    if engine.moments is not None and not engine.moments >= _CONVERTED:
        kept = ", ".join(sorted(engine.moments)) or "nothing"
        return f"it looks for exp_avg and exp_avg_sq, and the optimizer has {kept}"
    return None


def command(saved: SavedFolder, engine: EngineState, path: str) -> str:
    """The command that makes a universal checkpoint."""
    source = "/".join(one for one in (path.rstrip("/"), engine.folder, engine.tag) if one)
    words = ["python", "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", source]
    words += ["--output_folder", f"{source}_universal"]
    if (saved.stage or 0) < 3 and not engine.has_universal_information:
        words.append("--inject_missing_state")
    return shlex.join(words)


def _refuses(saved: SavedFolder, torch: str | None) -> bool:
    """Whether torch refuses the classes in the files of a release that does not ask for them."""
    release = saved.writer.get("deepspeed")
    is_old = release is not None and _is_before(release, _LOADS_CLASSES) and bool(saved.stage)
    return is_old and (torch is None or not _is_before(torch, _REFUSES_CLASSES))


def _is_before(release: str, other: str) -> bool:
    """Whether a release is older than another; one that is not understood is not."""
    first, second = numbers_of(release.partition("+")[0]), numbers_of(other)
    return first is not None and second is not None and first < second


def _unpickling(saved: SavedFolder, torch: str) -> str:
    return (
        f"with torch {torch}, torch.load reads weights_only, and DeepSpeed {saved.writer['deepspeed']} raises "
        f"UnpicklingError: resume with torch before {_REFUSES_CLASSES}, or with DeepSpeed {_LOADS_CLASSES} or newer"
    )


def _on_torch(saved: SavedFolder, torch: str | None) -> str:
    if not _refuses(saved, None):
        return ""
    if torch is not None:
        return "" if _refuses(saved, torch) else f"; torch {torch} does not read weights_only by itself"
    return (
        f"; with torch {_REFUSES_CLASSES} and newer, DeepSpeed {saved.writer['deepspeed']} raises UnpicklingError "
        "(weights_only)"
    )


def _ranks(count: int | None, what: str = "rank") -> str:
    return f"an unknown number of {what}s" if count is None else f"{count} {what}{'' if count == 1 else 's'}"
