"""The records that runs of rejected examples give, as the fidelity tests wrote them down.

A line of such a file is the end of one run: its exception with its frames, the rules that ds-lint names, and the words
of the example. Of the message stays what any such config would get: numbers, and what is quoted from the example, are
left open. A run that ends at a statement whose record has its rule already adds nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tools.exceptions.wording import normal
from tools.extract.releases import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.exceptions.sources import Entry
    from tools.exceptions.wording import Piece

STACK = ("deepspeed/", "transformers/", "accelerate/")
# What pydantic says of each field, and what it adds at the end, which changes from one release of it to the next.
_VALIDATION = re.compile(r"^\d+ validation errors? for (\w+)\n(.*)$", re.DOTALL)
_FIELD = re.compile(r"\[type=(\w+), ")
_WRAPPED = {"Value error, ": "ValueError", "Assertion failed, ": "AssertionError"}  # what a validator raised
_BOUND = re.compile(r"(incompatible function arguments\.).*", re.DOTALL)  # what follows is of the compiled op
_FILLED = re.compile(
    r"""(?P<quote>(?<!\w)['"`])(?P<quoted>[^'"`]*)(?P=quote)"""  # a word in quotes
    r"|(?P<owner>[A-Za-z_][\w.]*)(?=\.\w+\(\))"  # the class of a method
    r"|(?P<path>(?<![\w.])/[\w./-]+)"
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w))"
    r"|(?P<word>\w+)",
    re.IGNORECASE,
)
_WITHOUT_OWNER = re.compile(r"^\.(\w+\(\))")  # before Python 3.10, a TypeError named the method alone
_TYPES = {"str", "int", "float", "bool", "dict", "list", "NoneType"}
_SHORT = 3  # a word of the example with fewer letters is one of the message


def together(stored: Sequence[Entry], shown: Iterable[Entry], known: Sequence[Entry]) -> list[Entry]:
    """The records of runs: what is stored, and what lines that the tests wrote add to it."""
    found = {_place(entry): entry for entry in stored}
    for entry in _merged(list(shown), known):
        before = found.get(_place(entry), entry)
        rules, releases = ([*before[field], *entry[field]] for field in ("rules", "releases"))
        found[_place(entry)] = {
            **before,
            "rules": list(dict.fromkeys(rules)),
            "releases": sorted(set(releases), key=number),
        }
        if before.get("keys") != entry.get("keys"):
            found[_place(entry)].pop("keys", None)  # the message does not tell which
    return [found[name] for name in sorted(found)]


def _place(entry: Entry) -> str:
    """By what records of runs are one."""
    return json.dumps([entry.get(field) for field in ("module", "function", "raises", "message", "through")])


def _merged(lines: Sequence[Entry], known: Sequence[Entry]) -> Iterator[Entry]:
    codes: dict[str, dict[str, float]] = {}
    alone: dict[str, set[str]] = {}  # rules that were the only one in a run
    entries: dict[str, Entry] = {}
    for line in lines:
        for entry in of_line(line, known):
            name = _place(entry)
            entries.setdefault(name, entry)
            weights = codes.setdefault(name, {})
            for code in line["rules"]:
                weights[code] = weights.get(code, 0) + 1 / len(line["rules"])
            alone.setdefault(name, set()).update(line["rules"] if len(line["rules"]) == 1 else ())
            entries[name]["releases"] = list(dict.fromkeys([*entries[name]["releases"], *entry["releases"]]))
            if entry.get("keys") != entries[name].get("keys"):
                entries[name]["keys"] = None  # the message does not tell which
    for name in sorted(entries):
        causes = {code: weight for code, weight in codes[name].items() if code in (alone[name] or codes[name])}
        ranked = sorted(causes, key=lambda code: (-causes[code], code))
        entry = {field: value for field, value in entries[name].items() if value is not None}
        yield entry | {"rules": ranked, "proof": "run"}


