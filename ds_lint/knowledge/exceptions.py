"""What an exception of the libraries means: ``schemas/exceptions.json``, looked up by what a traceback shows.

A record is a statement that raises, or what a run with a rejected config raised (``proof``). A text alone is enough
where it has words of its own; a short one, or none, needs the function that a frame names. Texts are compared piece by
piece without regular expressions, because a log can hold anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import tables
from ds_lint.targets.releases import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ds_lint.knowledge.records import ExceptionEntry

Piece = str | None

LONGEST = 20_000  # characters of a message that are read
DEEPEST = 40  # frames that are read, at each end: a recursion has many in between
WRAPPED_WORDS = 3  # of a text that pydantic wraps
OWN_WORDS, OWN_LETTERS = 4, 24  # of a text that can only be that of one exception
LONG_WORDS, LONG_LETTERS = 7, 45  # of one that is believed although the frames are those of other functions
COMPILED_LETTERS = 15  # of a text of compiled code
CUT = 40  # characters, without white space, of a message that ends early

_WORD = re.compile(r"[A-Za-z0-9_]{2,}")
_LETTERS = re.compile(r"[A-Za-z]")
_WRAPPED = ("Value error, ", "Assertion failed, ")  # how pydantic begins what a validator raised
_WRAPPED_TYPES = {"Value error, ": "ValueError", "Assertion failed, ": "AssertionError"}


class ExceptionRecord(NamedTuple):
    """An exception, and what it means: rules that report it before the run, or the reason why none does."""

    library: str  # of the module: deepspeed, transformers, accelerate, torch, json, ...
    module: str  # deepspeed/runtime/config.py; the library alone where compiled code raises: cuda, torch
    function: str  # DeepSpeedConfig._do_error_check; of a run without its class; "" at the top of a module
    raises: str  # ValueError, without its module; "" where only the run shows it
    message: tuple[Piece, ...] | None  # literal pieces, None for what is filled in; None for an exception without text
    since: str | None  # the first release that has it; None: the oldest that was read
    until: str | None  # the first release without it; None: the newest that was read has it
    rules: tuple[str, ...]  # codes
    reason: str | None  # script, model, data, checkpoint, machine, package, launch, numbers, config
    because: str | None  # a sentence about the reason
    through: str | None  # of a run: the innermost frame of a library of the stack, "module:function", if it is another
    keys: tuple[str, ...]  # of a run: the key paths of the findings that the message names
    releases: tuple[str, ...]  # of a run: with which it was seen
    proof: str  # source, run


class _Frames(NamedTuple):
    """The frames of a traceback, innermost first: normalised path and plain function."""

    found: list[tuple[str, str]]

    def place(self, module: str, function: str) -> int | None:
        """How many frames are further in than the function of a module; None where it is not there."""
        for place, (path, name) in enumerate(self.found):
            if name == function and (path == module or path.endswith(f"/{module}")):
                return place
        return None

    def has_function(self, function: str) -> bool:
        return any(name == function for _, name in self.found)


class _Wording(NamedTuple):
    """The pieces of a record's message without white space, and how much they say."""

    pieces: tuple[Piece, ...]
    words: int
    letters: int

    @property
    def is_own(self) -> bool:
        return self.words >= OWN_WORDS and self.letters >= OWN_LETTERS

    @property
    def is_long(self) -> bool:
        return self.words >= LONG_WORDS and self.letters >= LONG_LETTERS


class _Fit(NamedTuple):
    """How well a record fits; a larger one is better."""

    place: int  # 3: the innermost frame, 2: another frame, 1: nothing speaks against it, 0: the frames are others
    is_dated: bool  # the release is one that has it
    is_whole: bool  # the message ends where the record's does
    letters: int
    has_rules: bool


class _Index(NamedTuple):
    """The records with their texts, by a word that few have, one also of the beginning, or by the function."""

    texts: list[tuple[ExceptionRecord, _Wording]]
    by_word: dict[str, list[int]]
    by_function: dict[str, list[int]]


