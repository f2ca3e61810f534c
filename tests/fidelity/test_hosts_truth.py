"""What ds-lint says of hostfiles and of the options that choose hosts, against the launcher of DeepSpeed itself.

DS834, DS883 and the number of ranks: the launcher runs up to the command that it would start, on a machine with eight
GPUs, with every host and backend there.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
import shlex
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deepspeed")

from installed import INSTALLED, measured_with_the_newest
from linted import lint_bytes, lint_dict

from ds_lint.facts import Facts
from ds_lint.facts.launched import LaunchFacts
from ds_lint.launches.scripts import launches_in
from ds_lint.source.document import Document

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 0}}
HOSTFILES = [
    None,
    "a slots=4\nb slots=4\n",
    "a slots=4\nb slots=2\n",
    "# the cluster\na slots=8 # rack 1\n\n  b   slots=8 max_slots=9\nc slots=8\n",
    "localhost slots=8\n",
    "a slots=4\n",
    "a slots=0\nb slots=4\n",
    "a slots=8x\nb slots=8\n",
]
BAD_HOSTFILES = [
    "a slots=8\na slots=8\n",
    "a slots=8\nb lots=8\n",
    "a\nb\n",
    "a slots = 8\n",
    "a:8\n",
    "a SLOTS=8\n",
    "slots=8\n",
    "",
    "# none\n",
]
FILTERS = [
    *("a", "a@b", "a:0", "a:0,1", "a:1,2@b:1,2", "b:0,1,1", "c", "a:9", "a:0-3", "a:", "a:0:1", "localhost"),
    *("localhost:0,1", "worker-0:0", "127.0.0.1:0", "0,1", "a:0@a:1", "b@a", "a:-1", "a:0,1,2,3"),
]
VISIBLE = ["0,1", "2", "GPU-8932f937", "MIG-1", "0,1,", "0, 1", "-1", "all", "0:1"]
LAUNCHERS = ["pdsh", "openmpi", "OpenMPI", "mpich", "impi", "mvapich", "slurm", "torchrun"]


def requests(seed: int, number: int) -> Iterator[tuple[list[str], str | None, str]]:
    """Words, hostfiles and values of CUDA_VISIBLE_DEVICES."""
    chance = random.Random(seed)

    def maybe(part: float) -> bool:
        return chance.random() < part

    for _ in range(number):
        hosts = chance.choice(BAD_HOSTFILES if maybe(0.1) else HOSTFILES)
        words = ["--hostfile", "hosts"] if hosts is not None else []
        if hosts is None and maybe(0.2):
            words = ["--hostfile", chance.choice(["/dev/null", "None"])]
        for name in ("--include", "--exclude"):
            if maybe(0.3):
                words += [name, chance.choice(FILTERS)]
        for name, values in (("--num_nodes", "0123"), ("--num_gpus", "0248")):
            if maybe(0.25):
                words += [name, chance.choice(values)]
        if maybe(0.3):
            words += ["--launcher", chance.choice(LAUNCHERS)]
        if maybe(0.2):
            words.append("--no_ssh")
        if maybe(0.2):
            words += ["--node_rank", chance.choice(["0", "1", "2", "-1"])]
        if maybe(0.1):
            words.append("--force_multi")
        if maybe(0.3):
            words += ["--master_addr", "a"]
        yield words, hosts, chance.choice(VISIBLE) if maybe(0.25) else ""


class _HandedOverError(Exception):
    """The launcher starts this command."""


@pytest.fixture(scope="module")
def real():
    """A function that gives what the launcher raises, or the slots of each host; None if a backend gets a hostfile."""
    from deepspeed.accelerator import get_accelerator
    from deepspeed.launcher import runner

    def start(command: list[str], **_: Any) -> None:
        raise _HandedOverError(command)

    def launched(words: list[str]) -> Exception | dict[str, list[int]] | None:
        try:
            runner.main([*words, "train.py"])
        except _HandedOverError as started:
            found = [word.partition("=")[2] for word in started.args[0] if word.startswith("--world_info=")]
            slots = json.loads(base64.urlsafe_b64decode(found[0])) if found else None
            return IndexError("main in deepspeed/launcher/launch.py finds no node") if slots == {} else slots
        except Exception as error:
            return error
        raise AssertionError("the launcher starts nothing")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(get_accelerator()), "device_count", lambda _: 8)
        patched.setattr(type(get_accelerator()), "visible_devices_envs", lambda _: ["CUDA_VISIBLE_DEVICES"])
        patched.setattr(runner.subprocess, "Popen", start)
        patched.setattr(runner.subprocess, "check_call", lambda *_, **__: 0)
        patched.setattr(runner.subprocess, "check_output", lambda *_, **__: b"10.0.0.1")
        for backend in runner.LAUNCHER_CLASSES.values():
            patched.setattr(backend, "backend_exists", lambda _: True)
        yield launched


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_the_launcher_raises_where_ds_lint_reports_it(real, seed, monkeypatch, tmp_path):
    """DS834 and DS883 report an error if and only if the launcher raises; DS832: if not, it hands on these ranks."""
    monkeypatch.chdir(tmp_path)
    differing = []
    for words, hosts, visible in requests(seed, 400):
        (tmp_path / "hosts").write_text(hosts or "", encoding="utf-8")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        done = real(words)
        set_ = f"CUDA_VISIBLE_DEVICES={shlex.quote(visible)} " if visible else ""
        command = f"{set_}deepspeed {shlex.join(words)} train.py --deepspeed_config ds.json"
        (launch,) = launches_in(command, "run.sh", {"hosts": hosts}.get).launches
        facts = Facts().with_launch(LaunchFacts(launch, Document("run.sh", command, None, []), None))
        findings = lint_dict(CONFIG, target=INSTALLED, stack="deepspeed", facts=facts).findings
        says = [one for one in findings if one.code in ("DS834", "DS883") and one.effect == "rejected"]
        is_raised = isinstance(done, Exception)
        if [one.effect for one in says] != ["rejected"] * is_raised:
            differing.append((command, hosts, repr(done), [one.message for one in says]))
        elif is_raised and type(done).__name__ not in says[0].message:
            differing.append((command, hosts, repr(done), says[0].message))
        elif isinstance(done, dict) and launch.world_size is not None:
            sizes = {len(slots) for slots in done.values()}
            if launch.nodes != len(done) or launch.world_size != sum(map(len, done.values())) or len(sizes) > 1:
                differing.append((command, hosts, done, launch.nodes, launch.world_size))
    assert differing == []


MACHINES = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
main_process_ip: a
main_process_port: 29500
num_machines: 2
num_processes: 16
machine_rank: {rank}
deepspeed_config:
  zero_stage: 2
"""
BACKENDS = [None, "pdsh", "openmpi", "mvapich", "mpich", "slurm", "nossh", "standard"]
OF_ACCELERATE = [None, "deepspeed_inclusion_filter: a@b", "deepspeed_exclusion_filter: b:7"]
BOTH = "a slots=8\nb slots=8\n"


