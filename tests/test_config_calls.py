"""Calls in Python that make a DeepSpeed config of their keywords, through the whole of ds-lint."""

from __future__ import annotations

import pytest
from linted import lint_document
from newest import FLAGS, NEWEST

from ds_lint.source import python

PLUGIN = """\
from accelerate import Accelerator, DeepSpeedPlugin

plugin = DeepSpeedPlugin(
    zero_stage=3,
    offload_optimizer_device="gpu",
    zero3_save_16bit_mode=True,
)
accelerator = Accelerator(mixed_precision="bf16", deepspeed_plugin=plugin)
"""
STRATEGY = """\
import lightning.pytorch as pl
from lightning.pytorch.strategies import DeepSpeedStrategy

trainer = pl.Trainer(strategy=DeepSpeedStrategy(stage=5, reduce_bucketsize=2e8), precision="16-mixed")
"""


def found(text):
    """The code, key and text of each finding in a module with one config."""
    (document,) = python.read(text, "train.py")
    findings = lint_document(document).findings
    return [(one.code, one.key, text[one.span.start : one.span.end]) for one in findings]


def test_findings_about_the_plugin_point_to_its_keywords():
    assert found(PLUGIN) == [
        ("DS703", None, "DeepSpeedPlugin"),
        ("DS201", "offload_optimizer_device", '"gpu"'),
        ("DS680", "zero3_save_16bit_mode", "zero3_save_16bit_mode"),
    ]


def test_findings_about_the_strategy_point_to_its_keywords():
    assert found(STRATEGY) == [("DS201", "stage", "5"), ("DS680", "reduce_bucketsize", "reduce_bucketsize")]


def test_defaults_of_lightning_are_not_mistakes_of_the_user():
    assert found(STRATEGY.replace("stage=5, reduce_bucketsize=2e8", "")) == []  # it still writes aio.thread_count


def test_a_misspelled_keyword_is_renamed_and_nothing_else_changes(run, save):
    path = save("train.py", PLUGIN)
    assert "Fixed 1 finding" in run("check", "--fix", "train.py").stdout
    assert path.read_text() == PLUGIN.replace("16bit_mode", "16bit_model")


@pytest.mark.parametrize(
    ("keyword", "meant", "safety"),
    [("stage", "zero_stage", "safe"), ("zero_stag", "zero_stage", "safe"), ("zero_stages_", "zero_stage", "safe"),
     ("gradient_accum_steps", "gradient_accumulation_steps", "unsafe"), ("bf16", None, None)],
)  # fmt: skip
def test_a_keyword_is_renamed_safely_only_without_doubt(keyword, meant, safety):
    (document,) = python.read(f"from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin({keyword}=2)\n", "train.py")
    (finding,) = [one for one in lint_document(document).findings if one.code == "DS680"]
    assert (finding.fix.title if finding.fix else None) == (f"Rename `{keyword}` to `{meant}`" if meant else None)
    assert (finding.fix.safety if finding.fix else None) == safety


@pytest.mark.parametrize(
    "text",
    [
        "from mine import DeepSpeedPlugin\nDeepSpeedPlugin(stage=7)",
        "from lightning.fabric.strategies import DeepSpeedStrategy\nDeepSpeedStrategy(stage=7)",
        "class DeepSpeedPlugin: ...\nDeepSpeedPlugin(stage=7)",
        "def DeepSpeedStrategy(**options): ...\nDeepSpeedStrategy(stage=7)",
        "from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin('ds.json', 4)",
        "from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin(hf_ds_config='ds.json')",
    ],
)
def test_other_calls_are_none_of_these(text):
    assert python.read(text, "train.py") == []


@pytest.mark.parametrize(
    "text",
    [
        "import accelerate\naccelerate.utils.DeepSpeedPlugin(zero_stage=7)",
        "from accelerate import DeepSpeedPlugin as Plugin\nPlugin(zero_stage=7)",
        "from accelerate import DeepSpeedPlugin\nOPTIONS = {'zero_stage': 7}\nDeepSpeedPlugin(**OPTIONS)",
        "from accelerate import DeepSpeedPlugin\nSTAGE = 7\nDeepSpeedPlugin(zero_stage=STAGE)",
        "import pytorch_lightning as pl\npl.strategies.DeepSpeedStrategy(stage=7)",
        "DeepSpeedPlugin(zero_stage=7)",  # of an excerpt
    ],
)
def test_the_class_is_known_by_its_import(text):
    assert [code for code, _, _ in found(text)] == ["DS201"]


@pytest.mark.parametrize(
    "text",
    [
        "from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin(zero_stage=3, **options)",
        "from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin(zero_stage=args.stage)",
        "from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin(zero_stage=3, hf_ds_config=path)",
        "from accelerate import DeepSpeedPlugin\none = DeepSpeedPlugin(zero_stage=3)\none.deepspeed_config['x'] = 1",
        "import pytorch_lightning as pl\npl.strategies.DeepSpeedStrategy(zero_optimization=on, stage=7)",
    ],
)
def test_what_is_computed_is_unknown(text):
    assert found(text) == []


def test_effective_shows_the_config_and_the_places_of_the_keywords(run, save):
    save("train.py", "from accelerate import DeepSpeedPlugin\n\nplugin = DeepSpeedPlugin(zero_stage=1)\n")
    lines = [" ".join(line.split()) for line in run("effective", "train.py", *FLAGS).stdout.splitlines()]
    assert "zero_optimization.stage = 1 written, train.py:3" in lines
    assert f'zero_optimization.offload_param.device = "none" default of Accelerate {NEWEST["accelerate"]}' in lines
    assert "bf16.enabled = ? known when the program runs" in lines


def test_the_files_that_would_be_checked_name_the_call(run, save):
    save("train.py", PLUGIN)
    shown = run("check", "--show-files", ".").stdout
    assert " ".join(shown.split()) == "./train.py python: calls `DeepSpeedPlugin`; stack accelerate"


@pytest.mark.parametrize(
    "call",
    [
        "import lightning as L\nL.Trainer(strategy={})",
        "import pytorch_lightning as pl\npl.Trainer(strategy={})",
        "from lightning.fabric import Fabric\nFabric(strategy={})",
    ],
)
def test_a_name_of_lightning_is_the_call_that_it_is_registered_for(call):
    assert found(call.format('"deepspeed_stage_2"')) == []
    assert found(call.format('"deepspeed_stage_3_offload_nvme"')) == [
        ("DS702", "zero_optimization.offload_optimizer.device", '"deepspeed_stage_3_offload_nvme"')
    ]


@pytest.mark.parametrize(
    "text", ["L.Trainer(strategy='ddp')", "from mine import Trainer\nTrainer(strategy='deepspeed')"]
)
def test_other_names_are_no_configs(text):
    assert python.read(f"import lightning as L\n{text}", "train.py") == []
