"""What the newest releases do: whether a defect that the store has open is fixed there, or another one is back.

The claims are run, and the patterns found, with the newest release of each library on the package index. Each
disagreement is a line for a person, who corrects the range or the pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.releases_of.environments import installed_release
from tools.releases_of.outcomes import is_right
from tools.releases_of.patterns import find, key
from tools.releases_of.question import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tools.releases_of.records import Advisory
    from tools.releases_of.trees import Trees


def disagreements(
    advisories: Sequence[Advisory],
    newest: Mapping[str, str],
    trees: Trees,
    claims: Path,
    progress: Callable[[str], None],
) -> Iterator[str]:
    """A line for each record whose stored range does not fit the newest releases."""
    yield from _of_sources(advisories, newest, trees)
    for advisory in advisories:
        proof = advisory.proof(claims)
        if proof is None or proof.question.library not in newest:
            continue
        library = proof.question.library
        release = newest[library]
        outcome = ask(proof.question, release, trees)
        progress(f"{advisory.id}: {library} {release}: {outcome.text}")
        start = f"{advisory.id}: {library} {release}: {proof.question.claim.stem}"
        if not outcome.is_answer:
            yield f"{start} cannot be run: {outcome.text}"
            continue
        is_stored = advisory.affects(_releases(advisory, {**proof.question.beside, library: release}))
        if is_stored == is_right(outcome.text, proof.right):
            state = "affected" if is_stored else "not affected"
            yield f"{start} gives {outcome.text} (right: {proof.right}), but the store has it as {state}"


def _of_sources(advisories: Sequence[Advisory], newest: Mapping[str, str], trees: Trees) -> Iterator[str]:
    found = find(advisories, {library: [release] for library, release in newest.items()}, trees)
    for advisory in advisories:
        for library in advisory.libraries.keys() & found.keys():
            release = newest[library]
            patterns = [one["pattern"] for one in advisory.libraries[library] if one.get("pattern")]
            if not patterns:
                continue
            is_found = any(release in found[library].affected[key(pattern)] for pattern in patterns)
            is_stored = any(part.has(release) for part in advisory.stretches(library))
            if is_found != is_stored:
                words = ("has its pattern", "not affected") if is_found else ("does not have its pattern", "affected")
                yield f"{advisory.id}: {library} {release} {words[0]}, but the store has it as {words[1]}"


def _releases(advisory: Advisory, given: Mapping[str, str]) -> dict[str, str]:
    """The release of each library of a record in the run: those that were given, or what is installed."""
    found = {library: given.get(library) or installed_release(library) for library in advisory.libraries}
    return {library: release for library, release in found.items() if release is not None}
