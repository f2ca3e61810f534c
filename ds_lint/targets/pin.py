"""What the files say: single requirements, and what they come to for a library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Library = Literal["deepspeed", "transformers", "accelerate"]

LIBRARIES: tuple[Library, ...] = ("deepspeed", "transformers", "accelerate")
# What they import, and of which some releases do not work with some of theirs; no config is checked against these.
COMPANIONS = ("torch", "pydantic", "numpy")
PACKAGES = (*LIBRARIES, *COMPANIONS)

OR = " || "  # between the alternatives of a specifier, as Poetry and PDM write it; PEP 440 itself has no word for it


class Requirement:
    """One statement about one library. ``specifier`` is empty where no version is named.

    ``is_address`` says that it names a repository or a file instead, and no release that could be read from that.
    ``is_conditional`` says that it counts only with a marker, an extra or a group that the project may do without.
    """

    __slots__ = ("is_address", "is_conditional", "library", "source", "specifier")

    def __init__(
        self, library: str, specifier: str, source: str, *, is_address: bool = False, is_conditional: bool = False
    ) -> None:
        self.library = library
        self.specifier = specifier
        self.source = source
        self.is_address = is_address
        self.is_conditional = is_conditional

    def __repr__(self) -> str:
        return f"Requirement({self.library!r}, {self.specifier!r}, {self.source!r}, {self.is_conditional})"


class Pin:
    """The releases of a library that are possible, and where they are pinned.

    ``specifier`` is PEP 440, or several such with ``||`` between them if one of them applies and it is unknown which.
    It is empty where only an address is known, which names no release. ``source`` is what a person recognises:
    ``requirements.txt:3``. ``stated`` is the range of the project that an installed release lies in, for the pin of
    that release; None for any other pin. ``is_installed`` says that no file of the project states it.
    """

    __slots__ = ("is_installed", "library", "source", "specifier", "stated")

    def __init__(self, library: str, specifier: str, source: str, *, is_installed: bool = False) -> None:
        self.library = library
        self.specifier = specifier
        self.source = source
        self.is_installed = is_installed
        self.stated: Pin | None = None

    @property
    def is_range(self) -> bool:
        """Whether releases are possible that it does not name."""
        return not all(is_exact(alternative) for alternative in self.specifier.split(OR))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pin) and (self.library, self.specifier, self.source) == (
            other.library,
            other.specifier,
            other.source,
        )

    def __hash__(self) -> int:
        return hash((self.library, self.specifier, self.source))

    def __repr__(self) -> str:
        return f"Pin({self.library!r}, {self.specifier!r}, {self.source!r})"


def library_called(name: str) -> str | None:
    """The library or companion of this distribution name, whose case does not matter; None for any other name."""
    lower = name.lower()
    return lower if lower in PACKAGES else None


def is_exact(specifier: str) -> bool:
    """Whether a specifier leaves one release only, as ``==0.16.9`` does."""
    return specifier.startswith("==") and not any(sign in specifier for sign in "*,|")


def version_of(specifier: str) -> str:
    """The version that an exact specifier leaves, without the part that only tells one build of it from another."""
    return specifier.lstrip("= ").partition("+")[0].strip()
