"""The full format: each test is an example of what a person sees."""

from __future__ import annotations

import os
from textwrap import dedent

import pytest
import smoke_runs

from ds_lint.diagnostics.finding import Fix, Related
from ds_lint.diagnostics.report import Complaint
from ds_lint.output.full import render
from ds_lint.output.terminal import Terminal
from ds_lint.source.document import Document
from ds_lint.source.tree import Span

CONFIG = """{
  "train_batch_size": 8,
  "gradient_cliping": 1.0,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {
      "device": "cpu"
    },
    "overlap_comm": true
  },
  "steps_per_print": 10
}
"""


def expected(text: str) -> str:
    return dedent(text).strip("\n")


@pytest.fixture
def story(report, file):
    """The text of one finding, without the summary."""

    def told(text, finding, *, width=None, colour=False, encoding="utf-8", stack="trainer", material=()):
        whole = render(
            report(file(text, finding, stack=stack), material=list(material)), Terminal(width, colour, encoding)
        )
        return whole.split("\n\n")[0]

    return told


def test_a_finding_with_all_its_parts(story, finding, span):
    found = finding(
        span(CONFIG, '"gradient_cliping"'),
        label="unknown",
        help='did you mean "gradient_clipping"?',
        fix=Fix('rename it to "gradient_clipping"', "safe", []),
    )
    assert story(CONFIG, found) == expected("""
        error[DS101] unknown-key: DeepSpeed knows no such key
         --> config.json:3:3
        3 |   "gradient_cliping": 1.0,
          |   ^^^^^^^^^^^^^^^^^^ unknown
          = fix: rename it to "gradient_clipping" (safe)
    """)


def test_colours_mark_severity_frame_and_headings(story, finding):
    assert story("{}", finding(Span(0, 2), label="here", help="rename it"), colour=True) == (
        "\x1b[1;31merror[DS101]\x1b[0m unknown-key: \x1b[1mDeepSpeed knows no such key\x1b[0m\n"
        " \x1b[94m-->\x1b[0m config.json:1:1\n"
        "\x1b[94m1 |\x1b[0m {}\n"
        "\x1b[94m  |\x1b[0m \x1b[1;31m^^\x1b[0m \x1b[1;31mhere\x1b[0m\n"
        " \x1b[94m =\x1b[0m \x1b[1mhelp\x1b[0m: rename it"
    )


def test_related_spans_share_the_frame_and_lines_between_are_left_out(story, finding, span):
    found = finding(
        span(CONFIG, '"device": "cpu"'),
        label="offloads",
        related=[Related(span(CONFIG, '"bf16"'), "bf16 is on"), Related(span(CONFIG, '"stage": 3'), "at stage 3")],
    )
    assert story(CONFIG, found) == expected("""
        error[DS101] unknown-key: DeepSpeed knows no such key
         --> config.json:8:7
        4 |   "bf16": {"enabled": true},
          |   ------ bf16 is on
        5 |   "zero_optimization": {
        6 |     "stage": 3,
          |     ---------- at stage 3
        7 |     "offload_optimizer": {
        8 |       "device": "cpu"
          |       ^^^^^^^^^^^^^^^ offloads
    """)


def test_a_section_shows_its_first_and_last_line(story, finding, span):
    section = Span(CONFIG.index('"zero_opt'), CONFIG.index('},\n  "steps') + 1)
    found = finding(section, label="this section", related=[Related(span(CONFIG, '"train_batch_size"'), "beside this")])
    assert story(CONFIG, found) == expected("""
        error[DS101] unknown-key: DeepSpeed knows no such key
          --> config.json:5:3
         2 |   "train_batch_size": 8,
           |   ------------------ beside this
        ...
         5 |   "zero_optimization": {
           |   ^^^^^^^^^^^^^^^^^^^^^^ this section
        ...
        11 |   },
           |   ^
    """)


