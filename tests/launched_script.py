"""The facts of a launch that starts a script, for tests of what a script shows."""

from __future__ import annotations

from typing import Any

from ds_lint.facts import Facts
from ds_lint.facts.launched import LaunchFacts
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.source.document import Document


def facts_of_script(text: str, flags: str = "", *, by: str = "torchrun --nproc_per_node 8", **known: Any) -> Facts:
    (launch,) = launches_in(f"{by} train.py {flags}", "run.sh", lambda _: None).launches
    script, shell = Document("train.py", text, None, []), Document("run.sh", "", None, [])
    return Facts(**known).with_launch(LaunchFacts(launch, shell, read_training_script(text), script))
