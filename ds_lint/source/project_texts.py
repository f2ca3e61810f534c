"""The files of a project that another file of it names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ProjectTexts:
    """Reads what a file names: called with a name, it gives the text, and ``place`` the path within the project."""

    __slots__ = ("_place", "_text")

    def __init__(self, place: Callable[[str], str | None], text: Callable[[str], str | None]) -> None:
        self._place = place
        self._text = text

    def __call__(self, name: str) -> str | None:
        """The text of a file; None if it is not there."""
        return self._text(name)

    def place(self, name: str) -> str | None:
        """Where a file is in the project; None if it is not there."""
        return self._place(name)
