"""Run the rules over one config."""

from __future__ import annotations

from ds_lint import checks
from ds_lint.diagnostics.finding import EFFECTS, NONE, Finding
from ds_lint.diagnostics.rule import RULES
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ds_lint.diagnostics.finding import Kind, Stack
    from ds_lint.diagnostics.problem import Outcome, Problem
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.semantics.config import Config

_LONGEST = 2000  # characters of a message or of a help
_HARMLESS = ("ignored", "no-effect", "advice")  # effects that change nothing of what the config requests

_registered: set[str] = set()  # families


def every_rule() -> list[Rule]:
    """All rules by code."""
    _register(checks.every_family())
    return sorted(RULES, key=lambda rule: rule.code)


def default_rules(*, preview: bool = False) -> list[Rule]:
    """The rules that run by default; with ``preview`` also those that are still in preview."""
    return [rule for rule in every_rule() if rule.is_on or (preview and rule.is_default)]


def check(config: Config, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """Everything that these rules find, or the default ones, in the order of the text."""
    keys = {member.key for member in config.root.members}
    if rules is None:
        _register(checks.needed(config, keys))
        rules = [rule for rule in RULES if rule.is_on]
    findings = [
        finding
        for rule in _that_can_fire(config, list(rules), keys)
        for problem in rule.check(config)
        if (finding := _finding(rule, problem, config)) is not None
    ]
    findings.sort(key=lambda finding: (finding.span.start, finding.span.end, finding.code))
    return findings


def _register(names: Iterable[str]) -> None:
    """Import families of rules, each once."""
    for name in names:
        if name not in _registered:
            __import__(f"ds_lint.checks.{name}")
            _registered.add(name)  # after it: another thread must not go on without its rules


def _that_can_fire(config: Config, rules: list[Rule], keys: set[str]) -> list[Rule]:
    """The rules that have something to look at: those about runs a run, whatever the config is written in."""
    about_runs = [rule for rule in rules if rule.kind == "run"] if config.facts.smoke else []
    return [*about_runs, *_that_concern(config, rules, keys)]


def _that_concern(config: Config, rules: Iterable[Rule], keys: set[str]) -> list[Rule]:
    """The rules about what is written: those about syntax need a file with issues, the others an object."""
    if (kind := _kind_of_own_rules(config)) is not None:
        return [rule for rule in rules if _concerns(rule, config, keys, kind)]
    if config.foreign is not None:
        return [rule for rule in rules if config.foreign in (rule.alone_on, rule.also_on)]
    has_issues = bool(config.document.issues)
    has_keys = config.root.kind == "object" and not config.is_empty
    if config.document.is_fragment:
        rules = [rule for rule in rules if rule.family in checks.ABOUT_ONE_KEY]
    return [
        rule
        for rule in rules
        if rule.kind not in ("accelerate", "call", "recipe", "run")
        if (has_issues if rule.kind == "syntax" else has_keys and (not rule.keys or not rule.keys.isdisjoint(keys)))
    ]


def _kind_of_own_rules(config: Config) -> Kind | None:
    """The kind of the rules about what a config is written in, if that has rules of its own."""
    if config.preset is not None and not config.preset.is_there:
        return "recipe"
    if config.accelerate is not None or config.document.kind == "TrainingArguments":
        return "accelerate"
    if config.call is not None:
        return "call"
    return "recipe" if config.document.kind == "recipe" or config.preset is not None else None


def _concerns(rule: Rule, config: Config, keys: set[str], kind: Kind) -> bool:
    """Whether a rule is about a YAML of ``accelerate launch``, a call or a recipe, or about the config in it."""
    if rule.is_about_config:
        is_fragment = config.document.is_fragment
        is_enough = not is_fragment or (kind != "accelerate" and rule.family in checks.ABOUT_ONE_KEY)
        return is_enough and config.root.kind == "object" and (not rule.keys or not rule.keys.isdisjoint(keys))
    return rule.kind == kind or (rule.kind == "syntax" and rule.family == "suppressions")


def _finding(rule: Rule, problem: Problem, config: Config) -> Finding | None:
    """The problem as the stacks that may load this config have it; None if none of them does."""
    outcomes = (
        problem.outcomes if isinstance(problem.outcomes, dict) else dict.fromkeys(config.stacks, problem.outcomes)
    )
    outcomes = {stack: outcome for stack, outcome in outcomes.items() if stack in config.stacks}
    if not outcomes or (config.document.is_fragment and _depends_on_the_stack(config, outcomes)):
        return None
    worst = min(outcomes.values(), key=lambda outcome: EFFECTS.index(outcome.effect))
    key = problem.key
    is_about_keys = rule.is_about_config or rule.kind == "run"
    is_of_file = rule.kind == "run" and config.accelerate is not None and config.accelerate.made is None
    made_of = config.maker if is_about_keys and not is_of_file else None  # which has the keys under other names
    if made_of is not None:
        if problem.key is not None and made_of.is_default(problem.key) and worst.effect in _HARMLESS:
            return None  # the library writes it whatever the user does
        key, problem.fix = made_of.key(problem.key), None
        problem.help = f"{problem.help} {made_of.advice(problem.key)}".rstrip()
    if config.document.kind == "recipe":
        problem.fix = None  # fixes are written for JSON and Python
        key = ("deepspeed", *(key or ())) if is_about_keys and config.preset is None else key
    if config.document.is_in_yaml:
        problem.fix = None  # what it writes would not be YAML
    span, related, is_in_other_file = problem.span, problem.related, False
    if config.document.composed is not None:
        from ds_lint.linter.composed import placed  # few configs are composed

        place = placed(problem, config.document.composed, is_elsewhere=rule.is_elsewhere)
        if place is None:
            return None
        span, related, is_in_other_file = place
    if config.document.is_inline:
        problem.fix = None  # fixes are written for whole configs, in JSON and Python
        key = (*(config.document.keys_above or ()), *(key or ()))
    # Then the problem is about a value that is not written; of a preset, all values are at one place.
    filled = config.filled.get(problem.span) if config.preset is None else None
    message = _shortened(problem.message)
    if problem.fix is not None:
        problem.fix.title = _shortened(problem.fix.title)
    return Finding(
        code=rule.code,
        name=rule.name,
        kind=rule.kind,
        family=rule.family,
        severity=problem.severity or rule.severity,
        effect=worst.effect,
        stage=worst.stage,
        effects=_effects(config, outcomes),
        key=dotted(key) if key else None,
        message=f'{message} (from "auto")' if filled else message,
        help=_shortened(f'{problem.help} "auto" is {filled}.' if filled else problem.help),
        path=config.document.path,
        span=span,
        label="part of this config" if is_in_other_file else problem.label,
        related=related,
        is_elsewhere=is_in_other_file
        or (rule.is_elsewhere and bool(problem.related) and problem.related[0].path is not None),
        fix=None if filled or _overwrites_stand_in(problem, config) else problem.fix,
        advisory=problem.advisory,
        subject=_subject(problem, config),
    )


def _subject(problem: Problem, config: Config) -> Hashable:
    """What makes a problem another one; of one that points to the name of the model, the model too."""
    facts, subject = config.facts, problem.message if problem.subject is None else problem.subject
    if facts.model_at and any(place in facts.model_at for place in problem.related):
        return facts.model and facts.model.path, subject
    return subject


def _overwrites_stand_in(problem: Problem, config: Config) -> bool:
    """Whether a fix would write a value in the place of a variable that it comes from; to delete both is all right."""
    stand_ins = config.document.stand_ins
    if not stand_ins or problem.fix is None:
        return False
    text = config.document.text
    written = "".join(edit.text for edit in problem.fix.edits)
    changed = [edit.span for edit in problem.fix.edits if edit.text]
    return any(
        one.start < span.end and span.start < one.end and text[one.start : one.end] not in written
        for span in changed
        for one in stand_ins
    )


def _depends_on_the_stack(config: Config, outcomes: dict[Stack, Outcome]) -> bool:
    """Whether a problem is another one with other stacks: a fragment does not show who loads it."""
    return _effects(config, outcomes) is not None


def _shortened(text: str) -> str:
    """A text that may quote a name of a megabyte: what is in the middle says nothing."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... ({len(text) - _LONGEST:,} characters) ...{text[-_LONGEST // 2 :]}"


def _effects(config: Config, outcomes: dict[Stack, Outcome]) -> dict[Stack, str] | None:
    """Effect by stack where the stack is unknown and the stacks differ; "none" for a stack without a problem."""
    effects = {stack: outcomes[stack].effect if stack in outcomes else NONE for stack in config.stacks}
    return effects if len(set(effects.values())) > 1 else None
