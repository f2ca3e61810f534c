"""Rules about single values: those that DeepSpeed rejects, and an "auto" that is not filled in (DS2xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import EFFECTS, LOADERS, STAGES, Related
from ds_lint.diagnostics.problem import NO_EFFECT, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.knowledge.coercion import refusal, refused_at_parsing
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.semantics.features import bf16_section, is_truthy, model_dtype, tensor_parallel_size
from ds_lint.source.spelling import AUTO, as_json, holds_auto, is_comment
from ds_lint.source.tree import Fraction, dotted, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.diagnostics.finding import Fix, Stack, Stage
    from ds_lint.knowledge.coercion import Expected
    from ds_lint.knowledge.keys import Key
    from ds_lint.semantics.config import Config, Reading, Visit
    from ds_lint.source.tree import KeyPath, Member, Node

_WHOLE, _BROKEN = 1e6, 1e6 + 0.5  # as large as a key may want it


@rule("DS201", "refused-value", severity="error", effects=("rejected",))
def refused_value(config: Config) -> Iterator[Problem]:
    """DeepSpeed's checks, or the code that uses the value, reject it."""
    for visit in config.visits:
        key, value = visit.key, visit.member.value
        if key is None or key.takes(value.kind, value.value, visit.section.strict):
            continue
        if "removed" in key.facts or value.value == AUTO or value.kind == "template":
            continue
        outcomes: dict[Stack, Outcome] = {}
        wanted: Expected | None = None
        stage: Stage = "parse"
        for reading in config.readings(visit.value):
            refused = refusal(key.facts, visit.section.strict, visit.value, reading.kind, reading.value)
            for stack in _stacks_that_use(key, reading.stacks) if refused else ():
                is_looked_into = key.is_section and _looks_inside(config, stack, visit.path)
                if is_looked_into or is_used(config, key):
                    wanted = refused
                    stage = _stage_of_refusal(visit, key, reading)
                    outcomes[stack] = rejected("initialize" if is_looked_into else stage)
        if wanted and outcomes:
            yield Problem(
                visit.path,
                visit.value.span,
                f"`{dotted(visit.path)}` must be {wanted}, got {shown(config, visit.value)}: "
                + _consequence(stage, outcomes),
                outcomes,
                help=_instead(visit, key, wanted),
                label=f"expected {wanted}" if len(wanted.words) < 40 else "rejected",
                fix=_as_expected(config, visit, key, wanted),
            )


def _looks_inside(config: Config, stack: Stack, path: KeyPath) -> bool:
    """Whether the Trainer or Accelerate looks up a key of this section before DeepSpeed parses the config.

    Source: ``find_config_node`` in ``accelerate/utils/deepspeed.py``. When Accelerate prepares the run, it only
    reads keys that the config has.
    """
    inside = f"{dotted(path)}."
    if stack == "trainer":
        fills = config.knowledge.trainer["fills"]
        return any(name.startswith(inside) and "trainer" in fills[name]["by"] for name in fills)
    if stack == "deepspeed":
        return False
    known = config.knowledge.table("accelerate", "fills")
    return any(
        name.startswith(inside) and any(source["at"] != "prepare" for source in known[name]["sources"])
        for name in known
    )


@rule("DS202", "stage-as-string", severity="error", effects=("wrong-result", "no-effect"), keys=("zero_optimization",))
def stage_as_string(config: Config) -> Iterator[Problem]:
    """The ZeRO stage is in quotes: DeepSpeed converts it, the Trainer and Accelerate do not."""
    stage = config.node("zero_optimization", "stage")
    key = config.knowledge.root.child("zero_optimization")
    known = key.child("stage") if key else None
    if stage is None or known is None or stage.kind != "string" or stage.value == AUTO:
        return
    if refusal(known.facts, True, stage, stage.kind, stage.value):
        return  # refused-value
    number = int(float(str(stage.value)))
    empty = number == 3 and any(stack != "deepspeed" for stack in config.stacks)
    consequence = (
        "the Trainer and Accelerate do not recognize stage 3 and save empty weights"
        if empty
        else "the Trainer and Accelerate do not recognize the stage"
    )
    yield Problem(
        ("zero_optimization", "stage"),
        stage.span,
        f"`zero_optimization.stage` is the string {shown(config, stage)}: {consequence}",
        {stack: NO_EFFECT if stack == "deepspeed" or not empty else WRONG_RESULT for stack in config.stacks},
        help=f"Write the number: {number}. Only DeepSpeed converts the string, the others compare it with numbers.",
        label="expected a number",
        severity="error" if empty else "warning",
        fix=edits.replacement(config, ("zero_optimization", "stage"), str(number), "safe"),
    )


