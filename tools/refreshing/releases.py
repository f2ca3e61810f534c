"""The libraries whose releases something here rests on, and their releases on the package index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tools.extract.releases import UnavailableError, available
from tools.refreshing.readings import newest_read
from tools.refreshing.steps import INSTALLED, READ

if TYPE_CHECKING:
    from collections.abc import Sequence


def libraries() -> list[str]:
    """Every library, by its name on the package index."""
    return list(known())


def known() -> dict[str, str]:
    """The newest release of each library that something here rests on."""
    found = newest_read()
    for step in (*INSTALLED, *READ):
        for library, release in step.rests_on().items():
            found.setdefault(library, release)
    return found


def on_the_index(chosen: Sequence[str]) -> dict[str, list[str]]:
    """The final releases of these libraries, oldest first; of all, where none is named."""
    everything = libraries()
    for library in chosen:
        if library not in everything:
            raise UnavailableError(f"{library} is none of the libraries: {', '.join(everything)}")
    named = list(chosen) or everything
    with ThreadPoolExecutor(len(named)) as pool:  # pip waits for the index
        return dict(zip(named, pool.map(available, named), strict=True))
