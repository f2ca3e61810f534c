"""The engines of the user's script: each is observed from its creation to the last step of the run."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import fsdp_models, imports
from ds_lint.smoke.probe.frameworks import Frameworks
from ds_lint.smoke.probe.loads import LoadedWeights
from ds_lint.smoke.probe.owner import Owner
from ds_lint.smoke.probe.plan import TRAIN
from ds_lint.smoke.probe.presence import AFTER, BEFORE, BEFORE_FSDP, IMPORT, INFERENCE, INITIALIZE
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ds_lint.smoke.probe.engine import ObservedEngine
    from ds_lint.smoke.probe.inference import Inference
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.probe.presence import Presence

_PATIENCE = 60.0  # seconds for the ranks to end together
# Where the script saves and loads: module, class, method, and the phase.
_PHASES = (
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "save_checkpoint", "save"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "save_16bit_model", "save"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "load_checkpoint", "load"),
    ("transformers.trainer", "Trainer", "save_model", "save"),
    ("accelerate.accelerator", "Accelerator", "save_state", "save"),
    ("accelerate.accelerator", "Accelerator", "save_model", "save"),
    ("accelerate.accelerator", "Accelerator", "load_state", "load"),
)
_SETTERS = ("safe_set_full_grad", "safe_set_local_grad", "safe_update_full_grad_vp")  # of deepspeed.utils
_MOST = 10  # times the steps of the run that one engine makes while it waits for those of the others


def install(plan: Plan, presence: Presence) -> None:
    """Observe every engine that ``deepspeed.initialize`` makes in this process."""
    engines = _Engines(plan, presence)
    imports.after("deepspeed", engines.watch)
    imports.after("deepspeed.runtime.engine", engines.watch_class)
    imports.after("deepspeed.runtime.pipe.engine", engines.watch_pipelines)
    imports.after("deepspeed.utils", engines.watch_setters)
    for module, owner, name, phase in _PHASES:
        imports.after(module, functools.partial(_note_phase, presence, owner, name, phase))
    fsdp_models.install(engines.owner())
    presence.at_end(engines.write)


class _Engines:
    """All engines of this process."""

    def __init__(self, plan: Plan, presence: Presence) -> None:
        self._plan = plan
        self._presence = presence
        self._maker = Frameworks()
        self._weights = LoadedWeights(is_shrunk=plan.shrinks)
        self._observed: list[ObservedEngine] = []
        self._inference: list[Inference] = []

    def owner(self) -> Owner:
        """What the models of FSDP get of the engines, among which they count."""

        def add(one: Any) -> int:
            self._observed.append(one)
            return len(self._observed)

        return Owner(self._plan, self._presence, self._maker, add, self._made_step)

    def watch(self, deepspeed: Any) -> None:
        """Wrap ``deepspeed.initialize``."""
        signature = inspect.signature(deepspeed.initialize)

        @around(deepspeed, "initialize")
        def observed(initialize: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._initialize(initialize, signature.bind_partial(*args, **kwargs).arguments)

        if hasattr(deepspeed, "init_inference"):
            around(deepspeed, "init_inference")(self._init_inference)

    @property
    def _next(self) -> int:
        """The number of the engine that is made now."""
        return len(self._observed) + len(self._inference) + 1

    def _init_inference(self, init: Callable[..., Any], model: Any, config: Any = None, **kwargs: Any) -> Any:
        from ds_lint.smoke.probe.inference import Inference

        before = self._presence.phase
        self._presence.enter(INFERENCE)
        one = Inference(self._next, self._plan, self._presence, self._weights, model)
        try:
            engine = init(model, config, **kwargs)
        except Exception as error:
            self._presence.raised(error)
            raise
        self._inference.append(one)
        one.made(engine, {**(config if isinstance(config, dict) else {}), **kwargs})
        self._presence.enter(AFTER if before in (IMPORT, BEFORE) else before)
        return engine

    def watch_class(self, module: ModuleType) -> None:
        """Hook the class of the engines."""
        from ds_lint.smoke.observe import recorder
        from ds_lint.smoke.observe.observation import observe_engines
        from ds_lint.smoke.probe import direct_backward

        recorder.watch()
        observe_engines(self._observer_of)
        direct_backward.watch(module.DeepSpeedEngine, self._observer_of)

    def _observer_of(self, engine: Any) -> ObservedEngine | None:
        return next((one for one in self._observed if one.engine is engine), None)

    def _initialize(self, initialize: Callable[..., Any], given: dict[str, Any]) -> Any:
        from ds_lint.smoke.probe.engine import ObservedEngine
        from ds_lint.smoke.probe.initialization import Initialization

        before = self._presence.phase
        self._presence.enter(INITIALIZE)
        one = Initialization(self._next, self._plan, self._maker, given)
        try:
            made = initialize(**one.given)
        except Exception as error:
            self._presence.raised(error)
            one.refused()
            raise
        observed = ObservedEngine(made[0], one, self._plan, self._presence, self._maker, self._made_step, self._weights)
        self._observed.append(observed)
        self._presence.enter(AFTER if before in (IMPORT, BEFORE, BEFORE_FSDP) else before)
        return made

    def watch_pipelines(self, module: ModuleType) -> None:
        """A ``PipelineEngine`` makes its steps within ``train_batch``."""

        @around(module.PipelineEngine, "train_batch")
        def watched(train_batch: Any, engine: Any, *args: Any, **kwargs: Any) -> Any:
            one = self._observer_of(engine)
            if one is None:
                return train_batch(engine, *args, **kwargs)
            return one.train_batch(engine, args, kwargs, train_batch)

    def watch_setters(self, module: ModuleType) -> None:
        """What a script calls to change gradients that ZeRO holds."""
        for name in _SETTERS:
            if hasattr(module, name):
                around(module, name)(self._set_gradient)

    def _set_gradient(self, setter: Callable[..., Any], parameter: Any, *args: Any, **kwargs: Any) -> Any:
        for one in self._observed:
            if any(parameter is own for own in one.engine.module.parameters()):
                one.trace.changes_gradients = True
        return setter(parameter, *args, **kwargs)

    def _made_step(self) -> None:
        """End the run if every engine that makes steps has made those of the run; all ranks count the same."""
        plan = self._plan
        made = [one.steps for one in self._observed if one.steps or one.checkpoint.is_to_resume]
        is_enough = all(steps >= plan.whole for steps in made) and not self._misses_one()
        if is_enough or max(made) >= _MOST * plan.whole:
            self._finish()

    def _misses_one(self) -> bool:
        """Whether an engine is still to come that the first start has saved: the script trains one after the other."""
        kept = self._plan.kept_folder
        if self._plan.part == TRAIN or not os.path.isdir(kept):
            return False
        numbers = (int(name.partition("-")[2]) for name in os.listdir(kept) if name.startswith("engine-"))
        later = (number for number in numbers if number >= self._next)
        return any(os.path.isdir(os.path.join(kept, f"engine-{number}", "checkpoint")) for number in later)

    def _finish(self) -> None:
        """End this process with the others: the launcher sees success, and the script does not go on."""
        import torch

        self.write()
        self._presence.enter("done")
        sys.stdout.flush()
        sys.stderr.flush()
        alarm = threading.Timer(_PATIENCE, os._exit, (0,))  # another rank may never come
        alarm.daemon = True
        alarm.start()
        torch.distributed.barrier()
        with open(self._plan.over, "wb"):  # a shell script may go on to train another model
            pass
        os._exit(0)

    def write(self) -> None:
        """Leave the trace of every engine so far."""
        for one in self._observed:
            with contextlib.suppress(RuntimeError):  # the process group may have ended
                one.measure_untrained()
            one.write()
        for inference in self._inference:
            inference.write()


def _note_phase(presence: Presence, owner: str, name: str, phase: str, module: ModuleType) -> None:
    """The script is in a phase while a method runs."""

    @around(getattr(module, owner), name)
    def noted(method: Any, /, *args: Any, **kwargs: Any) -> Any:
        with presence.during(phase):
            return method(*args, **kwargs)
