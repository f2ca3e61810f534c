"""What rules claim about environment variables, shown with the libraries that read them."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest

from ds_lint.knowledge import tables
from ds_lint.knowledge.environment import accelerators, allocator_options, is_known
from ds_lint.knowledge.environment_values import refusal
from ds_lint.knowledge.plugin_variables import keys_of_variables

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

# Values that builds of PyTorch 2.1, 2.4, 2.8, 2.13 and 2.15 for CUDA take, and that all of them refuse.
TAKEN = (
    "", "max_split_size_mb:512,expandable_segments:True", "garbage_collection_threshold:0.8", "max_split_size_mb:512,",
    "roundup_power2_divisions:4", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "max_split_size_mb:512MB",
    "max_split_size_mb: 512 , expandable_segments: True", "backend:native",
)  # fmt: skip
REFUSED = (
    "max_split_size:512", "max_split_size_mb:512,expandable_segment:True", "expandable_segments:true",
    "expandable_segments:1", "expandable_segments=True", "max_split_size_mb=512", "max_split_size_mb:10",
    "max_split_size_mb:abc", "garbage_collection_threshold:1.5", "roundup_power2_divisions:3", "backend:foo",
    "max_split_size_mb:512;expandable_segments:True", "'max_split_size_mb:512'", "Expandable_segments:True",
    "max_split_size_mb", "expandable_segments:", "garbage_collect_threshold:0.6",
)  # fmt: skip
PLUGIN = "from accelerate import DeepSpeedPlugin"
RANK = "import os; os.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='localhost')"
PRINTS = """
    import os, pathlib
    names = ("RANK", "WORLD_SIZE", "MASTER_PORT")
    pathlib.Path("rank" + os.environ["RANK"]).write_text(" ".join(os.environ[name] for name in names))
