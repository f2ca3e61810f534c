"""The options before the script that the parser of a launcher refuses, as argparse takes words.

``parse_args`` reads options up to the first word that is none, which is the script: all behind it is the script's. An
option that no other begins with is left over, and ends the launcher with status 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ds_lint.launches.word import Word


class RefusedOption(NamedTuple):
    """An option that is refused; ``could_be`` are those that it may be short for, if there are several."""

    name: str
    could_be: tuple[str, ...] = ()


def is_refused(launcher: str, words: Sequence[Word]) -> bool:
    """Whether no release of a launcher takes all of its words."""
    known = tables.load("launchers").get(launcher)
    if known is None or not any(word is not None and word.startswith("-") for word in words):
        return False
    abbreviates = launcher != "accelerate"  # which does so before 0.18 only
    return next(refused_options(words, known["options"], abbreviates=abbreviates), None) is not None


def refused_options(words: Sequence[Word], takes: Mapping[str, str], *, abbreviates: bool) -> Iterator[RefusedOption]:
    """The refused ones among the words of a launcher; ``takes`` has how many words each of its options takes.

    ``abbreviates`` says that the beginning of an option stands for it. Nothing is said of what is behind an unknown
    word, which may be several.
    """
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word is None or not word.startswith("-") or word in ("-", "--"):
            return
        name, sign, _ = word.partition("=")
        if name not in takes:
            if not name.startswith("--"):
                if len(name) > 2 or any(one.startswith(name) for one in takes if not one.startswith("--")):
                    return  # several letters, or a number below 0
                yield RefusedOption(name)
                continue
            longer = sorted(one for one in takes if one.startswith(name)) if abbreviates else []
            if not longer:
                if " " in word:
                    return  # which argparse takes for the script
                yield RefusedOption(name)
                continue
            if len(longer) > 1:
                if len({one.replace("-", "_") for one in longer}) > 1:
                    yield RefusedOption(name, tuple(longer))
                return  # since Python 3.13, two spellings of one option are the same
            name = longer[0]
        if not sign and takes[name] == "1":
            if at < len(words) and (words[at] or "-").startswith("-") and not _is_number(words[at]):
                return
            at += 1
        elif takes[name] not in ("0", "1"):
            return


def _is_number(word: Word) -> bool:
    """Whether argparse takes a word for a number below 0, as no option looks like one."""
    return word is not None and word[1:].replace(".", "", 1).isdigit()
