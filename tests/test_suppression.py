"""Comments that suppress findings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linted import lint_with
from newest import NEWEST

from ds_lint.linter.choice import choose
from ds_lint.linter.selection import Selection, select
from ds_lint.source import documents
from ds_lint.source.comments import comments_of

BATCH = '"train_micro_batch_size_per_gpu": 4'


def linted(text, stack="deepspeed", versions=NEWEST, **asked):
    return lint_with(choose("", versions), documents.from_bytes(text.encode(), "a.json"), stack=stack, **asked)


def codes(text, stack="deepspeed", **asked):
    return [finding.code for finding in linted(text, stack, **asked).findings]


@pytest.mark.parametrize(
    "text",
    [
        f'{{{BATCH},\n"zzz": 1 // ds-lint: ignore[unknown-key] our own\n}}',
        f'{{{BATCH},\n"zzz": 1 # ds-lint: ignore[DS101]\n}}',
        f'{{{BATCH},\n"zzz": 1 // see below. ds-lint: ignore[ds101]\n}}',
        f'{{{BATCH},\n"zzz": 1, /* ds-lint: ignore[DS105, unknown-key] */\n"cpu_offload": 1}}',
        f'{{{BATCH},\n/* ds-lint:ignore[unknown-key] */ "zzz": 1}}',
        f'{{{BATCH},\n// ds-lint: ignore[unknown-key]\n\n// and more\n"zzz": 1}}',
        f'{{{BATCH},\r\n// ds-lint: ignore[unknown-key]\r\n"zzz": 1}}',
        f'{{{BATCH},\n/* ds-lint: ignore[unknown-key]\n   it is read */\n"zzz": 1}}',
        f'\ufeff// ds-lint: ignore[unknown-key]\n{{{BATCH}, "zzz": 1}}',
        f'// ds-lint: ignore-file[unknown-key]\n{{{BATCH},\n"zzz": 1}}',
        f'{{\n# ds-lint: ignore-file[unknown-key]\n{BATCH},\n"zzz": 1}}',
    ],
)
def test_what_a_comment_names_is_suppressed(text):
    assert "DS101" in codes(text.replace("ds-lint:", "hey:"))
    report = linted(text)
    assert "DS101" not in [finding.code for finding in report.findings]
    assert report.unreported == {"comments": 1}


@pytest.mark.parametrize(
    "text",
    [
        f'{{{BATCH}, // ds-lint: ignore[DS101]\n"zzz": 1}}',
        f'{{{BATCH},\n"zzz": 1\n// ds-lint: ignore[DS101]\n}}',
        f'{{{BATCH},\n"zzz": 1 // ds-lint: ignore[DS102]\n}}',
        f'{{{BATCH},\n"zzz": "// ds-lint: ignore[DS101]"}}',
        f'{{{BATCH},\n"zzz": 1 // ds-lint: ignored[DS101]\n}}',
        f'{{{BATCH},\n"zzz": 1\n// ds-lint: ignore-file[DS101]\n}}',
    ],
)
def test_what_it_does_not_name_is_found(text):
    assert "DS101" in codes(text)


SUPPRESSED = f'{{{BATCH},\n"zzz": 1 // ds-lint: ignore[DS101]\n}}'


def test_a_comment_counts_only_where_the_file_may_be_read_with_comments():
    assert codes(SUPPRESSED) == []
    assert codes(SUPPRESSED, stack=None) == ["DS002"]
    for text in (SUPPRESSED, SUPPRESSED.replace("DS101", "DS002")):
        assert {"DS101", "DS002"} <= set(codes(text, stack="trainer"))


def test_whoever_knows_that_deepspeed_alone_reads_the_file_may_suppress():
    assert codes(f"// ds-lint: ignore-file[hjson-only-syntax]\n{{{BATCH}}}", stack=None) == []


def test_in_a_range_of_releases_a_comment_is_used_where_one_of_them_needs_it():
    text = (
        f'{{{BATCH}, "gradient_clipping": 1, "zero_optimization": {{"stage": 2,\n'
        '"log_trace_cache_warnings": true // ds-lint: ignore[newer-key]\n}}'
    )
    assert codes(text) == ["DS302", "DS013"]
    assert codes(text, versions=NEWEST | {"deepspeed": ">=0.14.4"}) == ["DS302"]


def test_a_comment_that_holds_nothing_back_is_information():
    (finding,) = linted(f"{{{BATCH} // ds-lint: ignore[unknown-key]\n}}").findings
    assert (finding.code, finding.severity) == ("DS013", "info")
    assert finding.message == "unused suppression: there is no `unknown-key` finding on line 1"
    (finding,) = linted(f"// ds-lint: ignore-file[unknown-key]\n{{{BATCH}}}").findings
    assert finding.message == "unused suppression: there is no `unknown-key` finding in this file"


def test_only_rules_that_were_asked_can_be_found_unused():
    text = f"{{{BATCH} // ds-lint: ignore[unknown-key]\n}}"
    assert codes(text, rules=select(Selection(["DS013", "DS105"]))) == []
    assert codes(text, rules=select(Selection(ignored=["DS013"]))) == []
    assert codes(text, rules=select(Selection(["DS013", "DS101"]))) == ["DS013"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{{{BATCH} // ds-lint: ignore[unknown-key] reason\n}}", f"{{{BATCH}\n}}"),
        (f"{{{BATCH}, /* ds-lint: ignore[DS101, DS102] */\n}}", f"{{{BATCH},\n}}"),
    ],
)
def test_the_fix_deletes_the_comment(text, left):
    (fix,) = (finding.fix for finding in linted(text).findings if finding.fix and finding.code == "DS013")
    (edit,) = fix.edits
    assert text[: edit.span.start] + edit.text + text[edit.span.end :] == left
    assert fix.safety == "unsafe"


@pytest.mark.parametrize(
    "text",
    [
        f"{{{BATCH} // the fork. ds-lint: ignore[DS101]\n}}",
        f'{{{BATCH}, "zzz": 1 // ds-lint: ignore[DS101, DS105]\n}}',
    ],
)
def test_a_comment_that_says_or_does_more_is_left_to_its_author(text):
    assert [finding.fix for finding in linted(text).findings if finding.code == "DS013"] == [None]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("ds-lint: ignore", "this comment names no rule, so it suppresses nothing"),
        ("ds-lint: ignore[]", "this comment names no rule, so it suppresses nothing"),
        (
            "ds-lint: ignore[DS1]",
            "this name suppresses nothing: unknown rule DS1; `ds-lint rules` lists them",
        ),
        (
            "ds-lint: ignore[unknown_key]",
            "this name suppresses nothing: unknown rule unknown_key; did you mean unknown-key?",
        ),
        (
            "ds-lint: ignore-file[DS101]",
            "a comment about the whole file must be above its first key: here it suppresses nothing",
        ),
    ],
)
def test_a_comment_that_names_no_rule_is_a_finding(comment, said):
    (finding,) = linted(f"{{{BATCH} // {comment}\n}}").findings
    assert (finding.code, finding.severity, finding.message) == ("DS012", "warning", said)


def test_a_document_may_be_linted_twice():
    document = documents.from_bytes(SUPPRESSED.encode(), "a.json")
    for _ in range(2):
        assert lint_with(choose("", NEWEST), document, stack="deepspeed").findings == []


def test_the_severity_of_the_settings_goes_for_comments_too():
    report = linted(f"{{{BATCH} // ds-lint: ignore[DS101]\n}}", severities={"DS013": "error"})
    assert [finding.severity for finding in report.findings] == ["error"]


def test_comments_are_found_one_by_one():
    text = '{ # one\n// two\r\n/* three\n*/ /* four */ "a": "# no", // five\n"b": 1 }# six'
    document = documents.from_bytes(text.encode(), "a.json")
    found = [text[span.start : span.end] for span in comments_of(document)]
    assert found == ["# one", "// two", "/* three\n*/", "/* four */", "// five", "# six"]


PIECES = ["{", "}", '"a"', ":", ",", "1", "\n", "\r\n", " ", "//", "#", "/*", "*/", "{%", "%}", "\u00a0", "'", "[", "]"]
PIECES += ["ds-lint:", " ignore", "ignore-file", "[DS101]", "[unknown-key, DS012]", "DS101"]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_text_can_be_linted(text):
    report = linted(text)
    assert report.suppressed >= 0
    for finding in report.findings:
        assert 0 <= finding.span.start <= finding.span.end <= len(text)
    spans = [(span.start, span.end) for span in comments_of(report.document)]
    assert spans == sorted(spans)
    assert all(text[start:end].startswith(("#", "//", "/*")) for start, end in spans)