def test_two_spans_in_one_line(story, finding, span):
    text = '{"stage": 0, "offload": true}'
    found = finding(span(text, '"offload": true'), label="off", related=[Related(span(text, '"stage": 0'), "stage 0")])
    assert story(text, found) == expected("""
        error[DS101] unknown-key: DeepSpeed knows no such key
         --> config.json:1:14
        1 | {"stage": 0, "offload": true}
          |              ^^^^^^^^^^^^^^^ off
          |  ---------- stage 0
    """)


def test_related_places_in_other_files(story, finding):
    script = Document("train.sh", "#!/bin/sh\ndeepspeed train.py --fp16\n", None, [])
    flag = Span(script.text.index("--fp16"), len(script.text) - 1)
    related = [Related(flag, "asked for here", "train.sh"), Related(Span(5, 9), "written here", "make.py")]
    assert story("{}", finding(Span(0, 1), related=related), material=[script]) == expected("""
        error[DS101] unknown-key: DeepSpeed knows no such key
         --> config.json:1:1
        1 | {}
          | ^
         ::: train.sh:2:20
        2 | deepspeed train.py --fp16
          |                    ------ asked for here
         ::: make.py: written here
    """)


def frame_of(story_text: str) -> str:
    """Only the rows with source and underlines."""
    rows = story_text.split("\n")
    return "\n".join(row for row in rows if " |" in row and not row.endswith("|"))


@pytest.mark.parametrize(
    ("text", "part", "frame"),
    [
        pytest.param("\t\t'a':\t1", "1", "1 |         'a':    1\n  |                 ^", id="tabs"),
        pytest.param("{\r\n'a': 1\r\n}\r\n", "'a'", "2 | 'a': 1\n  | ^^^", id="crlf"),
        pytest.param("{\r\n'a': 1\r\n}", "1\r\n", "2 | 'a': 1\n  |      ^", id="span over a line ending"),
        pytest.param("\ufeff{}", "{", "1 | <U+FEFF>{}\n  |         ^", id="byte order mark"),
        pytest.param("'梯度': 1", "1", "1 | '梯度': 1\n  |         ^", id="wide characters"),
        pytest.param("'梯度': 1", "度", "1 | '梯度': 1\n  |    ^^", id="span of a wide character"),
        pytest.param("'e\u0301': 1", "1", "1 | 'e\u0301': 1\n  |      ^", id="combining mark"),
        pytest.param("'a\x1b[3m': 1", "1", "1 | 'a<U+001B>[3m': 1\n  |                 ^", id="escape sequence"),
        pytest.param(
            "'\u202e\ud800': 1", "1", "1 | '<U+202E><U+D800>': 1\n  |                     ^", id="other invisibles"
        ),
    ],
)
def test_carets_stand_under_the_span(story, finding, span, text, part, frame):
    assert frame_of(story(text, finding(span(text, part)))) == frame


def test_where_a_terminal_cannot_show_a_character_carets_stand_under_what_it_shows(story, finding, span):
    shown = story("'梯度': 1", finding(span("'梯度': 1", "1")), encoding="ascii")
    assert "1 | '\\u68af\\u5ea6': 1\n  |                 ^" in shown


@pytest.mark.parametrize(
    ("text", "offset", "place", "frame"),
    [
        pytest.param("", 0, "1:1", "  | ^", id="empty file"),
        pytest.param("{'a'}", 4, "1:5", "1 | {'a'}\n  |     ^", id="within a line"),
        pytest.param("{\n  'a'", 7, "2:6", "2 |   'a'\n  |      ^", id="end without newline"),
        pytest.param("{\n", 2, "2:1", "  | ^", id="end after newline"),
    ],
)
def test_an_empty_span_is_one_caret(story, finding, text, offset, place, frame):
    told = story(text, finding(Span(offset, offset)))
    assert f"--> config.json:{place}\n" in told
    assert frame_of(told) == frame


def test_a_long_line_is_cut_around_each_span(story, finding, span):
    text = '{"a": ' + "1" * 300 + ', "key": 1, ' + '"b": ' + "2" * 300 + ', "c": 3}'
    found = finding(span(text, '"key"'), label="this", related=[Related(span(text, '"c": 3'), "and this")])
    assert frame_of(story(text, found, width=60)) == expected("""
        1 | …1111111111111111, "key": 1, "b": 222222222222222222222…
          |                    ^^^^^ this
        1 | …2222222222222222, "c": 3}
          |                    ------ and this
    """)


