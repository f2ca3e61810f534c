"""``environment.yml``: what conda installs, and the list that it hands to pip."""

from __future__ import annotations

import re

import yaml

from ds_lint.targets import requirement, requirements_file
from ds_lint.targets.pin import OR, PinPlace, Requirement, library_called
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# conda-forge/linux-64::deepspeed[version='>=0.14'], or a name with a version and perhaps a build after it
_MATCH = re.compile(r"(?:[^:\s]+::)?([A-Za-z]+)\s*(?:\[.*?version=['\"]?([^'\"\]]+).*\]|([=<>!~\s][^\[]*))?")

_CALLED = {"pytorch": "torch"}  # what conda calls some of them

_RELEASE = re.compile(r"(==?|)\s*(\d+(?:\.[\w+]+)*)(\.?\*)?(?:[=\s]\S+)?")


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The requirements of an environment."""
    try:
        whole = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but strings, lists and dicts
    except (yaml.YAMLError, RecursionError):
        return
    dependencies = whole.get("dependencies") if isinstance(whole, dict) else None
    place, place_of_pip = PinPlace(shown(path)), PinPlace(shown(path), within="pip")
    for entry in dependencies if isinstance(dependencies, list) else ():
        if isinstance(entry, str):
            yield from _of_conda(entry, place)
        elif isinstance(entry, dict) and isinstance(entry.get("pip"), list):
            for line in entry["pip"]:
                if isinstance(line, str):
                    yield from requirements_file.of_line(line, place_of_pip, path)


def _of_conda(entry: str, place: PinPlace) -> Iterator[Requirement]:
    match = _MATCH.fullmatch(entry.strip())
    library = library_called(_CALLED.get(match[1], match[1])) if match else None
    specifier = _specifier(match[2] or match[3] or "") if match else None
    if library and specifier:
        yield Requirement(library, specifier, place)


def _specifier(version: str) -> str | None:
    """The specifier of a conda version: ``=0.16`` is any 0.16, ``0.14|0.15`` either, a build says nothing more."""
    alternatives = [_alternative(part.strip()) for part in version.split("|")]
    found = [alternative for alternative in alternatives if alternative]
    return OR.join(found) if len(found) == len(alternatives) else None


def _alternative(text: str) -> str | None:
    match = _RELEASE.fullmatch(text)
    if match is None:
        return requirement.specifier_of(text)
    sign, release, star = match.groups()
    is_open = bool(star) or (sign == "=" and release.count(".") < 2)  # after =0.16.9 the libraries have nothing more
    return f"=={release}.*" if is_open else f"=={release}"
