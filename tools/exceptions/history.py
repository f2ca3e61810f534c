"""What raises in each release of a library: sites with their wording, read from the unpacked sources.

Most modules are the same from one release to the next, so a file is parsed once for each content that it had.
"""

from __future__ import annotations

import ast
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from tools.exceptions.wording import Pieces, Scope, raised_by, wordings
from tools.raises.sites import Conditions, described, raised_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Key(NamedTuple):
    """What is one exception to a reader of logs: its place and its wording, whatever the condition."""

    module: str  # deepspeed/runtime/config.py
    function: str  # DeepSpeedConfig._do_error_check
    raises: str  # ValueError
    message: Pieces | None


class Worded(NamedTuple):
    """A statement that raises, with its wording."""

    key: Key
    when: Conditions
    source: str  # of the message


class Past(NamedTuple):
    """The releases of a library, oldest first, and the sites that each of them has."""

    library: str
    releases: list[str]
    sites: list[set[Worded]]

    @property
    def newest(self) -> set[Worded]:
        """The sites of the newest release."""
        return self.sites[-1]

    def without(self, left_out: set[Worded]) -> Past:
        """The same with some sites left out."""
        return self._replace(sites=[sites - left_out for sites in self.sites])

    def spans(self) -> dict[Key, tuple[str | None, str | None]]:
        """The first release with a site, and the first without it again; None for before the first, and not yet."""
        places: dict[Key, list[int]] = {}
        for place, sites in enumerate(self.sites):
            for key in {site.key for site in sites}:
                places.setdefault(key, []).append(place)
        after = [*self.releases[1:], None]
        return {key: (self.releases[at[0]] if at[0] else None, after[at[-1]]) for key, at in places.items()}


def past(library: str, trees: Sequence[tuple[str, Path]], patterns: Sequence[str]) -> Past:
    """The sites of each release; ``trees`` are releases with their folders, oldest first."""
    known: dict[bytes, set[Worded]] = {}
    found = [{site for one in _modules(tree, library, patterns, known) for site in one} for _, tree in trees]
    return Past(library, [release for release, _ in trees], found)


def _modules(
    tree: Path, library: str, patterns: Sequence[str], known: dict[bytes, set[Worded]]
) -> Iterator[set[Worded]]:
    if not (tree / library).is_dir():
        raise LookupError(f"{tree} does not hold {library}")
    for path in sorted({path for pattern in patterns for path in tree.glob(pattern) if path.suffix == ".py"}):
        module = path.relative_to(tree).as_posix()
        content = path.read_bytes()
        digest = hashlib.sha256(module.encode() + content).digest()
        if digest not in known:
            known[digest] = set(worded(content, module))
        yield known[digest]


def worded(content: bytes, module: str) -> Iterator[Worded]:
    """The sites of one module."""
    parsed = ast.parse(content)
    functions = [node for node in ast.walk(parsed) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for function, when, node in raised_in(parsed.body):
        around = [one for one in functions if one.lineno <= node.lineno <= (one.end_lineno or one.lineno)]
        scope = Scope(parsed, max(around, key=lambda one: one.lineno, default=None), node.lineno)
        conditions, _, source = described(node, when)
        for text in wordings(node, scope):
            yield Worded(Key(module, function, _type(node, scope), text), conditions, source)


def _type(node: ast.Raise | ast.Assert, scope: Scope) -> str:
    """The last part of the name of what is raised; "" where only the run shows it."""
    if isinstance(node, ast.Assert):
        return "AssertionError"
    raised = raised_by(node, scope)
    if raised is None:
        return ""
    name = ast.unparse(raised.func if isinstance(raised, ast.Call) else raised).rpartition(".")[2]
    return name if name.isidentifier() and name[:1].isupper() else ""
