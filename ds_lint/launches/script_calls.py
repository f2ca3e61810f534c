"""The calls of a training script that a config may contradict: what it loads, saves, generates and hands to DeepSpeed.

Only what certainly happens is recorded: a computed value, a name with several meanings, and a call of which it is not
known where it runs, leave no record.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.launches.trained_names import TrainedNames, identifiers
from ds_lint.source.python_names import ModuleNames, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETUPS = ("Accelerator", "HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig", "parse_args_into_dataclasses", "parse_dict")
_QUANTIZED = ("load_in_4bit", "load_in_8bit")
_OF_STAGE_3 = ("generate", "save_16bit_model")  # methods of a partitioned model
# Packages of optimizers, none of which derives from DeepSpeedCPUAdam.
_OPTIMIZER_PACKAGES = (
    "apex", "bitsandbytes", "came_pytorch", "deepspeed", "galore_torch", "lion_pytorch", "prodigyopt",
    "pytorch_optimizer", "schedulefree", "timm", "torch", "torch_optimizer", "transformers",
)  # fmt: skip
_GATHERS = ("gather", "zero", "ds_id", "ds_status", "consolidat", "get_state_dict", "summon")


class CodePlace(NamedTuple):
    """Where an expression stands: lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


class ModelLoad(NamedTuple):
    """A call of ``from_pretrained`` of a model. ``device_map`` is where a map is given that is not None.

    ``is_after_setup`` says that what tells transformers the config was made before.
    """

    function: str
    place: CodePlace
    device_map: CodePlace | None
    is_after_setup: bool


class QuantizedLoad(NamedTuple):
    """A model is loaded with this argument, which is true."""

    argument: str
    place: CodePlace


class UngatheredSave(NamedTuple):
    """The state of a trained model is saved as each rank has it. ``is_adapter`` says that it has adapters."""

    function: str
    place: CodePlace
    is_adapter: bool


class CallOnOneRank(NamedTuple):
    """A call that every rank must make stands under a condition that one rank meets.

    ``at_stage_3`` says that only stage 3 asks all ranks for it.
    """

    function: str
    place: CodePlace
    condition: CodePlace
    at_stage_3: bool


class ClientOptimizer(NamedTuple):
    """The optimizer that a script hands to ``deepspeed.initialize``: its class, and where it is made."""

    name: str
    place: CodePlace


class AutocastCall(NamedTuple):
    """The engine is called inside ``torch.autocast``; ``enabled`` is None if it is computed."""

    function: str
    place: CodePlace
    enabled: bool | None


class CheckpointingCall(NamedTuple):
    """``deepspeed.checkpointing.configure`` without a config, and the keywords that it is given."""

    place: CodePlace
    keywords: tuple[str, ...]


class ScriptCalls(NamedTuple):
    """What a script does; two scripts with the same calls contradict a config in the same way."""

    loads: tuple[ModelLoad, ...]
    quantized: QuantizedLoad | None
    ungathered: tuple[UngatheredSave, ...]
    on_one_rank: tuple[CallOnOneRank, ...]
    optimizer: ClientOptimizer | None
    autocast: tuple[AutocastCall, ...]
    checkpointing: CheckpointingCall | None


def read_calls(module: ast.Module, names: ModuleNames) -> ScriptCalls:
    """The calls of a script."""
    return _CallReader(module, names).read()


