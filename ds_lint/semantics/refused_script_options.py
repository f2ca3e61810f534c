"""What the words of launches are refused for, with what was most likely meant, for the rules about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.argument_values import WANTED
from ds_lint.facts.training import field_of
from ds_lint.knowledge import tables
from ds_lint.semantics.parser_of_script import options_of, uses_trl
from ds_lint.semantics.refused_words import refused_words
from ds_lint.source.command_text import span_in_command
from ds_lint.source.script_words import ScriptWords
from ds_lint.targets.releases import allowed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.launches.parser_options import CommandLine, ParserOption
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.refused_words import RefusedWord, What
    from ds_lint.source.tree import Span

_OF_TRAINING = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
_KEYWORDS = ("do", "done", "elif", "else", "esac", "fi", "then")
_LIKE = 0.8  # of difflib's ratio: a slip in a name


class RefusedScriptOption(NamedTuple):
    """A refused word of a launch at its place.

    ``message`` says what is wrong, after the name of the option, and ``meant`` is the option to write instead, or "".
    ``is_training`` says that it is a field of TrainingArguments, of this release or another one. ``names_option`` says
    that ``span`` is the option, so that ``meant`` can be written there.
    """

    word: RefusedWord
    launch: ScriptWords
    span: Span
    flag: str
    message: str
    meant: str
    is_training: bool
    is_read: bool


def refused_script_options(config: Config) -> Iterator[RefusedScriptOption]:
    """The words that the launches of a file give their scripts in vain."""
    known: set[tuple[Span, str, str]] = set()  # of launches in a loop
    for issue in config.document.issues:
        if isinstance(issue, ScriptWords):
            for word, options in _refused(issue, config):
                for one in _refusal(word, issue, options, config):
                    if (key := (one.span, one.word.what, one.flag)) not in known and not _may_differ(one, config):
                        known.add(key)
                        yield one


def _may_differ(one: RefusedScriptOption, config: Config) -> bool:
    """Whether a caller of the script, or the shell, may make another word of what is written."""
    text, what = config.document.text, one.word.what
    if what == "stray":
        return one.flag in _KEYWORDS  # behind a backslash too many
    if what == "missing":
        return "$" in text[one.span.start : one.span.end]
    if what == "no-value":  # which the launch may get from "$1"
        return re.match(r"[\s\\]*['\"]?[$`]", text[one.span.end :]) is not None
    return what == "value" and not one.word.text


def _refused(launch: ScriptWords, config: Config) -> list[tuple[RefusedWord, tuple[ParserOption, ...]]]:
    """The words that are refused with every release that the project may use, and the options of the newest."""
    line: CommandLine = launch.command_line
    found: dict[tuple[What, int], tuple[RefusedWord, tuple[ParserOption, ...]]] | None = None
    for release in _releases_of_trl(config) if uses_trl(line) else [""]:
        options = options_of(line, config.knowledge, release)
        if options is None:
            continue
        refused = refused_words(launch.words, line, options, is_whole=launch.is_whole)
        here = {(one.what, one.place): (one, options) for one in refused}
        found = here if found is None else {key: here[key] for key in found if key in here}
        if not found:
            return []
    return list(found.values()) if found else []


def _releases_of_trl(config: Config) -> list[str]:
    """The releases of trl that the project may use: the newest one, if it pins nothing of it or beside it."""
    pin, releases = config.basis.pins.get("trl"), tables.load("trl")["releases"]
    if pin is not None and pin.specifier:
        return allowed(pin.specifier, releases)
    return releases if pin is not None or "transformers" in config.basis.pins else releases[-1:]


def _refusal(
    word: RefusedWord, launch: ScriptWords, options: Sequence[ParserOption], config: Config
) -> Iterator[RefusedScriptOption]:
    line: CommandLine = launch.command_line
    text = config.document.text
    is_unread = line.rest == "unread"
    trains = any(one.library in _OF_TRAINING or one.library.startswith("trl.") for one in line.classes)
    given = launch.words[word.place] if word.place < len(launch.words) else None
    flag = (given or "").partition("=")[0]
    if word.what == "unknown":
        release = _other_release(flag, config) if trains else ""
        meant = _meant(flag, options, launch)
        if is_unread and not release and not meant:
            return  # which another program of the run may read
        yield RefusedScriptOption(
            word, launch, _place(flag, launch, text), flag, release, meant, bool(release), is_read=not is_unread
        )
    elif word.what == "stray":
        if not is_unread:
            yield RefusedScriptOption(
                word, launch, _place(word.text, launch, text), word.text, "", "", is_training=False, is_read=True
            )
    elif word.what == "ambiguous":
        message = f"could be {word.text}"
        yield RefusedScriptOption(
            word, launch, _place(flag, launch, text), flag, message, "", is_training=False, is_read=True
        )
    elif word.option is not None:
        option = word.option
        flag = _flag_before(word, launch)
        own = {field.name for one in line.classes for field in one.fields}
        fields = _fields(trains=trains, config=config)
        is_training = option.name in fields and option.name not in own
        if word.what == "missing":
            span, message = launch.span, f"the launch does not give {option.flags[0]}, which is required"
            flag = option.flags[0]
        elif word.what == "no-value":
            span, message = _place(flag, launch, text), f"{flag} expects {_wanted(option)}, but no value is after it"
        else:
            span = _place_of_value(flag, word.text, launch, text)
            message = f"{flag} expects {_wanted(option)}, got {word.text!r}"
        meant = _nearest(word.text, [str(one) for one in option.choices or ()]) if word.what == "choice" else ""
        yield RefusedScriptOption(word, launch, span, flag, message, meant, is_training, is_read=True)


def _fields(*, trains: bool, config: Config) -> set[str]:
    return set(config.knowledge.table("transformers", "training_arguments")) if trains else set()


def _flag_before(word: RefusedWord, launch: ScriptWords) -> str:
    """The option as it is written, at the word or before it."""
    flags = word.option.flags if word.option is not None else ()
    for index in range(min(word.place, len(launch.words) - 1), -1, -1):
        name = (launch.words[index] or "").partition("=")[0]
        if name in flags or any(name.startswith("--") and flag.startswith(name) for flag in flags):
            return name
    return flags[0] if flags else word.text


def _wanted(option: ParserOption) -> str:
    if option.choices is not None:
        shown = [str(one) for one in option.choices]
        return " or ".join(shown) if len(shown) < 5 else f"{', '.join(shown[:4])} or another of {len(shown)} words"
    if option.kind == "nothing":
        return "a dict, which cannot be written on a command line"
    return WANTED.get(option.kind, "a value")


def _other_release(flag: str, config: Config) -> str:
    """When TrainingArguments lost a field of this name, or gets it; empty if it never has it."""
    name = field_of(flag.lstrip("-").replace("-", "_"))
    store = tables.load("transformers")
    facts = store["training_arguments"].get(name)
    if facts is None or "runs" not in facts or name in config.knowledge.table("transformers", "training_arguments"):
        return ""
    releases: list[str] = store["releases"]
    target, runs = config.knowledge.target["transformers"], facts["runs"]
    if releases.index(target) < releases.index(runs[0]["since"]):
        return f"is new in transformers {runs[0]['since']}"
    before = [one for one in runs if "until" in one and releases.index(one["until"]) < releases.index(target)]
    return f"is removed in transformers {releases[releases.index(before[-1]['until']) + 1]}" if before else ""


def _meant(flag: str, options: Sequence[ParserOption], launch: ScriptWords) -> str:
    """What to write instead of an unknown option: the one that was most likely meant, spelled in the same way."""
    given = {(word or "").partition("=")[0] for word in launch.words}
    names = {one.replace("-", "_"): one for option in options for one in option.flags if one.startswith("--")}
    name = flag.replace("-", "_")
    opposite = name.replace("no_", "", 1)
    if name.startswith("__no_") and opposite in names:
        return f"{names[opposite]} False"
    found = _nearest(name, [one for one in names if names[one] not in given])
    if not found:
        return ""
    spelled = f"--{found[2:]}" if "_" in flag else names[found]
    return spelled if any(spelled in option.flags for option in options) else names[found]


def _nearest(text: str, others: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(text, others, n=1, cutoff=_LIKE)
    return found[0] if found else ""


def _place(word: str, launch: ScriptWords, text: str) -> Span:
    return span_in_command(text, launch.line, re.compile(rf"(?<![\w./-]){re.escape(word)}(?![\w/-]|\.\w)"))


def _place_of_value(flag: str, value: str, launch: ScriptWords, text: str) -> Span:
    """The value behind an option; the option if the text has it as something else."""
    joined = re.compile(rf"{re.escape(flag)}(?:=|[\s\\]+)['\"]?({re.escape(value)})(?![\w.-])")
    return span_in_command(text, launch.line, joined) if joined.search(text) else _place(flag, launch, text)
