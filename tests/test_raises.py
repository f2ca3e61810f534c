"""The table of what raises: every site has an answer, and the pages say what the table says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_lint.linter.engine import every_rule
from tools.raises import pages, table
from tools.raises.sites import sites
from tools.raises.table import LIBRARIES, REASONS

ROOT = Path(__file__).parent.parent
BAR = 0.95  # the share of the sites that a rule claims or a reason explains
ROWS = {library: table.rows(library) for library in LIBRARIES}

SOURCE = '''
class Engine:
    def check(self, stage, names):
        """Doc."""
        if stage == 3:
            assert names, f"no {names}"
        elif stage > 3:
            raise ValueError("no such stage")
        else:
            try:
                names.pop()
            except IndexError:
                raise RuntimeError("nothing left") from None
            except KeyError:
                raise

    def later(self):
        """Abstract."""
        raise NotImplementedError
'''


def test_a_site_is_a_raise_with_the_conditions_around_it(tmp_path):
    (tmp_path / "engine.py").write_text(SOURCE, encoding="utf-8")
    assert [(site.function, site.when, site.raises, site.message) for site in sites(tmp_path, "engine.py")] == [
        ("Engine.check", ("stage == 3", "not names"), "AssertionError", "f'no {names}'"),
        ("Engine.check", ("stage != 3", "stage > 3"), "ValueError", "'no such stage'"),
        ("Engine.check", ("stage != 3", "not stage > 3", "except IndexError"), "RuntimeError", "'nothing left'"),
    ]


def test_a_site_stays_the_same_while_lines_move_and_one_of_the_same_text_is_told_apart(tmp_path):
    twice = "def check(x):\n    assert x\n    assert x\n"
    (tmp_path / "engine.py").write_text(twice, encoding="utf-8")
    before = [site.fingerprint for site in sites(tmp_path, "engine.py")]
    (tmp_path / "engine.py").write_text(f"# moved\n\n{twice}", encoding="utf-8")
    assert [site.fingerprint for site in sites(tmp_path, "engine.py")] == before
    assert len(set(before)) == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_row_has_one_answer(library):
    for row in ROWS[library]:
        answers = [bool(row.rules), row.reason is not None, row.open is not None]
        assert sum(answers) == 1, f"{row.site}: give it `rules`, `reason` or `open` (tools/raises/table.py)"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_reason_is_a_known_word_with_a_sentence(library):
    for row in ROWS[library]:
        if row.reason is not None:
            assert row.reason in REASONS, row.site
            assert row.because, row.site
            assert row.because.endswith("."), row.site


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_claim_names_rules_that_there_are_with_an_example_or_why_there_is_none(library):
    codes = {rule.code for rule in every_rule()}
    for row in ROWS[library]:
        assert set(row.rules) <= codes, row.site
        assert not row.rules or row.shown or row.because or len(row.rules) == 1, row.site


def test_nearly_all_sites_are_accounted_for():
    found = [row for library in LIBRARIES for row in ROWS[library]]
    assert pages.share(found) >= BAR


def test_no_module_is_in_both_lists():
    lists = table.modules()
    assert sorted(set(lists.read)) == lists.read
    assert not set(lists.read) & set(lists.left_out)


@pytest.mark.parametrize("name", pages.pages())
def test_the_pages_are_up_to_date(name):
    written = (ROOT / "docs" / "raises" / name).read_text(encoding="utf-8")
    assert written == pages.pages()[name], "python -m tools.raises --write"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_row_of_the_table_is_a_line(library):
    lines = (table.FOLDER / f"{library}.json").read_text(encoding="utf-8").splitlines()
    assert sum(json.loads(line.strip().rstrip(",")) != {} for line in lines if line.startswith("  {")) == len(
        ROWS[library]
    )
