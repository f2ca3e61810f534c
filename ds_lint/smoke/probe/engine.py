"""One engine of the user's script on one rank: what is given to it, what it does, and what it saves."""

from __future__ import annotations

import contextlib
import copy
import os
import platform
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import (
    CPU,
    CUDA,
    OF_BACKWARD,
    OF_DS_LINT,
    OF_EXPORT,
    OF_FORWARD,
    OF_INITIALIZE,
    OF_LOAD,
    OF_SAVE,
    OF_SCRIPT,
    OF_STEP,
)
from ds_lint.smoke.observe import lora, probes, recorder
from ds_lint.smoke.observe.observation import Watch, tensors_in
from ds_lint.smoke.observe.sampled_step import StepSamples, differing, elements_of, gradients_of, stale
from ds_lint.smoke.observe.tied import tied
from ds_lint.smoke.probe import frameworks, measured
from ds_lint.smoke.probe.communication import CommunicationProfile
from ds_lint.smoke.probe.leading import Leading
from ds_lint.smoke.probe.plan import RESUME, TRAIN
from ds_lint.smoke.probe.replay import Replay
from ds_lint.smoke.records import shown
from ds_lint.smoke.records.job import Evidence, TrainedParameter
from ds_lint.smoke.standins import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ds_lint.smoke.probe.frameworks import Frameworks
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.probe.presence import Presence


_WATCHED = 4  # forward passes that train nothing
_meter = measured.Meter()  # one for the process: its memory is that of all engines


