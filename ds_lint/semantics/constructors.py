"""Which constructor DeepSpeed calls for the optimizer and the scheduler of a config, and what it takes."""

from __future__ import annotations

from ds_lint.semantics.config import once
from ds_lint.semantics.features import (
    OLD_OFFLOAD,
    certain_dtype,
    is_on,
    is_truthy,
    named_accumulation_dtype,
    zero_stage,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import ConstructorCall, Defaults, ParameterFacts, TorchFamily
    from ds_lint.launches.script_optimizers import ScriptOptimizers
    from ds_lint.semantics.config import Config

# Read by name or popped by the engine before the constructor sees them (get_optimizer_configuration and
# _configure_basic_optimizer in deepspeed/runtime/engine.py); the later ones since it sorts parameters out.
_POPPED_FOR_ADAM = ("adam_w_mode", "torch_adam")
_POPPED_LATER = {"adam": ("fp32_optimizer_states",), "torch": ("fp32_optimizer_states", "foreach")}
_READ_FOR_MUON = ("lr", "muon_lr", "adam_lr", "momentum", "weight_decay", "ns_method", "betas", "eps", "per_head_muon")
_MUON = "deepspeed.runtime.zero.muon.muon_optimizer.MuonWithAuxAdam"
# As DeepSpeed's documentation writes them; it compares them in lower case.
SPELLED = {
    "adagrad": "Adagrad", "adam": "Adam", "adamw": "AdamW", "lamb": "Lamb", "lion": "Lion", "muadam": "MuAdam",
    "muadamw": "MuAdamW", "muon": "Muon", "musgd": "MuSGD", "onebitadam": "OneBitAdam", "onebitlamb": "OneBitLamb",
    "zerooneadam": "ZeroOneAdam",
}  # fmt: skip


class Constructor:
    """A constructor as DeepSpeed calls it with the parameters of the config.

    ``extra`` are the keys that DeepSpeed takes out before the call. ``is_open`` constructors never see a key that they
    do not know; the others raise. ``parameters`` is None where nothing is known of them (packages like mup).
    """

    __slots__ = ("_extra", "_parameters", "_takes", "is_open", "is_torch", "name")

    def __init__(
        self,
        callable_name: str,
        parameters: Defaults | None,
        takes: dict[str, ParameterFacts],
        *,
        extra: tuple[str, ...] = (),
        is_open: bool = False,
    ) -> None:
        self.name = callable_name.rsplit(".", 1)[-1]
        self.is_torch = callable_name.startswith("torch.")
        self.is_open = is_open
        self._parameters = parameters
        self._takes = takes
        self._extra = extra

    def knows(self, name: str) -> bool:
        """Whether the call takes a parameter of this name."""
        return self._parameters is None or name in self._parameters or name in self._extra

    def names(self) -> list[str]:
        """Every parameter that the config may set."""
        return [*(self._parameters or ()), *self._extra]

    def default(self, name: str) -> Any:
        """What a parameter is that the config leaves out; None where nothing is known of it."""
        return (self._parameters or {}).get(name)

    def required(self) -> list[str]:
        """The parameters without a default."""
        return [name for name, default in (self._parameters or {}).items() if default == "$required"]

    def facts(self, name: str) -> ParameterFacts | None:
        """What it takes for a parameter, or None where it takes anything."""
        if self._parameters is None or name not in self._parameters:
            return None
        return self._takes.get(name)

    @property
    def as_a_whole(self) -> ParameterFacts:
        """What holds of all its parameters: ``never`` says why it always raises, ``needs`` of what it needs one."""
        return self._takes.get("*", {})


def optimizer_constructor(config: Config) -> Constructor | None:
    """The constructor of the optimizer that DeepSpeed builds; None if it builds none, or there is none of that name."""
    return None if brings_optimizer(config) else named_constructor(config)


@once
def named_constructor(config: Config) -> Constructor | None:
    """The constructor of ``optimizer.type``, whoever builds the optimizer; None if there is none of that name."""
    name = config.value("optimizer", "type")
    if not isinstance(name, str):
        return None
    kind = name.lower()
    knowledge = config.knowledge
    callables = {one["callee"]: one for one in knowledge.constructors("optimizer.params", kind)}
    if kind in ("adam", "adamw") and callables:
        return _adam(config, kind, callables)
    if kind == "muon" and _builds_muon(knowledge):
        extra = _popped(config, "torch" if _is_torch_adam(config) else "adam")
        read = [name for name in _READ_FOR_MUON if knowledge.find(("optimizer", "params", name)) is not None]
        parameters: Defaults = dict.fromkeys(read)
        return Constructor(_MUON, parameters, knowledge.parameters(_MUON), extra=extra, is_open=True)
    if kind == "adagrad" and callables:
        if offloads_optimizer(config):
            return _constructor(config, "deepspeed.ops.adagrad.cpu_adagrad.DeepSpeedCPUAdagrad", callables)
        return _torch(config, "optimizers", "Adagrad")
    if kind == "lion" and callables:
        where = "cpu_lion.DeepSpeedCPULion" if offloads_optimizer(config) else "fused_lion.FusedLion"
        return _constructor(config, f"deepspeed.ops.lion.{where}", callables)
    if kind == "lamb" and callables:
        return _constructor(config, "deepspeed.ops.lamb.fused_lamb.FusedLamb", callables)
    if callables:  # 1-bit optimizers, and those of mup, of which nothing is known
        one = next(iter(callables.values()))
        return Constructor(one["callee"], one.get("parameters"), knowledge.parameters(one["callee"]))
    return _torch(config, "optimizers", name)


@once
def scheduler_constructor(config: Config) -> Constructor | None:
    """The constructor of the scheduler that DeepSpeed builds; None if it builds none, or there is none of that name."""
    name = config.value("scheduler", "type")
    if not isinstance(name, str) or brings_scheduler(config):
        return None
    for one in config.knowledge.constructors("scheduler.params", name):
        return Constructor(one["callee"], one["parameters"], config.knowledge.parameters(one["callee"]))
    return _torch(config, "schedulers", name)


def script_optimizers(config: Config) -> ScriptOptimizers | None:
    """What the script hands to what builds the engine on the stack of the config; None if that is not known."""
    launch = config.facts.launch
    handed = launch.script.calls.optimizers if launch is not None and launch.script is not None else None
    if handed is None or config.stack is None:
        return None
    taker = {"deepspeed": "deepspeed.initialize", "accelerate": "accelerator.prepare"}.get(config.stack, "Trainer")
    return handed if handed.function.endswith(taker) else None


def brings_optimizer(config: Config) -> bool:
    """Whether the script passes an optimizer to deepspeed.initialize, or may: then that of the config is not built.

    Source: ``_configure_optimizer`` in ``deepspeed/runtime/engine.py``.
    """
    handed = script_optimizers(config) if config.stack == "deepspeed" else None
    return handed is not None and handed.has_optimizer is not False


def brings_scheduler(config: Config) -> bool:
    """Whether the script passes a scheduler to deepspeed.initialize, or may: then that of the config is not built.

    Source: ``_configure_lr_scheduler`` in ``deepspeed/runtime/engine.py``.
    """
    handed = script_optimizers(config) if config.stack == "deepspeed" else None
    return handed is not None and handed.has_scheduler is not False


def evaluates_alone(config: Config) -> bool:
    """Whether a Trainer evaluates or predicts, and does not train."""
    if config.facts.training is None and config.facts.launch is None:
        return False
    from ds_lint.semantics.evaluation import evaluated_alone  # not needed without either

    return evaluated_alone(config) is not None


@once
def has_no_optimizer(config: Config) -> bool:
    """Whether an engine of stage 3 certainly runs without an optimizer, for inference."""
    if evaluates_alone(config):
        return True
    handed = script_optimizers(config) if config.stack == "deepspeed" else None
    is_without = handed is not None and handed.has_optimizer is False and not handed.trains
    return is_without and zero_stage(config) == 3 and config.node("optimizer", "type") is None


def names_optimizer(config: Config) -> bool:
    """Whether DeepSpeed builds the optimizer; else it gets that of the script, since nothing trains without one.

    The Trainer and Accelerate always bring one.
    """
    node = config.node("optimizer", "type")
    return node is not None and node.kind != "null" and not brings_optimizer(config)


def with_passed_optimizer(config: Config) -> str:
    """What a message on an error says of the optimizer, where the config has none and stays silent on who brings it."""
    is_passed = config.stack == "deepspeed" and not names_optimizer(config)
    return " with the script's optimizer" if is_passed else ""


@once
def offloads_optimizer(config: Config) -> bool:
    """Whether DeepSpeed takes its CPU optimizers: it looks at the device, not at the stage."""
    section = config.section("zero_optimization", "offload_optimizer")
    if section is not None:
        device = section.get("device")
        return device is not None and device.value in ("cpu", "nvme")
    return config.value("zero_optimization", "cpu_offload") is True


def has_kernel_of_gpu_only(name: str) -> bool:
    """Whether an optimizer, by its full name, steps with a kernel that takes no tensors in host memory."""
    package, _, last = name.rpartition(".")
    return last in ("FusedAdam", "FusedLamb", "FusedLion") and package.partition(".")[0] in ("apex", "deepspeed")


@once
def may_have_bf16_optimizer(config: Config) -> bool:
    """Whether stage 1 may get the optimizer that adds bf16 gradients up in fp32, and none of ZeRO's.

    Source: ``_do_optimizer_sanity_check`` in ``deepspeed/runtime/engine.py``.
    """
    if zero_stage(config) != 1 or certain_dtype(config) not in ("bf16", None):
        return False
    if config.value("zero_optimization", "offload_optimizer", "device") == "cpu" or is_on(config, *OLD_OFFLOAD):
        return False
    if config.value("data_types", "grad_accum_dtype") is None:
        return config.knowledge.does("bf16-accumulates-in-fp32")
    return named_accumulation_dtype(config) == "fp32"


def optimizer_types(knowledge: Knowledge) -> list[str]:
    """The types of optimizers that DeepSpeed builds itself, as people write them."""
    kinds = [*knowledge.types("optimizer.params"), *(["muon"] if _builds_muon(knowledge) else [])]
    return [SPELLED[kind] for kind in kinds]


def _builds_muon(knowledge: Knowledge) -> bool:
    return knowledge.find(("optimizer", "params", "momentum")) is not None  # read by name for Muon alone


def _popped(config: Config, by: str) -> tuple[str, ...]:
    later = _POPPED_LATER[by] if config.knowledge.does("optimizer-parameters-are-sorted-out") else ()
    return (*_POPPED_FOR_ADAM, *later)


def _is_torch_adam(config: Config) -> bool:
    return is_truthy(config.node("optimizer", "params", "torch_adam"))


def _adam(config: Config, kind: str, callables: dict[str, ConstructorCall]) -> Constructor | None:
    if _is_torch_adam(config):
        mode = config.node("optimizer", "params", "adam_w_mode")
        name = "AdamW" if kind == "adamw" or mode is None or is_truthy(mode) else "Adam"
        return _torch(config, "optimizers", name, _popped(config, "torch"))
    extra = _popped(config, "adam")
    if offloads_optimizer(config):
        if config.section("zero_optimization", "zenflow") is not None:
            return Constructor("deepspeed.ops.adam.zenflow_cpu_adam.ZenFlowCPUAdam", None, {})
        extra = (*extra, "fp32_optimizer_states")  # DeepSpeed hands it over itself, where it does not leave it in
        return _constructor(config, "deepspeed.ops.adam.cpu_adam.DeepSpeedCPUAdam", callables, extra)
    return _constructor(config, "deepspeed.ops.adam.fused_adam.FusedAdam", callables, extra)


def _constructor(
    config: Config, name: str, callables: dict[str, ConstructorCall], extra: tuple[str, ...] = ()
) -> Constructor:
    return Constructor(name, callables[name]["parameters"], config.knowledge.parameters(name), extra=extra)


def _torch(config: Config, family: TorchFamily, name: str, extra: tuple[str, ...] = ()) -> Constructor | None:
    parameters = config.knowledge.torch[family].get(name)
    if parameters is None:
        return None
    module = "torch.optim" if family == "optimizers" else "torch.optim.lr_scheduler"
    knowledge = config.knowledge
    takes = knowledge.parameters(f"{module}.*") | knowledge.parameters(f"{module}.{name}")
    return Constructor(f"{module}.{name}", parameters, takes, extra=extra)
