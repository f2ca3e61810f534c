"""The configs that training frameworks ship, by the words that name them, as a release of the framework has them."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.stacks import record_at
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject, PresetChange, PresetStore
    from ds_lint.targets.pin import Pin


_BEGINNINGS = ("default-zero", "fsdp", "zero")  # of the names; a word that begins so, and is none, is a mistake
_NEAR = 0.9  # of difflib's ratio: ds_z4_config is near ds_z3_config


def names_preset(framework: str, word: str) -> bool:
    """Whether a word is the name of a config in the package of a framework, or meant as one."""
    store = _store(framework)
    names = [one for one in store["presets"] if "/" not in one] if store is not None else []
    is_meant = word.startswith(_BEGINNINGS) and not any(sign in word for sign in "./\\{")
    return word in names or (is_meant and bool(names))


def names_file(framework: str, path: str) -> bool:
    """Whether the repository of a framework has a config at this path."""
    store = _store(framework)
    return store is not None and "/" in path and path in store["presets"]


def misspelt_file(framework: str, path: str) -> str:
    """The config in the repository of a framework that a path hardly differs from; "" if it is there, or none is near.

    What only has more behind the name is meant as a variant.
    """
    store = _store(framework)
    folder, _, name = path.rpartition("/")
    known = (
        [one for one in store["presets"] if folder and one.rpartition("/")[0] == folder] if store is not None else []
    )
    if path in known:
        return ""
    from difflib import get_close_matches

    stem = name.removesuffix(".json")
    near = get_close_matches(stem, [one.rpartition("/")[2].removesuffix(".json") for one in known], 1, _NEAR)
    return f"{folder}/{near[0]}.json" if near and not stem.startswith(near[0]) else ""


def release_of(framework: str, pin: Pin | None, word: str | None = None) -> str | None:
    """The newest known release that a pin allows; without a pin the newest that has the word, else the newest.

    None if a framework has no configs, or a pin allows no known release.
    """
    store = _store(framework)
    if store is None:
        return None
    if pin is not None and pin.specifier:
        return next(reversed(allowed(pin.specifier, store["releases"])), None)
    known = holders(framework, word) if word is not None else None
    return known[1] if known is not None else store["releases"][-1]


def words_of(framework: str, release: str) -> list[str]:
    """The names of the configs that a release has."""
    store = _store(framework)
    found = store["presets"].items() if store is not None else ()
    return [word for word, record in found if store is not None and record_at(store, record, release) is not None]


def preset(framework: str, word: str, release: str | None) -> JsonObject | None:
    """The config that a word names in a release; None if the release has none."""
    store = _store(framework)
    record = store["presets"].get(word) if store is not None else None
    found = record_at(store, record, release) if store is not None and record is not None and release else None
    return found["is"] if found is not None and "is" in found else None


def holders(framework: str, word: str) -> tuple[str, str] | None:
    """The first and the last release that have a config of this name; None if no release has one."""
    store = _store(framework)
    record = store["presets"].get(word) if store is not None else None
    if store is None or record is None:
        return None
    runs = record.get("runs", [record])
    return runs[0].get("since", store["releases"][0]), runs[-1].get("until", store["releases"][-1])


def preset_changes(framework: str, release: str | None) -> dict[tuple[str, ...], PresetChange]:
    """The keys that a release sets in the config of a run."""
    store = _store(framework)
    if store is None or release is None:
        return {}
    found = {
        tuple(path.split(".")): record_at(store, record, release) for path, record in store.get("changes", {}).items()
    }
    return {path: change for path, change in found.items() if change is not None}


def _store(framework: str) -> PresetStore | None:
    return tables.load("presets")["frameworks"].get(framework)
