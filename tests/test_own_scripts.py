"""The list of public scripts that were run through ``ds-lint smoke``, and the tool that writes it."""

from __future__ import annotations

import re

import pytest

from tools.own_scripts import page, results
from tools.own_scripts.recipes import RECIPES
from tools.own_scripts.runs import Ended

SCRIPTS = results.read()["scripts"]
RELEASE, COMMIT = re.compile(r"\d+(\.\d+)+"), re.compile(r"[0-9a-f]{40}")


def test_at_least_thirty_scripts_were_run():
    assert len({(one["source"]["name"], one["script"]) for one in SCRIPTS}) >= 30


def test_each_was_run_with_the_command_of_its_recipe():
    recipes = {one.name: one.command for one in RECIPES}
    assert [one["command"] for one in SCRIPTS] == [recipes[one["name"]] for one in SCRIPTS]


@pytest.mark.parametrize("one", SCRIPTS, ids=lambda one: one["name"])
def test_an_entry_names_its_source_and_tells_what_happened(one):
    is_repository = "/" in one["source"]["name"]
    assert (COMMIT if is_repository else RELEASE).fullmatch(one["source"]["version"])
    assert one["script"].endswith(".py") is is_repository
    assert one["result"] in results.STATUSES
    assert (one["result"] == "error") is (one["error"] is not None)
    assert one["engines"] or one["error"]
    for engine in one["engines"]:
        assert engine["result"] in results.STATUSES
        assert engine["parameters"] > 0
        others = sum(count for status, count in engine["checks"].items() if status != "pass")
        assert others == len(engine["notable"])
    for ended in (one["alone"], one["with_ds_lint"]):
        assert ended["seconds"] > 0
        assert ended["processor_seconds"] > 0


@pytest.mark.parametrize("one", SCRIPTS, ids=lambda one: one["name"])
def test_no_path_of_a_machine_is_in_the_list(one):
    assert not re.search(r"/(tmp|root|home|work)/", str(one))


def test_the_page_shows_the_list():
    assert page.PAGE.read_text(encoding="utf-8") == page.text(results.read())


def test_an_entry_has_what_the_report_says():
    checks = [{"id": "stage", "status": "pass", "message": ""}, {"id": "export", "status": "fail", "message": "lost"}]
    run = {
        "stack": "trainer", "status": "fail", "error": None, "model": "Llama", "parameter_count": 8, "checks": checks,
        "engine": {"number": 1, "optimizer": "torch.optim.AdamW", "is_trained": True},
    }  # fmt: skip
    report = {"smoke": [run], "findings": [{"code": "DS912", "message": "lost", "line": 1}]}
    entry = results.entry(RECIPES[0], Ended(0, 1.0, 2.0, "", []), Ended(1, 3.0, 4.0, "", ["out/a"]), report)
    assert entry["result"] == "fail"
    assert entry["engines"][0]["checks"] == {"fail": 1, "pass": 1}
    assert [one["message"] for one in entry["engines"][0]["notable"]] == ["lost"]
    assert (entry["findings"], entry["left"]) == ([{"code": "DS912", "message": "lost"}], ["out/a"])


def test_without_a_report_the_last_words_of_ds_lint_are_the_error():
    log = "loss 1\nds-lint: the script could not be checked: it raises\nnote: nothing\n"
    entry = results.entry(RECIPES[0], Ended(0, 1.0, 2.0, "", []), Ended(2, 3.0, 4.0, log, []), {})
    assert (entry["result"], entry["error"]) == ("error", "the script could not be checked: it raises")
