"""What the framework of a script saves, or refuses to save."""

from __future__ import annotations

import pytest
from shown_engines import expected, runs, shown

from ds_lint.smoke.records.job import Exported
from ds_lint.smoke.verify.script_saving import export
from ds_lint.smoke.verify.ties import tied_weights

REFUSAL = "engine.save_16bit_model returns False and writes nothing"


def told(one, exported=None, verify=export):
    run = runs([one, shown(1)])
    run.exported = exported or run.exported
    (check,) = verify(expected(one), run)
    return check.status, check.message


def trained(**changes):
    one = shown(**changes)
    one.evidence.live = {"weight": "a", "bias": "b"}
    return one


def test_a_saved_model_that_is_the_trained_one():
    saved = Exported(files=["pytorch_model.bin"], loaded={"weight": "a", "bias": "b"})
    status, message = told(trained(), saved)
    assert (status, "all 2 tensors equal the trained ones bitwise" in message) == ("pass", True)


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        ({"weight": "a", "2_Dense/linear.bias": "b"}, "pass"),
        ({"weight": "a", "2_Dense/linear.bias": "x"}, "fail"),
        ({"weight": "a", "2_Dense/other.bias": "b"}, "fail"),
    ],
)
def test_modules_that_are_saved_by_themselves_have_the_ends_of_the_names(stored, status):
    """sentence-transformers saves a model as its modules."""
    one = shown(model_class="sentence_transformers.SentenceTransformer")
    one.evidence.live = {"0.model.weight": "a", "2.linear.bias": "b"}
    assert told(one, Exported(files=["model.safetensors"], stored=stored, loaded=stored))[0] == status


@pytest.mark.parametrize(
    ("changes", "stored", "status"),
    [
        ({"saves_itself": True}, {"head": "h"}, "skip"),
        ({"saves_itself": True}, {"weight": "a", "bias": "b"}, "pass"),
        ({"saves_itself": False}, {"head": "h"}, "fail"),
        ({"adapter_names": None}, {"prompt_embeddings": "p"}, "skip"),
        ({"adapter_names": None}, {}, "fail"),
    ],
)
def test_what_is_saved_in_another_way_is_told(changes, stored, status):
    """By the Trainer of the script, or by peft, which saves what a prompt encoder returns."""
    assert told(trained(**changes), Exported(files=["model.safetensors"], stored=stored, loaded=stored))[0] == status


def test_stale_empty_and_missing_weights_fail():
    files = ["pytorch_model.bin"]
    for saved, words in (
        (Exported(files=files, loaded={"weight": "a", "bias": "x"}), "1 of 2 tensors"),
        (Exported(files=files, loaded={"weight": "a", "bias": "b"}, empty=["bias"]), "empty tensors (bias)"),
        (Exported(files=files, loaded={"weight": "a"}), "1 of 2 tensors"),
        (Exported(), "no weights file was saved"),
    ):
        status, message = told(trained(), saved)
        assert (status, words in message) == ("fail", True), message


def test_a_refusal_without_the_trainer_need_not_concern_the_script():
    assert told(shown(not_saved=REFUSAL)) == ("skip", f"{REFUSAL}; the script may save its model in another way")


def test_the_trainer_saves_a_model_in_any_case():
    assert told(shown(stack="trainer", not_saved="ValueError: no")) == (
        "fail",
        "trainer.save_model raises: ValueError: no",
    )


def test_tied_weights_of_a_model_without_from_pretrained_are_tied_in_its_files():
    one = trained(model_class="__main__.Net")
    one.evidence.tied = one.evidence.tied_after = [["head", "words"]]
    saved = Exported(files=["pytorch_model.bin"], stored={"words": "a"}, loaded={"words": "a", "head": "a"})
    assert told(one, saved, tied_weights) == (
        "pass",
        "`head` and `words` are one tensor after the steps and in the saved files",
    )


def test_tied_weights_of_transformers_are_tied_after_loading_too():
    one, other = trained(), shown(1)
    one.evidence.tied = one.evidence.tied_after = [["head", "words"]]
    run = runs([one, other])
    run.is_of_transformers = True
    run.exported = Exported(files=["model.safetensors"], stored={"words": "a"}, loaded={"words": "a", "head": "b"})
    (check,) = tied_weights(expected(one), run)
    assert check.message == "`head` and `words` are one tensor in the model, but not after from_pretrained"


def test_tensors_of_another_shape_are_named_and_not_the_exception_of_the_loader():
    one = trained()
    one.evidence.live = {"weight": "bfloat16 [4, 8] aa", "bias": "bfloat16 [8] bb"}
    saved = Exported(
        files=["model.safetensors"],
        stored={"weight": "bfloat16 [16] cc", "bias": "bfloat16 [8] bb"},
        load_error="RuntimeError: You set `ignore_mismatched_sizes` to `False`",
    )
    status, message = told(one, saved)
    assert status == "fail"
    assert message == (
        "1 of 2 tensors of the saved model have another shape than the trained ones: weight is [16], not [4, 8]"
    )
