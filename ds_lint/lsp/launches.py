"""The launches and recipes that have to do with the open texts: looked up in their repositories, beside the loop.

What was read of a repository is kept as long as its files are as they were; a text that is open counts instead of its
file.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.files import kind_of
from ds_lint.lsp.documents import HUGE, whole_path
from ds_lint.project.globs import relative
from ds_lint.project.launches import Naming, may_be_script, naming
from ds_lint.session.inputs import stamp
from ds_lint.session.launched import LaunchingProject, Link, as_called, scripts_of
from ds_lint.source.files import MOST_BYTES, Files, bytes_of
from ds_lint.source.languages import YAML
from ds_lint.targets.directories import repository_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from ds_lint.lsp.documents import OpenDocuments
    from ds_lint.lsp.project import Projects
    from ds_lint.session.material import Material
    from ds_lint.session.session import Session

    Stamp = tuple[int, int] | str | bool | None  # time and size, a text that is open, or whether there is a file
    Aside = Callable[[Callable[[], list[Link]]], asyncio.Future[list[Link]]]

_MOST_KEPT = 50_000  # bytes of a file; scripts are shorter


class _KeptFiles(Files):
    """Files as they were read last; ``texts`` are those that are open, by their whole paths.

    ``stamps`` has the state of each file whose content was read, and whether each other one was there.
    """

    __slots__ = ("_data", "stamps", "texts")

    def __init__(self) -> None:
        self.texts: Mapping[str, str] = {}
        self.stamps: dict[str, Stamp] = {}
        self._data: dict[str, tuple[Stamp, bytes]] = {}

    def is_as(self, path: str, known: Stamp) -> bool:
        """Whether a file is as it was."""
        return known == (self._is_there(path) if isinstance(known, bool) else self._stamp(path))

    def bytes_of(self, path: str, most: int = MOST_BYTES) -> bytes:
        """The content of a file. Raises OSError."""
        now = self.stamps[path] = self._stamp(path)
        if isinstance(now, str):
            return now.encode(errors="replace")
        kept = self._data.get(path)
        if kept is not None and kept[0] == now:
            return kept[1]
        data = bytes_of(path, most)
        if len(data) < _MOST_KEPT:
            self._data[path] = now, data
        return data

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        is_there = self._is_there(path)
        self.stamps.setdefault(path, is_there)
        return is_there

    def _stamp(self, path: str) -> Stamp:
        text = self.texts.get(whole_path(path)) if self.texts else None
        return stamp(path) if text is None else text

    def _is_there(self, path: str) -> bool:
        return os.path.isfile(path) or whole_path(path) in self.texts


class _Kept(NamedTuple):
    """The links of a file, and what it and the files that it names were like."""

    stamps: dict[str, Stamp]
    links: list[Link]


class _Repository:
    """The launches of one repository; only the thread beside the loop looks for them."""

    def __init__(self, root: str) -> None:
        self._directory = relative(root, os.curdir)
        self._files = _KeptFiles()
        self._scripts: list[str] = []
        self._kept: dict[str, _Kept] = {}

    def search(self, texts: Mapping[str, str], session: Session | None) -> list[Link]:
        """The links of the scripts that name one of these texts, and of those among them; with a session in all files.

        Without one, only the files are looked at that were there the last time.
        """
        self._files.texts = texts
        if session is not None:
            self._scripts = scripts_of(self._directory, session)
        by = naming(self._scripts, {os.path.basename(path) for path in texts}, self._files)
        known = {whole_path(path) for path in (*by.scripts, *by.yamls)}
        for path, text in texts.items():
            if path in known or not may_be_script(os.path.basename(path)):
                continue
            here = relative(path, os.curdir)
            if kind_of(path, text[:_MOST_KEPT].encode(errors="replace")) is not None:
                by.scripts.append(here)
            elif path.endswith(YAML):
                by.yamls.append(here)
        links = [link for path in by.scripts for link in self._links(path, Naming([path], []))]
        return as_called(links) + [link for path in by.yamls for link in self._links(path, Naming([], [path]))]

    def _links(self, path: str, by: Naming) -> list[Link]:
        kept = self._kept.get(path)
        if kept is None or not all(self._files.is_as(one, known) for one, known in kept.stamps.items()):
            self._files.stamps.clear()
            links = list(LaunchingProject(self._directory, self._files).linked(by))
            kept = self._kept[path] = _Kept(self._files.stamps.copy(), links)
        return kept.links


class OpenLaunches:
    """What the launches of their repositories tell of the open texts.

    ``aside`` does what takes long beside the loop; ``found`` hears of a root whose launches have been looked up, and
    ``failed`` of a bug.
    """

    def __init__(
        self,
        documents: OpenDocuments,
        projects: Projects,
        aside: Aside,
        found: Callable[[str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._documents = documents
        self._projects = projects
        self._aside = aside
        self._found = found
        self._failed = failed
        self._repositories: dict[str, _Repository] = {}
        self._links: dict[str, list[Link]] = {}  # by root
        self._looking: set[str] = set()  # roots
        self._waiting: dict[str, bool] = {}  # roots where something has changed meanwhile; whether files may be new
        self._roots: dict[str, str | None] = {}  # by folder

    def look_up(self, paths: Iterable[str], *, again: bool = False) -> None:
        """Look up the launches of the open texts in the repositories of these paths; ``again`` looks for new files."""
        for root in {root for path in paths if (root := self.root_of(path)) is not None}:
            searches = again or root not in self._repositories
            if root in self._looking:
                self._waiting[root] = searches or self._waiting.get(root, False)
            else:
                self._begin(root, again=searches)

    def root_of(self, path: str) -> str | None:
        """The repository that a text is in."""
        folder = os.path.dirname(path)
        if folder not in self._roots:
            self._roots[folder] = repository_of(path)
        return self._roots[folder]

    def material(self, whole: str) -> list[Material]:
        """The launches and recipes that name the config at a whole path."""
        return [link.material for link in self._links.get(self.root_of(whole) or "", ()) if whole in link.paths]

    def named_beside(self, root: str, paths: set[str]) -> set[str]:
        """The whole paths of what launches name in which these texts take part: as scripts, recipes or settings."""
        return {
            named
            for link in self._links.get(root, ())
            if not paths.isdisjoint({*link.paths, *(whole_path(one.path) for one in link.material.documents)})
            for named in link.paths
            if named not in paths
        }

    def _begin(self, root: str, *, again: bool) -> None:
        repository = self._repositories.setdefault(root, _Repository(root))
        session = self._projects.session(os.path.join(root, "any.json")) if again else None
        texts = {
            opened.whole_path: opened.text
            for opened in self._documents
            if self.root_of(opened.whole_path) == root and len(opened.text) <= HUGE
        }
        self._looking.add(root)
        self._aside(partial(repository.search, texts, session)).add_done_callback(partial(self._done, root))

    def _done(self, root: str, future: asyncio.Future[list[Link]]) -> None:
        self._looking.discard(root)
        error = future.exception()
        if error is not None:
            self._failed(error)
        else:
            self._links[root] = future.result()
            self._found(root)
        if root in self._waiting:
            self._begin(root, again=self._waiting.pop(root))
