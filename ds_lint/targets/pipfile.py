"""``Pipfile.lock``: JSON with a specifier, or the commit, of every package."""

from __future__ import annotations

import json

from ds_lint.targets import requirement
from ds_lint.targets.pin import PinPlace
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.targets.pin import Requirement

_GROUPS = ("default", "develop")


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The locked versions, of what the project needs and of what its developers need."""
    try:
        locked = json.loads(text)
    except (ValueError, RecursionError):
        return
    for group in _GROUPS:
        packages = locked.get(group) if isinstance(locked, dict) else None
        for name, package in packages.items() if isinstance(packages, dict) else ():
            version = package.get("version") if isinstance(package, dict) else None
            if isinstance(version, str):
                found = requirement.parse(f"{name}{version}", PinPlace(shown(path)), is_conditional=group == "develop")
                if found:
                    yield found
