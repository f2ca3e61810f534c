"""Hold ds-lint's verdict on a config against what the real DeepSpeed did with it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import endings
from generate import configs, mutate
from installed import INSTALLED, knowledge
from linted import lint_bytes, lint_dict
from oracle import Job, Oracle, Verdict
from pairs import Pair, pair
from scripts import HIDDEN, accelerate_script, trainer_script

from ds_lint.diagnostics.finding import STAGES, Finding
from ds_lint.facts import Facts, training
from ds_lint.facts.model import Model
from ds_lint.source.spelling import is_comment

BAR = 0.99  # the share of the decided configs on which both must agree
KINDS = ("false alarm", "silent", "stage", "ignored")  # of disagreements
LINTED_FOR = {"target": INSTALLED, "stack": "deepspeed", "facts": Facts(world_size=1)}

# What the oracle's two linear layers cannot do, and another model can.
THE_MODEL = (
    "Not able to determine model policy",  # AutoTP
    "unexpected keyword argument 'progressive_layer_drop'",
    "per_head_muon is enabled but no attention",
    "KeyError: 2",  # a module_depth that the model does not have
    "Muon only supports 2D parameters",  # torch.optim.Muon, which DeepSpeed takes below 0.17.6
)

NOT_CHECKED = "TrainingArguments do not check the types of their fields, and what uses them raises in its own way"
# Disagreements that are known and stay, each with its reason: (part of the real error, why ds-lint does not say it).
KNOWN = (
    (
        "expected 1 ",
        "a list of learning rates must be as long as there are parameter groups, and the groups are the script's",
    ),
    ("Failed to import lower precision safe module", "whether a class can be imported depends on what is installed"),
    ("Exceeds the limit (4300 digits)", "a loss scale that Python does not print, and only some settings log it"),
    (
        "initialize AssertionError: Check batch related parameters",
        "the oracle parses the config once before deepspeed.initialize makes groups of ranks of it and parses it again",
    ),
    ("'float' object cannot be interpreted as an integer", NOT_CHECKED),
    ("'<=' not supported between instances of 'float' and 'str'", NOT_CHECKED),
    ("Tried to step 2 times", "a schedule of one step ends there; how many steps a run takes is the script's"),
    (
        "Boolean alpha only supported",
        "`weight_decay: true`: a fact has one stage, and what else is not a number raises earlier",
    ),
)


@dataclass
class Disagreement:
    """A config on which ds-lint and DeepSpeed differ."""

    kind: str  # one of KINDS
    config: Any
    ours: list[str]
    theirs: str

    def __str__(self) -> str:
        return f"{self.kind}: ds-lint says {self.ours or 'nothing'}, DeepSpeed: {self.theirs}\n    {self.config}"


@dataclass
class Agreement:
    """The outcome for many configs; the oracle, with its machine, model and script, cannot decide all of them."""

    count: int
    undecided: int
    disagreements: list[Disagreement]

    @property
    def agreed(self) -> int:
        return self.count - self.undecided - len(self.disagreements)

    @property
    def is_enough(self) -> bool:
        return self.agreed >= BAR * (self.count - self.undecided)

    @property
    def kinds(self) -> dict[str, int]:
        """How many disagreements there are of each kind."""
        return {kind: sum(one.kind == kind for one in self.disagreements) for kind in KINDS}

    @property
    def unexplained(self) -> list[Disagreement]:
        """The disagreements whose reason is not written down in ``KNOWN``."""
        return [one for one in self.disagreements if not any(words in one.theirs for words, _ in KNOWN)]


def assert_agreement(agreement: Agreement) -> None:
    """Enough agree, and with the newest release all that differ are explained."""
    for disagreement in agreement.disagreements:
        print(disagreement)
    print(f"{agreement.agreed} of {agreement.count} agree, {agreement.undecided} were not decided")
    assert agreement.is_enough
    if knowledge().is_newest:
        assert not agreement.unexplained, "explain them in agreement.KNOWN, or fix the rule"


def measure(seed: int, count: int, *, as_file: bool = False) -> Agreement:
    """Lint random configs, and train them with the installed DeepSpeed, which reads them from files or gets dicts."""
    made = list(configs(seed, count, knowledge()))
    with Oracle() as oracle:
        verdicts = oracle.verdicts(copy.deepcopy(made), as_file=as_file)
    reports = [
        lint_bytes(json.dumps(config).encode(), "ds_config.json", **LINTED_FOR)
        if as_file
        else lint_dict(config, **LINTED_FOR)
        for config in made
    ]
    return compare_all((made[i], reports[i].findings, verdicts[i]) for i in range(count))


def measure_accelerate(seed: int, count: int) -> Agreement:
    """Train with random configs in a loop of Accelerate's."""
    made = list(configs(seed, count, knowledge()))
    with Oracle() as oracle:
        verdicts = oracle.run([Job(config, script=accelerate_script) for config in copy.deepcopy(made)])
    facts = Facts(world_size=1)
    reports = [lint_dict(config, target=INSTALLED, stack="accelerate", facts=facts) for config in made]
    compared = ((made[i], reports[i].findings, verdicts[i]) for i in range(count))
    return compare_all(compared, in_order=False)


