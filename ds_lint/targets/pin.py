"""What the files say: single requirements, and what they come to for a library."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Library = Literal["deepspeed", "transformers", "accelerate"]

LIBRARIES: tuple[Library, ...] = ("deepspeed", "transformers", "accelerate")
# What they import, and of which some releases do not work with some of theirs; no config is checked against these.
COMPANIONS = ("torch", "pydantic", "numpy")
# Others of which nothing is known but defects of releases, alone or beside a release of those above.
ADVISED = ("lightning", "peft", "triton", "wandb")
# Frameworks that train: the configs that they ship, the fields that they have, and what they reject, are those of the
# release that the project pins.
TRAINERS = ("axolotl", "llamafactory", "ms-swift", "trl")
KERNELS = ("liger-kernel",)  # which replace those of a model, and hold more or less by their release
PACKAGES = (*LIBRARIES, *COMPANIONS, *TRAINERS, *ADVISED, *KERNELS)
_SAME = {"pytorch-lightning": "lightning"}  # two distributions of one code, whose releases have the same numbers

OR = " || "  # between the alternatives of a specifier, as Poetry and PDM write it; PEP 440 itself has no word for it


class PinPlace:
    """Where a file states a requirement: its line, or ``within`` which table, list or cell of the file it does."""

    __slots__ = ("line", "path", "within")

    def __init__(self, path: str, line: int | None = None, *, within: str = "") -> None:
        self.path = path
        self.line = line
        self.within = within

    def __str__(self) -> str:
        """What a person recognises: ``requirements.txt:3``, ``pyproject.toml [project]``."""
        if self.within.startswith("cell "):
            return f"{self.path}:{self.within}"
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place} {self.within}" if self.within else place


class Requirement:
    """One statement about one library. ``specifier`` is empty where no version is named.

    ``is_address`` says that it names a repository or a file instead, and no release that could be read from that.
    ``is_conditional`` says that it counts only with a marker, an extra or a group that the project may do without.
    """

    __slots__ = ("is_address", "is_conditional", "library", "place", "specifier")

    def __init__(
        self, library: str, specifier: str, place: PinPlace, *, is_address: bool = False, is_conditional: bool = False
    ) -> None:
        self.library = library
        self.specifier = specifier
        self.place = place
        self.is_address = is_address
        self.is_conditional = is_conditional

    def __repr__(self) -> str:
        return f"Requirement({self.library!r}, {self.specifier!r}, {str(self.place)!r}, {self.is_conditional})"


class Pin:
    """The releases of a library that are possible, and where they are pinned.

    ``specifier`` is PEP 440, or several such with ``||`` between them if one of them applies and it is unknown which.
    It is empty where only an address is known, which names no release. ``sources`` are places in files, or words where
    no file states it, such as the name of an option. ``stated`` is the range of the project that an installed release
    lies in, for the pin of that release; None for any other pin. ``is_installed`` says that no file of the project
    states it.
    """

    __slots__ = ("is_installed", "library", "sources", "specifier", "stated")

    def __init__(self, library: str, specifier: str, *sources: PinPlace | str, is_installed: bool = False) -> None:
        self.library = library
        self.specifier = specifier
        self.sources = sources
        self.is_installed = is_installed
        self.stated: Pin | None = None

    @property
    def source(self) -> str:
        """All sources, in words."""
        return " and ".join(dict.fromkeys(map(str, self.sources)))

    @property
    def places(self) -> list[PinPlace]:
        """The places in files that state it."""
        return [source for source in self.sources if not isinstance(source, str)]

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
    lower = name.lower().replace("_", "-")
    lower = _SAME.get(lower, lower)
    return lower if lower in PACKAGES else None


def is_exact(specifier: str) -> bool:
    """Whether a specifier leaves one release only, as ``==0.16.9`` does."""
    return specifier.startswith("==") and not any(sign in specifier for sign in "*,|")


def version_of(specifier: str) -> str:
    """The version that an exact specifier leaves, without the part that only tells one build of it from another."""
    return specifier.lstrip("= ").partition("+")[0].strip()
