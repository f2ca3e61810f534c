"""``check --fix`` and ``--diff`` as people use them: what is written where, and the exit status."""

from __future__ import annotations

import json
import os
import stat
import subprocess

import pytest
from command_line import give_up_privileges
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources

TYPO = '{\r\n  "train_micro_batch_size_per_gpu": 4,\r\n  "gradient_cliping": 0.5\r\n}'
FIXED = TYPO.replace("cliping", "clipping")
BOTH = '{"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5, "fp8": {}}\n'


@pytest.fixture
def config(tmp_path):
    """Writes ``config.json`` as it is given."""

    def write(text):
        path = tmp_path / "config.json"
        path.write_bytes(text.encode())
        return path

    return write


@pytest.fixture
def check(run):
    """Runs ``ds-lint check`` for stack deepspeed."""

    def check(*arguments, **options):
        return run("check", "--stack", "deepspeed", *arguments, **options)

    return check


def test_fix_writes_the_file_and_reports_it(check, config):
    path = config(TYPO)
    done = check("config.json", "--fix")
    assert path.read_bytes() == FIXED.encode()
    assert done.stdout.startswith("Fixed 1 finding.\nconfig.json: no findings.")
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(path.parent) == ["config.json"]


def test_what_is_left_counts(check, config):
    path = config(BOTH)
    done = check("config.json", "--fix", "--output-format", "concise")
    assert path.read_text() == BOTH.replace("cliping", "clipping")
    assert "`fp8`" in done.stdout
    assert "Fixed 1 finding.\n" in done.stdout
    assert "1 fixable with --fix --unsafe-fixes\n" in done.stdout
    assert done.returncode == 1


def test_unsafe_fixes_are_applied_too(check, config):
    path = config(BOTH)
    assert check("config.json", "--fix", "--unsafe-fixes").returncode == 0
    assert path.read_text() == '{"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 0.5}\n'


def test_a_report_says_what_could_be_fixed(check, config):
    config(BOTH)
    assert "\n1 fixable with --fix, 1 more with --unsafe-fixes\n" in check("config.json").stdout


def test_json_says_what_was_fixed(check, config):
    config(BOTH)
    report = json.loads(check("config.json", "--fix", "--output-format", "json").stdout)
    with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as file:
        Draft7Validator(json.load(file)).validate(report)
    assert report["files"][0]["fixed"] == [
        {
            "code": "DS101",
            "name": "unknown-key",
            "key": "gradient_cliping",
            "title": "Rename `gradient_cliping` to `gradient_clipping`",
            "safety": "safe",
        }
    ]
    assert [finding["key"] for finding in report["findings"]] == ["fp8"]


def test_diff_shows_and_changes_nothing(check, config):
    path = config(TYPO)
    done = check("config.json", "--diff")
    assert path.read_bytes() == TYPO.encode()
    assert done.stdout.splitlines()[:2] == ["--- config.json", "+++ config.json"]
    assert done.stderr == "1 finding would be fixed.\n"
    assert done.returncode == 1


def test_patch_takes_the_diff(check, config, tmp_path):
    path = config(TYPO)
    check("config.json", "--diff", "--output-file", "fixes.patch")
    done = subprocess.run(
        ["patch", "--binary", "-p0", "-i", "fixes.patch"], cwd=tmp_path, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout
    assert path.read_bytes() == FIXED.encode()


def test_without_a_difference_the_status_is_0(check, config):
    config('{"train_micro_batch_size_per_gpu": 4, "fp8": {}}')
    done = check("config.json", "--diff")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_standard_input_is_fixed_onto_standard_output(check):
    done = check("-", "--fix", "--output-format", "concise", stdin=BOTH)
    assert done.stdout == BOTH.replace("cliping", "clipping")
    assert "`fp8`" in done.stderr
    assert done.returncode == 1


def test_standard_input_without_findings_is_passed_on(check):
    clean = '{"train_micro_batch_size_per_gpu": 4}'
    assert check("-", "--fix", stdin=clean).stdout == clean


def test_a_folder_is_fixed_file_by_file(check, tmp_path):
    (tmp_path / "configs").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / "configs" / name).write_text('{"zero_optimization": {"stage": 0}, "train_batch_sise": 8}')
    done = check("configs", "--fix")
    assert done.stdout.startswith("Fixed 2 findings.\n2 files: no findings.")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_the_mode_stays(check, config, mode):
    path = config(TYPO)
    path.chmod(mode)
    check("config.json", "--fix")
    assert path.read_bytes() == FIXED.encode()
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(check, config):
    path = config(TYPO)
    os.chown(path, 1234, 1234)
    check("config.json", "--fix")
    assert path.read_bytes() == FIXED.encode()
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1234)


