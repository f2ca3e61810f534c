"""The limits of memory that containers and jobs have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ds_lint.facts import cgroups

GIB = 2**30
V1, V2 = "cgroup rw,memory", "cgroup2 rw"


@pytest.fixture
def tree(monkeypatch, tmp_path):
    """Make the kernel's files: where the process is, what is mounted, and files of its cgroups by their paths."""

    def make(path, root, files, kind=V2):
        controllers = "0::" if kind == V2 else "4:memory:"
        (tmp_path / "cgroup").write_text(f"{controllers}{path}\n")
        (tmp_path / "mountinfo").write_text(f"30 20 0:1 {root} {tmp_path}/mounted rw - {kind.replace(' ', ' none ')}\n")
        for name, text in files.items():
            file = tmp_path / "mounted" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        monkeypatch.setattr(cgroups, "_CGROUPS", str(tmp_path / "cgroup"))
        monkeypatch.setattr(cgroups, "_MOUNTS", str(tmp_path / "mountinfo"))

    return make


def test_a_container_has_the_limit_of_its_root(tree):
    tree("/", "/", {"memory.max": 8 * GIB, "memory.current": GIB, "memory.stat": f"anon 1\ninactive_file {GIB // 2}"})
    assert cgroups.limit() == 8 * GIB
    assert cgroups.left() == 7.5 * GIB


def test_the_smallest_limit_up_the_tree_counts(tree):
    """As in a step of Slurm, or a unit of systemd below a slice."""
    tree("/job/step", "/", {"job/memory.max": 4 * GIB, "job/step/memory.max": "max", "job/memory.current": 3 * GIB})
    assert cgroups.limit() == 4 * GIB
    assert cgroups.left() == GIB


def test_a_path_of_the_host_begins_with_what_the_container_has_mounted(tree):
    files = {"memory.limit_in_bytes": 2 * GIB, "memory.usage_in_bytes": GIB, "memory.stat": "total_inactive_file 0"}
    tree("/docker/abc", "/docker/abc", files, V1)
    assert cgroups.limit() == 2 * GIB
    assert cgroups.left() == GIB


def test_version_1_tells_the_limit_above_the_container(tree):
    none = 2**63 - 4096
    tree("/pod/it", "/pod/it", {"memory.limit_in_bytes": none, "memory.stat": f"hierarchical_memory_limit {GIB}"}, V1)
    assert cgroups.limit() == GIB


def test_without_a_limit_there_is_none(tree):
    tree("/", "/", {"memory.max": "max", "memory.current": GIB})
    assert cgroups.limit() is None
    assert cgroups.left() is None


def test_a_process_in_real_cgroups_has_the_smallest_of_their_limits():
    is_v1 = Path("/sys/fs/cgroup/memory").is_dir()
    outer = Path("/sys/fs/cgroup/memory" if is_v1 else "/sys/fs/cgroup") / f"ds-lint-test-{os.getpid()}"
    inner, name = outer / "inner", "memory.limit_in_bytes" if is_v1 else "memory.max"
    try:
        inner.mkdir(parents=True)
        (outer / name).write_text(str(GIB))
        (inner / name).write_text(str(3 * GIB))
    except OSError:
        pytest.skip("this user may not make cgroups with limits")
    try:
        program = "import os; open(f'{0}/cgroup.procs', 'w').write(str(os.getpid()))".replace("{0}", str(inner))
        program += "; from ds_lint.facts import host; print(host.memory())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert int(done.stdout) == GIB
    finally:
        inner.rmdir()
        outer.rmdir()
