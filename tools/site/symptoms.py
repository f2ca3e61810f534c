"""The page of symptoms: what a log or a person says of a run that failed, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.knowledge.symptoms import Symptom, symptoms
from ds_lint.linter.selection import find
from ds_lint.logs.messages import filled
from tools.site import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "symptoms.md"
_KINDS = (
    ("course", "The loss, the gradients and the loss scale"),
    ("exit", "Processes that end without a traceback"),
    ("exception", "Exceptions"),
    ("line", "Lines of a log"),
)
_LIBRARIES = {
    "accelerate": "Accelerate", "cuda": "CUDA and GPUs", "deepspeed": "DeepSpeed", "host": "The machine",
    "nccl": "NCCL", "script": "The script", "torch": "torch", "transformers": "transformers",
}  # fmt: skip


def text() -> str:
    """The page."""
    found = [one for one in symptoms() if one.role == "cause" and one.where != "end"]
    lines = [
        "# Symptoms\n",
        f"{len(found)} things that a log or a person says of a run that failed or went wrong, and what they mean.",
        "The most frequent have a page: [the loss is NaN](symptoms/nan-loss.md), [out of",
        "memory](symptoms/out-of-memory.md), [the run hangs](symptoms/hangs.md), [empty",
        "weights](symptoms/empty-weights.md), [settings without effect](symptoms/settings-ignored.md).\n",
        '`ds-lint doctor LOG` looks for them in a log, and `ds-lint explain "TEXT"` finds one by its text. What',
        "DeepSpeed, transformers and Accelerate raise because of a config is on [What raises](raises/index.md).",
    ]
    for where, title in _KINDS:
        lines.append(f"\n## {title}\n")
        of_kind = [one for one in found if one.where == where]
        lines += [line for one in of_kind for line in _of_symptom(one)]
    return "\n".join(lines) + "\n"


def _of_symptom(symptom: Symptom) -> Iterator[str]:
    message, help_text = filled(symptom, {})
    yield f"### {_title(symptom)}\n"
    yield f"{message}\n"
    if symptom.examples and symptom.where in ("exception", "line"):
        example = symptom.examples[0].partition(" @ ")[0].replace("\n", "\n    ")
        yield f"    {example}\n"
    yield f"{help_text}\n"
    linked = [f"[{rule.code}]({rules.path(rule)})" for code in symptom.codes if (rule := find(code)) is not None]
    of_whom = _LIBRARIES.get(symptom.library, symptom.library)
    yield f"{of_whom}{' · before the run: ' if linked else ''}{', '.join(linked)}\n"


def _title(symptom: Symptom) -> str:
    """What people call it, in all their words: a search looks at headings first."""
    return ", ".join(symptom.words) or symptom.id.replace("-", " ")
