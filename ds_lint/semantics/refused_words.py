"""The words of a command line that the parser of a script refuses, or reads nothing of.

argparse itself takes the words, with the options of the script's parser and converters that note what they refuse.
"""

from __future__ import annotations

import re
from argparse import ArgumentError, ArgumentParser
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ds_lint.facts.argument_values import from_word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ds_lint.launches.parser_options import CommandLine, ParserOption

    What = Literal["unknown", "stray", "ambiguous", "value", "choice", "no-value", "missing"]

_NEGATIVE = re.compile(r"-\d")  # which Python's releases read differently: -1e-5
_PLAIN_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
_ANYTHING = (None, "...", "…")  # what is unknown, or left for the reader to write
_MISSING = object()


class RefusedWord(NamedTuple):
    """A word that is refused: ``place`` is where it is among the words, and of an option without a value that of it.

    ``option`` is the one that is meant, None for an unknown one. ``text`` is the word, or the value that is refused.
    """

    what: What
    place: int
    text: str
    option: ParserOption | None = None


class _Word(str):
    """A word that knows its place; ``is_known`` is false for one that stands for any value."""

    __slots__ = ("is_known", "place")
    place: int
    is_known: bool


class _StoppedError(Exception):
    """What argparse says before it exits."""


class _Parser(ArgumentParser):
    def error(self, message: str) -> Any:
        raise _StoppedError(message)


@lru_cache(maxsize=256)
def refused_words(
    words: tuple[str | None, ...], line: CommandLine, options: tuple[ParserOption, ...], *, is_whole: bool
) -> list[RefusedWord]:
    """The words that are refused, in their order; ``is_whole`` says that the launch gives no others."""
    given = _words(words)
    if line.kind == "fire":
        return _by_fire(given, options)
    if any(word in ("-h", "--help") for word in given):
        return []
    if line.kind == "TrlParser" and "--config" in given:
        place = [*map(str, given)].index("--config")  # the file has other arguments
        given, is_whole = [*given[:place], *given[place + 2 :]], False
    found: list[RefusedWord] = []
    given = _without_abbreviations(given, options, found, abbreviates=line.abbreviates)
    reader = _WordReader(options, line)
    while (lacking := reader.read(given)) is not None:
        found.append(lacking)
        given = [word for word in given if word.place != lacking.place]
    found += reader.refused
    if reader.is_stopped:  # for a reason that is not understood
        return sorted(found, key=lambda one: one.place)
    found += _left(reader.rest, counts_values=is_whole and None not in words and not line.has_places)
    if is_whole and line.requires_all and None not in words:
        given_in_vain = {one.option.name for one in found if one.option is not None}
        found += [one for one in reader.missing(len(words)) if one.option and one.option.name not in given_in_vain]
    return sorted(found, key=lambda one: one.place)


def _words(words: Sequence[str | None]) -> list[_Word]:
    found: list[_Word] = []
    for index, word in enumerate(words):
        is_uncertain = word in _ANYTHING or bool(_NEGATIVE.match(word or "") and not _PLAIN_NEGATIVE.match(word or ""))
        made = _Word("\0" if is_uncertain or word is None else word)
        made.place, made.is_known = index, not is_uncertain
        found.append(made)
    return found


def _without_abbreviations(
    words: list[_Word], options: Sequence[ParserOption], found: list[RefusedWord], *, abbreviates: bool
) -> list[_Word]:
    """The words with whole names for abbreviations.

    Whether two spellings of one option make an abbreviation ambiguous depends on the release of Python.
    """
    flags = {flag: option for option in options for flag in option.flags}
    result: list[_Word] = []
    is_skipping = False  # the values of an ambiguous one
    for word in words:
        if is_skipping and not word.startswith("-"):
            continue
        is_skipping = False
        name, sign, value = word.partition("=")
        if not abbreviates or not name.startswith("--") or name == "--" or name in flags or word in flags:
            result.append(word)
            continue
        longer = [flag for flag in flags if flag.startswith(name)]
        names = sorted({flags[flag].flags[0] for flag in longer})
        if len(names) > 1:
            is_skipping = not sign
            found.append(RefusedWord("ambiguous", word.place, ", ".join(names[:3])))
            continue
        made = _Word(f"{longer[0]}{sign}{value}" if longer else word)
        made.place, made.is_known = word.place, word.is_known
        result.append(made)
    return result


