"""What the installed DeepSpeed does with the values that older releases of transformers and Accelerate fill in.

That they fill them stands in the stores of the two libraries, extracted from their source;
DS603 and DS604 rest on both.
"""

from __future__ import annotations

import pytest
from linted import lint_dict, lint_document

pytest.importorskip("deepspeed")

from installed import INSTALLED
from oracle import Oracle

from ds_lint.knowledge.keys import Target
from ds_lint.source import python

pytestmark = pytest.mark.fidelity

OLD = Target(deepspeed=INSTALLED.deepspeed, transformers="4.44.2", accelerate="0.30.1")
OPTIMIZER = {"type": "AdamW", "params": {"lr": 1e-3}}


def prefetch(size):
    zero = {"stage": 3, "stage3_prefetch_bucket_size": size}
    return {"train_batch_size": 2, "optimizer": OPTIMIZER, "zero_optimization": zero}


def warmup(steps):
    scheduler = {"type": "WarmupLR", "params": {"warmup_num_steps": steps, "warmup_max_lr": 1e-3}}
    return {"train_batch_size": 2, "optimizer": OPTIMIZER, "scheduler": scheduler}


@pytest.mark.parametrize(
    ("code", "filled", "auto"),
    [("DS604", prefetch(0.9 * 4096 * 4096), prefetch("auto")), ("DS603", warmup(0), warmup("auto"))],
)
@pytest.mark.parametrize("stack", ["trainer", "accelerate"])
def test_said_where_the_filled_value_is_refused(code, filled, auto, stack):
    with Oracle() as oracle:
        verdict = oracle.verdict(filled)
    assert verdict.undecided is None
    codes = {finding.code for finding in lint_dict(auto, target=OLD, stack=stack).findings}
    assert (code in codes) == (verdict.rejected_at is not None), verdict.error


def test_a_hidden_size_that_is_a_multiple_of_10_makes_no_fraction():
    """As the message of DS604 says."""
    with Oracle() as oracle:
        assert oracle.verdict(prefetch(0.9 * 2560 * 2560)).rejected_at is None
    assert all((0.9 * size * size).is_integer() == (size % 10 == 0) for size in range(1, 20_000))


@pytest.mark.parametrize("product", ["0.9 * size * size", "int(0.9 * size * size)", "10 * size", "1e6 * size"])
def test_a_product_may_be_a_fraction(product):
    """DS208 is at what DeepSpeed rejects for one size of a model, and takes for another."""
    with Oracle() as oracle:
        verdicts = [oracle.verdict(prefetch(eval(product, {"size": size}))).rejected_at for size in (2048, 2560)]  # noqa: S307 - the test's own text
    zero = f'{{"stage": 3, "stage3_prefetch_bucket_size": {product}}}'
    module = f'config = {{"train_batch_size": 2, "optimizer": {OPTIMIZER}, "zero_optimization": {zero}}}\n'
    (document,) = python.read(f"size = load().hidden_size\n{module}deepspeed.initialize(config=config)\n", "train.py")
    codes = {finding.code for finding in lint_document(document, stack="deepspeed").findings}
    assert ("DS208" in codes) == (verdicts[0] != verdicts[1])


@pytest.mark.parametrize("name", ["offload_optimizer", "offload_param"])
def test_an_auto_path_becomes_a_word(monkeypatch, name):
    """DS311: the word is a path like any other for DeepSpeed."""
    from accelerate.utils import DeepSpeedPlugin

    def filled():
        section = {"device": "nvme", "nvme_path": "auto"}
        config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, name: section}}
        return DeepSpeedPlugin(hf_ds_config=config).deepspeed_config["zero_optimization"][name]["nvme_path"]

    assert filled() == "none"
    monkeypatch.setenv(f"ACCELERATE_DEEPSPEED_{name.upper()}_NVME_PATH", "/fast")
    assert filled() == "/fast"
