"""What ds-lint says of calls of ``DeepSpeedPlugin`` and ``DeepSpeedStrategy``, against the classes themselves."""

from __future__ import annotations

import inspect
import os
import random
from typing import Any

import pytest
from installed import measured_with_the_newest

from ds_lint.facts import Facts
from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint
from ds_lint.rule_pages import pages
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.config_call import ConfigCall
from ds_lint.source import python
from ds_lint.source.tree import Node
from tools.extract import lightning as extractor

pytest.importorskip("accelerate")
pytest.importorskip("deepspeed")
pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

AGREE = 0.995
CALLS = 1000
NUMBERS = [0, 1, 2, 3, 4, -1, "2", "3", "auto", 2.5, True, None, 1e9, [], {"a": 1}]
FLAGS = [True, False, None, "true", "false", 0, 1, ""]
DEVICES = ["cpu", "none", "nvme", "CPU", "gpu", None, False]
PLUGIN: dict[str, list[Any]] = {
    "zero_stage": [*NUMBERS, 3, 3, 2], "gradient_accumulation_steps": NUMBERS, "gradient_clipping": [*NUMBERS, 1.0],
    "offload_optimizer_device": DEVICES, "offload_param_device": DEVICES,
    "offload_optimizer_nvme_path": ["/nvme", None, ""], "offload_param_nvme_path": ["/nvme", None],
    "zero3_init_flag": [True, False, None], "zero3_save_16bit_model": FLAGS, "is_train_batch_min": FLAGS,
    "hf_ds_config": [None], "enable_msamp": [False, None], "transformer_moe_cls_names": ["Linear", None],
    "zero3_save_16bit_mode": [True], "stage": [3], "offload_optimizer": [True], "learning_rate": [0.1],
}  # fmt: skip
STRATEGY: dict[str, list[Any]] = {
    "zero_optimization": FLAGS, "stage": NUMBERS, "offload_optimizer": FLAGS, "offload_parameters": FLAGS,
    "offload_params_device": DEVICES, "offload_optimizer_device": DEVICES, "nvme_path": ["/x", None],
    "params_buffer_count": NUMBERS, "params_buffer_size": NUMBERS, "max_in_cpu": NUMBERS, "pin_memory": FLAGS,
    "optimizer_buffer_count": NUMBERS, "block_size": NUMBERS, "single_submit": FLAGS, "sub_group_size": NUMBERS,
    "overlap_comm": FLAGS, "reduce_bucket_size": NUMBERS, "allgather_bucket_size": NUMBERS, "config": [None],
    "logging_batch_size_per_gpu": [*NUMBERS, "auto"], "partition_activations": FLAGS, "loss_scale": [0, 128],
    "zero_allow_untested_optimizer": FLAGS, "load_full_weights": [True], "exclude_frozen_parameters": [True],
    "zero_stage": [3], "allgather_bucketsize": [1], "reduce_scater": [True], "thread_count": NUMBERS,
}  # fmt: skip
PRECISIONS = ["no", "fp16", "bf16", "fp8", None]


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("ACCELERATE_", "PL_DEEPSPEED"))]:
        monkeypatch.delenv(name)


def random_keywords(choices: dict[str, list[Any]], draw: random.Random) -> dict[str, Any]:
    names = draw.sample(list(choices), draw.randint(0, 7))
    return {name: draw.choice(choices[name]) for name in names}