class _WordReader:
    """argparse with the options of a script."""

    def __init__(self, options: Sequence[ParserOption], line: CommandLine) -> None:
        self.options = options
        self.refused: list[RefusedWord] = []
        self.rest: list[_Word] = []
        self.is_stopped = False
        self._values: dict[str, Any] = {}
        self._parser = parser = _Parser(
            add_help=False, allow_abbrev=line.abbreviates, conflict_handler="resolve", exit_on_error=False
        )
        for number, option in enumerate(options):
            given: dict[str, Any] = {"default": _MISSING}
            if option.flags:
                given["dest"] = _name(number)
            if option.takes == "0":
                given["action"] = "store_true"
            else:
                given["type"] = self._converter(option)
                given["nargs"] = int(option.takes) if option.takes.isdigit() and option.takes != "1" else None
                if option.takes in ("?", "+", "*"):
                    given["nargs"] = option.takes
                if option.takes == "?" and option.flags:
                    given["const"] = True
            if not option.flags:  # a value by its place: how many there are is not counted
                given["nargs"] = "*" if option.takes in ("*", "+") else "?"
            parser.add_argument(*(option.flags or (_name(number),)), **given)

    def read(self, words: list[_Word]) -> RefusedWord | None:
        """Take the words; returns the option that has no value, with which nothing is taken."""
        self.refused.clear()
        self._words = words
        try:
            namespace, rest = self._parser.parse_known_args(list(words))
        except (ArgumentError, _StoppedError) as error:
            lacking = self._lacking(error) if isinstance(error, ArgumentError) else None
            self.is_stopped = lacking is None
            return lacking
        self._values = vars(namespace)
        self.rest = [one for one in rest if isinstance(one, _Word)]
        return None

    def missing(self, index: int) -> list[RefusedWord]:
        """The required options that are not given."""
        return [
            RefusedWord("missing", index, option.flags[0], option)
            for number, option in enumerate(self.options)
            if option.flags and option.is_required and self._values.get(_name(number), _MISSING) is _MISSING
        ]

    def _lacking(self, error: ArgumentError) -> RefusedWord | None:
        """The word that an error is about, if that is an option without its values."""
        flags = (error.argument_name or "").split("/")
        option = next((one for one in self.options if one.flags and set(flags) & {*one.flags}), None)
        if option is None:
            return None
        for place, word in enumerate(self._words):
            name, sign, value = word.partition("=")
            if sign and name in option.flags and option.takes == "0":
                return RefusedWord("value", word.place, value, option)
            if name in option.flags and self._lacks_value(option, place, is_joined=bool(sign)):
                return RefusedWord("no-value", word.place, name, option)
        return None

    def _lacks_value(self, option: ParserOption, place: int, *, is_joined: bool) -> bool:
        """Whether an option at a place has fewer values than it takes."""
        least = int(option.takes) if option.takes.isdigit() else 1 if option.takes == "+" else 0
        behind = 0
        for word in self._words[place + 1 :]:
            if word.startswith("-") and len(word) > 1 and not _PLAIN_NEGATIVE.match(word):
                break
            behind += 1
        return (1 if is_joined else behind) < least

    def _converter(self, option: ParserOption) -> Callable[[str], Any]:
        def convert(text: str) -> Any:
            if isinstance(text, _Word) and not text.is_known:
                return text
            value, what = _converted(text, option)
            if what is not None:
                self.refused.append(RefusedWord(what, self._place(text, option), str(text), option))
            return value

        return convert

    def _place(self, text: str, option: ParserOption) -> int:
        if isinstance(text, _Word):
            return text.place
        joined = {f"{flag}={text}" for flag in option.flags}
        return next((word.place for word in self._words if word in joined or word.endswith(f"={text}")), 0)


def _name(number: int) -> str:
    return f"option{number}"


def _converted(text: str, option: ParserOption) -> tuple[Any, What | None]:
    """What becomes of a value, and what is wrong with it."""
    if option.kind == "any":
        return text, None
    if option.kind == "nothing":
        return text, "value" if text else None
    try:
        value = from_word(str(text), option.kind)
    except ValueError:
        return text, "value"
    if option.choices is not None and value not in option.choices:
        return value, "choice"
    return value, None


def _left(rest: list[_Word], *, counts_values: bool) -> list[RefusedWord]:
    """Words that no option takes; values behind an unknown option are of it."""
    found: list[RefusedWord] = []
    last: int | None = None  # of what belongs to an unknown option
    for word in rest:
        if word.startswith("-") and len(word) > 1 and not _PLAIN_NEGATIVE.match(word) and word != "--":
            found.append(RefusedWord("unknown", word.place, str(word)))
            last = word.place
        elif last is not None and word.place == last + 1:
            last = word.place
        elif counts_values and word.is_known and word != "--":
            found.append(RefusedWord("stray", word.place, str(word)))
            last = word.place
    return found


def _by_fire(words: list[_Word], options: Sequence[ParserOption]) -> list[RefusedWord]:
    """What ``fire.Fire`` cannot consume: an option that is not a parameter of the function.

    Source: ``_ParseKeywordArgs`` in fire/core.py, which takes ``--no`` before a parameter and its first letter, too.
    """
    names = {option.name for option in options} | {"help"}
    if any(word in ("-", "--") for word in words):
        return []  # which separate what comes next
    found: list[RefusedWord] = []
    for word in words:
        name = word.partition("=")[0].lstrip("-").replace("-", "_")
        if word.startswith("--") and len(name) > 1 and name not in names and name.removeprefix("no") not in names:
            found.append(RefusedWord("unknown", word.place, str(word)))
    return found
