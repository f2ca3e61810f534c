"""Measure which options a release of PyTorch takes in PYTORCH_CUDA_ALLOC_CONF, and write them to the store.

    python -m tools.allocator_options PYTHON...

Each PYTHON is an interpreter with a PyTorch that is built for CUDA; a GPU is not needed. The names that are tried are
the strings of its libraries: an option that is not among them it cannot know.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tools.extract.environment import read, write

_PROBE = """
import glob, json, os, re, torch
put = getattr(torch._C, "_cuda_cudaCachingAllocator_set_allocator_settings", None)
put = put or torch._C._accelerator_setAllocatorSettings
folder = os.path.join(os.path.dirname(torch.__file__), "lib")
names = set()
for path in glob.glob(os.path.join(folder, "libc10*.so")):
    with open(path, "rb") as file:
        names.update(one.decode() for one in re.findall(rb"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", file.read()))
def takes(name):
    try:
        put(f"{name}:?")
    except Exception as error:
        return "nrecognized" not in str(error)
    return True
print(json.dumps([torch.__version__.partition("+")[0], sorted(filter(takes, names))]))
"""


def main(pythons: list[str]) -> int:
    """Ask each interpreter, and write what they say."""
    store = read()
    for python in pythons:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=True)
        release, options = json.loads(done.stdout)
        store["allocator"][release] = options
        sys.stdout.write(f"torch {release}: {', '.join(options)}\n")
    store["allocator"] = dict(sorted(store["allocator"].items(), key=lambda one: [*map(int, one[0].split("."))]))
    write(store)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
