"""What several statements about one library come to."""

from __future__ import annotations

from ds_lint.targets.pin import OR, PACKAGES, Pin, is_exact, version_of
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.targets.pin import Requirement


def pins_of(requirements: Sequence[Requirement]) -> list[Pin]:
    """What the requirements of one file come to, for each library that it names a version of."""
    found = []
    for library in PACKAGES:
        stated = [each for each in requirements if each.library == library and each.specifier]
        always = [each for each in stated if not each.is_conditional]
        if always:
            found.append(_all_of(always))
        elif stated:
            found.append(any_of([Pin(library, each.specifier, each.place) for each in stated]))
        elif address := next((each for each in requirements if each.library == library and each.is_address), None):
            found.append(Pin(library, "", address.place))
    return found


def any_of(pins: Sequence[Pin]) -> Pin:
    """The pin that leaves what any of these for one library leaves; addresses count where there is nothing else."""
    pins = [pin for pin in pins if pin.specifier] or pins[:1]
    specifiers = dict.fromkeys(pin.specifier for pin in pins)
    is_installed = all(pin.is_installed for pin in pins)
    sources = [source for pin in pins for source in pin.sources]
    return Pin(pins[0].library, OR.join(specifiers), *sources, is_installed=is_installed)


def narrowed(earlier: Pin, later: Pin) -> Pin:
    """The later pin where it is an exact release of the range that the earlier one is, else the earlier one.

    An address that names no release is not a range, and whatever comes later says more.
    """
    if not earlier.specifier:
        return later if later.specifier else earlier
    if not earlier.is_range or not is_exact(later.specifier):
        return earlier
    return later if allowed(earlier.specifier, [version_of(later.specifier)]) else earlier


def _all_of(requirements: Sequence[Requirement]) -> Pin:
    """The pin of requirements that hold together: an exact one, or all clauses at once.

    Of several with alternatives only the first counts. That allows more than they do together, and the combinations of
    all of them could be millions.
    """
    for each in requirements:
        if is_exact(each.specifier):
            return Pin(each.library, each.specifier, each.place)
    specifiers = dict.fromkeys(each.specifier for each in requirements)
    common = [specifier for specifier in specifiers if OR not in specifier]
    alternatives = next((specifier.split(OR) for specifier in specifiers if OR in specifier), [])
    combined = OR.join(",".join([*common, each]) for each in alternatives) if alternatives else ",".join(common)
    return Pin(requirements[0].library, combined, *(each.place for each in requirements))
