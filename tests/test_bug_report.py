"""``ds-lint bug-report``: what it writes of a machine, a project and a log, and what it must not show."""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple

import pytest
from command_line import ROOT, write_into
from jsonschema import Draft7Validator

from ds_lint.commands.parser import parse
from ds_lint.knowledge import resources

PARTS = [
    "Releases", "Machine", "DeepSpeed ops", "Launch", "Config", "Findings", "Known defects", "Log", "Training run",
]  # fmt: skip
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_cliping": 1.0,
    "gradient_predivide_factor": 1.0,
    "wall_clock_breakdown": False,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
}
LAUNCH = """\
#!/bin/bash
deepspeed --num_gpus 8 train.py --deepspeed_config conf/ds.json --run_name first
"""
LOG = """\
[2026-11-01 10:00:00,000] [INFO] [logging.py:96:log_dist] DeepSpeed info: version=0.16.4, git-hash=unknown
Traceback (most recent call last):
  File "/home/alice/proj/train.py", line 12, in <module>
    main()
  File "/home/alice/proj/train.py", line 7, in main
    engine.step()
ValueError: no step 3
"""
SMI = """\
#!/bin/sh
case "$1" in
  --query-gpu*) echo "NVIDIA A100-SXM4-80GB, 81920, 8.0, 550.54.15" ;;
  *) echo "Driver Version: 550.54.15   CUDA Version: 12.4" ;;
esac
"""


