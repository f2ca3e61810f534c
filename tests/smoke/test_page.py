"""The page of training runs: complete in itself, escaped, readable without colours and without plots."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import smoke_runs as runs
from page_layout import CHROMIUM, measured

import ds_lint.smoke
from ds_lint.commands.invocation import invocation
from ds_lint.output.html_page import MadeBy
from ds_lint.smoke.html import charts
from ds_lint.smoke.html.page import BADGES, render
from ds_lint.source import documents

VOID = {"br", "meta", "wbr"}

MADE_BY = MadeBy("0.1.0", "ds-lint check a.json --smoke")

PASSED = (
    "✓ passed on 2 CPU ranks, deepspeed stack, 4.2 s: ZeRO stage 3 shards (with adaptation), trains, saves and resumes"
)
BROKEN = (
    "? could not run on 2 CPU ranks, trainer stack, 4.2 s: "
    "rank 1 was killed by SIGKILL in phase initialize, usually because memory ran out"
)
SHOWN = (
    "every rank holds all 24,736 elements of the optimizer's states: ZeRO is not on"
    'write "zero_optimization"; nothing reads "zero_optimizations"'
)


class Page(HTMLParser):
    """The elements of a page with their attributes and text, and whether every one that is opened is closed."""

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.open = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", **dict(attrs)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag, **attributes):
        return [e for e in self.elements if e["tag"] == tag and attributes.items() <= e.items()]


@pytest.fixture(scope="module")
def several():
    return [
        runs.verdict(),
        runs.on_gpus(),
        runs.simulated(),
        runs.failing()._replace(path="typo.json"),
        runs.broken()._replace(path="large.json", stack="trainer"),
    ]


@pytest.fixture(scope="module")
def html(several):
    return render(several, MADE_BY)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def rows(page, caption):
    """The rows of the first table with this caption: the texts of their cells."""
    start = next(n for n, e in enumerate(page.elements) if e["tag"] == "caption" and e["text"] == caption)
    found = []
    for element in page.elements[start:]:
        if element["tag"] == "table":
            break
        if element["tag"] == "tr":
            found.append([])
        elif element["tag"] in ("th", "td") and found:
            found[-1].append(element["text"])
    return found


def test_every_run_has_its_sentence_and_a_way_to_it(page):
    assert [heading["text"] for heading in page.all("h3")] == [
        BROKEN,
        "✗ failed on 2 CPU ranks, deepspeed stack, 3.0 s: 1 of 6 checks failed and 1 could not be decided",
        PASSED,
        "✓ passed on 1 GPU, deepspeed stack, 4.2 s: ZeRO stage 3 trains",
        "✓ passed on rank 0 of 1,024 simulated, deepspeed stack, 4.2 s: ZeRO stage 3 shards (with adaptation)",
    ]
    links = [link["href"].removeprefix("#") for link in page.all("a")]
    assert links == [article["id"] for article in page.all("article") if "id" in article]
    identities = [element["id"] for element in page.elements if "id" in element]
    assert len(identities) == len(set(identities))


def test_asked_versus_got_with_the_worst_first():
    table = rows(Page(render([runs.failing()], MADE_BY)), "Expected and observed")
    assert table[0] == ["Check", "Status", "Key", "Expected", "Observed", "Result"]
    assert [row[:2] for row in table[1:]] == [
        ["offload", "? not decided"],
        ["optimizer-states", "✗ failed"],
        ["clipping", "! warning"],
        ["overflow", "! warning"],
        ["pinning", "○ skipped, not verified"],
        ["loss", "✓ verified"],
    ]
    assert table[2][2:] == [
        "zero_optimizations.stage",
        "12,368 elements on each rank",
        "24,736 elements on each rank",
        SHOWN,
    ]
    assert table[6][3:5] == ["finite", "4.1, 4"]


@pytest.mark.parametrize(
    ("changes", "expected", "observed"),
    [
        ({"id": "stage", "expected": 3, "observed": 3}, "3", "3"),
        ({"id": "gradients", "expected": [4, 3], "observed": [4, 3], "unit": "elements"},
         "rank 0: 4 elementsrank 1: 3 elements", "rank 0: 4 elementsrank 1: 3 elements"),
        ({"id": "dtypes", "expected": "bfloat16", "observed": ["bfloat16"]}, "bfloat16", "bfloat16"),
        ({"id": "dtypes", "expected": "float32", "observed": ["bfloat16", "float32"]}, "float32", "bfloat16, float32"),
        ({"id": "learning-rate", "expected": [1e-4, 1e-4], "observed": [1e-4, 2e-4]},
         "0.0001 in each of 2 steps", "0.0001, 0.0002"),
        ({"id": "batch", "expected": [2, 2], "observed": [2, 1], "unit": "samples"},
         "2 samples in each of 2 micro steps", "2, 1 samples"),
        ({"id": "clipping", "observed": 1.0}, "not set", "1"),
        ({"id": "averaging", "expected": "the average", "observed": 0.25, "unit": "of the tolerance"},
         "the average", "0.25 of the tolerance"),
        ({"id": "memory", "expected": {"parameters": 2048, "gradients": 0, "tolerance": 1024}, "unit": "bytes",
          "observed": [{"unknown": 5, "parameters": 2048}, {"unknown": 5, "parameters": 2048}]},
         "at most parameters 2.0 KiBtolerance 1.0 KiB", "on each rank parameters 2.0 KiBunknown 5 B"),
    ],
)  # fmt: skip
def test_values_of_a_check_that_passed_are_shown(changes, expected, observed):
    page = Page(render([runs.verdict(checks=[runs.check(**changes)])], MADE_BY))
    assert rows(page, "Expected and observed")[1][-3:-1] == [expected, observed]


def test_many_ranks_have_the_least_and_the_most():
    shares = runs.check("gradients", expected=list(range(64)), observed=list(range(1, 65)), unit="elements")
    page = Page(render([runs.verdict(world_size=64, checks=[shares])], MADE_BY))
    assert rows(page, "Expected and observed")[1][2:4] == [
        "0 to 63 elements on 64 ranks", "1 to 64 elements on 64 ranks"
    ]  # fmt: skip


def test_no_check_passes_without_an_observed_value():
    """Each call that can make a check that passes gives what was measured."""
    bare = []
    for path in Path(ds_lint.smoke.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            arguments = [ast.unparse(one) for one in node.args]
            if node.func.id == "checked":
                observed = arguments[2]
            elif node.func.id == "Check" and "pass" in arguments[1:2][0]:
                observed = arguments[4]
            else:
                continue
            if observed == "None":
                bare.append(f"{path.name}:{node.lineno}")
    assert bare == []


def test_words_between_backticks_are_code():
    said = runs.check("keys", "warn", message="nothing reads `a_b.c`, <b>", help="Write `c` or `d`. A lone ` stays.")
    html = render([runs.verdict(status="warn", checks=[said])], MADE_BY)
    assert "nothing reads <code>a_b.c</code>, &lt;b&gt;" in html
    assert "Write `c` or `d`. A lone ` stays." in html


def test_the_page_says_what_was_checked_and_what_made_it(page):
    (header,), (footer,) = page.all("header"), page.all("footer")
    for fact in ("configsconfig.json", "stackdeepspeed, trainer", "2 CPU ranks", "torch2.11.0"):
        assert fact in header["text"].replace("large.json, typo.json, ", "").replace("typo.json, ", "")
    assert footer["text"] == "ds-lint 0.1.0ds-lint check a.json --smoke"


def test_the_command_of_a_page_has_no_secret(monkeypatch):
    word = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    monkeypatch.setattr(sys, "argv", ["ds-lint", "check", "a b.json", "--trainer-args", f"--hub_token {word}"])
    assert invocation().startswith("ds-lint check 'a b.json' --trainer-args ")
    assert "hf_Ab" not in invocation()


def test_a_plot_has_two_axes_and_words():
    steps = [runs.step(4.0, 0.0), runs.step(4.5, 1e-4), runs.step(4.25, 2e-4, is_skipped=True)]
    page = Page(f"<div>{charts.steps(steps)}</div>")
    assert [one["text"] for one in page.all("h5")] == ["loss", "learning rate"]
    assert [one["text"] for one in page.all("title") if "by step" in one["text"]] == [
        "loss by step", "learning rate by step"
    ]  # fmt: skip
    assert page.all("desc")[0]["text"] == "step 1: 4; step 2: 4.5; step 3, skipped: 4.25"
    values = [one["text"] for one in page.all("div", **{"class": "values"})]
    assert values == ["44.24.44.6", "05e-050.00010.000150.0002"]
    assert {one["text"] for one in page.all("div", **{"class": "steps"})} == {"step 123"}


def test_bars_of_bytes_have_an_axis_with_a_unit(page):
    assert "0 KiB100200300" in [one["text"] for one in page.all("div", **{"class": "row axis"})]


def test_marks_lie_between_the_values_beside_them():
    """A value at a tick has its dot on the line of the tick, also where all are the same or a scale is logarithmic."""
    for scales in ([65536.0, 65536.0], [65536.0, 32768.0, 16384.0], [1.0]):
        html = charts.steps([runs.step(4.0, 0.0, loss_scale=scale) for scale in scales])
        plot = html[html.index("loss scale</h5>") :]
        lines = [float(one) for one in re.findall(r'class="tick" x1="0" y1="([\d.]+)%"', plot)]
        dots = [float(one) for one in re.findall(r'<circle cx="[\d.]+%" cy="([\d.]+)%"', plot)]
        assert min(lines) == 0
        assert max(lines) == 100
        assert all(0 <= dot <= 100 for dot in dots)
        if len(set(scales)) > 1:
            assert dots == [0, 50, 100]


def test_what_was_verified_where(page):
    table = {row[0]: row[1:] for row in rows(page, "Checks by run")}
    assert table["Check"] == ["2 CPU ranks", "1 GPU", "rank 0 of 1,024 simulated"]
    assert table["parameters"] == ["≈ verified with adaptation", "not checked", "≈ verified with adaptation"]
    assert table["pinning"] == ["○ skipped, not verified", "✓ verified", "not checked"]


def test_of_several_checks_with_one_name_the_worst_counts():
    mixed = runs.verdict(checks=[runs.check("dtypes"), runs.check("dtypes", "fail"), runs.check("dtypes")])
    adapted = runs.verdict(checks=[runs.check("dtypes"), runs.check("dtypes", adapted=True)])
    page = Page(render([mixed, adapted], MADE_BY))
    assert rows(page, "Checks by run")[1] == ["dtypes", "✗ failed", "≈ verified with adaptation"]


def test_adaptations_say_what_is_written_and_what_ran():
    assert rows(Page(render([runs.verdict()], MADE_BY)), "Adapted for this run")[1] == [
        "zero_optimization.stage3_param_persistence_threshold",
        "100,000",
        "0",
        "the model is so small that every rank would keep all of it",
    ]


def test_ranks_that_ended_badly_say_how():
    assert rows(Page(render([runs.broken()], MADE_BY)), "Ranks")[1:] == [
        ["0", "✗ exception", "initialize", "RuntimeError: Connection closed by peer\n  at gloo/transport"],
        ["1", "✗ signal", "initialize", "SIGKILL"],
    ]


def test_plots_have_their_numbers_beside_them():
    page = Page(render([runs.failing()], MADE_BY))
    (memory,) = page.all("div", role="img")
    assert memory["aria-label"] == "rank 0 386.5 KiB; rank 1 386.5 KiB; unsharded 386.5 KiB"
    assert page.all("desc")[0]["text"] == "step 1, skipped: 4.12; step 2, skipped: nan; step 3: 4.12; step 4: 4.08"
    assert "Not drawn, because the loss is not finite: step 2." in page.all("figcaption")[1]["text"]
    assert rows(page, "Bytes by rank")[1][-1] == "386.5 KiB"
    assert rows(page, "Steps")[1] == ["1", "4.12", "0", "65,536", "inf", "✗ skipped"]


def test_losses_of_a_world_that_is_not_there_are_not_shown():
    assert len(Page(render([runs.simulated()], MADE_BY)).all("figure")) == 1


def test_secrets_are_masked():
    text = '{"wandb": {"api_key": "s3cret <key>"}}'
    run = runs.verdict(status="error", error="refused: s3cret <key>, hf_AbCdEfGhIjKlMnOpQrSt")
    assert "s3cret" in render([run], MADE_BY)
    html = render([run], MADE_BY, [documents.from_bytes(text.encode(), "ds.json")])
    assert "s3cret" not in html
    assert "hf_AbCd" not in html
    assert "refused: ***, ***" in html


def test_nothing_is_fetched(html, page):
    for element in page.elements:
        assert element.get("src") is None
        assert element["tag"] not in ("link", "img", "iframe", "object", "base")
    assert all(link["href"].startswith("#") for link in page.all("a"))
    (style,) = page.all("style")
    assert "url(" not in style["text"]
    assert "@import" not in style["text"]
    assert "default-src 'none'" in html


def test_the_page_is_small_and_runs_no_script(html, page):
    assert len(html) < 300_000
    assert page.all("script") == []
    assert "script-src" not in html


def test_a_single_run_is_told_once(html):
    alone = Page(render([runs.verdict()], MADE_BY))
    assert alone.all("nav") == alone.all("h2") == []
    assert [caption["text"] for caption in alone.all("caption")] == [
        "Expected and observed", "Bytes by rank", "Steps", "Adapted for this run"
    ]  # fmt: skip
    broken = render([runs.broken()], MADE_BY)
    assert broken.count("was killed by SIGKILL") == 1


def test_tables_say_what_their_cells_are(page):
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(cell["scope"] in ("col", "row") for cell in page.all("th"))


def test_a_status_is_a_sign_and_a_word_beside_its_colour(page):
    signs = {sign for sign, _ in BADGES.values()}
    assert len(signs) == len(BADGES)
    for badge in page.all("span"):
        if (badge.get("class") or "").startswith("badge"):
            assert re.fullmatch(rf"[{re.escape(''.join(signs))}] [a-z, ]+", badge["text"])


def test_text_of_a_config_stays_text():
    html = render([runs.hostile()], MadeBy(runs.HOSTILE, runs.HOSTILE))
    page = Page(html)
    assert html.encode()
    assert page.all("img") == []
    assert page.all("script") == []
    assert "<script>alert('x')</script>" in page.all("h1")[0]["text"]
    assert "<U+001B>" in page.all("h1")[0]["text"]


def test_a_page_without_runs_counts_none():
    assert "0 training runs of a few steps with the installed libraries: none." in render([], MADE_BY)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser")
@pytest.mark.parametrize("verdicts", ["several", "hostile"])
def test_a_browser_draws_the_plots_and_complains_about_nothing(tmp_path, several, verdicts):
    (tmp_path / "page.html").write_text(render(several if verdicts == "several" else [runs.hostile()], MADE_BY))
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
        "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", f"{tmp_path}/page.html",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "CONSOLE" not in result.stderr
    assert result.stdout.count('role="img"')
    assert "alert(1)>" not in result.stdout.replace("alert(1)&gt;", "")


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_all_of_it_at_every_width(tmp_path, html, width):
    assert measured(html, width, tmp_path) == f"{width} wide: "


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser")
def test_a_table_of_checks_uses_a_wide_screen(tmp_path):
    """No column is empty, and each has its share of the width."""
    script = (
        'return [...page.querySelectorAll("table.stacks")].find(one => one.caption.textContent.startsWith("Expected"))'
        '.querySelector("tr").getBoundingClientRect().width + " " + [...page.querySelectorAll("tbody")][0].rows[0]'
        ".cells.length"
    )
    width, columns = measured(render([runs.verdict()], MADE_BY), 1280, tmp_path, script).split()
    assert float(width) > 1150
    assert columns == "6"
