"""What accelerate does with YAML files: starts or raises, and which keys it reads. Runs in a process of its own.

Standard input has JSON arrays of paths, one array a line; each path lies in a folder of its own. Standard output is one
JSON object a line, behind a null character.
Accelerate's own ``launch_command`` runs, with torchrun and the processes that it starts replaced by what the first rank
does: ``Accelerator()``, ``prepare`` and DeepSpeed's parsing of the config. Ranks of torchrun without DeepSpeed, and
those with degrees of parallelism, are in a group that torch pretends, on GPUs that are pretended. Names of layers are
looked up in a model that has them all. The libraries for fp8 are pretended.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import sys
import warnings
from argparse import Namespace
from typing import Any
from unittest.mock import MagicMock

import accelerate
import deepspeed
import torch
import yaml
from accelerate import Accelerator
from accelerate.commands import launch
from accelerate.commands.config import config_args
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DistributedType, DynamoBackend
from accelerate.utils import dataclasses as plugins
from accelerate.utils import launch as launch_utils
from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF
from torch.distributed import run as torchrun
from torch.testing._internal.distributed.fake_pg import FakeStore

SENTINEL = "\N{SECTION SIGN}"  # a value that no default is
read_yaml = yaml.safe_load
changed: dict[str, Any] = {}  # what is read instead of the file


class Started(Exception):  # noqa: N818 - nothing is wrong
    """The run has come as far as this program follows it."""


class Traced(Namespace):
    """A namespace that notes which names are set and which are read after that."""

    def __setattr__(self, name: str, value: Any) -> None:
        notes = object.__getattribute__(self, "__dict__").get("_notes")
        if notes is not None:
            notes["set"].setdefault(name, []).append(value)
            notes["read"].discard(name)
        super().__setattr__(name, value)

    def __getattribute__(self, name: str) -> Any:
        notes = object.__getattribute__(self, "__dict__").get("_notes")
        if notes is not None and name in object.__getattribute__(self, "__dict__") and not _is_default_put(name):
            notes["read"].add(name)
        return object.__getattribute__(self, name)


def _is_default_put(name: str) -> bool:
    """Whether the launch only looks if there is a compiler, to write "no" in place of none."""
    return name == "dynamo_backend" and sys._getframe(2).f_code.co_name == "_validate_launch_command"


def filtered(args: Any, parser: Any, default_args: Any = ()) -> Namespace:
    """What accelerate hands over to torchrun, all of which counts as read."""
    args._notes["read"] |= handed_over & set(vars(args))
    return filter_args(args, parser, default_args)


filter_args = launch_utils._filter_args


def run_by_torchrun(args: Namespace) -> None:
    """What torchrun and the first rank do with the arguments."""
    config, _, _ = torchrun.config_from_args(args)
    assert config.nproc_per_node > 0, "WorkerSpec of torch's elastic agent asserts this"
    made["ranks"] = config.nproc_per_node * config.max_nodes
    in_pretended_group(made["ranks"])


def has_degrees() -> bool:
    """Whether the launch has degrees of parallelism; Megatron-LM, which is not here, has its own."""
    is_megatron = os.environ.get("ACCELERATE_USE_MEGATRON_LM") == "true"
    return os.environ.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true" and not is_megatron


def is_on(name: str) -> bool:
    """Whether the launch has switched a kind of run on."""
    return os.environ.get(f"ACCELERATE_USE_{name}") == "true"


def needs_group() -> bool:
    """Whether the ranks take part in what follows; DeepSpeed's configs are the same for each number of them."""
    return has_degrees() or not is_on("DEEPSPEED")


def in_pretended_group(ranks: int) -> None:
    """What the first of so many ranks does."""
    if not needs_group():
        as_first_rank()
    os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        if is_on("FSDP"):
            as_first_rank_of_fsdp()
        as_first_rank()
    finally:
        deepspeed.comm.comm.cdb = None  # the group that DeepSpeed has found
        torch.distributed.destroy_process_group()