@rule("DS203", "auto-nobody-fills", severity="error", effects=("rejected", "no-effect", "wrong-result"))
def auto_nobody_fills(config: Config) -> Iterator[Problem]:
    """The value is "auto" at a key that the Trainer or Accelerate does not fill in."""
    for path, member, visit in _autos(config):
        filling = config.filled_by(path)
        outcomes: dict[Stack, Outcome] = {
            stack: rejected("initialize") for stack in config.stacks if stack not in (*filling, "deepspeed")
        }
        plain = ""
        if "deepspeed" in config.stacks and not filling and visit is not None and not _is_a_choice(visit.key):
            outcomes["deepspeed"], plain = _what_deepspeed_does(config, visit)
        if outcomes:
            others = [LOADERS[stack] for stack in ("trainer", "accelerate") if stack in outcomes]
            do = "do not fill it in and raise" if len(others) > 1 else "does not fill it in and raises"
            raises = f"{' and '.join(others)} {do} an error" if others else ""
            yield Problem(
                path,
                member.value.span,
                f'`{dotted(path)}` is "auto": {", ".join(part for part in (raises, plain) if part)}',
                outcomes,
                help='Replace "auto" with a value, or delete the key to use DeepSpeed\'s default.',
                label="not filled in",
                severity="warning" if all(one.effect == "no-effect" for one in outcomes.values()) else None,
                fix=edits.deletion(config, path, "unsafe"),
            )

    yield from _autos_in_comments(config)


def _autos_in_comments(config: Config) -> Iterator[Problem]:
    """Accelerate does not know comments: it raises at an "auto" inside one."""
    outcomes: dict[Stack, Outcome] = {stack: rejected("initialize") for stack in config.stacks if stack != "deepspeed"}
    for visit in config.unknown:
        if outcomes and is_comment(visit.member.key) and not visit.section.strict and holds_auto(visit.value):
            yield Problem(
                visit.path,
                visit.member.key_span,
                f'`{dotted(visit.path)}` contains "auto": '
                "the Trainer and Accelerate raise a ValueError, even in a comment",
                outcomes,
                help='Delete the key, or replace the "auto" in it, which neither fills in.',
                label='contains "auto"',
                fix=edits.deletion(config, visit.path, "unsafe"),
            )


@rule("DS204", "auto-without-trainer", severity="error", effects=("rejected", "no-effect", "wrong-result"))
def auto_without_trainer(config: Config) -> Iterator[Problem]:
    """The value is "auto" in a config that DeepSpeed loads without the Trainer or Accelerate."""
    autos = sorted(_left_autos(config), key=lambda one: (EFFECTS.index(one[2].effect), _order(one[2].stage)))
    if not autos:
        return
    path, member, outcome, plain = autos[0]  # the worst, of equals the earliest in the run, then in the file
    others = [one for one in _autos(config) if one[0] != path and config.filled_by(one[0])]
    more = f"those of {len(others)} other keys" if len(others) > 1 else "that of another key"
    what, them = (f'this "auto" and {more} with values', "them") if others else ('the "auto" with a value', "it")
    yield Problem(
        path,
        member.value.span,
        f'`{dotted(path)}` is "auto" without the Trainer or Accelerate: {plain}',
        outcome,
        help=f"Replace {what}: only the Trainer and Accelerate fill {them} in.",
        label="not filled in",
        severity="warning" if outcome.effect == "no-effect" else None,
        related=[Related(one[1].value.span, "not filled in") for one in others],
        fix=None if others else edits.deletion(config, path, "unsafe"),
    )


