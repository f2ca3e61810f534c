"""What a config asks for, computed from the config and the training arguments, never from an engine."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.suggestions import is_typo, sibling
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics import configs
from ds_lint.semantics.arguments import is_explicit
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.batch import BATCH_SIZES, completed, data_parallel_size, multiplies_up, sequence_parallel_ranks
from ds_lint.semantics.features import DTYPE_NAMES, bf16_section, is_on, model_dtype, number, number_of, zero_stage
from ds_lint.semantics.preparation import prepare
from ds_lint.semantics.schedules import TRAINERS_NAMES
from ds_lint.smoke.expected.loss_scale_rule import LossScaleRule
from ds_lint.smoke.records.job import ADAMW, CPU_ADAM
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import dotted, plain

if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.semantics.config import Config

ZERO = "zero_optimization"
GATHER = ("zero_optimization", "stage3_gather_16bit_weights_on_model_save")
_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
ASSUMED = "assumed to match the config"  # the origin of training arguments that are not given
# Names in the states of the optimizers: deepspeed/ops/adam, lamb and lion; torch/optim/adam.py.
_ADAM = ("exp_avg", "exp_avg_sq")
_STATES = {"adam": _ADAM, "adamw": _ADAM, "lamb": _ADAM, "lion": ("exp_avg",)}
_ADAM_CLASSES = ("Adam", "AdamW", "FusedAdam", "DeepSpeedCPUAdam")
_CPU_STATES = {**_STATES, "lion": _ADAM}  # DeepSpeedCPULion makes a second one, which it never uses
_THRESHOLD = "stage3_param_persistence_threshold"


class Requested(NamedTuple):
    """A value that the config asks for, and the dotted key path that sets it."""

    value: Any
    key: str | None


class Batch(NamedTuple):
    """Batch sizes that fit together."""

    train: int
    micro: int
    accumulation_steps: int

    def in_words(self, ranks: int) -> str:
        """``2 x 1 micro steps x 8 ranks = 16``; if ranks share a copy of the model, it counts copies."""
        copies = self.train // max(1, self.micro * self.accumulation_steps)
        of_ranks = (
            f"{ranks:,} rank{'s' * (ranks != 1)}"
            if copies == ranks
            else f"{copies:,} {'copy' if copies == 1 else 'copies'} of the model"
        )
        return f"{self.micro:,} x {self.accumulation_steps:,} micro steps x {of_ranks} = {self.train:,}"


def as_dict(config: Config) -> JsonObject:
    """The config as a Python dict."""
    found = plain(config.written)
    return found if isinstance(found, dict) else {}


def with_meant_names(config: Config) -> tuple[JsonObject, dict[str, str]]:
    """The config with misspelled keys under their correct names, and the written key path of each.

    An unknown key that is almost a known one asks for something too.
    """
    found, written = as_dict(config), {}
    for visit in config.unknown:
        *sections, name = visit.path
        key = sibling(name, visit.section)
        below: Any = found
        for section in sections:
            below = below.get(section) if isinstance(below, dict) else None
        if key is None or not is_typo(name, key.name) or not isinstance(below, dict) or key.name in below:
            continue
        below[key.name] = below.pop(name)
        written[dotted((*sections, key.name))] = dotted(visit.path)
    return found, written


class Expectation:
    """What a config asks for in a run: ``config`` as written, ``final`` as DeepSpeed should get it.

    ``final`` has correct key names, the changes for this run, and what the Trainer fills in. ``made`` is the class of
    the optimizer that a script has made, which may be any.
    """

    def __init__(
        self, config: Config, changed: JsonObject, written_as: dict[str, str], made: str | None = None
    ) -> None:
        self.config = config
        self._made = made
        self.written_as = written_as
        prepared = prepare(configs.from_dict(changed, config.basis.but(stack=config.stack)))
        self.text = _plain(changed, config)  # without what a stack adds
        self.final = _plain(_without_unknowns(prepared.config), config)

    def key(self, *path: str) -> str | None:
        """The key path as written, or the innermost existing section of it; None for neither."""
        for length in range(len(path), 0, -1):
            here = dotted(path[:length])
            here = self.written_as.get(here, here)
            for meant, written in self.written_as.items():  # a mistyped section
                if here.startswith(f"{meant}."):
                    here = written + here[len(meant) :]
            if self.config.written.at(tuple(here.split("."))) is not None:
                return here
        return None

    def is_written(self, *path: str) -> bool:
        """Whether the config has a key, misspelled or not."""
        return self.config.written.at(path) is not None or dotted(path) in self.written_as

    def requested(self, value: Any, *path: str) -> Requested:
        """A value, with the key that sets it."""
        return Requested(value, self.key(*path))

    def number(self, *path: str) -> float | None:
        """A number of the final config; None if it is not set or unknown."""
        node = self.final.node(*path)
        return number_of(node) if node is not None else None

    # ---------------------------------------------------------------------------------------------------- promises

    @property
    def stage(self) -> Requested | None:
        """The ZeRO stage; None if it is unknown."""
        stage = zero_stage(self.final)
        return None if stage is None else self.requested(stage, ZERO, "stage")

    @property
    def optimizer_offload(self) -> Requested | None:
        """The place of an offloaded optimizer: cpu or nvme; None if it is not offloaded."""
        if is_on(self.final, ZERO, "cpu_offload"):
            return self.requested("cpu", ZERO, "cpu_offload")
        return self._device("offload_optimizer")

    @property
    def parameter_offload(self) -> Requested | None:
        """The place of offloaded parameters: cpu or nvme; None if they are not offloaded."""
        if is_on(self.final, ZERO, "cpu_offload_params"):
            return self.requested("cpu", ZERO, "cpu_offload_params")
        return self._device("offload_param")

    def _device(self, section: str) -> Requested | None:
        device = self.final.value(ZERO, section, "device")
        return self.requested(device, ZERO, section, "device") if device in ("cpu", "nvme") else None

    @property
    def dtype(self) -> Requested:
        """The dtype of the weights that the model computes with, or that torch_autocast casts."""
        name = model_dtype(self.text)  # what Accelerate adds does not count
        if name == "fp32":
            name = model_dtype(self.final)
        section = name
        if name != "fp16":
            section = bf16_section(self.text)
        if name == "fp32" and not self.key(section):
            section = "fp16"
        return self.requested(_DTYPES[name], section, "enabled")

    @property
    def master_dtype(self) -> Requested:
        """The dtype of the weights that the optimizer updates."""
        for section in ("fp16", "bf16"):
            name = f"{section}_master_weights_and_grads"
            if is_on(self.final, section, name):
                return self.requested(_DTYPES[section], section, name)
        return self.requested("float32", *((self.dtype.key or "").split(".")))

    @property
    def communication_dtype(self) -> Requested | None:
        """The dtype in which gradients are reduced, if the config sets one."""
        return self._named_dtype("communication_data_type")

    @property
    def accumulation_dtype(self) -> Requested | None:
        """The dtype in which gradients are accumulated, if the config sets one."""
        return self._named_dtype("data_types", "grad_accum_dtype")

    @property
    def autocast_dtype(self) -> Requested | None:
        """The dtype in which torch_autocast lets layers compute; None if it is off or its dtype is unknown."""
        if not is_on(self.final, "torch_autocast", "enabled"):
            return None
        dtype = _DTYPES.get(DTYPE_NAMES.get(str(self.final.value("torch_autocast", "dtype")), ""))
        return self.requested(dtype, "torch_autocast", "dtype") if dtype is not None else None

    def _named_dtype(self, *path: str) -> Requested | None:
        value = self.final.value(*path)
        return self.requested(_DTYPES[value], *path) if isinstance(value, str) and value in _DTYPES else None

    @property
    def is_loss_scale_static(self) -> bool:
        """Whether fp16 uses a static loss scale."""
        return is_on(self.final, "fp16", "enabled") and bool(self.number("fp16", "loss_scale"))

    @property
    def loss_scale_rule(self) -> LossScaleRule | None:
        """How the loss scale of fp16 rises and falls; None without fp16.

        The keys have the defaults of the release. Without ZeRO, an overflow that the hysteresis would absorb counts.
        """
        if self.dtype.value != "float16":
            return None
        window, hysteresis, least = (
            self.number("fp16", name) or self._default_of("fp16", name)
            for name in ("loss_scale_window", "hysteresis", "min_loss_scale")
        )
        if window is None or hysteresis is None or least is None:
            return None
        has_hysteresis = self.stage is not None and self.stage.value > 0
        return LossScaleRule(
            int(window),
            int(hysteresis) if has_hysteresis else 1,
            float(least),
            refills=has_hysteresis and bool(self.final.value("fp16", "consecutive_hysteresis")),
            is_static=self.is_loss_scale_static,
        )

    @property
    def first_loss_scale(self) -> float | None:
        """The loss scale of the first step; None if it is unknown."""
        if self.is_loss_scale_static:
            return self.number("fp16", "loss_scale")
        power = self.number("fp16", "initial_scale_power")
        power = self._default_of("fp16", "initial_scale_power") if power is None else power
        return 2.0**power if power is not None else None

    @property
    def clipping(self) -> Requested | None:
        """The norm to which gradients are clipped: that of the training arguments if they set it."""
        wanted = self.argument("max_grad_norm")
        if wanted is not None:
            return Requested(float(wanted), self.key("gradient_clipping"))
        found = self.number("gradient_clipping")
        return None if found is None else self.requested(found, "gradient_clipping")

    @property
    def clipping_by_default(self) -> float:
        """The norm to which the release clips gradients if nothing sets one: 0 for none, and 1 from 0.19.3 on."""
        return self._default_of("gradient_clipping") or 0.0

    def argument(self, name: str) -> Any:
        """A training argument that is given; None if it is not."""
        training = self.config.facts.training
        if training is None or training.origin == ASSUMED:
            return None
        found = self.config.argument(name) if is_explicit(self.config, name) else None
        return found.value if found is not None and found.value is not UNKNOWN else None

    @property
    def gathers(self) -> bool:
        """Whether ZeRO-3 gathers the weights when a model is saved."""
        return is_on(self.final, *GATHER)

    def batch(self, world_size: int) -> Batch | None:
        """The batch sizes of a step on this many ranks; None if they do not fit together or are not set.

        DeepSpeed counts a sample once for each of the ranks that share a tensor, in ``train_batch_size`` too.
        """
        found = self.counted_batch(world_size)
        return found._replace(train=found.train // ranks_of_a_tensor(self.final)) if found is not None else None

    def counted_batch(self, world_size: int) -> Batch | None:
        """The same as DeepSpeed counts them."""
        train, micro, steps = (_whole(self.number(name)) for name in BATCH_SIZES)
        return fitting(self.final, train, micro, steps, world_size)

    def setting(self, name: str) -> float | None:
        """A number of ``zero_optimization`` under either of its names; if it is not set, the default of the release."""
        found = (self.number(ZERO, each) for each in self._names(name))
        return next((value for value in found if value is not None), self._default(name))

    def _names(self, name: str) -> list[str]:
        known = self.final.knowledge.find((ZERO, name))
        return [name, *([known.facts["alias"]] if known is not None and "alias" in known.facts else [])]

    def _default(self, name: str) -> float | None:
        return self._default_of(ZERO, name)

    def _default_of(self, *path: str) -> float | None:
        """The default of a number in the release."""
        known = self.final.knowledge.find(path)
        return number(known.facts.get("default")) if known is not None else None

    @property
    def threshold(self) -> Requested:
        """The size up to which ZeRO-3 keeps a parameter whole on every rank, as the user's run has it."""
        for name in self._names(_THRESHOLD):
            path = (ZERO, name)
            if self.config.root.at(path) is not None:
                filled = prepare(self.config).value(*path)
                is_dropped = filled == AUTO and self.config.stack == "deepspeed"
                value = self._default(_THRESHOLD) if is_dropped else number(filled)
                return self.requested(_whole(value), *path)
        return self.requested(_whole(self._default(_THRESHOLD)), ZERO, _THRESHOLD)

    @property
    def model_threshold(self) -> int:
        """How many elements ZeRO-3 keeps whole in all; the maximum integer if the release has no limit."""
        most = self.setting("stage3_model_persistence_threshold")
        return int(most) if most is not None else sys.maxsize

    @property
    def optimizer(self) -> str | None:
        """The type of the optimizer in the config; None if the script provides it."""
        value = self.final.value("optimizer", "type")
        return str(value) if value is not None else None

    @property
    def optimizer_of_script(self) -> str | None:
        """The substitute for the optimizer of the script: the one that DeepSpeed needs if it offloads."""
        if self.optimizer is not None:
            return None
        return CPU_ADAM if self.optimizer_offload is not None else ADAMW

    @property
    def states(self) -> tuple[str, ...] | None:
        """The states of the optimizer for every element; None if they are unknown."""
        if self.optimizer is not None:
            known = _STATES if self.optimizer_offload is None else _CPU_STATES
            return known.get(self.optimizer.lower())
        if self._made is not None:
            return _ADAM if self._made in _ADAM_CLASSES else None
        optim = self.argument("optim")
        return _STATES["adamw"] if optim is None or str(optim).startswith("adamw_torch") else None

    @property
    def rate(self) -> Requested | None:
        """The learning rate of the optimizer in the config."""
        path = ("optimizer", "params", "lr")
        value = self.number(*path)
        return self.requested(value, *path) if value is not None else None

    @property
    def asks_for_schedule(self) -> bool:
        """Whether the training arguments ask for a schedule that differs from that of the config."""
        kind, wanted = self.schedule[0] if self.schedule else "", self.argument("lr_scheduler_type")
        if kind in TRAINERS_NAMES:  # which use the warm-up of the arguments
            return wanted is not None and wanted not in TRAINERS_NAMES[kind]
        return any(self.argument(name) is not None for name in ("lr_scheduler_type", "warmup_steps", "warmup_ratio"))

    @property
    def trainers_schedule(self) -> tuple[str, float, int, int] | None:
        """The schedule of the training arguments: its type, the rate, warm-up steps and training steps."""
        kind, rate, steps, total, share = (
            found.value if (found := self.config.argument(name)) is not None else None
            for name in ("lr_scheduler_type", "learning_rate", "warmup_steps", "max_steps", "warmup_ratio")
        )
        numbers = [one for one in (rate, steps, total, share) if one is not None]
        if not isinstance(kind, str) or not all(isinstance(one, (int, float)) for one in numbers):
            return None
        if rate is None or total is None:
            return None
        if self.argument("lr_scheduler_kwargs"):
            return None
        warmup = steps or share or 0  # a share of the training below 1: get_warmup_steps in training_args.py
        return kind, float(rate), math.ceil(total * warmup) if 0 < warmup < 1 else int(warmup), total

    @property
    def schedule(self) -> tuple[str, JsonObject] | None:
        """The scheduler of the config, and its parameters."""
        kind = self.final.value("scheduler", "type")
        params = self.final.section("scheduler", "params")
        found = plain(params) if params is not None else {}
        return (kind, found) if isinstance(kind, str) and isinstance(found, dict) else None


