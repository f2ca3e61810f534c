"""Where the source of a framework has what it makes of a recipe, and its configs, for ``tools.extract``."""

from __future__ import annotations

from typing import Literal, NamedTuple


class SourcePart(NamedTuple):
    """What a release must have, if it is not older than ``since`` nor as new as ``before``: files, or a class.

    ``what`` is a glob below the folder of the release, or the pattern of a name.
    """

    what: str
    since: str = "0"
    before: str = ""


class SourceLayout(NamedTuple):
    """Where the source of a framework has what it makes of a recipe."""

    modules: tuple[SourcePart, ...]  # with the classes of fields
    roots: tuple[SourcePart, ...]  # the classes that a recipe is read into
    builders: tuple[SourcePart, ...] = ()  # with functions that make training arguments
    names: tuple[str, ...] = ()  # of these functions' training arguments
    refusing: tuple[SourcePart, ...] = ()  # with functions that reject
    readers: tuple[str, ...] = ()  # other functions that are handed training arguments, and only read them
    loaders: tuple[str, ...] = ()  # functions that take over what was saved, by names that are not written out
    unread: tuple[str, ...] = ()  # classes in other modules, whose fields the store lacks
    has_several_configs: bool = False  # and no recipe tells which of them a script uses


class PresetLayout(NamedTuple):
    """Where the package of a framework has configs, each of which a word of the command line or a recipe names.

    ``kind`` says what reads them: DeepSpeed, or ``accelerate launch``. The name of a file without its ending is the
    word, unless the source has a dict ``mapping`` from words to names of files. ``changed`` is the attribute that holds
    the config, of which the source sets keys. A config ``in_repository`` is not in the package, but where one
    starts the framework from its repository: the word is the path from there.
    """

    kind: Literal["deepspeed", "accelerate"]
    files: tuple[SourcePart, ...]
    mapping: str = ""
    changed: str = ""
    in_repository: bool = False


class FieldRoot(NamedTuple):
    """A class that a parser fills; the first of the modules that is there has or imports it."""

    part: SourcePart
    modules: tuple[str, ...]


class FieldLayout(NamedTuple):
    """Where the source of a framework has the fields that its parser takes, for ``tools.extract.recipe_fields``.

    ``roots`` are the classes by command; the empty one is any. ``foreign`` are bases of other libraries.
    """

    package: str  # as Python imports it
    roots: dict[str, tuple[FieldRoot, ...]]
    foreign: tuple[str, ...] = ()
    since: str = "0"  # older releases are laid out in another way
    is_pydantic: bool = False
    readers: tuple[str, ...] = ()  # modules that look up further names
    own: str = ""  # the folder with all classes of fields, if one has them
    older: tuple[str, ...] = ()  # other names of the package
