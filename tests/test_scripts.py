"""What rules say about a config and the training script that a launch starts with it, and where they are silent."""

from __future__ import annotations

import json

import pytest

from ds_lint import checks
from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.session.material import linted
from ds_lint.source import documents
from ds_lint.source.document import Document
from ds_lint.targets.pin import Pin

STAGE_3 = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
STAGE_2 = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
OFFLOAD = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

PREPARED = """\
accelerator = Accelerator()
model = AutoModel.from_pretrained("m")
model, optimizer = accelerator.prepare(model, optimizer)
"""
TRAINED = """\
args = TrainingArguments("out", deepspeed="ds.json")
model = AutoModelForCausalLM.from_pretrained("m")
trainer = SFTTrainer(model, args=args)
trainer.train()
"""
INITIALIZED = "engine, *_ = deepspeed.initialize(model=model, config='ds.json')\n"


def found(script, config, *, ranks=2, pins=None, **releases):
    """The codes of rules about scripts, each with the lines of the script that it points at."""
    launch = launches_in(f"torchrun --nproc_per_node {ranks} train.py", "run.sh", lambda _: None).launches[0]
    shown = read_training_script(script)
    assert shown is not None
    facts = LaunchFacts(launch, Document("run.sh", "", None, []), shown, Document("train.py", script, None, []))
    document = documents.from_bytes(json.dumps(config).encode(), "ds.json")
    report = linted(Basis(knowledge(Target(**releases)), pins=pins), [facts], lambda basis: lint(document, basis))
    of_scripts = {rule.code for rule in checks_of_scripts()}
    return [
        (one.code, script[: place.span.start].count("\n") + 1, script[place.span.start : place.span.end])
        for one in report.findings
        if one.code in of_scripts
        for place in one.related[:1]
    ]


def checks_of_scripts():
    from ds_lint.linter.engine import every_rule

    assert "script" in set(checks.every_family())
    return [rule for rule in every_rule() if rule.family == "script"]


LOADS = 'model = AutoModelForCausalLM.from_pretrained("m", device_map={})\n'


@pytest.mark.parametrize(
    "script",
    [
        "accelerator = Accelerator()\n" + LOADS.format('"auto"'),
        'args = SFTConfig("out", deepspeed="ds.json")\n'
        + LOADS.format('{"": 0}')
        + "SFTTrainer(model, args).train()\n",
        (
            "def load():\n    return LlamaForCausalLM.from_pretrained('m', device_map='cuda')\n"
            "def main():\n    accelerator = Accelerator()\n    model = load()\nmain()\n"
        ),
    ],
)
def test_device_map_after_the_config_is_known(script):
    ((code, _, text),) = found(script, STAGE_3)
    assert (code, text[0] in "\"'{") == ("DS820", True)
    assert found(script, STAGE_2) == []


@pytest.mark.parametrize(
    "script",
    [
        "accelerator = Accelerator()\n" + LOADS.format("None"),
        "accelerator = Accelerator()\n" + LOADS.format("device_map"),
        LOADS.format('"auto"') + "accelerator = Accelerator()\n",
        "accelerator = Accelerator()\ntokenizer = AutoTokenizer.from_pretrained('m', device_map='auto')\n",
    ],
)
def test_no_device_map_that_certainly_raises(script):
    assert found(script, STAGE_3) == []


def test_low_cpu_mem_usage_is_refused_up_to_a_release():
    load = "accelerator = Accelerator()\nmodel = AutoModel.from_pretrained('m', low_cpu_mem_usage={})\n"
    assert found(load.format(True), STAGE_3, transformers="4.50.3") == [("DS820", 2, "True")]
    assert found(load.format(True), STAGE_3, transformers="4.51.0") == []
    assert found(load.format(False), STAGE_3, transformers="4.50.3") == []


@pytest.mark.parametrize(
    "script",
    [
        PREPARED + "model.save_pretrained('out')\n",
        PREPARED + "if accelerator.is_main_process:\n    accelerator.unwrap_model(model).save_pretrained('out')\n",
        PREPARED + "model = accelerator.unwrap_model(model)\nmodel.save_pretrained('out', safe_serialization=True)\n",
        PREPARED
        + "inner = accelerator.unwrap_model(model)\ninner.save_pretrained('out', state_dict=inner.state_dict())\n",
        PREPARED
        + "state = {k: v.cpu() for k, v in model.named_parameters()}\nmodel.save_pretrained('o', state_dict=state)\n",
        PREPARED + "torch.save(accelerator.unwrap_model(model).state_dict(), 'model.pt')\n",
        TRAINED + "trainer.model.save_pretrained('out')\n",
        TRAINED + "def save(net):\n    net.save_pretrained('out')\nsave(model)\n",
        INITIALIZED + "torch.save(engine.module.state_dict(), 'model.pt')\n",
    ],
)
def test_weights_that_are_saved_without_being_gathered(script):
    assert [code for code, _, _ in found(script, STAGE_3)] == ["DS821"]
    assert found(script, STAGE_2) == []


