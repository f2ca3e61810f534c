"""What is published names one release, and shows where it is shown; what it needs beside the code is there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ds_lint import __version__
from ds_lint.addresses import ORGANISATION, RAW, REPOSITORY
from tools import release

ROOT = Path(__file__).parent.parent
TEMPLATES = ("false-alarm.yml", "missed-problem.yml")


def test_every_file_names_the_same_release():
    assert set(release.named().values()) == {__version__}
    assert release.pinned() == {}


def test_a_tag_of_another_release_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["release", "v99.0.0"])
    assert release.main() == 1
    refused = capsys.readouterr().err
    assert f"CITATION.cff names {__version__}, and the tag is v99.0.0\n" in refused
    assert refused.count("v99.0.0") == len(release.named())


def test_a_release_has_a_date(monkeypatch):
    texts = {"CHANGELOG.md": f"# Changelog\n\n## {__version__}, unreleased\n", "README.md": ""}
    read = release._text
    monkeypatch.setattr(release, "_text", lambda path: texts.get(str(path)) or read(path))
    assert f"CHANGELOG.md says that {__version__} is not released" in release.problems(f"v{__version__}")


def test_a_document_that_pins_another_release_is_found(monkeypatch):
    read = release._text
    stale = f"  - uses: {ORGANISATION}/ds-lint@v99.0.0\n"
    monkeypatch.setattr(release, "_text", lambda path: stale if str(path) == "docs/ci.md" else read(path))
    assert release.pinned() == {"docs/ci.md": "99.0.0"}


def test_a_name_that_the_index_takes_for_another_is_refused(monkeypatch, capsys, tmp_path):
    index = tmp_path / "index.json"
    names = ["dslint", "deepspeed", "deepspeed-linter", "Deepspeed.Lint", "deepspeed-l1nt", "deepspeed_lint"]
    index.write_text(json.dumps({"projects": [{"name": name} for name in names]}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["release", f"v{__version__}", "--index", str(index)])
    release.main()
    (refused,) = (line for line in capsys.readouterr().err.splitlines() if "package index" in line)
    assert refused == "the package index has deepspeed-l1nt, and refuses deepspeed-lint for it"


@pytest.mark.parametrize(("name", "same"), [("ds-lint", "DSL1nt"), ("o.O_0", "000"), ("li-1L", "1111")])
def test_names_fold_as_in_the_database_of_the_index(name, same):
    assert release.folded(name) == release.folded(same)


def test_one_page_says_what_is_published():
    """The others link to it, so that a first release changes one page."""
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "editors" / "vscode" / "README.md"]:
        text = path.read_text(encoding="utf-8")
        if path.name in ("install.md", "publishing.md"):
            continue
        assert f"git+{REPOSITORY}" not in text, path
        assert not re.search(r"not on (PyPI|the marketplace)|package index does not have", text), path
        installs = re.search(r"pip[\"']? install [^\n`]*deepspeed-lint|rev: v\d|/ds-lint[@/]v\d", text)
        assert not installs or "install.md" in text, path


# -------------------------------------------------------------------------------------------------- the package index


@pytest.fixture(scope="module")
def metadata():
    pytest.importorskip("hatch_fancy_pypi_readme")
    command = [sys.executable, "-m", "hatchling", "metadata"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def test_links_of_the_readme_work_on_the_package_index(metadata):
    """All are absolute, and those into the repository lead to files of the tag."""
    readme = metadata["readme"]["text"]
    links = re.findall(r"(?:\]\(|(?:src|srcset|href)=\"|^\[[^\]]+\]: +)([^)\s\"]+)", readme, re.MULTILINE)
    assert len(links) > 10
    for link in links:
        assert link.startswith(("https://", "#")), link
        for place in (f"{REPOSITORY}/blob/v{__version__}/", f"{RAW}/v{__version__}/"):
            if link.startswith(place):
                assert (ROOT / link.removeprefix(place).partition("#")[0]).exists(), link


def test_pictures_of_the_readme_come_from_the_tag():
    """Of a text like the README that has one."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = "![a finding](docs/images/a.png) [![b](docs/b.png)](docs/b.md) [c](#d) [e](https://f.example)"
    rules = re.findall(r"^pattern = '(.*)'\nreplacement = '(.*)'$", pyproject, re.MULTILINE)
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement.replace("$HFPR_VERSION", "1.0"), text)
    raw, blob = f"{RAW}/v1.0", f"{REPOSITORY}/blob/v1.0"
    assert text == (
        f"![a finding]({raw}/docs/images/a.png) [![b]({raw}/docs/b.png)]({blob}/docs/b.md) [c](#d) [e](https://f.example)"
    )


def test_every_python_that_is_named_is_tested(metadata):
    named = {one.rpartition(" ")[2] for one in metadata["classifiers"] if re.search(r":: 3\.\d+$", one)}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert set(workflow["jobs"]["python"]["strategy"]["matrix"]["python"]) == named
    assert min(named, key=lambda version: int(version.partition(".")[2])) == metadata["requires-python"][2:]


# ------------------------------------------------------------------------------------------------------- the workflows


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_workflows_are_given_no_more_than_they_need(name):
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
        assert "permissions" in job
        writes = {scope for scope, access in job["permissions"].items() if access == "write"}
        assert writes <= ({"attestations", "contents", "id-token", "packages"} if name == "release.yml" else set())
        for step in job["steps"]:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}")), step
        secrets = re.findall(r"secrets\.(\w+)", json.dumps(job))
        assert not set(secrets) - {"GITHUB_TOKEN"} or "environment" in job


def test_an_action_has_one_hash_everywhere():
    hashes = {}
    for path in [ROOT / "action.yml", *(ROOT / ".github" / "workflows").glob("*.yml")]:
        for action, commit, comment in re.findall(r"uses: (\S+)@([0-9a-f]{40}) # (v\S+)", path.read_text("utf-8")):
            hashes.setdefault((action, comment), set()).add(commit)
    assert {action for action, commits in hashes.items() if len(commits) > 1} == set()


# ------------------------------------------------------------------------------------------------- the issue templates


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_report_has_what_it_takes_to_run_it(name):
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / name).read_text(encoding="utf-8"))
    asked = {part["id"]: part for part in form["body"] if "id" in part}
    for needed in ("config", "report", "behaviour", "bug-report", "stack"):
        assert asked[needed]["validations"]["required"], needed


def test_the_output_that_is_pasted_names_the_release_of_ds_lint(run):
    assert run("--version").stdout.strip() in run("bug-report").stdout


@pytest.mark.parametrize("path", ["SECURITY.md", "CITATION.cff", "editors/vscode/README.md"])
def test_links_into_the_repository_lead_to_files(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    for target in re.findall(rf"(?:{re.escape(REPOSITORY)}/(?:blob|tree)|{re.escape(RAW)})/[^/]+/([^)\s#]+)", text):
        assert (ROOT / target).exists(), target
