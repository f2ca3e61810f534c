"""What a launch tells of the config that it names: ranks, training arguments, stack and model, each with its place."""

from __future__ import annotations

import re

from ds_lint.diagnostics.finding import Related
from ds_lint.facts.families import family_of_class, family_of_name
from ds_lint.facts.training import Argument, TrainingArguments, flag_values
from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import CodePlace
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts.model import Model
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.source.document import Document

_MODEL = ("model_name_or_path", "model_name", "model_path", "model", "base_model")
# A script that cannot be read is known to be one of the Trainer by its flags: so many fields of TrainingArguments,
# among them the path of a config, or one of these, which the scripts with a loop of their own hardly have.
_TELLING = 3
_OF_TRAINER = frozenset({
    "do_eval", "do_train", "eval_strategy", "evaluation_strategy", "logging_steps", "logging_strategy",
    "overwrite_output_dir", "save_steps", "save_strategy", "save_total_limit", "warmup_ratio",
})  # fmt: skip


_FALSE = ("0", "f", "false", "n", "no")  # as HfArgumentParser reads them


class LaunchFacts:
    """A launch of a project. ``document`` is the script with the launch; ``script`` what it starts, if it is there.

    ``builds_whole_models`` says that Accelerate's YAML switches ``zero3_init_flag`` off.
    """

    __slots__ = (
        "builds_whole_models", "document", "launch", "model", "script", "script_document", "stack", "training",
    )  # fmt: skip

    def __init__(
        self, launch: Launch, document: Document, script: TrainingScript | None, script_document: Document | None = None
    ) -> None:
        self.launch = launch
        self.document = document
        self.script = script
        self.script_document = script_document  # the text that ``script`` is read from
        self.builds_whole_models = False
        self.model: Model | None = None  # if it lies in the project
        self.stack = self._stack()
        self.training = self._training() if self.stack == "trainer" else None

    @property
    def origin(self) -> str:
        """The launch, in words."""
        return f"{self.document.path}:{self.launch.line}"

    @property
    def world_size(self) -> int | None:
        """The number of ranks."""
        return self.launch.world_size

    @property
    def nodes(self) -> int | None:
        """The number of nodes."""
        return self.launch.nodes

    @property
    def place(self) -> Span:
        """The line of the launch."""
        return self._line(self.launch.line)

    @property
    def model_name(self) -> str | None:
        """The name or folder of the model; None if it is unknown."""
        given = [self.launch.arguments[name] for name in _MODEL if name in self.launch.arguments]
        if not given and self.script is not None:
            given = list(dict.fromkeys(self.script.models))
        return given[0] if len(given) == 1 and isinstance(given[0], str) else None

    @property
    def family(self) -> Model | None:
        """What the name of the model or the class that the script loads tells of it; None if that is nothing."""
        classes = [one or "" for one in self.script.model_classes] if self.script is not None else []
        if all(one.startswith("Auto") for one in classes):
            return family_of_name(self.model_name)
        return family_of_class(classes[0]) if len(classes) == 1 else None

    @property
    def fills_in(self) -> bool:
        """Whether the script gives the config to something that adds keys to it."""
        return self.script is not None and self.script.fills_in

    noun, label = "launch", "launched here"
    is_told = True  # that a finding depends on the number of ranks does not show in it

    @property
    def documents(self) -> list[Document]:
        """The files that findings refer to."""
        return [self.document] if self.script_document is None else [self.document, self.script_document]

    @property
    def says(self) -> object:
        """What decides about findings: launches with the same find the same."""
        training = None if self.training is None else self.training.says
        calls = None if self.script is None else self.script.calls
        facts = (self.stack, self.launch.world_size, self.launch.nodes, self.model and self.model.path, self.model_name)
        return *facts, training, self.launch.script, calls, self.builds_whole_models

    @property
    def origins(self) -> list[str]:
        """The places of the launch as messages have them, the longest first."""
        given = self.training.given.values() if self.training is not None else ()
        return sorted({self.origin, *(one.origin for one in given)} - {""}, key=len, reverse=True)

    @property
    def quantization(self) -> tuple[str, str, list[Related]] | None:
        """What asks for a quantized model: the argument, where it stands, and that place; None if nothing does."""
        loaded = self.script.calls.quantized if self.script is not None else None
        if loaded is not None:
            return f"`{loaded.argument}`", self.at(loaded.place), self.related(loaded.place, loaded.argument)
        arguments = self.launch.arguments
        bits = arguments.get("quantization_bit")  # of LLaMA-Factory
        if self.script is not None or "finetuning_type" not in arguments or bits not in ("2", "3", "4", "5", "6", "8"):
            return None
        span = self._flag("quantization_bit")
        line, _ = self.document.position(span.start)
        place = Related(span, "quantization_bit", self.document.path)
        return f"`quantization_bit` {bits}", f"{self.document.path}:{line}", [place]

    @property
    def ungathered_generation(self) -> tuple[str, list[Related]] | None:
        """Where a trainer of trl is told to generate with partitioned weights; None if vLLM generates, or unknown."""
        name, vllm = "ds3_gather_for_generation", "use_vllm"
        if self.script is not None and name in self.script.keywords:
            given, other = self.script.keywords[name], self.script.keywords.get(vllm)
            if given.value is not False or (other is not None and other.value is not False):
                return None
            place = CodePlace(given.line, given.column, given.end_line, given.end_column)
            return self.at(place), self.related(place, name)
        arguments = self.launch.arguments
        if str(arguments.get(name)).lower() not in _FALSE or str(arguments.get(vllm, "false")).lower() not in _FALSE:
            return None
        span = self._flag(name)
        line, _ = self.document.position(span.start)
        return f"{self.document.path}:{line}", [Related(span, name, self.document.path)]

    def at(self, place: CodePlace) -> str:
        """A place in the training script, in words."""
        assert self.script_document is not None  # noqa: S101 - the script was read from it
        return f"{self.script_document.path}:{place.line}"

    def related(self, place: CodePlace, label: str) -> list[Related]:
        """A place in the training script as another one that takes part in a finding."""
        document = self.script_document
        if document is None:
            return []
        ends = [(place.line, place.column), (place.end_line, place.end_column)]
        start, end = (_offset(document.text, line, column) for line, column in ends)
        return [Related(Span(start, end), label, document.path)]

    def _stack(self) -> Stack | None:
        if self.script is not None and (self.script.stack is not None or not self.script.parses_flags):
            return self.script.stack
        arguments = self.launch.arguments
        if "deepspeed_config" in arguments:  # which deepspeed.add_config_arguments defines
            return "deepspeed"
        fields = tables.load("transformers")["training_arguments"]
        is_trainers = isinstance(arguments.get("deepspeed"), str) or not _OF_TRAINER.isdisjoint(arguments)
        return "trainer" if is_trainers and sum(name in fields for name in arguments) >= _TELLING else None

    def _training(self) -> TrainingArguments:
        """The flags that are training arguments, over what the script sets."""
        fields = tables.load("transformers")["training_arguments"]
        script, launch = self.script, self.launch
        is_complete = script is not None and script.has_known_defaults and None not in launch.command
        given: dict[str, Argument] = {}
        defaults: dict[str, Any] = {}
        if script is not None:
            given.update(self._keywords(script))
            defaults.update(script.defaults)
        if script is None or script.parses_flags:
            given.update(self._flags())
        for name in fields:
            is_set = script is not None and name in script.sets
            if is_set:
                given.pop(name, None)
            if is_set or (name not in given and name not in defaults and not is_complete):
                defaults[name] = UNKNOWN
        of = script is not None and bool(script.defaults)
        return TrainingArguments(
            given, self.origin, are_taken=True, defaults=defaults, defaults_of=str(launch.script) if of else ""
        )

    def _flags(self) -> Iterator[tuple[str, Argument]]:
        for name, value in flag_values(self.launch.flags).items():
            span = self._flag(name)
            line, _ = self.document.position(span.start)
            yield name, Argument(value, f"{self.document.path}:{line}", self.document, span, is_flag=True)

    def _keywords(self, script: TrainingScript) -> Iterator[tuple[str, Argument]]:
        for name, keyword in script.keywords.items():
            yield name, Argument(keyword.value, f"{self.launch.script}:{keyword.line}")

    def _flag(self, name: str) -> Span:
        """Where a flag stands: behind the start of the command, else in the variable that brings it."""
        written = re.compile(rf"(?<![\w-])--?{re.escape(name).replace('_', '[-_]')}(?![\w-])")
        start = self.place.start
        found = written.search(self.document.text, start) or written.search(self.document.text)
        return self.place if found is None else Span(found.start(), found.end())

    def _line(self, number: int) -> Span:
        start = 0
        for _ in range(number - 1):
            start = self.document.text.find("\n", start) + 1
        end = self.document.text.find("\n", start)
        text = self.document.text[start : end if end >= 0 else None]
        return Span(start + len(text) - len(text.lstrip()), start + len(text.rstrip().rstrip("\\").rstrip()))


def _offset(text: str, line: int, column: int) -> int:
    """Where a column in bytes of a line stands in a text."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    end = text.find("\n", start)
    return start + len(text[start : end if end >= 0 else None].encode()[:column].decode("utf-8", "ignore"))
