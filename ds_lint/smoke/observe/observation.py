"""Observes the engine in the accumulation window, and before and after each step.

``DeepSpeedEngine`` is watched as a class, because under the Trainer Accelerate calls it from within its own backward.
"""

from __future__ import annotations

import contextlib
import math
import os
import types
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import torch
from deepspeed.runtime.engine import DeepSpeedEngine

from ds_lint.diagnostics.verdict import CUDA, Held, Step
from ds_lint.smoke.observe import census, probes, whole_weights
from ds_lint.smoke.observe.layers import Layers
from ds_lint.smoke.observe.tensors import tensors_in
from ds_lint.smoke.observe.tied import tied
from ds_lint.smoke.records.job import TRAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.records.job import Evidence, Job

GB = 10**9
# Bytes of the weights of a model. Of 8 billion parameters in 16 bit, with their fp32 weights, rank 0 digests 48 GB:
# half a minute at 1.5 GB/s of SHA-1. A process of its own loads 16 GB of the saved model and 32 GB of the checkpoint.
MOST_WHOLE = 16 * GB


class Watch:
    """Fills the evidence of one rank while its engine trains."""

    def __init__(
        self,
        part: str,
        evidence: Evidence,
        enter: Callable[[str], None],
        recording: StepRecording | None,
        *,
        job: Job | None = None,
    ) -> None:
        self.job = job  # None: in the user's own script, which may keep tensors of its own
        self.evidence = evidence
        self.enter = enter  # says which phase the rank is in
        self.losses: list[float] = []  # of the micro steps of this window
        self._samples: list[int] = []
        self._squares = 0.0
        self._is_optimizer_watched = False
        self._layers: Layers | None = None
        self._rates: dict[int, Any] = {}  # by parameter group, of the optimizer step that is made
        self._skipped = 0
        self._frozen: dict[str, str] | None = None  # digests before the first step
        self._inputs: set[tuple[torch.dtype, torch.Size]] = set()
        self.recording = recording
        self.is_over = False  # what the engine does from now on is not about the training
        self.engine: Callable[[], Any] = lambda: None  # a weak reference to it, so that the census looks elsewhere
        self._part = part

    def forward(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A forward pass of the engine."""
        self.engine = weakref.ref(engine)
        given = list(tensors_in((args, kwargs)))
        self._samples.append(next((len(one) for one in given if one.dim()), 0))
        self._inputs.update((one.dtype, one.shape) for one in given)
        self._note_frozen(engine)
        if self.recording is not None:
            self.recording.before_forward()
        outputs = self._watching_layers(engine, lambda: call(engine, *args, **kwargs))
        if self.recording is not None:
            self.recording.saw_forward(engine, kwargs, outputs)
        return outputs

    def backward(self, engine: Any, loss: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """The backward pass of a micro step."""
        self.begins_backward(engine, float(loss.detach().float().mean()))
        with self._watching_scaling(engine, loss, args, kwargs):
            answer = call(engine, loss, *args, **kwargs)
        self.ends_backward(engine)
        return answer

    def begins_backward(self, engine: Any, loss: float) -> None:
        """The backward pass of a micro step begins, whoever makes it."""
        self._note_frozen(engine)
        self.losses.append(loss)
        if self.recording is not None:
            self.recording.saw_backward(engine)

    def ends_backward(self, engine: Any) -> None:
        """All its gradients are computed."""
        self._note_layers()
        self._look_at_gradients(engine)

    def step(self, engine: Any, call: Callable[[], Any], *, is_whole: bool) -> Any:
        """A call of the engine's ``step``; it is whole if the optimizer makes one."""
        self._note_frozen(engine)
        self._watch_optimizer(engine, probes.inner_optimizer(engine))
        is_seen = self.evidence.held_in_window is not None or "gradients" in self.evidence.held
        if is_whole and self.losses and not is_seen:  # they are reduced after the backward passes
            self._look_at_gradients(engine)
        if is_whole and self.recording is not None:
            self.recording.before_step(engine)
        groups = list(probes.inner_optimizer(engine).param_groups)
        before = [_rate_now(group) for group in groups]
        frozen = probes.frozen(engine) if is_whole and not self.evidence.steps else {}
        answer = call()
        self._note_moved(engine, frozen)
        if is_whole:  # a rate that is not a number has stopped the step; a skipped step calls no optimizer
            rates = [self._rates.get(id(group), rate) for group, rate in zip(groups, before, strict=True)]
            self._note_step(engine, [float(rate) for rate in rates])
        return answer

    def _note_frozen(self, engine: Any) -> None:
        """Before the first step; a script that calls ``engine.module`` shows no forward pass."""
        if self._frozen is None:
            self._frozen = probes.frozen(engine)

    def _note_moved(self, engine: Any, frozen: dict[str, str]) -> None:
        """Which of these change in a step of the engine itself; the script may change others, such as a teacher."""
        now = probes.frozen(engine) if frozen else {}
        self.evidence.moved_in_step += sorted(name for name in frozen if name in now and now[name] != frozen[name])

    def built(self, model: Any) -> None:
        """Record what a model is before an engine has it: which names are one tensor, and the size of its buffers."""
        self.evidence.tied = tied(model)
        self.evidence.model_buffers = sum(buffer.numel() for buffer in model.buffers())
        self.evidence.saved_buffers = sorted(model.state_dict().keys() & {name for name, _ in model.named_buffers()})

    def _watching_layers(self, engine: Any, forward: Callable[[], Any]) -> Any:
        """A forward pass; in the first one and the backward pass after it, the layers are watched."""
        if self._layers is not None or self._part != TRAIN:
            return forward()
        self._layers = Layers()
        self._layers.begin(engine.module)
        outputs = forward()
        self._layers.turn()
        return outputs

    def _note_layers(self) -> None:
        """Record what the layers did, once."""
        if self._layers is None or self.evidence.layers is not None:
            return
        self._layers.end()
        self.evidence.layers, self.evidence.recomputed = list(self._layers.names), self._layers.recomputed
        self.evidence.dtypes["linear layers"] = sorted(self._layers.dtypes)

    @contextlib.contextmanager
    def _watching_scaling(self, engine: Any, loss: Any, args: Any, kwargs: dict[str, object]) -> Iterator[None]:
        """Record the factor of the loss before its gradients are computed, times the micro steps that divide it."""
        if args or not loss.requires_grad or loss.numel() != 1:
            yield
            return
        scale = probes.loss_scale(engine)
        windows = engine.gradient_accumulation_steps() if kwargs.get("scale_wrt_gas", True) else 1

        def note(factor: torch.Tensor) -> None:
            applied = float(factor) * windows
            if scale is None:
                self.evidence.divisions.append(applied)
            else:
                self.evidence.scalings.append((applied, scale))

        handle = loss.register_hook(note)
        try:
            yield
        finally:
            handle.remove()  # the loss may be a part of the next one

    def _watch_optimizer(self, engine: Any, optimizer: Any) -> None:
        """Record the gradients of the optimizer step; ZeRO-3 calls it once for each group of parameters."""
        if self._is_optimizer_watched:
            return
        self._is_optimizer_watched = True
        step = optimizer.step

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._squares += probes.squared_norm(optimizer)
            # What the step is made with: a schedule may change the rates within the engine's own step.
            self._rates.update({id(group): _rate_now(group) for group in optimizer.param_groups})
            begun = self.recording.before_update(engine, optimizer) if self.recording is not None else None
            answer = step(*args, **kwargs)
            if self.recording is not None:
                self.recording.after_update(begun)
            return answer

        optimizer.step = types.MethodType(lambda _self, *args, **kwargs: watched(*args, **kwargs), optimizer)

    def _look_at_gradients(self, engine: Any) -> None:
        if self.evidence.steps or probes.is_coalescing(engine):  # once is enough, and they are reduced later
            return
        self.evidence.secondary_elements = probes.secondary_elements(engine)
        if engine.is_gradient_accumulation_boundary():
            self._keep("gradients", probes.gradients(engine))
        elif self.evidence.held_in_window is None:
            self.evidence.held_in_window = probes.gradients_in_window(engine).held
            self._look_at_storages(engine)

    def _look_at_storages(self, engine: Any) -> None:
        """What a rank keeps between two micro steps beside what it should, such as gradients in another place."""
        if self.job is None:
            return
        found = census.settled(engine, self._inputs, ours=self)
        self.evidence.unknown_in_window = found.held.get("unknown", Held(0, 0))
        if self.evidence.unknown_in_window.bytes > census.SCALARS:
            self.evidence.storages_in_window = found.unknown

    def _note_step(self, engine: Any, rates: list[float]) -> None:
        norm = engine.get_global_grad_norm()
        is_skipped = engine.skipped_steps > self._skipped
        if not is_skipped:
            self.evidence.squared_norms.append(self._squares)
        if self.recording is not None:
            self.recording.saw_step(engine, norm=None if norm is None else float(norm), is_skipped=is_skipped)
        self.evidence.samples.append(self._samples)
        self._samples, self._squares = [], 0.0
        self.evidence.steps.append(
            Step(
                loss=math.fsum(self.losses) / len(self.losses) if self.losses else math.nan,
                learning_rates=rates,
                loss_scale=probes.loss_scale(engine),
                gradient_norm=float(norm) if norm is not None else None,
                is_skipped=is_skipped,
            )
        )
        self.losses, self._skipped, self._rates = [], engine.skipped_steps, {}

    def finish(self) -> None:
        """The last step is over."""
        if self.recording is not None:
            self.recording.save()
        self.recording, self.is_over = None, True

    def at_checkpoint(self, engine: Any) -> None:
        """The evidence after the steps before the checkpoint."""
        evidence = self.evidence
        self.measure(engine)
        evidence.tied_after = tied(engine.module)
        before, now = self._frozen or {}, probes.frozen(engine)
        evidence.frozen = sorted(before)
        evidence.moved = sorted(name for name in before if name in now and now[name] != before[name])
        if self.job is None:
            evidence.storages = census.Census(engine, self._inputs, ours=self).held
            evidence.copies = probes.copies(engine)
        else:
            found = census.settled(engine, self._inputs, ours=self)
            evidence.storages, evidence.unknown_storages = found.held, found.unknown
            if self.job.mode == CUDA:
                evidence.peak_bytes = torch.cuda.max_memory_allocated()
            evidence.swapped_bytes = probes.swapped_bytes(os.path.join(self.job.folder, "nvme"))
        evidence.fingerprint = probes.fingerprint(engine)
        if self.job is None and (size := whole_weights.bytes_of(engine)) > MOST_WHOLE:
            evidence.uncompared = (
                f"the model has {size / GB:,.0f} GB of weights, and ds-lint compares up to {MOST_WHOLE / GB:,.0f} GB "
                "of whole weights with saved ones"
            )
            return
        evidence.live, evidence.trained = whole_weights.digests(engine, is_kept=evidence.rank == 0)

    def measure(self, engine: Any) -> None:
        """The settings of the engine, and what this rank holds."""
        self.enter("measure")
        self.evidence.engine = probes.describe(engine)
        self._regroup(probes.shapes_of_muon(engine))
        for kind, holding in probes.holdings(engine).items():
            self._keep(kind, holding)
        if getattr(engine.module, "peft_config", None):
            self.evidence.dtypes["parameters"] = probes.dtypes_of(engine, is_trained=False)
            self.evidence.dtypes["adapters"] = probes.dtypes_of(engine, is_trained=True)
        self.evidence.can_generate = bool(getattr(engine.module, "can_generate", bool)())
        self.evidence.persistent_elements = probes.persistent_elements(engine)

    def _regroup(self, of_muon: dict[str, tuple[int, ...]]) -> None:
        """Put what Muon updates into groups of its own, the largest shapes first.

        Sources: ``_muon_param_groups`` in deepspeed/runtime/engine.py, ``MuonWithAuxAdam`` in
        deepspeed/runtime/zero/muon/original_muon.py.
        """
        for parameter in self.evidence.parameters:
            parameter.group = 2 * parameter.group + (parameter.name in of_muon)
        self.evidence.parameters.sort(key=lambda parameter: of_muon.get(parameter.name, ()), reverse=True)

    def resumed(self, engine: Any) -> None:
        """What the rank holds after a checkpoint was loaded."""
        self.evidence.fingerprint = probes.fingerprint(engine)

    def _keep(self, kind: str, holding: probes.Holding) -> None:
        self.evidence.held[kind] = holding.held
        self.evidence.dtypes[kind] = sorted(holding.dtypes)
        self.evidence.devices[kind] = sorted(holding.devices)


class StepRecording(Protocol):
    """What takes notes of the tensors of a step."""

    def before_forward(self) -> None:
        """A forward pass is about to be made."""

    def saw_forward(self, engine: Any, inputs: dict[str, Any], outputs: Any, /) -> None:
        """A forward pass is made."""

    def saw_backward(self, engine: Any) -> None:
        """A backward pass is about to be made."""

    def before_step(self, engine: Any) -> None:
        """The step of a whole window begins."""

    def before_update(self, engine: Any, optimizer: Any) -> Any:
        """The optimizer is about to make its step, or a part of it; what it returns goes to ``after_update``."""

    def after_update(self, begun: Any) -> None:
        """The optimizer has made it."""

    def saw_step(self, engine: Any, *, norm: float | None, is_skipped: bool) -> None:
        """The step is over."""

    def save(self) -> None:
        """The last step is over."""


class Observer(Protocol):
    """Is called in place of the methods of an engine, and calls them."""

    def forward(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A forward pass."""

    def backward(self, engine: Any, loss: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A backward pass."""

    def step(self, engine: Any, call: Callable[[], Any], *, is_whole: bool) -> Any:
        """A step."""


def observe_engines(find: Callable[[Any], Observer | None]) -> None:
    """Tell the observer of each engine of its calls, from now on; those of an engine without one go their own way."""
    forward, backward, step = DeepSpeedEngine.forward, DeepSpeedEngine.backward, DeepSpeedEngine.step

    def observed_forward(engine: Any, *args: Any, **kwargs: Any) -> Any:
        observer = find(engine)
        if observer is None:
            return forward(engine, *args, **kwargs)
        return observer.forward(engine, args, kwargs, forward)

    def observed_backward(engine: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        observer = find(engine)
        if observer is None:
            return backward(engine, loss, *args, **kwargs)
        return observer.backward(engine, loss, args, kwargs, backward)

    def observed_step(engine: Any, *args: Any, **kwargs: Any) -> Any:
        observer = find(engine)
        if observer is None:
            return step(engine, *args, **kwargs)
        is_whole = engine.is_gradient_accumulation_boundary() or not probes.counts_micro_steps(engine)
        return observer.step(engine, lambda: step(engine, *args, **kwargs), is_whole=is_whole)

    DeepSpeedEngine.forward = observed_forward
    DeepSpeedEngine.backward, DeepSpeedEngine.step = observed_backward, observed_step


def _rate_now(group: Any) -> Any:
    """The learning rate of a parameter group, which a schedule may change in place; the step refuses what is none."""
    rate = group["lr"]
    return float(rate) if torch.is_tensor(rate) else rate