def begin() -> Accelerator:
    """``Accelerator()``, and the compiler that ``prepare`` would call."""
    for state in (AcceleratorState, PartialState, GradientState):
        state._shared_state.clear()
    accelerator = Accelerator()
    compiler = accelerator.state.dynamo_plugin
    if compiler.backend != DynamoBackend.NO:
        torch.compile(torch.nn.Linear(2, 2), **compiler.to_kwargs())
    return accelerator


def as_first_rank() -> None:
    if is_on("MEGATRON_LM"):
        raise Started  # which is not here
    accelerator = begin()
    if not is_on("DEEPSPEED"):
        raise Started
    model = torch.nn.Linear(2, 2)
    model.config = None  # as models of transformers have one
    data = torch.utils.data.DataLoader(torch.zeros(4, 2), batch_size=2)
    made["config"] = {**accelerator.state.deepspeed_plugin.deepspeed_config, "steps_per_print": None}  # else infinite
    made["zero3_init_flag"] = accelerator.state.deepspeed_plugin.zero3_init_flag
    names = os.environ.get("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", "")
    model.layers = model_with([name for name in names.split(",") if name != "Linear"])
    accelerator.prepare(model, torch.optim.AdamW(model.parameters()), data)


def as_first_rank_of_fsdp() -> None:
    """``Accelerator()``, and the names of layers that ``prepare`` looks up."""
    plugin = begin().state.fsdp_plugin
    made["plugin"] = {name: told(value) for name, value in vars(plugin).items() if name != "param_init_fn"}
    plugin.set_auto_wrap_policy(model_with(os.environ.get("FSDP_TRANSFORMER_CLS_TO_WRAP", "").split(",")))
    raise Started


def told(value: Any) -> str:
    """A value as text, without the address of an object."""
    return re.sub(r" at 0x\w+", "", repr(value))


def model_with(names: list[str]) -> torch.nn.Module:
    """A model with a layer of each class that can have such a name."""
    return torch.nn.Sequential(*(type(name, (torch.nn.Linear,), {})(2, 2) for name in names if name.isidentifier()))


made: dict[str, Any] = {}  # of the plugin


def initialize(**arguments: Any) -> None:
    config = arguments.get("config_params") or arguments["config"]
    if arguments.get("mpu") is not None:  # ranks that share a sequence are not here: the product does not come out
        del config["train_batch_size"]
    deepspeed.DeepSpeedConfig(config)
    raise Started


class Process:
    """A process that accelerate starts: DeepSpeed's launcher for several machines, or the script itself."""

    def __init__(self, command: list[Any], env: dict[str, str]) -> None:
        assert all(isinstance(word, str) for word in (*command, *env.values())), "subprocess wants texts"
        before = dict(os.environ)
        os.environ.update(env)
        try:
            if command[0] != "deepspeed":
                as_first_rank()
            in_pretended_group(ranks_of(command))
        finally:
            os.environ.clear()
            os.environ.update(before)


def ranks_of(command: list[str]) -> int:
    """How many ranks a command of DeepSpeed's launcher starts; one for each machine where a filter decides."""
    on_each = int(command[command.index("--num_gpus") + 1]) if "--num_gpus" in command else 1
    return max(on_each, 1) * int(vars(running[-1])["num_machines"])


def launched(path: str) -> dict[str, Any]:
    """What happens, and the notes of the namespace and of the file's own attributes."""
    args = launch.launch_command_parser().parse_args(["--config_file", path, "train.py"], namespace=Traced())
    notes: dict[str, Any] = {"set": {}, "read": set(), "asked": set(), "error": None}
    args.__dict__["_notes"] = notes
    asked_of.append(notes["asked"])
    running.append(args)
    before = dict(os.environ)
    try:
        launch.launch_command(args)
    except Started:
        pass
    except BaseException as error:
        notes["error"] = f"{type(error).__name__}: {error}"[:300]
    finally:
        asked_of.pop()
        running.pop()
        os.environ.clear()
        os.environ.update(before)
    return notes


