"""``ds-lint checkpoint`` for people: what the folder holds, what is broken in it, and whether it resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.output.terminal import QUIET, SEVERITY, STRONG
from ds_lint.output.text import counted, visible, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.checkpoints.record import ResumeAnswer, SavedFolder
    from ds_lint.output.terminal import Terminal

_MOST = 20  # lines of one sort; --output-format json has all
_NAMES = {
    "deepspeed": "DeepSpeed",
    "universal": "universal checkpoint of DeepSpeed",
    "fsdp": "FSDP",
    "peft": "adapter of peft",
    "safetensors": "weights in safetensors",
    "weights": "weights",
    "lightning": "Lightning",
    "megatron": "Megatron-LM",
    "trainer": "Trainer without DeepSpeed",
    "accelerate": "Accelerate without DeepSpeed",
    "pytorch": "files of torch.save",
    "unknown": "no known checkpoint",
}
_LIBRARIES = {"deepspeed": "DeepSpeed", "transformers": "transformers", "lightning": "Lightning", "program": "by"}
_ANSWERS = {
    "yes": ("resumes", SEVERITY["info"]),
    "convert": ("resumes after a conversion", SEVERITY["warning"]),
    "no": ("does not resume", SEVERITY["error"]),
}


def lines(
    path: str, saved: SavedFolder, answer: ResumeAnswer | None, differences: list[str], terminal: Terminal
) -> Iterator[str]:
    """The text."""
    yield terminal.paint(visible(f"{path}: {', '.join(_heading(saved))}"), STRONG)
    for line in _contents(saved):
        yield f"  {visible(line)}"
    yield from _listed("broken", [*saved.failures, *saved.mistakes], SEVERITY["error"], terminal)
    broken = [f"{one.path} is {one.status}" for one in saved.files if one.status != "ok"]
    reported = "\n".join((*saved.failures, *saved.notes)).replace("`", "")
    yield from _listed("broken", [one for one in broken if one not in reported], SEVERITY["warning"], terminal)
    yield from _listed("config", differences, SEVERITY["warning"], terminal)
    yield from _listed("note", saved.notes, SEVERITY["info"], terminal)
    if answer is not None:
        yield from _verdict(answer, terminal)


def _heading(saved: SavedFolder) -> Iterator[str]:
    yield _NAMES.get(saved.kind, saved.kind)
    if saved.stage is not None:
        yield f"ZeRO stage {saved.stage}"
    engine = saved.engine
    if saved.ranks is not None:
        yield counted(saved.ranks, "rank")
    elif engine is not None and engine.data_ranks is not None and saved.kind == "deepspeed":
        of = "stages of a pipeline" if engine.is_pipeline else "model-parallel ranks"
        yield f"{counted(engine.data_ranks, 'data rank')} and {engine.model_ranks} {of}"
    for name, release in saved.writer.items():
        yield f"{_LIBRARIES.get(name, name)} {'the ' if release == 'Trainer' else ''}{release}"


def _contents(saved: SavedFolder) -> Iterator[str]:
    whole = sum(file.status == "ok" for file in saved.files)
    number = f"{counted(len(saved.files), 'file')}, {'all' if whole == len(saved.files) else whole} whole"
    if saved.engine is not None and saved.engine.tag:
        number += f"; tag {saved.engine.tag}"
    yield number
    if saved.tensors.elements is not None:
        sizes = [f"{count:,} {dtype}" for dtype, count in saved.tensors.dtypes.items()]
        yield f"elements of the model: {', '.join(sizes)}"


def _listed(label: str, texts: list[str], style: str, terminal: Terminal) -> Iterator[str]:
    for text in texts[:_MOST]:
        first, *rest = wrap(f"{label}: {visible(text)}", terminal.width, taken=2, indent=4)
        yield f"  {terminal.paint(label, style)}{first[len(label) :]}"
        yield from rest
    if len(texts) > _MOST:
        yield terminal.paint(f"  and {len(texts) - _MOST} more; --output-format json has all", QUIET)


def _verdict(answer: ResumeAnswer, terminal: Terminal) -> Iterator[str]:
    words, style = _ANSWERS[answer.status]
    on = f" on {counted(answer.world_size, 'rank')}" if answer.world_size is not None else ""
    first, *rest = wrap(f"{words}{on}: {visible(answer.why)}", terminal.width, taken=0, indent=2)
    yield terminal.paint(first[: len(words)], style) + first[len(words) :]
    yield from rest
    if answer.command is not None:
        yield f"  {visible(answer.command)}"  # never wrapped: to be copied