def ranks_of_a_copy(config: Config) -> int:
    """Ranks that share the samples of one copy of the model, by splitting its sequences or its tensors."""
    return int(sequence_parallel_ranks(config, from_file=False) or 1) * ranks_of_a_tensor(config)


def ranks_of_a_tensor(config: Config) -> int:
    """Ranks that share each tensor of a layer."""
    size = config.root.at(("tensor_parallel", "autotp_size"))
    return int(number_of(size) or 1) if size is not None else 1


def fitting(config: Config, train: int | None, micro: int | None, steps: int | None, ranks: int) -> Batch | None:
    """The batch sizes on this many ranks, from the given ones; None if DeepSpeed rejects them.

    A run passes DeepSpeed a dict.
    """
    if train is None and micro is None:
        return None
    world = data_parallel_size(config, ranks, from_file=False)
    try:
        sizes = completed(train, micro, steps, world)
    except ZeroDivisionError:
        return None
    return Batch(*map(int, sizes)) if multiplies_up(*sizes, world) else None


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None else None


def _without_unknowns(value: Any) -> Any:
    """The config without values that are unknown before the run."""
    if isinstance(value, dict):
        return {name: _without_unknowns(below) for name, below in value.items() if below is not UNKNOWN}
    return value


def _plain(written: dict[str, Any], config: Config) -> Config:
    """A config as plain DeepSpeed gets it."""
    return configs.from_dict(written, Basis(config.knowledge, stack="deepspeed"))