def test_the_place_behind_a_line_that_fills_the_terminal_is_marked_under_its_last_character(story, finding):
    assert frame_of(story("x" * 20, finding(Span(20, 20)), width=24)) == expected("""
        1 | xxxxxxxxxxxxxxxxxxxx
          |                    ^
    """)


def test_a_label_without_room_beside_its_span_goes_below(story, finding, span):
    text = '{"zero_optimization": {"stage": "3"}}'
    found = finding(span(text, '"3"'), label="a string, not an integer")
    assert frame_of(story(text, found, width=44)) == expected("""
        1 | {"zero_optimization": {"stage": "3"}}
          |                                 ^^^
          |                 a string, not an integer
    """)


def test_text_wraps_in_a_terminal(story, finding):
    found = finding(
        Span(0, 1),
        message="the optimizer is offloaded to the CPU while the stage is 0, where DeepSpeed does not look at it",
        help="set the stage to 2 or 3, or leave the offload out: without ZeRO there is nothing to offload\nor ask",
    )
    assert story("{}", found, width=60) == expected("""
        error[DS101] unknown-key: the optimizer is offloaded to the
            CPU while the stage is 0, where DeepSpeed does not look
            at it
         --> config.json:1:1
        1 | {}
          | ^
          = help: set the stage to 2 or 3, or leave the offload out:
                  without ZeRO there is nothing to offload
                  or ask
    """)


def test_control_characters_reach_no_terminal_from_anywhere(story, finding):
    found = finding(
        Span(0, 1),
        message="a\x1b]0;b\x07",
        label="c\x9b",
        help="d\x1b[2J",
        fix=Fix("e\u202e", "safe", []),
        related=[Related(Span(0, 0), "f\x1b", "g\x1b")],
    )
    told = story("{}", found)
    assert told.replace("\n", "").isprintable()


def test_the_effect_is_told_if_it_depends_on_the_stack(story, finding):
    effects = {"deepspeed": "no-effect", "trainer": "rejected", "accelerate": "rejected"}
    assert (
        "  = effect: rejected at parse with trainer and accelerate, no-effect with deepspeed; "
        "the stack is unknown (set --stack)"
    ) in story("{}", finding(Span(0, 1), effect="rejected", stage="parse", effects=effects), stack=None).split("\n")
    assert "effect" not in story("{}", finding(Span(0, 1), effect="rejected", stage="parse"), stack=None)


def test_a_fix_that_is_applied_says_what_to_do_and_another_stands_below_the_help(story, finding):
    def footers(safety):
        told = story("{}", finding(Span(0, 1), help="Delete it: fp16 is off.", fix=Fix("Delete `x`", safety, [])))
        return [row for row in told.split("\n") if row.startswith("  =")]

    assert footers("safe") == ["  = fix: Delete `x` (safe)"]
    assert footers("unsafe") == ["  = help: Delete it: fp16 is off.", "  = fix: Delete `x` (unsafe)"]


def test_of_many_findings_of_one_rule_the_first_are_printed(report, file, finding):
    def printed(limit):
        files = [
            file("{}", finding(Span(0, 1)), finding(Span(1, 2)), path="a.json"),
            file("{}", finding(Span(0, 1)), finding(Span(0, 1), code="DS207"), path="b.json"),
        ]
        text = render(report(*files, limit=limit), Terminal())
        return (
            text.count("error[DS101]"),
            text.count("error[DS207]"),
            [row for row in text.split("\n") if "more" in row],
        )

    assert printed(2) == (2, 1, ["... and 1 more DS101 error (2 of 3 printed; --limit 0 prints all)"])
    assert printed(3) == (3, 1, [])
    assert printed(0) == (3, 1, [])


