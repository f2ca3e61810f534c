"""The words of a launcher before the script, of which a release may refuse some."""

from __future__ import annotations

from ds_lint.source.document import LAUNCHER, SyntaxIssue
from ds_lint.source.moved_spans import moved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.source.tree import Span


class LauncherWords(SyntaxIssue):
    """``found`` is the launcher, ``words`` what it gets, None for unknown ones; ``options`` have their places."""

    __slots__ = ("options", "words")

    def __init__(
        self, span: Span, launcher: str, words: tuple[str | None, ...], options: Iterable[tuple[str, Span]]
    ) -> None:
        super().__init__(LAUNCHER, span, launcher)
        self.words = words
        self.options = tuple(options)

    def within(self, before: str, after: str) -> LauncherWords:
        """The same launch in a changed text, without the options that are no longer in it."""
        return LauncherWords(self.span, self.found, self.words, moved(self.options, before, after))

    @property
    def says(self) -> object:
        """What makes two launches the same."""
        return self.found, self.options
