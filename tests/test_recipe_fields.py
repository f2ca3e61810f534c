"""Fields of recipes, and arguments of command lines, that training frameworks do not take (DS672, DS673)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.knowledge.argument_types import reading_of
from ds_lint.semantics.recipe_fields import refused_in_recipe
from ds_lint.source import documents
from ds_lint.targets.pin import Pin

CHECK = [sys.executable, "-m", "ds_lint", "check", ".", "--output-format"]
LLAMA_FACTORY = "model_name_or_path: x\nfinetuning_type: lora\ndeepspeed: ds.json\n"
AXOLOTL = "base_model: x\nmicro_batch_size: 1\ndeepspeed: ds.json\n"
MS_SWIFT = "model: x\ntuner_type: lora\ndeepspeed: ds.json\n"


def refused(text, *pins, path="a.yaml"):
    """What is refused of a recipe: severity, effect and message of each field."""
    (document,) = documents.configs_in(text.encode(), path)
    known = {library: Pin(library, specifier, "requirements.txt") for library, specifier in pins}
    found = refused_in_recipe(TrainingRecipe(document), known, None, {})
    return [(one.severity, one.outcome.effect, one.message) for _, one in found]


@pytest.mark.parametrize(
    ("text", "pins", "found"),
    [
        (LLAMA_FACTORY + "lora_rank: 8\nwarmup_ratio: 0.1\n", [("llamafactory", "==0.9.3")], []),
        (
            LLAMA_FACTORY + "hostfile: hosts\n",
            [("llamafactory", "==0.9.3")],
            [("error", "rejected", "LLaMA-Factory 0.9.3 has no field `hostfile`: it rejects the recipe")],
        ),
        (
            LLAMA_FACTORY + "hostfile: hosts\n",
            [],
            [("warning", "rejected", "no LLaMA-Factory up to 0.9.5 has a field `hostfile`: it rejects the recipe")],
        ),
        (
            LLAMA_FACTORY + "asft_alpha: 0.1\n",  # of 0.9.5
            [("llamafactory", "==0.9.3")],
            [("error", "rejected", "LLaMA-Factory 0.9.3 has no field `asft_alpha`: it rejects the recipe")],
        ),
        (LLAMA_FACTORY + "asft_alpha: 0.1\n", [], []),
        (
            LLAMA_FACTORY + "hostfile: hosts\n",
            [("llamafactory", ">=9")],
            [
                ("warning", "rejected", "no LLaMA-Factory up to 0.9.5 has a field `hostfile`: it rejects the recipe"),
            ],
        ),
        (
            LLAMA_FACTORY + "overwrite_output_dir: true\n",
            [("llamafactory", "==0.9.3"), ("transformers", "==5.0.0")],
            [("error", "rejected", "LLaMA-Factory 0.9.3 has no field `overwrite_output_dir`: it rejects the recipe")],
        ),
        (
            LLAMA_FACTORY + "bf16: 'false'\n",
            [],
            [("warning", "risk", '`bf16` is the text "false", which counts as true')],
        ),
        (LLAMA_FACTORY + "learning_rate: 1e-4\nbf16: false\n<NAME>: 1\n", [], []),
        (
            AXOLOTL + "hostfile: hosts\n",
            [],
            [
                ("warning", "ignored", "no axolotl up to 0.21.0 has a field `hostfile`: axolotl ignores it"),
            ],
        ),
        (AXOLOTL + "hostfile:\nliger_rope: true\n", [], []),
        (AXOLOTL + "hostfile: 1\nplugins: [mine.Plugin]\n", [], []),
        (
            AXOLOTL + "lora_r: eight\n",
            [("axolotl", "==0.16.0")],
            [("error", "rejected", '`lora_r` takes a whole number, not "eight": axolotl 0.16.0 rejects the recipe')],
        ),
        (
            AXOLOTL + "save_total_limit: 1e1\n",  # to PyYAML a text
            [("axolotl", "==0.16.0")],
            [
                (
                    "error",
                    "rejected",
                    '`save_total_limit` takes a whole number, not "1e1": axolotl 0.16.0 rejects the recipe',
                )
            ],
        ),
        (AXOLOTL + "learning_rate: 1e-4\nsave_total_limit: 10\n", [("axolotl", "==0.16.0")], []),
        (
            LLAMA_FACTORY + "stage: sft\nstage: rm\n",
            [("llamafactory", "==0.9.4")],
            [("error", "rejected", "`stage` is set twice: LLaMA-Factory 0.9.4 rejects the recipe")],
        ),
        (LLAMA_FACTORY + "stage: sft\nstage: rm\n", [("llamafactory", "==0.9.3")], []),  # the last one counts
        (LLAMA_FACTORY + "stage: sft\nstage: rm\n", [], []),
        (MS_SWIFT + "max_length: 1\nmax_length: 2\n", [("ms-swift", "==4.6.0")], []),
        (
            MS_SWIFT.replace("tuner_type", "train_type") + "max_length: 1\nmax_length: 2\n",
            [("ms-swift", "==3.12.0")],
            [("error", "rejected", "`max_length` is set twice: ms-swift 3.12.0 rejects the recipe")],
        ),
        (
            MS_SWIFT + "max_length: 2048.0\n",
            [("ms-swift", "==4.6.0")],
            [("error", "rejected", "`max_length` takes a whole number, not 2048.0: ms-swift 4.6.0 rejects the recipe")],
        ),
        (MS_SWIFT + "ENV: {A: b}\nlearning-rate: 1e-4\nlora_ran: 4\n", [("ms-swift", "==4.6.0")], []),
    ],
)
def test_fields(text, pins, found):
    assert refused(text, *pins) == found


@pytest.mark.parametrize("transformers", [Pin("transformers", "==5.20.0", "", is_installed=True), None])
def test_an_installed_transformers_is_not_that_of_a_framework_that_is_not_installed(transformers):
    """It has no `warmup_ratio`; LLaMA-Factory 0.9.5 needs an older one, which has it."""
    (document,) = documents.configs_in(f"{LLAMA_FACTORY}warmup_ratio: 0.1\n".encode(), "a.yaml")
    pins = {"llamafactory": Pin("llamafactory", "==0.9.5", "requirements.txt")}
    if transformers is not None:
        pins["transformers"] = transformers
    assert not list(refused_in_recipe(TrainingRecipe(document), pins, None, {}))


@pytest.mark.parametrize(("release", "found"), [("0.9.2", ["lora_rank"]), ("0.9.3", [])])
def test_a_pair_behind_a_recipe(release, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}}))
    (tmp_path / "a.yaml").write_text(LLAMA_FACTORY)
    (tmp_path / "run.sh").write_text("llamafactory-cli train a.yaml lora_rank=8 stage=sft\n")
    (tmp_path / "requirements.txt").write_text(f"llamafactory=={release}\n")
    report = json.loads(subprocess.run([*CHECK, "json"], capture_output=True, text=True, check=False).stdout)
    messages = [one["message"] for one in report["findings"] if one["code"] == "DS673"]
    assert messages == [
        f"LLaMA-Factory {release} takes no `{pair}` behind a recipe: the training does not start" for pair in found
    ]


def test_a_copy_of_the_framework_counts(tmp_path):
    folder = tmp_path / "src" / "llamafactory" / "hparams"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "model_args.py").write_text("class ModelArguments:\n    mine: int = 1\n    finetuning_type: str = ''\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    found = refused(LLAMA_FACTORY + "mine: 2\nyours: 3\n", path=str(tmp_path / "a.yaml"))
    assert [message for _, _, message in found] == [
        "the LLaMA-Factory of this project has no field `model_name_or_path`: it rejects the recipe",
        "the LLaMA-Factory of this project has no field `yours`: it rejects the recipe",
    ]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("swift sft --model x --deepspeed ds.json --lerning_rate 1", ["--lerning_rate"]),
        ("swift sft --model x --deepspeed ds.json --learning-rate 1 --no_lazy_tokenize --warmup_rat 0", []),
        ("swift sft --model x --deepspeed ds.json --lora_rank two", ["--lora_rank"]),
        ("swift rlhf --rlhf_type dpo --model x --deepspeed ds.json --loss_type sigmoid sft", []),  # text of `swift sft`
        ("swift sft --model x --deepspeed ds.json --lerning_rate 1 --ignore_args_error true", []),
        ("ALLOW_EXTRA_ARGS=1 llamafactory-cli train --deepspeed ds.json --foo 1", []),
        ("llamafactory-cli train --deepspeed ds.json --foo 1", ["--foo"]),
        ("axolotl train a.yml --num-processes 2", []),
    ],
)
def test_command_lines(command, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}}))
    (tmp_path / "run.sh").write_text(f"{command}\n")
    (tmp_path / "requirements.txt").write_text("ms-swift==3.12.0\nllamafactory==0.9.3\ntransformers==4.57.6\n")
    report = json.loads(subprocess.run([*CHECK, "json"], capture_output=True, text=True, check=False).stdout)
    messages = [one["message"] for one in report["findings"] if one["code"] == "DS673"]
    assert [next(word for word in found if word in message) for message in messages] == found


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ("Optional[int]", {"kind": "int"}),
        ("int | None", {"kind": "int"}),
        ("Union[str, List[int]]", {"kind": "int", "is_list": True}),
        ("Literal['a', 'b']", {"choices": ["a", "b"]}),
        ("Union[None, str, list[str]]", {"kind": "text"}),
        ("Union[bool, str, None]", {}),
    ],
)
def test_types(declared, read):
    assert reading_of(declared) == read
