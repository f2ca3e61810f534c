"""GPUs by name, and those of this machine."""

from __future__ import annotations

import re
import subprocess

import pytest

from ds_lint.facts.cluster_gpu import of_cluster
from ds_lint.facts.gpu import GIB, here, named
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables


@pytest.mark.parametrize(
    ("name", "kind", "memory"),
    [
        ("a100", "A100", 80),
        ("A100-40GB", "A100", 40),
        ("A100 40 GB", "A100", 40),
        ("RTX-3080-10GB", "RTX 3080", 10),
        ("NVIDIA A100-SXM4-80GB", "A100", 80),
        ("NVIDIA H100 80GB HBM3", "H100", 80),
        ("Tesla V100-SXM2-16GB", "V100", 16),
        ("Tesla T4", "T4", 16),
        ("RTX 4090", "RTX 4090", 24),
        ("rtx4090", "RTX 4090", 24),
        ("4090", "RTX 4090", 24),
        ("RTX 4090 48GB", "RTX 4090", 48),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti", 11),
        ("RTX-2080-Ti-22GB", "RTX 2080 Ti", 22),
        ("L40S", "L40S", 48),
        ("A10G", "A10G", 24),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", 48),
        ("AMD Instinct MI300X", "MI300X", 192),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000", 96),
        ("nvidia_a100_80gb_pcie", "A100", 80),
        ("A100 40 GiB", "A100", 40),
    ],
)
def test_a_name_is_understood_as_people_write_it(name, kind, memory):
    found = named(name)
    assert (found.name, found.memory) == (kind, memory * GIB)


@pytest.mark.parametrize(
    ("name", "supported"), [("V100", False), ("T4", False), ("A100", True), ("L4", True), ("MI300X", True)]
)
def test_bf16_begins_with_ampere(name, supported):
    assert named(name).supports_bf16 is supported


@pytest.mark.parametrize(
    "name",
    [
        *("A1000", "H1000", "RTX 4090 Laptop GPU", "TPU v4", "", "A", "4x A100", "A100 H100", "A100 40GB 80GB"),
        f"A100-{'9' * 5000}",
    ],
)
def test_an_unknown_name_is_one_line(name):
    with pytest.raises(UnreadableFact, match="unknown GPU") as caught:
        named(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MI300XX", "MI300X"),
        ("A100-8OGB", "A100-80GB"),
        ("A10O", "A100"),
        ("H1OO-80GB", "H100-80GB"),
        ("RTX-409O", "RTX 4090"),
        ("A100-80GBB", "A100-80GB"),
        ("V100-l6GB", "V100-16GB"),
    ],
)
def test_a_misspelled_name_has_a_suggestion(name, meant):
    with pytest.raises(UnreadableFact, match=f"unknown GPU {name!r}; did you mean {re.escape(meant)}\\?"):
        named(name)


def test_a_size_that_is_not_made_is_one_line():
    with pytest.raises(UnreadableFact, match="no A100 with 60 GB: it has 40 GB or 64 GB or 80 GB"):
        named("A100 60GB")


def test_every_gpu_is_found_by_its_own_names():
    for kind, facts in tables.load("gpus")["gpus"].items():
        assert [named(name).name for name in (kind, *facts.get("also", ()))] == [
            kind,
            *[kind] * len(facts.get("also", ())),
        ]


def test_every_gpu_says_what_it_is_known_by():
    for facts in tables.load("gpus")["gpus"].values():
        assert "compute_capability" in facts or facts["source"].startswith("https://")


def answers(monkeypatch, text):
    done = subprocess.CompletedProcess([], 0, stdout=text, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


def test_the_weakest_of_several_counts(monkeypatch):
    answers(monkeypatch, "NVIDIA A100-SXM4-40GB, 40960, 8.0\nTesla T4, 15360, 7.5\n")
    found = here()
    assert (found.name, found.compute_capability, found.supports_bf16) == ("Tesla T4", (7, 5), False)
    assert found.origin == "Tesla T4 with 15.0 GiB, by nvidia-smi"


@pytest.mark.parametrize("text", ["", "No devices were found\n", "GRID, [N/A], [N/A]\n"])
def test_an_answer_without_gpus_is_none(monkeypatch, text):
    answers(monkeypatch, text)
    assert here() is None


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(), subprocess.TimeoutExpired("nvidia-smi", 20), subprocess.CalledProcessError(9, "nvidia-smi")],
)
def test_a_machine_without_an_answer_has_no_gpu(monkeypatch, error):
    def run(*_, **__):
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    assert here() is None


@pytest.mark.parametrize(
    ("name", "kind", "memory"),
    [
        ("a100", "A100", 80),
        ("a100-40g", "A100", 40),
        ("a100_40gb", "A100", 40),
        ("a100-pcie-40gb", "A100", 40),
        ("a100_80g", "A100", 80),
        ("NVIDIA_A100-SXM4-40GB", "A100", 40),
        ("a100_3g.20gb", "A100 3g.20gb", 20),
        ("3g.20gb", "3g.20gb", 20),
        ("nvidia_h100_80gb_hbm3_1g.10gb", "H100 1g.10gb", 10),
        ("h100_nvl", "H100", 94),
        ("h100-96", "H100", 96),
        ("v100-32g", "V100", 32),
        ("v100_16", "V100", 16),
        ("l40s", "L40S", 48),
        ("rtx3090", "RTX 3090", 24),
        ("2080ti", "RTX 2080 Ti", 11),
        ("gh200", "GH200", 144),
    ],
)
def test_the_names_of_clusters_tell_the_memory(name, kind, memory):
    found = of_cluster(name)
    assert (found.name, found.memory) == (kind, memory * GIB)


@pytest.mark.parametrize("name", ["gpu", "a100l", "h100-47", "rtx6000", "volta", f"1g.{'9' * 5000}gb"])
def test_a_name_of_a_cluster_may_tell_nothing(name):
    assert of_cluster(name) is None
