"""How a training script loads models: with which arguments, and before or after transformers is told the config.

transformers keeps the config in a weak reference, which ``HfDeepSpeedConfig``, TrainingArguments and Accelerator set.
At stage 3 it then builds models in partitions, with ``deepspeed.zero.Init``.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.early_config import EarlyConfig, EarlyConfigReader
from ds_lint.launches.script_code import (
    ARGUMENTS,
    CodePlace,
    ImportedNames,
    keyword,
    last_name,
    literal,
    place,
    value_of,
    written,
)
from ds_lint.source.python_names import ModuleNames, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.trained_names import TrainedNames

SETUPS = ("Accelerator", "HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig", "parse_args_into_dataclasses", "parse_dict")
# What may be one, too: that depends on the classes that it parses into, or on the launcher.
MAYBE_SETUPS = re.compile(
    r"\w*Accelerator|AcceleratorState|DeepSpeedPlugin|parse_(?:json|yaml)_file|parse_args_and_config"
)
_TELLING = re.compile(r"acc|arg|conf|deepspeed|dist|init|parse|prepare|setup|train", re.IGNORECASE)
_DTYPES = ("auto", "bfloat16", "float16", "float32", "float64")
_QUANTIZED = ("load_in_4bit", "load_in_8bit")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 4  # functions that return what another one made


class ModelLoad(NamedTuple):
    """A call of ``from_pretrained`` of a model.

    ``device_map`` is where a map is given that is not None, ``low_memory`` where ``low_cpu_mem_usage`` is true.
    ``dtype`` is the one that the call asks for as torch names it, or "auto"; "" if none, None if it is not known.
    ``is_after_setup`` says that what tells transformers the config was made before. ``setup_after`` is the first such
    call if all come later and the model is trained, with its function. ``conditions`` are expressions of the arguments
    of the script, each with whether it has to hold for the call to run.
    """

    function: str
    place: CodePlace
    device_map: CodePlace | None
    low_memory: CodePlace | None
    dtype: str | None
    is_after_setup: bool
    setup_after: tuple[str, CodePlace] | None
    conditions: tuple[tuple[str, bool], ...]


_STORAGE = "bnb_4bit_quant_storage"
_OPTIONS = ("bnb_4bit_compute_dtype", _STORAGE, "bnb_4bit_use_double_quant", "llm_int8_skip_modules")


class QuantizedLoad(NamedTuple):
    """A model is loaded with this argument, which is true, under these conditions.

    ``names_storage`` says that the dtype in which the weights are kept is given, or may be. ``options`` are the further
    arguments of ``BitsAndBytesConfig`` by name: UNKNOWN if they are not written out, dtypes as torch names them.
    """

    argument: str
    place: CodePlace
    conditions: tuple[tuple[str, bool], ...]
    names_storage: bool = False
    options: tuple[tuple[str, Any], ...] = ()


class UnkeptConfig(NamedTuple):
    """An ``HfDeepSpeedConfig`` that no longer lives when a model is loaded, and that load."""

    place: CodePlace
    load: str
    load_place: CodePlace


class EarlyPartition(NamedTuple):
    """A model is built in partitions by a config that ``zero.Init`` reads as it is.

    ``is_by_transformers`` says that transformers does it, at stage 3 alone. ``is_alone`` says that deepspeed.comm is
    not initialized then, so that the config is read for one rank.
    """

    function: str
    place: CodePlace
    config: EarlyConfig
    is_by_transformers: bool
    is_alone: bool


class WholeBuild(NamedTuple):
    """A trained model is made by ``from_config`` before the first call that tells transformers of the config."""

    function: str
    place: CodePlace
    setup: str
    setup_place: CodePlace


class LoadReader:
    """The loads of a module."""

    def __init__(
        self, names: ModuleNames, trained: TrainedNames, imported: ImportedNames, sources: SourceReader
    ) -> None:
        self.names = names
        self.trained = trained
        self.imported = imported
        self.sources = sources
        self.calls = list(self._calls("from_pretrained"))
        self.builds = list(self._calls("from_config"))  # which have weights, but none that are loaded
        self.setups = list(self._setups())

    def loads(self) -> Iterator[ModelLoad]:
        """All loads of models."""
        for call in self.calls:
            given, low = keyword(call, "device_map"), keyword(call, "low_cpu_mem_usage")
            has_map = isinstance(given, ast.Dict) or isinstance(literal(given), (str, int))
            yield ModelLoad(
                dotted_name(call.func),
                place(call.func),
                place(given) if given is not None and has_map else None,
                place(low) if low is not None and literal(low) is True else None,
                _dtype(call),
                any(self.trained.precedes(setup, call) for setup in self.setups),
                self._setup_after(call),
                self.sources.conditions(call) or (),
            )

    def built_whole(self) -> Iterator[WholeBuild]:
        """The models without loaded weights that are made too early to be partitioned."""
        for call in self.builds:
            if (after := self._setup_after(call)) is not None:
                yield WholeBuild(dotted_name(call.func), place(call.func), *after)

    def quantized(self) -> Iterator[QuantizedLoad]:
        """The loads of quantized models."""
        for call in self.calls:
            conditions = self.sources.conditions(call) or ()
            for name in _QUANTIZED:
                if literal(keyword(call, name)) is True:
                    yield QuantizedLoad(name, place(call.func), conditions)
            config = self.trained.meant(keyword(call, "quantization_config"))
            if isinstance(config, ast.Call) and dotted_name(config.func).endswith("BitsAndBytesConfig"):
                conditions = (*conditions, *(self.sources.conditions(config) or ()))
                for name in _QUANTIZED:
                    if literal(keyword(config, name)) is True:
                        stored = any(one.arg in (_STORAGE, None) for one in config.keywords)
                        yield QuantizedLoad(name, place(config.func), conditions, stored, tuple(_options(config)))

    def unkept(self) -> UnkeptConfig | None:
        """The first ``HfDeepSpeedConfig`` that does not live until the next load."""
        others = [setup for setup in self.setups if last_name(setup) != "HfDeepSpeedConfig"]
        for setup in self.setups:
            if last_name(setup) != "HfDeepSpeedConfig":
                continue
            for call in (*self.calls, *self._calls("from_config")):
                if self._is_released(setup, call) and not others and len(self.setups) == 1:
                    return UnkeptConfig(place(setup.func), dotted_name(call.func), place(call.func))
        return None

    def early(self) -> EarlyPartition | None:
        """The first model that is built in partitions by a config of the script's own."""
        for call, given in self._partitions():
            config = EarlyConfigReader(self.names, self.trained).read(given)
            is_alone = not any(
                self._may_initialize(one) and not self.trained.precedes(call, one) for one in self.names.calls
            )
            is_by_transformers = call in (*self.calls, *self.builds)
            return EarlyPartition(written(call.func), place(call.func), config, is_by_transformers, is_alone)
        return None

    def tells_before(self, load: ast.Call) -> bool | None:
        """Whether transformers knows the config, and so of stage 3, at a load; None if that does not show."""
        before = [setup for setup in self.setups if self.trained.precedes(setup, load)]
        kept = [setup for setup in before if last_name(setup) != "HfDeepSpeedConfig" or self._lives(setup, load)]
        if kept:
            return True
        if any(self._is_released(setup, load) for setup in before) and len(self.setups) == 1:
            return False
        others = [call for call in self.names.calls if call is not load and not self.trained.precedes(load, call)]
        return None if any(self._may_tell(call) for call in others) else False

    # --------------------------------------------------------------------------------------------------------- order

    def _calls(self, function: str) -> Iterator[ast.Call]:
        for call in self.names.calls:
            owner, _, method = dotted_name(call.func).rpartition(".")
            last = owner.rpartition(".")[2]
            if method == function and ("Model" in last or "For" in last) and "Peft" not in last:
                yield call

    def _setups(self) -> Iterator[ast.Call]:
        for call in self.names.calls:
            last = last_name(call)
            if last in SETUPS or (last.endswith(("TrainingArguments", "Config")) and keyword(call, "deepspeed")):
                yield call

    def _setup_after(self, load: ast.Call) -> tuple[str, CodePlace] | None:
        if not self.trained.reaches_training(load):
            return None
        for call in self.names.calls:
            is_earlier = call is not load and not self.trained.precedes(load, call)
            if is_earlier and self._may_tell(call):
                return None
        later = [setup for setup in self.setups if self.trained.precedes(load, setup)]
        return (written(later[0].func), place(later[0].func)) if later else None

    def _may_tell(self, call: ast.Call) -> bool:
        """Whether a call may tell transformers of the config, be it inside of an imported function."""
        last = last_name(call)
        if call in self.setups or ARGUMENTS.fullmatch(last) or MAYBE_SETUPS.fullmatch(last):
            return True
        return _TELLING.search(last) is not None and self.imported.is_unknown(dotted_name(call.func))

    def _is_released(self, setup: ast.Call, load: ast.Call) -> bool:
        """Whether an object is made and no longer lives at a load that comes later."""
        statement = self.names.parents.get(setup)
        if isinstance(statement, ast.Expr):
            return self.trained.precedes(setup, load)
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return False
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        scope = self.names.places[setup].scope
        if not isinstance(target, ast.Name) or isinstance(scope, (ast.Module, ast.Lambda)):
            return False
        uses = self.names.uses.get(target.id, [])
        is_used = any(self.names.means_the_same(target.id, one, setup) for one in uses)
        is_shared = any(
            isinstance(node, (ast.Global, ast.Nonlocal)) and target.id in node.names for node in ast.walk(scope)
        )
        calls = self.trained.calls_of(scope)
        is_local = not is_shared and self.names.origin(target.id, setup) is scope
        return is_local and not is_used and any(self.trained.precedes(call, load) for call in calls)

    def _lives(self, setup: ast.Call, load: ast.Call, depth: int = _DEPTH) -> bool:
        """Whether an object is made and certainly lives at a load that comes later."""
        statement = self.names.parents.get(setup)
        maker = self.names.places[setup].scope
        if isinstance(statement, ast.Return) and isinstance(maker, _FUNCTIONS) and depth:
            return any(self._lives(call, load, depth - 1) for call in self.trained.calls_of(maker))
        if not isinstance(statement, ast.Assign) or not self.trained.precedes(setup, load):
            return False
        target, scope = statement.targets[0], self.names.places[setup].scope
        is_shared = isinstance(target, ast.Attribute) or scope is self.names.places[load].scope
        return dotted_name(target) != "" and (is_shared or isinstance(scope, ast.Module))

    # ---------------------------------------------------------------------------------------------------- partitions

    def _partitions(self) -> Iterator[tuple[ast.Call, ast.expr | None]]:
        """What builds a model in partitions by a config of the script's own, with that config."""
        own = [one for one in self.setups if last_name(one) == "HfDeepSpeedConfig"]
        for call in sorted((*self.calls, *self.builds), key=lambda one: (one.lineno, one.col_offset)):
            if len(own) != 1 or not self._lives(own[0], call) or self._is_quantized(call):
                continue
            others = [one for one in self.names.calls if one not in own and self._may_tell(one)]
            if all(self.trained.precedes(one, own[0]) or self.trained.precedes(call, one) for one in others):
                yield call, own[0].args[0] if own[0].args else keyword(own[0], "config_file_or_dict")
        for call in self.names.calls:
            given = keyword(call, "config_dict_or_path") or keyword(call, "config")
            if dotted_name(call.func).endswith("zero.Init") and given is not None:
                yield call, given

    @staticmethod
    def _is_quantized(call: ast.Call) -> bool:
        """Whether a load may be of a quantized model, which transformers does not partition."""
        return any(one.arg in (None, "quantization_config", *_QUANTIZED) for one in call.keywords)

    def _may_initialize(self, call: ast.Call) -> bool:
        """Whether a call may initialize deepspeed.comm: one of DeepSpeed, or of a module that is not known."""
        name, last = dotted_name(call.func), last_name(call)
        full = self.imported.full_name(name)
        if last == "HfDeepSpeedConfig" or full.endswith((".zero.Init", ".add_config_arguments")):
            return False
        if last in ("init_distributed", "initialize", "__init__") or call in self.setups:
            return True
        return full.startswith(("deepspeed.", "accelerate.")) or self._may_tell(call) or self.imported.is_unknown(name)


def _options(config: ast.Call) -> Iterator[tuple[str, Any]]:
    """The arguments of a ``BitsAndBytesConfig`` that decide about memory."""
    has_more = any(given.arg is None for given in config.keywords)
    for name in _OPTIONS:
        given = keyword(config, name)
        if given is None:
            if has_more:
                yield name, UNKNOWN
            continue
        named = dotted_name(given)
        if named.startswith("torch."):
            yield name, named.removeprefix("torch.")
            continue
        yield name, value_of(given)


def _dtype(call: ast.Call) -> str | None:
    """The dtype that a load asks for: under the newer name of the argument or the older one."""
    if any(given.arg is None for given in call.keywords):  # ``**`` may bring it
        return None
    argument = keyword(call, "dtype") or keyword(call, "torch_dtype")
    if argument is None or (isinstance(argument, ast.Constant) and argument.value is None):
        return ""
    named = literal(argument) if isinstance(argument, ast.Constant) else dotted_name(argument)
    last = named.rpartition(".")[2] if isinstance(named, str) else ""
    return last if last in _DTYPES else None