def rejects_auto(config: Config, stage: Stage) -> bool:
    """Whether DeepSpeed rejects an "auto" outside of the parameters of constructors by then, which explains others."""
    return any(
        outcome.effect == "rejected" and _order(outcome.stage) <= _order(stage)
        for _, _, outcome, _ in _left_autos(config)
    )


def _order(stage: Stage | None) -> int:
    return STAGES.index(stage) if stage is not None else len(STAGES)


@rule("DS205", "switch-needs-key", severity="error", effects=("rejected",))
def switch_needs_key(config: Config) -> Iterator[Problem]:
    """A feature is enabled without a key that it requires."""
    for visit in config.remarkable:
        if visit.key is None or "needs" not in visit.key.facts or not is_truthy(visit.value):
            continue
        section = config.root.at(visit.path[:-1])
        needs = visit.key.facts["needs"]
        missing = [name for name in needs if section is not None and section.at(tuple(name.split("."))) is None]
        if missing:
            yield Problem(
                visit.path,
                visit.value.span,
                f"`{dotted(visit.path[:-1])}` is enabled without `{missing[0]}`: {_when(visit.key)}",
                rejected(visit.key.facts["stage"]),
                help=f"Add `{missing[0]}`, which is required, or disable the feature.",
                label=f"needs `{missing[0]}`",
            )


@rule("DS206", "section-needs-key", severity="error", effects=("rejected",))
def section_needs_key(config: Config) -> Iterator[Problem]:
    """An optional section lacks a key that it requires."""
    for visit in config.remarkable:
        if visit.key is None or "requires" not in visit.key.facts or visit.value.kind != "object":
            continue
        missing = [name for name in visit.key.facts["requires"] if visit.value.get(name) is None]
        if missing and "removed" not in visit.key.facts:
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"`{dotted(visit.path)}` is set without `{missing[0]}`: {_when(visit.key)}",
                rejected(visit.key.facts["stage"]),
                help=f"Add `{missing[0]}`, which is required, or delete `{dotted(visit.path)}`.",
                label=f"needs `{missing[0]}`",
            )


@rule("DS208", "fraction-for-whole-number", severity="warning", effects=("risk",))
def fraction_for_whole_number(config: Config) -> Iterator[Problem]:
    """A product of a fraction and of a number that does not show, where only a whole number will do.

    Source: ``DeepSpeedConfigModel`` in ``deepspeed/runtime/config_utils.py``; pydantic refuses a float that is
    not a whole number.
    """
    if not config.document.is_python:
        return
    for visit in config.visits:
        key, value = visit.key, visit.value
        if key is None or "removed" in key.facts or not isinstance(value, Fraction) or not is_used(config, key):
            continue
        strict = visit.section.strict
        if refusal(key.facts, strict, value, "float", _WHOLE) or not refusal(
            key.facts, strict, value, "float", _BROKEN
        ):
            continue
        concerned = _stacks_that_use(key, config.stacks)
        if concerned:
            yield Problem(
                visit.path,
                value.span,
                f"`{dotted(visit.path)}` may be a fraction: DeepSpeed {config.knowledge.deepspeed} rejects it, "
                "and the run stops",
                dict.fromkeys(concerned, RISK),
                help="Cut the fraction off with `int(...)`. DeepSpeed takes a float only if it is a whole number.",
                label="a whole number for some values only",
                fix=edits.wrapping(config, visit.path, "int", "safe"),
            )


def is_used(config: Config, key: Key) -> bool:
    """Whether the code that rejects a bad value runs: ``when`` and ``unless`` name the switch it depends on."""
    when, unless = key.facts.get("when"), key.facts.get("unless")
    if when == "16-bit":
        return model_dtype(config) != "fp32"
    if when == "tensor-parallel":
        return tensor_parallel_size(config) > 1
    if when is not None:
        return is_truthy(config.node(*when.split(".")))
    return unless is None or not is_truthy(config.node(*unless.split(".")))


