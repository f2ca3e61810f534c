"""The memory and /dev/shm of containers around a launch."""

from __future__ import annotations

import pytest

from ds_lint.launches import manifest
from ds_lint.launches.scripts import launches_in

GIB, MIB = 2**30, 2**20
LAUNCH = "torchrun --nproc_per_node 8 train.py --deepspeed_config ds.json"


def container_of(launches):
    (launch,) = launches.launches
    return launch.memory, launch.container.shared_memory


@pytest.mark.parametrize(
    ("command", "memory", "shared"),
    [
        (f"docker run --gpus all img {LAUNCH}", None, 64 * MIB),
        (f"docker run --memory=64g --shm-size 16GB img {LAUNCH}", 64 * GIB, 16 * GIB),
        (f"podman run -m 1.5t --ipc host img {LAUNCH}", 1536 * GIB, None),
        (f"docker run $MORE -m 64g img {LAUNCH}", 64 * GIB, None),
        (f"#SBATCH --mem=32G\ndocker run -m 64g img {LAUNCH}", 32 * GIB, 64 * MIB),
        (f"#SBATCH --mem=32G\ndocker run img {LAUNCH}", 32 * GIB, 64 * MIB),
        (f"docker run -m {'9' * 400}g --ipc host img {LAUNCH}", None, None),
    ],
)
def test_options_of_a_container(command, memory, shared):
    assert container_of(launches_in(command, "run.sh", lambda _: None)) == (memory, shared)


@pytest.mark.parametrize(
    ("service", "memory", "shared"),
    [
        ("image: img", None, 64 * MIB),
        ("mem_limit: 64g\n    shm_size: 8gb", 64 * GIB, 8 * GIB),
        ("deploy: {resources: {limits: {memory: 32G}}}\n    ipc: host", 32 * GIB, None),
        ("volumes: ['/dev/shm:/dev/shm']", None, None),
    ],
)
def test_a_service_of_compose(service, memory, shared):
    text = f"services:\n  train:\n    command: {LAUNCH}\n    {service}\n"
    assert container_of(manifest.launches(text, "compose.yaml", lambda _: None)) == (memory, shared)


POD = """
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      {pod}
      containers:
      - command: [{words}]
        {container}
"""
AT_SHM = "volumeMounts: [{name: a, mountPath: /data}, {name: shm, mountPath: /dev/shm}]"


@pytest.mark.parametrize(
    ("pod", "container", "memory", "shared"),
    [
        ("", "image: img", None, 64 * MIB),
        ("", "resources: {limits: {memory: 64Gi, nvidia.com/gpu: 8}}", 64 * GIB, 64 * MIB),
        ("", "resources: {limits: {memory: 64e9}}", 64_000_000_000, 64 * MIB),
        ("volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]", AT_SHM, None, 16 * GIB),
        ("volumes: [{name: shm, emptyDir: {medium: Memory}}]", AT_SHM, None, None),
        ("hostIPC: true", "image: img", None, None),
    ],
)
def test_a_pod_of_kubernetes(pod, container, memory, shared):
    words = ", ".join(LAUNCH.split())
    text = POD.format(pod=pod, words=words, container=container)
    assert container_of(manifest.launches(text, "job.yaml", lambda _: None)) == (memory, shared)
