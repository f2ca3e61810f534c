"""What ds-lint makes of flags of ``accelerate launch`` and a YAML, against the namespace of Accelerate's own parser."""

from __future__ import annotations

import json
import random
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import warm
import yaml
from accelerate_files import BASES, FSDP_BASES
from installed import measured_with_the_newest

from ds_lint.knowledge.keys import knowledge
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.launch import AccelerateLaunch
from ds_lint.source import yaml as yaml_source
from ds_lint.source.tree import Member, Node, Span

PROGRAM = Path(__file__).parent / "programs" / "accelerate_flags.py"

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

FLAGS: dict[str, list[str | None]] = {
    "use_deepspeed": [None], "multi_gpu": [None], "use_fsdp": [None], "cpu": [None], "zero_stage": ["2", "3"],
    "mixed_precision": ["no", "fp16", "bf16"], "num_processes": ["4", "1"], "num_machines": ["2"],
    "machine_rank": ["1"], "gradient_accumulation_steps": ["8"], "gradient_clipping": ["0.5"],
    "offload_optimizer_device": ["cpu", "none"], "offload_param_device": ["cpu"], "zero3_init_flag": ["true"],
    "zero3_save_16bit_model": ["true", "yes"], "deepspeed_config_file": ["ds.json"], "gpu_ids": ["0,1", "all"],
    "main_process_port": ["29501"], "fsdp_version": ["2"], "fsdp_offload_params": ["true"], "debug": [None],
    "fsdp_min_num_params": ["200"], "dynamo_backend": ["inductor"], "rdzv_backend": ["c10d"], "same_network": [None],
    "deepspeed_multinode_launcher": ["standard"], "offload_optimizer_nvme_path": ["/nvme"],
    "parallelism_config_tp_size": ["2"], "use_megatron_lm": [None], "enable_cpu_affinity": [None],
}  # fmt: skip
# What depends on the machine, or is not kept by the launch.
_OF_MACHINE = ("num_cpu_threads_per_process", "num_processes", "training_script", "config_file", "use_cpu")


def namespaces(commands: list[list[str]]) -> list[dict[str, Any]]:
    """What accelerate makes of each command."""
    process = launching()
    answers = []
    for words in commands:
        process.stdin.write(json.dumps(words) + "\n")
        process.stdin.flush()
        while not (line := process.stdout.readline()).startswith("\0"):
            assert line, f"{PROGRAM} has ended"
        answers.append(json.loads(line[1:]))
    return answers


@cache
def launching() -> subprocess.Popen[str]:
    return warm.start(str(PROGRAM), {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})


def random_launch(draw: random.Random) -> tuple[dict[str, Any] | None, dict[str, str | None]]:
    """A YAML, or none, and flags."""
    base: dict[str, Any] | None = {**draw.choice(BASES)}
    if draw.random() < 0.3:
        base = {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": draw.choice(FSDP_BASES)}
    if draw.random() < 0.25:
        base = None
    names = draw.sample(list(FLAGS), draw.choice([1, 2, 2, 3, 4]))
    if base is None and "use_deepspeed" not in names:
        names.append("use_deepspeed")
    return base, {name: draw.choice(FLAGS[name]) for name in names}


def modelled(base: dict[str, Any] | None, flags: dict[str, str | None]) -> AccelerateLaunch:
    """The same launch as ds-lint has it."""
    members = [Member(name, Span(0, 0), Node("string", Span(0, 0), value or "")) for name, value in flags.items()]
    if base is None:
        return AccelerateLaunch(Node("object", Span(0, 0)), knowledge(), members, is_command=True)
    (document,) = yaml_source.read(yaml.safe_dump(base), "accelerate.yaml")
    assert document.root is not None
    return AccelerateLaunch(document.root, knowledge(), members)


def differences(folder: Path, count: int, seed: int) -> tuple[list[str], int]:
    """The launches over which ds-lint and accelerate disagree, and how many start."""
    draw = random.Random(seed)
    launches = [random_launch(draw) for _ in range(count)]
    commands = []
    for number, (base, flags) in enumerate(launches):
        words = [word for name, value in flags.items() for word in (f"--{name}", value) if word is not None]
        if base is not None:
            path = folder / f"{number}.yaml"
            path.write_text(yaml.safe_dump(base), encoding="utf-8")
            words += ["--config_file", str(path)]
        commands.append([*words, "train.py"])
    found, started = [], 0
    for (base, flags), words, real in zip(launches, commands, namespaces(commands), strict=True):
        if real["error"] is not None:
            continue
        started += 1
        launch = modelled(base, flags)
        if launch.launcher != real["launcher"]:
            found.append(f"{launch.launcher} against {real['launcher']}: {words} {base}")
        for name, setting in launch.settings.items():
            if name in _OF_MACHINE or setting.value is UNKNOWN or name not in real["namespace"]:
                continue
            if name not in flags and setting.value == launch.arguments.get(name):
                continue  # of which the parser may make something else
            if str(setting.value) != real["namespace"][name] and launch.reads(name):
                found.append(f"{name} {setting.value!r} against {real['namespace'][name]}: {words} {base}")
    return found, started


@pytest.mark.parametrize(
    ("count", "seed"), [(200, 1), pytest.param(3000, 2, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_flags_and_a_file(count: int, seed: int, tmp_path: Path) -> None:
    """DS662, DS663: which launcher runs, and with which value of each setting."""
    found, started = differences(tmp_path, count, seed)
    assert started > count / 3
    assert not found, "\n".join(found)
