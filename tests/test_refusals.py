"""What training frameworks reject beside DeepSpeed, by release: fields of recipes, and flags of launches."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import write_into

from ds_lint.facts.refusals import refusal
from ds_lint.frameworks import FRAMEWORKS
from ds_lint.knowledge import tables
from ds_lint.targets.pin import Pin
from tools.extract.refusals import extract
from tools.extract.releases import UnavailableError, fetch

ZERO = '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": %s}}'
LORA = {"stage": "sft", "finetuning_type": "lora", "template": "qwen3", "deepspeed": "ds.json"}


def says(framework, values, stage=2, pin=""):
    found = refusal(framework, values, stage, Pin("x", pin, "x") if pin else None)
    return None if found is None else found.message


@pytest.mark.parametrize(
    ("fields", "stage", "pin", "words"),
    [
        ({"use_badam": True, "finetuning_type": "full"}, 2, "", "Layer-wise BAdam only supports DeepSpeed ZeRO-3"),
        ({"use_badam": True, "finetuning_type": "full"}, 3, "", None),
        ({"use_badam": True, "badam_mode": "ratio", "finetuning_type": "full"}, 3, "", "Radio-based BAdam"),
        ({"use_apollo": True, "finetuning_type": "full"}, 2, "==0.9.5", "GaLore and APOLLO are incompatible"),
        ({"use_apollo": True, "finetuning_type": "full"}, 2, "", None),  # 0.9.1 has no such field
        ({"use_kt": True}, 3, "==0.9.4", "KTransformers is incompatible with DeepSpeed ZeRO-3"),
        ({"use_kt": True}, 2, "==0.9.4", None),
        ({"quantization_bit": 4, "finetuning_type": "full"}, 2, "", "Quantization is only compatible with the LoRA"),
        ({"quantization_bit": 4, "finetuning_type": "oft"}, 2, "==0.9.3", "Quantization is only compatible"),
        ({"quantization_bit": 4, "finetuning_type": "oft"}, 2, "==0.9.5", None),
        ({"use_dora": True, "finetuning_type": "full"}, 3, "", "`use_dora` is only valid for LoRA training."),
        ({"pissa_init": True}, 3, "", "initialize PiSSA in DeepSpeed ZeRO-3"),
        ({"neat_packing": True, "stage": "dpo"}, 2, "", "`neat_packing` cannot be set as True except SFT."),
        ({"use_unsloth": True}, None, "", None),  # the stage is not known
        ({}, 3, "", None),
    ],
)
def test_llama_factory(fields, stage, pin, words):
    found = says("LLaMA-Factory", LORA | fields, stage, pin)
    assert (words in (found or "")) if words is not None else found is None


@pytest.mark.parametrize(
    ("framework", "values", "pin", "is_rejected"),
    [
        ("axolotl", {"optimizer": "polora", "adapter": "lora"}, "==0.19.0", True),
        ("axolotl", {"optimizer": "polora", "adapter": "lora"}, "", False),
        ("axolotl", {"optimizer": "muon_8bit"}, "==0.20.0", False),
        ("axolotl", {"optimizer": "muon_8bit"}, "==0.21.0", True),
        ("axolotl", {"optimizer": "muon"}, "", True),
        ("axolotl", {"relora": True, "jagged_restart_steps": 10, "adapter": "lora"}, ">=0.12", True),
        ("ms-swift", {"packing": True}, "==4.6.0", True),
        ("ms-swift", {"packing": True, "attn_impl": "flash_attn"}, "==4.6.0", False),
        ("ms-swift", {"fsdp": "fsdp2"}, ">=3.12", True),
        ("TRL", {"use_peft": True}, "", False),
    ],
)
def test_others(framework, values, pin, is_rejected):
    assert (says(framework, values, pin=pin) is not None) == is_rejected


def test_a_finding_names_the_pinned_release(run, tmp_path):
    recipe = "model_name_or_path: x\nfinetuning_type: full\ntemplate: qwen3\nuse_apollo: true\ndeepspeed: ds.json\n"
    write_into(tmp_path)({"a.yaml": recipe, "ds.json": ZERO % 2, "requirements.txt": "llamafactory==0.9.5\n"})
    found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
    (one,) = [one for one in found if one["code"] == "DS670"]
    assert one["message"].startswith("LLaMA-Factory 0.9.5 rejects the recipe: GaLore and APOLLO are incompatible")
    assert one["span"]["start"]["line"] == 4


@pytest.mark.parametrize(
    ("flags", "is_rejected"),
    [("--use_galore", True), ("--use_galore true", True), ("--use_galore false", False), ("--use_galore $X", False)],
)
def test_flags_of_a_launch(run, tmp_path, flags, is_rejected):
    command = f"llamafactory-cli train --stage sft --finetuning_type full {flags} --bf16 --deepspeed ds.json\n"
    write_into(tmp_path)({"run.sh": command, "ds.json": ZERO % 2})
    found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
    assert [one["path"] for one in found if one["code"] == "DS675"] == ["./run.sh"] * is_rejected


# ------------------------------------------------------------------------------------------------------------ the store


SOURCE = """
class TrainArguments(Base):
    fsdp: str = None
    packing: bool = False
    attn_impl: str = None
    padding_free: bool = False

    def __post_init__(self):
        self._check()
        if self.packing:
            self._check_packing()
        try:
            import flash
        except ImportError:
            raise ValueError("install flash")

    def _check(self):
        self.padding_free = True
        if self.padding_free or self.packing:
            raise ValueError("one")
        if self.padding_free:
            raise ValueError("two")
        if len(self.fsdp) > 1:
            raise ValueError("three")

    def _check_packing(self):
        if self.attn_impl is None:
            raise ValueError("four")


