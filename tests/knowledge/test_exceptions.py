"""What an exception means, by its text and its frames."""

from __future__ import annotations

import time

import pytest

from ds_lint.knowledge import exceptions
from ds_lint.knowledge.exceptions import explained
from ds_lint.linter.engine import every_rule

CONFIG = "/usr/lib/python3.11/site-packages/deepspeed/runtime/config.py"
ENGINE = "/usr/lib/python3.11/site-packages/deepspeed/runtime/engine.py"
BATCH = (
    "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * "
    "world_size 32 != 2 * 4 * 2"
)
EXTRA = """1 validation error for DeepSpeedZeroConfig
offload_optimizers
  Extra inputs are not permitted [type=extra_forbidden, input_value={'device': 'cpu'}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.13/v/extra_forbidden"""
PARTIAL = """1 validation error for DeepSpeedZeroConfig
  Assertion failed, Partial offloading only supported for ZeRO Stage 3. [type=assertion_error, input_value={}]"""


def codes(type_name, message, frames=(), **more):
    """The rules of the records that are found, best first."""
    return [code for record in explained(type_name, message, list(frames), **more) for code in record.rules]


@pytest.mark.parametrize("outer", [[], [("train.py", "main")]])
@pytest.mark.parametrize("inner", [[], [(CONFIG, "_batch_assertion")]])
@pytest.mark.parametrize("text", [BATCH, BATCH.replace(" ", "\n  "), BATCH + "\n"])
def test_a_text_of_its_own_is_known_with_and_without_frames(text, inner, outer):
    assert "DS512" in codes("AssertionError", text, outer + inner)


def test_the_type_counts_without_its_module():
    text = "The checkpoint being loaded used a DP world size of 8 but the current world size is 16."
    assert "DS836" in codes("deepspeed.runtime.zero.utils.ZeRORuntimeException", text)
    assert codes("ValueError", text) == []


def test_a_message_that_is_cut_off_is_known():
    assert "DS512" in codes("AssertionError", BATCH[:70])
    assert codes("AssertionError", BATCH[:20]) == []


def test_a_short_text_needs_the_function_that_raises():
    frames = [(ENGINE, "__init__"), ("/x/site-packages/deepspeed/utils/groups.py", "_ensure_divisibility")]
    assert "DS318" in codes("AssertionError", "3 is not divisible by 2", frames)
    assert codes("AssertionError", "3 is not divisible by 2") == []
    assert codes("AssertionError", "3 is not divisible by 2", [("/home/me/model.py", "split")]) == []


def test_an_exception_without_text_needs_it_too():
    frames = [
        (ENGINE, "__init__"),
        ("/x/site-packages/deepspeed/comm/torch.py", "init_device_mesh"),
        ("/x/site-packages/torch/distributed/_pycute/layout.py", "complement"),
    ]
    assert "DS801" in codes("AssertionError", "", frames)
    assert codes("AssertionError", "") == []
    assert codes("AssertionError", "", [("/home/me/layout.py", "complement")]) == []


def test_what_python_says_of_any_value_is_explained_only_in_the_library():
    text = "'>' not supported between instances of 'str' and 'int'"
    assert {"DS201", "DS512"} & set(codes("TypeError", text, [(CONFIG, "_batch_assertion")]))
    assert codes("TypeError", text) == []
    assert codes("TypeError", text, [("/home/me/train.py", "main")]) == []


@pytest.mark.parametrize(("text", "code"), [(EXTRA, "DS101"), (PARTIAL, "DS303")])
def test_pydantic_is_read(text, code):
    assert code in codes("pydantic_core._pydantic_core.ValidationError", text)


def test_a_release_that_has_the_text_comes_first():
    text = "no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2"
    (record, *_) = explained("AssertionError", text, [])
    assert record.since == "0.16.0"
    (first, *_) = explained("AssertionError", "CUDA_HOME does not exist, unable to compile CUDA op(s)", [], releases={})
    assert first.until == "0.12.4"


@pytest.mark.parametrize(
    "message", ["", " ", "x" * 100_000, "a " * 50_000, "'" * 100_000, "\0\n" * 50_000, BATCH * 1000]
)
def test_anything_may_be_a_message(message):
    began = time.process_time()
    explained("AssertionError", message, [("\udcff/deepspeed/runtime/config.py", "\0")] * 1000)
    assert time.process_time() - began < 5  # none takes a hundredth of it: this is about what never ends


def test_every_rule_that_is_named_is_one():
    assert {code for record in exceptions.every() for code in record.rules} <= {rule.code for rule in every_rule()}


def test_every_record_says_something():
    for record in exceptions.every():
        assert record.rules or (record.reason and record.because), record
        assert record.because is None or record.because.endswith("."), record
        assert record.message is None or any(record.message) or record.message == (None,), record


def test_every_record_is_found_by_its_own_text_in_its_own_function():
    """Those that share a text and a function come together."""
    for record in exceptions.every():
        text = "".join("0" if piece is None else piece for piece in record.message or ())
        frames = [(record.module, record.function)]
        if record.through is not None:
            frames.insert(0, tuple(record.through.split(":")))
        assert record in explained(record.raises or "ValueError", text, frames), record
