"""What ``ds-lint checkpoint`` and DS713 say of a folder, against what the real DeepSpeed does when it loads it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest
from ranks import run
from saved_folders import halve

from ds_lint.checkpoints.kinds import saved_folder
from ds_lint.checkpoints.resumed_config import ResumedConfig, differences
from ds_lint.checkpoints.resumption import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranks import Run

    from ds_lint.checkpoints.record import ResumeAnswer

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]
LONG = pytest.mark.long
PREFIX = {"bf16": "bf16_", "fp32": ""}


def config(stage: int, dtype: str, **more: Any) -> dict[str, Any]:
    """A config without a scheduler, so that the first steps change the weights."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        **({} if dtype == "fp32" else {dtype: {"enabled": True}}),
        **more,
    }


class Folders:
    """The folders that were saved, each once, and what was done to copies of them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def saved(self, stage: int, dtype: str = "bf16", *, steps: int = 2, ranks: int = 2) -> Path:
        """A folder that DeepSpeed has saved."""
        path = self.root / f"{stage}-{dtype}-{steps}-{ranks}"
        if not path.exists():
            done = run("checkpoints", "save", str(path), json.dumps(config(stage, dtype)), str(steps), ranks=ranks)
            assert done.is_complete, done.errors
        return path

    def copied(self, path: Path) -> Path:
        """A copy to break."""
        copy = self.root / f"{path.name}-broken"
        shutil.rmtree(copy, ignore_errors=True)
        return Path(shutil.copytree(path, copy))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("checkpoints"))


def loaded(path: Path, stage: int, dtype: str = "bf16", *, ranks: int = 2, **more: Any) -> tuple[ResumeAnswer, Run]:
    """What ds-lint says of loading, and what happens."""
    resumed = ResumedConfig(stage, dtype, loads_universal="checkpoint" in more, optimizer="adamw")
    saved = saved_folder(str(path), is_universal=resumed.loads_universal)
    given = answer(saved, str(path), ranks, None, differences(saved, resumed))
    assert given is not None
    text = json.dumps(config(stage, dtype, **more))
    return given, run("checkpoints", "load", str(path), text, "0", ranks=ranks)


def optimizer(path: Path, rank: int, dtype: str = "bf16") -> Path:
    return path / "global_step2" / f"{PREFIX[dtype]}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"


def remove(path: Path) -> None:
    optimizer(path, 1).unlink()


def cut(path: Path) -> None:
    halve(optimizer(path, 1))


def empty(path: Path) -> None:
    optimizer(path, 1).write_bytes(b"")


def forget_weights(path: Path) -> None:
    for file in (path / "global_step2").glob("*model_states.pt"):
        file.unlink()


def name_another_tag(path: Path) -> None:
    (path / "latest").write_text("global_step9")


BROKEN = [
    (remove, "FileNotFoundError"),
    pytest.param(cut, "Invalid argument|PytorchStreamReader failed", marks=LONG),
    pytest.param(empty, "EOFError", marks=LONG),
    pytest.param(forget_weights, "AssertionError", marks=LONG),
    pytest.param(name_another_tag, "AssertionError", marks=LONG),
]


@pytest.mark.parametrize("stage", [2, *(pytest.param(stage, marks=LONG) for stage in (1, 3))])
@pytest.mark.parametrize(("change", "raised"), BROKEN)
def test_what_the_command_says_is_what_loading_raises(
    folders: Folders, stage: int, change: Callable[[Path], None], raised: str
) -> None:
    path = folders.copied(folders.saved(stage))
    change(path)
    given, done = loaded(path, stage)
    assert (given.status, done.is_complete) == ("no", False)
    assert re.search(raised, given.why)
    assert any(re.search(raised, error) for error in done.errors)


@pytest.mark.parametrize("stage", [2, *(pytest.param(stage, marks=LONG) for stage in (1, 3))])
def test_what_the_command_says_is_what_loading_does(folders: Folders, stage: int) -> None:
    """DS713: a whole folder, one without ``latest``, and one with a rank of another step, of which none raises."""
    path = folders.saved(stage)
    given, done = loaded(path, stage)
    assert (given.status, done.is_complete) == ("yes", True)
    whole = done.answers[0]
    assert whole is not None
    assert whole["path"].startswith(str(path))
    copy = folders.copied(path)
    (copy / "latest").unlink()
    given, done = loaded(copy, stage)
    assert given.status == "no"
    assert "returns None" in given.why
    assert [one and one["path"] for one in done.answers] == [None, None]
    copy = folders.copied(path)
    later = folders.saved(stage, steps=5)
    shutil.copy(later / "global_step5" / optimizer(path, 1).name, optimizer(copy, 1))
    given, done = loaded(copy, stage)
    assert given.status == "no"
    assert "nothing raises" in given.why
    assert done.is_complete


CHANGES = [
    (2, "bf16", 1, "bf16", None),
    *(
        pytest.param(*row, marks=LONG)
        for row in (
            (0, "fp32", 1, "fp32", "FileNotFoundError"),
            (0, "fp32", 3, "fp32", "AssertionError"),
            (2, "fp32", 0, "fp32", "AttributeError"),
            (2, "bf16", 0, "bf16", "TypeError"),
            (3, "bf16", 2, "bf16", "AssertionError"),
            (2, "bf16", 2, "fp32", "FileNotFoundError"),
            (3, "fp32", 3, "bf16", "FileNotFoundError"),
            (1, "bf16", 2, "bf16", None),
            (2, "bf16", 3, "bf16", "AssertionError"),
        )
    ),
]


@pytest.mark.parametrize(("stage", "dtype", "other", "other_dtype", "raised"), CHANGES)
def test_other_settings(
    folders: Folders, stage: int, dtype: str, other: int, other_dtype: str, raised: str | None
) -> None:
    given, done = loaded(folders.saved(stage, dtype), other, other_dtype)
    assert given.status == ("yes" if raised is None else "no")
    assert done.is_complete == (raised is None)
    if raised is not None:
        assert raised in given.why
        assert any(raised in error for error in done.errors)


@LONG
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 4])
def test_other_ranks(folders: Folders, stage: int, ranks: int) -> None:
    given, done = loaded(folders.saved(stage), stage, ranks=ranks)
    assert given.status == ("yes" if stage == 0 else "convert")
    assert done.is_complete == (stage == 0)
    if stage:
        assert any("ZeRORuntimeException" in error for error in done.errors)


@LONG
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_command_converts(folders: Folders, stage: int) -> None:
    """The command that is printed, run as it is, and the result on other ranks."""
    import shlex
    import subprocess
    import sys

    path = folders.copied(folders.saved(stage))
    given, _ = loaded(path, stage, ranks=4)
    assert given.command is not None
    words = shlex.split(given.command)
    subprocess.run([sys.executable, *words[1:]], check=True, capture_output=True)
    given, done = loaded(path, stage, ranks=4, checkpoint={"load_universal": True})
    assert (given.status, done.is_complete) == ("yes", True)
    (path / "latest_universal").unlink()
    given, done = loaded(path, stage, ranks=4, checkpoint={"load_universal": True})
    assert (given.status, done.is_complete) == ("no", False)
