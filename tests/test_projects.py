"""Whole projects in the notations of other users: what is wrong is found, and nothing where all is well."""

from __future__ import annotations

import json

import pytest
from command_line import write_into
from newest import NEWEST

ZERO_2 = {"stage": 2, "contiguous_gradients": True}
ZERO_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}
WITH_AUTO = {**AUTO, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}


@pytest.fixture
def codes(run, tmp_path):
    """The codes of the warnings and errors in a project of these files."""

    def check(files):
        write_into(tmp_path)(files)
        found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
        return sorted({finding["code"] for finding in found if finding["severity"] != "info"})

    return check


LIGHTNING = """\
import lightning.pytorch as pl
from lightning.pytorch.strategies import DeepSpeedStrategy
trainer = pl.Trainer(devices=4, precision="bf16-mixed", strategy=DeepSpeedStrategy({keywords}))
trainer.fit(model)
"""


def test_lightning_adds_the_batch_size_to_a_file(codes):
    project = {
        "ds.json": {"zero_optimization": ZERO_2, "bf16": {"enabled": True}},
        "train.py": LIGHTNING.format(keywords='config="ds.json"'),
        "run.sh": "python train.py\n",
    }
    assert codes(project) == []
    assert codes({**project, "ds.json": {"zero_optimization": {**ZERO_2, "overlap_com": True}}}) == ["DS101"]


@pytest.mark.parametrize("release", ["0.15.4", NEWEST["deepspeed"]])
def test_the_precision_that_lightning_adds_is_unknown(codes, release):
    keywords = "stage=2, overlap_comm=True"
    project = {"train.py": LIGHTNING.format(keywords=keywords), "requirements.txt": f"deepspeed=={release}\n"}
    assert codes(project) == []


BY_KEYWORDS = """\
from transformers import {names}, Trainer, TrainingArguments
NAME = "{model}"
args = TrainingArguments("out", deepspeed="ds.json", {keywords})
model = {load}
Trainer(model=model, args=args).train()
"""
OLD_MOE = "deepspeed==0.14.4\ntransformers==4.38.2\n"


def of_class(name, model, *, keywords="bf16=True", config=None, pins=OLD_MOE):
    """A project whose script loads a model of this class."""
    load = f"{name}.from_pretrained(NAME)"
    script = BY_KEYWORDS.format(names=name, model=model, keywords=keywords, load=load)
    files = {"train.py": script, "run.sh": "deepspeed --num_gpus 8 train.py\n", "requirements.txt": pins}
    return {**files, "ds.json": config or {**WITH_AUTO, "zero_optimization": ZERO_3}}


def test_the_family_of_a_model_is_known_by_its_class_or_its_name(codes):
    assert codes(of_class("MixtralForCausalLM", "/data/model")) == ["DS350"]
    assert codes(of_class("AutoModelForCausalLM", "mistralai/Mixtral-8x7B-Instruct-v0.1")) == ["DS350"]
    assert codes(of_class("AutoModelForCausalLM", "someone/Mixtral-8x7B")) == ["DS350"]
    assert codes(of_class("LlamaForCausalLM", "mistralai/Mixtral-8x7B-v0.1")) == []


def test_a_class_of_the_project_tells_nothing(codes):
    project = of_class("AutoTokenizer", "mistralai/Mixtral-8x7B-v0.1")
    script = project["train.py"].replace("AutoTokenizer.from", "MixtralForCausalLM.from")
    assert codes({**project, "train.py": f"from patched import MixtralForCausalLM\n{script}"}) == []


OWN = "class Ours(MixtralForCausalLM):\n    pass\n"
PATCHED = """\
class Ours(MixtralForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.model = Other(config)
"""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (OWN, ["DS350"]),
        (OWN.replace("Ours", "Mine") + OWN.replace("MixtralForCausalLM", "Mine"), ["DS350"]),
        (PATCHED.replace("Other(config)", "MixtralModel(config)"), ["DS350"]),
        (PATCHED, []),
        (OWN.replace("Mixtral", "Llama"), []),
    ],
)
def test_a_class_of_the_script_has_the_blocks_of_its_base(codes, written, expected):
    project = of_class("Ours", "models/ours")
    names = "LlamaForCausalLM, MixtralForCausalLM, MixtralModel"
    script = project["train.py"].replace("import Ours", f"import {names}").replace("NAME =", f"{written}NAME =")
    assert codes({**project, "train.py": script}) == expected
    config = json.dumps({"model_type": "ours", "num_local_experts": 8, "hidden_size": 64})
    assert codes({**project, "train.py": script, "models/ours/config.json": config}) == expected


