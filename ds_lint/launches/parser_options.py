"""The options of a parser of the command line, one record each, as argparse has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    # What a word of a value becomes: "any" where that is not known, "nothing" where every word is refused.
    ValueKind = Literal["text", "int", "float", "bool", "any", "nothing"]
    # Any number of words: for an option of which that is not known.
ANY_NUMBER = "*"


class ParserOption(NamedTuple):
    """An option, with the dashes that it is written with; a positional argument has none.

    ``takes`` is how many words it takes: "0", "?", "+", "*", or a number. ``choices`` are the values that it accepts,
    None for any. ``name`` is that of the field or attribute that it sets.
    """

    flags: tuple[str, ...]
    takes: str
    kind: ValueKind
    name: str
    choices: tuple[Any, ...] | None = None
    is_required: bool = False


class DeclaredField(NamedTuple):
    """A field of a dataclass that a parser makes an option of.

    ``type`` is its annotation as a text in which enumerations are literals. ``default`` is "missing", "true", "none",
    "made" for one that a factory makes, or "given" for any other. ``is_known`` is false if its metadata may change how
    it is parsed, ``is_bare`` says that the option may stand alone, and ``is_own`` that the project declares it.
    """

    name: str
    type: str
    default: Literal["missing", "true", "none", "made", "given"]
    aliases: tuple[str, ...] = ()
    choices: tuple[Any, ...] | None = None
    is_bare: bool = False
    is_known: bool = True
    is_own: bool = False


class ParsedClass(NamedTuple):
    """A class whose fields a parser takes: those of a class of a library, under those that the project declares."""

    name: str
    library: str  # the class of the library by its full name; "" if there is none
    fields: tuple[DeclaredField, ...]


class CommandLine(NamedTuple):
    """How a script reads its command line, if that is certain and all its options are known.

    ``kind`` is the library that parses. ``classes`` are those of HfArgumentParser and TrlParser, and ``options`` what
    is added besides. ``rest`` is what becomes of words that no option takes: they are an error, or nothing reads
    them. ``has_places`` says that it takes words by their places, or may. ``requires_all`` is false if something
    other than the command line may give required options. ``function`` parses, in the module at ``path``, at a
    ``line``.
    """

    kind: Literal["HfArgumentParser", "TrlParser", "argparse", "fire", "click", "typer"]
    classes: tuple[ParsedClass, ...]
    options: tuple[ParserOption, ...]
    rest: Literal["error", "unread"]
    abbreviates: bool
    has_places: bool
    requires_all: bool
    function: str
    path: str
    line: int
