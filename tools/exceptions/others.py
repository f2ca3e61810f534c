"""The records of exceptions that other code raises: torch, CUDA, Gloo, or Python itself where releases do not fit.

``others.json`` beside this file has them by hand, by the Python module that raises, or by the library where compiled
code does or any of its modules. What releases do not have of each other is in ``schemas/pairs.json``, what training
frameworks reject in ``schemas/refusals.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ds_lint.knowledge import tables
from tools.exceptions.answers import Answer
from tools.exceptions.history import worded
from tools.exceptions.sources import record
from tools.exceptions.wording import normal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.exceptions.sources import Entry

OTHERS = Path(__file__).parent / "others.json"
CALLED_IN = "deepspeed/runtime/engine.py"
OPTIMIZED, SCHEDULED = "_configure_basic_optimizer", "_scheduler_from_config"
VALUE = "DS504"  # the rule about parameters that a constructor refuses
REFUSALS = ("DS670", "DS675")  # the rules about recipes and flags that a framework rejects
PAIR = "DS846"  # the rule about releases that do not work together
_BECAUSE = "{library} does not work with this release of {other}."


def of_others() -> list[Entry]:
    """The records of ``others.json`` and of pairs of releases."""
    by_hand = json.loads(OTHERS.read_text(encoding="utf-8"))
    listed = [{"module": module, **entry, "proof": "source"} for module, found in by_hand.items() for entry in found]
    unique = {json.dumps(entry["message"]): entry for entry in _of_pairs()}
    return [*listed, *unique.values(), *_of_frameworks()]


def _of_frameworks() -> Iterator[Entry]:
    """What training frameworks say of recipes and flags that they reject; "..." is what they fill in."""
    for framework in tables.load("refusals")["frameworks"].values():
        for text in framework["refusals"]:
            parts = [piece for part in text.split("...") for piece in (None, normal(part))][1:]
            message = [piece for piece in parts if piece != ""]
            place = {"module": framework["library"], "function": "", "raises": ""}
            yield {**place, "message": message, "rules": list(REFUSALS), "proof": "source"}


def of_torch(tree: Path) -> Iterator[Entry]:
    """What the constructors of torch's optimizers and schedules raise about a value, called by DeepSpeed."""
    for path in sorted((tree / "torch" / "optim").glob("*.py")):
        module = path.relative_to(tree).as_posix()
        through = f"{CALLED_IN}:{SCHEDULED if path.stem == 'lr_scheduler' else OPTIMIZED}"
        keys = {site.key for site in worded(path.read_bytes(), module) if site.key.function.endswith(".__init__")}
        for key in sorted(keys, key=str):
            if key.raises == "ValueError" and key.message is not None and None in key.message:
                yield record(key, Answer((VALUE,))) | {"through": through, "proof": "source"}


def _of_pairs() -> Iterator[Entry]:
    for conflict in tables.load("pairs")["conflicts"]:
        because = _BECAUSE.format(**conflict)
        ending = {"rules": [PAIR], "reason": "package", "because": because, "proof": "source"}
        module = conflict["what"].rpartition(".")[0]
        if conflict["kind"] == "missing":
            message = ["cannot import name '", None, f"' from '{module}'", None]  # whichever name comes first
            yield {"module": conflict["other"], "function": "", "raises": "ImportError", "message": message, **ending}
        elif conflict["kind"] == "keyword":
            keyword = conflict["what"].partition("(")[2].partition("=")[0]
            message = [None, f"__init__() got an unexpected keyword argument '{keyword}'"]
            yield {"module": conflict["other"], "function": "", "raises": "TypeError", "message": message, **ending}
