"""Homes, users, hosts and addresses in what is made to be published."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode

import pytest

from ds_lint.output.private import PrivateNames, hidden, hosts_in_words, names_here

NAMES = PrivateNames(
    frozenset({"/data/nfs/carol"}), frozenset({"carol"}), frozenset({"gpu-17.cluster.example.org", "login"})
)

HOME_OF_ROOT = os.path.join(os.sep, "root")  # as a whole it would be a path of some machine


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/data/nfs/carol/proj/ds.json", "~/proj/ds.json"),
        ("in /home/alice/train.py, of alice", "in ~/train.py, of <user>"),
        ("/Users/bob/x and /nfs/home/dave/x", "~/x and ~/x"),
        (r"C:\Users\erin\ds.json", r"~\ds.json"),
        (f"{HOME_OF_ROOT}/ds.json, /data{HOME_OF_ROOT}/x", f"~/ds.json, /data{HOME_OF_ROOT}/x"),
        ("/scratch/carol/run_1, carol's run", "/scratch/<user>/run_1, <user>'s run"),
        ("carolina", "carolina"),
        ("gpu-17: step 1, on gpu-17.cluster.example.org", "<host>: step 1, on <host>"),
        ("gpu-18.cluster.example.org:29500", "<host>:29500"),
        ("gpu-171", "gpu-171"),
        ("ssh frank@node3.example.org", "ssh <user>@<host>"),
        ("ip-10-0-0-5.ec2.internal raised", "<host> raised"),
        ("tcp://10.1.2.3:29500", "tcp://<ip>:29500"),
        ("[fe80::1ff:fe23:4567:890a]:22, 2001:db8::1", "[<ip>]:22, <ip>"),
        ("127.0.0.1, ::1, 0.0.0.0, localhost", "127.0.0.1, ::1, 0.0.0.0, localhost"),
        ("cudnn 9.1.0.70 and 999.1.2.3", "cudnn 9.1.0.70 and 999.1.2.3"),
        ("12:30:45, c10d::Reducer, std::vector, at::Tensor", "12:30:45, c10d::Reducer, std::vector, at::Tensor"),
    ],
)
def test_what_is_hidden(text, shown):
    assert hidden(text, NAMES, kept={"9.1.0.70"}) == shown


def test_a_name_that_is_a_word_of_configs_is_hidden_in_paths_only():
    names = PrivateNames(users=frozenset({"optimizer"}), hosts=frozenset({"gpu"}))
    text = "/scratch/optimizer/x, optimizer.type, optimizer@gpu, GPU 0, gpu"
    assert hidden(text, names) == "/scratch/<user>/x, optimizer.type, <user>@<host>, GPU 0, gpu"


def test_the_hosts_in_the_command_of_the_launcher_are_hidden():
    world = urlsafe_b64encode(b'{"trainer-a": [0, 1], "trainer-b": [0, 1]}').decode()
    text = f"cmd = python -m deepspeed.launcher.launch --world_info={world} train.py; trainer-b fails"
    assert hidden(text, PrivateNames()) == (
        "cmd = python -m deepspeed.launcher.launch --world_info=<host> train.py; <host> fails"
    )


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        (["deepspeed", "--master_addr", "head-1", "train.py"], {"head-1"}),
        (["torchrun", "--rdzv-endpoint=head-1.local:29500"], {"head-1.local"}),
        (["deepspeed", "--include", "a1:0,1@b2:2"], {"a1", "b2"}),
        (["mpirun", "-H", "a1:8,b2:8", "python"], {"a1", "b2"}),
        (["accelerate", "launch", "--main_process_ip", None, "x.py"], set()),
        (["deepspeed", "--master_addr", "--bf16", "train.py"], set()),
    ],
)
def test_the_hosts_that_a_command_names(words, hosts):
    assert hosts_in_words(words) == hosts


def test_the_names_of_this_process(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "carol"))
    found = names_here(
        {"USER": "carla", "SLURMD_NODENAME": "node7", "MASTER_ADDR": "10.0.0.1", "HF_TOKEN": "not-to-be-seen",
         "WANDB_API_KEY": "short", "TOKENIZERS_PARALLELISM": "falsefalse"}
    )  # fmt: skip
    assert str(tmp_path / "carol") in found.homes
    assert {"carla", "carol"} <= found.users
    assert "node7" in found.hosts
    assert "10.0.0.1" not in found.hosts
    assert found.secrets == {"not-to-be-seen"}
    assert hidden("token not-to-be-seen", found) == "token ***"
