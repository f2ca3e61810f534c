"""What an older accelerate does with YAML files for FSDP, up to the plugin; its package is first on ``PYTHONPATH``.

Standard input is a JSON array of paths; standard output is a JSON array of what is raised, null for nothing. GPUs are
pretended, and names of layers are looked up in a model that has them all.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import types
import warnings

import torch

warnings.simplefilter("ignore")
sys.modules.setdefault("pkg_resources", types.ModuleType("pkg_resources"))  # of the setuptools of that time

from accelerate.commands import launch  # noqa: E402 - with what is put there
from accelerate.utils import dataclasses as plugins  # noqa: E402
from accelerate.utils import launch as launch_utils  # noqa: E402


def model_with(names: list[str]) -> torch.nn.Module:
    """A model with a layer of each class that can have such a name, and one that it names itself."""
    layers = (type(name, (torch.nn.Linear,), {})(2, 2) for name in names if name.isidentifier())
    model = torch.nn.Sequential(*layers, torch.nn.Linear(2, 2))
    model._no_split_modules = ["Linear"]
    return model


def outcome(path: str) -> str | None:
    before = dict(os.environ)
    try:
        args = launch.launch_command_parser().parse_args(["--config_file", path, "train.py"])
        args, _, _ = launch._validate_launch_command(args)
        os.environ.update(launch_utils.prepare_multi_gpu_env(args))
        plugin = plugins.FullyShardedDataParallelPlugin()
        plugin.set_auto_wrap_policy(model_with(os.environ.get("FSDP_TRANSFORMER_CLS_TO_WRAP", "").split(",")))
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return None


def main() -> None:
    logging.disable()
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.is_available = lambda: True
    plugins.is_cuda_available = lambda *_, **__: True
    print("\0" + json.dumps([outcome(path) for path in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
