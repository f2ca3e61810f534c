"""The report as SARIF: what stands where. Real readers take it in tests/clients/test_reports.py."""

from __future__ import annotations

import json
import ntpath
from urllib.parse import unquote_to_bytes

import pytest

from ds_lint.diagnostics.finding import Edit, Fix, Related
from ds_lint.diagnostics.report import Complaint
from ds_lint.output import sarif
from ds_lint.output.project_root import Root
from ds_lint.output.terminal import Terminal
from ds_lint.source.document import Document
from ds_lint.source.tree import Span

CONFIG = '{\n  "zero": 1,\n  "梯度😀": {"gradient_cliping": 0.5}\r\n}\n'


@pytest.fixture
def run(report):
    """The one run of the log about some files, below /repo unless another root is given."""

    def run(*files, root=None, **changes):
        log = sarif.as_object(report(*files, **changes), root or Root("/repo", "/repo"))
        assert log["version"] == "2.1.0"
        (run,) = json.loads(json.dumps(log))["runs"]
        return run

    return run


@pytest.fixture
def result(run, file, span, finding):
    """The result for one finding about the key `gradient_cliping`, or what the changes make of it."""

    def result(text=CONFIG, part='"gradient_cliping"', path="config.json", root=None, **changes):
        (found,) = run(file(text, finding(span(text, part), **changes), path=path), root=root)["results"]
        return found

    return result


def place(result):
    return result["locations"][0]["physicalLocation"]


def test_a_finding(result):
    assert result(help="Write `gradient_clipping`.", label="unknown") == {
        "ruleId": "DS101",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": "DeepSpeed knows no such key. Write `gradient_clipping`."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "config.json", "uriBaseId": "%SRCROOT%"},
                    "region": {
                        "startLine": 3,
                        "startColumn": 11,
                        "endLine": 3,
                        "endColumn": 29,
                        "snippet": {"text": '"gradient_cliping"'},
                    },
                },
                "message": {"text": "unknown"},
            }
        ],
        "partialFingerprints": {"dsLintIdentity/v2": "a324caf5bec9da51b6602d132a7d2f35"},
        "properties": {"effect": "ignored", "key": "gradient_cliping"},
    }


@pytest.mark.parametrize(("severity", "level"), [("error", "error"), ("warning", "warning"), ("info", "note")])
def test_levels(result, severity, level):
    assert result(severity=severity)["level"] == level


def test_a_rule_says_what_its_page_says(run, file, finding):
    unknown, misplaced = finding(Span(0, 1)), finding(Span(1, 2), code="DS102", name="misplaced-key", severity="info")
    driver = run(file("{}", misplaced, unknown, finding(Span(1, 1))))["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == ["DS101", "DS102"]
    rule = driver["rules"][0]
    assert rule["name"] == "UnknownKey"
    assert rule["shortDescription"]["text"].startswith("A key that DeepSpeed does not know")
    assert rule["helpUri"] == "https://ds-lint.readthedocs.io/en/latest/rules/DS101-unknown-key/"
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert {"unknown-key", "rejected", "ignored", "no-effect"} < set(rule["properties"]["tags"])
    assert "](https://ds-lint.readthedocs.io/en/latest/rules/DS102-misplaced-key/)" in rule["help"]["markdown"]
    assert ".md)" not in rule["help"]["markdown"]


def test_a_result_points_to_its_rule(run, file, finding):
    found = run(file("{}", finding(Span(0, 1), code="DS102", name="misplaced-key"), finding(Span(1, 2))))
    assert [result["ruleIndex"] for result in found["results"]] == [1, 0]


def test_every_rule_can_be_told(run, file, finding):
    from ds_lint.linter.engine import every_rule

    rules = every_rule()
    found = run(file("{}", *(finding(Span(0, 1), code=rule.code, name=rule.name) for rule in rules)))
    told = found["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in told] == [rule.code for rule in rules]
    assert all(len(rule["properties"]["tags"]) <= 10 for rule in told)  # GitHub shows no more


def test_places_that_take_part(run, file, finding, span):
    script = Document("../train.sh", "deepspeed train.py --fp16\n", None, [])
    related = [
        Related(span(CONFIG, '"zero"'), "here"),
        Related(span(script.text, "--fp16"), "", "../train.sh"),
        Related(Span(5, 9), "not read", "make.py"),
    ]
    (found,) = run(file(CONFIG, finding(Span(0, 1), related=related)), material=[script])["results"]
    first, second, third = found["relatedLocations"]
    assert (first["id"], first["message"]) == (1, {"text": "here"})
    assert first["physicalLocation"]["region"]["startLine"] == 2
    assert second["physicalLocation"]["artifactLocation"] == {"uri": "file:///train.sh"}
    assert second["physicalLocation"]["region"]["startColumn"] == 20
    assert "message" not in second
    assert third["physicalLocation"] == {"artifactLocation": {"uri": "make.py", "uriBaseId": "%SRCROOT%"}}


def applied(text, replacements):
    """A text after replacements by line and column, the last first; code points, a byte order mark being none."""
    lines = text.removeprefix("\ufeff").split("\n")

    def offset(line, column):
        return sum(len(before) + 1 for before in lines[: line - 1]) + column - 1

    def start(replacement):
        region = replacement["deletedRegion"]
        return offset(region["startLine"], region["startColumn"])

    text = "\n".join(lines)
    for replacement in sorted(replacements, key=start, reverse=True):
        region = replacement["deletedRegion"]
        inserted = replacement.get("insertedContent", {"text": ""})["text"]
        text = text[: start(replacement)] + inserted + text[offset(region["endLine"], region["endColumn"]) :]
    return text


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_fix_can_be_applied(result, span, mark):
    text = mark + CONFIG
    edits = [
        Edit(span(text, "gradient_cliping"), "gradient_clipping"),
        Edit(span(text, '  "zero": 1,\n'), ""),
        Edit(Span(len(mark), len(mark)), "// 修复😀\n"),
    ]
    (fix,) = result(text, fix=Fix("Rename it", "unsafe", edits))["fixes"]
    assert fix["description"] == {"text": "Rename it (unsafe)"}
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "config.json"
    assert applied(text, change["replacements"]) == '// 修复😀\n{\n  "梯度😀": {"gradient_clipping": 0.5}\r\n}\n'


def test_a_byte_order_mark_is_no_column(result):
    assert place(result('\ufeff{"a": 1}', '"a"'))["region"]["startColumn"] == 2
    assert place(result('\ufeff{"a": 1}', "\ufeff"))["region"]["startColumn"] == 1


def test_a_span_that_is_all_of_a_large_file_is_not_repeated(result):
    text = "{" + " " * 1000 + "}"
    assert "snippet" not in place(result(text, text))["region"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("configs/zero 3.json", "configs/zero%203.json"),
        ("a:b#c?d%20.json", "a%3Ab%23c%3Fd%2520.json"),
        ("梯度.json", "%E6%A2%AF%E5%BA%A6.json"),
        ("\udcff.json", "%FF.json"),
        ("\ud800.json", "%ED%A0%80.json"),
        ("<stdin>", "%3Cstdin%3E"),
    ],
)
def test_a_path_becomes_a_uri(result, path, uri):
    assert place(result(path=path))["artifactLocation"] == {"uri": uri, "uriBaseId": "%SRCROOT%"}
    assert unquote_to_bytes(uri).decode(errors="surrogateescape") == path or "\ud800" in path


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("conf\\ds 1.json", {"uri": "conf/ds%201.json", "uriBaseId": "%SRCROOT%"}),
        ("D:\\a b\\ds.json", {"uri": "file:///D:/a%20b/ds.json"}),
        ("\\\\server\\share\\ds.json", {"uri": "file://server/share/ds.json"}),
    ],
)
def test_a_path_on_windows(run, file, finding, path, location):
    root = Root("C:\\my repo", "C:\\my repo", ntpath)
    told = run(file("{}", finding(Span(0, 1)), path=path), root=root)
    assert place(told["results"][0])["artifactLocation"] == location
    assert told["originalUriBaseIds"] == {"%SRCROOT%": {"uri": "file:///C:/my%20repo/"}}