@pytest.mark.parametrize(
    "script",
    [
        PREPARED + "model.save_pretrained('out', state_dict=accelerator.get_state_dict(model))\n",
        PREPARED + "state = accelerator.get_state_dict(model)\nmodel.save_pretrained('out', state_dict=state)\n",
        PREPARED + "with deepspeed.zero.GatheredParameters(model.parameters()):\n    model.save_pretrained('out')\n",
        PREPARED + "model = AutoModel.from_pretrained('out')\nmodel.save_pretrained('merged')\n",
        PREPARED + "merged = model.merge_and_unload()\nmerged.save_pretrained('out')\n",
        PREPARED + "tokenizer.save_pretrained('out')\nmodel.config.save_pretrained('out')\n",
        PREPARED + "def f(p):\n    with zero.GatheredParameters([p]):\n        return p.data.cpu()\n"
        "def state(m):\n    return {k: f(v) for k, v in m.named_parameters()}\n"
        "model.save_pretrained('out', state_dict=state(model))\n",
        PREPARED + "model.save_pretrained('out', **options)\n",
        TRAINED + "trainer.save_model('out')\n",
        "model.save_pretrained('out')\n" + INITIALIZED,
        INITIALIZED + "engine.save_16bit_model('out')\n",
        "def save(model):\n    model.save_pretrained('out')\n" + PREPARED,
    ],
)
def test_weights_that_are_gathered_or_not_known_to_be_trained(script):
    assert found(script, STAGE_3) == []


RUN = """\
class Run:
    def start(self):
        self.engine, *_ = deepspeed.initialize(model=self.model)
    def save(self):
        self.engine.save_checkpoint('out')
    def work(self):
        if dist.get_rank() == 0:
            self.save()
run = Run()
run.start()
run.work()
"""
CALLBACK = """\
class Samples(TrainerCallback):
    def on_evaluate(self, args, state, control, model=None, **more):
        {}
"""


@pytest.mark.parametrize(
    ("script", "config"),
    [
        (PREPARED + "if accelerator.is_main_process:\n    model.generate(x)\n", STAGE_3),
        (PREPARED + "if step and accelerator.is_local_main_process:\n    accelerator.save_state('out')\n", STAGE_2),
        (PREPARED + "if accelerator.process_index == 0:\n    s = accelerator.get_state_dict(model)\n", STAGE_3),
        (TRAINED + "if args.local_rank in (-1, 0):\n    trainer.save_model('out')\n", STAGE_3),
        (TRAINED + CALLBACK.format("if state.is_world_process_zero:\n            model.generate(x)"), STAGE_3),
        (INITIALIZED + "if dist.get_rank() == 0:\n    engine.save_checkpoint('out')\n", STAGE_2),
        (INITIALIZED + "def save():\n    engine.save_checkpoint('o')\nif rank == 0:\n    save()\n", STAGE_2),
        (PREPARED + "if not accelerator.is_main_process:\n    pass\nelse:\n    model.generate(x)\n", STAGE_3),
        (
            PREPARED
            + "def f():\n    if not accelerator.is_main_process:\n        return\n    model.generate(x)\nf()\n",
            STAGE_3,
        ),
        (
            INITIALIZED
            + "for step in range(9):\n    if rank != 0 or step:\n        continue\n    engine.save_checkpoint('o')\n",
            STAGE_2,
        ),
        (INITIALIZED + "is_main = dist.get_rank() == 0\nif is_main:\n    engine.save_checkpoint('o')\n", STAGE_2),
        (
            INITIALIZED + "def is_first():\n    return int(os.environ['RANK']) == 0\n"
            "if is_first():\n    engine.save_checkpoint('o')\n",
            STAGE_2,
        ),
        (INITIALIZED + "if not dist.get_rank():\n    engine.save_checkpoint('o')\n", STAGE_2),
        (RUN, STAGE_2),
        (INITIALIZED + "if rank == 0:\n    loss = engine(x)\n", STAGE_3),
        (PREPARED + "if accelerator.is_main_process:\n    model(x)\nelse:\n    wait()\n", STAGE_3),
        (
            INITIALIZED + "def evaluate(model):\n    return model(x)\nif rank == 0:\n    evaluate(engine)\n",
            STAGE_3,
        ),
        (INITIALIZED + "if rank == 0:\n    s = engine._zero3_consolidated_16bit_state_dict()\n", STAGE_3),
        (
            "import deepspeed\n"
            + INITIALIZED
            + "if rank < 1:\n    with deepspeed.zero.GatheredParameters(p):\n        f()\n",
            STAGE_3,
        ),
        (
            "import torch.distributed as dist\n"
            + INITIALIZED
            + "if not dist.is_initialized() or dist.get_rank() == 0:\n    dist.barrier()\n",
            STAGE_2,
        ),
        (PREPARED + "if accelerator.is_main_process:\n    accelerator.wait_for_everyone()\n", STAGE_2),
        (
            "from trl import SFTTrainer\n"
            + TRAINED
            + "if trainer.is_world_process_zero():\n    print(trainer.evaluate())\n",
            STAGE_2,
        ),
        (INITIALIZED + "if is_rank_0():\n    engine.save_checkpoint('o')\n", STAGE_2),
    ],
)
def test_calls_that_one_rank_makes_alone(script, config):
    assert [code for code, _, _ in found(script, config)] == ["DS822"]
    assert found(script, config, ranks=1) == []