def test_warnings_do_not_hide_an_error_of_the_same_rule(report, file, finding):
    warnings = [finding(Span(0, 1), severity="warning") for _ in range(4)]
    text = render(report(file("{}", *warnings, finding(Span(1, 2))), limit=2), Terminal())
    assert (text.count("warning[DS101]"), text.count("error[DS101]")) == (2, 1)
    assert "... and 2 more DS101 warnings (2 of 4 printed; --limit 0 prints all)\n" in text


def summary(*files, report, width=None, **changes):
    return render(report(*files, **changes), Terminal(width)).split("\n\n")[-1]


def test_summary_counts_and_names_the_next_step(report, file, finding):
    files = [
        file("{}", finding(Span(0, 1), fix=Fix("a", "safe", [])), finding(Span(1, 2)), path="a.json"),
        file("{}", finding(Span(0, 1), severity="warning", code="DS207", fix=Fix("b", "unsafe", [])), path="b.json"),
        file("{}", path="c.json"),
    ]
    assert summary(*files, report=report) == (
        "2 errors, 1 warning in 2 of 3 files\n"
        "Checked against deepspeed 0.18.9, transformers 5.12.0, accelerate 1.12.0; stack trainer\n"
        "For details: ds-lint explain DS101\n"
    )


def test_summary_of_one_file(report, file, finding):
    assert summary(file("{}", finding(Span(0, 1), severity="info")), report=report) == (
        "1 info in config.json\n"
        "Checked against deepspeed 0.18.9, transformers 5.12.0, accelerate 1.12.0; stack trainer\n"
        "For details: ds-lint explain DS101\n"
    )


def test_a_clean_file_says_what_the_claim_rests_on(report, file):
    assert summary(file("{}", stack=None, missing=["world size", "moon phase"]), report=report, width=80) == (
        "config.json: no findings. Checked against deepspeed 0.18.9, transformers 5.12.0,\n"
        "  accelerate 1.12.0; stack unknown (set --stack); unknown: world size\n"
        "  (--world-size N), moon phase\n"
    )


def test_many_clean_files_take_one_line(report, file):
    files = [file("{}", path="a.json"), file("{}", path="b.json", stack=None, missing=["moon phase"])]
    files.append(file("{}", path="c.json", target={"deepspeed": "0.14.0"}))
    assert summary(*files, report=report) == (
        "3 files: no findings. Checked against deepspeed 0.18.9 and 0.14.0, transformers 5.12.0, accelerate 1.12.0; "
        "stack trainer for 2 files, unknown (set --stack) for 1 file; unknown for some files: moon phase\n"
    )


def test_two_configs_in_one_file_are_one_file(report, file, finding):
    files = [file("{}", path="train.py"), file("{}", finding(Span(0, 1)), path="train.py")]
    assert summary(*files, report=report).startswith("1 error in train.py\n")


def test_no_file_at_all(report):
    assert render(report(notes=["nothing in ."]), Terminal()) == ("note: nothing in .\nNo DeepSpeed configs found.\n")


def test_paths_below_the_current_directory_are_relative(report, file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    here = os.path.join(os.getcwd(), "sub", "a.json")
    assert summary(file("{}", path=here), report=report).startswith(f"{os.path.join('sub', 'a.json')}: no findings")
    above = os.path.join(os.path.dirname(os.getcwd()), "b.json")
    assert summary(file("{}", path=above), report=report).startswith(f"{above}: no findings")


@pytest.mark.parametrize("runs", [[], [smoke_runs.broken()]])
def test_a_run_that_was_not_made_is_not_a_clean_result(report, file, runs):
    asked = file("{}")
    asked.smoke = runs
    said = "config.json: the smoke run could not be made"
    complaint = Complaint(None, said, runs[0].error) if runs else Complaint(None, f"{said}: no GPU")
    told = render(report(asked, unreadable=[complaint]), Terminal())
    assert "config.json: no findings without the training run. Checked against" in told
    assert told.endswith(
        "Exit status 2: config.json: the smoke run could not be made" + ("\n" if runs else ": no GPU\n")
    )
    if runs:
        assert told.count(runs[0].error) == 1
