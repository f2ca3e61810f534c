"""What the names in the expressions of the Trainer and Accelerate stand for, as far as facts and config tell."""

from __future__ import annotations

from math import ceil

from ds_lint.facts.argument_values import fields
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.evaluation import evaluated_alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.facts.model import Model
    from ds_lint.knowledge.records import StackFacts
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import ConfigObject

_PLACES = ("hidden_size", "hidden_sizes")  # of a model's config
_TEXT_PLACES = ("text_config.hidden_size", "text_config.hidden_sizes")
# Their configs have nothing but those of an encoder and a decoder.
_OF_TWO_MODELS = ("encoder-decoder", "speech-encoder-decoder", "vision-encoder-decoder")
_CONFIGS = ("DeepSpeedPlugin.deepspeed_config", "DeepSpeedPlugin.hf_ds_config.config", "Accelerator.deepspeed_config")


class Names:
    """The names of one preparation.

    ``values`` is the config as it is at that moment. ``refusals`` is what the library at work complains of, which
    tells where it looks for the size of a model. ``is_creation`` says that TrainingArguments are being made.
    """

    def __init__(self, config: Config, values: ConfigObject, plugin: dict[str, StackFacts]) -> None:
        self.refusals: dict[str, StackFacts] = {}
        self.is_creation = False
        self._config = config
        self._values = values
        self._plugin = plugin
        self._is_trainer = config.stack == "trainer"
        self._known: dict[str, Callable[[], Any]] = {
            "world_size": self._world_size,
            "Accelerator.num_processes": self._world_size,
            "num_training_steps": self._training_steps,
            "get_warmup_steps(num_training_steps)": self._warmup_steps,
            "mixed_precision": self._mixed_precision,
            "fp16_backend": self._fp16_backend,
            "hidden_size": lambda: self._hidden_size(self._places()) or UNKNOWN,
            "model.config.hidden_size": lambda: self._hidden_size(_PLACES[:1]) or UNKNOWN,
            "is_zero3()": lambda: self._value("zero_optimization", "stage") == 3,
            "isinstance(optimizer, DummyOptim)": lambda: "optimizer" in values if self._is_trainer else UNKNOWN,
            "isinstance(scheduler, DummyScheduler)": lambda: (
                self._has_dummy_scheduler() if self._is_trainer else UNKNOWN
            ),
            "inference": lambda: False,
            "batch_size_per_device": self._micro_batch_size,
            # The Trainer counts accumulation steps itself, and uses Accelerate's parallelism only by an argument.
            "Accelerator.gradient_accumulation_steps": lambda: 1 if self._is_trainer else UNKNOWN,
            "Accelerator.parallelism_config": lambda: self._argument("parallelism_config"),
            "is_rocm_available()": self._is_rocm,
        }
        self._known.update(dict.fromkeys(_CONFIGS, lambda: values))

    def value(self, text: str) -> Any:
        """What a name or a call stands for; UNKNOWN if that is unknown."""
        if text in self._known:
            return self._known[text]()
        if text.startswith("DeepSpeedPlugin.get_value("):
            return self._value(*text.split("'")[1].split("."))
        owner, _, field = text.rpartition(".")
        if owner == "DeepSpeedPlugin" and field in self._plugin:
            return self._of_plugin(field, self._plugin[field])
        return UNKNOWN if owner or "(" in text else self._argument(text)

    def has_no_hidden_size(self) -> bool:
        """Whether the library at work finds no size in the config of the model."""
        return self._hidden_size(self._places()) is None

    def has_no_own_hidden_size(self) -> bool:
        """Whether ``model.config.hidden_size`` of the model raises."""
        return self._hidden_size(_PLACES[:1]) is None

    def _has_dummy_scheduler(self) -> bool:
        """Whether the Trainer hands over a scheduler of Accelerate's (``deepspeed_optim_sched``).

        It does so for a scheduler of the config, and in newer releases for an optimizer of the config, with a function
        that makes the Trainer's own scheduler.
        """
        if "scheduler" in self._values:
            return True
        return "optimizer" in self._values and self._config.knowledge.stack_does("own-schedules-are-made-late")

    def _argument(self, name: str) -> Any:
        argument = self._config.created(name) if self.is_creation else self._config.argument(name)
        return argument.value if argument is not None else UNKNOWN

    def _value(self, *path: str) -> Any:
        found: Any = self._values
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _world_size(self) -> Any:
        return self._config.world_size or UNKNOWN

    def _is_rocm(self) -> bool:
        """Whether the GPU is AMD's; where none is named it is taken for NVIDIA's."""
        gpu = self._config.facts.gpu
        return gpu is not None and gpu.compute_capability is None

    def _micro_batch_size(self) -> Any:
        return self._value("train_micro_batch_size_per_gpu") if self._is_trainer else UNKNOWN

    def _of_plugin(self, name: str, field: StackFacts) -> Any:
        """A field of DeepSpeedPlugin that the script does not give: of the launch, else its default."""
        launch = self._config.facts.launch
        if launch is not None and field.get("environment") is not None:
            from ds_lint.launches.launch import NOT_SET  # few configs have a launch
            from ds_lint.semantics.accelerate.deepspeed_config import field_of_text

            text = launch.launch.plugin_setting(name, field["environment"])
            if text is not NOT_SET:
                return UNKNOWN if text is None else field_of_text(name, text)
        value = field["default"] if field["default"] is not None else field.get("otherwise")
        return value == "true" if value in ("true", "false") else value  # up to 0.29.3, devices are declared bool too

    def _training_steps(self) -> Any:
        """Known only where they are given: the others follow from the data. A run that only evaluates has none."""
        if evaluated_alone(self._config) is not None:
            return 0
        steps = self._argument("max_steps")
        return steps if steps is not UNKNOWN and steps > 0 else UNKNOWN

    def _warmup_steps(self) -> Any:
        """``TrainingArguments.get_warmup_steps``.

        A share of the training is ``warmup_ratio``; since transformers 5 it is a ``warmup_steps`` below 1, which
        ``warmup_ratio`` overrides as long as there is one.
        """
        declared = fields(self._config.knowledge).get("warmup_ratio")
        steps, share = self._argument("warmup_steps"), self._argument("warmup_ratio") if declared else None
        if UNKNOWN in (steps, share):
            return UNKNOWN
        if declared is None or declared["default"] is None:
            share = steps if share is None else share
            steps = int(share)
        if steps > 0 or not share:
            return max(steps, 0)
        total = self._training_steps()
        return UNKNOWN if total is UNKNOWN else ceil(total * share)

    def _mixed_precision(self) -> Any:
        """What TrainingArguments tells Accelerate, with no word about it in the environment."""
        if not self._is_trainer:
            maker, launch = self._config.accelerate or self._config.call, self._config.facts.launch
            if maker is not None:
                return maker.precision
            if launch is None:
                return UNKNOWN
            from ds_lint.facts.accelerator_precision import accelerator_precision  # few configs have a launch

            given = accelerator_precision(launch)
            return given.word if given is not None else UNKNOWN
        fp16, bf16 = self._argument("fp16"), self._argument("bf16")
        if fp16 is UNKNOWN or (not fp16 and bf16 is UNKNOWN):
            return UNKNOWN
        return "fp16" if fp16 else "bf16" if bf16 else "no"

    def _fp16_backend(self) -> Any:
        """Of transformers 4: which library does fp16, None without fp16."""
        fp16, full = self._argument("fp16"), self._argument("fp16_full_eval")
        if not fp16 and not full:
            return None
        backend = self._argument("fp16_backend")
        if UNKNOWN in (fp16, full, backend):
            return UNKNOWN
        return "apex" if backend == "apex" else "amp"

    def _places(self) -> tuple[str, ...]:
        """Where the library at work looks for the size of a model, by what it says where it finds none."""
        conditions = str([facts["only_if"] for message, facts in self.refusals.items() if "hidden_sizes" in message])
        if "text_config" in conditions or "hidden_size is None" in conditions:
            return (*_PLACES, *_TEXT_PLACES)
        return _PLACES

    def _hidden_size(self, places: tuple[str, ...]) -> Any:
        """The size at the first of these places that there is; None where there is none, UNKNOWN where it is hidden."""
        model, family = self._config.facts.model, self._config.facts.family
        if model is None:
            return None if family is not None and family.model_type in _OF_TWO_MODELS else UNKNOWN
        for place in places:
            part, _, name = place.rpartition(".")
            found = self._own_size(model, f"{part}." if part else "") if name == _PLACES[0] else None
            found = found or model.hidden_size([place])
            if found is not None:
                return found
        return None

    def _own_size(self, model: Model, part: str) -> Any:
        """What ``hidden_size`` of the model's class, or of a part of it, answers; None where it has none.

        Some classes have it under another name, or calculate it, and a file leaves defaults of a class out.
        """
        model_type = model.at(f"{part}model_type")
        if not isinstance(model_type, str):
            return None
        known = self._config.knowledge.of_model("hidden_sizes", model_type)
        if known is None:
            return model.hidden_size([f"{part}{_PLACES[0]}"]) or UNKNOWN
        if known.get("calculated"):
            return UNKNOWN
        return (model.hidden_size([f"{part}{known['key']}"]) or UNKNOWN) if known["key"] else None
