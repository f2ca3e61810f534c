"""The memory and the time that the user's script takes on one rank, phase by phase.

A phase begins where the last one ends, so that nothing is between them: passes and steps of an engine, what ds-lint
itself does, and the script. The peaks of torch and of the kernel are read and reset at each border, which takes less
than 0.1 ms.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import OF_DS_LINT, OF_INITIALIZE, OF_SCRIPT
from ds_lint.smoke.probe.communication import CommunicationProfile
from ds_lint.smoke.records.engine_trace import Length, Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.records.job import Evidence

_STATUS, _REFERENCES = "/proc/self/status", "/proc/self/clear_refs"
_RESETS_PEAK = "5"  # CLEAR_REFS_MM_HIWATER_RSS in fs/proc/task_mmu.c of Linux
_KIB = 1024
_SWAPPED = ".tensor.swp"  # the files of DeepSpeed on NVMe


class Meter:
    """Measures a process: one phase at a time, of one of its engines."""

    def __init__(self) -> None:
        self._of: Measured | None = None
        self._phase, self._step = OF_SCRIPT, 0
        self._since = time.perf_counter()
        self._resets = _can_reset()

    def enter(self, of: Measured, phase: str, step: int) -> tuple[str, int]:
        """A phase begins, and the one before ends; that is returned. ``step`` is the one being made, from 1."""
        before = (self._phase, self._step)
        now = time.perf_counter()
        if self._of is not None:
            self._of.is_host_sampled = not self._resets
            moment = self._of.moment(self._phase, self._step)
            moment.seconds += now - self._since
            moment.host_bytes = max(moment.host_bytes, _resident(peak=self._resets))
            if torch.cuda.is_initialized():
                moment.gpu_bytes = max(moment.gpu_bytes or 0, torch.cuda.max_memory_allocated())
                moment.gpu_reserved = max(moment.gpu_reserved or 0, torch.cuda.max_memory_reserved())
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()
        if self._resets:
            _reset()
        self._of, self._phase, self._step, self._since = of, phase, step, now
        return before


def _resident(*, peak: bool) -> int:
    """Bytes of memory that this process takes: the most since the last reset, or now; 0 where no kernel tells."""
    name = "VmHWM:" if peak else "VmRSS:"
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * _KIB for line in file if line.startswith(name)), 0)
    except OSError:
        return 0


def _reset() -> None:
    with open(_REFERENCES, "w", encoding="ascii") as file:
        file.write(_RESETS_PEAK)


def _can_reset() -> bool:
    try:
        _reset()
    except OSError:
        return False
    return True


_process = Meter()  # its memory is that of all engines


class EngineMeter:
    """Measures one engine, from its initialization on."""

    def __init__(self) -> None:
        self.measured = Measured()
        self._step = 0  # the one being made, from 1
        self._began = time.time()
        self._profile: CommunicationProfile | None = None
        _process.enter(self.measured, OF_INITIALIZE, 0)

    def enter(self, phase: str) -> None:
        """A phase begins."""
        _process.enter(self.measured, phase, self._step)

    def begin_step(self) -> None:
        """The script goes on to the next step."""
        self._step += 1
        self.enter(OF_SCRIPT)

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """A phase within another one, which goes on afterwards."""
        outer, its_step = _process.enter(self.measured, phase, self._step)
        try:
            yield
        finally:
            _process.enter(self.measured, outer, its_step)

    def measuring(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is a phase."""

        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.during(phase):
                return call(*args, **kwargs)

        return measured

    def begin_profile(self) -> None:
        """How long the collectives of this step take is measured too."""
        if self._profile is None:
            self._profile = CommunicationProfile(self._step)

    def end_profile(self) -> None:
        """The step is over."""
        if self._profile is not None and self.measured.communicated is None:
            self.measured.communicated = self._profile.end()

    def at_checkpoint(self, engine: Any, evidence: Evidence, trainer: Any) -> None:
        """What the rank has taken up to the checkpoint, on the GPU and on NVMe; all ranks take part."""
        if torch.device(engine.device).type == "cuda":  # torch's own peak is that since the last phase began
            evidence.peak_bytes = max(one.gpu_bytes or 0 for one in self.measured.moments if one.phase != OF_DS_LINT)
        self.measured.nvme_bytes = swapped_bytes(engine, evidence.rank, self._began)
        evidence.swapped_bytes = of_all_ranks(self.measured.nvme_bytes, engine.device)
        self.measured.length = length_of(engine, trainer)


def finish_kernels() -> None:
    """Wait for the GPU, so that the time of a step is its own."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def tokens_in(args: Any, kwargs: Any) -> int:
    """The tokens of a micro batch with their padding; 0 if the model gets no ``input_ids``."""
    for one in (kwargs, *args):
        found: Any = one.get("input_ids") if hasattr(one, "get") else None
        if torch.is_tensor(found):
            return int(found.numel())
    return 0


def length_of(engine: Any, trainer: Any) -> Length | None:
    """How long the whole training is, as the Trainer or DeepSpeed's own data loader has it; None if neither tells."""
    state: Any = getattr(trainer, "state", None)
    if getattr(state, "max_steps", 0) > 0:
        args = trainer.args
        epochs = args.num_train_epochs if args.max_steps <= 0 else None  # else they do not count
        return Length(
            steps=state.max_steps,
            steps_of_epoch=round(state.max_steps / epochs) if epochs else None,
            saves=str(getattr(args.save_strategy, "value", args.save_strategy)),
            save_steps=state.save_steps,
            kept_checkpoints=args.save_total_limit,
        )
    loader = getattr(engine, "training_dataloader", None)
    if loader is None or not hasattr(loader, "__len__"):
        return None
    return Length(steps_of_epoch=len(loader) // max(1, engine.gradient_accumulation_steps()))


def swapped_bytes(engine: Any, rank: int, since: float) -> int:
    """The bytes that this rank has on NVMe, in files as new as the run: those of another run may lie beside them.

    The engine has the folder that the probe has set (``swap.py``). Each rank has folders of its own below it,
    ``zero_stage_3/*/rank0``: runtime/swap_tensor.
    """
    sections = (engine.zero_offload_optimizer(), engine.zero_offload_param())
    roots = {str(one.nvme_path) for one in sections if one is not None and one.nvme_path is not None}
    return sum(
        status.st_size
        for root in roots
        for parent, _, names in os.walk(os.path.join(root, "zero_stage_3"))
        if f"rank{rank}" in parent.split(os.sep)
        for name in names
        if name.endswith(_SWAPPED) and (status := os.stat(os.path.join(parent, name))).st_mtime >= since
    )


def of_all_ranks(number: int, device: Any) -> int:
    """The sum over all ranks, which take part."""
    total = torch.tensor(number, dtype=torch.int64, device=device)
    torch.distributed.all_reduce(total)
    return int(total)
