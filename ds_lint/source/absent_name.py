"""The name of a file that a launch, a script or another config names, and that is not in the project."""

from __future__ import annotations

import re

from ds_lint.source.document import ABSENT, Document, SyntaxIssue
from ds_lint.source.keyword_call import KeywordCall
from ds_lint.source.languages import language_of
from ds_lint.source.launcher_words import LauncherWords
from ds_lint.source.script_words import ScriptWords
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from ds_lint.source.notebook_cells import Notebook

    # What the file is for: a DeepSpeed config, the script to start, the YAML of ``accelerate launch``, a recipe of a
    # training framework, or the hosts.
    Role = Literal["config", "script", "accelerate", "recipe", "hostfile"]


class AbsentName(SyntaxIssue):
    """``found`` is the name, ``taker`` the program that opens the file, ``nearest`` a name that may be meant, or ""."""

    __slots__ = ("nearest", "role", "taker")

    def __init__(self, span: Span, name: str, role: Role, taker: str, nearest: str) -> None:
        super().__init__(ABSENT, span, name)
        self.role: Role = role
        self.taker = taker
        self.nearest = nearest


def pattern_of(name: str) -> re.Pattern[str]:
    """What finds a name in a text, and not as a part of another one."""
    return re.compile(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)")


def again(document: Document, text: str) -> Document:
    """The same names, words and calls in a changed text of a file, not a notebook, without what is no longer in it."""
    names: list[SyntaxIssue] = []
    position = 0
    for issue in document.issues:
        if isinstance(issue, AbsentName):
            found = pattern_of(issue.found).search(text, position)
            if found is not None:
                position = found.end()
                names.append(AbsentName(Span(*found.span()), issue.found, issue.role, issue.taker, issue.nearest))
        elif isinstance(issue, (KeywordCall, ScriptWords, LauncherWords)):
            names.append(issue.within(document.text, text))
    return document_of(document.path, text, names)


def joined(documents: Sequence[Document]) -> list[Document]:
    """One document of each file, with all that is wrong in it."""
    found: dict[str, Document] = {}
    for one in documents:
        before = found.get(one.path)
        issues = one.issues if before is None else [*before.issues, *one.issues]
        found[one.path] = document_of(one.path, one.text, issues, one.notebook)
    return list(found.values())


def document_of(path: str, text: str, names: Sequence[SyntaxIssue], notebook: Notebook | None = None) -> Document:
    """The file that has the names, as a document without a config."""
    document = Document(path, text, None, [*sorted(names, key=lambda one: one.span.start)])
    document.language = language_of(path)
    document.notebook = notebook
    document.comments = []
    if "ds-lint:" in text:
        from ds_lint.source.script_comments import comments_of_script  # few files have one

        document.comments = list(comments_of_script(document))
    return document
