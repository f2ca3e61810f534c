"""The words that a launch gives its launcher, where some release may refuse one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.knowledge import tables
from ds_lint.launches.launcher_parser import refused_options
from ds_lint.source.launcher_words import LauncherWords

if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts

_PARTITIONS = re.compile(r"deepspeed|fsdp|fully_sharded|accelerate", re.IGNORECASE)


def launcher_words(facts: LaunchFacts) -> LauncherWords | None:
    """The words of a launch, if some release refuses one of them."""
    launch = facts.launch
    known = tables.load("launchers").get(launcher := launch.launcher)
    if known is None or not launch.own_words or launch.cut_off:
        return None
    always = {name: takes for name, takes in known["options"].items() if name not in known.get("only", {})}
    if not any(refused_options(launch.own_words, always, abbreviates=launcher != "accelerate")):
        return None
    words = " ".join(word for word in (*launch.command, *launch.flags) if word)
    script = facts.script_document.content if facts.script_document is not None else ""
    if launcher == "torchrun" and not _PARTITIONS.search(f"{words} {script}"):
        return None
    names = dict.fromkeys(word.partition("=")[0] for word in launch.own_words if word is not None and word[:1] == "-")
    options = [(name, facts.flag(name.lstrip("-"))) for name in names if name.strip("-")]
    return LauncherWords(facts.place, launcher, launch.own_words, options)
