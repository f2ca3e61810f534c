"""Policies: JSON Schemas of an organisation, with findings at the right place."""

from __future__ import annotations

import pytest
from command_line import write_into
from linted import lint_document

from ds_lint.facts import pattern_limits
from ds_lint.facts.policy import Policy
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.source import documents

CONFIG = """{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_clipping": 0.5,
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {"device": "cpu"}
  },
  "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.999]}}
}"""


def violations(schema, text=CONFIG):
    """Key, text that is pointed at, and message of everything that is against a policy."""
    document = documents.from_bytes(text.encode(), "a.json")
    found = lint_document(document, policies=[Policy("org.schema.json", schema)]).findings
    return [
        (finding.key, text[finding.span.start : finding.span.end], finding.message)
        for finding in found
        if finding.name == "policy-violation"
    ]


def given_up(schema, text=CONFIG):
    """What is said of patterns that take too long; how many violations there are beside that."""
    found = violations(schema, text)
    said = [message for _, _, message in found if "not checked in full" in message]
    return said, len(found) - len(said)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [("^(a+)+$", "value"), ("^(a|a)*$", "key"), ("(a?){40}a{40}$", "value"), (r"^(\w+\s?)*$", "closed")],
)
def test_a_pattern_that_takes_hours_is_given_up_and_the_rest_is_checked(monkeypatch, pattern, place):
    monkeypatch.setattr(pattern_limits, "SECONDS", 0.5)
    schema = {
        "value": properties(optimizer=properties(type={"pattern": pattern}), gradient_clipping={"const": 1}),
        "key": {"patternProperties": {pattern: {}}, **properties(gradient_clipping={"const": 1})},
        "closed": {"patternProperties": {pattern: {}}, "additionalProperties": False},
    }[place]
    bad = "a" * 60 + "!"
    text = f'{{"optimizer": {{"type": "{bad}"}}, "{bad}": 1, "gradient_clipping": 0.5}}'
    said, others = given_up(schema, text)
    assert len(said) == 1
    assert pattern in said[0].replace("\\\\", "\\")
    assert others == (place != "closed")


def test_patterns_with_repetitions_that_end_soon_are_checked():
    schema = {"patternProperties": {"^[a-z]+(_[a-z]+)*$": {"type": "object"}}}
    said, others = given_up(schema, '{"zero_optimization": {}, "gradient_clipping": 0.5, "A": 1}')
    assert (said, others) == ([], 1)


@pytest.mark.parametrize(("number", "is_multiple"), [("NaN", False), ("1e400", False), ("1" + "0" * 400, True)])
def test_a_multiple_of_what_no_float_holds(number, is_multiple):
    found = violations(properties(gradient_clipping={"multipleOf": 0.5}), f'{{"gradient_clipping": {number}}}')
    assert (found == []) == is_multiple


def properties(**schemas):
    return {"properties": schemas}


