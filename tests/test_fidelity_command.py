"""``python -m tools.fidelity`` without an environment: what it reads, prints, writes and refuses."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from datetime import date

import pytest

from tools.extract.releases import UnavailableError
from tools.fidelity import __main__ as command
from tools.fidelity import environments, page, trial
from tools.fidelity.trial import Outcome, Trial, TrialError, outcome_of

KINDS = {"false alarm": 0, "silent": 0, "stage": 0, "ignored": 0}


def made(release="0.16.9", *, configs=2000, undecided=0, is_enough=True, failed=0, **kinds):
    return Trial(
        versions={"python": "3.11.7", "deepspeed": release, "torch": "2.11.0"},
        configs=configs,
        undecided=undecided,
        agreed=configs - undecided - sum(kinds.values()),
        is_enough=is_enough,
        kinds={**KINDS, **kinds},
        disagreements=[f"{kind}: ..." for kind in kinds],
        tests=Outcome(180 - failed, failed, 20),
        seconds=61.4,
    )


@pytest.fixture
def trials(monkeypatch, tmp_path):
    """The trials that the command will find, by release; the page is written elsewhere."""
    found = {}
    monkeypatch.setattr(environments, "make", lambda release, folder, fresh: release)
    monkeypatch.setattr(command, "try_release", lambda python, configs, seed: found[python])
    monkeypatch.setattr(page, "PATH", tmp_path / "docs" / "agreement.md")
    return found


def test_the_share_is_that_of_the_decided_configs():
    assert made(configs=110, undecided=10, silent=2).share == 0.98
    assert made(configs=10, undecided=10).share == 0.0


def test_a_trial_is_good_if_enough_agree_and_no_test_failed():
    assert made(silent=20).is_good
    assert not made(silent=21, is_enough=False).is_good
    assert not made(failed=1).is_good


def test_the_numbers_of_a_report():
    report = '<testsuites><testsuite tests="10" failures="2" errors="1" skipped="3"/></testsuites>'
    assert outcome_of(report) == Outcome(passed=4, failed=3, skipped=3)
    with pytest.raises(TrialError, match="no tests"):
        outcome_of("<testsuites/>")


def test_one_table(trials, capsys):
    trials["0.15.4"] = made("0.15.4", undecided=40, silent=3, stage=1)
    trials["0.16.9"] = made("0.16.9", failed=2)
    assert command.main(["0.15.4", "0.16.9"]) == 1
    titles, _, *rows = capsys.readouterr().out.splitlines()
    assert titles.startswith("| release | configs | undecided | agree | share | false alarm | silent | ")
    assert rows == [
        "| 0.15.4 | 2000 | 40 | 1956 | 99.80% | 0 | 3 | 1 | 0 | 180 passed | 61 |",
        "| 0.16.9 | 2000 | 0 | 2000 | 100.00% | 0 | 0 | 0 | 0 | 2 failed | 61 |",
    ]
    assert not page.PATH.exists()


def test_what_differs_goes_to_standard_error(trials, capsys):
    trials["0.16.9"] = made(silent=1)
    assert command.main(["0.16.9"]) == 0
    assert "0.16.9: silent: ..." in capsys.readouterr().err


def test_the_page_says_how_it_was_measured(trials):
    trials["0.15.4"], trials["0.16.9"] = made("0.15.4"), made("0.16.9")
    assert command.main(["0.15.4", "0.16.9", "--seed", "7", "--environments", "/elsewhere", "--write"]) == 0
    written = page.PATH.read_text(encoding="utf-8")
    assert "python -m tools.fidelity 0.15.4 0.16.9 --seed 7\n" in written
    assert "with python 3.11.7, torch 2.11.0:" in written
    assert "/elsewhere" not in written


def test_the_page_names_every_release_of_another_library():
    old = made("0.15.4")
    old.versions["torch"] = "2.10.0"
    assert "torch 2.10.0 and 2.11.0" in page.page([old, made("0.16.9")], "...", date(2026, 11, 21))


def test_releases_are_pinned():
    libraries = {"torch", "deepspeed", "transformers", "accelerate", "peft", "lightning"}
    assert environments.pins().keys() == {*libraries, "hydra-core", "omegaconf"}


def test_an_environment_finds_what_this_one_has_behind_its_own(tmp_path):
    venv.create(tmp_path, with_pip=False)
    environments.share(tmp_path)
    command = [tmp_path / "bin" / "python", "-c", "import sys; print(*sys.path[-2:])"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [path.startswith(str(tmp_path)) for path in printed] == [True, False]
    assert printed[1] == sysconfig.get_path("purelib")


def test_only_the_pinned_libraries_are_shared(monkeypatch):
    pins = environments.pins()
    monkeypatch.setattr(environments, "version", lambda library: pins[library] + "+cpu")
    assert environments.has_pins()
    monkeypatch.setattr(environments, "version", lambda library: "0.1")
    assert not environments.has_pins()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["9.9.9"], "ds-lint does not know DeepSpeed 9.9.9; the newest that it knows is "),
        (["latest"], "ds-lint does not know DeepSpeed latest; "),
        (["0.16.9", "--configs", "0"], "argument --configs: 0 configs cannot be tried"),
        ([], "the following arguments are required: release"),
    ],
)
def test_wrong_usage_is_one_line(capsys, arguments, message):
    try:
        status = command.main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    error = capsys.readouterr().err
    assert (status, error.startswith(f"error: {message}"), error.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("error", [UnavailableError("pip cannot reach the package index"), TrialError("it broke off")])
def test_what_cannot_be_done_is_one_line_after_the_progress(trials, monkeypatch, capsys, error):
    def fail(release, folder, fresh):
        raise error

    monkeypatch.setattr(environments, "make", fail)
    assert command.main(["0.16.9"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [f"error: 0.16.9: {error}"]


def test_a_measurement_that_breaks_off_says_why(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ImportError: no such thing' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(TrialError, match=r"measure\.py: ImportError: no such thing"):
        trial.try_release(python, 10, 1)
