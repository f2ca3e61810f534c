"""Releases that do not work together, installed: what ``schemas/pairs.json`` says of pairs is what happens.

The pairs are drawn from both sides of the borders of every conflict of the Trainer with Accelerate. The torch and the
DeepSpeed are those that are installed; transformers, accelerate and what they need come from the package index.
"""

from __future__ import annotations

import importlib.metadata
import os
import random
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytest.importorskip("deepspeed")

from ds_lint.knowledge import tables
from ds_lint.knowledge.pairs import clashes
from ds_lint.targets.pin import Pin
from tools.extract.releases import available, number

pytestmark = [pytest.mark.fidelity, pytest.mark.long]

PROGRAM = Path(__file__).parent / "programs" / "release_pair.py"
SEED = 846
# What the new environment takes over: DeepSpeed with all that it needs, and nothing that transformers looks for.
TAKEN = (
    "annotated-types", "deepspeed", "einops", "filelock", "fsspec", "hjson", "jinja2", "markupsafe", "mpmath",
    "msgpack", "networkx", "ninja", "psutil", "py-cpuinfo", "pydantic", "pydantic-core", "sympy", "torch", "tqdm",
    "typing-extensions", "typing-inspection",
)  # fmt: skip


def _conflict(transformers: str, accelerate: str) -> str | None:
    """What the store says of two releases: what is missing or demanded; None if they work together."""
    pins = {"transformers": transformers, "accelerate": accelerate}
    found = list(clashes({name: Pin(name, f"=={release}", "") for name, release in pins.items()}))
    return found[0].conflict["what"] if found else None


def _pairs() -> list[tuple[str, str]]:
    """Two pairs for each conflict: one in it, and the closest accelerate beside it."""
    draw = random.Random(SEED)
    store = tables.load("pairs")["conflicts"]
    transformers, accelerate = tables.load("transformers")["releases"], tables.load("accelerate")["releases"]
    found = []
    for conflict in store:
        if (conflict["library"], conflict["other"]) != ("transformers", "accelerate"):
            continue
        first = transformers.index(conflict["since"])
        last = transformers.index(conflict.get("until", transformers[-1]))
        release = draw.choice(transformers[first : last + 1])
        end = accelerate.index(conflict.get("other_until", accelerate[-1]))
        start = accelerate.index(conflict.get("other_since", accelerate[0]))
        inside, beside = (end, end + 1) if end + 1 < len(accelerate) else (start, start - 1)
        found += [(release, accelerate[inside]), (release, accelerate[beside])]
    return found


def _environment(folder: Path, transformers: str, accelerate: str) -> Path:
    """The Python of a new environment with two releases, and the installed torch and DeepSpeed."""
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    taken = folder / "taken"
    taken.mkdir()
    for name in TAKEN:
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (taken / top).exists():
                (taken / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 2] if len(file.parts) > 1
                                         else Path(str(file.locate())))  # fmt: skip
    (site / "taken.pth").write_text(f"{taken}\n", encoding="utf-8")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for asked in (
        ["--no-deps", f"accelerate=={accelerate}"],
        [f"transformers=={transformers}", "safetensors", "numpy<2"],
    ):
        subprocess.run([*pip, *asked], check=True, capture_output=True)
    return python


@pytest.mark.parametrize(("transformers", "accelerate"), _pairs())
def test_a_pair_of_releases(transformers, accelerate, tmp_path):
    python = _environment(tmp_path, transformers, accelerate)
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    done = subprocess.run(
        [str(python), "-W", "ignore", str(PROGRAM), "trainer", str(tmp_path)],
        env={**os.environ, **alone, "TORCH_EXTENSIONS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    what = _conflict(transformers, accelerate)
    if what is None:
        assert done.stdout.splitlines()[-1:] == ["works"], done.stderr[-2000:]
    else:
        assert done.returncode
        errors = re.findall(r"^(?:\[rank0\]: )?(\w+Error): (.*(?:\n.*)?)", done.stderr, re.MULTILINE)
        assert errors, done.stderr[-2000:]
        assert {"ImportError", "RuntimeError", "TypeError"} >= {error for error, _ in errors}
        word = what if what[0].isdigit() else re.findall(r"\w+", what)[-1]  # the release, the name or the keyword
        assert any(word in text for _, text in errors), errors


def test_the_last_release_of_pydantic_1_is_in_the_store():
    last = [one for one in available("pydantic") if number(one) < (2,)][-1]
    assert last in {conflict.get("other_until") for conflict in tables.load("pairs")["conflicts"]}


if __name__ == "__main__":
    sys.stdout.writelines(f"{one} {other}: {_conflict(one, other)}\n" for one, other in _pairs())