asked_of: list[set[str]] = []
running: list[Namespace] = []
handed_over = set(vars(torchrun.get_args_parser().parse_known_args(["train.py"])[0]))  # the names that torchrun gets
get_attribute = config_args.ClusterConfig.__getattribute__


def ask(self: Any, name: str) -> Any:
    if asked_of and not name.startswith("__") and sys._getframe(1).f_code.co_filename == launch.__file__:
        asked_of[-1].add(name)
    return get_attribute(self, name)


def read_changed(stream: Any) -> Any:
    return copy.deepcopy(changed["value"]) if changed else read_yaml(stream)


def leaves(values: dict[str, Any]) -> list[tuple[str, ...]]:
    found = []
    for name, value in values.items():
        found += [(name, below) for below in value] if isinstance(value, dict) else [(name,)]
    return found


def unread(path: str, notes: dict[str, Any]) -> list[list[str]]:
    """The keys whose value reaches no name that is read, found by a value that is put in the place of each."""
    with open(path, encoding="utf-8") as file:
        values = read_yaml(file)
    read, found = notes["read"], []
    for more in VARIATIONS:  # which read what only features that are off here do
        changed["value"] = {**values, **more, "deepspeed_config": deepspeed_config(values, more)}
        read |= launched(path)["read"]
        changed.clear()
    for place in leaves(values):
        if len(place) == 1 and is_asked(place[0], notes):
            continue
        if place == ("fp16",) and "mixed_precision" not in values and "mixed_precision" in notes["asked"]:
            continue  # which it is turned into
        other = copy.deepcopy(values)
        section = other[place[0]] if len(place) == 2 else other
        section[place[-1]] = SENTINEL
        changed["value"] = other
        names = {name for name, given in launched(path)["set"].items() if SENTINEL in map(str, given)}
        changed.clear()
        if not names & read or makes_no_difference(path, values, place, names):
            found.append(list(place))
    return found


def makes_no_difference(path: str, values: dict[str, Any], place: tuple[str, ...], names: set[str]) -> bool:
    """Whether the plugin for FSDP is the same with every value that a setting of it can have."""
    name = next((name for name in names if name in OTHER_VALUES), None)
    if name is None or values.get("distributed_type") != "FSDP":
        return False
    outcomes = []
    for value in [values[place[0]][place[1]], *OTHER_VALUES[name]]:
        changed["value"] = copy.deepcopy(values)
        changed["value"][place[0]][place[1]] = value
        made.clear()
        error = launched(path)["error"]
        outcomes.append(error or made["plugin"])
        changed.clear()
    return all(outcome == outcomes[0] for outcome in outcomes)


FLAGS = [True, False]
OTHER_VALUES: dict[str, list[Any]] = {
    "fsdp_version": [1, 2],
    "fsdp_offload_params": FLAGS,
    "fsdp_min_num_params": [10, 20],
    "fsdp_sharding_strategy": ["FULL_SHARD", "SHARD_GRAD_OP"],
    "fsdp_reshard_after_forward": [*FLAGS, "FULL_SHARD", "SHARD_GRAD_OP"],
    "fsdp_auto_wrap_policy": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"],
    "fsdp_transformer_layer_cls_to_wrap": ["Block", "Layer"],
    "fsdp_backward_prefetch": ["BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"],
    "fsdp_state_dict_type": ["FULL_STATE_DICT", "SHARDED_STATE_DICT"],
    "fsdp_forward_prefetch": FLAGS,
    "fsdp_use_orig_params": FLAGS,
    "fsdp_cpu_ram_efficient_loading": FLAGS,
    "fsdp_sync_module_states": FLAGS,
    "fsdp_activation_checkpointing": FLAGS,
    "fsdp_activation_checkpointing_offload": FLAGS,
    "fsdp_ignored_modules": ["a", "b"],
}


