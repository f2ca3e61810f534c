"""The options of a launcher, as argparse takes them from its words."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from ds_lint.knowledge import tables
from ds_lint.launches.word import LooseWord
from ds_lint.source.counts import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ds_lint.launches.word import Argument, UnknownWord, Word

CONFIG_FLAGS = ("deepspeed", "deepspeed_config", "ds_config", "ds_config_path", "deepspeed_config_path")
MODEL_FLAGS = ("model_name_or_path", "model_name", "model_path", "model", "base_model")


class Parsed(NamedTuple):
    """A launcher's own options without dashes before them, and the words behind: the program and its flags.

    ``loose`` is what the unknown words before the program depend on that may be more options.
    """

    options: dict[str, Word]
    rest: list[Word]
    loose: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether no other options are given."""
        return not self.loose

    def number(self, *names: str) -> int | None:
        """The number above 0 that the first of these options gives."""
        return count(next((self.options[name] for name in names if name in self.options), None)) or None

    def option(self, name: str) -> Word:
        """The value of an option; None if it is not given, or not known."""
        return self.options.get(name)

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in self.options for name in names)


@cache
def _takes(launcher: str) -> dict[str, str]:
    """How many words each option takes, from ``schemas/launchers.json``: one, if that does not have it."""
    known = tables.load("launchers").get(launcher)
    return known["options"] if known is not None else {}


def parsed(launcher: str, words: list[Word], unknown: Sequence[UnknownWord | None] = ()) -> Parsed:
    """The options before the program. A word that is not known may be options, and is passed over.

    ``unknown`` tells more of the words that are not known, at the same places.
    """
    takes = _takes(launcher)
    options: dict[str, Word] = {}
    left, loose = list(words), list[str]()
    details = [*unknown, *[None] * (len(words) - len(unknown))]
    while left and (left[0] is None or left[0].startswith("-")):
        detail = details[len(words) - len(left)]
        if left[0] is None and detail is not None and (detail.is_path or not detail.holds_options):
            break
        if left[0] is None and _begins_flags(left[1:], takes):
            break
        word = left.pop(0)
        if word is None:
            loose += detail.names if detail is not None else ("a word",)
            continue
        if word == "--":
            break
        name, sign, value = word.partition("=")
        known = _full_name(name, takes)
        key = known.lstrip("-").replace("-", "_")
        if sign:
            options[key] = value
        elif takes.get(known) == "0" or (known not in takes and left and is_flag(left[0] or "")):
            options[key] = ""
        else:
            options[key] = left.pop(0) if left else None
    return Parsed(options, left, tuple(loose))


def _begins_flags(words: list[Word], takes: dict[str, str]) -> bool:
    """Whether words begin with a flag that is none of the launcher: the program stands before them."""
    first = words[0] if words else None
    return first is not None and is_flag(first) and _full_name(first.partition("=")[0], takes) not in takes


def _full_name(name: str, takes: dict[str, str]) -> str:
    """An option that is abbreviated, as argparse allows it."""
    if name in takes or not name.startswith("--"):
        return name
    longer = {one for one in takes if one.startswith(name)}
    return longer.pop() if len(longer) == 1 else name


def arguments(words: list[Word]) -> dict[str, Argument]:
    """The flags of a program: a bare flag is true, several values are a list."""
    found: dict[str, Argument] = {}
    name: str | None = None
    for word in words:
        if word is not None and is_flag(word):
            name, sign, value = word.partition("=")
            name = name.lstrip("-").replace("-", "_")
            _add(found, name, value if sign else True)
            name = None if sign else name
        elif name is not None:
            _add(found, name, word)
    return found


def is_flag(word: str) -> bool:
    """Whether a word is the name of a flag, and not a negative number."""
    return word.startswith("-") and len(word.lstrip("-")) > 0 and not word[1].isdigit() and word[1] != "."


def _add(found: dict[str, Argument], name: str, value: Literal[True] | Word) -> None:
    before = found.get(name)
    if name not in found or before is True:
        found[name] = value
    elif value is True:
        return
    elif isinstance(before, list):
        before.append(value)
    else:
        found[name] = [before if isinstance(before, str) else None, value]


class SortedFlags(NamedTuple):
    """The words of a program without those that belong to no option, and the unknown ones that may be options."""

    words: list[Word]
    loose: tuple[LooseWord, ...]


def sorted_flags(words: Sequence[Word], unknown: Sequence[UnknownWord | None]) -> SortedFlags:
    """Which of the unknown words are values of options, and which may be options themselves.

    As argparse takes words: an option that takes one value has it, and what stands behind is none of its own.
    """
    if None not in words:
        return SortedFlags(list(words), ())
    takes = common_options()
    kept: list[Word] = []
    loose: list[LooseWord] = []
    name: str | None = None  # of the option that may take the next word
    arity, values, is_cut = "0", 0, False
    for word, detail in zip(words, unknown, strict=True):
        if word is not None and is_flag(word):
            name, sign, _ = word.partition("=")
            name = name.lstrip("-").replace("-", "_")
            arity, values, is_cut = ("0" if sign else takes.get(name, "any")), 0, False
            kept.append(word)
            continue
        if word is not None:
            if not is_cut:
                kept.append(word)
                values += 1
                arity = "0" if arity in ("1", "?") else arity
            continue
        assert detail is not None  # noqa: S101 - what tells of an unknown word
        is_sole = arity in ("1", "+") and values == 0
        if detail.is_value or is_sole or arity in ("?", "+", "any"):
            kept.append(None)
        if detail.sets is not None and not detail.is_value and not is_sole:
            loose.append(LooseWord(detail.names, None, detail.sets))
        elif (not detail.is_value and not is_sole and detail.holds_options) or detail.may_be_several:
            loose.append(LooseWord(detail.names, name if arity == "any" and values == 0 else None))
        is_cut = arity == "0" and not detail.is_value
        values += 1
        arity = "0" if detail.is_value or arity in ("1", "?") else arity
    return SortedFlags(kept, tuple(loose))


@cache
def common_options() -> Mapping[str, str]:
    """How many values the options take that scripts have from transformers, and those that name config and model.

    As HfArgumentParser adds the fields of TrainingArguments: one that is true or false may stand alone, lists have one
    value or more, everything else one (``_parse_dataclass_field`` in ``transformers/hf_argparser.py``).
    """
    fields = tables.load("transformers")["training_arguments"]
    found = {name: _taken(facts.get("runs", [facts])[-1]["type"]) for name, facts in fields.items()}
    found.update({f"no_{name}": "0" for name, taken in found.items() if taken == "?"})
    return {**dict.fromkeys((*CONFIG_FLAGS, *MODEL_FLAGS), "1"), **found}


def _taken(declared: str) -> str:
    if "list" in declared.lower():
        return "+"
    return "?" if declared.removeprefix("Optional[").partition(" ")[0].rstrip("]") == "bool" else "1"
