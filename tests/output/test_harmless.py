"""Nothing that is printed acts on a terminal or in a CI system, and no secret is in it."""

from __future__ import annotations

import json
import re
import subprocess
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_lint.output import FORMATS
from ds_lint.output.harmless import JSON, TEXT, XML, harmless
from ds_lint.output.secrets import masked, masked_words

COMMANDS = ["::error::x", "  ::set-output name=a::b", "##vso[task.setvariable variable=a]b", "##[error]x"]
COMMANDS += ["##teamcity[buildStop]", "\t::stop-commands::x"]
BY_A_RUNNER = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)  # GitHub trims lines, Azure looks anywhere
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("text", COMMANDS)
@pytest.mark.parametrize("language", [TEXT, XML])
def test_no_line_is_a_command(text, language):
    assert BY_A_RUNNER.search(f"a\n{text}\nb")
    assert not BY_A_RUNNER.search(harmless(f"a\n{text}\nb", language))


@given(st.lists(st.sampled_from([*COMMANDS, *"#[: \n", "##", "::", "vso[", "\x1b[1m"])).map("".join))
def test_no_text_becomes_a_command(text):
    assert not BY_A_RUNNER.search(re.sub(r"\x1b\[\d*m", "", harmless(text)))


@pytest.mark.parametrize("text", COMMANDS)
def test_programs_read_the_same_text(text):
    in_json = harmless(json.dumps({"a": text}), JSON)
    assert not BY_A_RUNNER.search(in_json)
    assert json.loads(in_json) == {"a": text}
    in_xml = harmless(f"<a>\n{text}\n</a>", XML)
    assert not BY_A_RUNNER.search(in_xml)
    assert ET.fromstring(in_xml).text == f"\n{text}\n"  # noqa: S314 - of our own making


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"x takes a number, not {TOKEN}", "x takes a number, not ***"),
        ("https://user:pa55@host/x", "https://***@host/x"),
        ('"hub_token": "abc def"', '"hub_token": "***"'),
        ("--hub_token abc --bf16", "--hub_token *** --bf16"),
        ("--hub-token=abc", "--hub-token=***"),
        ("WANDB_API_KEY=0123abc", "WANDB_API_KEY=***"),
        ("  hub_token: abc", "  hub_token: ***"),
        ('12 | "wandb": {"api_key": "0123"}', '12 | "wandb": {"api_key": "***"}'),
        (r"{\"password\": \"x\"}", r"{\"password\": \"***\"}"),
        ("api_key = 'x y'", "api_key = '***'"),
        # what is not a secret
        ('"tokenizer": "gpt2", "max_tokens": 5', '"tokenizer": "gpt2", "max_tokens": 5'),
        ('"hub_token": null', '"hub_token": null'),
        ("`hub_token`: DeepSpeed ignores it", "`hub_token`: DeepSpeed ignores it"),
        ("https://example.org/a?b=c", "https://example.org/a?b=c"),
        ("mail me@example.org", "mail me@example.org"),
    ],
)
def test_secrets_are_masked(text, shown):
    assert masked(text) == shown


HOSTILE = (
    '{"train_batch_size": 8, "gradient_cliping": 1,\n'
    '::error::x\n  ::warning::y\n"##vso[task.complete result=Succeeded]": "\u202e##[error]\x1b[2J",\n'
    f'"api_key": "s3cret pass", "x": "s3cret pass", "zero_optimization": {{"stage": "{TOKEN}"}},\n'
    '"steps_per_print": 1_0, "url": "https://me:pa55word@host/"\n}'
)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--hub_token", "my pass word", "--bf16"], ["--hub_token", "***", "--bf16"]),
        (["--hub-token=my pass word"], ["--hub-token=***"]),
        (["env", "WANDB_API_KEY=abc def", "python"], ["env", "WANDB_API_KEY=***", "python"]),
        (["--hub_token", None, "--push_to_hub_token", "--x"], ["--hub_token", None, "--push_to_hub_token", "--x"]),
        (["--hub_token", "none", "--output", "path"], ["--hub_token", "none", "--output", "path"]),
    ],
)
def test_secrets_in_the_words_of_a_command_are_masked(words, shown):
    assert masked_words(words) == shown