def every() -> list[ExceptionRecord]:
    """All records."""
    return [record for record, _ in _index().texts]


def explained(
    type_name: str,
    message: str,
    frames: Sequence[tuple[str, str]],
    *,
    releases: Mapping[str, str] | None = None,
) -> list[ExceptionRecord]:
    """The records that an exception may be, best first; empty where none is.

    ``frames`` are path and function, outermost first, as many as the log has. Of ``releases``, by library, those
    records come first that the release has.
    """
    name = type_name.rpartition(".")[2]
    text = message[:LONGEST]
    around = _frames(frames)
    fits = _fits(name, text, around, releases or {})
    if name == "ValidationError":
        for inner_type, inner in _wrapped(text):
            fits |= _fits(inner_type, inner, None, releases or {})
    best = max((fit.place for fit in fits.values()), default=0)
    texts = _index().texts
    places = sorted((place for place, fit in fits.items() if fit.place == best), key=lambda place: fits[place])
    return [texts[place][0] for place in reversed(places)]


def _fits(name: str, message: str, frames: _Frames | None, releases: Mapping[str, str]) -> dict[int, _Fit]:
    """The records that fit, by their place in the index; without frames what a validator raised, which has none."""
    index = _index()
    candidates = {place for word in set(_WORD.findall(message)) for place in index.by_word.get(word, ())}
    candidates |= {
        place for _, function in (frames.found if frames else ()) for place in index.by_function.get(function, ())
    }
    plain = "".join(message.split())
    found = {}
    for place in candidates:
        record, text = index.texts[place]
        if record.raises in ("", name) and (fit := _fit(record, text, plain, frames, releases)):
            found[place] = fit
    return found


def _fit(
    record: ExceptionRecord, text: _Wording, message: str, frames: _Frames | None, releases: Mapping[str, str]
) -> _Fit | None:
    is_whole = _matches(text.pieces, message)
    if is_whole is None:
        return None
    place = _place(record, text, frames)
    if place is None or not (is_whole or text.is_own or place == 3):
        return None
    return _Fit(place, _has(record, releases.get(record.library)), is_whole, text.letters, bool(record.rules))


def _place(record: ExceptionRecord, text: _Wording, frames: _Frames | None) -> int | None:
    """What the frames say of a record: see ``_Fit.place``; None where they are needed and do not have it."""
    if frames is None:
        return 3 if record.proof == "source" and text.words >= WRAPPED_WORDS else None
    if not record.module.endswith(".py"):
        return 2 if text.letters >= COMPILED_LETTERS else None  # compiled code has no frames
    function = record.function.rpartition(".")[2] or "<module>"
    if record.through is not None:
        module, _, passed = record.through.partition(":")
        if (at := frames.place(module, passed)) is not None:
            return 3 if frames.place(record.module, function) == 0 else 2
        return 1 if text.is_own and record.raises == "ValidationError" else None
    at = frames.place(record.module, function)
    if at == 0:
        return 3
    if record.proof == "run" or not text.is_own:
        return None
    if at is not None or frames.has_function(function):
        return 2
    return 1 if not frames.found else 0 if text.is_long else None


def _matches(pieces: Sequence[Piece], message: str) -> bool | None:
    """Whether a message has the pieces in their order: up to its end, or as far as it goes; None where it does not."""
    if not pieces:
        return True if not message else None
    at = 0
    for place, piece in enumerate(pieces):
        if piece is None:
            continue
        found = message.find(piece, at) if place else (0 if message.startswith(piece) else -1)
        if found < 0:
            return _cut(piece, message, at, is_first=not place)
        at = found + len(piece)
    last = pieces[-1]
    return last is None or message.endswith(last)


def _cut(piece: str, message: str, at: int, *, is_first: bool) -> bool | None:
    """False where a message ends within a piece, with enough of the text before."""
    if len(message) < CUT or (not is_first and at < CUT):
        return None
    if is_first:
        return False if piece.startswith(message) else None
    rest = message[at:]
    return (
        False
        if any(piece.startswith(rest[place:]) for place in range(max(0, len(rest) - len(piece)), len(rest)))
        else None
    )


