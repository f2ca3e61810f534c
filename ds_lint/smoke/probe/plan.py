"""What the probe does in the processes of the user's command, and where it writes."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

VARIABLE = "DS_LINT_PROBE"  # names the file with the plan
TRAIN, RESUME = "train", "resume"  # the starts of the command
RESTORE = "restore"  # a start in which each Python only restores its node, and ends


class Plan(NamedTuple):
    """The plan of one start of the command; every process of it reads the same."""

    folder: str  # of the whole run: everything is written below it
    part: str = TRAIN
    steps: int = 3  # optimizer steps of each engine up to the checkpoint
    steps_after: int = 2  # and after it, which the second start repeats
    resumes: bool = True  # a second start follows
    uses_cpu: bool = False  # the stand-ins for GPUs apply
    profiles: bool = False  # the last step of the first start, for the share of communication
    shrinks: bool = False  # models are made small where the script makes them

    @property
    def whole(self) -> int:
        """The optimizer steps of this start."""
        return self.steps + self.steps_after if self.part == TRAIN else self.steps_after

    @property
    def own_folder(self) -> str:
        """Where this start writes what it shows."""
        return os.path.join(self.folder, self.part)

    @property
    def kept_folder(self) -> str:
        """Where the first start leaves what the second one needs: checkpoints, and recorded inputs."""
        return os.path.join(self.folder, "kept")

    @property
    def outputs(self) -> str:
        """Where the outputs of the script go instead of the user's own folders; each start begins without any."""
        return os.path.join(self.own_folder, "outputs")

    @property
    def over(self) -> str:
        """The file that is there once the ranks have made their steps; a Python that starts later ends at once."""
        return os.path.join(self.own_folder, "over")

    @property
    def temporary(self) -> str:
        """Where the script has its temporary files."""
        return os.path.join(self.own_folder, "tmp")

    @property
    def end(self) -> str:
        """The file that is there once the driver has ended this start: agents on other nodes end and restore them."""
        return os.path.join(self.own_folder, "end")


def write(plan: Plan) -> str:
    """Write the plan into its folder; the path."""
    path = os.path.join(plan.folder, f"plan-{plan.part}.json")
    os.makedirs(plan.temporary, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(plan._asdict(), file)
    return path


def read(path: str) -> Plan:
    """The plan in a file."""
    with open(path, encoding="utf-8") as file:
        return Plan(**json.load(file))


def of_environment() -> Plan | None:
    """The plan that the environment names; None outside a run of ds-lint."""
    path = os.environ.get(VARIABLE)
    return read(path) if path else None