def shown(config: Config, node: Node) -> str:
    """A value as in the file, shortened to one line."""
    if node.span in config.filled:
        return as_json(plain(node))  # it is not in the file
    if node.kind != "template" and config.document.has_stand_in(node.span) and not (node.members or node.items):
        return as_json(node.value)
    text = config.document.text[node.span.start : node.span.end]
    if node.kind == "string" and not text.startswith(('"', "'")):
        text = as_json(node.value)  # hjson needs no quotes, and reads a comma as part of the text
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."


def _autos(config: Config) -> Iterator[tuple[KeyPath, Member, Visit | None]]:
    """Every "auto" at a key that DeepSpeed knows; the visit is None for parameters of a constructor."""
    if AUTO not in config.document.text:
        return
    for visit in config.visits:
        if visit.key is None or "removed" in visit.key.facts:
            continue
        if visit.value.value == AUTO:
            yield visit.path, visit.member, visit
        elif visit.key.facts.get("unknown") == "by-type":
            for member in visit.value.members:
                if member.value.value == AUTO:
                    yield (*visit.path, member.key), member, None


def _left_autos(config: Config) -> Iterator[tuple[KeyPath, Member, Outcome, str]]:
    """What DeepSpeed itself does with each "auto" that the Trainer or Accelerate would fill in."""
    if config.stack == "deepspeed":
        for path, member, visit in _autos(config):
            if visit is not None and config.filled_by(path):
                yield path, member, *_what_deepspeed_does(config, visit)


def _is_a_choice(key: Key | None) -> bool:
    """Whether "auto" is a value of DeepSpeed's own at this key."""
    return key is not None and (AUTO in key.facts.get("one_of", ()) or key.facts.get("default") == AUTO)


def _what_deepspeed_does(config: Config, visit: Visit) -> tuple[Outcome, str]:
    key = visit.key
    assert key is not None  # noqa: S101 - _autos yields known keys only
    if visit.section.strict:
        default = key.facts.get("default")
        used = f"the default {as_json(default)}" if default is not None else "the default"
        return NO_EFFECT, f"DeepSpeed silently drops the key and uses {used}"
    if visit.path[0] == "bfloat16" and bf16_section(config) == "bf16":
        return NO_EFFECT, "DeepSpeed does not read it because `bf16` is set"
    if not is_used(config, key):
        return NO_EFFECT, "DeepSpeed does not read it while its feature is off"
    if visit.path[0] in BATCH_SIZES or refusal(key.facts, False, visit.value, "string", AUTO):
        stage = key.facts.get("stage", "parse")
        return rejected(stage), "DeepSpeed computes with the string and raises"
    if "no_effect" in key.facts or AUTO in key.facts.get("takes", "").split():
        return NO_EFFECT, "DeepSpeed does not use it"
    return WRONG_RESULT, "DeepSpeed uses the string, which counts as true"


def _stacks_that_use(key: Key, stacks: tuple[Stack, ...]) -> tuple[Stack, ...]:
    only = key.facts.get("stacks")
    return tuple(stack for stack in stacks if stack in only) if only else stacks


def _stage_of_refusal(visit: Visit, key: Key, reading: Reading) -> Stage:
    by_pydantic = refused_at_parsing(key.facts, visit.section.strict, visit.value, reading.kind, reading.value)
    stage: Stage = "parse" if by_pydantic else key.facts.get("stage", "parse")
    return stage


def _when(key: Key) -> str:
    return _words_of(key.facts.get("stage", "parse"))


def _consequence(stage: Stage, outcomes: dict[Stack, Outcome]) -> str:
    if all(one.stage == stage for one in outcomes.values()) or "deepspeed" in outcomes:
        return _words_of(stage)
    return f"{' or '.join(LOADERS[stack] for stack in outcomes)} raises an error before DeepSpeed parses the config"