def test_accelerate_hands_over_what_ds_lint_says(real, monkeypatch, tmp_path):
    """DS886: whether the machines train alone, or DeepSpeed's launcher raises over what Accelerate gives it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text(BOTH, encoding="utf-8")
    differing = []
    for rank, hosts, launcher, chosen in itertools.product((0, 1), (None, "hosts"), BACKENDS, OF_ACCELERATE):
        text = MACHINES.format(rank=rank) + (f"  {chosen}\n" if chosen else "")
        text += f"  deepspeed_multinode_launcher: {launcher}\n" if launcher else ""
        text += f"  deepspeed_hostfile: {hosts}\n" if hosts else ""
        (tmp_path / "acc.yaml").write_text(text, encoding="utf-8")
        words = handed_over("acc.yaml")
        done = real(words) if words is not None else None
        findings = lint_bytes(text.encode(), "acc.yaml", target=INSTALLED).findings
        says = [one.effect for one in findings if one.code == "DS886"]
        if isinstance(done, Exception):
            is_alone = isinstance(done, AssertionError) and not hosts  # machine 0 trains, the other one raises
            expected = ["risk" if is_alone else "rejected"]
        else:
            expected = ["risk"] if done is not None and len(done) == 1 else []
        if "slurm backend" in str(done):
            expected = []  # by the slots of a hostfile that only a launch of the project shows
        if says != expected:
            differing.append((text, done, says))
    assert differing == []


def handed_over(file: str) -> list[str] | None:
    """The words that ``accelerate launch`` starts ``deepspeed`` with; None if it starts torchrun."""
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    arguments = launch.launch_command_parser().parse_args(["--config_file", file, "train.py"])
    arguments, _, _ = launch._validate_launch_command(arguments)
    arguments.deepspeed_fields_from_accelerate_config = ""
    command, _ = prepare_deepspeed_cmd_env(arguments)
    return command[1:-1] if command else None
