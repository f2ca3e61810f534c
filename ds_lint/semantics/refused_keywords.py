"""The keywords of a script's calls that the classes do not take in the target's releases, and what is meant.

Calling a dataclass or a constructor with a keyword that it does not have raises a TypeError.
"""

from __future__ import annotations

from ds_lint.knowledge.called_classes import (
    TRANSFORMERS,
    TRL,
    accepting,
    config_of,
    every_record,
    keywords_of,
    library_of,
    possible_releases,
    releases_of,
)
from ds_lint.record import Record
from ds_lint.source.keyword_call import KeywordCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.called_classes import Keywords
    from ds_lint.knowledge.records import StackFacts
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Span


class RefusedKeyword(Record):
    """A keyword that is refused, at its place.

    ``removed_in`` and ``new_in`` are releases of ``library``. ``meant`` is the keyword to write instead, of the class
    ``belongs_to`` if that is another one; ``instead`` is what the library advises. ``only`` names the releases of trl
    that refuse it, where the newest of the project takes it.
    """

    name: str
    shown: str
    span: Span
    library: str = ""
    removed_in: str = ""
    new_in: str = ""
    meant: str = ""
    is_certain: bool = False
    instead: str = ""
    belongs_to: str = ""
    only: str = ""


def refused_keywords(config: Config) -> Iterator[RefusedKeyword]:
    """The keywords of all calls in a script that raise."""
    calls = [issue for issue in config.document.issues if isinstance(issue, KeywordCall)]
    if not calls:
        return
    config.knowledge.depends_on("transformers", every_record())
    config.knowledge.table("transformers", "training_arguments")
    pin = config.basis.pins.get(TRL)
    possible = possible_releases(None if pin is None else pin.specifier, config.knowledge.target[TRANSFORMERS])
    for call in calls:
        yield from _of_call(call, config, possible)


def _of_call(call: KeywordCall, config: Config, possible: list[str]) -> Iterator[RefusedKeyword]:
    transformers = config.knowledge.target[TRANSFORMERS]
    is_of_trl = any(library_of(root) == TRL for root in call.roots)
    if is_of_trl and not possible:
        return
    known: dict[str, list[Keywords]] = {}
    for release in possible if is_of_trl else [""]:
        found = [keywords_of(root, transformers, release) for root in call.roots]
        has_all = [one for one in found if one is not None]
        if len(has_all) == len(found):
            known[release] = has_all
    if not known:
        return
    newest = next(reversed(known))
    for name, span in call.keywords:
        refusing = [one for one, classes in known.items() if not _takes(name, call, classes)]
        if not refusing:
            continue
        only = ""
        if newest not in refusing:
            only = f"{TRL} {refusing[-1]}" if len(refusing) == 1 else f"{TRL} {refusing[0]} to {refusing[-1]}"
        yield _refusal(name, span, call, known[refusing[-1]], transformers, refusing[-1], only)


def _takes(name: str, call: KeywordCall, classes: list[Keywords]) -> bool:
    return name in call.own or any(name in one.names for one in classes)


def _refusal(
    name: str, span: Span, call: KeywordCall, classes: list[Keywords], transformers: str, of_trl: str, only: str
) -> RefusedKeyword:
    found = RefusedKeyword(name, call.found, span, only=only)
    names = set().union(*(one.names for one in classes)) | call.own
    for root in call.roots:
        library, taking = accepting(root, name, transformers, of_trl)
        if taking:
            found.library = library
            _date(found, taking, transformers if library == TRANSFORMERS else of_trl)
            last = keywords_of(root, *((taking[-1], of_trl) if library == TRANSFORMERS else (transformers, taking[-1])))
            known: StackFacts = last.facts.get(name, {}) if last is not None else {}
            if (new := known.get("replaced_by", "")) in names:
                found.meant, found.is_certain = new, True
            found.instead = known.get("instead", "")
            if found.new_in and last is not None:
                old = (one for one, facts in last.facts.items() if facts.get("replaced_by") == name and one in names)
                found.meant = next(old, "")
                found.is_certain = bool(found.meant)
            break
    if not found.meant and found.instead.strip("`") in names:
        found.meant, found.instead = found.instead.strip("`"), ""
    if not found.meant and not found.new_in:
        _guess(found, call, classes, names, transformers, of_trl)
    if found.meant in {one for one, _ in call.keywords}:
        found.meant = ""
    return found


def _date(found: RefusedKeyword, taking: list[str], target: str) -> None:
    """The release that has removed a keyword, or that has it first."""
    releases = releases_of(found.library)
    place = releases.index(target)
    before = [one for one in taking if releases.index(one) < place]
    if before:
        found.removed_in = releases[releases.index(before[-1]) + 1]
    else:
        found.new_in = taking[0]


def _guess(
    found: RefusedKeyword,
    call: KeywordCall,
    classes: list[Keywords],
    names: set[str],
    transformers: str,
    of_trl: str,
) -> None:
    """A keyword of a trainer's config, or one that is spelled like it."""
    for root, one in zip(call.roots, classes, strict=True):
        config = config_of(root) if one.is_trainer else ""
        arguments = keywords_of(config, transformers, of_trl) if config else None
        if arguments is None:
            continue
        meant = found.name
        if meant not in arguments.names:
            every = [known.facts[meant] for known in _earlier(config, transformers) if meant in known.facts]
            meant = every[0].get("replaced_by", every[0].get("instead", "")).strip("`") if every else ""
        if meant in arguments.names:
            found.meant, found.belongs_to = meant, config.rpartition(".")[2]
            return
    if found.instead:
        return
    from ds_lint.knowledge.suggestions import choice, is_typo  # difflib costs start-up

    meant = choice(found.name, sorted(names)) or ""
    found.meant, found.is_certain = meant, bool(meant) and is_typo(found.name, meant) and not found.removed_in


def _earlier(config: str, transformers: str) -> Iterator[Keywords]:
    """What a config of trl takes in each release, newest first."""
    for release in reversed(releases_of(TRL)) if library_of(config) == TRL else ():
        known = keywords_of(config, transformers, release)
        if known is not None:
            yield known
