"""What ds-lint writes, it writes in one step: on a full disk a file stays as it was, and none is left empty."""

from __future__ import annotations

import json
import os
import resource

import pytest
from command_line import give_up_privileges, write_into

from ds_lint.source import replacement

TYPO = '{"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5}\n'
OLD = "old\n"
DEEPSPEED = ("--stack", "deepspeed")


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def fill_the_disk():
    """Let no file get more than a few bytes: who writes more gets an OSError, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))


BASELINE = json.dumps({"files": {}, "version": 2})
WRITING = {
    "fix": ("check", "a.json", *DEEPSPEED, "--fix"),
    "comments": ("check", "a.json", *DEEPSPEED, "--add-ignore"),
    "new settings": ("check", "a.json", "--stack", "trainer", "--add-ignore"),
    "settings": ("check", "b/a.json", "--stack", "trainer", "--add-ignore"),
    "new baseline": ("check", "a.json", *DEEPSPEED, "--write-baseline", "--baseline", "new.json"),
    "baseline": ("check", "a.json", *DEEPSPEED, "--write-baseline", "--baseline", "b/baseline.json"),
    "report": ("check", "a.json", *DEEPSPEED, "--output-file", "old.txt"),
    "new report": ("check", "a.json", *DEEPSPEED, "--output-file", "new.txt"),
    "diff": ("check", "a.json", *DEEPSPEED, "--diff", "--output-file", "old.txt"),
    "new config": ("init", "--output-file", "new.json"),
    "config": ("init", "--output-file", "old.txt", "--force"),
    "conversion": ("convert", "a.json", "--to", "fsdp", "--output-file", "new.yaml"),
    "schema": ("schema", "--output-file", "old.txt"),
    "job": ("check", "a.json", "--smoke", "--nodes", "1", "--world-size", "2", "--smoke-sbatch", "new.sbatch"),
    "drawing": ("memory", "a.json", "--parameters", "1B", "--world-size", "2", "--plot", "old.svg"),
}


@pytest.mark.parametrize("what", WRITING)
def test_on_a_full_disk_every_file_stays_as_it_was(run, write, tmp_path, what):
    settings = "[tool.ds-lint]\nextend-exclude = []\n"
    old = {"old.txt": OLD, "old.svg": OLD, "b/baseline.json": BASELINE, "b/pyproject.toml": settings}
    write({"a.json": TYPO, "b/a.json": TYPO, **old})
    before = files(tmp_path)
    done = run(*WRITING[what], prepare=fill_the_disk)
    assert files(tmp_path) == before
    assert (done.returncode, "File too large" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert run(*WRITING[what]).returncode in (0, 1)
    assert files(tmp_path) != before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_baseline_keeps_its_line_ends_and_its_mode(run, write, tmp_path, newline, mark):
    path = tmp_path / "baseline.json"
    write({"a.json": TYPO})
    path.write_bytes(f'{mark}{{"files": {{}},{newline}"version": 2}}{newline}'.encode())
    path.chmod(0o640)
    assert run("check", "a.json", "--write-baseline", "--baseline", "baseline.json").returncode == 0
    written = path.read_bytes().decode()
    assert written.startswith(mark or "{")
    assert written.count(newline) == written.count("\n")
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads(written.removeprefix("\ufeff"))["files"]["a.json"]


# Links


@pytest.mark.parametrize("how", [("--fix",), ("--add-ignore",), ("--diff",)])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(run, write, tmp_path, how):
    write({"elsewhere/a.json": TYPO})
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link.json").symlink_to("../elsewhere/a.json")
    done = run("check", "project", *DEEPSPEED, *how)
    assert (tmp_path / "elsewhere" / "a.json").read_text() == TYPO
    assert "project/link.json leads out of the checked folder" in done.stderr + done.stdout
    assert done.returncode == int(how == ("--fix",))
    assert "+++" not in done.stdout


def test_a_link_that_is_named_is_followed(run, write, tmp_path):
    write({"elsewhere/a.json": TYPO})
    (tmp_path / "link.json").symlink_to("elsewhere/a.json")
    assert run("check", "link.json", *DEEPSPEED, "--fix").returncode == 0
    assert "clipping" in (tmp_path / "elsewhere" / "a.json").read_text()


def test_a_link_within_the_folder_or_its_repository_is_followed(run, write, tmp_path):
    write({"shared/a.json": TYPO, "project/b.json": TYPO, ".git/HEAD": ""})
    (tmp_path / "project" / "a.json").symlink_to("../shared/a.json")
    (tmp_path / "project" / "c.json").symlink_to("b.json")
    assert run("check", "project", *DEEPSPEED, "--diff").stdout.count("+++") == 2
    assert run("check", "project", *DEEPSPEED, "--fix").returncode == 0
    assert "clipping" in (tmp_path / "shared" / "a.json").read_text()
    assert "clipping" in (tmp_path / "project" / "b.json").read_text()
    assert (tmp_path / "project" / "c.json").is_symlink()


def test_another_name_of_the_same_file_keeps_the_old_text(run, write, tmp_path):
    write({"project/a.json": TYPO})
    os.link(tmp_path / "project" / "a.json", tmp_path / "kept.json")
    run("check", "project", *DEEPSPEED, "--fix")
    assert "clipping" in (tmp_path / "project" / "a.json").read_text()
    assert (tmp_path / "kept.json").read_text() == TYPO


# The step itself


def test_a_name_of_any_length_can_be_written(tmp_path):
    path = tmp_path / ("a" * 250 + ".json")
    replacement.create(str(path), b"1")
    replacement.write(str(path), b"2")
    assert files(tmp_path) == {path.name: b"2"}


def test_what_is_made_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    link = os.link

    def made_meanwhile(*names):
        path.write_text(OLD)
        link(*names)

    monkeypatch.setattr(os, "link", made_meanwhile)
    with pytest.raises(FileExistsError):
        replacement.create(str(path), b"2")
    assert files(tmp_path) == {"a.json": OLD.encode()}


def test_a_report_goes_where_it_is_asked_to_go(run, write, tmp_path):
    """Into a pipe, and into a file whose folder takes no other file."""
    write({"a.json": TYPO, "out/report.txt": OLD * 1000})
    assert "DS101" in run("check", "a.json", "--output-file", "/dev/stdout").stdout
    (tmp_path / "out" / "report.txt").chmod(0o666)
    (tmp_path / "out").chmod(0o555)
    run("check", "a.json", "--output-file", "out/report.txt", prepare=give_up_privileges)
    (tmp_path / "out").chmod(0o755)
    text = (tmp_path / "out" / "report.txt").read_text()
    assert "DS101" in text
    assert OLD not in text
