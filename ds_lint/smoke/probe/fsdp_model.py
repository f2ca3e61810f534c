"""One model of the script that FSDP shards, on one rank, from its first forward pass to the last step of the run."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import CPU, CUDA, OF_BACKWARD, OF_DS_LINT, OF_FORWARD, OF_SCRIPT, OF_STEP, Step
from ds_lint.smoke.observe import fsdp_optimizer, fsdp_passes, fsdp_shards, fsdp_step
from ds_lint.smoke.observe.fsdp_shards import dtype_name, local
from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.observe.sampled_step import few_of
from ds_lint.smoke.observe.tensors import tensors_in
from ds_lint.smoke.probe import frameworks, measured
from ds_lint.smoke.probe.fsdp_checkpoint import ModelCheckpoint, fingerprint
from ds_lint.smoke.probe.initialization import versions
from ds_lint.smoke.probe.measured import EngineMeter
from ds_lint.smoke.probe.plan import TRAIN
from ds_lint.smoke.probe.replay import Replay
from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.records.failure import first_line
from ds_lint.smoke.records.fsdp import FSDP2, plain_name
from ds_lint.smoke.records.fsdp_trace import TORCH, FsdpTrace, SeenClip
from ds_lint.smoke.records.job import Evidence, TrainedParameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.finding import RunStack
    from ds_lint.smoke.observe.fsdp_step import OwnTensor
    from ds_lint.smoke.probe.fsdp_calls import WrappedModule
    from ds_lint.smoke.probe.owner import Owner

# Of which optimizers keep an element for each of a weight.
_STATES = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "sum"}


class ObservedModel:
    """Takes notes around each pass and each step; what the script computes stays as it is."""

    def __init__(
        self,
        model: Any,
        calls: list[WrappedModule],
        owner: Owner,
        optimizers: Callable[[], list[Any]],
        accelerator: Any,
    ) -> None:
        self.model = model
        self.engine = SimpleNamespace(module=model)  # as an engine of DeepSpeed has it
        self.steps = 0  # since the start
        self.is_under_way = False  # a forward pass is made, and no step yet
        self.number = 0
        self._calls = calls
        self._owner, self._plan, self._presence = owner, owner.plan, owner.presence
        self._optimizers, self._accelerator = optimizers, accelerator
        self._trainer = owner.maker.trainer
        self._meter = EngineMeter()
        self._digests: list[str] = []
        self._loss, self._losses = 0.0, 0
        self._backwards = 0
        self._first: fsdp_passes.FirstPasses | None = None
        self._begun: list[Any] = []
        self._digest_before: list[str] = []
        self._clips: list[SeenClip] = []
        self._is_own = False  # a step of an optimizer that is made while ds-lint saves or loads
        self._stepping: Any = None
        self._main: Any = None  # the optimizer whose steps count

    # ------------------------------------------------------------------------------------------------ what it is of

    def begin(self, divisors: list[float]) -> None:
        """The first forward pass is about to be made; the model has its number."""
        plan = self._plan
        self.trace = self._traced()
        own = self.own
        own.divisors = divisors
        of_rank = os.path.join(plan.kept_folder, f"engine-{self.number}", f"rank-{self.trace.evidence.rank}")
        self.checkpoint = ModelCheckpoint(plan, self.trace, self._meter, os.path.dirname(of_rank))
        self._replay = Replay(plan, of_rank)
        first = min(2, plan.steps) if plan.part == TRAIN else sys.maxsize
        self._samples = fsdp_step.FsdpSamples(os.path.join(of_rank, fsdp_step.STEP), first, self.trace.world_size)
        self.model.register_forward_pre_hook(self._before_forward, prepend=True, with_kwargs=True)
        self.model.register_forward_hook(self._after_forward)
        fsdp_passes.watch_units(self.model, self._saw_live, lambda: self._is_training and self._is_live_wanted)
        self._is_training = False
        self.write()

    @property
    def own(self) -> FsdpTrace:
        """What is noted of FSDP."""
        assert self.trace.fsdp is not None  # noqa: S101 - it is made with one
        return self.trace.fsdp

    def _traced(self) -> engine_trace.EngineTrace:
        ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
        model = self.model
        version = fsdp_shards.version_of(model) or FSDP2
        inside = {id(one): plain_name(name) for name, one in model.named_modules(remove_duplicate=False)}
        evidence = Evidence(rank)
        inner = getattr(model, "_fsdp_wrapped_module", model)
        evidence.model = type(inner).__name__.removeprefix("FSDP") or type(inner).__name__
        shapes: dict[str, tuple[int, ...]] = {}
        wrapped: dict[str, list[float]] = {}
        for one in self._calls:
            name = one.call.name = inside.get(id(one.module()), "")
            for before in one.parameters:
                whole = f"{name}.{before.name}" if name else before.name
                shapes.setdefault(whole, before.shape)
                if before.sample:
                    wrapped.setdefault(whole, before.sample)
        root = next((one for one in self._calls if not one.call.name), None) or next(iter(self._calls), None)
        script, line = (root.script, root.call.line) if root is not None else ("", 0)
        if not script:
            script, line = getattr(sys.modules.get("__main__"), "__file__", None) or "", 0
        accelerated = self._accelerator is not None
        stack: RunStack = "trainer" if self._trainer is not None else "accelerate" if accelerated else TORCH
        devices = {one.device.type for one in model.parameters()} | {one.device.type for one in model.buffers()}
        own = FsdpTrace(version, stack, os.path.abspath(script) if script else "", line)
        own.calls = [one.call for one in self._calls]
        own.shapes, own.wrapped = shapes, wrapped
        plugin = getattr(getattr(self._accelerator, "state", None), "fsdp_plugin", None)
        if getattr(plugin, "activation_checkpointing", False):
            own.recomputation = "`fsdp_activation_checkpointing`"
        own.state_dict_type = getattr(getattr(plugin, "state_dict_type", None), "name", "")
        own.is_by_columns = any(
            placement.is_shard() and placement.dim
            for one in model.parameters()
            for placement in getattr(one, "placements", ())
        )
        kind = type(inner)
        if kind.__name__.startswith("FSDP") and len(kind.__mro__) > 2:  # made by ``fully_shard``
            kind = kind.__mro__[2]
        return engine_trace.EngineTrace(
            number=self.number,
            evidence=evidence,
            stack="trainer" if self._trainer is not None else "accelerate" if accelerated else "deepspeed",
            world_size=ranks,
            data_parallel=ranks,
            multiplied_by=ranks,
            mode=CUDA if "cuda" in devices else CPU,
            model_class=f"{kind.__module__}.{kind.__qualname__}",
            arguments=frameworks.given_arguments(self._trainer),
            versions=versions(),
            measured=self._meter.measured,
            has_adapters=bool(getattr(inner, "peft_config", None)),
            fsdp=own,
        )

    def has(self, module: Any) -> bool:
        """Whether a module is a part of the model."""
        return any(one is module for one in self.model.modules())

    @property
    def _before(self) -> set[int]:
        """The parameters from before they were sharded, as far as something keeps them."""
        found = (two.parameter() for one in self._calls for two in one.parameters)
        return {id(one) for one in found if one is not None}

    def is_of(self, optimizer: Any) -> bool:
        """Whether an optimizer steps on a part of the model, or on what was one before it was sharded."""
        if self._is_own:
            return False
        known = {id(one.tensor) for one in fsdp_step.tensors_of(self.model)} | self._before
        return any(id(one) in known for group in optimizer.param_groups for one in group["params"])

    # ------------------------------------------------------------------------------------------------- the passes

    @property
    def _is_live_wanted(self) -> bool:
        return not self.own.begun or self._samples.wants_live or self._notes_begun

    _notes_begun = False

    def _before_forward(self, model: Any, args: Any, kwargs: Any) -> Any:
        self._is_training = torch.is_grad_enabled() and not self._is_own and self._plan_is_open
        if not self._is_training:
            return None
        with self._meter.during(OF_DS_LINT):
            self._enter_step()
            self.is_under_way = True
            args, kwargs = self._replay.begin_forward(model, args, kwargs)
            self._digests.append(" ".join(map(digest, tensors_in((args, kwargs)))))
            self.trace.rows.append(next((len(one) for one in tensors_in((args, kwargs)) if one.dim()), 0))
            self._notes_begun = not self.own.begun
            if self._samples.wants_live:
                self._samples.begin_live(fsdp_step.tensors_of(model))
            if self._first is None and self._plan.part == TRAIN:
                self._first = fsdp_passes.FirstPasses(model, self.own)
                self._first.begin()
        self._meter.enter(OF_FORWARD)
        return args, kwargs

    @property
    def _plan_is_open(self) -> bool:
        return self.steps < self._plan.whole

    def _after_forward(self, model: Any, _inputs: Any, outputs: Any) -> None:
        if not self._is_training:
            return
        self._is_training = self._notes_begun = False
        with self._meter.during(OF_DS_LINT):
            self._replay.end_forward(outputs)
            self._samples.after_forward(model)
            if self._samples.wants_live:
                self._samples.end_live()
            if self._first is not None and not self._backwards and not self.steps:
                self._first.turn()
        self._meter.enter(OF_SCRIPT)

    def _saw_live(self, name: str, weights: torch.Tensor) -> None:
        if self._notes_begun and name in self.own.wrapped and name not in self.own.begun:
            places = few_of(weights.numel()).to(weights.device)
            self.own.begun[name] = weights.reshape(-1)[places].double().tolist()
        if self._samples.wants_live:
            self._samples.saw_live(name, weights)

    def before_backward(self, loss: Any) -> None:
        """A backward pass is about to be made."""
        value = float(loss.detach().float().mean())
        self._loss, self._losses = self._loss + value, self._losses + 1
        with self._meter.during(OF_DS_LINT):
            self._replay.backward(loss, max(1, self._losses), self.trace.world_size)
            if not self._backwards and self.steps and self._plan.part == TRAIN:
                stepped = {id(one) for group in self._groups for one in group["params"]}
                stepped -= fsdp_shards.overwritten_gradients(self.model)
                own = (one.tensor for one in fsdp_step.tensors_of(self.model))
                left = (one.grad for one in own if id(one) in stepped)
                self.own.keeps_gradients |= any(one is not None and bool(local(one).any()) for one in left)
        self._meter.enter(OF_BACKWARD)

    @property
    def _groups(self) -> list[Any]:
        """The parameter groups of the optimizer whose steps count."""
        return [] if self._main is None else list(self._main.param_groups)

    def after_backward(self) -> None:
        """It is made."""
        self._meter.enter(OF_SCRIPT)
        self._backwards += 1
        with self._meter.during(OF_DS_LINT):
            if self._samples.is_armed:
                self._samples.after_backward(fsdp_step.tensors_of(self.model))
            if self._first is not None and not self.steps and self._backwards == 1:
                self._first.end()

    def saw_reduced(self, dtype: torch.dtype) -> None:
        """Gradients travel between ranks."""
        name = dtype_name(dtype)
        if name not in self.own.reduced_dtypes:
            self.own.reduced_dtypes.append(name)

    def zeroed(self) -> None:
        """The script clears the gradients: those so far are of no step."""
        if not self._is_own and self._backwards and self._stepping is None:
            self._samples.zeroed()

    def clipped(self, most: Any, norm: Any, kind: Any) -> None:
        """The script clips gradients."""
        if self._is_own or not self._backwards or most is None:
            return
        whole = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        one = SeenClip(float(most), float(whole), float(kind))
        if one not in self._clips:
            self._clips.append(one)

    def changes_gradients(self, name: str) -> None:
        """The script has a hook of its own where gradients travel."""
        self.own.hooks = name

    # --------------------------------------------------------------------------------------------------- the steps

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to make a step."""
        if self._is_own or not self._plan_is_open or not self.is_under_way:
            return
        self._stepping = optimizer
        self._main = self._main or optimizer
        name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
        if name not in self.own.optimizers:
            self.own.optimizers.append(name)
        with self._meter.during(OF_DS_LINT):
            tensors = fsdp_step.tensors_of(self.model)
            if optimizer is self._main:
                self.own.gradients = 0
                self._replay.before_step(SimpleNamespace(lr_scheduler=None), optimizer)
            self.own.gradients = (self.own.gradients or 0) + fsdp_optimizer.gradients(optimizer).elements
            self._note_kind("gradients", fsdp_optimizer.gradients(optimizer))
            self._begun = self._samples.before_update(optimizer, tensors)
            if not self._digest_before:
                self._digest_before = _digests(tensors)
        self._meter.enter(OF_STEP)

    def after_step(self, optimizer: Any) -> None:
        """It has made it."""
        if self._stepping is not optimizer:
            return
        measured.finish_kernels()
        self._meter.enter(OF_SCRIPT)
        with self._meter.during(OF_DS_LINT):
            self._samples.after_update(optimizer, self._begun, self._clips, self.own.reduced_dtypes)
            self._begun = []
            self._stepping = None
            if optimizer is self._main:
                self._whole_step(optimizer)
        self._meter.begin_step()
        if optimizer is self._main:
            self._owner.made_step()

    def _whole_step(self, optimizer: Any) -> None:
        plan, trace = self._plan, self.trace
        loss = self._loss / max(1, self._losses)
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        trace.evidence.steps.append(Step(loss, rates, None, None, is_skipped=False))
        trace.is_trained = True
        trace.optimizer = self.own.optimizers[0]
        trace.batches.append(self._digests)
        trace.micro_steps.append(self._backwards)
        if self.steps + 1 == min(2, plan.steps):
            self.own.clips = self._clips
        self._digests, self._clips = [], []
        self._loss, self._losses, self._backwards = 0.0, 0, 0
        self.is_under_way = False
        self.steps += 1
        if self._replay.is_on:
            self._replay.replayed.rates.append(rates)
        if plan.part == TRAIN and self.steps == plan.steps:
            self._at_checkpoint()
        if self.steps == plan.whole:
            self._replay.replayed.last = fingerprint(fsdp_step.tensors_of(self.model), self._own_optimizers())
            self._replay.is_on = False
            self.write()

    def _own_optimizers(self) -> list[Any]:
        known = {id(one.tensor) for one in fsdp_step.tensors_of(self.model)}
        return [
            one
            for one in self._optimizers()
            if type(one).__name__ != "AcceleratedOptimizer"
            and any(id(two) in known for group in one.param_groups for two in group["params"])
        ]

    def _enter_step(self) -> None:
        """The first step of a second start begins with the checkpoint."""
        if self.checkpoint.is_to_load:
            self._presence.enter("load")
            self._is_own = True
            try:
                found = self.checkpoint.load(self.model, self._own_optimizers(), self._accelerator)
                self._replay.replayed.restored = found
            except Exception as error:
                if self._accelerator is None:  # nothing says that the script would load in this way
                    self._replay.replayed.not_loaded = f"{type(error).__name__}: {first_line(str(error))}"
                    self._replay.replayed.restored = fingerprint(fsdp_step.tensors_of(self.model), [])
                    return
                self._presence.raised(error)
                self.write()
                raise
            finally:
                self._is_own = False
        if self._presence.phase != "step":
            self._presence.enter("step")

    def _at_checkpoint(self) -> None:
        """What the rank holds, and what it saves; the random state is as before."""
        state = torch.get_rng_state()
        self._is_own = True
        tensors = fsdp_step.tensors_of(self.model)
        self._measure(tensors)
        optimizers = self._own_optimizers()
        self.trace.evidence.fingerprint = fingerprint(tensors, optimizers)
        self._presence.enter("save")
        self.checkpoint.save(self.model, optimizers, self._accelerator, self._trainer)
        self._presence.enter("step")
        self._is_own = False
        torch.set_rng_state(state)
        self._replay.is_on = self._plan.resumes and self.trace.has_checkpoint
        self.write()

    def _measure(self, tensors: list[OwnTensor]) -> None:
        own, model = self.own, self.model
        own.holding = fsdp_shards.holding(model)
        own.changed = _digests(tensors) != self._digest_before
        own.unsharded = fsdp_passes.gathered(model)
        self._note_kind("parameters", fsdp_optimizer.TensorKind(one.tensor for one in tensors))
        optimizers = self._own_optimizers()
        stepped = [one for one in self._optimizers() if self._has_stepped(one)]
        held = {id(two) for one in stepped for group in one.param_groups for two in group["params"]}
        own.unheld = sorted(
            part.name
            for one in tensors
            if one.tensor.requires_grad and id(one.tensor) not in held
            for part in one.parts
        )
        known = {id(one.tensor) for one in tensors}
        own.foreign = sum(
            two.numel()
            for one in stepped
            for group in one.param_groups
            for two in group["params"]
            if id(two) in self._before and id(two) not in known
        )
        for optimizer in optimizers:
            for name, kind in fsdp_optimizer.states(optimizer).items():
                own.states[name] = own.states.get(name, 0) + kind.elements
                self._note_kind(name, kind)
        own.makes_states = own.states.keys() <= _STATES
        # Of the names of a tied parameter, the holding has one.
        once = {one.name for one in (*own.holding.shards, *own.holding.outside)}
        self.trace.evidence.parameters = [
            TrainedParameter(name, _elements(shape), is_trainable=True)
            for name, shape in own.shapes.items()
            if name in once
        ]
        self.trace.evidence.held = own.held

    def _has_stepped(self, optimizer: Any) -> bool:
        return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}" in self.own.optimizers and any(
            id(one) in self._before or id(one) in {id(two.tensor) for two in fsdp_step.tensors_of(self.model)}
            for group in optimizer.param_groups
            for one in group["params"]
        )

    def _note_kind(self, name: str, kind: fsdp_optimizer.TensorKind) -> None:
        self.own.held[name] = kind.held
        self.trace.evidence.dtypes[name] = kind.dtypes
        self.trace.evidence.devices[name] = kind.devices

    def measure_untrained(self) -> None:
        """What the rank holds of a model with which the script makes no step."""
        if not self.steps and self.own.holding is None:
            self._measure(fsdp_step.tensors_of(self.model))

    def write(self) -> None:
        """Leave the trace so far for the driver."""
        self.trace.replayed = self._replay.replayed
        os.makedirs(self._plan.own_folder, exist_ok=True)
        engine_trace.write(self.trace, self._plan.own_folder)


def _digests(tensors: list[OwnTensor]) -> list[str]:
    return [digest(local(one.tensor)) for one in tensors]


def _elements(shape: tuple[int, ...]) -> int:
    found = 1
    for one in shape:
        found *= one
    return found