@pytest.mark.parametrize(
    ("script", "config"),
    [
        (PREPARED + "if accelerator.is_main_process:\n    llm.generate(x)\n", STAGE_3),
        (PREPARED + "if accelerator.is_main_process:\n    model.generate(x)\n", STAGE_2),
        (PREPARED + "tokens = model.generate(x)\nif accelerator.is_main_process:\n    print(tokens)\n", STAGE_3),
        (
            INITIALIZED
            + "def save(step):\n    if dist.get_rank() != 0:\n        engine.save_checkpoint('out')\n        return\n"
            "    engine.save_checkpoint('out')\nsave(1)\n",
            STAGE_2,
        ),
        (
            INITIALIZED
            + "for step in range(9):\n    if rank != 0 and step:\n        continue\n    engine.save_checkpoint('o')\n",
            STAGE_2,
        ),
        (PREPARED + "def log():\n    if rank != 0:\n        return\n    print(1)\nlog()\nmodel.generate(x)\n", STAGE_3),
        (INITIALIZED + "if lora_rank == 0:\n    engine.save_checkpoint('out')\n", STAGE_2),
        (INITIALIZED + "is_main = rank == 0 or each\nif is_main:\n    engine.save_checkpoint('out')\n", STAGE_2),
        (INITIALIZED + "if step % 10 == 0:\n    engine.save_checkpoint('out')\n", STAGE_2),
        (INITIALIZED + "if rank == 0:\n    os.makedirs('o')\nengine.save_checkpoint('o')\n", STAGE_2),
        (
            INITIALIZED + "if rank == 0:\n    engine.save_checkpoint('o')\nelse:\n    engine.save_checkpoint('o')\n",
            STAGE_2,
        ),
        (TRAINED + CALLBACK.format("model.generate(x)"), STAGE_3),
        (INITIALIZED + "if rank == 0:\n    loss = engine(x)\n", STAGE_2),
        (INITIALIZED + "if rank == 0:\n    loss = engine(x)\nelse:\n    loss = engine(y)\n", STAGE_3),
        (INITIALIZED + "if rank == 0:\n    engine.load_checkpoint('o')\n", STAGE_2),  # which hangs nowhere
        (INITIALIZED + "if is_alone or dist.get_rank() == 0:\n    engine.save_checkpoint('o')\n", STAGE_2),
        (
            "import torch.distributed as dist\n"
            + INITIALIZED
            + "if rank != 0:\n    dist.barrier()\nf()\nif rank == 0:\n    dist.barrier()\n",
            STAGE_2,
        ),
        (
            "import torch.distributed as dist\n" + INITIALIZED + "if rank == 0:\n    dist.barrier(group=first)\n",
            STAGE_2,
        ),
        (
            "import deepspeed\n"
            + INITIALIZED
            + "with deepspeed.zero.GatheredParameters(p):\n    if rank == 0:\n        model(x)\n",
            STAGE_3,
        ),
        ("from ours import Trainer\ntrainer = Trainer(model)\nif rank == 0:\n    trainer.evaluate()\n", STAGE_2),
    ],
)
def test_calls_that_every_rank_may_make(script, config):
    assert found(script, config) == []


PASSES = "optimizer = {}(model.parameters(), lr=1e-4)\ndeepspeed.initialize(model=model, optimizer=optimizer)\n"


@pytest.mark.parametrize(
    "script",
    [
        "import torch\n" + PASSES.format("torch.optim.AdamW"),
        "from apex.optimizers import FusedAdam as Adam\n" + PASSES.format("Adam"),
        "from deepspeed.ops.adam import FusedAdam\n" + PASSES.format("FusedAdam"),
        "import bitsandbytes as bnb\n" + PASSES.format("bnb.optim.AdamW8bit"),
        "import torch\nengine, optimizer, _, _ = deepspeed.initialize(optimizer=torch.optim.SGD(p, lr=1))\n",
    ],
)
def test_optimizers_that_offload_rejects(script):
    assert [code for code, _, _ in found(script, OFFLOAD)] == ["DS823"]
    assert found(script, OFFLOAD | {"zero_force_ds_cpu_optimizer": False}) == []
    assert found(script, OFFLOAD, deepspeed="0.8.2") == []
    assert found(script, STAGE_2) == []


@pytest.mark.parametrize(
    "script",
    [
        "from deepspeed.ops.adam import DeepSpeedCPUAdam\n" + PASSES.format("DeepSpeedCPUAdam"),
        "from ours import Adam\n" + PASSES.format("Adam"),
        "import torch\nAdam = DeepSpeedCPUAdam if offload else torch.optim.AdamW\n" + PASSES.format("Adam"),
        (
            "import torch\nif offload:\n    optimizer = DeepSpeedCPUAdam(p)\n"
            "else:\n    optimizer = torch.optim.AdamW(p)\n"
            "deepspeed.initialize(model=model, optimizer=optimizer)\n"
        ),
        "import torch\noptimizer = torch.optim.AdamW(p)\ndeepspeed.initialize(model=model)\n",
    ],
)
def test_optimizers_that_offload_may_take(script):
    assert found(script, OFFLOAD) == []


def test_the_lion_of_deepspeed_is_taken_by_newer_releases():
    script = "from deepspeed.ops.lion import DeepSpeedCPULion\n" + PASSES.format("DeepSpeedCPULion")
    assert [code for code, _, _ in found(script, OFFLOAD, deepspeed="0.17.5")] == ["DS823"]
    assert found(script, OFFLOAD, deepspeed="0.17.6") == []


@pytest.mark.parametrize(
    ("context", "is_found"),
    [
        ('torch.autocast("cuda", dtype=torch.bfloat16)', True),
        ('torch.amp.autocast("cuda")', True),
        ("torch.cuda.amp.autocast()", True),
        ('torch.autocast("cuda", enabled=dtype is not None)', True),
        ('torch.autocast("cuda", enabled=False)', False),
        ('torch.autocast("cpu")', False),
        ("torch.no_grad()", False),
    ],
)
def test_autocast_around_the_engine(context, is_found):
    script = (
        f"import torch\n{INITIALIZED}def step(net, x):\n    with {context}:\n        return net(x)\nstep(engine, x)\n"
    )
    codes = [code for code, _, _ in found(script, STAGE_2, deepspeed="0.17.5")]
    assert codes == (["DS824"] if is_found else [])
    assert found(script, STAGE_2, deepspeed="0.17.1") == []
    assert found(script, STAGE_2 | {"torch_autocast": {"enabled": True}}, deepspeed="0.17.5") == []


