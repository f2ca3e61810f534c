"""A file of settings with the files that it extends, held against the table of settings."""

from __future__ import annotations

import os
import sys

from ds_lint.settings.kinds import complaints_about, shown_value
from ds_lint.settings.record import OWN_TABLE, SHARED, Settings, SettingsError
from ds_lint.settings.table import SETTINGS
from ds_lint.source.files import bytes_of
from ds_lint.targets import toml
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.settings.record import Layer
    from ds_lint.targets.toml import Table

REQUIRED_VERSION = "required-version"


def parse(data: bytes, path: str, directory: str | None = None) -> Settings | None:
    """The settings in the bytes of a file; None for a ``pyproject.toml`` without any of ours. Raises SettingsError.

    ``directory`` is what its paths are relative to, if it is not its folder.
    """
    values = _values(data, path)
    if values is None:
        return None
    return Settings(path, values, directory, extended=_extended(values, [path]))


def _extended(values: Table, chain: list[str]) -> list[Layer]:
    """What the last file of a chain extends, the outermost first."""
    if "extend" not in values:
        return []
    path = chain[-1]
    name = os.path.expanduser(os.path.expandvars(str(values["extend"])))
    other = os.path.normpath(os.path.join(os.path.dirname(path), name))
    try:
        found = _named(other, chain)
        return [*_extended(found, [*chain, other]), *Settings(other, found).layers]
    except SettingsError as error:
        error.files = (other, *error.files)
        raise


def _named(other: str, chain: list[str]) -> Table:
    """The settings in a file that the last of a chain extends."""
    place = f"{shown(chain[-1])}: extend"
    if os.path.realpath(other) in map(os.path.realpath, chain):
        circle = " extends ".join(map(shown, [*chain, other]))
        raise SettingsError(f"{place}: {circle}")
    try:
        data = bytes_of(other)
    except OSError as error:
        raise SettingsError(f"{place}: {shown(other)}: {error.strerror or error}") from None
    found = _values(data, other)
    if found is None:
        raise SettingsError(f"{place}: {shown(other)}: it has no [tool.{OWN_TABLE}] table")
    return found


def _values(data: bytes, path: str) -> Table | None:
    """The settings in the bytes of a file by name, all of which are as they should be."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SettingsError(f"{shown(path)}: the file is not UTF-8") from None
    try:
        values = _own(toml.loads(text), path)
        is_good = values is None or not any(complaints_about(values, SETTINGS))
    except (ValueError, RecursionError):
        is_good = False
    if not is_good:
        try:
            values = _own(strictly(text), path)  # knows every value and says where a text is broken; long to import
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"{shown(path)}: {error}") from None
    if values is not None and (not is_good or REQUIRED_VERSION in values):
        check(values, shown(path))
    return values


def check(values: Table, place: str) -> None:
    """Raise SettingsError for what is wrong with settings, or if they are for another version of ds-lint."""
    wanted = values.get(REQUIRED_VERSION)
    if isinstance(wanted, str) and (complaint := _other_version(wanted)):  # which may know more settings
        raise SettingsError(f"{place}: {complaint}")
    complaints = list(complaints_about(values, SETTINGS))
    if complaints:
        raise SettingsError("\n".join(f"{place}: {complaint}" for complaint in complaints))


def _other_version(wanted: str) -> str | None:
    """What to say if this is not a version that is wanted; None if it is."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from ds_lint import __version__

    try:
        specifier = SpecifierSet(f"=={wanted}" if wanted[:1].isdigit() else wanted)
    except InvalidSpecifier:
        example = 'a version such as "0.1.0" or a range such as ">=0.1"'
        return f"{REQUIRED_VERSION} must be {example}, not {shown_value(wanted)}"
    if specifier.contains(__version__, prereleases=True):
        return None
    return f"{REQUIRED_VERSION} is {shown_value(wanted)}, and this is ds-lint {__version__}"


def strictly(text: str) -> Table:
    """The root table of a TOML text, every value of it. Raises ValueError or RecursionError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _own(whole: Table, path: str) -> Table | None:
    """The table of our settings: the whole file, or what a shared one has for us."""
    if os.path.basename(path) != SHARED:
        return whole
    tools = whole.get("tool")
    values = tools.get(OWN_TABLE) if isinstance(tools, dict) else None
    if values is None or isinstance(values, dict):
        return values
    raise ValueError(f"tool.{OWN_TABLE} must be a table, not {shown_value(values)}")