def test_a_link_stays_a_link(check, config, tmp_path):
    path = config(TYPO)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.json"
    link.symlink_to("../config.json")
    assert check("elsewhere/link.json", "--fix").returncode == 0
    assert link.is_symlink()
    assert path.read_bytes() == FIXED.encode()


def test_a_file_that_may_not_be_written_is_said_and_left(check, config):
    path = config(TYPO)
    path.chmod(0o444)
    done = check("config.json", "--fix", "--output-format", "concise", prepare=give_up_privileges)
    assert done.stderr == "ds-lint: config.json: cannot be written: Permission denied\n"
    assert "DS101" in done.stdout
    assert "Fixed" not in done.stdout
    assert done.returncode == 2
    assert path.read_bytes() == TYPO.encode()


def test_so_is_a_folder(check, config, tmp_path):
    path = config(TYPO)
    tmp_path.chmod(0o555)
    done = check("config.json", "--fix", prepare=give_up_privileges)
    tmp_path.chmod(0o755)
    assert done.stderr == "ds-lint: config.json: cannot be written: Permission denied\n"
    assert done.returncode == 2
    assert path.read_bytes() == TYPO.encode()


def test_bytes_that_are_no_text_are_never_written(check, tmp_path):
    data = b'{"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5, "_by": "M\xfcller"}'
    (tmp_path / "config.json").write_bytes(data)
    assert check("config.json", "--fix").returncode == 1
    assert (tmp_path / "config.json").read_bytes() == data


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fix", "--diff"], "not allowed with argument"),
        (["--diff", "--write-baseline"], "--diff changes nothing and cannot be combined with --write-baseline"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(check, config, arguments, complaint):
    path = config(TYPO)
    done = check("config.json", *arguments)
    assert complaint in done.stderr
    assert done.returncode == 2
    assert path.read_bytes() == TYPO.encode()


def test_a_range_is_fixed_for_all_its_releases(check, config):
    path = config('{"train_batch_size": 8, "aio": {"thread_count": 2}}')
    check("config.json", "--fix", "--deepspeed-version", ">=0.14")
    assert "thread_count" in path.read_text()  # which the older ones read
    check("config.json", "--fix", "--deepspeed-version", "0.16.9")
    assert "intra_op_parallelism" in path.read_text()


STAGE_TEXT = (
    '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": "3"}}'
)
WHY = "DS202 not fixed: it would cause DS703"


def test_a_fix_that_is_not_applied_says_why(run, config):
    path = config(STAGE_TEXT)
    done = run("check", "--fix", "config.json")
    assert path.read_text() == STAGE_TEXT
    assert f"\nconfig.json:1:104: {WHY} (--unsafe-fixes fixes both)\n" in done.stdout
    assert run("check", "--diff", "config.json").stderr == f"config.json:1:104: {WHY} (--unsafe-fixes fixes both)\n"


def test_only_what_unsafe_fixes_fix_is_promised_of_them(run, config):
    config(STAGE_TEXT)
    linted = run("check", "--fix", "--ignore", "DS703", "config.json").stdout
    assert f"{WHY}\n" in linted


def test_the_number_is_of_what_is_fixed(run, config):
    config(STAGE_TEXT)
    linted = run("check", "config.json").stdout
    assert "fix: Write 3 (safe, only with --unsafe-fixes: it would cause DS703)\n" in linted
    assert "\n1 fixable with --fix --unsafe-fixes\n" in linted
    assert "Fixed 1 finding.\n" in run("check", "--fix", "--unsafe-fixes", "config.json").stdout


def test_a_large_text_is_not_tried(run, config):
    config(TYPO + " " * 100_000)
    assert "\nup to 1 fixable with --fix\n" in run("check", "config.json").stdout


def test_nothing_is_tried_for_a_range(run, config):
    config(TYPO)
    assert "\nup to 1 fixable with --fix, " in run("check", "config.json", "--deepspeed-version", ">=0.14").stdout


def test_statistics_count_what_is_fixed(run, config):
    config(STAGE_TEXT)
    counted = json.loads(run("check", "--statistics", "--output-format", "json", "config.json").stdout)
    assert counted["rules"][0]["fixable"] == {"safe": 0, "unsafe": 1}