@pytest.mark.parametrize(
    ("schema", "key", "place", "message"),
    [
        (
            properties(gradient_clipping={"const": 1}),
            "gradient_clipping",
            "0.5",
            "`gradient_clipping` is 0.5, but org.schema.json requires 1",
        ),
        (
            properties(gradient_clipping={"type": ["string", "null"]}),
            "gradient_clipping",
            "0.5",
            "`gradient_clipping` is 0.5, but org.schema.json requires string or null",
        ),
        (
            properties(zero_optimization=properties(stage={"enum": [0, 3]})),
            "zero_optimization.stage",
            "2",
            "`zero_optimization.stage` is 2, but org.schema.json requires one of 0, 3",
        ),
        (
            properties(zero_optimization=properties(stage={"minimum": 3})),
            "zero_optimization.stage",
            "2",
            "`zero_optimization.stage` is 2, but org.schema.json requires at least 3",
        ),
        (
            properties(zero_optimization={"required": ["stage", "overlap_comm"]}),
            "zero_optimization.overlap_comm",
            '"zero_optimization"',
            "`zero_optimization.overlap_comm` is not set, but org.schema.json requires it",
        ),
        (
            {"required": ["wall_clock_breakdown"]},
            "wall_clock_breakdown",
            "{",
            "`wall_clock_breakdown` is not set, but org.schema.json requires it",
        ),
        (
            properties(zero_optimization=properties(stage={}) | {"additionalProperties": False}),
            "zero_optimization.offload_optimizer",
            '"offload_optimizer"',
            "org.schema.json does not allow `zero_optimization.offload_optimizer`",
        ),
        (
            properties(zero_optimization={"patternProperties": {"^st": {}}, "additionalProperties": False}),
            "zero_optimization.offload_optimizer",
            '"offload_optimizer"',
            "org.schema.json does not allow `zero_optimization.offload_optimizer`",
        ),
        (
            properties(zero_optimization=properties(offload_optimizer=False)),
            "zero_optimization.offload_optimizer",
            '"offload_optimizer"',
            "org.schema.json does not allow `zero_optimization.offload_optimizer`",
        ),
        (
            properties(optimizer=properties(params=properties(betas={"items": {"maximum": 0.95}}))),
            "optimizer.params.betas.1",
            "0.999",
            "`optimizer.params.betas.1` is 0.999, but org.schema.json requires at most 0.95",
        ),
        (
            properties(zero_optimization={"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            "zero_optimization",
            '"zero_optimization"',
            "`zero_optimization` is an object, but org.schema.json requires one of 2 other forms",
        ),
        (
            properties(optimizer={"not": {"required": ["type"]}}),
            "optimizer",
            '"optimizer"',
            '`optimizer` is an object, but org.schema.json requires another value (keyword "not")',
        ),
        (False, None, "{", "org.schema.json does not allow the config"),
        (
            {"maxProperties": 2},
            None,
            "{",
            "the config is an object, but org.schema.json requires at most 2 keys",
        ),
    ],
)
def test_a_violation_says_what_is_wanted_and_points_at_it(schema, key, place, message):
    assert violations(schema) == [(key, place, message)]


def test_several_missing_keys_are_several_findings():
    assert [key for key, _, _ in violations({"required": ["a", "b", "gradient_clipping"]})] == ["a", "b"]


def test_what_is_filled_in_later_is_not_linted():
    schema = properties(gradient_clipping={"const": 1})
    assert violations(schema, '{"train_batch_size": 1, "gradient_clipping": ${CLIPPING}}') == []
    assert violations(schema, '{"train_batch_size": 1, "gradient_clipping": 2}') != []


def test_the_words_of_the_organisation_are_the_help():
    policy = Policy("org.schema.json", properties(gradient_clipping={"const": 1, "description": "Ask Ada."}))
    document = documents.from_bytes(CONFIG.encode(), "a.json")
    (finding,) = (one for one in lint_document(document, policies=[policy]).findings if one.code == "DS207")
    assert finding.help == "Ask Ada."


def test_a_config_of_any_depth_is_no_traceback():
    text = '{"train_batch_size": 1, "a": ' + "[" * 3000 + "]" * 3000 + "}"
    assert violations({"additionalProperties": False}, text) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "objekt"}, "org.schema.json: this is not a JSON Schema: $.type: 'objekt' is not valid"),
        ([1], "org.schema.json: this is not a JSON Schema: $: [1] is not of type 'object', 'boolean'"),
    ],
)
def test_what_is_no_schema_is_an_error(schema, said):
    with pytest.raises(UnreadableFact) as caught:
        Policy("org.schema.json", schema)
    assert str(caught.value).startswith(said)


# As users have it


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


SETTINGS = '[tool.ds-lint]\nstack = "deepspeed"\npolicy = ["policies/org.schema.json"]\n'


def test_a_policy_lies_beside_the_settings_and_may_refer_to_others(run, write):
    write(
        {
            "pyproject.toml": SETTINGS,
            "policies/org.schema.json": {"allOf": [{"$ref": "parts/clipping.json#/$defs/clipping"}]},
            "policies/parts/clipping.json": {"$defs": {"clipping": properties(gradient_clipping={"const": 1})}},
            "configs/a.json": CONFIG,
        }
    )
    result = run("check", "configs/a.json", "--select", "policy-violation", "--output-format", "concise")
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines()[0] == (
        "configs/a.json:3:24: DS207 [warning] `gradient_clipping` is 0.5, "
        "but policies/org.schema.json requires 1 (advice)"
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "pyproject.toml: policy: policies/org.schema.json: No such file or directory"),
        ("[1,]", "policies/org.schema.json: this is not valid JSON: Expecting value: line 1 column 4 (char 3)"),
        ({"$ref": "https://example.org/a"}, "policies/org.schema.json: https://example.org/a does not resolve"),
        ({"$ref": "nowhere.json"}, "policies/org.schema.json: nowhere.json does not resolve"),
        ({"$ref": "#/$defs/nothing"}, "policies/org.schema.json: /$defs/nothing does not resolve"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_used_is_2(run, write, schema, said):
    write({"pyproject.toml": SETTINGS, "a.json": CONFIG, **({"policies/org.schema.json": schema} if schema else {})})
    result = run("check", "a.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ds-lint: {said}\n"
