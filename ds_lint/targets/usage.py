"""What the files of a project and its environment say together."""

from __future__ import annotations

from ds_lint.targets.pin import LIBRARIES
from ds_lint.targets.project import pins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.targets.pin import Pin


def used(directory: str) -> dict[str, Pin]:
    """The pin of each library that anything is known about, for the project around a directory."""
    found = pins(directory)
    if len(found) == len(LIBRARIES) and not any(pin.is_range for pin in found.values()):
        return found
    from ds_lint.targets.distributions import installed

    for library, pin in installed(directory).items():
        if library in found:
            from ds_lint.targets.combining import narrowed

            found[library] = narrowed(found[library], pin)
        else:
            found[library] = pin
    return found
