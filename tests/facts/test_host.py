"""The machine under the GPUs."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ds_lint.facts import cgroups, host
from ds_lint.facts.unreadable import UnreadableFact

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [("512GB", 512 * GIB), ("512 GiB", 512 * GIB), ("64g", 64 * GIB), ("1.5T", 1536 * GIB), ("1048576", 2**20)],
)
def test_sizes_are_understood_as_people_write_them(text, size):
    assert host.size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0GB", "5 GBs", "GB"])
def test_what_is_no_size_is_one_line(text):
    with pytest.raises(UnreadableFact, match="is not a size of memory"):
        host.size(text)


def test_a_container_may_use_less_than_the_machine_has(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       2097152 kB\n", encoding="ascii")
    monkeypatch.setattr(host, "_MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(cgroups, "limit", lambda: None)
    assert host.memory() == 2 * GIB
    monkeypatch.setattr(cgroups, "limit", lambda: GIB)
    assert host.memory() == GIB


def test_where_nothing_tells_the_memory_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "_MEMINFO", str(tmp_path / "missing"))
    monkeypatch.setattr(cgroups, "limit", lambda: None)
    assert host.memory() is None


def test_free_is_what_neither_the_machine_nor_the_container_has_given_away(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "_MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(cgroups, "left", lambda: None)
    assert host.free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9999999 kB\nMemAvailable:    4194304 kB\n", encoding="ascii")
    assert host.free_memory() == 4 * GIB
    monkeypatch.setattr(cgroups, "left", lambda: GIB)
    assert host.free_memory() == GIB


def compiler(monkeypatch, answer):
    done = subprocess.CompletedProcess([], 0, stdout=answer, stderr="")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


@pytest.mark.parametrize(
    ("answer", "found"),
    [("/usr/lib/x86_64-linux-gnu/libaio.so\n", True), ("libaio.so\n", False)],
    ids=["there", "missing"],
)
def test_the_compiler_says_whether_libaio_is_there(monkeypatch, answer, found):
    compiler(monkeypatch, answer)
    assert host.has_async_io() is found


def test_flags_say_where_else_libaio_may_be(monkeypatch, tmp_path):
    compiler(monkeypatch, "libaio.so\n")
    (tmp_path / "libaio.so").touch()
    monkeypatch.setenv("LDFLAGS", f"-O2 -L{tmp_path}")
    assert host.has_async_io() is True


def test_without_a_compiler_it_is_unknown(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert host.has_async_io() is None
