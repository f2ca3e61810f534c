"""What is known of a machine without running anything but nvidia-smi: software, GPUs, the toolkit, build tools."""

from __future__ import annotations

import os
import sys

import pytest
from command_line import write_into

from ds_lint.facts import host
from ds_lint.facts.machine import driver, software, toolkit
from ds_lint.facts.machine.torch_build import torch_build

SMI = """\
#!/bin/sh
case "$1" in
  --query-gpu*)
    echo "NVIDIA A100-SXM4-80GB, 81920, 8.0, 550.54.15"
    echo "NVIDIA A100-SXM4-80GB, 81920, 8.0, 550.54.15"
    echo "Tesla T4, 15360, 7.5, 550.54.15" ;;
  *) echo "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |" ;;
esac
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a program that is the first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def program(name, text):
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    return program


# ----------------------------------------------------------------------------------------------------------------- GPUs


def test_gpus_of_a_kind_are_counted(program, monkeypatch):
    program("nvidia-smi", SMI)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    found = driver.driver()
    assert [(kind.name, kind.memory, kind.capability, kind.number) for kind in found.kinds] == [
        ("NVIDIA A100-SXM4-80GB", "81920", (8, 0), 2),
        ("Tesla T4", "15360", (7, 5), 1),
    ]
    assert (found.number, found.release, found.cuda, found.visible) == (3, "550.54.15", "12.4", "0,1")
    assert found.problem is None


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n", "fails with exit status 9: NVIDIA-SMI has failed"),
        ("#!/bin/sh\necho 'No devices were found'\n", "shows no GPU"),
        ("#!/bin/sh\nexec sleep 600\n", "does not answer within"),
    ],
)
def test_without_an_answer_the_reason_is_there(program, monkeypatch, script, problem):
    monkeypatch.setattr(driver, "PATIENCE", 1 if "sleep" in script else 60)
    program("nvidia-smi", script)
    found = driver.driver()
    assert found.kinds == ()
    assert problem in found.problem


def test_without_nvidia_smi_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert driver.driver().problem == "there is no nvidia-smi on PATH"


# ------------------------------------------------------------------------------------------------- toolkit and compiler


@pytest.mark.parametrize(
    ("name", "content", "release"),
    [
        ("version.json", {"cuda": {"version": "12.4.1"}, "cuda_nvcc": {"version": "12.4.131"}}, "12.4.131"),
        ("version.json", {"cuda": {"version": "12.4.1"}}, "12.4.1"),
        ("version.json", "[1", None),
        ("version.txt", "CUDA Version 10.2.89\n", "10.2.89"),
        ("include/cuda.h", "#define CUDA_VERSION 12080\n", "12.8"),
        ("targets/x86_64-linux/include/cuda.h", "#define CUDA_VERSION 13000\n", "13.0"),
        ("README", "", None),
    ],
)
def test_the_release_of_a_toolkit_is_in_a_file(tmp_path, monkeypatch, name, content, release):
    write_into(tmp_path)({name: content, "bin/nvcc": ""})
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert toolkit.toolkit() == (str(tmp_path), "CUDA_HOME", release, True)


def test_the_toolkit_is_found_as_torch_finds_it(program, tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(toolkit, "_USUAL", str(tmp_path / "usual"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert toolkit.toolkit() is None
    (tmp_path / "usual").mkdir()
    assert toolkit.toolkit() == (str(tmp_path / "usual"), str(tmp_path / "usual"), None, False)
    program("nvcc", "")
    assert toolkit.toolkit() == (str(tmp_path), "nvcc on PATH", None, True)


def test_the_release_of_a_compiler_is_in_the_name_of_its_file(program, tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert toolkit.build_tools() == (None, None, None)
    (tmp_path / "bin" / "c++").symlink_to(program("x86_64-linux-gnu-g++-12", ""))
    program("ninja", "")
    assert toolkit.build_tools() == (str(tmp_path / "bin" / "c++"), "12", str(tmp_path / "bin" / "ninja"))
    program("my-compiler", "")
    monkeypatch.setenv("CXX", "my-compiler")
    assert toolkit.build_tools().compiler_release is None


def test_what_torch_was_built_with(tmp_path):
    version = "from typing import Optional\n__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\nhip = None\n"
    write_into(tmp_path)({"torch/version.py": version})
    assert torch_build([str(tmp_path / "none"), str(tmp_path)]) == ("2.6.0+cu124", "12.4", None)
    write_into(tmp_path)({"torch/version.py": "not Python ("})
    assert torch_build([str(tmp_path)]) is None


# ------------------------------------------------------------------------------------------------------------- software


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Makes an environment with these distributions, in which the project trains."""

    def environment(*names, files=()):
        packages = tmp_path / "env" / "lib" / "python3.10" / "site-packages"
        write_into(packages)({f"{name}/METADATA": "" for name in names} | dict(files))
        monkeypatch.setattr(software, "training_environment", lambda _: [str(packages)])
        return packages

    return environment


