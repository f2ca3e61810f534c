"""What a file of data in the project has that a script loads, as YAML and JSON have it."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING

from ds_lint.knowledge.unknown import UNKNOWN

if TYPE_CHECKING:
    from typing import Any

_MOST = 200_000  # characters of a file
_YAML = (".yaml", ".yml")
_HIGHEST = 3  # folders above that of the script from which it may be started


def data_of(path: str, folder: str) -> Any:
    """What a file has, by its path and the folder of the script that loads it; UNKNOWN if that does not show.

    The working folder of a launch is not known: a path that means several files is none.
    """
    starts = [folder]
    while len(starts) <= _HIGHEST and not os.path.isdir(os.path.join(starts[-1], ".git")):
        starts.append(os.path.dirname(starts[-1]))
    found = [whole for start in starts if os.path.isfile(whole := os.path.normpath(os.path.join(start, path)))]
    if len(set(found)) != 1:
        return UNKNOWN
    whole = found[0]
    try:
        return _loaded(whole, os.stat(whole).st_mtime_ns)
    except (OSError, ValueError, RecursionError):
        return UNKNOWN


@cache
def _loaded(path: str, _changed: int) -> Any:
    with open(path, encoding="utf-8") as file:
        text = file.read(_MOST + 1)
    if len(text) > _MOST or "${" in text:  # which OmegaConf replaces
        return UNKNOWN
    if not path.endswith(_YAML):
        return json.loads(text)
    import yaml  # few scripts load a file

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return UNKNOWN