AROUND = "with torch.cuda.amp.autocast(dtype=dtype), torch.cuda.device(0):\n    "


@pytest.mark.parametrize(
    ("calls", "is_found"),
    [
        (f"{AROUND}y = model(x)\n", True),
        ("run = model\n" + AROUND + "y = run(x)\n", True),
        ("def loss(net):\n    return net(x)\n" + AROUND + "y = loss(model)\n", True),
        ("@torch.autocast('cuda')\ndef loss(net):\n    return net(x)\nloss(model)\n", True),
        ("half = torch.autocast('cuda', torch.bfloat16)\nwith half:\n    y = model(x)\n", True),
        ("with torch.autocast(accelerator.device.type):\n    y = model(x)\n", True),
        ("with torch.autocast(device_type='cuda'):\n    y = model(x)\n", True),
        ("with accelerator.autocast():\n    y = model(x)\n", False),  # which Accelerate switches off
        ("with torch.autocast(kind):\n    y = model(x)\n", False),
        (f"{AROUND}y = model.module(x)\n", False),  # past the engine
        ("bare = accelerator.unwrap_model(model)\n" + AROUND + "y = bare(x)\n", False),
        (f"{AROUND}y = teacher(x)\n", False),
        ("def loss(net):\n    return net(x)\nloss(model)\n" + AROUND + "y = loss(model)\n", False),
    ],
)
def test_autocast_around_a_prepared_model(calls, is_found):
    script = "import torch\n" + PREPARED + calls
    codes = [code for code, _, _ in found(script, STAGE_2, deepspeed="0.17.2")]
    assert codes == (["DS824"] if is_found else [])


ALIGNED = """\
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import {trainer}, {config}
args = {config}("out", bf16={bf16}, deepspeed="ds.json")
model = AutoModelForCausalLM.from_pretrained("m", quantization_config=BitsAndBytesConfig({bits}=True))
trainer = {trainer}(model=model, args=args, train_dataset=data, peft_config={peft})
trainer.train()
"""
ALIGNING = {
    "trainer": "DPOTrainer",
    "config": "DPOConfig",
    "bf16": "True",
    "bits": "load_in_4bit",
    "peft": "LoraConfig()",
}


@pytest.mark.parametrize(
    ("change", "trl", "is_found"),
    [
        ({}, "==0.21.0", True),
        ({}, "==0.29.0", False),
        ({}, ">=0.21", False),
        ({"trainer": "KTOTrainer", "config": "KTOConfig"}, "==0.25.1", True),
        ({"trainer": "KTOTrainer", "config": "KTOConfig"}, "==0.26.2", False),
        ({"trainer": "SFTTrainer", "config": "SFTConfig"}, "==0.21.0", False),
        ({"bf16": "False"}, "==0.21.0", False),
        ({"bits": "load_in_8bit"}, "==0.21.0", False),
        ({"peft": "None"}, "==0.21.0", False),
    ],
)
def test_trainers_of_trl_that_autocast(change, trl, is_found):
    script, pins = ALIGNED.format(**ALIGNING | change), {"trl": Pin("trl", trl)}
    codes = [code for code, _, _ in found(script, STAGE_2, pins=pins, deepspeed="0.17.5")]
    assert codes.count("DS824") == is_found
    later = [code for code, _, _ in found(script, STAGE_2, pins=pins, deepspeed="0.17.6")]
    assert "DS824" not in later


LOAD = 'model = AutoModelForCausalLM.from_pretrained("m")\n'
ARGUMENTS = 'args = TrainingArguments("out", deepspeed="ds.json")\n'
TRAINER = "trainer = Trainer(model=model, args=args)\n"
MAKE = """\
def make():
    model = LlamaModel.from_pretrained('m')
    model = get_peft_model(model, config)
    return model
"""
CLASS = """\
class Run:
    def __init__(self):
        self.model = AutoModel.from_pretrained("m")
        self.start()
    def start(self):
        self.accelerator = Accelerator()
        self.model = self.accelerator.prepare(self.model)
"""


@pytest.mark.parametrize(
    "script",
    [
        LOAD + ARGUMENTS + TRAINER,
        LOAD + "peft = get_peft_model(model, config)\n" + ARGUMENTS + TRAINER.replace("model=model", "peft"),
        MAKE + "def main():\n    model = make()\n    " + ARGUMENTS + "    " + TRAINER + "main()\n",
        LOAD + "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n" + TRAINER,
        "from ours import load_data\ndata = load_data()\n" + LOAD + "accelerator = Accelerator()\n"
        "model, data = accelerator.prepare(model, data)\n",
        CLASS,
    ],
)
def test_models_that_are_loaded_before_the_config_is_known(script):
    assert [code for code, _, _ in found(script, STAGE_3)] == ["DS825"]
    assert found(script, STAGE_2) == []
    assert found(script, STAGE_3, ranks=1) == []


@pytest.mark.parametrize(
    "script",
    [
        ARGUMENTS + LOAD + TRAINER,
        LOAD + "from ours import parse_args\nargs = parse_args()\n" + TRAINER,
        "from ours import init_training\ninit_training()\n" + LOAD + ARGUMENTS + TRAINER,
        "if early:\n    " + ARGUMENTS + LOAD + ARGUMENTS + TRAINER,
        LOAD.replace("model =", "teacher =") + ARGUMENTS + LOAD + TRAINER,
        LOAD.replace('"m"', '"m", load_in_4bit=True') + ARGUMENTS + TRAINER,
        "args = SFTConfig('out')\n" + LOAD + ARGUMENTS + TRAINER,
    ],
)
def test_models_that_may_be_loaded_in_partitions(script):
    assert [code for code, _, _ in found(script, STAGE_3)] == []


