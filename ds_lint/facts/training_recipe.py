"""What a recipe of a training framework says: training arguments, quantization and adapters, each with its place.

``schemas/recipes.json`` has what the frameworks make of a recipe, by release. What their releases disagree about, and
what a script of the user's own may set, is unknown.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ds_lint.diagnostics.finding import Related
from ds_lint.facts.argument_values import kind_of
from ds_lint.facts.families import family_of_name
from ds_lint.facts.model import NAMES_MODEL, named_or_in
from ds_lint.facts.refusals import refusal
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.frameworks import FRAMEWORKS, SCRIPT
from ds_lint.frameworks.trl import TRL
from ds_lint.knowledge import tables
from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.presets import names_preset
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.preset import preset_in_recipe
from ds_lint.source.recognition import NAMES_CONFIG, framework_keys, held
from ds_lint.source.tree import Span, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts.model import Model
    from ds_lint.facts.refusals import FrameworkRejection
    from ds_lint.knowledge.records import Recipes, RecipeState
    from ds_lint.launches.preset import Preset
    from ds_lint.launches.word import Argument as CommandArgument
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Node
    from ds_lint.targets.pin import Pin

_INTERPOLATION = re.compile(r"\$\{|\{\{|\$\w|<[A-Z_]+>")  # of OmegaConf, Jinja and shells, and what a person replaces
# What OmegaConf reads as a number, and PyYAML as a string; the frameworks convert it.
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.[\d_]+)([eE][-+]?\d+)?")


class Quantization(NamedTuple):
    """The field of a recipe that asks for a quantized model."""

    name: str
    argument: Argument


class TrainingRecipe:
    """A recipe, with the ``overrides`` of the command line that starts it and the framework that this shows.

    ``record`` is that of the framework, or of a script of the user's own. ``training`` is None if the
    framework does not train with the Trainer, or with other arguments.
    """

    __slots__ = (
        "_model", "adapter", "document", "fields", "framework", "quantization", "record", "training",
        "trains_with_trainer",
    )  # fmt: skip

    def __init__(
        self, document: Document, framework: str | None = None, overrides: Mapping[str, Argument] | None = None
    ) -> None:
        self.document = document
        self._model: list[Model | None] = []  # until a rule asks
        self.framework = framework or framework_keys(document.root)[0]
        self.fields = {**dict(_fields(document)), **(overrides or {})}
        store = tables.load("recipes")
        if self.framework == SCRIPT.name and self._has_only_fields_of(store, TRL.name):
            self.framework = TRL.name
        self.record = FRAMEWORKS.get(self.framework, SCRIPT)
        self.adapter = self.record.adapter(self.value)
        self.quantization = self._quantization()
        self.trains_with_trainer = not self._trains_otherwise()
        self.training = self._training(store) if self.trains_with_trainer else None

    def value(self, name: str) -> Any:
        """The value of a field; None if the recipe does not have it."""
        found = self.fields.get(name)
        return found.value if found is not None else None

    @property
    def named(self) -> str | None:
        """The path of the DeepSpeed config; None if the recipe holds it, or names one of the framework's own."""
        name = self.value(NAMES_CONFIG)
        if not isinstance(name, str) or name.lstrip().startswith("{"):
            return None
        return None if names_preset(self.record.name, name) else name

    @property
    def preset(self) -> Preset | None:
        """The config of the framework that the recipe names by a word; None if it names or holds another one."""
        found = self.fields.get(NAMES_CONFIG)
        node = self.document.root.get(NAMES_CONFIG) if self.document.root is not None else None
        is_here = found is not None and found.document is self.document
        return preset_in_recipe(self.record, node, self.value, self.document.path) if is_here else None

    @property
    def held(self) -> Node | None:
        """The DeepSpeed config, if the recipe holds it."""
        return held(self.document)

    @property
    def place(self) -> Span | None:
        """Where the recipe names the config."""
        return self.place_of(NAMES_CONFIG)

    def place_of(self, name: str) -> Span | None:
        """Where the recipe has a field; None if it is not there, but on the command line."""
        found = self.fields.get(name)
        return found.span if found is not None and found.document is self.document else None

    @property
    def model_argument(self) -> Argument | None:
        """The field with the name or folder of the model; None if there is none."""
        names = dict.fromkeys(one.model for one in FRAMEWORKS.values())
        return next((self.fields[name] for name in names if self.value(name) is not None), None)

    @property
    def model_name(self) -> str | None:
        """The name or folder of the model; None if it is unknown."""
        argument = self.model_argument
        return argument.value if argument is not None and isinstance(argument.value, str) else None

    @property
    def model(self) -> Model | None:
        """The model, if its files are on this machine or its shapes are known."""
        if not self._model:
            name, folder = self.model_name, os.path.dirname(self.document.path)
            paths = [name, os.path.join(folder, name)] if name is not None else []
            self._model = [named_or_in(name, next(filter(os.path.isdir, paths), None))]
        return self._model[0]

    @property
    def model_place(self) -> tuple[str, list[Related]]:
        """Where the recipe names the model, in words and as another place of a finding."""
        argument = self.model_argument
        if argument is None or argument.document is None or argument.span is None:
            return "", []
        return argument.origin, [Related(argument.span, NAMES_MODEL, argument.document.path)]

    @property
    def family(self) -> Model | None:
        """What the name of the model tells of it; None if that is nothing."""
        return family_of_name(self.model_name)

    noun, label = "recipe", "named here"
    is_mentioned = False  # its arguments have their places
    fills_in = False
    stack: Stack = "trainer"

    def may_name(self, _config: Document) -> bool:
        """Whether this is the config that the recipe names: a file has one."""
        return True

    @property
    def documents(self) -> list[Document]:
        """The files that findings refer to."""
        return [self.document]

    @property
    def says(self) -> object:
        """What decides about findings: recipes with the same find the same."""
        quantization = self.quantization
        quantized = None if quantization is None else (quantization.name, repr(quantization.argument.value))
        training = None if self.training is None else self.training.says
        model = self.model or self.family
        return self.framework, training, self.adapter, quantized, model and model.path

    @property
    def origin(self) -> str:
        """The recipe, in words."""
        return f"{self.document.path}, a recipe of {self.framework}"

    def does(self, behaviour: str) -> bool:
        """Whether the newest known release of the framework does this."""
        known = tables.load("recipes")["frameworks"].get(self.framework)
        return known is not None and behaviour in known["states"][-1]["behaviours"]

    @property
    def trains_all(self) -> bool:
        """Whether a field says that no parameter is frozen."""
        field = self.record.trains_all
        return field is not None and bool(self.value(field[0]) == field[1])

    def refusal(self, stage: int | None, pin: Pin | None) -> FrameworkRejection | None:
        """Why the framework rejects this recipe with DeepSpeed, in the release of a pin, else in all that are known.

        ``stage`` is the ZeRO stage of the config, None if it is unknown.
        """
        return refusal(self.framework, {name: one.value for name, one in self.fields.items()}, stage, pin)

    def _has_only_fields_of(self, store: Recipes, framework: str) -> bool:
        known = {*store["frameworks"][framework]["fields"], *tables.load("transformers")["training_arguments"]}
        return known.issuperset(self.fields) and any(
            name in store["frameworks"][framework]["fields"] for name in self.fields
        )

    def _trains_otherwise(self) -> bool:
        """Whether something else than a Trainer with these arguments may train."""
        is_set = any(_is_set(self.value(name)) for name in self.record.otherwise)
        return is_set or self.record.trains_otherwise(self.value)

    def _training(self, store: Recipes) -> TrainingArguments:
        names = tables.load("transformers")["training_arguments"]
        known = store["frameworks"].get(self.framework)
        is_known = known is not None and {*known["fields"], *names}.issuperset(self.fields)  # else a fork, or a script
        states = known["states"] if known is not None else []
        given: dict[str, Argument] = {}
        defaults: dict[str, Any] = {}
        for name in names:
            found = [self._argument(state, name) for state in states] or [self._given(name)]
            first = found[0]
            agree = all(_is_same(first, one) for one in found[1:])
            argument = first if agree else Argument(UNKNOWN, "")
            if argument is None:
                if not is_known:
                    defaults[name] = UNKNOWN
            elif argument.document is not None:
                given[name] = argument
            else:
                defaults[name] = argument.value
        return TrainingArguments(given, self.origin, are_taken=True, defaults=defaults, defaults_of=self.framework)

    def _argument(self, state: RecipeState, name: str) -> Argument | None:
        """A training argument in some releases; without a place if it is a default, None if transformers decides."""
        if "arguments" in state:
            return self._computed(state, name)
        if name in state["sets"]:
            return Argument(UNKNOWN, "")
        if (given := self._given(name)) is not None:
            return given
        if name in state["unknown"]:
            return Argument(UNKNOWN, "")
        return Argument(state["defaults"][name], "") if name in state["defaults"] else None

    def _given(self, name: str) -> Argument | None:
        found = self.fields.get(name)
        return None if found is None else self._at(found, _typed(found.value, name, converts=self.record is not SCRIPT))

    def _at(self, found: Argument, value: Any, origin: str | None = None) -> Argument:
        return Argument(value, origin or found.origin, found.document, found.span)

    def _computed(self, state: RecipeState, name: str) -> Argument | None:
        """What axolotl's builders pass, by the expressions in their source."""
        read: list[str] = []

        def look_up(text: str) -> Any:
            if text == "bf16":
                return False if (joined := evaluate("cfg.bf16 or cfg.bfloat16", look_up)) is None else joined
            if not text.startswith("cfg.") or text.count(".") != 1:
                return UNKNOWN
            field = text.removeprefix("cfg.")
            if (value := self.value(field)) is not None:
                read.append(field)
                return UNKNOWN if value == "auto" else _converted(value)
            if field in state["unknown"]:
                return UNKNOWN
            default = state["defaults"].get(field)
            return UNKNOWN if default == "auto" else default

        result: Argument | None = None
        for use in state["arguments"].get(name, ()):
            read.clear()
            does = _all_true([_evaluated(condition, look_up) for condition in use["only_if"]])
            if does is False:
                continue
            value = UNKNOWN if does is UNKNOWN else _evaluated(use["value"], look_up)
            value = UNKNOWN if isinstance(value, list) else _typed(value, name, converts=True)
            if value is None and _kind(name) == "bool":
                value = False  # as every reader takes it
            if not read:
                result = Argument(value, "")
                continue
            field = name if name in read else read[-1]
            origin = self.fields[field].origin
            result = self._at(self.fields[field], value, origin if field == name else f"{field} in {origin}")
        return result

    def _quantization(self) -> Quantization | None:
        """The field by which the framework quantizes the model as it is loaded."""
        name = self.record.quantized(self.value)
        found = self.fields.get(name) if name is not None else None
        if name is None or found is None or not found.value or found.value is UNKNOWN:
            return None
        return Quantization(name, found)