def of_line(line: Entry, known: Sequence[Entry]) -> Iterator[Entry]:
    """The records that the end of a run gives; none where it ended at a statement that has the rule."""
    module, function = line["frames"][-1]
    same = [one for one in known if is_at(one, module, function, line)]
    wrapped = [one for one in known if raised_in_validator(one, line)]
    if any(one.get("rules") for one in same) or wrapped:
        return  # ``unexplained`` shows where the rules are others
    through = next((f"{path}:{name}" for path, name in reversed(line["frames"]) if path.startswith(STACK)), None)
    entry: Entry = {
        "module": module,
        "function": function,
        "raises": line["raises"],
        "message": same[0].get("message") if same else shape(line["message"], line["words"]),
        "through": None if module.startswith(STACK) else through,
        "keys": [key for key in line["keys"] if key.rpartition(".")[2] in line["message"]] or None,
        "releases": [line["release"]],
    }
    yield entry
    if (match := _VALIDATION.match(line["message"])) is not None:  # what another release of pydantic says differently
        yield entry | {"message": [None, " validation error", None, f" for {match[1]}", None], "keys": None}


def is_at(record: Entry, module: str, function: str, line: Entry) -> bool:
    """Whether a run ended at the statement of a record of the sources."""
    if record["module"] != module or record["function"].rpartition(".")[2] != function:
        return False
    return record["raises"] in ("", line["raises"]) and fits(record.get("message"), line["message"])


def raised_in_validator(record: Entry, line: Entry) -> bool:
    """Whether pydantic wraps in a message what the statement of a record raised."""
    for beginning, raises in _WRAPPED.items():
        for part in line["message"].split(beginning)[1:]:
            inner = part.partition(" [type=")[0]
            if record["raises"] == raises and record.get("message") and fits(record["message"], inner):
                return True
    return False


def fits(pieces: Sequence[Piece] | None, message: str) -> bool:
    """Whether a message is one that the pieces make."""
    pattern = "".join(".*" if piece is None else re.escape("".join(piece.split())) for piece in pieces or ())
    return re.fullmatch(pattern, "".join(message.split()), re.DOTALL) is not None


def shape(message: str, words: Iterable[str]) -> list[Piece] | None:
    """The pieces of a message of which some words are those of the example."""
    if not message:
        return None
    if (match := _VALIDATION.match(message)) is not None:
        return [None, " validation error", None, f" for {match[1]} ", *_of_field(match[2], set(words))]
    return _left_open(message, set(words))


def _of_field(text: str, words: set[str]) -> list[Piece]:
    """What pydantic says of the first field: its name, a sentence, the kind of mistake; of a section no name."""
    name, rest = ("", text) if text.startswith(" ") else text.partition("\n")[::2]
    sentence, _, _ = rest.strip().partition(" [type=")
    kind = _FIELD.search(rest)
    words_of_it = _left_open(sentence, words | {name}) or []
    ends: list[Piece] = [f" [type={kind[1]}, ", None] if kind else [None]
    return [*([None, " "] if name else []), *words_of_it, *ends]


def _left_open(message: str, words: set[str]) -> list[Piece]:
    text = normal(_BOUND.sub(r"\1", message)).strip()
    found: list[Piece] = []
    place = 0
    for match in _FILLED.finditer(text):
        if match["quote"] is not None:
            start, end = match.span("quoted")
            is_open = True
        elif match["word"] is not None:
            start, end = match.span()
            is_open = match["word"] in _TYPES or (match["word"] in words and len(match["word"]) > _SHORT)
        else:
            start, end = match.span()
            is_open = True
        if is_open and start >= place:
            found += [text[place:start], None]
            place = end
    found.append(text[place:])
    return _joined([piece and _WITHOUT_OWNER.sub(r"\1", piece) for piece in found])


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        if piece != "" and not (piece is None and joined and joined[-1] is None):
            joined.append(piece)
    return joined


def unexplained(lines: Iterable[Entry], known: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Runs that ended at a statement whose record has another rule, or a reason: to be looked at."""
    for line in lines:
        module, function = line["frames"][-1]
        for record in known:
            if is_at(record, module, function, line) and not set(line["rules"]) & set(record.get("rules", ())):
                yield line, record
