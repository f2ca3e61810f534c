"""Every command that README.md and docs/ show is run, and prints what they show."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tools.documents import (
    ROOT,
    Command,
    DocumentError,
    Folder,
    blocks,
    commands,
    corrected,
    documents,
    matches,
    run,
    run_blocks,
    text_of,
)

CLIENTS = ROOT / "tests" / "clients" / ".venv"  # has uv and pipx

# Everything that is not run, with the reason that its block gives. It is to stay short.
NOT_RUN = {
    "README.md": ["runs these tests"],
    "docs/ci.md": ["needs a container engine"],
    "docs/convert.md": ["takes half a minute, and the seconds differ"],
    "docs/agreement.md": ["trains for half an hour"],
    "docs/conda.md": ["conda's channels are not in the tests"],
    "docs/reviewdog.md": ["reviewdog is not in the tests"],
    "docs/launches.md": ["trains with the scripts of the project"],
    "docs/smoke.md": ["a folder of your own"],
    "docs/dev/documentation.md": ["it serves until it is stopped"],
    "docs/dev/releases.md": ["downloads every release and trains"],
    "docs/dev/training-runs.md": ["trains for minutes", "downloads 300 MB"],
    "docs/vscode.md": ["the tests of the extension build it"],
}


def having(word):
    """The documents with a block of this kind, that is run."""
    return [
        document
        for document in documents()
        if any(block.is_run and word in block.words for block in blocks(text_of(document)))
    ]


@pytest.mark.parametrize("document", documents())
def test_commands_print_what_is_shown(document, tmp_path):
    differences = [one for _, found in run(document, tmp_path) for one in found]
    assert differences == [], f"python -m tools.documents --write {document}"


def training():
    """The documents that show training runs; in every test run those that a user reads first, the guides long."""
    return [
        pytest.param(document, marks=pytest.mark.long if document.startswith("docs/guides/") else ())
        for document in having("smoke")
    ]


@pytest.mark.fidelity
@pytest.mark.parametrize("document", training())
def test_training_runs_print_what_is_shown(document, tmp_path):
    pytest.importorskip("deepspeed")
    differences = [one for _, found in run(document, tmp_path, smoke=True) for one in found]
    assert differences == [], f"python -m tools.documents --smoke --write {document}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A folder with the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    copy_of_checkout(folder / "checkout")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, folder / "checkout"],
        check=True,
    )
    return folder


def installing():
    """One document for each way to install that any of them shows."""
    ways = {
        tuple(block.text for block in blocks(text_of(document)) if "install" in block.words): document
        for document in having("install")
    }
    return [*ways.values()]


@pytest.mark.client
@pytest.mark.parametrize(
    "document",
    [
        one if one == "README.md" else pytest.param(one, marks=pytest.mark.long)  # each makes an environment
        for one in installing()
    ],
)
def test_what_is_installed_can_be_used(document, wheels, tmp_path):
    """In an environment of its own, in a copy of the checkout, with its wheel beside the package index."""
    checkout, environment = tmp_path / "checkout", tmp_path / "environment"
    copy_of_checkout(checkout)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    variables = os.environ | {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join((str(environment / "bin"), os.environ["PATH"], str(CLIENTS / "bin"))),
        "PIP_FIND_LINKS": str(wheels),
        "UV_FIND_LINKS": str(wheels),
    }
    for block in blocks(text_of(document)):
        if block.is_run and "install" in block.words:
            done = subprocess.run(["bash", "-euc", block.text], cwd=checkout, env=variables, timeout=300, check=False)
            assert done.returncode == int(block.options.get("status", 0)), block.text


def copy_of_checkout(folder):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)


def test_what_is_not_run_is_known_with_its_reason():
    reasons = {
        document: [block.options["not-run"] for block in blocks(text_of(document)) if "not-run" in block.options]
        for document in documents()
    }
    assert {document: found for document, found in reasons.items() if found} == NOT_RUN


def test_no_command_hides_in_a_block_of_another_kind():
    """``$ ds-lint`` stands in console blocks only, where it is run."""
    hidden = [
        (document, block.line)
        for document in documents()
        for block in blocks(text_of(document))
        if block.language in ("", "bash", "shell", "shell-session", "text", "zsh") and "$ ds-lint" in block.text
    ]
    assert hidden == []


# ------------------------------------------------------------------------------------------------------ the runner

BROKEN = '```json title="a/ds.json"\n{"gradient_cliping": 1}\n```\n\n'


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_files_are_written_where_commands_find_them(folder):
    text = BROKEN + '```console\n$ cat a/ds.json\n{"gradient_cliping": 1}\n$ ls\na\n```\n'
    assert [found for _, found in run_blocks(text, folder)] == [[]]


def test_what_differs_is_told_and_put_right(folder):
    text = "```console\n$ echo one\ntwo\n$ echo three\nthree\n```\n"
    ((block, (difference,)),) = run_blocks(text, folder)
    assert (difference.command, difference.shown, difference.printed) == ("echo one", "two\n", "one\n")
    assert corrected(text, [(block, [difference])]) == text.replace("two", "one")


def test_three_dots_leave_lines_out():
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert matches("a\n...\nd\n", "a\nd\n")
    assert not matches("a\n...\nd\n", "a\nb\n")
    assert not matches("a.c\n", "abc\n")


def test_a_document_may_leave_out_the_releases(folder):
    right = (
        "```console\n$ echo 'Checked against deepspeed 0.9.5; stack trainer'\nChecked against ...; stack trainer\n```\n"
    )
    assert [found for _, found in run_blocks(right, folder)] == [[]]
    wrong = right.replace("...; stack trainer", "...; stack accelerate")
    assert corrected(wrong, run_blocks(wrong, folder)) == right


def test_a_command_may_take_several_lines():
    (block,) = blocks("```console\n$ ds-lint check \\\n> a.json\nfine\n```\n")
    assert commands(block) == [Command("ds-lint check a.json", "fine\n")]


def test_a_script_must_end_as_it_says(folder):
    assert list(run_blocks("```sh\ntrue\n```\n```sh status=3\nexit 3\n```\n", folder)) == []
    with pytest.raises(DocumentError, match="line 2: status 1"):
        list(run_blocks("```sh\nfalse\ntrue\n```\n", folder))


@pytest.mark.parametrize("block", ["```console smok\n$ true\n```\n", "```console\nno command\n```\n"])
def test_a_block_that_means_nothing_is_refused(block, folder):
    with pytest.raises(DocumentError, match="line 2"):
        list(run_blocks(block, folder))
