"""The training scripts on the rule pages are run with the real libraries on two ranks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

import torch
import transformers
from installed import knowledge, measured_with_the_newest
from ranks import run

from ds_lint.launches import model_loading, script_calls
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from tools.rule_pages import lint_example

if TYPE_CHECKING:
    from pathlib import Path

    from ranks import Run

    from ds_lint.rule_pages.pages import Example

pytestmark = pytest.mark.fidelity

RAISES = {  # with these words, where a finding claims that the script raises
    "DS302": "requires an optimizer",
    "DS511": "requires you to pass at least one of training or evaluation dataloaders",
    "DS820": "is not compatible with passing a `device_map`",
    "DS823": "ZeRO-Offload with a client provided optimizer",
    "DS827": "is not equal to micro_batch_per_gpu",
    "DS864": "not supported between instances",
    "DS865": "_in_forward",
    "DS871": "Dummy",
    "DS872": "untested ZeRO Optimizer",
    "DS875": "with multiple models when using DeepSpeed",
    "DS880": "'weight' must be 2-D",
}
RAISING = ("DS820", "DS823", "DS827", "DS864", "DS865", "DS871", "DS872", "DS875", "DS880")  # of pages with scripts
HIDDEN, VOCABULARY, RANK = 64, 128, 8
NUMBERS = {"embed_tokens.weight": VOCABULARY * HIDDEN, "lora_A.weight": HIDDEN * RANK}
WAITING = {"DS822", "DS869"}  # where ranks wait for each other
WAIT = 10.0  # seconds that they get


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model whose matrices are above the persistence threshold of the pages."""
    folder = tmp_path_factory.mktemp("model")
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=VOCABULARY,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def of(code: str) -> list[object]:
    """The examples of a page that the installed releases are to be held to."""
    rule = next(rule for rule in every_rule() if rule.code == code)
    return [
        pytest.param(example, id=f"{code}:{example.line}")
        for example in pages.examples(pages.page(rule))
        if "train.py" in example.files and not any(example.target.key)
    ]


def for_inference() -> list[object]:
    """The examples in which a script runs a model and the engine needs an optimizer."""
    return [one for one in of("DS302") if "AutoModel" in one.values[0].files["train.py"]]


def ran(example: Example, folder: Path, model: Path) -> Run:
    for name, text in {**example.files, "config.json": example.config}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "model").symlink_to(model)
    return run("page_script", str(folder), str(example.stack), timeout=WAIT if codes(example) & WAITING else 90.0)


def codes(example: Example) -> set[str]:
    return {finding.code for finding in lint_example(example).findings}


@pytest.mark.parametrize(
    "example",
    [
        *for_inference(),
        *(one for code in RAISING for one in of(code)),
    ],
)
def test_a_script_raises_where_a_finding_says(example: Example, tmp_path: Path, model: Path) -> None:
    done = ran(example, tmp_path, model)
    words = [RAISES[code] for code in codes(example) if code in RAISES]
    assert done.is_complete == (not words), "\n".join(done.errors)
    for word in words:  # the rank that raises last may instead report that the others are gone
        assert any(word in error for error in done.errors), "\n".join(done.errors)


@pytest.mark.parametrize("example", [one for one in of("DS870") if one.values[0].stack == "accelerate"])
def test_accelerate_refuses_two_optimizers(example: Example, tmp_path: Path, model: Path) -> None:
    """On the other stacks one of the two wins: ``test_two_optimizers.py``."""
    done = ran(example, tmp_path, model)
    assert "DS870" in codes(example)
    assert any("in the config file and in the code" in error for error in done.errors), "\n".join(done.errors)


@pytest.mark.parametrize("example", [*of("DS825"), *of("DS826")])
def test_a_model_is_loaded_whole(example: Example, tmp_path: Path, model: Path) -> None:
    done = ran(example, tmp_path, model)
    assert done.is_complete, "\n".join(done.errors)
    is_whole = bool(codes(example) & {"DS825", "DS826"})
    for answer in done.answers:
        assert answer is not None
        (parameters,) = answer["loaded"]
        assert parameters["model.embed_tokens.weight"] == (VOCABULARY * HIDDEN if is_whole else 0)


@pytest.mark.long
def test_each_token_gathers_the_weights() -> None:
    """DS828: at stage 3, more tokens take more collectives, and none is free."""
    done = run("generation")
    for answer in done.answers:
        assert answer is not None, "\n".join(done.errors)
        assert answer["gathers"]["6"] - answer["gathers"]["2"] >= 4


