"""``ds_lint.cli.main`` for programs that run a command line: it returns, and leaves the process as it was."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import clean_environment

import ds_lint
from ds_lint import cli

ROOT = Path(ds_lint.__file__).parent.parent
TYPO = {"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5}


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typo.json").write_text(json.dumps(TYPO), encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["check", "typo.json"], 1, "error[DS101]"),
        (["check", "--exit-zero"], 0, "error[DS101]"),
        (["--version"], 0, f"ds-lint {ds_lint.__version__}"),
        (["check", "--help"], 0, "usage: ds-lint check"),
        (["check", "--no-such-option"], 2, "unknown option --no-such-option"),
        (["check", "nowhere.json"], 2, "nowhere.json: No such file or directory"),
        (["check", "-o", "nowhere/report"], 2, "nowhere/report: No such file or directory"),
        ([], 2, "usage: ds-lint"),
    ],
)
def test_a_command_line_returns_its_status(arguments, status, said):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        assert cli.main(arguments) == status
    assert said in printed.getvalue()


def test_standard_streams_may_be_texts(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(TYPO)))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(["check", "-", "--fix-only"]) == 0
    assert json.loads(printed.getvalue()) == {"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 0.5}


def test_without_arguments_it_is_that_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", "--version"])
    assert cli.main() == 0
    assert capsys.readouterr().out == f"ds-lint {ds_lint.__version__}\n"


def test_the_process_is_as_before(capsys, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    assert cli.main(["check", "typo.json", "--color", "always"]) == 1
    assert "\x1b[" in capsys.readouterr().out
    assert dict(os.environ) == before
    assert gc.isenabled()


def test_an_error_of_ours_is_a_status_with_a_traceback(capsys, monkeypatch):
    monkeypatch.setattr(cli, "run", lambda _arguments: 1 // 0)
    assert cli.main(["check"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_ctrl_c_is_the_callers(monkeypatch):
    def interrupted(_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cli.main(["check"])


def test_the_command_ends_its_process():
    """What runs at the end of one by itself is left out: it takes a tenth of a clean run."""
    assert 'ds-lint = "ds_lint.cli:console"\n' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    code = "import atexit, sys; atexit.register(print, 'late'); from ds_lint.cli import console; console()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ds-lint {ds_lint.__version__}\n"
