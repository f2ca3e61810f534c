"""A defect that a config reaches is shown at the pin of the release too, with a fix that pins another one."""

from __future__ import annotations

import pytest
from test_launched_configs import shown

ADVISORY = "DSA-2026-0001"  # DeepSpeed 0.17.6 to before 0.18.3
CONFIG = """\
{
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 8,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2}
}
"""
PROJECT = '[project]\nname = "x"\nversion = "1"\ndependencies = [\n  "deepspeed[ops]==0.18.2",\n]\n'


@pytest.mark.parametrize(
    ("name", "text", "fixed"),
    [
        ("requirements.txt", "numpy\ndeepspeed==0.18.2  # for ZeRO\n", "numpy\ndeepspeed==0.18.3  # for ZeRO\n"),
        ("pyproject.toml", PROJECT, PROJECT.replace("0.18.2", "0.18.3")),
    ],
)
def test_the_pin_shows_the_defect_and_can_be_changed(client, tmp_path, name, text, fixed):
    (tmp_path / "ds.json").write_text(CONFIG)
    (tmp_path / name).write_text(text)
    client.open(name, text, language="plaintext")
    (found,) = shown(client, name, ["DS847"])
    assert found["data"]["advisory"] == ADVISORY
    line = found["range"]["start"]["line"]
    assert "deepspeed" in text.splitlines()[line]
    actions = client.request(
        "textDocument/codeAction",
        textDocument={"uri": client.uri(name)},
        range=found["range"],
        context={"diagnostics": [found]},
    )
    (action,) = actions
    assert action["title"] == "Pin deepspeed 0.18.3 (unsafe: needs your decision)"
    (edit,) = action["edit"]["changes"][client.uri(name)]
    lines = text.splitlines(keepends=True)
    start, end = edit["range"]["start"], edit["range"]["end"]
    assert start["line"] == end["line"] == line
    lines[line] = lines[line][: start["character"]] + edit["newText"] + lines[line][end["character"] :]
    assert "".join(lines) == fixed


def test_a_pin_without_a_defect_shows_nothing(client, tmp_path):
    (tmp_path / "ds.json").write_text(CONFIG)
    (tmp_path / "requirements.txt").write_text("deepspeed==0.18.3\n")
    client.open("ds.json", CONFIG)
    assert [one["code"] for one in client.diagnostics("ds.json")] == []


def test_a_pin_is_not_to_be_changed_if_its_rule_is_not_fixable(client, tmp_path):
    (tmp_path / "ds.json").write_text(CONFIG)
    (tmp_path / "requirements.txt").write_text("deepspeed==0.18.2\n")
    (tmp_path / "ds-lint.toml").write_text('unfixable = ["DS847"]\n')
    client.open("requirements.txt", "deepspeed==0.18.2\n", language="plaintext")
    (found,) = shown(client, "requirements.txt", ["DS847"])
    actions = client.request(
        "textDocument/codeAction",
        textDocument={"uri": client.uri("requirements.txt")},
        range=found["range"],
        context={"diagnostics": [found]},
    )
    assert actions == []
