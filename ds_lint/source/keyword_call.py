"""A call in a script of a class of which it is known what keywords each release takes."""

from __future__ import annotations

from ds_lint.source.document import CALLED, SyntaxIssue
from ds_lint.source.moved_spans import moved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.source.tree import Span


class KeywordCall(SyntaxIssue):
    """``found`` is the class as the script has it, ``roots`` the classes of libraries that make it, by full names.

    ``own`` are the fields that classes of the project add. ``keywords`` are those of the call, each with its place;
    ``unpacked`` are those among them that a dict brings, whose place is that of the dict.
    """

    __slots__ = ("keywords", "own", "roots", "unpacked")

    def __init__(
        self,
        span: Span,
        name: str,
        roots: tuple[str, ...],
        own: frozenset[str],
        keywords: Iterable[tuple[str, Span]],
        unpacked: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(CALLED, span, name)
        self.roots = roots
        self.own = own
        self.keywords = tuple(keywords)
        self.unpacked = unpacked

    def within(self, before: str, after: str) -> KeywordCall:
        """The same call in a changed text, without the keywords that are no longer in it."""
        keywords = moved(self.keywords, before, after)
        return KeywordCall(self.span, self.found, self.roots, self.own, keywords, self.unpacked)
