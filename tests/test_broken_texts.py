"""What is said of a text that is broken, beside that it is."""

from __future__ import annotations

from json import loads

import pytest
from linted import lint_bytes


def codes(text, stack=None):
    data = text if isinstance(text, bytes) else text.encode()
    return sorted({one.code for one in lint_bytes(data, "d.json", stack=stack).findings})


@pytest.mark.parametrize("stack", ["trainer", "accelerate", "deepspeed", None])
@pytest.mark.parametrize(
    "text",
    [
        '{"broken": ', '{"broken"', '{"brok', "{brok", "{", '{"train_batch_size": \n', '{"zero_optimization": {"sta',
        '{"fp16": {"enabl": ',
    ],
)  # fmt: skip
def test_a_text_that_breaks_off_is_that_alone(text, stack):
    assert codes(text, stack) == ["DS006"]


def test_what_stands_whole_in_a_text_that_breaks_off_is_linted():
    assert codes('{"gradient_cliping": 1.0, "train_ba') == ["DS006", "DS101"]


@pytest.mark.parametrize("stack", ["deepspeed", "trainer"])
def test_nothing_is_missing_from_a_text_whose_end_is_missing(stack):
    assert codes('{"gradient_clipping": 1.0', stack) == ["DS006"]
    assert codes('{"gradient_clipping": 1.0}', stack) != []


def test_a_key_without_a_value_in_the_middle_is_linted():
    assert "DS101" in codes('{"gradient_cliping": , "train_batch_size": 8}')


@pytest.mark.parametrize(
    ("character", "name", "escape"),
    [
        ("\n", "a line break", "\\n"),
        ("\t", "a tab", "\\t"),
        ("\r", "a carriage return", "\\r"),
        ("\x00", "a NUL (U+0000)", "\\u0000"),
        ("\x1b", "an ESC (U+001B)", "\\u001b"),
        ("\x07", "a control character (U+0007)", "\\u0007"),
    ],
)
def test_a_control_character_in_a_string_is_called_by_its_name(character, name, escape):
    report = lint_bytes(f'{{"train_batch_size": 8, "_note": "x{character}y"}}'.encode(), "d.json")
    (finding,) = [one for one in report.findings if one.code == "DS006"]
    assert finding.message == f"a string contains {name}: the file cannot be read"
    assert finding.help == f"Write {escape}, or delete it."
    assert loads(f'"{escape}"') == character


@pytest.mark.parametrize(
    ("text", "safety"),
    [
        ('{\n // c\n::error::x\n "train_batch_size": 8}', "unsafe"),
        ('{"train_batch_size": True, ::error::x}', "unsafe"),
        ('{"fp16": {"enabled": True, "train_batch_size": 8}', "unsafe"),
        ('{"fp16": {"enabled": True},, "train_batch_size": 8}', "safe"),  # json reads it once both are done
        ('{"train_batch_size": 8 "fp16": {"enabled": true}}', "safe"),
        ('{"train_batch_size": 8,}', "safe"),  # hjson reads it as it is
    ],
)
@pytest.mark.parametrize("stack", ["trainer", "deepspeed", None])
def test_no_fix_is_safe_that_leaves_a_text_which_no_library_can_read(text, safety, stack):
    fixes = [one.fix for one in lint_bytes(text.encode(), "d.json", stack=stack).findings if one.kind == "syntax"]
    if stack == "deepspeed" and text.endswith(",}"):
        assert fixes == []  # nothing is wrong
    else:
        assert {fix.safety for fix in fixes if fix} == {safety}


def test_a_program_is_one_finding():
    program = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00>\x00\xd0{\x00:\xff}\x00,{\x00"
    (finding,) = lint_bytes(program, "ls.json").findings
    assert (finding.code, finding.stage) == ("DS001", "load")


def test_a_text_in_another_encoding_is_linted():
    assert codes('{"gradient_cliping": 1.0, "_": "é", "train_batch_size": 8}'.encode("latin-1")) == ["DS001", "DS101"]


def test_accelerates_own_config_is_known():
    text = b"compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  zero_stage: 2\ndistributed_type: DEEPSPEED\n"
    (finding,) = lint_bytes(text, "accelerate.json", stack="accelerate").findings
    assert finding.code == "DS011"
    assert "this is YAML, but `accelerate launch --config_file`" in finding.message
    assert finding.help == "Give the file a name that ends with .yaml."
    assert "DS011" not in {finding.code for finding in lint_bytes(text, "accelerate.yaml", stack="accelerate").findings}


@pytest.mark.parametrize("stack", ["deepspeed", "trainer"])
@pytest.mark.parametrize(
    "text", ['{"fp16": {"enabled": true}, ...}', '{\n  ...\n  "bf16": {"enabled": true}\n}', '{"optimizer": {\u2026}}']
)
def test_an_excerpt_lacks_nothing(text, stack):
    codes = {finding.code for finding in lint_bytes(text.encode(), "config.json", stack=stack).findings}
    assert "DS006" in codes
    assert not codes & {"DS511", "DS601"}


def test_a_short_config_is_used_as_it_stands():
    codes = {finding.code for finding in lint_bytes(b'{"fp16": {"enabled": true}}', "c.json").findings}
    assert "DS511" in codes