def _has(record: ExceptionRecord, release: str | None) -> bool:
    """Whether a release has a record; true where that is not known."""
    numbers = numbers_of(release) if release else None
    if numbers is None:
        return True
    since, until = (numbers_of(one) if one else None for one in (record.since, record.until))
    return (since is None or since <= numbers) and (until is None or numbers < until)


def _wrapped(message: str) -> Iterator[tuple[str, str]]:
    """What validators raised, in the text of pydantic's own exception."""
    for beginning in _WRAPPED:
        for part in message.split(beginning)[1:]:
            yield _WRAPPED_TYPES[beginning], part.partition(" [type=")[0]


def _frames(frames: Sequence[tuple[str, str]]) -> _Frames:
    read = [*frames] if len(frames) <= 2 * DEEPEST else [*frames[:DEEPEST], *frames[-DEEPEST:]]
    return _Frames([(path.replace("\\", "/"), function.rpartition(".")[2]) for path, function in reversed(read)])


def _index() -> _Index:
    """The index, made once."""
    if not _known:
        _known.append(_made())
    return _known[0]


_known: list[_Index] = []


def _made() -> _Index:
    texts = [(record, _text(record.message)) for record in _records()]
    words = [_whole_words(record.message or ()) for record, _ in texts]
    number: dict[str, int] = {}
    for found in words:
        for word in found:
            number[word] = number.get(word, 0) + 1
    by_word: dict[str, list[int]] = {}
    by_function: dict[str, list[int]] = {}
    for place, (record, _) in enumerate(texts):
        for found in filter(None, (words[place], _whole_words(_beginning(record.message or ())))):
            rarest = by_word.setdefault(min(found, key=lambda word: (number[word], word)), [])
            if rarest[-1:] != [place]:
                rarest.append(place)
        if not words[place]:
            by_function.setdefault(record.function.rpartition(".")[2] or "<module>", []).append(place)
    return _Index(texts, by_word, by_function)


def _records() -> Iterator[ExceptionRecord]:
    for module, found in tables.load("exceptions")["modules"].items():
        for entry in found:
            yield _record(module, entry)


def _record(module: str, entry: ExceptionEntry) -> ExceptionRecord:
    message = entry.get("message")
    return ExceptionRecord(
        library=module.partition("/")[0],
        module=module,
        function=entry["function"],
        raises=entry["raises"],
        message=None if message is None else tuple(message),
        since=entry.get("since"),
        until=entry.get("until"),
        rules=tuple(entry.get("rules", ())),
        reason=entry.get("reason"),
        because=entry.get("because"),
        through=entry.get("through"),
        keys=tuple(entry.get("keys", ())),
        releases=tuple(entry.get("releases", ())),
        proof=entry["proof"],
    )


def _text(message: Sequence[Piece] | None) -> _Wording:
    pieces = tuple(None if piece is None else "".join(piece.split()) for piece in message or ())
    literal = " ".join(piece for piece in message or () if piece is not None)
    return _Wording(
        tuple(piece for piece in pieces if piece != ""), len(_WORD.findall(literal)), len(_LETTERS.findall(literal))
    )


def _beginning(message: Sequence[Piece]) -> list[Piece]:
    """The pieces that a message has that ends early."""
    found: list[Piece] = []
    letters = 0
    for piece in message:
        if letters >= CUT:
            break
        found.append(None if piece is None else piece[: 2 * CUT - letters])
        letters += len(piece or "")
    return [*found, None]


def _whole_words(message: Sequence[Piece]) -> set[str]:
    """The words that stand in every such message as they are: not those that something is filled into."""
    found: set[str] = set()
    for place, piece in enumerate(message):
        if piece is not None:
            matches = list(_WORD.finditer(piece))
            found.update(
                match[0]
                for match in matches
                if (match.start() or not place) and (match.end() < len(piece) or place == len(message) - 1)
            )
    return found
