"""What the files of a project and its environment say; their order is in the docstring of the package."""

from __future__ import annotations

from ds_lint.targets.directories import up_to_root
from ds_lint.targets.files import by_standing, requirements_of
from ds_lint.targets.pin import LIBRARIES, PACKAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ds_lint.targets.pin import Pin


def used(directory: str, first: Mapping[str, Pin] | None = None) -> dict[str, Pin]:
    """The pin of each library and companion that anything is known about, for the project around a directory.

    Those in ``first`` decide over those of the project.
    """
    found = pins(directory, first)
    if _is_settled(found):
        return found
    from ds_lint.targets.distributions import installed

    for library, pin in installed(directory).items():
        if library in found:
            from ds_lint.targets.combination import narrowed

            found[library] = _with_stated(narrowed(found[library], pin), found[library])
        else:
            found[library] = pin
    return found


def pins(directory: str, first: Mapping[str, Pin] | None = None) -> dict[str, Pin]:
    """The pin of each library that the project around a directory names a version of.

    Of companions, those that are beside the libraries: no file is read for their sake.
    """
    found: dict[str, Pin] = dict(first or {})
    if _is_settled(found):
        return found
    for here, names in up_to_root(directory):
        for paths in by_standing(here, names):
            for pin in _pins_of(paths):
                _settle(found, pin)
            if _is_settled(found):
                return found
    return found


def pin_of_companion(companion: str, directory: str) -> Pin | None:
    """The pin of a companion by the nearest file of a project, which may use none of the libraries."""
    for here, names in up_to_root(directory):
        for paths in by_standing(here, names):
            for pin in _pins_of(paths, companion):
                if pin.library == companion:
                    return pin
    return None


def _pins_of(paths: Sequence[str], companion: str = "") -> Iterator[Pin]:
    """What files of the same standing come to."""
    stated = [requirements for path in paths if (requirements := requirements_of(path, companion))]
    if not stated:
        return
    from ds_lint.targets.combination import any_of, pins_of

    pins = [pin for requirements in stated for pin in pins_of(requirements)]
    for library in PACKAGES:
        if alternatives := [pin for pin in pins if pin.library == library]:
            yield any_of(alternatives)


def _is_settled(found: dict[str, Pin]) -> bool:
    """Whether every library has one release."""
    return all(library in found and not found[library].is_range for library in LIBRARIES)


def _with_stated(pin: Pin, stated: Pin) -> Pin:
    """The pin that counts, of an installed release with the range of the project that it lies in."""
    if pin is not stated:
        pin.stated = stated
    return pin


def _settle(found: dict[str, Pin], pin: Pin) -> None:
    """Take a pin where none was found before, or where it only says more exactly what was."""
    from ds_lint.targets.combination import narrowed

    earlier = found.get(pin.library)
    found[pin.library] = pin if earlier is None else narrowed(earlier, pin)