"""


@pytest.mark.parametrize("value", TAKEN)
def test_a_value_that_the_allocator_takes(value):
    """DS889 is silent; a build for the CPU reads what does not depend on CUDA."""
    import torch

    assert refusal("PYTORCH_CUDA_ALLOC_CONF", value) is None
    torch._C._accelerator_setAllocatorSettings(value)


@pytest.mark.parametrize("value", REFUSED)
def test_a_value_that_the_allocator_refuses(value):
    """DS889. A build for the CPU leaves options that it does not know, and the back end, to CUDA."""
    import torch

    assert refusal("PYTORCH_CUDA_ALLOC_CONF", value) is not None
    option = re.split("[:=]", value.split(",")[-1])[0]
    if option not in allocator_options() or option == "backend":
        return
    with pytest.raises((RuntimeError, ValueError)):
        torch._C._accelerator_setAllocatorSettings(value)


@pytest.mark.parametrize(
    ("variable", "program"),
    [
        ("TORCH_DISTRIBUTED_DEBUG=DETIAL", "import torch.distributed"),
        pytest.param("TORCH_DISTRIBUTED_DEBUG=detail", "import torch.distributed", marks=pytest.mark.long),
        pytest.param("TORCH_DISTRIBUTED_DEBUG=", "import torch.distributed", marks=pytest.mark.long),
        ("DS_ACCELERATOR=gpu", "import deepspeed"),
        pytest.param("DS_ACCELERATOR=cpu", "import deepspeed", marks=pytest.mark.long),
        ("DEEPSPEED_TIMEOUT=30min", "import deepspeed"),
        pytest.param("DEEPSPEED_TIMEOUT=60", "import deepspeed", marks=pytest.mark.long),
        ("MASTER_PORT=29xxx", f"import torch.distributed as one; {RANK}; one.init_process_group('gloo')"),
        ("ACCELERATE_DEEPSPEED_ZERO_STAGE=three", f"{PLUGIN}; DeepSpeedPlugin()"),
        pytest.param("ACCELERATE_DEEPSPEED_ZERO_STAGE=3", f"{PLUGIN}; DeepSpeedPlugin()", marks=pytest.mark.long),
    ],
)
def test_a_value_is_refused_where_the_library_raises(variable, program):
    """DS889."""
    name, _, value = variable.partition("=")
    environment = {**os.environ, name: value}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == (refusal(name, value) is not None), done.stderr
    assert done.returncode == 0 or "ValueError" in done.stderr


@pytest.mark.parametrize(
    "value", ["9.0", "8.0;9.0+PTX", "8.0 8.6", "9.0a", "8.0;9.0a", "10.0f", "Hopper", "80", "8.0,9.0"]
)
def test_an_architecture_is_a_number(value, monkeypatch):
    """DS889: what a builder of an op for the GPU does where it builds at run time."""
    from deepspeed.ops.op_builder.builder import CUDAOpBuilder

    class Builder(CUDAOpBuilder):
        def sources(self):
            return []

        def include_paths(self):
            return []

        def absolute_name(self):
            return "one"

    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", value)
    builder = Builder(name="one")
    builder.jit_mode = True
    if refusal("TORCH_CUDA_ARCH_LIST", value) is None:
        builder.compute_capability_args()
    else:
        with pytest.raises((ValueError, IndexError)):
            builder.compute_capability_args()


def test_the_accelerators_are_those_of_deepspeed():
    """DS889."""
    from deepspeed.accelerator.real_accelerator import SUPPORTED_ACCELERATOR_LIST

    assert set(SUPPORTED_ACCELERATOR_LIST) <= set(accelerators())


def test_names_in_the_installed_libraries_are_known():
    """DS888: what a module reads by a constant name with the prefix of a library."""
    import accelerate
    import deepspeed
    import transformers

    read = re.compile(
        r"""(?:environ(?:\.get)?[(\[]|getenv\()\s*["']((?:ACCELERATE|CUDA|DEEPSPEED|DS|FSDP|HF|NCCL|PYTORCH|TORCH)_\w+)"""
    )
    for library in (accelerate, deepspeed, transformers):
        for path in Path(library.__file__).parent.rglob("*.py"):
            names = read.findall(path.read_text(encoding="utf-8"))
            assert [name for name in names if not is_known(name)] == [], path


@pytest.mark.parametrize("variable", sorted(keys_of_variables()))
def test_a_variable_fills_only_auto(variable, monkeypatch):
    """DS890: the config that the plugin hands to DeepSpeed."""
    from accelerate import DeepSpeedPlugin

    key = keys_of_variables()[variable]
    given = {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "1"}.get(variable, "4" if len(key) == 1 else "true")
    if key[-1] in ("device", "nvme_path"):
        given = {"device": "cpu", "nvme_path": "/other"}[key[-1]]
    monkeypatch.setenv(variable, given)
    found = {}
    for has in ("auto", "value", "nothing"):
        config = {"zero_optimization": {"stage": 3}, "gradient_accumulation_steps": 1}
        value = {"auto": "auto", "value": {"stage": 3, "device": "nvme", "nvme_path": "/nvme"}.get(key[-1], 2)}.get(has)
        section = config
        for part in key[:-1]:
            section = section.setdefault(part, {})
        if has == "nothing":
            section.pop(key[-1], None)
        else:
            section[key[-1]] = value
        if has == "nothing" and key[-1] in ("stage", "gradient_accumulation_steps"):
            continue  # the plugin needs the one, and sets the other
        after = DeepSpeedPlugin(hf_ds_config=config).deepspeed_config
        for part in key:
            after = after.get(part, {}) if isinstance(after, dict) else after
        found[has] = after
        if has == "value":
            assert after == value
    assert str(found["auto"]).lower() in (given, f"{given}.0")
    assert found.get("nothing", {}) == {}


def ranks_of(folder, *command):
    (folder / "train.py").write_text(textwrap.dedent(PRINTS), encoding="utf-8")
    environment = {**os.environ, "MASTER_PORT": "29688", "WORLD_SIZE": "7", "RANK": "5"}
    subprocess.run([sys.executable, "-m", *command, "train.py"], cwd=folder, env=environment, check=True, timeout=120)
    return {path.name: path.read_text(encoding="utf-8").split() for path in folder.glob("rank*")}


@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("deepspeed", marks=pytest.mark.long)])
def test_a_launcher_overwrites_the_variables_of_ranks(launcher, tmp_path):
    """DS891."""
    if launcher == "torchrun":
        found = ranks_of(tmp_path, "torch.distributed.run", "--nproc_per_node", "2")
    else:
        info = base64.urlsafe_b64encode(json.dumps({"localhost": [0, 1]}).encode()).decode()
        words = (f"--world_info={info}", "--master_addr=127.0.0.1", "--master_port=29500", "--no_local_rank")
        found = ranks_of(tmp_path, "deepspeed.launcher.launch", *words)
    assert sorted(found) == ["rank0", "rank1"]
    assert {size for _, size, _ in found.values()} == {"2"}
    assert "29688" not in {port for *_, port in found.values()}


def test_the_store_names_its_releases():
    store = tables.load("environment")
    assert {"torch", "nccl", "deepspeed", "accelerate", "transformers"} <= store["libraries"].keys()
    assert all(one["releases"] and one["names"] for one in store["libraries"].values())