FROM = "from transformers.integrations import HfDeepSpeedConfig\n"
OWN = LOAD + INITIALIZED
NOT_KEPT = "def tell():\n    config = HfDeepSpeedConfig('ds.json')\ndef main():\n    tell()\n    model = {}main()\n"


@pytest.mark.parametrize(
    ("script", "is_found"),
    [
        (FROM + "HfDeepSpeedConfig('ds.json')\n" + OWN, True),
        (NOT_KEPT.format("LlamaModel.from_pretrained('m')\n    " + INITIALIZED), True),
        (FROM + "config = HfDeepSpeedConfig('ds.json')\n" + OWN, False),
        (FROM + "config = HfDeepSpeedConfig('ds.json') if zero else None\n" + OWN, False),
        (FROM + "keep(HfDeepSpeedConfig('ds.json'))\n" + OWN, False),
        (FROM + "self.config = HfDeepSpeedConfig('ds.json')\n" + OWN, False),
        (
            FROM
            + "def main():\n    config = HfDeepSpeedConfig('ds.json')\n    "
            + OWN.replace("\nengine", "\n    engine"),
            False,
        ),
        (FROM + "def tell():\n    x = HfDeepSpeedConfig('ds.json')\n    return x\nkept = tell()\n" + OWN, False),
        (FROM + "def tell():\n    global x\n    x = HfDeepSpeedConfig('ds.json')\ntell()\n" + OWN, False),
    ],
)
def test_a_config_that_nothing_keeps(script, is_found):
    assert [code for code, _, _ in found(script, STAGE_3)] == (["DS826"] if is_found else [])
    assert found(script, STAGE_2) == []


SIZES = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}
ALL_SIZES = STAGE_3 | SIZES
INIT = "with deepspeed.zero.Init(config_dict_or_path='ds.json'):\n    model = Model()\n"


@pytest.mark.parametrize(
    ("script", "is_found"),
    [
        ("keep = HfDeepSpeedConfig('ds.json')\n" + OWN, True),
        ("import torch\ntorch.distributed.init_process_group()\n" + INIT + INITIALIZED, True),
        ("import deepspeed\ndeepspeed.init_distributed()\n" + INIT + INITIALIZED, False),
        ("from ours import start\nstart()\n" + INIT + INITIALIZED, False),
        ("if several:\n    deepspeed.init_distributed()\n" + INIT + INITIALIZED, False),
        (INIT.replace("ds.json", "other.json") + INITIALIZED, False),
    ],
)
def test_batch_sizes_of_a_config_that_is_read_too_early(script, is_found):
    assert [code for code, _, _ in found(script, ALL_SIZES)] == (["DS827"] if is_found else [])
    assert found(script, STAGE_3) == []
    assert found(script, ALL_SIZES, ranks=1) == []


def test_the_argument_of_a_function_that_is_gone_is_not_read():
    script = "def tell():\n    x = HfDeepSpeedConfig('ds.json')\n    return x\ntell()\n" + OWN
    assert found(script, ALL_SIZES) == []


@pytest.mark.parametrize(
    ("arguments", "is_found"),
    [
        ("ds3_gather_for_generation=False", True),
        ("ds3_gather_for_generation=False, use_vllm=False", True),
        ("ds3_gather_for_generation=False, use_vllm=True", False),
        ("ds3_gather_for_generation=False, use_vllm=fast", False),
        ("ds3_gather_for_generation=True", False),
        ("ds3_gather_for_generation=gathers", False),
    ],
)
def test_weights_that_each_token_gathers(arguments, is_found):
    script = f"args = GRPOConfig('out', deepspeed='ds.json', {arguments})\nGRPOTrainer('m', args=args).train()\n"
    assert [code for code, _, _ in found(script, STAGE_3)] == (["DS828"] if is_found else [])
    assert found(script, STAGE_2) == []


AUTO_STEPS = STAGE_3 | {
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
}
WITH_REFERENCE = """\
from trl import DPOTrainer, KTOTrainer as Tuner
args = TrainingArguments("out", deepspeed="ds.json")
model = AutoModelForCausalLM.from_pretrained("m")
frozen = AutoModelForCausalLM.from_pretrained("m")
"""


@pytest.mark.parametrize(
    ("call", "is_found"),
    [
        ("DPOTrainer(model, frozen, args=args)", True),
        ("DPOTrainer(model=model, ref_model=frozen, args=args)", True),
        ("DPOTrainer(model, None, args=args)", False),
        ("DPOTrainer(model, args=args)", False),
        ("DPOTrainer(model, frozen, args=args, peft_config=adapters)", False),
        ("DPOTrainer(model, frozen, args=DPOConfig(precompute_ref_log_probs=True))", False),
        ("DPOTrainer(model, frozen if full else None, args=args)", False),
    ],
)
def test_reference_models_that_are_prepared_before_the_schedule(call, is_found):
    script = WITH_REFERENCE + f"trainer = {call}\n"
    assert [code for code, _, _ in found(script, AUTO_STEPS)] == (["DS829"] if is_found else [])
    assert found(script, AUTO_STEPS | {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9}}}) == []
    assert found(script, AUTO_STEPS | {"zero_optimization": {"stage": 2}}) == []


