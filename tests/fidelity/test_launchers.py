"""The options of launchers are those of the installed releases, and their parsers take words as ds-lint does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ds_lint.launches.launchers import by_module, by_program
from ds_lint.launches.options import parsed
from tools import launcher_options

pytestmark = pytest.mark.fidelity


@pytest.mark.parametrize("launcher", launcher_options.LAUNCHERS)
def test_the_store_has_the_options_of_the_installed_release(launcher):
    from ds_lint.launches.options import _takes

    missing = {
        option: takes
        for option, takes in launcher_options.installed(launcher).items()
        if _takes(launcher).get(option) != takes
    }
    assert missing == {}


@pytest.mark.parametrize("name", [one for one in by_module() if importlib.util.find_spec(one.partition(".")[0])])
def test_python_starts_the_modules_of_launchers(name):
    assert '__name__ == "__main__"' in Path(importlib.util.find_spec(name).origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [one for one in by_program() if "." not in one and importlib.util.find_spec(one)])
def test_python_starts_no_package_that_is_called_like_a_program(name):
    assert importlib.util.find_spec(f"{name}.__main__") is None


WORDS = ["--nnodes", "2", "--nproc-per-node=4", "--rdzv_backend", "c10d", "train.py", "--lr", "1", "--nnodes", "9"]


def test_torchrun_takes_words_the_same_way():
    from torch.distributed.run import get_args_parser

    real = get_args_parser().parse_args(WORDS)
    ours = parsed("torchrun", list(WORDS))
    assert ours.rest == [real.training_script, *real.training_script_args]
    assert (ours.number("nnodes"), ours.number("nproc_per_node")) == (int(real.nnodes), int(real.nproc_per_node))


def test_deepspeed_takes_words_the_same_way():
    from deepspeed.launcher.runner import parse_args

    words = ["--num_gpus", "4", "-H", "hosts", "--force_multi", "--master_port=1", "train.py", "--num_gpus", "9"]
    real = parse_args(words)
    ours = parsed("deepspeed", list(words))
    assert ours.rest == [real.user_script, *real.user_args]
    assert (ours.number("num_gpus"), ours.options["H"], ours.has("force_multi")) == (4, real.hostfile, real.force_multi)


def test_accelerate_takes_words_the_same_way():
    from accelerate.commands.launch import launch_command_parser

    words = ["--config_file", "a.yaml", "--use_deepspeed", "--num_processes=4", "-m", "train", "--num_processes", "9"]
    real = launch_command_parser().parse_args(words)
    ours = parsed("accelerate", list(words))
    assert ours.rest == [real.training_script, *real.training_script_args]
    assert (ours.options["config_file"], ours.number("num_processes")) == (real.config_file, real.num_processes)


def test_accelerate_drops_the_ranks_that_are_left_over():
    """DS838: 8 processes on 3 machines."""
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    words = ["--multi_gpu", "--num_processes", "8", "--num_machines", "3", "--machine_rank", "1", "train.py"]
    arguments = launch_command_parser().parse_args([*words[:-1], "--main_process_ip", "node1", words[-1]])
    arguments.main_process_port, arguments.gpu_ids = 29500, "all"
    arguments.mixed_precision = arguments.dynamo_backend = "no"
    prepare_multi_gpu_env(arguments)
    assert (arguments.nproc_per_node, arguments.nnodes) == ("2", "3")
