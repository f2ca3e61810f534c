"""The environment variables that Accelerate's DeepSpeedPlugin takes for a key of the config, if that is ``"auto"``."""

from __future__ import annotations

from functools import lru_cache

from ds_lint.knowledge import tables
from ds_lint.knowledge.stacks import records

_OWNER = "DeepSpeedPlugin."


@lru_cache(maxsize=1)
def keys_of_variables() -> dict[str, tuple[str, ...]]:
    """The key that each variable fills, by the newest release of Accelerate."""
    store = tables.load("accelerate")
    release = store["releases"][-1]
    plugin = records(store, "plugin", release)
    found: dict[str, tuple[str, ...]] = {}
    for key, fill in records(store, "fills", release).items():
        for source in fill["sources"]:
            field = plugin.get(source["from"].removeprefix(_OWNER), {})
            if source["at"] == "plugin" and "environment" in field:
                found[field["environment"]] = tuple(key.split("."))
    return found