def override(value: CommandArgument, origin: str, document: Document, span: Span) -> Argument:
    """A field that a command line sets, with its value as YAML has it."""
    if isinstance(value, str):
        from ds_lint.source import yaml

        root = yaml.parse(value, "").root
        return Argument(UNKNOWN if root is None else _converted(plain(root)), origin, document, span)
    return Argument(True if value is True else UNKNOWN, origin, document, span)


def _fields(document: Document) -> Iterator[tuple[str, Argument]]:
    """The fields of a recipe with their places."""
    for member in document.root.members if document.root is not None else ():
        value = plain(member.value)
        if isinstance(value, str) and _INTERPOLATION.search(value):
            value = UNKNOWN
        line, _ = document.position(member.key_span.start)
        end = max(member.key_span.end, member.value.span.end)  # an alias stands for what is above it
        yield member.key, Argument(value, f"{document.path}:{line}", document, Span(member.key_span.start, end))


def _typed(value: Any, name: str, *, converts: bool) -> Any:
    """A value as its field takes it; unknown if it is of another type, and the framework may convert it or not."""
    kind = _kind(name)
    if value is UNKNOWN or value is None or kind == "text":
        return value
    if kind == "bool":
        return value if isinstance(value, bool) else UNKNOWN
    value = _converted(value) if converts else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return UNKNOWN
    return value if kind == "float" or isinstance(value, int) else UNKNOWN


def _kind(name: str) -> str:
    """What a training argument takes in the newest release that has it."""
    field = tables.load("transformers")["training_arguments"][name]
    return kind_of(field["runs"][-1] if "runs" in field else field)


def _converted(value: Any) -> Any:
    """A number that PyYAML reads as a string, such as ``1e-5``."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    try:
        return float(value)
    except ValueError:  # 1__0
        return value


def _is_set(value: Any) -> bool:
    """Whether a field is set to something; 1 is the size of a group without parallelism."""
    return value is True or (bool(value) and value != 1)


def _evaluated(text: str, look_up: Any) -> Any:
    try:
        return evaluate(text, look_up)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):  # of values that are rejected
        return UNKNOWN


def _all_true(values: list[Any]) -> Any:
    """Whether all conditions hold."""
    if any(value is not UNKNOWN and not value for value in values):
        return False
    return UNKNOWN if UNKNOWN in values else True


def _is_same(one: Argument | None, other: Argument | None) -> bool:
    """Whether two releases make the same of a recipe."""
    if one is None or other is None:
        return one is other
    return type(one.value) is type(other.value) and one.value == other.value and one.span == other.span
