"""The settings that the command line gives: ``--config KEY=VALUE``, and options that change tables of settings."""

from __future__ import annotations

import os

from ds_lint.linter.selection import rules_of
from ds_lint.settings import reader
from ds_lint.settings.record import Layer, SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.session.options import Options
    from ds_lint.settings.record import Values

OPTION = "--config"
_RULES = ("fixable", "extend_fixable", "unfixable")
_IGNORES = ("per_file_ignores", "extend_per_file_ignores")


def named_file(options: Options) -> tuple[str | None, str | None]:
    """The settings file that the command line names, and what its paths are relative to if that is not its folder.

    One of ``--config`` is read as if it were in the working directory, as ruff reads it. Raises SettingsError.
    """
    files = [one for one in options.config_options if not _is_setting(one)]
    if unusable := [one for one in files if not os.path.isfile(one)]:
        raise SettingsError(f"{OPTION} {unusable[0]}: neither a settings file nor KEY=VALUE")
    if options.settings is not None and "settings" not in options.given_by:
        files.append(options.settings)
    if len(files) > 1:
        raise SettingsError(f"only one settings file can be named, not {' and '.join(files)}")
    if not files or files[0] is options.settings:
        return options.settings, None
    if options.isolated:
        raise SettingsError(f"--isolated ignores all settings files and cannot be combined with {OPTION} {files[0]}")
    return files[0], ""


def given_layers(options: Options) -> list[Layer]:
    """What the command line gives, what counts more behind the rest. Raises SettingsError and UnknownRule."""
    found = [Layer("", "", _inline(one), OPTION) for one in options.config_options if _is_setting(one)]
    values: Values = {name.replace("_", "-"): list(getattr(options, name)) for name in _RULES if getattr(options, name)}
    for name in _IGNORES:
        if words := getattr(options, name):
            values[name.replace("_", "-")] = _ignores(words, f"--{name.replace('_', '-')}")
    return [*found, Layer("", "", values)] if values else found


def _is_setting(word: str) -> bool:
    """Whether a word of ``--config`` is a setting and not a file, as ruff tells them apart."""
    return "=" in word and not os.path.isfile(word)


def _inline(text: str) -> Values:
    place = f"{OPTION} {text}"
    try:
        values = reader.strictly(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{place}: not KEY=VALUE as in TOML, where a text has quotes: {error}") from None
    if "extend" in values:
        raise SettingsError(f"{place}: only a settings file can extend another; name it with {OPTION} FILE")
    reader.check(values, place)
    return values


def _ignores(words: Sequence[str], option: str) -> dict[str, list[str]]:
    """Rules by pattern, of words such as ``a.json:DS101``; a word without a pattern is a rule of the one before."""
    found: dict[str, list[str]] = {}
    pattern = ""
    for before, rule in _parted(words):
        pattern = before or pattern
        if not pattern or not rule:
            raise SettingsError(f'{option} takes PATTERN:RULE, such as "tests/**:DS101", not {rule or before}')
        rules_of(rule)  # which there must be
        found.setdefault(pattern, []).append(rule)
    return found


def _parted(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        pattern, _, rule = word.rpartition(":")
        yield pattern, rule