@pytest.mark.parametrize("text", ["import torch as", "x = '\x00'", "(" * 5000])
def test_a_script_that_python_does_not_parse_shows_nothing(text):
    assert read_training_script(text) is None


def test_places_count_in_characters_and_lines_end_as_they_do():
    script = "# é\r\naccelerator = Accelerator(); n = 'é'; " + LOADS.format('"auto"').replace("\n", "\r\n")
    script = script.replace("; model", "\r\nx = 'é'; model")
    assert found(script, STAGE_3) == [("DS820", 3, '"auto"')]


HF = "import deepspeed\nfrom transformers import AutoModelForCausalLM, LlamaForCausalLM\n"
AUTO = "AutoModelForCausalLM"
SETUP = "from ours import setup\nsetup()\n"
TOLD = "kept = HfDeepSpeedConfig('ds.json')\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"{HF}model = AutoModelForCausalLM.from_pretrained('m')\n{INITIALIZED}", f"{AUTO}.from_pretrained"),
        (f"{HF}model = AutoModelForCausalLM.from_config(c)\n{INITIALIZED}", f"{AUTO}.from_config"),
        (f"{HF}model = AutoModelForCausalLM.from_config(c)\n{TOLD}{INITIALIZED}", f"{AUTO}.from_config"),
        (f"{HF}{TOLD}model = LlamaForCausalLM(c)\n{INITIALIZED}", "LlamaForCausalLM"),
        (f"{HF}{TOLD}model = AutoModelForCausalLM.from_config(c)\n{INITIALIZED}", None),
        (f"{HF}model = LlamaForCausalLM(c)\n{INITIALIZED}", None),  # a new model, which may be small
        (f"{HF}with deepspeed.zero.Init():\n    model = LlamaForCausalLM(c)\n{INITIALIZED}", None),
        (f"{HF}{SETUP}model = AutoModelForCausalLM.from_pretrained('m')\n{INITIALIZED}", None),
        (f"{HF}model = Net()\n{INITIALIZED}", None),
    ],
)  # fmt: skip
def test_models_that_deepspeed_initialize_gets_whole(script, expected):
    assert [(code, text) for code, _, text in found(script, STAGE_3)] == ([("DS825", expected)] if expected else [])
    assert found(script, STAGE_2) == []


def test_a_config_that_is_not_kept_until_a_model_is_built():
    script = f"{HF}HfDeepSpeedConfig('ds.json')\nmodel = AutoModelForCausalLM.from_config(c)\n{INITIALIZED}"
    assert [code for code, _, _ in found(script, STAGE_3)] == ["DS826"]


RANKS = "inputs = prompts[torch.distributed.get_rank()]\nengine.module.generate(inputs{})\n"
LOADED = f"{HF}{TOLD}model = AutoModelForCausalLM.from_pretrained('m')\n{INITIALIZED}"


@pytest.mark.parametrize(
    ("script", "transformers", "codes"),
    [
        (LOADED + RANKS.format(""), "4.27.4", ["DS869"]),
        (LOADED + RANKS.format(""), "4.28.0", []),
        (LOADED + RANKS.format(", synced_gpus=False"), "4.28.0", ["DS869"]),
        (LOADED + RANKS.format(", synced_gpus=True"), "4.27.4", []),
        (LOADED.replace(TOLD, "") + RANKS.format(""), "4.28.0", ["DS825", "DS869"]),
    ],
)
def test_ranks_that_do_not_wait_for_each_others_texts(script, transformers, codes):
    assert [code for code, _, _ in found(script, STAGE_3, transformers=transformers)] == codes
    assert found(script, STAGE_2, transformers=transformers) == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("if rank == 0:\n    y = engine(x)\n", ["DS822"]),
        ("if rank == 0:\n    y = engine.module(x)\n", ["DS822"]),
        ("def test(m):\n    return m(x)\nif rank == 0:\n    test(engine)\n", ["DS822"]),
        ("if rank == 0:\n    y = engine(x)\nelse:\n    y = engine(z)\n", []),
        ("def test(m):\n    return m(x)\ntest(engine)\nif rank == 0:\n    print(x)\n", []),
        ("y = engine(x)\nif rank == 0:\n    print(y)\n", []),
    ],
)
def test_one_rank_runs_the_forward_pass(script, expected):
    assert [code for code, _, _ in found(f"{INITIALIZED}{script}", STAGE_3)] == expected
    assert found(f"{INITIALIZED}{script}", STAGE_2) == []


def test_one_rank_generates_with_an_engine_for_inference():
    script = (
        LOADED.replace("engine, *_ = ", "engine = ")
        .replace("'ds.json')\n", "'ds.json')[0]\n", 2)
        .replace("HfDeepSpeedConfig('ds.json')[0]", "HfDeepSpeedConfig('ds.json')")
    )
    script += "if torch.distributed.get_rank() == 0:\n    engine.module.generate(inputs)\n"
    assert [code for code, _, _ in found(script, STAGE_3)] == ["DS822"]


READ = """\
MICRO, STEPS = 1, 8
def early(path):
    with open(path) as file:
        config = json.load(file)
    config["train_micro_batch_size_per_gpu"] = MICRO
    config["gradient_accumulation_steps"] = STEPS
    config["train_batch_size"] = MICRO * STEPS * {}
    return HfDeepSpeedConfig(config)
"""
BUILT = 'keep = early("ds.json")\nmodel = AutoModelForCausalLM.from_pretrained("m")\n' + INITIALIZED