@pytest.mark.parametrize("example", of("DS821"))
def test_weights_that_are_not_gathered_are_saved_empty(example: Example, tmp_path: Path, model: Path) -> None:
    if "peft" in example.files["train.py"]:
        pytest.importorskip("peft")
    done = ran(example, tmp_path, model)
    assert done.is_complete, "\n".join(done.errors)
    assert done.answers[0] is not None
    sizes = [
        (size, number)
        for name, size in done.answers[0]["saved"].items()
        for end, number in NUMBERS.items()
        if name.endswith(end)
    ]
    assert sizes
    assert all(size == (0 if "DS821" in codes(example) else number) for size, number in sizes)


@pytest.mark.parametrize("example", of("DS863"))
def test_a_partitioned_parameter_has_no_elements(example: Example, tmp_path: Path, model: Path) -> None:
    done = ran(example, tmp_path, model)
    assert done.is_complete, "\n".join(done.errors)
    for answer in done.answers:
        assert answer is not None
        assert set(answer["numbers"]) == {"embedding_size", "parameters"}
        for name, number in answer["numbers"].items():
            whole = VOCABULARY if name == "embedding_size" else VOCABULARY * HIDDEN
            assert (number == 0) if "DS863" in codes(example) else (number >= whole)


@pytest.mark.long
@pytest.mark.parametrize("example", [*of("DS822"), *of("DS869")])
def test_a_rank_that_is_alone_does_not_come_to_its_end(example: Example, tmp_path: Path, model: Path) -> None:
    done = ran(example, tmp_path, model)
    assert done.is_complete == (not codes(example) & WAITING), "\n".join(done.errors)


def test_the_calls_that_tell_transformers_the_config_are_known() -> None:
    """The names in ``model_loading`` are those of the libraries, and no other method of the parser makes arguments."""
    import accelerate.state
    import accelerate.utils
    import transformers.integrations.deepspeed

    parsing = {name for name in vars(transformers.HfArgumentParser) if name.startswith("parse_")}
    known = {name for name in parsing if name in model_loading.SETUPS or model_loading.MAYBE_SETUPS.fullmatch(name)}
    assert parsing == known
    places = (accelerate, accelerate.state, accelerate.utils, transformers.integrations.deepspeed)
    classes = {name for name in model_loading.SETUPS if name[0].isupper()} | {"AcceleratorState", "DeepSpeedPlugin"}
    assert [name for name in sorted(classes) if not any(hasattr(place, name) for place in places)] == []


def test_the_trainers_with_a_reference_model_are_known() -> None:
    import inspect

    trl = pytest.importorskip("trl")
    for name in script_calls.WITH_REFERENCE:
        if hasattr(trl, name):
            assert list(inspect.signature(getattr(trl, name)).parameters)[1] == "ref_model"


@pytest.mark.skipif(not knowledge().does("engine-sets-its-own-autocast"), reason="of newer releases")
@pytest.mark.parametrize("is_in_config", [False, True])
def test_the_engine_sets_its_own_autocast(is_in_config: bool) -> None:
    """DS824: with ``torch_autocast`` in the config, the engine computes as the script asks."""
    done = run("engine_in_autocast", str(int(is_in_config)), ranks=1)
    assert done.answers[0] is not None, done.errors
    assert done.answers[0] == {
        "alone": "torch.bfloat16",
        "engine": "torch.bfloat16" if is_in_config else "torch.float32",
    }


@measured_with_the_newest  # older ones open a CUDA stream there
@pytest.mark.parametrize(("gets_config", "kept"), [(False, 64), (True, 32)])
def test_the_section_is_used_if_configure_gets_the_config(gets_config: bool, kept: int) -> None:
    """DS353, for scripts: two ranks divide the activations only then."""
    done = run("checkpointed", str(int(gets_config)))
    assert [answer and answer["kept"] for answer in done.answers] == [[kept]] * 2, "\n".join(done.errors)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheduler", "raises"),
    [
        ({"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}, True),
        ({"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10, "total_num_steps": "auto"}}, True),
        ({"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": 10}}, False),
    ],
)
def test_a_reference_model_gets_a_schedule_that_is_not_filled_in(scheduler: dict[str, object], raises: bool) -> None:
    """DS829: what ``prepare_deepspeed`` of trl does, with the config that TrainingArguments have prepared."""
    done = run("reference_model", json.dumps(scheduler), ranks=1, timeout=200)
    (answer,) = done.answers
    assert answer is not None, done.errors
    assert bool(answer["raised"]) == raises, answer
