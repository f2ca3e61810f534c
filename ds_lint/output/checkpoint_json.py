"""``ds-lint checkpoint`` for programs, as ``schemas/checkpoint.schema.json`` describes it."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, TypeAlias

from ds_lint import __version__
from ds_lint.output.text import visible

if TYPE_CHECKING:
    from ds_lint.checkpoints.record import ResumeAnswer, SavedFile, SavedFolder

VERSION = 1  # raised when a reader of it would have to change

Json: TypeAlias = "dict[str, object]"


def text(path: str, saved: SavedFolder, answer: ResumeAnswer | None, differences: list[str]) -> str:
    """The report; what the names in the folder have of control characters is shown, not written."""
    engine = saved.engine
    parallel = {"data": engine.data_ranks, "model": engine.model_ranks} if engine and engine.data_ranks else None
    document: Json = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        "path": visible(path),
        "kind": saved.kind,
        "stage": saved.stage,
        "ranks": saved.ranks,
        "parallel": parallel,
        "tag": visible(engine.tag) if engine is not None and engine.tag else None,
        "writer": {name: visible(value) for name, value in saved.writer.items()},
        "files": [_file(file) for file in saved.files],
        "tensors": {
            "elements": saved.tensors.elements,
            "empty": [visible(name) for name in saved.tensors.empty],
            "dtypes": {visible(name): count for name, count in saved.tensors.dtypes.items()},
        },
        "problems": [visible(one) for one in (*saved.failures, *saved.mistakes)],
        "notes": [visible(one) for one in saved.notes],
        "config": [visible(one) for one in differences],
        "resumes": None if answer is None else _answer(answer),
    }
    return dumps(document, indent=2) + "\n"


def _file(file: SavedFile) -> Json:
    return {
        "path": visible(file.path),
        "rank": file.rank,
        "status": file.status,
        **({"why": visible(file.why)} if file.why else {}),
    }


def _answer(answer: ResumeAnswer) -> Json:
    return {
        "world_size": answer.world_size,
        "status": answer.status,
        "why": visible(answer.why),
        "command": None if answer.command is None else visible(answer.command),
    }