def test_fp16_of_a_family_that_overflows(codes):
    zero_2 = {**WITH_AUTO, "zero_optimization": ZERO_2}
    assert codes(of_class("MT5ForConditionalGeneration", "/data/x", keywords="fp16=True", config=zero_2)) == ["DS450"]
    assert codes(of_class("AutoModelForSeq2SeqLM", "google/flan-t5-xl", keywords="fp16=True", config=zero_2)) == [
        "DS450"
    ]
    assert codes(of_class("AutoModelForSeq2SeqLM", "google/flan-t5-xl", config=zero_2)) == []


def test_two_models_have_no_hidden_size(codes):
    config = {**WITH_AUTO, "zero_optimization": {**ZERO_3, "reduce_bucket_size": "auto"}}
    assert codes(of_class("EncoderDecoderModel", "/data/x", config=config)) == ["DS616"]
    assert codes(of_class("T5ForConditionalGeneration", "/data/x", config=config)) == []


def test_leaf_modules_that_a_script_or_a_framework_sets(codes):
    project = of_class("MixtralForCausalLM", "/data/model")
    sets = "from deepspeed.utils import set_z3_leaf_modules\nset_z3_leaf_modules(model, [Block])\n"
    assert codes({**project, "train.py": project["train.py"] + sets}) == []
    flags = "--stage sft --do_train --finetuning_type full --dataset d --template mistral --output_dir out --bf16"
    model = "--model_name_or_path mistralai/Mixtral-8x7B-v0.1"
    run = f"deepspeed --num_gpus 8 src/train.py --deepspeed ds.json {flags} {model}\n"
    llama_factory = {"ds.json": project["ds.json"], "requirements.txt": OLD_MOE}
    assert codes({**llama_factory, "train.py": "", "run.sh": run}) == []


def test_accelerate_asks_a_model_for_its_size(codes):
    project = {
        "ds.json": {**AUTO, "bf16": {"enabled": True}, "zero_optimization": {**ZERO_3, "reduce_bucket_size": "auto"}},
        "train.py": "from accelerate import Accelerator\nfrom transformers import EncoderDecoderModel\n"
        'model = EncoderDecoderModel.from_pretrained("m")\nAccelerator().prepare(model)\n',
        "run.sh": "accelerate launch --use_deepspeed --deepspeed_config_file ds.json train.py\n",
        "requirements.txt": "accelerate==1.10.0\n",
    }
    assert codes(project) == ["DS616"]
    assert codes({**project, "train.py": project["train.py"].replace("EncoderDecoderModel", "AutoModel")}) == []


def test_frameworks_that_are_told_by_flags_to_quantize(codes):
    project = {"ds.json": {**WITH_AUTO, "zero_optimization": ZERO_3}}
    swift = "swift sft --model Qwen/Qwen2.5-7B --dataset d --deepspeed ds.json --learning_rate 1e-4 --output_dir out"
    assert codes({**project, "run.sh": f"{swift} --quant_method bnb --quant_bits 4\n"}) == ["DS352"]
    assert codes({**project, "run.sh": f"{swift}\n"}) == []
    yaml = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n  zero3_init_flag: true\n"
    flags = "--dataset_name d --bf16 --learning_rate 1e-4 --output_dir out --save_steps 10 --use_peft"
    trl = f"trl sft --accelerate_config a.yaml --model_name_or_path Qwen/Qwen2.5-7B {flags}"
    project = {**project, "a.yaml": f"compute_environment: LOCAL_MACHINE\nnum_processes: 4\n{yaml}"}
    assert codes({**project, "run.sh": f"{trl} --load_in_4bit\n"}) == ["DS352"]
    assert codes({**project, "run.sh": f"{trl} --load_in_4bit --torch_dtype bfloat16\n"}) == ["DS352"]


def test_what_a_script_tells_the_trainer_in_code(codes):
    zero_2 = {**WITH_AUTO, "zero_optimization": ZERO_2}
    project = of_class("AutoModelForCausalLM", "m", keywords="bf16=True, save_only_model=True", config=zero_2)
    assert codes(project) == []
    script = project["train.py"].replace("Trainer(model=model, args=args).train()", "trainer = Trainer(model, args)\n")
    assert codes({**project, "train.py": f"{script}trainer.train(resume_from_checkpoint=True)\n"}) == ["DS705"]
    schedule = {"type": "WarmupLR", "params": {"warmup_num_steps": "auto", "warmup_max_lr": "auto"}}
    keywords = "bf16=True, lr_scheduler_type=SchedulerType.COSINE"
    project = of_class("AutoModelForCausalLM", "m", keywords=keywords, config={**zero_2, "scheduler": schedule})
    assert "DS517" in codes(project)


