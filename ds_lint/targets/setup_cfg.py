"""``setup.cfg``: the declarative metadata of setuptools."""

from __future__ import annotations

from configparser import Error, RawConfigParser

from ds_lint.targets import requirement
from ds_lint.targets.pin import PinPlace
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.targets.pin import Requirement

_REQUIRED = "options"
_EXTRAS = "options.extras_require"


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The requirements of a project; those of extras are conditional."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except Error:
        return
    required = parser.get(_REQUIRED, "install_requires", fallback="")
    yield from _listed(required, PinPlace(shown(path), within=f"[{_REQUIRED}]"), is_conditional=False)
    for extra in parser.options(_EXTRAS) if parser.has_section(_EXTRAS) else ():
        place = PinPlace(shown(path), within=f"[{_EXTRAS}] {extra}")
        yield from _listed(parser.get(_EXTRAS, extra), place, is_conditional=True)


def _listed(requirements: str, place: PinPlace, *, is_conditional: bool) -> Iterator[Requirement]:
    for line in requirements.splitlines():
        if found := requirement.parse(line, place, is_conditional=is_conditional):
            yield found