def _words_of(stage: Stage) -> str:
    words = {
        "parse": "DeepSpeed rejects the config",
        "initialize": "deepspeed.initialize raises an error",
        "train": "the first training step raises an error",
    }
    return words[stage]


def _instead(visit: Visit, key: Key, wanted: Expected) -> str:
    value = visit.value
    if value.kind == "null":
        return "Delete the key to use DeepSpeed's default."
    if value.kind == "string" and str(value.value).strip().lower() == AUTO:
        return 'Write "auto" in lower case if the Trainer or Accelerate loads the file, otherwise write the value.'
    if value.kind == "string":
        plain = unquoted(str(value.value), wanted.kinds)
        if plain is not None:
            return f"Write {plain} without quotes."
        choices = key.facts.get("one_of") or [one for one in key.facts.get("enum", ()) if isinstance(one, str)]
        if choices:
            from ds_lint.knowledge import suggestions

            meant = suggestions.choice(str(value.value), choices)
            return f'Write "{meant}".' if meant else f"Write {wanted}."
    if value.kind == "float" and "integer" in wanted.kinds and value.value is not None:
        near = int(value.value) if abs(float(value.value)) < 1e18 else 0
        return f"Write a whole number: {near}." if near else f"Write {wanted}."
    if key.is_section and value.kind == "string" and key.child("device"):
        return f'Write {{"device": "{value.value}"}}.'
    return f"Write {wanted}, or delete the key to use DeepSpeed's default."


def _as_expected(config: Config, visit: Visit, key: Key, wanted: Expected) -> Fix | None:
    """The value that ``_instead`` names; safe if only its spelling changes."""
    value = visit.value
    if value.kind == "null":
        return edits.deletion(config, visit.path, "safe")
    fix = as_wanted(config, visit.path, value, wanted)
    if fix is not None or value.kind != "string":
        return fix
    text = str(value.value)
    if text.strip().lower() == AUTO:
        return edits.set_to_auto(config, visit.path)
    device = key.child("device") if key.is_section else None
    if device is not None and text in device.facts.get("enum", ()):
        return edits.replacement(config, visit.path, as_json({"device": text}), "safe")
    choices = key.facts.get("one_of") or [one for one in key.facts.get("enum", ()) if isinstance(one, str)]
    return nearest(config, visit.path, text, choices)


def as_wanted(config: Config, path: KeyPath, value: Node, wanted: Expected) -> Fix | None:
    """A quoted number or boolean without its quotes, or a whole number if one is expected."""
    if value.kind == "string":
        plain = unquoted(str(value.value), wanted.kinds)
        return edits.replacement(config, path, plain, "safe") if plain else None
    number = float(value.value or 0) if value.kind == "float" else 0.0
    if "integer" not in wanted.kinds or not 1 <= abs(number) < 1e18:
        return None
    return edits.replacement(config, path, str(int(number)), "safe" if number.is_integer() else "unsafe")


def nearest(config: Config, path: KeyPath, text: str, choices: list[str]) -> Fix | None:
    """The closest choice; safe if only case or surrounding spaces differ."""
    from ds_lint.knowledge import suggestions

    meant = suggestions.choice(text, choices)
    if meant is None or meant == text:
        return None
    is_same = meant.lower() == text.strip().lower()
    return edits.replacement(config, path, as_json(meant), "safe" if is_same else "unsafe")


def unquoted(text: str, kinds: Sequence[str]) -> str | None:
    """The JSON number or boolean in a quoted value, if these kinds of values are expected."""
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() if "boolean" in kinds else None
    try:
        number = float(text)
    except ValueError:
        return None
    if not ("integer" in kinds or "float" in kinds) or number - number != 0:
        return None
    if number.is_integer():
        return str(int(number))
    plain = text.strip()
    return plain if plain.removeprefix("-")[:1].isdigit() and "_" not in plain else as_json(number)  # ".5", "+1e-3"
