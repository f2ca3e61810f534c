"""``ds-lint advisories``, ids in place of codes, and what an upgrade says of defects."""

from __future__ import annotations

import json
import re

import pytest
from command_line import write_into

from ds_lint.knowledge.advisories import advisories
from ds_lint.output.osv import as_object

LOST_GRADIENTS = "DSA-2026-0001"  # DeepSpeed 0.17.6 to before 0.18.3, stage 2 with accumulation
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 8,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "bf16": {"enabled": True, "check_grad_overflow": True},
    "zero_optimization": {"stage": 2},
}


@pytest.fixture
def project(tmp_path):
    """A folder with a config and the release that it is for."""
    write_into(tmp_path)({"ds.json": CONFIG, "requirements.txt": "deepspeed==0.18.2\n"})
    return tmp_path


def ids_of(result):
    return [one.get("advisory") for one in json.loads(result.stdout)["findings"]]


def test_all_are_listed(run):
    result = run("advisories")
    assert result.returncode == 0
    listed = re.findall(r"^DSA-\d{4}-\d{4}", result.stdout, re.MULTILINE)
    assert listed == list(advisories())


def test_an_id_prints_the_page(run):
    page = run("advisories", LOST_GRADIENTS).stdout
    assert page.startswith(f"# {LOST_GRADIENTS}: DeepSpeed ")
    assert "| affected | DeepSpeed 0.17.6 to before 0.18.3 |" in page
    assert page == run("explain", LOST_GRADIENTS.lower()).stdout


def test_an_unknown_id_is_wrong_usage(run):
    result = run("advisories", "DSA-1999-0001")
    assert result.returncode == 2
    assert "unknown advisory DSA-1999-0001" in result.stderr


def test_a_file_that_is_absent_is_one_error(run):
    result = run("advisories", "absent.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "absent.json: No such file or directory" in result.stderr


def test_json_is_the_store(run):
    printed = json.loads(run("advisories", "--output-format", "json").stdout)
    assert printed["version"] == 1
    assert printed["advisories"] == list(advisories().values())


def test_of_a_project_what_it_reaches_and_may_reach(run, project):
    result = run("advisories", "ds.json", "--output-format", "json")
    assert result.returncode == 1
    (file,) = json.loads(result.stdout)["files"]
    assert LOST_GRADIENTS in file["reached"]
    assert all(one["unknown"] for one in file["possible"])
    assert f"{LOST_GRADIENTS} " in run("advisories").stdout
    (project / "requirements.txt").write_text("deepspeed==0.18.3\n")
    result = run("advisories", "ds.json", "--output-format", "json")
    assert LOST_GRADIENTS not in json.loads(result.stdout)["files"][0]["reached"]


@pytest.mark.parametrize("record", advisories().values(), ids=list(advisories()))
def test_the_osv_form(record):
    """The parts of OSV's schema that an advisory has, and nothing else at the top."""
    exported = as_object(record)
    assert set(exported) == {
        "schema_version", "id", "published", "modified", "summary", "details", "affected", "references",
        "database_specific",
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", exported["modified"])
    for affected in exported["affected"]:
        assert affected["package"]["ecosystem"] == "PyPI"
        for one in affected["ranges"]:
            assert one["type"] == "ECOSYSTEM"
            assert "introduced" in one["events"][0]
            assert all(len(event) == 1 for event in one["events"])
    assert all(re.match("https://", one["url"]) for one in exported["references"])
    assert {one["type"] for one in exported["references"]} <= {"ADVISORY", "FIX", "REPORT", "WEB"}


def test_a_finding_has_the_id(run, project):
    result = run("check", "ds.json", "--output-format", "json")
    (finding,) = (one for one in json.loads(result.stdout)["findings"] if one.get("advisory") == LOST_GRADIENTS)
    assert finding["code"] == "DS847"
    assert finding["key"] == "gradient_accumulation_steps"
    assert finding["url"].endswith(f"/advisories/{LOST_GRADIENTS}/")
    assert [one["path"] for one in finding["related"]] == ["requirements.txt"]


def test_an_id_works_where_a_code_does(run, project):
    def found(*words):
        return ids_of(run("check", "ds.json", "--output-format", "json", *words))

    assert LOST_GRADIENTS not in found("--ignore", LOST_GRADIENTS)
    assert found("--select", LOST_GRADIENTS.lower()) == [LOST_GRADIENTS]
    assert found("--select", "DSA-2026-0002") == []
    assert "unknown advisory DSA-1999-0001" in run("check", "ds.json", "--ignore", "DSA-1999-0001").stderr


@pytest.mark.parametrize(
    ("settings", "severities"),
    [
        (f'ignore = ["{LOST_GRADIENTS}"]', []),
        (f'[per-file-ignores]\n"ds.json" = ["{LOST_GRADIENTS}"]', []),
        (f'[severity]\n{LOST_GRADIENTS} = "info"', ["info"]),
    ],
)
def test_an_id_works_in_settings(run, project, settings, severities):
    (project / "ds-lint.toml").write_text(settings)
    result = run("check", "ds.json", "--output-format", "json")
    found = [one for one in json.loads(result.stdout)["findings"] if one.get("advisory") == LOST_GRADIENTS]
    assert [one["severity"] for one in found] == severities, result.stderr


def test_a_comment_with_an_id_suppresses_that_advisory(run, project):
    text = json.dumps(CONFIG, indent=2).replace(
        '"gradient_accumulation_steps"', f'// ds-lint: ignore[{LOST_GRADIENTS}]\n"gradient_accumulation_steps"'
    )
    (project / "ds.json").write_text(text)
    words = ("check", "ds.json", "--stack", "deepspeed", "--output-format", "json")
    assert ids_of(run(*words)) == []
    (project / "requirements.txt").write_text("deepspeed==0.18.3\n")
    codes = [one["code"] for one in json.loads(run(*words).stdout)["findings"]]
    assert codes == []  # in another release it suppresses nothing, and is not in the way


def test_an_upgrade_says_what_it_fixes_and_brings(run, project):
    text = run("upgrade", "--from", "0.18.2", "ds.json").stdout
    assert re.search(rf"fixed in DeepSpeed [\d.]+: {LOST_GRADIENTS} ", text.replace("\n  ", " "))
    text = run("upgrade", "--from", "0.17.5", "--to", "0.18.2", "ds.json").stdout.replace("\n  ", " ")
    assert f"new in DeepSpeed 0.18.2: {LOST_GRADIENTS} " in text
    assert "DS847" in text  # which makes it a finding
    assert re.search(r"these configs reach no known defect of DeepSpeed|has the fewest known defects", text)


def test_the_summary_says_how_many_may_be_reached(run, project):
    config = {**CONFIG, "gradient_accumulation_steps": "auto"}
    (project / "ds.json").write_text(json.dumps(config))
    text = run("check", "ds.json").stdout.replace("\n  ", " ")
    assert re.search(r"May reach \d+ known defects? of these releases; .*: ds-lint advisories ds.json", text)
