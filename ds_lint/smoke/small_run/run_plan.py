"""What a training run of one config is to do: the job of its parts, and what the config asks for in it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Adaptation
from ds_lint.facts import Facts
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.knowledge.keys import knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.smoke.expected.adaptation import Changes, adapt, of_adapters
from ds_lint.smoke.expected.assumed_arguments import with_matching_arguments
from ds_lint.smoke.expected.expectation import Expectation, ranks_of_a_copy, with_meant_names
from ds_lint.smoke.expected.loss_scale_rule import provoked
from ds_lint.smoke.rank.loaded_config import apply
from ds_lint.smoke.records import accelerate_script
from ds_lint.smoke.records.job import Job
from ds_lint.smoke.records.small_model import SWAPPED, TINY, Sizes
from ds_lint.smoke.small_run.options import BUILDING, STEPS, STEPS_AFTER
from ds_lint.source.tree import plain, walk

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.keys import Target
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.job import TrainingFields
    from ds_lint.smoke.records.messages import Ended
    from ds_lint.smoke.small_run.options import RunOptions
    from ds_lint.source.document import Document

MOST_RANKS = 64  # that are reasonable on one machine


class RunPlan:
    """One config on its way through the parts of a run."""

    def __init__(self, config: Config, options: RunOptions, folder: str) -> None:
        self.config = config
        self.options = options
        self.folder = folder
        self.began = time.monotonic()
        self.changes = adapt(
            config,
            folder,
            ranks=options.ranks,
            mode=options.mode,
            steps=STEPS + STEPS_AFTER,
            is_real_world=options.is_real_world,
        )
        if options.about_gpus is not None:
            self.changes.adaptations.append(Adaptation(None, None, None, options.about_gpus))
        self.expectation = expectation_of(config, self.changes, options.ranks)
        sizes = _sizes(self.expectation)
        if options.has_adapters:
            self.changes.adaptations.append(of_adapters(sizes))
        self.optimizer = self.expectation.optimizer_of_script if config.stack == "deepspeed" else None
        if self.optimizer is not None:
            why = "the config sets no optimizer, so the script provides it"
            self.changes.adaptations.append(Adaptation(None, "the script's optimizer", self.optimizer, why))
        self.job = Job(
            text=_text(config),
            is_dict=config.document.is_dict,
            stack=config.stack or "deepspeed",
            folder=folder,
            model=config.facts.model.config if config.facts.model is not None else None,
            sizes=sizes,
            has_adapters=options.has_adapters,
            world_size=options.ranks,
            mode=options.mode,
            gpus=options.gpus,
            shared_gpu=options.shared_gpu,
            ranks_of_node=1 if options.shared_gpu is not None else None,
            edits=self.changes.edits,
            training=self.changes.training,
            steps=STEPS,
            steps_after=STEPS_AFTER,
            builds_ops=options.builds_ops,
            optimizer=self.optimizer,
            script=self.changes.script,
            seconds=options.seconds + (BUILDING if options.builds_ops else 0.0),
            overflows=_overflows(self.expectation),
        )
        self.ended: list[Ended] = []

    def part(self, part: str) -> Job:
        """The job of another part."""
        return self.job.but(part=part)


def config_of(document: Document, stack: Stack, target: Target, facts: Facts) -> Config:
    """The config of a document; for the Trainer, with arguments that match it if none are given."""
    config = configs.from_document(document, Basis(knowledge(target), stack, facts))
    return with_matching_arguments(config) if facts.training is None and config.stack == "trainer" else config


def stack_of(document: Document, target: Target, facts: Facts) -> Stack:
    """The stack of a config if none is given: DeepSpeed itself, if that is possible."""
    if facts.training is not None:
        return "trainer"
    stacks = configs.from_document(document, Basis(knowledge(target), facts=facts)).stacks
    return "deepspeed" if "deepspeed" in stacks else "trainer"


def of_world(facts: Facts, ranks: int) -> Facts:
    """The same facts with a world size."""
    known = Facts(world_size=ranks, nodes=facts.nodes, training=facts.training)
    known.model = facts.model
    return known


def expectation_of(config: Config, changes: Changes, ranks: int) -> Expectation:
    """What the config asks for in a run with these changes."""
    changed, written_as = with_meant_names(config)
    for edit in changes.edits:
        apply(changed, edit)
    if changes.script is not None:
        accelerate_script.fill(changed, changes.script, ranks)
    facts = Facts(world_size=ranks, training=_training(config.facts.training, changes.training))
    facts.model = config.facts.model
    seen = configs.from_document(config.document, config.basis.but(stack=config.stack, facts=facts))
    return Expectation(seen, changed, written_as)


def obstacle_of(run: RunPlan) -> str | None:
    """Why a config cannot run at all; None if it can."""
    if run.config.accelerate is not None and run.config.written.kind != "object":
        return "Accelerate makes no DeepSpeed config of this file"
    if run.config.call is not None and run.config.written.kind != "object":
        return f"the call of `{run.config.call.name}` is given a config, which is checked on its own"
    issue = next((one for one in run.config.document.issues if one.kind == "template"), None)
    if issue is not None:
        placeholder = run.config.document.text[issue.span.start : issue.span.end]
        return f"`{placeholder}` is a placeholder: a run needs a config without placeholders"
    unknown = next((member for _, member in walk(run.config.written) if member.value.kind == "template"), None)
    if unknown is not None:
        return f"`{unknown.key}` is computed by the program: a run needs a config whose values are written out"
    if run.config.document.is_fragment:
        return _unknown_keys(run.config.document)
    if run.job.stack == "trainer" and run.config.written.kind == "object" and not run.config.written.members:
        return "the config is empty, so the Trainer trains without DeepSpeed"
    ranks = ranks_of_a_copy(run.expectation.final)
    if run.options.ranks % ranks and ranks <= MOST_RANKS:
        number = run.options.ranks
        return f"{ranks} ranks share each copy of the model, but the run has {number}: pass --smoke-ranks {ranks}"
    return None


def _unknown_keys(document: Document) -> str:
    """Why a config that may have further keys cannot run."""
    if document.language == "markdown":
        return "the text may show a part of the config: a run needs a batch size, a section, and no ellipsis"
    if document.is_python:
        return "the program may add keys to the config: a run needs all of them"
    return "the script may add keys to the config: a run needs all of them"


def _text(config: Config) -> str:
    """The config that the ranks load: a file's own text, or JSON of a dict in a program, a recipe or a plugin.

    A file of any language may be around it: ``content`` is what a here-document or a block becomes.
    """
    document = config.document
    if document.is_dict or document.is_python:
        return json.dumps(plain(config.written))
    return document.content.removeprefix("\ufeff")


def _training(given: TrainingArguments | None, changed: TrainingFields) -> TrainingArguments | None:
    """The training arguments with the changes of the run."""
    if given is None and not changed:
        return None
    joined = dict(given.given) if given is not None else {}
    for name, value in changed.items():
        if name not in joined or joined[name].value != value:
            joined[name] = Argument(value, "the smoke run")
    return TrainingArguments(joined, given.origin if given is not None else "the smoke run")


def _overflows(expectation: Expectation) -> list[bool]:
    """Which steps after the training are to overflow; none where ranks share a copy of the model."""
    rule, start = expectation.loss_scale_rule, expectation.first_loss_scale
    if rule is None or start is None or ranks_of_a_copy(expectation.final) > 1:
        return []
    return provoked(rule, start, steps=STEPS + STEPS_AFTER)


def _sizes(expectation: Expectation) -> Sizes:
    """The sizes of the model: larger if tensors go to NVMe."""
    places = [
        requested.value
        for requested in (expectation.optimizer_offload, expectation.parameter_offload)
        if requested is not None
    ]
    return SWAPPED if "nvme" in places else TINY