def source_of(name: str, keywords: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{keyword}={value!r}' for keyword, value in keywords.items())})"


def said(text: str) -> tuple[bool, Any]:
    """Whether ds-lint says that the last call in a module raises a TypeError, and the config that it becomes."""
    *_, document = python.read(text, "train.py")
    report = lint(document, Basis(knowledge(), None, Facts()))
    made = ConfigCall(document, knowledge()).made
    assert made is not None, text
    return any(finding.code == "DS680" for finding in report.findings), known(made.root)


def known(node: Node) -> Any:
    """A config without what is known only when the program runs."""
    if node.kind == "object":
        pairs = ((member.key, known(member.value)) for member in node.members if member.value.kind != "template")
        return {key: value for key, value in pairs if value != {}}
    return [known(item) for item in node.items] if node.kind == "array" else node.value


def real_plugin(keywords: dict[str, Any], precision: str | None) -> Any:
    from accelerate.utils import DeepSpeedPlugin

    try:
        plugin = DeepSpeedPlugin(**keywords)
    except TypeError:
        return TypeError
    if precision is not None:
        plugin.set_mixed_precision(precision)
    return {name: value for name, value in plugin.deepspeed_config.items() if name != "steps_per_print"}


def real_strategy(keywords: dict[str, Any]) -> Any:
    from lightning.pytorch.strategies import DeepSpeedStrategy

    try:
        return DeepSpeedStrategy(**keywords).config
    except TypeError:
        return TypeError


def disagreement(text: str, real: Any) -> str | None:
    """None if ds-lint says of a module what happened, else both."""
    raises, made = said(text)
    if raises != (real is TypeError) or (not raises and made != known_of(real)):
        return f"{text}\nis {real}\nagainst {raises} {made}"
    return None


def expect_agreement(found: list[str | None]) -> None:
    wrong = [one for one in found if one is not None]
    assert len(wrong) <= len(found) * (1 - AGREE), "\n\n".join(wrong[:5])


def known_of(config: Any) -> Any:
    """A real config as ``known`` has one: without empty sections."""
    if isinstance(config, dict):
        pairs = ((key, known_of(value)) for key, value in config.items())
        return {key: value for key, value in pairs if value != {}}
    return config


def test_calls_of_the_plugin_become_the_config_that_it_makes():
    draw, found = random.Random(1), []
    for _ in range(CALLS):
        keywords, precision = random_keywords(PLUGIN, draw), draw.choice(PRECISIONS)
        text = "from accelerate import Accelerator, DeepSpeedPlugin\n"
        text += f"plugin = {source_of('DeepSpeedPlugin', keywords)}\n"
        if precision is not None:
            text += f"Accelerator(mixed_precision={precision!r}, deepspeed_plugin=plugin)\n"
        found.append(disagreement(text, real_plugin(keywords, precision)))
    expect_agreement(found)


def test_calls_of_the_strategy_become_the_config_that_it_makes():
    pytest.importorskip("lightning")
    draw, found = random.Random(2), []
    for _ in range(CALLS):
        keywords = random_keywords(STRATEGY, draw)
        text = "from lightning.pytorch.strategies import DeepSpeedStrategy\n"
        found.append(disagreement(text + source_of("DeepSpeedStrategy", keywords), real_strategy(keywords)))
    expect_agreement(found)


@pytest.mark.parametrize("taker", ["pytorch.Trainer", "fabric.Fabric"])
def test_names_become_the_config_of_the_strategy_that_they_are_registered_for(taker):
    lightning = pytest.importorskip("lightning")
    package = taker.partition(".")[0]
    strategies = getattr(lightning, package).strategies
    registry = strategies.StrategyRegistry if package == "pytorch" else strategies.STRATEGY_REGISTRY
    names = [name for name in registry if name.startswith("deepspeed")]
    assert len(names) >= 7
    for name in names:
        real = registry.get(name).config
        text = f"import lightning.{package}\nlightning.{taker}(strategy={name!r})"
        assert disagreement(text, real) is None


def test_a_keyword_outweighs_the_environment(monkeypatch):
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "1")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "nvme")
    keywords = {"zero_stage": 3, "offload_optimizer_device": "cpu"}
    text = f"from accelerate import DeepSpeedPlugin\n{source_of('DeepSpeedPlugin', keywords)}"
    assert disagreement(text, real_plugin(keywords, None)) is None


def test_the_store_has_the_keywords_of_the_installed_lightning():
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.strategies import DeepSpeedStrategy

    store = tables.load("lightning")
    assert lightning.__version__ in store["releases"]
    facts = extractor.at(store, lightning.__version__)
    assert set(facts["strategy"]) == set(inspect.signature(DeepSpeedStrategy).parameters)


PAGES = [
    pytest.param(example, id=f"{rule.code}:{example.line}")
    for rule in every_rule()
    if rule.kind == "call"
    for example in pages.examples(pages.page(rule))
    if example.target.accelerate is None
]


@pytest.mark.parametrize("example", PAGES)
def test_examples_of_the_rule_pages_raise_as_they_say(example):
    if "lightning" in example.config:
        pytest.importorskip("lightning")
    calls = example.config.partition("\naccelerator = ")[0]  # which needs a launch
    if example.kind == "bad":
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            exec(calls, {})  # noqa: S102 - a page of this repository
    else:
        exec(calls, {})  # noqa: S102
