"""One engine of the user's script on one rank, from ``deepspeed.initialize`` to the last step of the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import OF_BACKWARD, OF_DS_LINT, OF_FORWARD, OF_SCRIPT, OF_STEP
from ds_lint.smoke.observe import probes, whole_weights
from ds_lint.smoke.observe.observation import MOST_WHOLE, Watch
from ds_lint.smoke.observe.sampled_step import StepSamples, stale
from ds_lint.smoke.probe import measured
from ds_lint.smoke.probe.changes import OutsideChanges
from ds_lint.smoke.probe.evaluation import ForwardPasses
from ds_lint.smoke.probe.gradient_coverage import GradientCoverage
from ds_lint.smoke.probe.loss_divisions import LossDivisions
from ds_lint.smoke.probe.micro_steps import MicroSteps
from ds_lint.smoke.probe.plan import TRAIN
from ds_lint.smoke.probe.replay import Replay
from ds_lint.smoke.probe.saving import EngineCheckpoint, no_room
from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.records.engine_trace import Evaluated
from ds_lint.smoke.standins import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.probe.frameworks import Frameworks
    from ds_lint.smoke.probe.initialization import Initialization
    from ds_lint.smoke.probe.loads import LoadedWeights
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.probe.presence import Presence


class ObservedEngine:
    """Makes each call of the engine, with what is observed before and after it."""

    def __init__(
        self,
        engine: Any,
        initialization: Initialization,
        plan: Plan,
        presence: Presence,
        maker: Frameworks,
        made_step: Callable[[], None],
        weights: LoadedWeights,
    ) -> None:
        self.engine = engine
        self.steps = 0  # that the optimizer has made since the start
        self.trace = initialization.made(engine)
        self._initialization = initialization
        self._plan = plan
        self._presence = presence
        self._trainer = maker.trainer
        self._maker = maker
        self._made_step = made_step
        self._meter = initialization.meter
        kept = os.path.join(plan.kept_folder, f"engine-{self.trace.number}")
        of_rank = os.path.join(kept, f"rank-{self.trace.evidence.rank}")
        samples = self._samples(of_rank)
        self._watch = Watch(plan.part, self.trace.evidence, lambda _phase: None, samples)
        self._micro_steps = MicroSteps(plan, self.trace, kept)
        self._changes = OutsideChanges(plan, self.trace, self._meter, engine, is_sampled=samples is not None)
        self._divisions = LossDivisions(self.trace)
        is_followed = plan.part == TRAIN and not self.trace.is_pipeline
        self._coverage = GradientCoverage(self.trace) if is_followed else None
        self.checkpoint = EngineCheckpoint(plan, self.trace, self._meter, maker, kept)
        self._replay = Replay(plan, of_rank)
        self._weights = weights
        self._passes: ForwardPasses | None = None
        if plan.part == TRAIN and not self.trace.is_pipeline:
            self._follow_passes(initialization)

    def _follow_passes(self, initialization: Initialization) -> None:
        """As long as the engine makes no step, its forward passes are what there is to see."""
        self.trace.evaluated = Evaluated(given=initialization.given_digests, was_peft=initialization.has_adapters)
        is_untrainable = probes.inner_optimizer(self.engine) is None
        self._passes = ForwardPasses(
            self._plan,
            self.trace,
            self.engine.module,
            self._before_evaluation if is_untrainable else None,
            self._after_evaluation if is_untrainable else None,
        )
        if is_untrainable:
            self.write()  # a rank that never comes to a pass may be killed

    def _before_evaluation(self) -> None:
        """What an engine without an optimizer computes with; at stage 3 every rank takes part, as in each pass."""
        evidence, evaluated = self.trace.evidence, self.trace.evaluated
        if evaluated is None:
            return
        self._presence.enter("evaluate")
        evaluated.loaded = self._weights.of(self.engine.module)
        if whole_weights.bytes_of(self.engine) <= MOST_WHOLE:
            evidence.live, _ = whole_weights.digests(self.engine, is_kept=evidence.rank == 0)
        self.write()

    def _after_evaluation(self) -> None:
        self.measure_untrained()
        self.write()

    def trains(self) -> None:
        """The engine makes a backward pass or a step."""
        if self._passes is not None:
            self._passes.stop()
            self._passes = self.trace.evaluated = None

    def _samples(self, folder: str) -> StepSamples | None:
        optimizer = probes.inner_optimizer(self.engine)
        if self._plan.part != TRAIN or self.trace.is_pipeline or optimizer is None:
            return None
        trained = {one.name: one.decay for one in self.trace.evidence.parameters if one.is_trainable}
        decays = {id(group): group["weight_decay"] for group in optimizer.param_groups if "weight_decay" in group}
        first = min(2, self._plan.steps)
        return StepSamples(os.path.join(folder, "step.pt"), first, self.trace.world_size, trained, decays)

    def forward(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A forward pass; one that trains nothing, as in an evaluation, gets its own inputs and changes nothing."""
        if probes.inner_optimizer(engine) is None:
            return call(engine, *args, **kwargs)
        if not self._micro_steps.is_training(engine.module):
            return self._changes.evaluate(lambda: call(engine, *args, **kwargs))
        self._enter_step()
        plan = self._plan
        if plan.profiles and plan.part == TRAIN and self.steps + 1 == plan.whole:
            self._meter.begin_profile()
        if self.trace.is_pipeline:  # what a stage gets from another one follows from the batch
            return self._watch.forward(engine, args, kwargs, call)
        if self._replay.is_on and not self._replay.replayed.settings and plan.part == TRAIN:
            self._changes.look_at_weights(self._replay.replayed)

        def watched(args: Any, kwargs: Any) -> Any:
            self._micro_steps.note_inputs(args, kwargs)
            measured_call = self._meter.measuring(OF_FORWARD, call)
            if self._coverage is None:
                outputs = self._watch.forward(engine, args, kwargs, measured_call)
            else:
                outputs = self._coverage.forward(
                    engine, lambda: self._watch.forward(engine, args, kwargs, measured_call)
                )
            self._divisions.saw_outputs(outputs)
            return outputs

        with self._meter.during(OF_DS_LINT):
            return self._replay.forward(engine.module, args, kwargs, watched)

    def backward(self, engine: Any, loss: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """The backward pass of a micro step."""
        self.trains()
        self._micro_steps.count_backward(engine)
        if self.trace.is_pipeline:
            return self._watch.backward(engine, loss, args, kwargs, call)
        with self._meter.during(OF_DS_LINT):
            windows = engine.gradient_accumulation_steps()
            self._replay.backward(loss, windows, self.trace.world_size)
            by_engine = kwargs.get("scale_wrt_gas", True)
            self._divisions.note(loss, windows, by_engine=by_engine, by_trainer=self._maker.divides_loss)
            answer = self._watch.backward(engine, loss, args, kwargs, self._meter.measuring(OF_BACKWARD, call))
            self._changes.left_gradients(self.steps)
            if self._coverage is not None:
                self._coverage.after_backward()
            return answer

    def begins_backward(self, engine: Any, loss: Any) -> None:
        """The script makes the backward pass itself, of a loss that ``engine.scale`` may have scaled."""
        self._meter.enter(OF_BACKWARD)
        self.trains()
        self._divisions.forget()
        self._micro_steps.count_backward(engine)
        self._replay.backward(loss, engine.gradient_accumulation_steps(), self.trace.world_size)
        is_scaled = getattr(engine, "_manual_backward_expected", False)
        scale = (probes.loss_scale(engine) if is_scaled else None) or 1.0
        self._watch.begins_backward(engine, float(loss.detach().float().mean()) / scale)

    def ends_backward(self, engine: Any) -> None:
        """The gradients of that backward pass are computed."""
        with self._meter.during(OF_DS_LINT):
            self._watch.ends_backward(engine)
            self._changes.left_gradients(self.steps)
        self._meter.enter(OF_SCRIPT)

    def step(self, engine: Any, call: Callable[[], Any], *, is_whole: bool) -> Any:
        """A call of the engine's ``step``."""

        def finished() -> Any:
            answer = call()
            if is_whole:
                measured.finish_kernels()
            return answer

        self.trains()
        if is_whole:
            self._micro_steps.before_step()
        with self._meter.during(OF_DS_LINT):
            self._enter_step()  # loads the checkpoint if the script calls ``engine.module`` itself
            self._changes.look_at_rates()
            self._changes.look_at_gradients()
            if is_whole:
                self._replay.before_step(engine, probes.inner_optimizer(engine))
            try:
                answer = self._watch.step(engine, self._meter.measuring(OF_STEP, finished), is_whole=is_whole)
            except Exception as error:
                self._presence.raised(error)
                raise
            if is_whole:
                self._after_step()
            self._changes.left_rates()
        if is_whole:
            self._meter.begin_step()
        return answer

    def train_batch(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A whole step of a ``PipelineEngine``, whose ranks have different layers."""
        self._enter_step()
        self._changes.look_at_rates()
        self._replay.batches_of(engine, self._micro_steps.note_batch)
        self._replay.before_step(engine, probes.inner_optimizer(engine))

        def whole() -> Any:
            with self._meter.during(OF_STEP):  # with its passes
                loss = call(engine, *args, **kwargs)
                measured.finish_kernels()
            self._watch.losses = [float(loss.detach().float().mean())]
            self._replay.saw_loss(self._watch.losses[0])
            return loss

        with self._meter.during(OF_DS_LINT):
            answer = self._watch.step(engine, whole, is_whole=True)
            self._after_step()
            self._changes.left_rates()
        self._meter.begin_step()
        return answer

    def _enter_step(self) -> None:
        """The first step of a second start begins with the checkpoint."""
        if self.checkpoint.is_to_load:
            self._presence.enter("load")
            try:
                self._replay.replayed.restored = self.checkpoint.load(self.engine)
            except Exception as error:
                self._presence.raised(error)
                self.write()
                raise
        if self._presence.phase != "step":
            self._presence.enter("step")

    def _after_step(self) -> None:
        self._meter.end_profile()
        self.steps += 1
        self._micro_steps.after_step()
        if self._replay.is_on:
            self._replay.replayed.rates.append(self.trace.evidence.steps[-1].learning_rates)
        plan = self._plan
        if plan.part == TRAIN and self.steps == plan.steps:
            self._at_checkpoint()
        if self.steps == plan.whole:
            self._replay.replayed.last = probes.fingerprint(self.engine)
            self._replay.is_on = False
        self._made_step()

    def _at_checkpoint(self) -> None:
        """What the rank holds, and what it saves; the random state is as before."""
        state = torch.get_rng_state()
        evidence = self.trace.evidence
        if self._coverage is not None:
            self._coverage.at_checkpoint(self.engine)
            self._coverage = None
        self._watch.at_checkpoint(self.engine)
        if not self.trace.is_pipeline:
            evidence.stale = stale(self.engine)
        self._meter.at_checkpoint(self.engine, evidence, self._trainer)
        self.trace.no_room = no_room(self.engine, evidence, self._plan.folder)
        if self.trace.no_room is None:
            self._presence.enter("save")
            self.checkpoint.save(self.engine)
        self._presence.enter("step")
        torch.set_rng_state(state)
        self._replay.is_on = self._plan.resumes and self.trace.has_checkpoint
        self.write()

    def measure_untrained(self) -> None:
        """What the rank holds of a model with which the script makes no step."""
        if not self.steps and self.trace.evidence.engine is None:
            self._watch.measure(self.engine)

    def write(self) -> None:
        """Leave the trace so far for the driver."""
        self.trace.evidence.stand_ins = ops.used()
        self._initialization.look_again(self.trace, self.engine)
        self.trace.replayed = self._replay.replayed
        os.makedirs(self._plan.own_folder, exist_ok=True)
        engine_trace.write(self.trace, self._plan.own_folder)