@pytest.mark.parametrize("ranks", ['int(os.environ["WORLD_SIZE"])', 'int(os.getenv("WORLD_SIZE", 1))', "2"])
def test_batch_sizes_that_the_script_sets_too_early(ranks):
    script = READ.format(ranks) + BUILT
    assert [(code, line) for code, line, _ in found(script, STAGE_3)] == [("DS827", 10)]
    assert found(script, STAGE_3, ranks=1) == []
    made = script.replace("from_pretrained", "from_config")
    assert [code for code, _, _ in found(made, STAGE_3)] == ["DS827"]


@pytest.mark.parametrize(
    "changed",
    [
        READ.format("1") + BUILT,
        READ.format("count()") + BUILT,
        READ.format("2") + "import deepspeed\ndeepspeed.init_distributed()\n" + BUILT,
        READ.format("2") + BUILT.replace("keep = ", ""),  # the object is gone
        READ.format("2").replace("    return", "    adapt(config)\n    return") + BUILT,
        READ.format("2").replace("    return", "    if small:\n        config['train_batch_size'] = 8\n    return")
        + BUILT,
        READ.format("2").replace("    return", "    config.update(sizes)\n    return") + BUILT,
        READ.format("2") + BUILT.replace('"ds.json"', '"other.json"', 1),
        READ.format("2").replace("    return", "    config.update({'train_batch_size': 8})\n    return") + BUILT,
    ],
)
def test_batch_sizes_of_the_script_that_are_right_or_not_known(changed):
    assert [code for code, _, _ in found(changed, STAGE_3) if code == "DS827"] == []


AUTO_SIZES = STAGE_3 | {"gradient_accumulation_steps": "auto"}
EARLY_AUTO = 'keep = HfDeepSpeedConfig("ds.json")\nmodel = AutoModel.from_pretrained("m")\n'
LATER = 'args = TrainingArguments("out", deepspeed="ds.json")\nTrainer(model, args).train()\n'


@pytest.mark.parametrize(
    ("script", "is_found"),
    [
        (EARLY_AUTO + LATER, True),
        ('keep = HfDeepSpeedConfig(json.load(open("ds.json")))\n' + EARLY_AUTO.partition("\n")[2] + LATER, True),
        (EARLY_AUTO.replace("\nmodel", "\n" + LATER.partition("\n")[0] + "\nmodel") + LATER, False),
        (EARLY_AUTO.replace("\nmodel", "\nfrom ours import parse\nparse()\nmodel") + LATER, False),
        (EARLY_AUTO.replace("ds.json", "zero.json") + LATER, False),
        (EARLY_AUTO.replace('("m")', '("m", quantization_config=q)') + LATER, False),
    ],
)
def test_auto_that_the_model_is_built_with(script, is_found):
    assert [code for code, _, _ in found(script, AUTO_SIZES) if code == "DS864"] == ["DS864"] * is_found
    assert not [one for one in found(script, AUTO_SIZES | {"zero_optimization": {"stage": 2}}) if one[0] == "DS864"]
    assert not [one for one in found(script, STAGE_3) if one[0] == "DS864"]


def test_a_model_without_loaded_weights_that_is_built_before_the_config_is_known():
    script = PREPARED.replace("from_pretrained", "from_config")
    early = "\n".join([*script.split("\n")[1:2], *script.split("\n")[:1], *script.split("\n")[2:]])
    assert [(code, line) for code, line, _ in found(early, STAGE_3)] == [("DS825", 1)]
    assert found(script, STAGE_3) == []


DEVICES = "import os\nimport torch\nimport torch.distributed as dist\n{}\n" + INITIALIZED
TWO_NODES = "torchrun --nnodes 2 --nproc_per_node {} --rdzv_endpoint a:1 train.py"


def devices(line, launch):
    """The severities of DS867 for a launch."""
    shown = read_training_script(DEVICES.format(line))
    facts = LaunchFacts(
        launches_in(launch, "run.sh", lambda _: None).launches[0],
        Document("run.sh", "", None, []),
        shown,
        Document("train.py", DEVICES.format(line), None, []),
    )
    document = documents.from_bytes(json.dumps(STAGE_2).encode(), "ds.json")
    report = linted(Basis(knowledge(Target())), [facts], lambda basis: lint(document, basis))
    return [one.severity for one in report.findings if one.code == "DS867"]


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.set_device(dist.get_rank())",
        "rank = int(os.environ['RANK'])\ntorch.cuda.set_device(rank)",
        "rank = int(os.getenv('RANK', 0))\ndevice = torch.device(f'cuda:{rank}')",
        "rank = dist.get_rank()\nif torch.cuda.is_available():\n    device = torch.device('cuda', rank)",
        "from deepspeed.accelerator import get_accelerator\nget_accelerator().set_device(dist.get_rank())",
        "def start():\n    torch.cuda.set_device(f'cuda:{dist.get_rank()}')\nstart()",
        "model = Model().to(dist.get_rank())",
        "device = f'cuda:{dist.get_rank()}'\nmodel = Model().to(device)",
        "model = Model().cuda(int(os.environ['RANK']))",
    ],
)
def test_the_gpu_of_the_global_rank(line):
    assert devices(line, TWO_NODES.format(8)) == ["error"]
    assert devices(line, TWO_NODES.format(4)) == ["warning"]
    assert devices(line, "CUDA_VISIBLE_DEVICES=0,1 " + TWO_NODES.format(2)) == ["error"]
    assert devices(line, "CUDA_VISIBLE_DEVICES=0,1,2,3 " + TWO_NODES.format(2)) == []
    assert devices(line, TWO_NODES.format(1)) == []
    assert devices(line, "torchrun --nproc_per_node 8 train.py") == []
    assert devices(line, "torchrun --nnodes $N --nproc_per_node 8 train.py") == []


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        "torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())",
        "torch.cuda.set_device(dist.get_rank(group=of_node))",
        "if is_one_node:\n    torch.cuda.set_device(dist.get_rank())",
        "rank = args.local_rank if args.local_rank >= 0 else dist.get_rank()\ntorch.cuda.set_device(rank)",
        "rank = dist.get_rank()\nrank = rank % 8\ntorch.cuda.set_device(rank)",
        "rank = dist.get_rank()\nrank %= 8\ntorch.cuda.set_device(rank)",
        "print(f'cuda:{dist.get_rank()}')",
        "model = Model().to(torch.bfloat16)",
        "device = 'cuda'\nmodel = Model().to(device)",
        "device = f'cuda:{os.environ[\"LOCAL_RANK\"]}'\nmodel = Model().to(device)",
    ],
)
def test_other_numbers_of_gpus(line):
    assert devices(line, TWO_NODES.format(8)) == []


