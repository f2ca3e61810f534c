"""What is mutated: the examples of the rule pages and documents, the texts of the tests, and folders of real files."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path

from ds_lint.knowledge.keys import knowledge
from tools.fuzz.mutations import VALUES

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MOST = 12_000  # characters of a text
_MANY = 3_000  # texts of a kind
_KINDS = {
    "json": ("json", "jsonc", "hjson", "json5"),
    "yaml": ("yaml", "yml"),
    "python": ("python", "py"),
    "shell": ("bash", "sh", "shell", "slurm", "sbatch", "console"),
    "toml": ("toml",),
    "makefile": ("makefile", "make", "mk"),
    "dockerfile": ("dockerfile", "containerfile"),
    "markdown": ("markdown", "md", "qmd"),
    "notebook": ("ipynb",),
    "text": ("text", "txt"),
}
_NAMES = {"Makefile": "makefile", "Dockerfile": "dockerfile", "Containerfile": "dockerfile", "hostfile": "text"}


@cache
def seeds(kind: str, folders: tuple[str, ...] = ()) -> list[str]:
    """The texts of a kind, in a stable order."""
    if kind == "keys":
        return _every_key()
    found: dict[str, None] = {}
    for page in sorted(
        [*(ROOT / "rules").glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
    ):
        if "node_modules" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        if kind == "markdown":
            found[text[:_MOST]] = None
        for info, block in _BLOCK.findall(text):
            if _kind(info.split()) == kind:
                found[block[:_MOST]] = None
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if _kind([path.suffix[1:], path.name]) == kind and path.is_file() and path.stat().st_size <= _MOST:
                found[path.read_text(encoding="utf-8", errors="replace")] = None
    if kind == "notebook":
        found |= dict.fromkeys(_notebook(text) for text in seeds("python", folders)[:300])
        found |= dict.fromkeys(_notebook(f"%%bash\n{text}") for text in seeds("shell", folders)[:300])
    return [*found][:_MANY]


def _kind(words: list[str]) -> str | None:
    """The kind that the words of an info string, or the ending and name of a file, tell."""
    for word in words:
        name = word.rpartition("/")[2]
        if name in _NAMES:
            return _NAMES[name]
        ending = name.rpartition(".")[2].lower()
        for kind, endings in _KINDS.items():
            if ending in endings:
                return kind
    return None


def _every_key() -> list[str]:
    """Configs of few keys that DeepSpeed reads, each with a value that it does not expect, or that is too large."""
    chance = random.Random(5)  # noqa: S311 - no secret
    paths = [key.path for key in knowledge().everywhere()]
    usual = ["1", "2", "8", "true", '"auto"', '"cpu"', '"Adam"', "0.1", "1e9", "{}"]
    texts = []
    for _ in range(_MANY):
        config: dict[str, object] = {}
        for path in (*chance.sample(_FIRST, 3), *chance.sample(paths, 5)):
            section = config
            for name in path[:-1]:
                inner = section.setdefault(name, {})
                section = inner if isinstance(inner, dict) else {}
            section[path[-1]] = f"@{chance.choice((*usual, *usual, *VALUES[:30]))}@"
        texts.append(re.sub(r'"@(.*?)@"', lambda found: json.loads(f'"{found[1]}"'), json.dumps(config)))
    return texts


_FIRST = (
    ("train_batch_size",), ("train_micro_batch_size_per_gpu",), ("gradient_accumulation_steps",),
    ("zero_optimization", "stage"), ("zero_optimization", "offload_optimizer", "device"), ("optimizer", "type"),
    ("scheduler", "type"), ("bf16", "enabled"), ("fp16", "enabled"), ("sequence_parallel_size",),
    ("tensor_parallel", "autotp_size"), ("zero_optimization", "zero_hpz_partition_size"),
)  # fmt: skip


def _notebook(source: str) -> str:
    cell: dict[str, object] = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [],
            "source": source.splitlines(keepends=True)}  # fmt: skip
    text = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": f"# x\n```json\n{source[:200]}\n```"}
    return json.dumps({"cells": [cell, text], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
