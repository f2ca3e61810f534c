"""The check at the start of a training script: a callback of the Hugging Face Trainer.

The only module outside smoke that imports transformers, in a process that has already imported it.
"""

from __future__ import annotations

import os
import sys

import transformers

from ds_lint import __version__
from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.diagnostics.report import Report
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.choice import choose
from ds_lint.linter.lint import lint_for
from ds_lint.linter.selection import Selection, select
from ds_lint.output import renderer
from ds_lint.output.terminal import terminal_of
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents
from ds_lint.source.files import bytes_of
from ds_lint.targets.distributions import installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.linter.choice import Choice


class ConfigError(ValueError):
    """The config of the run has findings as severe as ``fail_on``."""

    def __init__(self, message: str, findings: list[Finding]) -> None:
        super().__init__(message)
        self.findings = findings


class TrainerCallback(transformers.TrainerCallback):
    """Check the DeepSpeed config of a run, and stop the run if it would fail.

    With the training arguments, it checks the config at once, so before the model is loaded if the script creates it
    there; without them, when the Trainer is built::

        callback = ds_lint.TrainerCallback(training_args, model="Qwen/Qwen3-8B")
        model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
        trainer = Trainer(model, training_args, callbacks=[callback], ...)

    The releases are the installed ones, the ranks those of the launcher. Rank 0 prints the findings to standard error;
    every rank raises ConfigError if one is as severe as ``fail_on`` (None: never). ``model`` is the folder or the
    name of the model, ``ignore`` has codes or names of rules.
    """

    def __init__(
        self,
        training_args: transformers.TrainingArguments | None = None,
        *,
        model: str | os.PathLike[str] | None = None,
        ignore: list[str] | None = None,
        fail_on: str | None = "error",
    ) -> None:
        if fail_on is not None and fail_on not in SEVERITIES:
            raise ValueError(f"fail_on must be one of {', '.join(SEVERITIES)} or None, not {fail_on!r}")
        self.model = model
        self.rules = select(Selection(ignored=ignore or ()))
        self.fail_on = fail_on
        self.is_done = False
        if training_args is not None:
            self._lint(training_args)

    def on_init_end(self, args: transformers.TrainingArguments, *_: Any, **__: Any) -> None:
        """Check the config when the Trainer is built, unless it is already checked."""
        if not self.is_done:
            self._lint(args)

    def _lint(self, arguments: transformers.TrainingArguments) -> None:
        self.is_done = True
        config = _config(arguments)
        if config is None:
            return  # a run without DeepSpeed
        choice = choose("", {}, installed(""))  # the releases of this process, whatever the project pins
        report = self._report(config, arguments, choice)
        if _number("RANK", 0) == 0:
            if report.findings:
                text = renderer("full")(Report([report], __version__, notes=choice.notes), terminal_of(sys.stderr))
                sys.stderr.write(text)
            else:
                sys.stderr.writelines(f"ds-lint: note: {note}\n" for note in choice.notes)
        worst = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1] if self.fail_on else ()
        if serious := [finding for finding in report.findings if finding.severity in worst]:
            first = serious[0]
            raise ConfigError(f"{report.path}: {first.code} {first.message} (ds-lint explain {first.code})", serious)

    def _report(
        self, config: JsonObject | str, arguments: transformers.TrainingArguments, choice: Choice
    ) -> FileReport:
        ranks = _number("WORLD_SIZE", 1)
        on_this_node = _number("LOCAL_WORLD_SIZE", ranks)
        sources = Sources(
            world_size=ranks,
            nodes=max(1, ranks // on_this_node),
            trainer_args=arguments,
            model=str(self.model) if self.model is not None else None,
            given_by="the running process",
        )
        try:
            facts = gather(sources)
        except UnreadableFact:  # a model that this very script downloads later
            sources.model = None
            facts = gather(sources)
        if isinstance(config, str):
            document = documents.from_bytes(bytes_of(config), config)
        else:
            document = documents.from_dict(config)
        return lint_for(choice, document, Basis(knowledge(choice.newest), "trainer", facts), self.rules)


def _config(arguments: transformers.TrainingArguments) -> JsonObject | str | None:
    """The config of the run: the argument, else the file that ``accelerate launch`` was given."""
    if arguments.deepspeed:
        given = arguments.deepspeed
        return given if isinstance(given, dict) else str(given)
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() in ("1", "true"):
        return os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE")
    return None


def _number(variable: str, default: int) -> int:
    """A number that the launcher left in the environment."""
    return int(os.environ.get(variable) or default)