class RLHFArguments(TrainArguments):
    def __post_init__(self):
        if self.packing:
            raise ValueError("five")


class RolloutArguments:
    def __post_init__(self):
        if self.packing:
            raise ValueError("six")
"""


def test_what_is_read_off_a_release(tmp_path):
    """Not what is called on a condition, in a handler, for one kind of training or by another command."""
    for name in ("llm/argument/train.py", "trainers/arguments.py"):
        (tmp_path / "swift" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "swift" / name).write_text(SOURCE.replace("(Base)", "") if "train.py" in name else "")
    assert extract(FRAMEWORKS["ms-swift"], tmp_path, "3.9.0") == {
        "refusals": {"one": {"only_if": ["changed.padding_free or packing"]}},
        "defaults": {"packing": {"default": False}},
    }


# ------------------------------------------------------------------------------------------------------------ the truth

PROGRAM = Path(__file__).parent / "fidelity" / "programs" / "llama_factory_arguments.py"
SWITCHES = (
    "compute_accuracy", "create_new_adapter", "galore_layerwise", "mask_history", "neat_packing", "pissa_init",
    "predict_with_generate", "pure_bf16", "resize_vocab", "shift_attn", "streaming", "train_on_prompt", "use_apollo",
    "use_badam", "use_dora", "use_galore", "use_kt", "use_muon", "use_rslora", "use_unsloth",
)  # fmt: skip
CHOICES = {
    **dict.fromkeys(SWITCHES, (True, False)),
    "badam_mode": ("layer", "ratio"),
    "finetuning_type": ("full", "lora", "freeze", "oft"),
    "quantization_bit": (4, 8),
    "reward_model_type": ("lora", "full"),
    "stage": ("sft", "pt", "dpo", "rm", "ppo", "kto"),
}


@pytest.mark.long
def test_llama_factory_rejects_the_same(tmp_path):
    """``get_train_args`` of the newest release raises wherever a rejection is predicted."""
    release = tables.load("refusals")["frameworks"]["LLaMA-Factory"]["releases"][-1]
    try:
        tree = fetch("llamafactory", release, tmp_path / "releases")
    except UnavailableError as error:
        pytest.skip(str(error))
    chosen, recipes, stages = random.Random(1), [], []
    for number in range(300):
        stage = 2 + number % 2
        (tmp_path / f"{stage}.json").write_text(ZERO % stage)
        fields = {name: chosen.choice(CHOICES[name]) for name in chosen.sample(sorted(CHOICES), chosen.randint(1, 4))}
        given = {"model_name_or_path": "x", "template": "llama3", "dataset": "d", "do_train": True, "use_cpu": True}
        given |= {"output_dir": str(tmp_path), "report_to": "none", "bf16": not fields.get("pure_bf16")}
        recipes.append(given | {"deepspeed": str(tmp_path / f"{stage}.json")} | fields)
        stages.append(stage)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tree)],
        input=json.dumps(recipes),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    predicted = [says("LLaMA-Factory", one, stage, f"=={release}") for one, stage in zip(recipes, stages, strict=True)]
    assert [one for one, said, real in zip(recipes, predicted, answers, strict=True) if said and not real] == []
    assert sum(said is not None for said in predicted) > sum(real is not None for real in answers) * 0.8