def test_models_of_transformers_do_not_checkpoint_themselves(codes):
    config = {**WITH_AUTO, "zero_optimization": ZERO_2, "activation_checkpointing": {"partition_activations": True}}
    project = of_class("AutoModelForCausalLM", "m", config=config)
    assert codes(project) == ["DS353"]
    script = project["train.py"].replace("(NAME)", "(NAME, trust_remote_code=True)")
    assert codes({**project, "train.py": script}) == []


def test_parameters_offloaded_below_stage_3_in_other_notations(codes):
    yaml = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 4\n"
    section = "deepspeed_config:\n  zero_stage: {stage}\n  offload_param_device: cpu\n  zero3_save_16bit_model: true\n"
    assert codes({"a.yaml": yaml + section.format(stage=2)}) == ["DS312"]
    assert codes({"a.yaml": yaml + section.format(stage=3)}) == []
    project = {"train.py": LIGHTNING.format(keywords="stage=2, offload_parameters=True"), "run.sh": "python train.py\n"}
    assert codes({**project, "a.yaml": ""}) == ["DS312"]


OPENED = """\
with open("conf/ds.json") as file:
    config = json.load(file)
{change}
engine, *_ = deepspeed.initialize(model=model, config=config)
"""


@pytest.mark.parametrize(
    "script",
    [
        'engine, *_ = deepspeed.initialize(model=model, config="conf/ds.json")\n',
        'CONFIG = "conf/ds.json"\nengine, *_ = deepspeed.initialize(model=model, config=CONFIG)\n',
        'engine, *_ = deepspeed.initialize(model=model, config=json.load(open("conf/ds.json")))\n',
        OPENED.format(change=""),
    ],
)
def test_a_loop_of_ones_own_names_its_config_in_code(codes, script):
    optimizer = {"type": "AdamW", "params": {"lr": 1e-4}}
    config = {"train_micro_batch_size_per_gpu": "auto", "optimizer": optimizer, "zero_optimization": {"stage": 1}}
    project = {"conf/ds.json": config, "train.py": f"import deepspeed\n{script}", "run.sh": "deepspeed train.py\n"}
    assert codes(project) == ["DS204"]
    changed = OPENED.format(change="config['train_micro_batch_size_per_gpu'] = 4")
    assert codes({**project, "train.py": f"import deepspeed\n{changed}"}) == []


def test_a_flag_of_any_name_names_the_config(codes):
    script = """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", deepspeed=options.zero, per_device_train_batch_size=2, bf16=True)
Trainer(model, args).train()
"""
    config = {**WITH_AUTO, "train_micro_batch_size_per_gpu": 4, "zero_optimization": ZERO_2}
    project = {"ds.json": config, "train.py": script, "run.sh": "deepspeed train.py --zero ds.json\n"}
    assert codes(project) == ["DS610"]


def test_accelerate_is_told_which_modules_are_leaves(codes):
    yaml = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 4\n"
    section = "deepspeed_config:\n  zero_stage: 3\n  zero3_save_16bit_model: true\n  zero3_init_flag: true\n"
    script = """\
from accelerate import Accelerator
from transformers import MixtralForCausalLM
model = MixtralForCausalLM.from_pretrained("m")
Accelerator().prepare(model)
"""
    run = "accelerate launch --config_file a.yaml train.py\n"
    project = {"a.yaml": yaml + section, "train.py": script, "run.sh": run, "requirements.txt": OLD_MOE}
    assert codes(project) == ["DS350"]
    assert (
        codes({**project, "a.yaml": f"{yaml}{section}  deepspeed_moe_layer_cls_names: MixtralSparseMoeBlock\n"}) == []
    )


ACCELERATED = """\
from accelerate import Accelerator
from transformers import AutoModel

accelerator = Accelerator()
model, optimizer = accelerator.prepare(AutoModel.from_pretrained("model"), make_optimizer())
"""


@pytest.mark.parametrize(
    ("script", "expected"),
    [(ACCELERATED, []), (f"{ACCELERATED}accelerator.save_model(model, 'out')\n", ["DS703"])],
)
def test_weights_that_a_script_never_asks_for_need_not_be_gathered(codes, script, expected):
    files = {
        "ds.json": {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "zero_optimization": {"stage": 3}},
        "acc.yaml": "distributed_type: DEEPSPEED\nnum_processes: 2\nnum_machines: 1\ndeepspeed_config:\n"
        "  deepspeed_config_file: ds.json\n  zero3_init_flag: true\n",
        "run.sh": "accelerate launch --config_file acc.yaml train.py\n",
        "train.py": script,
    }
    assert codes(files) == expected
