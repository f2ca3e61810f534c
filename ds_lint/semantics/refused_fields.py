"""Fields of a recipe, and arguments of a command line, that a training framework does not take.

LLaMA-Factory and ms-swift parse with HfArgumentParser, which rejects what it does not know; axolotl validates with
pydantic, which drops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.problem import IGNORED, RISK, rejected
from ds_lint.facts.argument_values import FALSE_WORDS, TRUE_WORDS, WANTED, from_word
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.spelling import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ds_lint.diagnostics.finding import Severity
    from ds_lint.diagnostics.problem import Outcome
    from ds_lint.knowledge.framework_fields import FrameworkFields
    from ds_lint.knowledge.records import FrameworkField

_SHORTEST = 3  # letters of a name that may abbreviate an option
_MOST_CHOICES = 12


class RefusedField(NamedTuple):
    """What happens to a field, and what to write instead."""

    message: str
    outcome: Outcome
    severity: Severity
    help: str
    meant: str | None = None  # the field that the name was most likely meant for

    @property
    def label(self) -> str:
        """What to say at the place."""
        return "ignored" if self.outcome is IGNORED else "not converted" if self.outcome is RISK else "rejected"


def unknown_field(
    name: str,
    fields: FrameworkFields,
    command: str = "",
    *,
    shown: str = "",
    set_too: Iterable[str] = (),
    is_flag: bool = False,
) -> RefusedField | None:
    """What happens to a field that the framework does not have; None if it does, or may."""
    parses_flags = (is_flag and shown.startswith("--")) or fields.framework.takes_recipe_as_flags
    lacking = fields.lacking(name, command, is_flag=is_flag)
    if not lacking or (parses_flags and _is_other_form(name, fields, command)):
        return None
    framework = fields.framework.name
    shown = shown or name
    meant = fields.meant(name, command)
    noun = "argument" if is_flag else "field"
    happens = _happens(fields, is_flag=is_flag)
    outcome = IGNORED if fields.framework.ignores_unknown and not is_flag else rejected("initialize")
    severe: Severity = "warning" if outcome is IGNORED else "error"
    instead = _instead(name, meant, set_too, is_flag=is_flag, fields=fields)
    if fields.own is not None:
        message = f"the {framework} of this project has no {noun} `{shown}`: {happens}"
        return RefusedField(message, outcome, severe, instead, meant)
    newest, history = fields.releases[-1], fields.history(name)
    if len(lacking) < len(fields.releases):
        if not fields.is_pinned:
            return None
        if lacking[-1] != newest:
            return _older(shown, lacking, fields, happens, outcome, instead)
        message = f"{framework} {_span(lacking)} has no {noun} `{shown}`: {happens}"
        return RefusedField(message, outcome, "warning", _versions(history) + instead, meant)
    if fields.is_open:
        message = f"no {framework} up to {newest} has {_article(noun)} `{shown}`: {happens}"
        return RefusedField(message, outcome, "warning", _versions(history) + instead, meant)
    message = f"{framework} {_span(lacking)} has no {noun} `{shown}`: {happens}"
    return RefusedField(message, outcome, severe, _versions(history) + instead, meant)


def field_twice(name: str, fields: FrameworkFields) -> RefusedField | None:
    """What happens to a recipe that has a field twice; None if a release in question takes the last."""
    if not fields.is_pinned or fields.own is not None or not fields.refuse_keys_twice:
        return None
    message = f"`{name}` is set twice: {fields.framework.name} {_span(fields.releases)} rejects the recipe"
    return RefusedField(message, rejected("initialize"), "error", "Remove one: OmegaConf raises for a key set twice.")


def pair_behind_recipe(word: str, fields: FrameworkFields) -> RefusedField | None:
    """What happens to ``key=value`` behind a recipe; None if a release in question takes it."""
    if not fields.is_pinned or fields.own is not None or fields.take_pairs:
        return None
    framework = fields.framework
    message = (
        f"{framework.name} {_span(fields.releases)} takes no `{word}` behind a recipe: the training does not start"
    )
    instead = f"Set it in the recipe, or use {framework.name} {framework.pairs_since} or newer."
    return RefusedField(message, rejected("initialize"), "error", instead)


def _older(
    shown: str, lacking: list[str], fields: FrameworkFields, happens: str, outcome: Outcome, instead: str
) -> RefusedField:
    message = f"{fields.framework.name} {_span(lacking)}, which the pin allows, has no `{shown}`: {happens}"
    return RefusedField(message, outcome, "info", f"Raise the lower bound of the pin. {instead}")


def _is_other_form(name: str, fields: FrameworkFields, command: str) -> bool:
    """Whether argparse takes a name that is none of the fields: with dashes, ``--no_...``, or shortened."""
    plain = name.replace("-", "_")
    if plain != name and not fields.lacking(plain, command):
        return True
    if plain.startswith("no_") and not fields.lacking(plain[3:], command):
        return True
    names = {one for release in fields.releases[-1:] for one in fields.names(command)}
    return len(plain) >= _SHORTEST and any(one.startswith(plain) for one in names)


def _happens(fields: FrameworkFields, *, is_flag: bool) -> str:
    if is_flag:
        return "the training does not start"
    return f"{fields.framework.name} ignores it" if fields.framework.ignores_unknown else "it rejects the recipe"


def _instead(name: str, meant: str | None, set_too: Iterable[str], *, is_flag: bool, fields: FrameworkFields) -> str:
    if meant is not None and meant in set_too:
        return f"Remove it: `{meant}` is set, too."
    if meant is not None:
        return f"Did you mean `{meant}`?"
    if is_flag:
        return "Remove it."
    why = "it has no effect" if fields.framework.ignores_unknown else "HfArgumentParser raises for an unknown key"
    return f"Remove `{name}`: {why}."


def _versions(history: Any) -> str:
    """Which releases have the field, as the beginning of a help."""
    if not history.package:
        return ""
    if history.last:
        return f"{history.package} {history.removed_in} removed it. "
    return f"It came with {history.package} {history.first}. " if history.first else ""


def _span(releases: list[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def _article(noun: str) -> str:
    return f"an {noun}" if noun == "argument" else f"a {noun}"


def refused_value(
    name: str, value: Any, fields: FrameworkFields, command: str = "", *, shown: str = "", is_flag: bool = False
) -> RefusedField | None:
    """What happens to a value that a field does not take in any release in question; None if one may."""
    if value is UNKNOWN or fields.own is not None:
        return None
    plain = name.replace("-", "_") if is_flag or fields.framework.takes_recipe_as_flags else name
    found = [fields.facts(plain, release, command) for release in fields.releases]
    wanted = [_wanted(one, value, fields, is_flag=is_flag) for one in found]
    if not all(wanted):
        return None
    shown = shown or name
    want = wanted[-1]
    framework = fields.framework.name
    severe: Severity = "warning" if fields.is_open and not fields.is_pinned else "error"
    given = "nothing" if is_flag and not value else as_json(value[0] if is_flag and len(value) == 1 else value)
    says = f"`{shown}` takes {want}, not {given}"
    if is_flag or not fields.framework.converts_nothing:
        exact = f"{framework} {fields.releases[-1]}" if not fields.is_open and len(fields.releases) == 1 else framework
        what = "the training does not start" if is_flag else f"{exact} rejects the recipe"
        return RefusedField(f"{says}: {what}", rejected("initialize"), severe, f"Write {want}.")
    if found[-1] is not None and found[-1].get("kind") == "bool":
        message = f"`{shown}` is the text {as_json(value)}, which counts as true"
        return RefusedField(message, RISK, "warning", "Write `false` without quotes: a text that is not empty is true.")
    message = f"{says}: {framework} does not convert it"
    return RefusedField(message, RISK, "warning", f"Write {want}. What computes with the text raises.")


def refused_field(name: str, value: Any, fields: FrameworkFields) -> RefusedField | None:
    """Why every release in question rejects a field that it still has; None if one does not."""
    found = [fields.facts(name, release) for release in fields.releases]
    messages = [one.get("refused") if one is not None else None for one in found]
    if not value or value is UNKNOWN or fields.own is not None or not all(messages):
        return None
    framework = fields.framework.name
    severity: Severity = "warning" if fields.is_open else "error"
    message = f"{framework} {_span(fields.releases)} rejects the recipe: {messages[-1]}"
    return RefusedField(message, rejected("initialize"), severity, f"Remove `{name}`.")


def _wanted(facts: FrameworkField | None, value: Any, fields: FrameworkFields, *, is_flag: bool) -> str:
    """What a field takes instead of a value, in words; empty if it takes it, or may."""
    if facts is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - NaN
        return ""
    if is_flag or fields.framework.takes_recipe_as_flags:
        return _wanted_of_flag(facts, value)
    if fields.framework.converts_nothing:
        return _wanted_of_object(facts, value)
    return _wanted_of_model(facts, value)


def _words(facts: FrameworkField) -> str:
    choices = facts.get("choices")
    if choices is not None:
        listed = ", ".join(map(str, choices[:_MOST_CHOICES]))
        return f"one of {listed}" + (", ..." if len(choices) > _MOST_CHOICES else "")
    return WANTED[facts["kind"]]


def _wanted_of_flag(facts: FrameworkField, value: Any) -> str:
    """As argparse converts the words behind a flag."""
    if "kind" not in facts and "choices" not in facts:
        return ""
    words = value if isinstance(value, list) else [value]
    if not facts.get("is_list") and len(words) > 1:
        return "one value"
    if not words:
        return "" if facts.get("kind") == "bool" else _words(facts)
    for word in words:
        if word is UNKNOWN or isinstance(word, list):
            return ""
        if not _is_taken_as_word(str(word), facts):
            return _words(facts)
    return ""


def _is_taken_as_word(word: str, facts: FrameworkField) -> bool:
    choices = facts.get("choices")
    if choices is not None:
        return word in map(str, choices)
    try:
        from_word(word, facts["kind"])
    except ValueError:
        return False
    return True


def _wanted_of_object(facts: FrameworkField, value: Any) -> str:
    """As the code that computes with the value finds it: a text stays a text."""
    if not isinstance(value, str) or facts.get("kind") in (None, "text") or facts.get("is_list"):
        return ""
    if facts["kind"] == "bool":
        return _words(facts) if value.lower() in FALSE_WORDS and value else ""
    return "" if _is_number(value) else _words(facts)


def _wanted_of_model(facts: FrameworkField, value: Any) -> str:
    """As pydantic validates it."""
    if value is None or facts.get("is_list"):
        return ""
    choices = facts.get("choices")
    if choices is not None:
        return _words(facts) if all(isinstance(one, str) for one in choices) and value not in choices else ""
    kind = facts.get("kind")
    if kind is None:
        return ""
    if isinstance(value, (list, dict)):
        return _words(facts)
    if kind == "bool":
        words = (*TRUE_WORDS, *FALSE_WORDS, "on", "off")
        taken = value.lower() in words if isinstance(value, str) else value in (0, 1)
        return "" if taken else _words(facts)
    if isinstance(value, str):
        is_taken = _is_number(value) and (kind != "int" or "e" not in value.lower())  # pydantic takes no 1e3
        return "" if is_taken else _words(facts)
    if kind == "int" and isinstance(value, float) and not value.is_integer():
        return _words(facts)
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return True
