"""One call of ``deepspeed.initialize`` in the user's script on one rank: what it gets, and which engine it makes."""

from __future__ import annotations

import copy
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.smoke.observe import probes, recorder
from ds_lint.smoke.observe.tied import tied
from ds_lint.smoke.probe import frameworks, loads
from ds_lint.smoke.probe.leading import Leading
from ds_lint.smoke.probe.measured import EngineMeter
from ds_lint.smoke.probe.plan import TRAIN
from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.records.job import Evidence, TrainedParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.probe.frameworks import Frameworks
    from ds_lint.smoke.probe.plan import Plan


class Initialization:
    """What the engine is made of; the config is passed on as a dict that records who reads it."""

    def __init__(self, number: int, plan: Plan, maker: Frameworks, given: dict[str, Any]) -> None:
        self.given = dict(given)  # what DeepSpeed gets instead
        self._number = number
        self._plan = plan
        self._maker = maker
        self._log = recorder.start("deepspeed.")
        self._own_rates = maker.own_rates(given)
        self._model_class = ""
        self._evidence = Evidence(0)
        self.given_digests: dict[str, str] = {}
        self.has_adapters = False
        model, parameters = given.get("model"), given.get("model_parameters")
        if parameters is not None and not isinstance(parameters, (list, tuple, dict)):
            parameters = self.given["model_parameters"] = list(parameters)  # an iterator can be read once
        if model is not None:
            self._model_class = _class_of(model)
            self._evidence.parameters = list(_parameters(model, given.get("optimizer"), parameters))
            self._evidence.tied = tied(model)
            if given.get("optimizer") is None and plan.part == TRAIN:  # it may only evaluate
                self.given_digests = loads.digests_of(model)
                self.has_adapters = loads.has_adapters(model)
            self._evidence.model_buffers = sum(buffer.numel() for buffer in model.buffers())
        name = "config" if given.get("config") is not None else "config_params"
        config = given.get(name)
        if config is None:
            config = getattr(given.get("args"), "deepspeed_config", None)
        self._path = os.path.abspath(os.fspath(config)) if isinstance(config, (str, os.PathLike)) else None
        self._config: Any = copy.deepcopy(recorder.plain(config)) if isinstance(config, dict) else None
        if isinstance(config, dict):
            self.given[name] = recorder.wrap(recorder.plain(config), (), self._log)
        self.meter = EngineMeter()

    def made(self, engine: Any) -> engine_trace.EngineTrace:
        """What is known of the engine that DeepSpeed has made."""
        self.meter.begin_step()
        ranks = torch.distributed.get_world_size()
        if self._config is None:
            self._config = recorder.plain(getattr(engine.config, "_param_dict", None) or {})
        model, optimizer = engine.module, probes.inner_optimizer(engine)
        mode = CUDA if torch.device(engine.device).type == "cuda" else CPU
        one = self._trace(torch.distributed.get_rank(), ranks, mode, _class_of(model))
        one.evidence.model = type(model).__name__
        one.data_parallel = int(getattr(engine, "dp_world_size", None) or ranks)
        one.sequence_parallel = int(getattr(engine, "sequence_parallel_size", None) or 1)
        # An ``mpu`` of the script may tell DeepSpeed of other ranks.
        one.multiplied_by = int(getattr(getattr(engine, "_config", None), "world_size", None) or ranks)
        one.optimizer = _class_of(optimizer) if optimizer is not None else ""
        one.parts = list(_parts(model, one.evidence.parameters))
        one.is_pipeline = hasattr(engine, "grid") and hasattr(engine, "train_batch")
        one.has_adapters = bool(getattr(model, "peft_config", None))
        one.own_rates = self._own_rates
        one.saves_itself = self._maker.saves_itself()
        return one

    def refused(self) -> None:
        """DeepSpeed raises instead of making the engine: leave for the driver what was given to it."""
        if self._config is None and (self._path is None or not os.path.isfile(self._path)):
            return  # there is no config to reject
        is_there = torch.distributed.is_initialized()
        ranks = torch.distributed.get_world_size() if is_there else int(os.environ.get("WORLD_SIZE", "1"))
        rank = torch.distributed.get_rank() if is_there else int(os.environ.get("RANK", "0"))
        one = self._trace(rank, ranks, CPU if self._plan.uses_cpu else CUDA, self._model_class)
        one.is_refused = True
        engine_trace.write(one, self._plan.own_folder)

    def look_again(self, one: engine_trace.EngineTrace, engine: Any) -> None:
        """What DeepSpeed has read of the config so far, and the scheduler, which a script may put in later."""
        if isinstance(self._config, dict):
            one.evidence.unread = sorted(".".join(map(str, path)) for path in recorder.unread(self._config, self._log))
        scheduler = getattr(engine, "lr_scheduler", None)
        one.scheduler = _class_of(scheduler) if scheduler is not None else ""

    def _trace(self, rank: int, ranks: int, mode: str, model_class: str) -> engine_trace.EngineTrace:
        self._evidence.rank = rank
        own = Leading(self._plan).own  # the folders that the user has named
        arguments = frameworks.given_arguments(self._maker.trainer)
        return engine_trace.EngineTrace(
            number=self._number,
            evidence=self._evidence,
            stack=self._maker.stack,
            world_size=ranks,
            data_parallel=ranks,
            multiplied_by=ranks,
            mode=mode,
            model_class=model_class,
            config=self._config,
            config_path=self._path,
            arguments={name: own(value) if isinstance(value, str) else value for name, value in arguments.items()},
            versions=versions(),
            measured=self.meter.measured,
        )


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
                yield described.but(decay=float(decay)) if isinstance(decay, (int, float)) else described
    for name, parameter in model.named_parameters():
        if id(parameter) not in seen:
            yield _described(name, parameter, 0, is_trainable=False)


def _parts(model: Any, parameters: list[TrainedParameter]) -> Iterator[TrainedParameter]:
    """The same once the engine is made, which may have split tensors among ranks (``tensor_parallel``)."""
    named = dict(model.named_parameters())
    for one in parameters:
        if (parameter := named.get(one.name)) is not None:
            yield one.but(elements=getattr(parameter, "ds_numel", parameter.numel()))


def _described(name: str, parameter: Any, group: int, *, is_trainable: bool = True) -> TrainedParameter:
    elements = getattr(parameter, "ds_numel", parameter.numel())
    return TrainedParameter(name, elements, group, is_trainable, probes.expert_ranks(parameter))


def versions() -> dict[str, str]:
    """The releases of the libraries of this process."""
    found = {"python": platform.python_version()}
    for name in ("torch", "deepspeed", "transformers", "accelerate", "trl", "peft"):
        if (module := sys.modules.get(name)) is not None and hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    return found


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
