"""The playground in Debian's Chromium: built as for the site, and used with the mouse and the keyboard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import test_playground_links as on_pages

from ds_lint.linter.engine import every_rule
from ds_lint.linter.selection import find
from ds_lint.rule_pages import pages
from tools.site.playground import files, links

pytestmark = pytest.mark.client

HERE = Path(__file__).parent
PLAYGROUND = files.HERE
WRONG = """{
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "zero-optimization": {"stage": 3},
  "optimizer": {"type": "AdamW", "params": {"lr": "3e-5"}}
}
"""
FIXED = WRONG.replace("zero-optimization", "zero_optimization").replace('"3e-5"', "3e-5")


def example(code, language="json", *, beside=()):
    """The link to the first bad example of a rule in a language with these files beside it, and the example."""
    rule = find(code)
    found = next(
        one
        for one in pages.examples(pages.page(rule))
        if one.kind == "bad" and one.language == language and set(beside) <= one.files.keys()
    )
    return links.fragment(links.of_example(found, rule))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address(program, tmp_path_factory):
    """Where the playground is served that ``python -m tools.site.playground`` builds."""
    program("node")
    program(str(PLAYGROUND / "node_modules" / "pyodide" / "pyodide.mjs"))
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "tools.site.playground", folder], cwd=files.ROOT, check=True)
    page = folder / files.NAME / "index.html"
    later = page.read_text().replace("data-ds-lint-playground", 'data-ds-lint-playground="later"')
    page.with_name("later.html").write_text(later)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/playground/"
        server.shutdown()
        thread.join()


def in_chromium(program, script, *arguments, given=""):
    """What a script prints that drives the browser."""
    ended = subprocess.run(
        [program("node"), HERE / "playground" / script, *arguments],
        input=given,
        env={"PATH": os.defpath, "HOME": os.devnull, "CHROMIUM": program("chromium")},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def saw(program, address):
    """What was seen in a scene of ``playground/scenes.mjs``."""
    program("playwright-core")
    asked = {
        "address": address,
        "links": {
            "sample": links.fragment(links.Shown({"ds_config.json": WRONG}, {})),
            "json": example("DS101"),
            "shell": example("DS673", beside=["run.sh"]),
            "python": example("DS208", "python"),
        },
        "axe": str(PLAYGROUND / "node_modules" / "axe-core" / "axe.min.js"),
    }
    seen = in_chromium(program, "scenes.mjs", json.dumps(asked))
    print({name: scene.get("seconds") for name, scene in seen.items()})

    def scene(name):
        assert "error" not in seen[name], seen[name]
        return seen[name]["saw"]

    return scene


def test_findings_appear_beside_the_text_and_in_it(saw):
    first = saw("first")
    assert first["status"] == "2 errors"
    assert first["marks"] == ['"zero-optimization"', '"3e-5"']
    assert first["findings"] == [
        "error DS101 unknown-key ds_config.json:4:3",
        "error DS504 refused-parameter ds_config.json:5:51",
    ]


def test_fixes_are_applied_one_by_one_or_together_and_undone(saw):
    fixes = saw("fixes")
    assert fixes["all"] == ["No findings", FIXED]
    assert fixes["undone"] == FIXED.replace("zero_optimization", "zero-optimization")


def test_a_finding_is_explained_and_leads_to_its_page_on_this_site(saw, address):
    assert saw("explained") == f"{address.removesuffix('playground/')}rules/DS101-unknown-key/"


def test_a_link_carries_texts_and_options_and_is_not_sent(saw, address):
    link = saw("link")
    assert link["link"].startswith(f"{address}#1.")
    assert (link["text"], link["stack"], link["ranks"]) == ('{"train_batch_size": 6, "é😀": 1}', "trainer", "4")
    assert {"DS512", "DS101"} <= {finding.split()[1] for finding in link["findings"]}
    assert '"é😀"' in link["marks"]
    assert not any("#" in url for url in saw("requests")["asked"] if url.startswith("http"))


def test_markdown_for_an_issue_has_the_text_the_findings_and_the_link(saw, address):
    text = saw("markdown")
    assert '```json\n{\n  "train_micro' in text
    assert "- `ds_config.json:4:3` error DS101: unknown key `zero-optimization`" in text
    assert "Checked against deepspeed " in text
    assert f"[Open in the playground]({address}#1." in text


def test_examples_of_rule_pages_open_with_their_files(saw):
    examples = saw("examples")
    assert examples["json"]["findings"] == ["error DS101 unknown-key config.json:3:3"]
    assert examples["shell"]["files"] == ["config.json", "run.sh"]
    assert [finding.split()[1] for finding in examples["shell"]["findings"]] == ["DS673", "DS673"]
    assert "DS208" in [finding.split()[1] for finding in examples["python"]["findings"]]


def test_effective_values_have_their_sources(saw):
    assert saw("values").startswith("gradient_clipping1.0default of DeepSpeed")


def test_memory_is_estimated_for_what_the_fields_say(saw):
    memory = saw("memory")
    assert memory["missing"].startswith("ds_config.json: the model is not known")
    assert "7,000,000,000 parameters" in memory["table"]
    assert "capacity" in memory["table"]


def test_a_pasted_text_gets_the_name_of_its_kind(saw):
    paste = saw("paste")
    assert paste["names"] == ["accelerate.yaml"]
    assert any("accelerate.yaml:5" in finding for finding in paste["findings"])


def test_dropped_files_are_checked_together(saw):
    drop = saw("drop")
    assert drop["names"] == ["run.sh", "ds.json"]
    assert any("DS512" in finding for finding in drop["findings"])  # 6 samples on the 4 ranks of the launch


def test_what_ds_lint_refuses_is_said_in_its_words(saw):
    assert "'x'" in saw("refused")


def test_a_broken_python_is_replaced(saw):
    assert saw("deep") == {"deep": "These files nest too deep for the stack of a browser.", "then": "2 errors"}


def test_the_keyboard_reaches_everything(saw):
    keyboard = saw("keyboard")
    assert (keyboard["first"], keyboard["second"]) == ('"zero-optimization"', '"3e-5"')
    assert keyboard["reached"] == ["Apply all safe fixes", "Copy link", "Copy as Markdown", "Memory"]
    assert keyboard["back"] == '"zero-optimization"'


def test_axe_finds_nothing_and_everything_has_a_name(saw):
    accessible = saw("accessible")
    assert accessible["light"] == []
    assert accessible["dark"] == []
    for name in (
        'tablist "Files"',
        'textbox "Text of ds_config.json"',
        'textbox "File name"',
        'combobox "Stack"',
        'spinbutton "World size"',
        "status: 2 errors",
        'tab "Findings" [selected]',
    ):
        assert name in accessible["tree"]


def test_on_another_page_it_starts_when_it_is_wanted(saw):
    assert saw("later") == {"before": 0, "status": "2 errors"}


def test_nothing_is_wider_than_a_phone_or_a_window(saw):
    assert set(saw("widths").values()) == {0}


def test_nothing_is_asked_of_another_host_and_nothing_fails(saw, address):
    requests = saw("requests")
    assert [url for url in requests["asked"] if not url.startswith((address, "blob:", "data:"))] == []
    assert requests["problems"] == []


def test_without_webassembly_a_sentence_says_what_to_do(saw):
    assert "pip install deepspeed-lint" in saw("without")


@pytest.mark.long
def test_every_example_has_the_findings_of_its_page_in_the_browser_too(program, address):
    examples = [
        (rule, example, shown)
        for rule in every_rule()
        for example in on_pages.examples(rule)
        if (shown := links.of_example(example, rule)) is not None
    ]
    requests = [{"command": "check", **shown._asdict()} for _, _, shown in examples]
    given = in_chromium(program, "every.mjs", address, given=json.dumps(requests))
    wrong = [
        (rule.code, example.line, answer)
        for (rule, example, _), answer in zip(examples, given, strict=True)
        if on_pages.own(answer, rule) != on_pages.expected(example, rule)
    ]
    assert wrong == []


def test_biome_has_no_complaint(program):
    biome = files.ROOT / "editors" / "vscode" / "node_modules" / ".bin" / "biome"
    ended = subprocess.run(
        [program(str(biome)), "ci", "."], cwd=PLAYGROUND, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