EMBEDDINGS = "size = model.get_input_embeddings().weight.shape[0]\nif size < 9:\n    model.resize_token_embeddings(9)\n"
TOLD = (
    "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    'args = TrainingArguments("out", deepspeed="ds.json")\nmodel = AutoModelForCausalLM.from_pretrained("m")\n{}'
    "trainer = Trainer(model, args)\ntrainer.train()\n"
)
COUNT = "n = sum(p.numel() for p in model.parameters())\n"
TRAINABLE = "def count(model):\n    return sum(p.numel() for p in model.parameters() if p.requires_grad)\n"


@pytest.mark.parametrize(
    ("script", "severity"),
    [
        (TOLD.format(EMBEDDINGS), "warning"),
        (TOLD.format("e = model.get_output_embeddings()\nassert e.weight.size(0) == 9\n"), "warning"),
        (TOLD.format(COUNT + "print(f'{n / 1e6:.1f}M')\n"), "info"),
        (TOLD.format(TRAINABLE + "print(count(model))\n"), "info"),
        (TOLD.format(COUNT + "rate = 1 / n\nset_rate(rate)\n"), "warning"),
        (INITIALIZED + "if engine.module.head.weight.numel() > 9:\n    f()\n", "warning"),
        (PREPARED + "logger.info('%d', sum(p.numel() for p in model.parameters()))\n", "info"),
    ],
)
def test_shapes_of_partitioned_parameters(script, severity):
    assert severities(script, STAGE_3) == [severity]
    assert severities(script, STAGE_2) == []


@pytest.mark.parametrize(
    "script",
    [
        TOLD.format("with deepspeed.zero.GatheredParameters(e):\n    " + EMBEDDINGS.partition("\n")[0] + "\n"),
        TOLD.format("model.resize_token_embeddings(9)\n" + EMBEDDINGS),
        TOLD.format("n = sum(p.ds_numel if hasattr(p, 'ds_numel') else p.numel() for p in model.parameters())\n"),
        TOLD.format("model = get_peft_model(model, lora)\n" + TRAINABLE + "print(count(model))\n"),
        TOLD.format(COUNT).replace('("m")', '("m", load_in_4bit=True)'),
        TOLD.format("n = sum(p.numel() for p in teacher.parameters())\n"),
        TOLD.format("size = model.config.vocab_size\n"),
        "model = Model()\n" + COUNT + INITIALIZED,
    ],
)
def test_shapes_that_are_whole_or_not_known(script):
    assert severities(script, STAGE_3) == []


def severities(script, config):
    """The severities of DS863."""
    launch = launches_in("torchrun --nproc_per_node 2 train.py", "run.sh", lambda _: None).launches[0]
    documents_of = (
        Document("run.sh", "", None, []),
        read_training_script(script),
        Document("train.py", script, None, []),
    )
    facts = LaunchFacts(launch, *documents_of)
    document = documents.from_bytes(json.dumps(config).encode(), "ds.json")
    report = linted(Basis(knowledge(Target())), [facts], lambda basis: lint(document, basis))
    return [one.severity for one in report.findings if one.code == "DS863"]


COMPILES = "import torch\nmodel = Model()\n{}\n" + INITIALIZED


@pytest.mark.parametrize(
    ("script", "is_found"),
    [
        (COMPILES.format("model = torch.compile(model)"), True),
        (COMPILES.format("model = torch.compile(model, backend='eager')"), True),
        ("import torch\n" + INITIALIZED.replace("model=model", "model=torch.compile(model)"), True),
        ("import torch\ndef main():\n    model = torch.compile(load())\n    " + INITIALIZED + "main()\n", True),
        (COMPILES.format("compiled = torch.compile(model)"), False),
        (COMPILES.format("model = torch.compile(model, disable=is_debugged)"), False),
        (COMPILES.format("if fast:\n    model = torch.compile(model)"), False),
        (COMPILES.format("model = torch.compile(model)\nmodel = model._orig_mod"), False),
        ("from ours import compile\nmodel = compile(model)\n" + INITIALIZED, False),
        ("import torch\n" + INITIALIZED + "model = torch.compile(model)\n", False),
        ("import torch\n" + INITIALIZED + "engine.compile()\n", False),
    ],
)
def test_a_model_that_is_compiled_before_the_engine_has_it(script, is_found):
    assert [code for code, _, _ in found(script, STAGE_3) if code == "DS865"] == ["DS865"] * is_found
    assert [code for code, _, _ in found(script, STAGE_2) if code == "DS865"] == []
    assert [code for code, _, _ in found(script, STAGE_3, deepspeed="0.9.0") if code == "DS865"] == []