@pytest.mark.parametrize(("folder", "uri"), [("/", "file:///"), ("/a b", "file:///a%20b/")])
def test_the_root_ends_with_a_slash(run, folder, uri):
    assert run(root=Root(folder, folder))["originalUriBaseIds"] == {"%SRCROOT%": {"uri": uri}}


def test_clean_files_are_told_too(run, file):
    told = run(file("{}", path="a.json"), file("{}", path="b.json"), file("[]", path="a.json"))
    assert [artifact["location"]["uri"] for artifact in told["artifacts"]] == ["a.json", "b.json"]
    assert (told["results"], told["tool"]["driver"]["rules"]) == ([], [])
    assert told["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_what_could_not_be_linted_makes_the_run_a_failure(run):
    (invocation,) = run(unreadable=[Complaint("a.json", "Permission denied")], notes=["wrote a baseline"])[
        "invocations"
    ]
    assert invocation == {
        "executionSuccessful": False,
        "toolExecutionNotifications": [
            {
                "level": "error",
                "message": {"text": "a.json: Permission denied"},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a.json", "uriBaseId": "%SRCROOT%"}}}],
            },
            {"level": "note", "message": {"text": "wrote a baseline"}},
        ],
    }


def test_what_a_message_quotes_is_no_link_and_no_control_character(result):
    assert result(message="`[a](1)\x1b[0m` \\")["message"]["text"] == "`\\[a\\](1)<U+001B>\\[0m` \\\\."
    assert result(message='`[1, "\\"]`')["message"]["text"] == '`[1, "\\"]`.'


def test_releases_are_told(result):
    told = result(releases={"deepspeed": [("0.17.1", "0.18.9")]})["message"]["text"]
    assert told == "DeepSpeed knows no such key (with deepspeed 0.17.1 to 0.18.9)."


def test_what_a_run_confirmed_is_told(run, file, finding):
    found = finding(Span(0, 1), message="did you mean `b`?", help="Write `b`.")
    found.confirmed = "no library read `a`"
    (told,) = run(file("{}", found))["results"]
    assert told["message"]["text"] == "did you mean `b`? The training run confirms it: no library read `a`. Write `b`."


def test_what_has_no_field_is_a_property(result):
    effects = {"deepspeed": "none", "trainer": "rejected"}
    told = result(effect="rejected", stage="parse", effects=effects, key=None)["properties"]
    assert told == {"effect": "rejected", "stage": "parse", "effects": effects}


def test_no_more_results_than_github_takes_and_the_least_severe_go(run, file, finding, monkeypatch):
    monkeypatch.setattr(sarif, "MOST_RESULTS", 2)
    severities = ["info", "error", "warning", "error"]
    told = run(file(" " * 9, *(finding(Span(at, at), severity=name) for at, name in enumerate(severities))))
    assert [result["level"] for result in told["results"]] == ["error", "error"]
    (note,) = told["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "2 findings of the least severe left out, because GitHub accepts no more"


def test_the_text_is_ascii(report, file, finding):
    assert sarif.render(report(file(CONFIG, finding(Span(0, 20), message="梯度\ud800"))), Terminal()).isascii()