class ObservedEngine:
    """An engine from ``deepspeed.initialize`` to the last step of the run."""

    def __init__(self, number: int, plan: Plan, presence: Presence, maker: Frameworks) -> None:
        self.number = number
        self.engine: Any = None
        self.steps = 0  # that the optimizer has made since the start
        self._plan = plan
        self._presence = presence
        self._maker = maker
        self._log: recorder.ReadLog | None = None
        self._config: Any = None
        self._path: str | None = None
        self._parameters: list[TrainedParameter] = []
        self._tied: list[list[str]] = []
        self._own_rates: str | None = None
        self._rates: list[float] = []  # as the engine has left them
        self._buffers = 0
        self._model_class = ""
        self._trainer, self._accelerator = maker.trainer, maker.accelerator
        self._measured = shown.Measured()
        self._began = time.time()

    # ------------------------------------------------------------------------------------------------ initialization

    def before_initialize(self, given: dict[str, Any]) -> dict[str, Any]:
        """Note what the engine is made of; the config is passed on as a dict that records who reads it."""
        given = dict(given)
        model = given.get("model")
        parameters = given.get("model_parameters")
        if parameters is not None and not isinstance(parameters, (list, tuple, dict)):
            parameters = given["model_parameters"] = list(parameters)  # an iterator can be read once
        if model is not None:
            self._parameters = list(_parameters(model, given.get("optimizer"), parameters))
            self._tied = tied(model)
            self._buffers = sum(buffer.numel() for buffer in model.buffers())
            self._model_class = _class_of(model)
        self._own_rates = self._maker.own_rates(given)
        self._log = recorder.start("deepspeed.")
        name = "config" if given.get("config") is not None else "config_params"
        config = given.get(name)
        if config is None:
            config = getattr(given.get("args"), "deepspeed_config", None)
        if isinstance(config, dict):
            self._config = copy.deepcopy(recorder.plain(config))
            given[name] = recorder.wrap(recorder.plain(config), (), self._log)
        elif isinstance(config, (str, os.PathLike)):
            self._path = os.path.abspath(os.fspath(config))
        _meter.enter(self._measured, OF_INITIALIZE, 0)
        return given

    def after_initialize(self, engine: Any, made_step: Callable[[], None]) -> None:
        """The engine is made: observe it."""
        _meter.enter(self._measured, OF_SCRIPT, 1)
        self.engine = engine
        self._made_step = made_step
        rank = torch.distributed.get_rank()
        if self._config is None:
            self._config = recorder.plain(getattr(engine.config, "_param_dict", None) or {})
        evidence = Evidence(rank, parameters=self._parameters, tied=self._tied, model_buffers=self._buffers)
        model = engine.module
        ranks = torch.distributed.get_world_size()
        optimizer = probes.inner_optimizer(engine)
        self.shown = shown.ShownEngine(
            number=self.number,
            evidence=evidence,
            stack=self._maker.stack,
            world_size=ranks,
            data_parallel=int(getattr(engine, "dp_world_size", None) or ranks),
            sequence_parallel=int(getattr(engine, "sequence_parallel_size", None) or 1),
            multiplied_by=_multiplied_by(engine, ranks),
            mode=CUDA if torch.device(engine.device).type == "cuda" else CPU,
            model_class=_class_of(model),
            config=self._config,
            config_path=self._path,
            arguments=self._arguments(),
            optimizer=_class_of(optimizer) if optimizer is not None else "",
            parts=list(_parts(model, self._parameters)),
            is_pipeline=hasattr(engine, "grid") and hasattr(engine, "train_batch"),
            has_adapters=bool(getattr(model, "peft_config", None)),
            versions=_versions(),
            measured=self._measured,
            own_rates=self._own_rates,
            saves_itself=self._maker.saves_itself(),
        )
        self._rates = _rates_of(engine)
        evidence.model = type(model).__name__
        kept = os.path.join(self._plan.kept_folder, f"engine-{self.number}")
        self._checkpoint = os.path.join(kept, "checkpoint")
        self._export = os.path.join(kept, "export")
        samples = None
        if self._plan.part == TRAIN and not self.shown.is_pipeline and optimizer is not None:
            path = os.path.join(kept, f"rank-{rank}", "step.pt")
            trained = {one.name: one.decay for one in self._parameters if one.is_trainable}
            decays = {id(group): group["weight_decay"] for group in optimizer.param_groups if "weight_decay" in group}
            samples = StepSamples(path, min(2, self._plan.steps), ranks, trained, decays)
        self._is_sampled = samples is not None
        self._watch = Watch(self._plan.part, evidence, lambda _phase: None, samples)
        self._replay = Replay(self._plan, os.path.join(kept, f"rank-{rank}"))
        self.is_to_resume = self._plan.part == RESUME and os.path.isdir(self._checkpoint)
        self._is_loaded = False
        self._mark = os.path.join(kept, "trains-in-eval-mode")  # for the second start
        self._trains_in_eval_mode = self._plan.part == RESUME and os.path.exists(self._mark)
        self._gradients: dict[str, torch.Tensor] = {}  # after the last backward pass
        self._trained = self._untrained = 0  # forward passes of a step with gradients, by the mode of the model
        self._profile: CommunicationProfile | None = None
        self._digests: list[str] = []
        self._backwards = self._last_backwards = self._tokens = self._evaluations = 0

    def refused(self) -> None:
        """DeepSpeed raises instead of making the engine: leave for the driver what was given to it."""
        if self._config is None and (self._path is None or not os.path.isfile(self._path)):
            return  # there is no config to reject
        is_there = torch.distributed.is_initialized()
        ranks = torch.distributed.get_world_size() if is_there else int(os.environ.get("WORLD_SIZE", "1"))
        rank = torch.distributed.get_rank() if is_there else int(os.environ.get("RANK", "0"))
        given = shown.ShownEngine(
            number=self.number,
            evidence=Evidence(rank, parameters=self._parameters, tied=self._tied, model_buffers=self._buffers),
            stack=self._maker.stack,
            world_size=ranks,
            data_parallel=ranks,
            multiplied_by=ranks,
            mode=CPU if self._plan.uses_cpu else CUDA,
            model_class=self._model_class,
            config=self._config,
            config_path=self._path,
            arguments=self._arguments(),
            is_refused=True,
            versions=_versions(),
        )
        shown.write(given, self._plan.own_folder)

    def _during(self, phase: str, step: int | None = None) -> AbstractContextManager[None]:
        return _meter.during(self._measured, phase, self.steps + 1 if step is None else step)

    def _measuring(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        return _meter.measuring(self._measured, phase, self.steps + 1, call)

    def _arguments(self) -> dict[str, Any]:
        """Training arguments, with the folders that the user has named."""
        given = frameworks.given_arguments(self._trainer)
        own = Leading(self._plan).own
        return {name: own(value) if isinstance(value, str) else value for name, value in given.items()}

    # -------------------------------------------------------------------------------------------------------- steps

    def forward(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A forward pass; one that trains nothing, as in an evaluation, gets its own inputs and changes nothing."""
        if engine.optimizer is None:
            return call(engine, *args, **kwargs)
        if not torch.is_grad_enabled() or not (engine.module.training or self._trains_in_eval_mode):
            self._untrained += torch.is_grad_enabled()
            return self._evaluate(engine, args, kwargs, call)
        self._trained += 1
        self._enter_step()
        if self._plan.part == RESUME and not self._is_loaded:
            self._load()
        self._profile_last_step()
        if self.shown.is_pipeline:  # what a stage gets from another one follows from the batch
            return self._watch.forward(engine, args, kwargs, call)
        if self._replay.is_on and not self._replay.shown.settings and self._plan.part == TRAIN:
            self._look_at_weights(engine)

        def watched(args: Any, kwargs: Any) -> Any:
            self._note_inputs(args, kwargs)
            return self._watch.forward(engine, args, kwargs, self._measuring(OF_FORWARD, call))

        with self._during(OF_DS_LINT):
            return self._replay.forward(engine.module, args, kwargs, watched)

    def _look_at_weights(self, engine: Any) -> None:
        """Whether the script has changed weights since the step with the checkpoint, which is within that step."""
        before = self.shown.evidence.fingerprint
        now = probes.parameter_marks(engine)
        if any(before.get(name, mark) != mark for name, mark in now.items()):
            self._replay.shown.unrecorded = "the script changes weights between `engine.step` and its next forward pass"

    def _enter_step(self) -> None:
        if self._presence.phase != "step":
            self._presence.enter("step")

    def _evaluate(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A forward pass that trains nothing; the first ones are watched."""
        changed = self.shown.evidence.changed_in_evaluation
        if not self._is_sampled or self._evaluations >= _WATCHED or changed:
            return call(engine, *args, **kwargs)
        self._evaluations += 1
        with self._during(OF_DS_LINT):
            before = elements_of(engine)
            answer = self._measuring(OF_FORWARD, call)(engine, *args, **kwargs)
            changed += differing(before, elements_of(engine))
        return answer

    def _note_inputs(self, args: Any, kwargs: Any) -> None:
        given = list(tensors_in((args, kwargs)))
        self._digests.append(" ".join(map(probes.digest, given)))
        self._tokens += measured.tokens_in(args, kwargs)
        if not self.steps:
            self.shown.rows.append(next((len(one) for one in given if one.dim()), 0))

    def backward(self, engine: Any, loss: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """The backward pass of a micro step."""
        self._count_backward(engine)
        if self.shown.is_pipeline:
            return self._watch.backward(engine, loss, args, kwargs, call)
        with self._during(OF_DS_LINT):
            self._replay.backward(loss, engine.gradient_accumulation_steps(), self.shown.world_size)
            answer = self._watch.backward(engine, loss, args, kwargs, self._measuring(OF_BACKWARD, call))
            self._keep_gradients(engine)
            return answer

    def begins_backward(self, engine: Any, loss: Any) -> None:
        """The script makes the backward pass itself, of a loss that ``engine.scale`` may have scaled."""
        _meter.enter(self._measured, OF_BACKWARD, self.steps + 1)
        self._count_backward(engine)
        self._replay.backward(loss, engine.gradient_accumulation_steps(), self.shown.world_size)
        is_scaled = getattr(engine, "_manual_backward_expected", False)
        scale = (probes.loss_scale(engine) if is_scaled else None) or 1.0
        self._watch.begins_backward(engine, float(loss.detach().float().mean()) / scale)

    def ends_backward(self, engine: Any) -> None:
        """The gradients of that backward pass are computed."""
        with self._during(OF_DS_LINT):
            self._watch.ends_backward(engine)
            self._keep_gradients(engine)
        _meter.enter(self._measured, OF_SCRIPT, self.steps + 1)

    def _keep_gradients(self, engine: Any) -> None:
        """Keep a few elements of what a backward pass leaves, while a step is sampled."""
        self._gradients = gradients_of(engine) if self._is_sampled and self.steps <= self._plan.steps else {}

    def changes_gradients(self) -> None:
        """The script has changed gradients that ZeRO holds."""
        self.shown.changes_gradients = True

    def _count_backward(self, engine: Any) -> None:
        if self._untrained and not self._trained and self._plan.part == TRAIN:
            self._trains_in_eval_mode = True  # ``from_pretrained`` leaves a model in it
            os.makedirs(os.path.dirname(self._mark), exist_ok=True)
            with open(self._mark, "wb"):
                pass
        self._backwards += _is_micro_step(engine)
        self._last_backwards += 1 if engine.is_gradient_accumulation_boundary() else 0

    def step(self, engine: Any, call: Callable[[], Any], *, is_whole: bool) -> Any:
        """A call of the engine's ``step``."""

        def finished() -> Any:
            answer = call()
            if is_whole:
                measured.finish_kernels()
            return answer

        self._enter_step()
        if is_whole and not self.steps and not self._backwards:
            self.shown.lacks_backward = not self.shown.is_pipeline
        with self._during(OF_DS_LINT):
            self._look_at_rates(engine)
            if self._plan.part == RESUME and not self._is_loaded:  # the script calls ``engine.module`` itself
                self._load()
            if differing(self._gradients, gradients_of(engine) if self._gradients else {}):
                self.shown.changes_gradients = True
            if is_whole:
                self._replay.before_step(engine, probes.inner_optimizer(engine))
            try:
                answer = self._watch.step(engine, self._measuring(OF_STEP, finished), is_whole=is_whole)
            except Exception as error:
                self._presence.raised(error)
                raise
            if is_whole:
                self._end_profile()
                self._after_step()
            self._rates = _rates_of(engine)
        if is_whole:
            _meter.enter(self._measured, OF_SCRIPT, self.steps + 1)
        return answer

    def _look_at_rates(self, engine: Any) -> None:
        """Note if the rates are no longer those that the engine has left; the Trainer steps its schedule itself."""
        if self.shown.own_rates is not None or self._plan.part != TRAIN:
            return
        if self.steps == 0 and engine.global_steps > 0:
            self.shown.own_rates = "the script goes on from a checkpoint of its own"
        elif self._trainer is None and _rates_of(engine) != self._rates:
            self.shown.own_rates = "the script sets the learning rates itself"

    def train_batch(self, engine: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """A whole step of a ``PipelineEngine``, whose ranks have different layers."""
        self._presence.enter("step")
        if self._plan.part == RESUME and not self._is_loaded:
            self._load()
        self._look_at_rates(engine)
        self._replay.batches_of(engine, self._note_batch)
        self._replay.before_step(engine, probes.inner_optimizer(engine))

        def whole() -> Any:
            with self._during(OF_STEP):  # with its passes
                loss = call(engine, *args, **kwargs)
                measured.finish_kernels()
            self._watch.losses = [float(loss.detach().float().mean())]
            self._replay.saw_loss(self._watch.losses[0])
            return loss

        with self._during(OF_DS_LINT):
            answer = self._watch.step(engine, whole, is_whole=True)
            self._end_profile()
            self._after_step()
            self._rates = _rates_of(engine)
        _meter.enter(self._measured, OF_SCRIPT, self.steps + 1)
        return answer

    def _profile_last_step(self) -> None:
        plan = self._plan
        is_last = plan.part == TRAIN and self.steps + 1 == plan.steps + plan.steps_after
        if plan.profiles and is_last and self._profile is None:
            self._profile = CommunicationProfile(self.steps + 1)

    def _end_profile(self) -> None:
        if self._profile is not None and self._measured.communicated is None:
            self._measured.communicated = self._profile.end()

    def _note_batch(self, batch: Any) -> None:
        self._digests.append(" ".join(map(probes.digest, tensors_in(batch))))

    def _after_step(self) -> None:
        self.steps += 1
        self.shown.is_trained = True
        self.shown.batches.append(self._digests)
        self.shown.micro_steps.append(self._backwards)
        self.shown.last_micro_steps.append(self._last_backwards)
        self._measured.tokens.append(self._tokens)
        self._digests, self._backwards, self._last_backwards, self._tokens = [], 0, 0, 0
        self._trained = self._untrained = 0
        if self._replay.is_on:
            self._replay.shown.rates.append(self.shown.evidence.steps[-1].learning_rates)
        plan = self._plan
        if plan.part == TRAIN and self.steps == plan.steps:
            self._at_checkpoint()
        last = plan.steps + plan.steps_after if plan.part == TRAIN else plan.steps_after
        if self.steps == last:
            self._replay.shown.last = probes.fingerprint(self.engine)
            self._replay.is_on = False
        self._made_step()

    def _at_checkpoint(self) -> None:
        """What the rank holds, and what it saves; the random state is as before."""
        state = torch.get_rng_state()
        evidence = self.shown.evidence
        self._watch.at_checkpoint(self.engine)
        if not self.shown.is_pipeline:
            evidence.stale = stale(self.engine)
        if self.shown.mode == CUDA:  # torch's own peak is that since the last phase began
            evidence.peak_bytes = max(one.gpu_bytes or 0 for one in self._measured.moments if one.phase != OF_DS_LINT)
        self._measured.nvme_bytes = measured.swapped_bytes(self.engine, evidence.rank, self._began)
        evidence.swapped_bytes = measured.of_all_ranks(self._measured.nvme_bytes, self.engine.device)
        self._measured.length = measured.length_of(self.engine, self._trainer)
        self.shown.no_room = measured.no_room(self.engine, evidence, self._plan.folder)
        if self.shown.no_room is None:
            self._save()
        self._presence.enter("step")
        torch.set_rng_state(state)
        self._replay.is_on = self._plan.resumes and self.shown.has_checkpoint
        self.write()

    def _save(self) -> None:
        self._presence.enter("save")
        with self._during(OF_SAVE, self.steps), frameworks.loadable_state(self.engine.module):
            self.engine.save_checkpoint(self._checkpoint)
        self.shown.has_checkpoint = True
        if self.shown.is_pipeline:
            self.shown.not_saved = "each rank of a pipeline saves the layers that it has"
        else:
            with self._during(OF_EXPORT, self.steps):
                self.shown.not_saved = self._save_model()
        torch.distributed.barrier()

    def _save_model(self) -> str | None:
        """Why there is no saved model, if there is none; what the framework raises does not end the script."""
        if self.shown.has_adapters:
            with contextlib.suppress(Exception):  # of an older release of peft
                self.shown.adapter_names = lora.names_in_file(self.engine.module)
        try:
            return frameworks.save_model(self.engine, self._trainer, self._accelerator, self._export)
        except Exception as error:  # noqa: BLE001 - the error is the result
            return f"{type(error).__name__}: {error}"

    def _load(self) -> None:
        self._is_loaded = True
        self._presence.enter("load")
        if self.is_to_resume:
            try:
                with self._during(OF_LOAD):
                    self.engine.load_checkpoint(self._checkpoint)
            except Exception as error:
                self._presence.raised(error)
                self.write()
                raise
            self._replay.shown.restored = probes.fingerprint(self.engine)
        self._presence.enter("step")

    # -------------------------------------------------------------------------------------------------------- the end

    def measure_untrained(self) -> None:
        """What the rank holds of a model with which the script makes no step."""
        if not self.steps and self.shown.evidence.engine is None:
            self._watch.measure(self.engine)

    def write(self) -> None:
        """Leave what was shown so far for the driver."""
        evidence = self.shown.evidence
        evidence.stand_ins = ops.used()
        if self._log is not None and isinstance(self._config, dict):
            evidence.unread = sorted(".".join(map(str, path)) for path in recorder.unread(self._config, self._log))
        scheduler = getattr(self.engine, "lr_scheduler", None)  # a script may put in its own after initialize
        self.shown.scheduler = _class_of(scheduler) if scheduler is not None else ""
        self.shown.replayed = self._replay.shown
        os.makedirs(self._plan.own_folder, exist_ok=True)
        shown.write(self.shown, self._plan.own_folder)


def _parameters(model: Any, optimizer: Any, given: Any) -> Iterator[TrainedParameter]:
    """The parameters in the order in which the optimizer has them, each with its group; then those of no optimizer."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = getattr(optimizer, "param_groups", None) or given
    if groups is None:
        groups = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if isinstance(groups, dict):
        groups = [groups]
    if not groups or not isinstance(groups[0], dict):
        groups = [{"params": groups}]
    seen: set[int] = set()
    for number, group in enumerate(groups):
        members = group["params"]
        for parameter in [members] if torch.is_tensor(members) else members:
            if id(parameter) in names and id(parameter) not in seen and parameter.requires_grad:
                seen.add(id(parameter))
                decay = group.get("weight_decay")
                described = _described(names[id(parameter)], parameter, number)
                yield replace(described, decay=float(decay)) if isinstance(decay, (int, float)) else described
    for name, parameter in model.named_parameters():
        if id(parameter) not in seen:
            yield _described(name, parameter, 0, is_trainable=False)


def _parts(model: Any, parameters: list[TrainedParameter]) -> Iterator[TrainedParameter]:
    """The same once the engine is made, which may have split tensors among ranks (``tensor_parallel``)."""
    named = dict(model.named_parameters())
    for one in parameters:
        if (parameter := named.get(one.name)) is not None:
            yield replace(one, elements=getattr(parameter, "ds_numel", parameter.numel()))


def _is_micro_step(engine: Any) -> bool:
    """DeepSpeed counts no backward pass within ``engine.no_sync``, unless the caller says where a window ends.

    Accelerate does, and uses ``no_sync`` below stage 2: ``accumulate`` in accelerate/accelerator.py.
    """
    is_told = getattr(engine, "_is_gradient_accumulation_boundary", None) is not None
    return is_told or probes.is_coalescing(engine) or not getattr(engine, "inside_no_sync_ctxt", False)


def _described(name: str, parameter: Any, group: int, *, is_trainable: bool = True) -> TrainedParameter:
    elements = getattr(parameter, "ds_numel", parameter.numel())
    return TrainedParameter(name, elements, group, is_trainable, probes.expert_ranks(parameter))


def _multiplied_by(engine: Any, ranks: int) -> int:
    """The ranks that DeepSpeed counts in the batch sizes, which an ``mpu`` of the script may tell it."""
    return int(getattr(getattr(engine, "_config", None), "world_size", None) or ranks)


def _rates_of(engine: Any) -> list[float]:
    """The learning rate of each parameter group."""
    groups = getattr(probes.inner_optimizer(engine), "param_groups", [])
    return [float(group["lr"]) for group in groups if "lr" in group]


def _versions() -> dict[str, str]:
    """The releases of the libraries of this process."""
    found = {"python": platform.python_version()}
    for name in ("torch", "deepspeed", "transformers", "accelerate", "trl", "peft"):
        if (module := sys.modules.get(name)) is not None and hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    return found


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
