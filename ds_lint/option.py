"""An option: a value that the user gives. It is written once, in the record that holds it.

The command line, completion, environment variables, the keywords of ``ds_lint.check``, the settings of editors and of
projects, and the tables of the documentation are made from these records: see docs/dev/options.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from typing_extensions import Self, dataclass_transform


ARGUMENT = "argument"  # the part of what has no name in the command line, only a place


class Option:
    """A field of a record, and its description. Read from a record that was not given it, it is its default."""

    metavar: str | None = None  # the kind of value
    choices: Collection[object] | None = None
    meanings: tuple[str, ...] = ()  # of the choices, after that of none
    least = 1  # of a number
    words = ""  # what the value must be, in a complaint about the settings
    flags: tuple[str, ...] = ()  # instead of its name
    dest: str | None = None  # the name in the namespace of argparse, if it is that of another option
    either: str | None = None  # options with the same word exclude each other
    not_with = ""  # words for what it cannot be combined with, see ``commands/conflicts.py``
    variable = False  # whether an environment variable may give it
    keyword = ""  # of ``ds_lint.check``, if it is not the name
    annotation: str | None = None  # of that keyword, if it takes more
    is_path = False  # or may be: of a file or folder, or something else
    is_whole = False  # of a list: each word is one value, whatever commas are in it
    is_hidden = False
    is_repeated = False  # each time with one more value
    is_required = False
    can_be_off = True  # of a switch that may be unset

    def __init__(self, part: str, help: str, default: object = None, **about: Any) -> None:
        self.part = part  # of the command line: which commands take it, and below which title
        self.help = help
        self.default = default
        self.__dict__.update(about)

    def __set_name__(self, owner: type[OptionRecord], name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, record: OptionRecord | None, owner: type[OptionRecord]) -> object:
        return self if record is None else self.default

    @property
    def type(self) -> str:
        """The annotation of the field."""
        return str(self.owner.__annotations__[self.name])

    @property
    def as_keyword(self) -> str:
        """The name in a call of ``ds_lint.check``."""
        return self.keyword or self.name

    @property
    def is_number(self) -> bool:
        """Whether the value is a whole number."""
        return self.type.startswith("int")

    @property
    def is_optional(self) -> bool:
        """Whether what has only a place may be left out."""
        return self.type.endswith("| None")

    @property
    def is_named(self) -> bool:
        """Whether it has a name in the command line, and not only a place."""
        return self.part != ARGUMENT

    @property
    def dashed(self) -> str:
        """The name in the command line and in settings files."""
        return self.name.replace("_", "-")

    @property
    def camel(self) -> str:
        """The name in the settings of editors."""
        first, *others = self.name.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def sentence(self) -> str:
        """The help, as a sentence."""
        return f"{self.help[:1].upper()}{self.help[1:]}."

    def wrong_choice(self, value: object) -> str | None:
        """What a value must be instead; None if it is one of the choices, or there are none."""
        return None if self.choices is None or value in self.choices else f"one of {', '.join(map(str, self.choices))}"


option: Callable[..., Any] = Option  # of any type: that of a field is its annotation


def argument(help: str, *, kw_only: bool = True, **about: Any) -> Any:
    """What a command takes beside options, and has to be given."""
    return Option(ARGUMENT, help, **about)


if TYPE_CHECKING:

    @dataclass_transform(kw_only_default=True, field_specifiers=(argument,))
    class _Typed: ...
else:
    _Typed = object


class OptionRecord(_Typed):
    """Values by the names of its options."""

    def __init__(self, **given: object) -> None:
        self.__dict__.update(given)

    @classmethod
    def options(cls) -> list[Option]:
        """The options that are fields of it, in their order."""
        return [one for one in vars(cls).values() if isinstance(one, Option)]

    @classmethod
    def of(cls, values: object, **more: object) -> Self:
        """A record of the values that an object has under these names, such as the namespace of argparse."""
        given = {one.name: getattr(values, one.name, None) for one in cls.options()}
        return cls(**{name: value for name, value in given.items() if value is not None} | more)