TWO = {"num_machines": 2, "machine_rank": 1, "num_processes": 4, "main_process_ip": "10.0.0.1"}
VARIATIONS: tuple[dict[str, Any], ...] = (
    TWO,
    {**TWO, "deepspeed_config": {"deepspeed_multinode_launcher": "standard"}},
    {**TWO, "deepspeed_config": {"deepspeed_exclusion_filter": "a", "deepspeed_multinode_launcher": "pdsh"}},
    {**TWO, "deepspeed_config": {"deepspeed_inclusion_filter": "a", "deepspeed_multinode_launcher": "pdsh"}},
    {"mixed_precision": "fp8"},
)


def deepspeed_config(values: dict[str, Any], more: dict[str, Any]) -> Any:
    section = values.get("deepspeed_config")
    return {**section, **more.get("deepspeed_config", {})} if isinstance(section, dict) else section


def is_asked(name: str, notes: dict[str, Any]) -> bool:
    if name == "parallelism_config":
        return "use_parallelism_config" in notes["read"]
    if name == "deepspeed_config":
        return "deepspeed_fields_from_accelerate_config" in notes["read"]
    return name in notes["asked"] and name not in ("num_machines", "tpu_use_cluster")


def pretend_gpus() -> None:
    """The ranks of FSDP are told that they have GPUs; tensors stay on the CPU."""
    prepare_backend = PartialState._prepare_backend

    def prepared(self: Any, *arguments: Any, **named: Any) -> Any:
        if not needs_group() or "LOCAL_RANK" not in os.environ:
            return prepare_backend(self, *arguments, **named)
        self.device = torch.device("cpu")
        return "fake", DistributedType.MULTI_GPU

    PartialState._prepare_backend = prepared
    plugins.is_cuda_available = lambda *_, **__: True
    torch.cuda.current_device = lambda: "cpu"


def pretend_libraries() -> None:
    """The libraries for fp8 are there: each that the settings name, else TransformerEngine."""
    for name in ("torchao", "torchao.float8", "msamp"):
        sys.modules[name] = MagicMock()
    sys.modules["msamp"].deepspeed.initialize = initialize
    Accelerator._prepare_te = Accelerator._prepare_ao = lambda _, *prepared: prepared
    accelerate.accelerator.apply_fp8_autowrap = lambda model, *_: model
    for module in (accelerate.accelerator, plugins):
        module.is_torchao_available = lambda: os.environ.get("ACCELERATE_FP8_BACKEND") == "AO"
        module.is_transformer_engine_available = lambda: True
    for module in (launch_utils, accelerate.state):
        module.is_fp8_available = lambda: True


def main() -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    yaml.safe_load = read_changed
    config_args.ClusterConfig.__getattribute__ = ask
    torchrun.run = run_by_torchrun
    launch._filter_args = filtered
    launch.subprocess.Popen = Process
    deepspeed.initialize = initialize
    accelerate.accelerator.map_pytorch_optim_to_deepspeed = lambda optimizer: optimizer
    UlyssesSPAttentionHF.register_with_transformers = MagicMock()  # which wants such a model, and ranks
    # An op for ranks of one machine, which would be compiled; ``deepspeed.comm.torch`` as an attribute is torch itself.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    pretend_gpus()
    pretend_libraries()
    for path in (path for line in sys.stdin for path in json.loads(line)):
        os.chdir(os.path.dirname(path))
        made.clear()
        notes = launched(path)
        answer = {"path": path, "error": notes["error"], **copy.deepcopy(made)}
        if notes["error"] is None:
            answer["unread"] = unread(path, notes)
        sys.__stdout__.write("\0" + json.dumps(answer) + "\n")
        sys.__stdout__.flush()


if __name__ == "__main__":
    main()
