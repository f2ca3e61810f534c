"""What the words of launches are refused for, with what was most likely meant, for the rules about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.argument_values import WANTED
from ds_lint.facts.training import field_of
from ds_lint.knowledge import tables
from ds_lint.semantics.parser_of_script import options_of
from ds_lint.semantics.refused_words import refused_words
from ds_lint.source.command_text import span_in_command
from ds_lint.source.launched_words import LaunchedWords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.parser_options import CommandLine, ParserOption
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.refused_words import RefusedWord
    from ds_lint.source.tree import Span

_OF_TRAINING = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
_LIKE = 0.8  # of difflib's ratio: a slip in a name


class LaunchedRefusal(NamedTuple):
    """A refused word of a launch at its place.

    ``message`` says what is wrong, after the name of the option, and ``meant`` is the option to write instead, or "".
    ``is_training`` says that it is a field of TrainingArguments, of this release or another one. ``names_option`` says
    that ``span`` is the option, so that ``meant`` can be written there.
    """

    word: RefusedWord
    launch: LaunchedWords
    span: Span
    flag: str
    message: str
    meant: str
    is_training: bool
    is_read: bool


def launched_refusals(config: Config) -> Iterator[LaunchedRefusal]:
    """The words that the launches of a file give their scripts in vain."""
    for issue in config.document.issues:
        if isinstance(issue, LaunchedWords):
            line: CommandLine = issue.command_line
            options = options_of(line, config.knowledge)
            for word in refused_words(issue.words, line, options, is_whole=issue.is_whole) if options else ():
                yield from _refusal(word, issue, options or [], config)


def _refusal(
    word: RefusedWord, launch: LaunchedWords, options: list[ParserOption], config: Config
) -> Iterator[LaunchedRefusal]:
    line: CommandLine = launch.command_line
    text = config.document.text
    is_unread = line.rest == "unread"
    trains = any(one.library in _OF_TRAINING for one in line.classes)
    given = launch.words[word.place] if word.place < len(launch.words) else None
    flag = (given or "").partition("=")[0]
    if word.what == "unknown":
        release = _other_release(flag, config) if trains else ""
        meant = _meant(flag, options, launch)
        if is_unread and not release and not meant:
            return  # which another program of the run may read
        yield LaunchedRefusal(
            word, launch, _place(flag, launch, text), flag, release, meant, bool(release), is_read=not is_unread
        )
    elif word.what == "stray":
        if not is_unread:
            yield LaunchedRefusal(
                word, launch, _place(word.text, launch, text), word.text, "", "", is_training=False, is_read=True
            )
    elif word.what == "ambiguous":
        message = f"could be {word.text}"
        yield LaunchedRefusal(
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
        yield LaunchedRefusal(word, launch, span, flag, message, meant, is_training, is_read=True)


def _fields(*, trains: bool, config: Config) -> set[str]:
    return set(config.knowledge.table("transformers", "training_arguments")) if trains else set()


def _flag_before(word: RefusedWord, launch: LaunchedWords) -> str:
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


def _meant(flag: str, options: list[ParserOption], launch: LaunchedWords) -> str:
    """The option that was most likely meant."""
    given = {(word or "").partition("=")[0] for word in launch.words}
    names = [one for option in options for one in option.flags if one.startswith("--") and one not in given]
    found = _nearest(flag.replace("-", "_"), [one.replace("-", "_") for one in names])
    if not found:
        return ""
    return next(one for one in names if one.replace("-", "_") == found)


def _nearest(text: str, others: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(text, others, n=1, cutoff=_LIKE)
    return found[0] if found else ""


def _place(word: str, launch: LaunchedWords, text: str) -> Span:
    return span_in_command(text, launch.line, re.compile(rf"(?<![\w./-]){re.escape(word)}(?![\w/-]|\.\w)"))


def _place_of_value(flag: str, value: str, launch: LaunchedWords, text: str) -> Span:
    """The value behind an option; the option if the text has it as something else."""
    joined = re.compile(rf"{re.escape(flag)}(?:=|[\s\\]+)['\"]?({re.escape(value)})(?![\w.-])")
    return span_in_command(text, launch.line, joined) if joined.search(text) else _place(flag, launch, text)