class _CallReader:
    def __init__(self, module: ast.Module, names: ModuleNames) -> None:
        self.names = names
        self.trained = TrainedNames(module, names)
        self.imported = dict(_imported(module))

    def read(self) -> ScriptCalls:
        return ScriptCalls(
            tuple(self._loads()),
            self._quantized(),
            tuple(self._ungathered()),
            tuple(self._on_one_rank()),
            self._optimizer(),
            tuple(self._autocast()),
            self._checkpointing(),
        )

    # ------------------------------------------------------------------------------------------------------ loading

    def _model_loads(self) -> Iterator[ast.Call]:
        for call in self.names.calls:
            owner, _, method = dotted_name(call.func).rpartition(".")
            last = owner.rpartition(".")[2]
            if method == "from_pretrained" and ("Model" in last or "For" in last) and "Peft" not in last:
                yield call

    def _loads(self) -> Iterator[ModelLoad]:
        for call in self._model_loads():
            given = _keyword(call, "device_map")
            has_map = isinstance(given, ast.Dict) or isinstance(_literal(given), (str, int))
            yield ModelLoad(
                dotted_name(call.func),
                _place(call.func),
                _place(given) if given is not None and has_map else None,
                any(self.trained.precedes(setup, call) for setup in self._setups()),
            )

    def _setups(self) -> Iterator[ast.Call]:
        for call in self.names.calls:
            last = dotted_name(call.func).rpartition(".")[2] or getattr(call.func, "attr", "")
            if last in _SETUPS or (last.endswith(("TrainingArguments", "Config")) and _keyword(call, "deepspeed")):
                yield call

    def _quantized(self) -> QuantizedLoad | None:
        for call in self._model_loads():
            for name in _QUANTIZED:
                if _literal(_keyword(call, name)) is True:
                    return QuantizedLoad(name, _place(call.func))
            config = self._meant(_keyword(call, "quantization_config"))
            if isinstance(config, ast.Call) and dotted_name(config.func).endswith("BitsAndBytesConfig"):
                for name in _QUANTIZED:
                    if _literal(_keyword(config, name)) is True and _keyword(config, "bnb_4bit_quant_storage") is None:
                        return QuantizedLoad(name, _place(config.func))
        return None

    def _meant(self, node: ast.expr | None) -> ast.expr | None:
        """The value of a name that is assigned once; any other expression as it is."""
        name = dotted_name(node) if node is not None else ""
        if node is None or not name:
            return node
        found = self.names.assignments(name, node)
        return found[0].value if len(found) == 1 and found[0].place.block == 0 else None if found else node

    # ------------------------------------------------------------------------------------------------------- saving

    def _ungathered(self) -> Iterator[UngatheredSave]:
        for call in self.names.calls:
            saved = self._saved(call)
            if saved is not None and self.trained.is_trained(saved) and not self.trained.is_gathered(call):
                function = dotted_name(call.func) or ast.unparse(call.func)
                yield UngatheredSave(function, _place(call.func), self.trained.has_adapters)

    def _saved(self, call: ast.Call) -> ast.expr | None:
        """The model whose state a call saves, if it is not gathered for it."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "save_pretrained":
            if any(keyword.arg is None for keyword in call.keywords):
                return None
            state = _keyword(call, "state_dict")
            owner = call.func.value
            return owner if state is None or self._is_own_state(state) else None
        if dotted_name(call.func) in ("torch.save", "accelerator.save") and call.args:
            state = call.args[0]
            if (
                isinstance(state, ast.Call)
                and isinstance(state.func, ast.Attribute)
                and state.func.attr == "state_dict"
            ):
                return state.func.value
        return None

    def _is_own_state(self, node: ast.expr) -> bool:
        """Whether a state is made of what this rank has: of ``state_dict()`` or ``named_parameters()`` alone."""
        value = self._meant(node)
        if value is None or not isinstance(value, (ast.Call, ast.DictComp)):
            return False
        words = identifiers(value, self.names)
        if any(part in word.lower() for word in words for part in _GATHERS):
            return False
        return not words.isdisjoint({"named_parameters", "state_dict"})

    # ---------------------------------------------------------------------------------------------------- one rank

    def _on_one_rank(self) -> Iterator[CallOnOneRank]:
        for call in self.names.calls:
            at_stage_3 = self._needs_all_ranks(call)
            if at_stage_3 is None:
                continue
            condition = self.trained.condition_of_one_rank(call)
            if condition is not None and not self.trained.is_gathered(call):
                function = dotted_name(call.func) or ast.unparse(call.func)
                yield CallOnOneRank(function, _place(call.func), _place(condition), at_stage_3)

    def _needs_all_ranks(self, call: ast.Call) -> bool | None:
        """Whether every rank must make a call at stage 3 (True), always (False), or that is not known (None)."""
        if not isinstance(call.func, ast.Attribute):
            return None
        owner, method = call.func.value, call.func.attr
        last = dotted_name(owner).rpartition(".")[2]
        if method in _OF_STAGE_3 and self.trained.is_trained(owner):
            return True
        if method == "save_checkpoint" and self.trained.is_engine(owner):
            return False
        if last == "accelerator" and method in ("get_state_dict", "save_model", "save_state"):
            return method != "save_state"
        return True if last == "trainer" and method == "save_model" else None

    # ---------------------------------------------------------------------------------------------------- the engine

    def _optimizer(self) -> ClientOptimizer | None:
        calls = [call for call in self.names.calls if dotted_name(call.func).endswith("deepspeed.initialize")]
        given = _keyword(calls[0], "optimizer") if len(calls) == 1 else None
        if given is None or self.names.places[calls[0]].block != self.names.places[given].block:
            return None
        made = self._made(given)
        name = self._full_name(dotted_name(made.func)) if made is not None else ""
        if made is None or name.partition(".")[0] not in _OPTIMIZER_PACKAGES:
            return None
        return ClientOptimizer(name, _place(made.func))

    def _made(self, given: ast.expr) -> ast.Call | None:
        """The only call that an optimizer comes from."""
        if isinstance(given, ast.Call):
            return given
        name = dotted_name(given)
        found = self.names.assignments(name, given) if name else []
        # ``engine, optimizer, _, _ = deepspeed.initialize(optimizer=optimizer)`` assigns again.
        values = [one.value for one in found if one.value is not None]
        others = [one for one in found if one.value is None]
        if len(values) != 1 or any(one.place != self.names.places[self.names.statement(given)] for one in others):
            return None
        is_straight = found[0].place == self.names.places[self.names.statement(given)]
        return values[0] if isinstance(values[0], ast.Call) and is_straight else None

    def _full_name(self, name: str) -> str:
        """A name of a class with the module that it is imported from; empty for one of the script's own."""
        first, dot, rest = name.partition(".")
        return f"{self.imported[first]}{dot}{rest}" if first in self.imported else ""

    def _autocast(self) -> Iterator[AutocastCall]:
        for call in self.names.calls:
            if not self.trained.is_engine(call.func):
                continue
            for context in self.trained.contexts(call):
                if not isinstance(context, ast.Call):
                    continue
                name = self._full_name(dotted_name(context.func)) or dotted_name(context.func)
                is_cuda = name == "torch.cuda.amp.autocast" or (
                    name in ("torch.autocast", "torch.amp.autocast")
                    and bool(context.args)
                    and _literal(context.args[0]) == "cuda"
                )
                enabled = _keyword(context, "enabled")
                value = True if enabled is None else _literal(enabled)
                if is_cuda and value is not False:
                    yield AutocastCall(dotted_name(call.func), _place(context), True if value is True else None)

    def _checkpointing(self) -> CheckpointingCall | None:
        calls = [call for call in self.names.calls if dotted_name(call.func).endswith("checkpointing.configure")]
        if len(calls) != 1 or len(calls[0].args) > 1:
            return None
        keywords = [keyword.arg for keyword in calls[0].keywords]
        if None in keywords or "deepspeed_config" in keywords:
            return None
        return CheckpointingCall(_place(calls[0].func), tuple(str(keyword) for keyword in keywords))


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that imports bind, each with what it stands for."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _literal(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _place(node: ast.expr) -> CodePlace:
    return CodePlace(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)