class Written(NamedTuple):
    """What the command wrote, and its status."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a launch and a log, and a machine with a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    write_into(tmp_path)(
        {"conf/ds.json": CONFIG, "run.sh": LAUNCH, "train.py": "import deepspeed\n", "train.log": LOG,
         "requirements.txt": "deepspeed==0.16.4\n", ".git/HEAD": "", "bin/nvidia-smi": SMI}
    )  # fmt: skip
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    return tmp_path


@pytest.fixture
def written(project, capsys, monkeypatch):
    """What the command writes in this process: a start of Python costs as much as all else."""

    def written(*arguments, **environment) -> Written:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return Written(parse(["bug-report", *arguments]), *capsys.readouterr())

    return written


@pytest.fixture
def report(written):
    """The report as text: its parts by name."""

    def report(*arguments, **environment):
        result = written(*arguments, **environment)
        assert result.returncode == 0, result.stderr
        names = re.findall(r"^### (.+)$", result.stdout, re.MULTILINE)
        return dict(zip(names, re.split(r"^### .+$", result.stdout, flags=re.MULTILINE)[1:], strict=True))

    return report


def test_every_part_is_there(report):
    assert list(report()) == PARTS


def test_a_part_of_which_nothing_is_known_has_one_line(report, tmp_path):
    (tmp_path / "empty").mkdir()
    found = report("empty")
    assert list(found) == PARTS
    assert found["Launch"].strip() == "None was found: add the command that starts the training."
    assert found["Config"].strip() == "No DeepSpeed config was found."
    assert found["Findings"].strip() == found["Known defects"].strip() == "Nothing was checked."
    assert found["Log"].strip() == "None was named: `ds-lint bug-report LOG` adds what it shows."
    assert found["Training run"].strip() == "None was made: `--smoke` trains a few steps with each config."


def test_the_machine_is_that_of_nvidia_smi(report):
    machine = report()["Machine"]
    assert "1 x NVIDIA A100-SXM4-80GB, 81920 MiB, compute capability 8.0" in machine
    assert "550.54.15, for CUDA up to 12.4" in machine
    assert re.search(r"^/dev/shm +\d+\.\d GiB$", machine, re.MULTILINE)


def test_without_nvidia_smi_no_gpu_is_known(report, project):
    (project / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho broken\nexit 1\n")
    assert "none is known: nvidia-smi fails with exit status 1: broken" in report()["Machine"]


def test_the_launch_is_that_of_the_project(report):
    launch = report()["Launch"]
    assert "run.sh:2  deepspeed, 8 ranks, script train.py, DeepSpeed config conf/ds.json" in launch
    assert "deepspeed --num_gpus 8 train.py --deepspeed_config conf/ds.json --run_name first" in launch
    assert "run.sh:2" in report("conf/ds.json")["Launch"]  # of a config, the launch that names it


def test_the_default_config_of_accelerate_is_shown(report, project):
    write_into(project)(
        {"cache/accelerate/default_config.yaml": "distributed_type: DEEPSPEED\nmain_process_ip: 10.1.2.3\n"}
    )
    launch = report(HF_HOME=str(project / "cache"))["Launch"]
    assert "distributed_type: DEEPSPEED\nmain_process_ip: <ip>\n" in launch


def test_the_config_begins_with_what_is_not_default(report):
    changed, every = report("conf/ds.json", "--stack", "deepspeed")["Config"].split("<details>")
    assert "conf/ds.json (stack deepspeed, deepspeed 0.16.4, " in changed
    assert ", named by run.sh:2)" in changed
    assert "zero_optimization.stage = 2 " in changed
    assert "gradient_predivide_factor" not in changed  # it is written as its default
    assert "wall_clock_breakdown" not in changed
    assert "wall_clock_breakdown = false" in every
    assert "zero_optimization.allgather_bucket_size" in every


def test_of_many_configs_those_that_are_launched_are_shown(report, project):
    write_into(project)({f"other/{name}.json": CONFIG for name in "abcdef"})
    config = report()["Config"]
    assert config.count("All values") == 1
    assert "conf/ds.json (stack" in config
    assert re.search(r"not shown: .*other/a.json, .*other/f.json", config)


def test_findings_and_defects_are_those_of_the_project(report):
    found = report("conf/ds.json")
    assert "stack unknown, taken as deepspeed" in found["Config"]
    assert "conf/ds.json:1:" in found["Findings"]
    assert "DS101 [error] unknown key `gradient_cliping`" in found["Findings"]
    assert "May be reached: " in found["Known defects"]


def test_the_log_says_why_it_ended(report):
    log = report("train.log")["Log"]
    assert "ValueError: no step 3" in log
    assert "What shows it" in log
    assert 'File "~/proj/train.py", line 7, in main\nValueError: no step 3' in log


def test_the_release_in_a_log_is_named_if_it_is_another(report, project):
    def logged(release):
        (project / "train.log").write_text(LOG.replace("0.16.4", release))
        return report("train.log", VIRTUAL_ENV=str(project / "env"))["Releases"]

    write_into(project / "env" / "lib" / "python3.10" / "site-packages")({"deepspeed-0.15.0.dist-info/METADATA": ""})
    (installed,) = re.findall(r"^deepspeed +([\d.]+)", logged("0.14.0"), re.MULTILINE)  # beside ds-lint, or in there
    assert "the project pins ==0.16.4 in requirements.txt:1; the log shows 0.14.0" in logged("0.14.0")
    assert "the log shows" not in logged(installed)


def test_a_log_may_come_from_standard_input(run, project):
    result = run("bug-report", "-", stdin=LOG)
    assert result.returncode == 0
    assert "ValueError: no step 3" in result.stdout


def test_without_a_project_the_config_is_the_one_that_the_log_shows(report, project):
    printed = json.dumps({**CONFIG, "auth_token": "sekrit-of-log"}, indent=4)
    lines = [f"[2026-11-01 10:00:00,000] [INFO] [config.py:1000:print_user_config]   json = {printed}", LOG]
    write_into(project)({"logs/train.log": "\n".join(lines), "empty/README": ""})
    config = report("logs/train.log", "empty")["Config"]
    assert re.search(r"^zero_optimization.stage = 2 +printed in logs/train.log$", config, re.MULTILINE)
    assert "sekrit-of-log" not in config


def test_nothing_that_a_project_writes_ends_a_block(report, project):
    write_into(project)({"conf/ds.json": {**CONFIG, "wandb": {"group": "```\n### Mine\n@someone"}}})
    found = report("conf/ds.json")
    assert list(found) == PARTS
    assert found["Config"].count("````text") == 2


def test_control_characters_are_shown(report, project):
    write_into(project)({"conf/ds.json": {**CONFIG, "a\x1b[31m": "b\u202e"}})
    found = report("conf/ds.json")
    assert "\x1b" not in str(found.values())
    assert "a<U+001B>[31m" in found["Config"]
    (project / "train.log").write_text(LOG.replace("no step 3", "no \x07step"))
    assert "no <U+0007>step" in report("train.log")["Log"]


def test_secrets_and_private_names_are_in_no_part(written, project):
    home = project / "home" / "carol"
    secrets = [
        "sekrit-of-config", "sekrit of argument", "sekrit-of-export", "hf_abcdefghijklmnopqrstuvwx", "sekrit-of-env",
    ]  # fmt: skip
    write_into(project)(
        {
            "conf/ds.json": {**CONFIG, "hub_token": secrets[0], "out": f"{home}/out"},
            "run.sh": f"export WANDB_API_KEY={secrets[2]}\ndeepspeed --num_gpus 8 --master_addr head-7 train.py "
            f"--deepspeed_config conf/ds.json --hub_token '{secrets[1]}' --data {home}/data\n",
            "train.log": LOG.replace(
                "no step 3",
                f"no {home}/x of carol on gpu-node9.cluster.example.org (10.1.2.3), head-7, as dave@gpu-node8; "
                f"{' '.join(secrets)} https://dave:pass-word@example.org",
            ),
        }
    )
    private = [*secrets, "carol", "alice", "dave", "gpu-node9", "gpu-node8", "head-7", "example.org (", "10.1.2.3",
               "pass-word", str(home)]  # fmt: skip
    variables = {
        "HOME": str(home), "USER": "carol", "HOSTNAME": "gpu-node9.cluster.example.org", "HF_TOKEN": secrets[4],
    }  # fmt: skip
    for output_format in ("markdown", "json"):
        result = written("train.log", ".", "--output-format", output_format, **variables)
        assert result.returncode == 0, result.stderr
        assert [one for one in private if one in result.stdout] == []
        assert "no ~/x of <user> on <host> (<ip>), <host>, as <user>@<host>" in result.stdout


def test_json_is_what_the_schema_describes(written):
    with open(resources.path("schemas", "bug_report.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    Draft7Validator.check_schema(schema)
    for arguments in ((), ("train.log", "."), ("conf/ds.json", "--stack", "deepspeed")):
        result = written(*arguments, "--output-format", "json")
        found = json.loads(result.stdout)
        Draft7Validator(schema).validate(found)
    assert found["configs"][0]["values"][0]["key"] == "train_micro_batch_size_per_gpu"
    assert found["smoke"] is None


def test_it_goes_to_a_file(written, project):
    result = written("--output-file", "report.md")
    assert (result.returncode, result.stdout) == (0, "")
    assert (project / "report.md").read_text(encoding="utf-8").startswith("<!-- Written by ds-lint")
    result = written("--output-file", "absent/report.md")
    assert result.returncode == 2
    assert "absent/report.md: No such file or directory" in result.stderr


def test_what_cannot_be_read_is_wrong_usage(written, project):
    result = written("absent.log")
    assert (result.returncode, result.stdout) == (2, "")
    assert "absent.log: no such file or folder" in result.stderr
    (project / "model.bin").write_bytes(b"\0\1\2")
    result = written("model.bin")
    assert result.returncode == 2
    assert "### Log" in result.stdout  # the rest is written all the same


def test_torch_is_not_imported(run, project):
    write_into(project)({f"path/{name}/__init__.py": "raise SystemExit(9)" for name in ("torch", "deepspeed")})
    result = run("bug-report", PYTHONPATH=f"{project / 'path'}{os.pathsep}{ROOT}")
    assert result.returncode == 0, result.stderr


@pytest.mark.fidelity
def test_a_training_run_is_in_the_report_if_it_is_wanted(run, project):
    pytest.importorskip("deepspeed")
    result = run("bug-report", "conf/ds.json", "--smoke", "--stack", "deepspeed")
    assert "smoke: " in result.stdout.partition("### Training run")[2]
