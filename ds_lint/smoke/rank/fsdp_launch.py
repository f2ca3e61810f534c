"""The environment that ``accelerate launch`` makes of a YAML, on ranks that are there, and what is read of it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.standins import sharded
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.smoke.records.job import Job

FILE = "launch.yaml"
_OF_FSDP = ("FSDP_", "ACCELERATE_", "PARALLELISM_CONFIG_")


class ReadLaunch:
    """What accelerate has read: the arguments of the launch, and the variables that it made of them."""

    def __init__(self) -> None:
        self.arguments: set[str] = set()
        self.variables: set[str] = set()


def set_up(job: Job) -> ReadLaunch:
    """Put what ``accelerate launch`` makes of the text of the job into the environment; raises what accelerate raises.

    Its own parser reads the file, as ``launch_command`` in accelerate/commands/launch.py does.
    """
    assert job.fsdp is not None  # noqa: S101 - of a job with FSDP
    from accelerate.commands import launch
    from accelerate.utils import launch as environments

    path = os.path.join(job.folder, f"{job.part}-{os.getpid()}-{FILE}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(job.text)
    read = ReadLaunch()
    given = ["--config_file", path, *job.fsdp.launch, "train.py"]
    args, *_ = launch._validate_launch_command(launch.launch_command_parser().parse_args(given))  # noqa: SLF001
    noted = _NotedArguments(read, vars(args))
    made: Mapping[str, str] = environments.prepare_multi_gpu_env(noted)
    if getattr(args, "use_parallelism_config", False):
        made = environments.prepare_extend_env_parallelism_config(noted, made)
    os.environ.update({name: value for name, value in made.items() if name.startswith(_OF_FSDP)})
    _note_variables(read)
    return read


def stand_in(job: Job) -> None:
    """Let accelerate and torch do on a CPU what they do on a GPU."""
    assert job.fsdp is not None  # noqa: S101 - of a job with FSDP
    from accelerate.utils import dataclasses

    sharded.install(job.fsdp.ranks_of_node)
    sharded.stand_in_of_plugin(dataclasses)


class _NotedArguments(argparse.Namespace):
    """The arguments of a launch, of which each that is read is noted."""

    def __init__(self, read: ReadLaunch, values: dict[str, Any]) -> None:
        super().__init__(**values)
        object.__setattr__(self, "_read", read)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__")["_read"].arguments.add(name)
        return object.__getattribute__(self, name)


def _note_variables(read: ReadLaunch) -> None:
    """Note each variable that is read from now on."""

    @around(type(os.environ), "__getitem__")
    def noted(get: Any, environ: Any, name: Any) -> Any:
        if isinstance(name, str) and name.startswith(_OF_FSDP):
            read.variables.add(name)
        return get(environ, name)
