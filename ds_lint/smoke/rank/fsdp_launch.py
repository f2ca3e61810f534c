"""The environment that ``accelerate launch`` makes of a YAML, on ranks that are there, and what is read of it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.smoke.records.job import Job

FILE = "launch.yaml"
_ON_GPU = "_check_module_states_for_sync_module_states"
_UNFLATTEN = "_unflatten_orig_param_states"
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
    """Let accelerate and torch do on a CPU what they do on a GPU.

    ``sync_module_states`` asks for the current GPU and rejects weights on a CPU; the broadcast itself needs no GPU. The
    hybrid strategies of FSDP 1 ask how many GPUs a node has. What FSDP 1 moves to the CPU, it takes for a copy, and
    frees or overwrites the original; it waits for a stream, which a CPU has in name only.
    """
    assert job.fsdp is not None  # noqa: S101 - of a job with FSDP
    import accelerate.utils.dataclasses
    import torch.distributed.fsdp._init_utils
    from torch.distributed.fsdp import _optim_utils
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    cpu = torch.device("cpu")
    ranks_of_node = job.fsdp.ranks_of_node
    accelerate.utils.dataclasses.is_cuda_available = lambda *_args, **_more: True
    torch.cuda.current_device = lambda: cpu
    torch.cpu.device_count = lambda: ranks_of_node
    checks = torch.distributed.fsdp._init_utils  # noqa: SLF001 - there is no public name
    setattr(checks, _ON_GPU, lambda *_args, **_more: None)
    torch.cpu.Stream.synchronize = lambda _self: None

    @around(FlatParamHandle, "prepare_gradient_for_backward")
    def prepared(prepare: Any, handle: Any) -> None:
        prepare(handle)
        if handle._offload_params and hasattr(handle.flat_param, "_saved_grad_shard"):  # noqa: SLF001
            del handle.flat_param._saved_grad_shard  # noqa: SLF001 - the last gradient, to which a GPU adds nothing

    if hasattr(_optim_utils, _UNFLATTEN):

        @around(_optim_utils, _UNFLATTEN)
        def unflattened(unflatten: Any, info: Any, states: Any, name: Any, *rest: Any, **more: Any) -> None:
            for state in states.values():
                state[name] = state[name].clone()
            unflatten(info, states, name, *rest, **more)

    @around(FlatParamHandle, "flat_param_to")
    def moved(move: Any, handle: Any, *args: Any, **kwargs: Any) -> None:
        handle.flat_param.data = handle.flat_param.data.clone()
        move(handle, *args, **kwargs)


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
