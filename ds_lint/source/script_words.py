"""The words that a launch gives a script of which the parser is known."""

from __future__ import annotations

import re

from ds_lint.source.document import WORDS, SyntaxIssue
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ScriptWords(SyntaxIssue):
    """``words`` are those behind the script, None for unknown ones; ``is_whole`` says that there are no others.

    ``line`` is where the launch begins, ``script`` the program that it starts, and ``command_line`` how that reads its
    words (``CommandLine`` of ``ds_lint/launches/parser_options.py``).
    """

    __slots__ = ("command_line", "is_whole", "line", "script", "words")

    def __init__(
        self, span: Span, script: str, line: int, words: tuple[str | None, ...], command_line: Any, *, is_whole: bool
    ) -> None:
        super().__init__(WORDS, span, script)
        self.script = script
        self.line = line
        self.words = words
        self.command_line = command_line
        self.is_whole = is_whole

    def within(self, before: str, after: str) -> ScriptWords:
        """The same launch in a changed text: a word that is no longer in it is unknown."""
        words = tuple(word if word is None or _is_kept(word, before, after) else None for word in self.words)
        span = Span(min(self.span.start, len(after)), min(self.span.end, len(after)))
        return ScriptWords(
            span, self.script, self.line, words, self.command_line, is_whole=self.is_whole and words == self.words
        )

    @property
    def says(self) -> object:
        """What makes two launches the same."""
        return self.script, self.words, self.is_whole


def _is_kept(word: str, before: str, after: str) -> bool:
    """Whether a word is in a changed text as it was before."""
    pattern = re.compile(rf"(?<![\w./-]){re.escape(word.partition('=')[0])}(?![\w/-]|\.\w)")
    return pattern.search(before) is None or len(pattern.findall(after)) >= len(pattern.findall(before))