def installed_in(directory):
    return {one.name: (one.release, one.origin, one.pinned) for one in software.software(str(directory)).installed}


def test_the_libraries_and_their_neighbours_are_listed(environment, tmp_path):
    environment(
        "deepspeed-0.16.9.dist-info", "nvidia_nccl_cu12-2.21.5.dist-info", "nvidia_cudnn_cu12-9.1.0.70.dist-info",
        "flash_attn-2.7.4.dist-info", "triton-3.2.0.dist-info", "requests-2.32.0.dist-info",
    )  # fmt: skip
    assert list(installed_in(tmp_path)) == [
        "deepspeed", "nvidia-nccl-cu12", "triton", "flash-attn", "nvidia-cudnn-cu12",
    ]  # fmt: skip


def test_python_is_that_of_the_environment(environment, tmp_path):
    environment("torch-2.6.0.dist-info")
    assert software.software(str(tmp_path)).python == "3.10"
    write_into(tmp_path / "env")({"pyvenv.cfg": "home = /usr/bin\nversion = 3.10.14\n"})
    assert software.software(str(tmp_path)).python == "3.10.14"


def test_without_an_environment_python_is_that_of_ds_lint(tmp_path, monkeypatch):
    monkeypatch.setattr(software, "training_environment", lambda _: [])
    assert software.software(str(tmp_path)).python == ".".join(map(str, sys.version_info[:3]))


def test_a_commit_and_an_editable_install_are_named(environment, tmp_path):
    environment(
        "deepspeed-0.16.10+abc.dist-info", "trl-0.16.0.dist-info", "peft-0.15.0.dist-info",
        files={
            "deepspeed-0.16.10+abc.dist-info/direct_url.json": {
                "url": "https://example.org/DeepSpeed", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"},
            },
            "trl-0.16.0.dist-info/direct_url.json": {"url": "file:///src", "dir_info": {"editable": True}},
            "peft-0.15.0.dist-info/direct_url.json": "[]",
        },
    )  # fmt: skip
    found = installed_in(tmp_path)
    assert found["deepspeed"][1] == "commit 0123456789ab of https://example.org/DeepSpeed"
    assert (found["trl"][1], found["peft"][1]) == ("editable", "")


def test_a_pin_is_named_where_it_differs(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment("deepspeed-0.16.9.dist-info", "transformers-4.50.0.dist-info", "torch-2.6.0+cu124.dist-info")
    write_into(tmp_path)(
        {
            "requirements.txt": "deepspeed==0.15.4\ntransformers>=4.40\ntorch==2.6.0\naccelerate==1.4.0\n",
            ".git/HEAD": "",
        }
    )
    found = installed_in(tmp_path)
    assert found["deepspeed"][2] == "==0.15.4 in requirements.txt:1"
    assert (found["transformers"][2], found["torch"][2]) == (None, None)
    assert [(one.name, one.pinned) for one in software.software(str(tmp_path)).missing] == [
        ("accelerate", "==1.4.0 in requirements.txt:4")
    ]


def test_the_size_of_shared_memory(monkeypatch):
    monkeypatch.setattr(host, "_SHARED", "/nowhere")
    assert host.shared_memory() is None
