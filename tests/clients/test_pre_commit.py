"""The hooks as pre-commit runs them, and prek, which takes the same files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.client

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "pre-commit.md").read_text(encoding="utf-8")

CLEAN = json.loads((ROOT / "examples" / "clean.json").read_text(encoding="utf-8"))
TYPO = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "gradient_cliping": 1.0}
NO_CONFIGS = {
    "package.json": {"name": "app", "dependencies": {"react": "^19.0.0"}},
    "tsconfig.json": '{\n  // strict\n  "compilerOptions": {"strict": true,},\n}',
    "model/config.json": {"model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 4096},
    "hyperparameters.json": {"train_batch_size": 8, "gradient_accumulation_steps": 2, "learning_rate": 1e-4},
    "experiment.json": {
        "model": "mlp", "data": "mnist", "epochs": 3, "seed": 1, "optimizer": {"lr": 0.1}, "scheduler": {},
        "train_batch_size": 8,
    },
    "trainer_state.json": {"global_step": 10, "train_batch_size": 8, "log_history": []},
    "data.json": [{"instruction": "What is zero_optimization?", "output": "A section."}],
    "broken.json": '{"name": "steps_per_print", "scripts": {',
    "empty.json": "",
    "picture.json": "\x89PNG\r\n\x00",
    "notes.hjson": "{\n  # nothing of DeepSpeed\n  a: 1\n}",
}  # fmt: skip


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


class Project:
    """A git repository with a ``.pre-commit-config.yaml`` in it."""

    def __init__(self, folder, home, program):
        self.folder = folder
        self.program = program
        (home / "gitconfig").write_text("[user]\n  name = A\n  email = a@example.org\n[init]\n  defaultBranch = main\n")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "XDG_", "PRE_COMMIT", "PREK"))
            and name not in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "COLUMNS", "SKIP")
        }
        self.environment = kept | {
            "HOME": str(home),
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PRE_COMMIT_HOME": str(home / "pre-commit"),
            "PREK_HOME": str(home / "prek"),
            "PRE_COMMIT_COLOR": "never",
            "PYTHONIOENCODING": "utf-8",
        }
        folder.mkdir()
        self.git("init", "--quiet")

    def command(self, *words):
        return subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, encoding="utf-8", check=False
        )

    def git(self, *words):
        done = self.command("git", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, files):
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
            path.write_text(text, encoding="utf-8", newline="")
        self.git("add", "--all")

    def commit(self):
        self.git("commit", "--quiet", "--no-verify", "--message", "files")

    def configure(self, text, repository, **hook):
        """Write a ``.pre-commit-config.yaml`` that is shown somewhere, with the checkout for the published place."""
        config = yaml.safe_load(text)
        for entry in config["repos"]:
            if entry["repo"] != "local":
                entry["repo"] = str(repository)
            for one in entry["hooks"]:
                one.update(hook)
        (self.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.git("add", ".pre-commit-config.yaml")

    def pre_commit(self, *words):
        return self.command(self.program("pre-commit"), *words)

    def run(self, *words):
        return self.pre_commit("run", *(words or ["--all-files"]))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def hooks(home, tmp_path_factory, program):
    """A repository with what is in this checkout, committed or not, and the tag that the documentation names."""
    repository = Project(tmp_path_factory.mktemp("hooks") / "ds-lint", home, program)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (repository.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, repository.folder / name)
    repository.git("add", "--all")
    repository.commit()
    repository.git("tag", *re.findall(r"rev: (\S+)", GUIDE)[:1])
    return repository.folder


@pytest.fixture
def project(tmp_path, home, hooks, program):
    made = Project(tmp_path / "project", home, program)
    made.configure(blocks("yaml")[0], hooks)
    return made


def linted(done):
    """The files with findings in a concise report; prek indents it."""
    return set(re.findall(r"^ *(\S.*?):\d+:\d+: DS", done.stdout, re.MULTILINE))


def concise(project, hooks, block=0):
    project.configure(blocks("yaml")[block], hooks, args=["--output-format", "concise"])


def test_the_manifest_is_valid(project, hooks):
    assert project.pre_commit("validate-manifest", str(hooks / ".pre-commit-hooks.yaml")).returncode == 0


def test_configs_are_found_by_content_and_nothing_is_said_of_other_files(project, hooks):
    concise(project, hooks)
    project.write(
        NO_CONFIGS
        | {
            "clean.json": CLEAN,
            "typo.json": TYPO,
            "runs/final (2).json": TYPO,
            "commented.jsonc": f"// for DeepSpeed\n{json.dumps(TYPO)}",
            "zero.hjson": "{\n  train_micro_batch_size_per_gpu: 1\n  gradient_cliping: 1.0\n}\n",
            "broken_config.json": '{"train_batch_size": 8, "zero_optimization": {"stage": 2,, }',
        }
    )
    done = project.run()
    assert done.returncode == 1
    assert linted(done) == {
        "typo.json", "runs/final (2).json", "commented.jsonc", "zero.hjson", "broken_config.json",
    }  # fmt: skip
    assert not any(name in done.stdout for name in NO_CONFIGS if name != "broken.json")


def test_without_a_config_the_hook_passes_and_says_nothing(project, hooks):
    project.configure(blocks("yaml")[0], hooks, verbose=True)
    project.write(NO_CONFIGS)
    done = project.run()
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("- hook id", "- duration"))]
    assert [line for line in lines if line] == [lines[0]]
    assert lines[0].startswith("ds-lint...")
    assert lines[0].endswith("Passed")


def test_names_with_anything_in_them(project, hooks):
    concise(project, hooks)
    names = ["a b.json", "世界 ü.json", 'it\'s "one".json', "-x.json", "--fix.json", "sub/-v.json", "$HOME.json"]
    project.write(dict.fromkeys(names, TYPO))
    done = project.run()
    assert done.returncode == 1
    assert {os.path.normpath(name) for name in linted(done)} == set(names)


def test_a_hook_can_be_given_files_of_any_name(project, hooks):
    project.configure(blocks("yaml")[0], hooks, files="^configs/zero", args=["--output-format", "concise"])
    project.write({"configs/zero2": TYPO, "configs/zero3.json.template": TYPO, "configs/other.json": TYPO})
    assert linted(project.run()) == {"configs/zero2", "configs/zero3.json.template"}


def test_a_renamed_file_is_linted_a_deleted_one_is_not(project, hooks):
    concise(project, hooks)
    project.write({"old.json": TYPO, "gone.json": TYPO, "unchanged.json": TYPO})
    project.commit()
    project.git("mv", "old.json", "new.json")
    project.git("rm", "--quiet", "gone.json")
    done = project.run("--hook-stage", "pre-commit")
    assert linted(done) == {"new.json"}
    (project.folder / "unchanged.json").unlink()  # and git does not know yet
    assert linted(project.run()) == {"new.json"}


def test_a_symbolic_link_is_not_linted_beside_its_file(project, hooks):
    concise(project, hooks)
    (project.folder / "link.json").symlink_to("typo.json")
    (project.folder / "dangling.json").symlink_to("nowhere.json")
    project.write({"typo.json": TYPO})
    assert linted(project.run()) == {"typo.json"}


def test_settings_and_pins_are_those_near_each_file(project, hooks):
    concise(project, hooks)
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_weights": False}}
    project.write(
        {
            "old/requirements.txt": "deepspeed==0.9.1\n",
            "new/requirements.txt": "deepspeed==0.18.9\n",
            "own/ds-lint.toml": 'deepspeed-version = "0.9.2"\n',
            "left/ds-lint.toml": 'deepspeed-version = "0.9.1"\nexclude = ["zero.json"]\n',
            **{f"{folder}/zero.json": config for folder in ("old", "new", "own", "left")},
        }
    )
    done = project.run()
    assert linted(done) == {"old/zero.json", "own/zero.json"}
    assert "Checked against deepspeed 0.18.9 and 0.9.1 and 0.9.2" in done.stdout


def test_thousands_of_files_in_several_batches(project, hooks):
    concise(project, hooks)
    deep = "/".join(["a" * 40] * 3)
    others = {f"{deep}/{number}.json": NO_CONFIGS["package.json"] for number in range(1500)}
    configs = {f"{deep}/{number}.clean.json": CLEAN for number in range(1500)}
    project.write(others | configs | {"0.json": TYPO, f"{deep}/zzz.json": TYPO})
    done = project.run()
    assert done.returncode == 1
    assert linted(done) == {"0.json", f"{deep}/zzz.json"}
    assert done.stdout.count("Checked against") > 1  # one of each batch


def test_what_was_fixed_fails_once_and_what_is_left_always(project, hooks):
    project.configure(blocks("yaml")[1], hooks)
    project.write(NO_CONFIGS | {"typo.json": TYPO, "clean.json": CLEAN})
    before = {name: (project.folder / name).read_bytes() for name in NO_CONFIGS}
    first = project.run()
    assert first.returncode == 1
    assert "files were modified by this hook" in first.stdout
    assert "Fixed 1 finding." in first.stdout
    assert "gradient_clipping" in json.loads((project.folder / "typo.json").read_text(encoding="utf-8"))
    assert before == {name: (project.folder / name).read_bytes() for name in NO_CONFIGS}
    second = project.run()
    assert second.returncode == 0, second.stdout
    assert "Passed" in second.stdout

    project.write({"left.json": TYPO | {"our_launcher_tag": 1}})
    assert "files were modified" in project.run().stdout
    again = project.run()
    assert again.returncode == 1
    assert "files were modified" not in again.stdout
    assert "our_launcher_tag" in again.stdout


def test_a_commit_with_a_broken_config_is_refused(project, hooks):
    assert project.pre_commit("install").returncode == 0
    project.write({"typo.json": TYPO})
    refused = project.command("git", "commit", "--message", "typo")
    assert refused.returncode == 1
    assert "gradient_cliping" in refused.stderr + refused.stdout
    project.write({"typo.json": CLEAN})
    assert project.command("git", "commit", "--message", "no typo").returncode == 0


def test_the_environment_of_the_project_can_lint(project, hooks):
    project.configure(blocks("yaml")[2], hooks)
    folder = project.folder.parent / "bin"
    folder.mkdir()
    ours = folder / "ds-lint"
    ours.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m ds_lint "$@"\n')
    ours.chmod(0o755)
    project.environment["PATH"] = f"{folder}{os.pathsep}{project.environment['PATH']}"
    project.write(NO_CONFIGS | {"typo.json": TYPO})
    done = project.run()
    assert done.returncode == 1
    assert "gradient_cliping" in done.stdout


def test_it_can_be_tried_without_a_configuration(project, hooks):
    project.write(NO_CONFIGS | {"typo.json": TYPO})
    done = project.pre_commit("try-repo", str(hooks), "ds-lint", "--all-files")
    assert done.returncode == 1
    assert "gradient_cliping" in done.stdout


def test_prek_runs_the_same_hooks(project, hooks, program):
    concise(project, hooks)
    project.write(NO_CONFIGS | {"typo.json": TYPO, "runs/世界.json": TYPO})
    done = project.command(program("prek"), "run", "--all-files")
    assert done.returncode == 1
    assert linted(done) == {"typo.json", "runs/世界.json"}