def measure_trainer(seed: int, count: int) -> Agreement:
    """Train with random pairs of a config and training arguments in the real Trainer."""
    chance = random.Random(seed)
    pairs = [pair(1000 * seed + place) for place in range(count)]
    for one in pairs:
        mutate(chance, one.config, knowledge())
    with Oracle() as oracle:
        jobs = [Job(copy.deepcopy(one.config), script=partial(trainer_script, fields=one.fields)) for one in pairs]
        verdicts = oracle.run(jobs)
    reports = [lint_dict(one.config, target=INSTALLED, stack="trainer", facts=_told(one)) for one in pairs]
    compared = (
        ({"config": pairs[i].config, "arguments": pairs[i].fields}, reports[i].findings, verdicts[i])
        for i in range(count)
    )
    return compare_all(compared, in_order=False)


def _told(pair: Pair) -> Facts:
    """What ds-lint is told of a run of the Trainer on one rank with the script's model."""
    facts = Facts(world_size=1)
    facts.training = training.of_object(pair.fields)
    facts.model = Model("", {"hidden_size": HIDDEN})
    return facts


def compare_all(compared: Iterable[tuple[Any, list[Finding], Verdict]], *, in_order: bool = True) -> Agreement:
    """`compare` for many configs, each with what ds-lint and DeepSpeed say."""
    agreement = Agreement(0, 0, [])
    for config, findings, verdict in compared:
        agreement.count += 1
        agreement.undecided += not is_decided(verdict)
        if difference := compare(config, findings, verdict, in_order=in_order):
            agreement.disagreements.append(difference)
    return agreement


def compare(config: Any, findings: list[Finding], verdict: Verdict, *, in_order: bool = True) -> Disagreement | None:
    """None where both agree on start or rejection, on the stage, and on the keys that nothing reads.

    ``in_order``: whether the stages follow each other, as they do in DeepSpeed, so that the first is the one that
    raises; Accelerate does a part of its own work before DeepSpeed parses the config.
    """
    if not is_decided(verdict):
        return None
    rejected = [finding for finding in findings if finding.effect == "rejected"]
    endings.note(endings.causes(findings, verdict), verdict.ending, config)
    theirs = f"{verdict.rejected_at or 'runs'} {verdict.error or ''}"
    if bool(rejected) != bool(verdict.rejected_at):
        kind = "false alarm" if rejected else "silent"
        return Disagreement(kind, config, [_short(finding) for finding in rejected], theirs)
    if rejected:
        stages = sorted({finding.stage for finding in rejected if finding.stage}, key=STAGES.index)
        if verdict.rejected_at not in (stages[:1] if in_order else stages):
            return Disagreement("stage", config, [_short(finding) for finding in rejected], theirs)
        return None
    ours = {finding.key for finding in findings if finding.effect == "ignored"}
    alarms = ours - verdict.ignored
    silent = {path for path in verdict.ignored if _is_unknown(path)} - ours
    if alarms or silent:
        return Disagreement(
            "ignored", config, sorted(str(key) for key in ours), f"does not read {sorted(verdict.ignored)}"
        )
    return None


def is_decided(verdict: Verdict) -> bool:
    """Whether the run shows what becomes of a config that has the model and the machine it asks for."""
    is_about_the_model = any(words in (verdict.error or "") for words in THE_MODEL)
    return not (verdict.undecided or is_about_the_model)


def _is_unknown(path: str) -> bool:
    """Whether a key that nothing read is unknown, and no comment: known keys may wait for a feature that is off.

    Not the keys of an object that stands for a single value, of which DeepSpeed asks only whether it is there.
    """
    parts = tuple(path.split("."))
    section = knowledge().find(parts[:-1])
    is_in_section = section is not None and section.is_section
    return is_in_section and knowledge().find(parts) is None and not is_comment(parts[-1])


def _short(finding: Finding) -> str:
    return f"{finding.code} {finding.key} {finding.stage or finding.effect}"