@pytest.mark.parametrize("name", [*FORMATS, "diff", "--fix"])
def test_a_hostile_config_is_shown_harmlessly(run, tmp_path, name):
    path = tmp_path / "::error::a\u202e\x1b[2J\n##vso[x]b.json"
    path.write_text(HOSTILE)
    fixes = {"diff": ["--diff", "--unsafe-fixes"], "--fix": ["--fix", "--unsafe-fixes"]}
    result = run("check", *fixes.get(name, ["--output-format", name]), path.name)
    printed = result.stdout + result.stderr
    assert not CONTROL.search(printed)
    lines = printed.split("\n")
    ours = [
        line
        for line in lines
        if (name == "github" and re.match(r"::(error|warning|notice) title=(DS\d{3}|ds-lint)", line))
        or (name == "azure" and re.match(r"##vso\[task\.logissue type=\w+;(?:(?!##\w*\[).)*$", line))
    ]
    assert not BY_A_RUNNER.search("\n".join(line for line in lines if line not in ours))
    assert TOKEN not in printed
    assert "s3cret" not in printed
    assert "pa55word" not in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["effective", "--stack", "deepspeed", "ds.json"],
        ["effective", "--stack", "deepspeed", "--output-format", "json", "ds.json"],
        [
            "check",
            "-v",
            "ds.json",
            "--stack",
            "trainer",
            "--trainer-args",
            "--hub_token s3cret --lr 5e-5 --hub_token 's3cret",
        ],
        ["check", "-v", "ds.json", "--stack", "trainer", "--trainer-args", "--hub_token s3cret --learning_rate 5e-5"],
        ["check", "-v", "ds.json", "--stack", "trainer", "--trainer-args", "args.json", "--output-format", "sarif"],
        ["check", "-v", "ds.json", "--stack", "trainer", "--trainer-args", "args.yaml"],
        ["check", "https://me:s3cret@host/##vso[x]"],
        ["check", "ds.json", "--stack", "deepspeed", "--unsafe-fixes", "--diff"],
        ["explain", "https://me:s3cret@host/##vso[x]"],
    ],
)
def test_no_command_of_ours_shows_a_secret(run, tmp_path, arguments):
    config = {
        "train_batch_size": 8,
        "gradient_cliping": 1,
        "wandb": {"api_key": "s3cret"},
        "optimizer": {"type": "s3cret"},
    }
    (tmp_path / "ds.json").write_text(json.dumps(config))
    (tmp_path / "args.json").write_text('{"hub_token": "s3cret", "learning_rate": 1}')
    (tmp_path / "args.yaml").write_text("hub_token: s3cret\nlearning_rate: 1\n")
    result = run(*arguments)
    assert result.stdout + result.stderr
    assert "s3cret" not in result.stdout + result.stderr
    assert not BY_A_RUNNER.search(result.stdout + result.stderr)


def test_a_fix_that_would_write_a_mask_is_not_reported(run, tmp_path):
    (tmp_path / "ds.json").write_text('{"train_batch_size": 8,\n"api_key": s3cret\n}')
    fixes = [one["fix"] for one in json.loads(run("check", "--output-format", "json", "ds.json").stdout)["findings"]]
    assert "***" not in json.dumps(fixes)


def test_a_diff_is_a_patch_as_long_as_it_does_no_harm(run, tmp_path):
    text = '{\r\n\t"train_batch_size": 8,\r\n\t"gradient_cliping": 1\r\n}\n'
    (tmp_path / "ds.json").write_bytes(text.encode())
    _apply(
        tmp_path,
        run("check", "--diff", "ds.json", "--output-file", "ds.patch") and (tmp_path / "ds.patch").read_bytes(),
    )
    assert b'"gradient_clipping": 1\r\n' in (tmp_path / "ds.json").read_bytes()


def test_a_patch_in_a_file_keeps_what_a_log_must_not_show(run, tmp_path):
    text = '{\n"_a": "\u202e##vso[x]",\n"train_batch_size": 8,\n"gradient_cliping": 1\n}\n'
    (tmp_path / "ds.json").write_text(text)
    result = run("check", "--diff", "ds.json")
    assert not BY_A_RUNNER.search(result.stdout)
    assert "--output-file writes a patch" in result.stderr
    run("check", "--diff", "ds.json", "--output-file", "ds.patch")
    _apply(tmp_path, (tmp_path / "ds.patch").read_bytes())
    assert (tmp_path / "ds.json").read_text() == text.replace("cliping", "clipping")


def test_no_patch_writes_a_mask(run, tmp_path):
    text = '{\n"train_batch_size": 8,\n"gradient_cliping": 1, "api_key": "s3cret"\n}\n'
    (tmp_path / "ds.json").write_text(text)
    run("check", "--diff", "ds.json", "--output-file", "ds.patch")
    assert b"s3cret" not in (tmp_path / "ds.patch").read_bytes()
    subprocess.run(["patch", "-p0", "-i", "ds.patch"], cwd=tmp_path, capture_output=True, check=False)
    assert (tmp_path / "ds.json").read_text() == text


def _apply(folder, patch):
    assert patch
    subprocess.run(["patch", "--binary", "-p0", "-i", "ds.patch"], cwd=folder, check=True, capture_output=True)
