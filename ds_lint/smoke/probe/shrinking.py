"""Makes models small where a script makes them, so that no weights are needed."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import sys
import zlib
from typing import TYPE_CHECKING, Any

from ds_lint.facts import shapes
from ds_lint.smoke.probe import imports
from ds_lint.smoke.records.small_model import Sizes, shrink
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from ds_lint.smoke.probe.presence import Presence
    from ds_lint.smoke.records.small_model import Change

_ALL = 2**62
# What the data of the script needs stays as it is: its tokens, and the lengths of its sequences.
SIZES = Sizes(vocabulary=_ALL, positions=_ALL, window=_ALL)
_QUANTIZATION = ("quantization_config", "compression_config")
_KEPT = ("_name_or_path", "auto_map", "dtype", "torch_dtype")  # which another shrunk config does not need
# Arguments of from_pretrained that say where weights are, which are not loaded.
_OF_FILES = (
    "quantization_config", "load_in_4bit", "load_in_8bit", "gguf_file", "variant", "use_safetensors", "subfolder",
    "ignore_mismatched_sizes", "key_mapping", "weights_only", "adapter_kwargs", "adapter_name", "state_dict",
)  # fmt: skip


def install(presence: Presence) -> None:
    """Hook what makes models."""
    models = _Models(presence)
    imports.after("transformers.configuration_utils", models.of_configs)
    imports.after("transformers.modeling_utils", models.of_classes)
    imports.after("peft.peft_model", _make_adapters)


class _Models:
    """The models that a script makes."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._originals: dict[tuple[str, str], dict[str, Any]] = {}  # configs, by their class and name
        self._reported: list[Any] = []  # configs of models
        self._is_silent = False  # what is made now is not reported

    # ---------------------------------------------------------------------------------------------------------- hooks

    def of_configs(self, module: ModuleType) -> None:
        """A config is small as soon as a script has it: it may make layers of its own by the sizes there."""
        base = getattr(module, "PreTrainedConfig", None) or module.PretrainedConfig
        read = base.from_dict.__func__

        @functools.wraps(read)
        def from_dict(cls: type, *args: Any, **kwargs: Any) -> Any:
            made = read(cls, *args, **kwargs)
            self._shrink(made[0] if isinstance(made, tuple) else made)
            return made

        base.from_dict = classmethod(from_dict)

    def of_classes(self, module: ModuleType) -> None:
        """Models are made of small configs, and no weights are loaded."""
        cls = module.PreTrainedModel
        load, make = cls.from_pretrained.__func__, cls._from_config.__func__

        @around(cls, "__init__")
        def begun(begin: Any, model: Any, config: Any, *args: Any, **kwargs: Any) -> None:
            if not self._is_silent:  # the classes that inherit from this one make their layers after it
                self._shrink(config)
                self._tell(type(model), config)
            begin(model, config, *args, **kwargs)

        @functools.wraps(load)
        def from_pretrained(cls: type[Any], /, name: Any, *args: Any, config: Any = None, **kwargs: Any) -> Any:
            return self._without_weights(cls, name, config, args, kwargs, functools.partial(load, cls, None))

        @functools.wraps(make)
        def _from_config(cls: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_silent:
                self._shrink(config)
                self._tell(cls, config)  # before the context of ZeRO-3, in which nothing can be counted
            return make(cls, config, *args, **kwargs)

        cls.from_pretrained = classmethod(from_pretrained)
        cls._from_config = classmethod(_from_config)

    # ------------------------------------------------------------------------------------------------------- shrinking

    def _shrink(self, config: Any) -> None:
        """Make a config small in place; one that is small already stays as it is."""
        given = config.to_dict()
        changes = shrink(given, SIZES).changes
        changes = [one for one in changes if one.key.rpartition(".")[2] not in _KEPT]
        if not changes:
            return
        self._originals[_key(config)] = given
        for name, part in _parts(config):  # a class for one modality is made of a part
            self._originals[_key(part)] = given[name]
        for one in changes:
            _set(config, one)

    def _without_weights(
        self, cls: Any, name: Any, config: Any, args: Any, kwargs: Any, load: Callable[..., Any]
    ) -> Any:
        """What from_pretrained makes of a small config, with random weights: the same whenever a name is given."""
        for key in _OF_FILES:
            kwargs.pop(key, None)
        if not hasattr(config, "to_dict"):
            config, kwargs = _read_config(cls, name if config is None else config, kwargs)
        self._shrink(config)
        config = copy.deepcopy(config)
        self._tell(cls, config)
        if config.name_or_path in (None, ""):
            config.name_or_path = str(name)
        if getattr(config, "dtype", None) is None and kwargs.get("dtype", kwargs.get("torch_dtype")) in (None, "auto"):
            kwargs["dtype"] = "float32"
        with self._silent(), _seeded(str(name)), _without_report():
            made = load(*args, config=config, state_dict={}, **kwargs)
        model = made[0] if isinstance(made, tuple) else made
        model.config.name_or_path = model.name_or_path = str(name)
        return made

    # ---------------------------------------------------------------------------------------------------------- telling

    def _tell(self, cls: type, config: Any) -> None:
        """Tell of the outermost model of a config; the models within it have the same one, or a part of it."""
        if any(config is one for one in self._reported):
            return
        self._reported += [config, *(part for _name, part in _parts(config))]
        before = self._originals.get(_key(config))
        if before is None:
            return
        after = config.to_dict()
        self._presence.shrunk({
            "model": cls.__name__,
            "name": str(before.get("_name_or_path") or ""),
            "before": self._count(cls, config, before),
            "after": self._count(cls, config, after),
            "changes": {
                one.key: [one.before, one.after]
                for one in shrink(before, SIZES).changes
                if one.key.rpartition(".")[2] not in _KEPT
            },
        })  # fmt: skip

    def _count(self, cls: type, config: Any, given: dict[str, Any]) -> int | None:
        """The parameters of a model of a config, without making it in memory; None if they cannot be counted."""
        if _is_partitioning():  # a model that is made now is partitioned
            is_known = cls.__module__.startswith("transformers.")
            return shapes.count({**given, "architectures": [cls.__name__]}) if is_known else None
        import torch

        try:
            with self._silent(), torch.random.fork_rng(devices=[]), torch.device("meta"), _without_report():
                model = cls(type(config)(**copy.deepcopy(given)))
        except Exception:  # noqa: BLE001 - a class of the user may do anything; the count is only reported
            return None
        return sum(int(one.numel()) for one in model.parameters())

    @contextlib.contextmanager
    def _silent(self) -> Iterator[None]:
        before, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = before


def _is_partitioning() -> bool:
    """Whether the script is in the context of ``deepspeed.zero.Init``."""
    module = sys.modules.get("deepspeed.runtime.zero.partition_parameters")
    return getattr(module, "zero_init_context", 0) > 0


def _key(config: Any) -> tuple[str, str]:
    return type(config).__name__, str(getattr(config, "name_or_path", "") or "")


def _parts(config: Any) -> list[tuple[str, Any]]:
    """The configs within a config, by their names."""
    return [(name, value) for name, value in vars(config).items() if hasattr(value, "to_dict")]


def _set(config: Any, change: Change) -> None:
    """Set a value of a config, or of a part of it, which is another config or a dict."""
    *path, last = change.key.split(".")
    for step in path:
        config = config[step] if isinstance(config, dict) else getattr(config, step)
    if isinstance(config, dict):
        config[last] = change.after
    elif last in _QUANTIZATION:
        config.__dict__.pop(last, None)
    else:
        setattr(config, last, change.after)


def _read_config(cls: Any, name: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The config of a model by its name, and the arguments that are not for it."""
    config, left = cls.config_class.from_pretrained(name, return_unused_kwargs=True, **kwargs)
    return config, left


@contextlib.contextmanager
def _seeded(name: str) -> Iterator[None]:
    """Draw the same weights for the same name on every rank, as if they were loaded, and no number of the script's."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(zlib.crc32(name.encode()))
        yield


@contextlib.contextmanager
def _without_report() -> Iterator[None]:
    """Without the warning that every weight is new, and without a bar of the progress of none."""
    from transformers.utils import logging as words

    logger = logging.getLogger("transformers.modeling_utils")
    has_bar = words.is_progress_bar_enabled()
    logger.addFilter(_drop)
    words.disable_progress_bar()
    try:
        yield
    finally:
        logger.removeFilter(_drop)
        if has_bar:
            words.enable_progress_bar()


def _drop(_record: logging.LogRecord) -> bool:
    return False


def _make_adapters(module: ModuleType) -> None:
    """An adapter that is loaded has the shapes of the whole model: the same adapter is made for the small one."""

    def from_pretrained(
        cls: type[Any], /, model: Any, model_id: Any, adapter_name: str = "default", is_trainable: bool = False,
        config: Any = None, **_more: Any,
    ) -> Any:  # fmt: skip
        from peft import PeftConfig, get_peft_model

        config = config or PeftConfig.from_pretrained(model_id)
        config.inference_mode = not is_trainable
        with _seeded(str(model_id)):
            return get_peft_model(model, config, adapter_name)

    module.PeftModel.from_pretrained = classmethod(from_pretrained)
