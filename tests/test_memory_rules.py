"""What rules say about the memory of GPUs and hosts, and where they are silent.

Figures are relations and arithmetic: what the parts of an estimate are is tested beside it.
"""

from __future__ import annotations

import json
import sys

import pytest
from command_line import write_into
from linted import config_of_dict, lint_dict

from ds_lint.cli import run
from ds_lint.diagnostics.amounts import gibibytes
from ds_lint.facts import Facts, training
from ds_lint.facts.gpu import named
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.model import Model
from ds_lint.facts.shapes import count
from ds_lint.footprint import certainty
from ds_lint.knowledge.keys import Target
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.source.document import Document

GIB = 2**30
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}  # Llama 2 7B
PARAMETERS = count(LLAMA)
BF16_ADAM = {"bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}


def known(*, gpu=None, host_memory=None, world_size=None, nodes=None, trainer_args=None, **model):
    facts = Facts(world_size=world_size, nodes=nodes)
    facts.model = Model("", {**LLAMA, **model}, parameter_count=PARAMETERS)
    facts.gpu = named(gpu) if gpu else None
    facts.host_memory = host_memory
    facts.training = training.arguments_of(trainer_args) if trainer_args else None
    return facts


def memory_findings(config, facts, stack="deepspeed", **versions):
    config = {"train_micro_batch_size_per_gpu": 1, **config}
    report = lint_dict(config, target=Target(**versions), stack=stack, facts=facts)
    return [finding for finding in report.findings if finding.code in ("DS844", "DS851", "DS852", "DS855")]


def codes(*arguments, **keywords):
    return [finding.code for finding in memory_findings(*arguments, **keywords)]


def zero(stage=3, **settings):
    return {**BF16_ADAM, "zero_optimization": {"stage": stage, **settings}}


CPU = {"device": "cpu"}


# GPU


@pytest.mark.parametrize(
    ("config", "facts", "expected"),
    [
        (zero(2), {"gpu": "A100-40GB", "world_size": 2}, ["DS852"]),
        (zero(2), {"gpu": "A100-80GB", "world_size": 8}, []),
        (zero(2), {"gpu": "A100-40GB"}, []),
        (zero(2), {"gpu": "RTX-3080-10GB"}, ["DS852"]),
        (zero(3), {"gpu": "RTX-3080-10GB"}, []),
        (zero(0), {"gpu": "A100-80GB"}, ["DS852"]),
        (zero(3, offload_optimizer=CPU), {"gpu": "A10G", "world_size": 1}, []),
        (zero(3), {"gpu": "A10G", "world_size": 4}, ["DS852"]),
    ],
)
def test_what_a_gpu_holds(config, facts, expected):
    assert codes(config, known(**facts)) == expected


def test_a_finding_has_the_figures_of_the_estimate():
    facts = known(gpu="A100-40GB", world_size=2, nodes=1)
    (finding,) = memory_findings(zero(2), facts)
    config = config_of_dict({"train_micro_batch_size_per_gpu": 1, **zero(2)}, stack="deepspeed", facts=facts)
    needed = certainty.of_gpu(config).trained
    least = max(peak.gpu.least for peak in needed.peaks.values())
    assert least > 40 * GIB
    assert f"needs at least {gibibytes(least)} per GPU" in finding.message
    assert f"parameters {gibibytes(2 * PARAMETERS)}" in finding.help
    assert (finding.key, finding.severity) == ("zero_optimization.stage", "warning")
    assert "per GPU" in finding.help


def test_weights_that_do_not_fit_do_not_fit_with_adapters_either():
    for config, facts in ((zero(0), {}), (zero(2), {"world_size": 8})):
        (finding,) = memory_findings(config, known(gpu="RTX-3080-10GB", **facts))
        assert finding.severity == "error"
        assert "training all" not in finding.message


@pytest.mark.parametrize(
    "around",
    [
        {"pipeline": {"stages": 2}},
        {"expert_parallel": {"enabled": True, "autoep_size": 2}},
        {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}},
    ],
)
def test_what_else_splits_the_states_is_not_counted(around):
    facts = known(gpu="RTX-3080-10GB", world_size=4, nodes=1, host_memory=GIB)
    assert codes({**zero(2, offload_optimizer=CPU), **around}, facts) == []


def test_tensor_parallelism_is_counted():
    least = {}
    for degree in (0, 4):
        facts = known(gpu="RTX-3080-10GB", world_size=4)
        linted = config_of_dict({**zero(1), "tensor_parallel": {"autotp_size": degree}}, stack="deepspeed", facts=facts)
        least[degree] = certainty.of_gpu(linted).trained.gpu_bytes.least
    assert least[4] > 10 * GIB  # of 7 billion parameters, a quarter
    assert codes({**zero(1), "tensor_parallel": {"autotp_size": 4}}, known(gpu="RTX-3080-10GB", world_size=4)) == [
        "DS852"
    ]


def test_quantized_weights_are_not_counted():
    facts = known(gpu="RTX-3080-10GB", world_size=4, quantization_config={"quant_method": "gptq"})
    assert codes(zero(2), facts) == []


def test_adapters_leave_the_weights():
    flags = {"stack": "trainer", "config": zero(2)}
    assert codes(facts=known(gpu="A100-40GB", world_size=2, trainer_args="--bf16"), **flags) == ["DS852"]
    assert codes(facts=known(gpu="A100-40GB", world_size=2, trainer_args="--bf16 --use_peft"), **flags) == []
    assert codes(facts=known(gpu="RTX-3080-10GB", world_size=2, trainer_args="--bf16 --use_peft"), **flags) == ["DS852"]


def test_older_releases_partition_what_bf16_needs_without_zero():
    facts = known(gpu="A100-80GB", world_size=64)
    assert codes(zero(0), facts) == ["DS852"]
    assert codes(zero(0), facts, deepspeed="0.17.5") == []


WHOLE = """\
import deepspeed
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("acme/llama-7b", dtype="auto")
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
"""


def launched(script, facts):
    (launch,) = launches_in("deepspeed --num_gpus 1 train.py", "run.sh", lambda _: None).launches
    document = Document("train.py", script, None, [])
    return facts.with_launch(
        LaunchFacts(launch, Document("run.sh", "", None, []), read_training_script(script), document)
    )


def test_the_whole_model_is_on_the_gpu_before_stage_3_partitions_it():
    config = zero(3, offload_optimizer=CPU, offload_param=CPU)
    (finding,) = memory_findings(config, launched(WHOLE, known(gpu="RTX-3080-10GB")))
    assert finding.severity == "error"
    assert " per GPU while it is initialized" in finding.message
    assert "Each GPU holds: parameters 13 GiB" in finding.help
    assert finding.help.startswith(
        "Without `deepspeed.zero.Init`, `deepspeed.initialize` moves the whole model to every GPU. It "
    )
    kept = 'from transformers.integrations import HfDeepSpeedConfig\ndschf = HfDeepSpeedConfig("ds.json")\n' + WHOLE
    assert codes(config, launched(kept, known(gpu="RTX-3080-10GB"))) == []
    assert codes(config, launched(WHOLE, known(gpu="RTX-4090-24GB"))) == []


# Host


@pytest.mark.parametrize(
    ("config", "facts", "expected"),
    [
        (zero(3, offload_optimizer=CPU), {"nodes": 1}, ["DS851"]),
        (zero(3, offload_optimizer=CPU), {"nodes": 2, "world_size": 16}, ["DS851"]),  # with buffers and processes
        (zero(3, offload_optimizer=CPU), {"nodes": 8, "world_size": 16}, []),
        (zero(3, offload_optimizer=CPU), {"world_size": 1}, ["DS851"]),
        (zero(3, offload_optimizer=CPU), {"world_size": 8}, []),
        (zero(3, offload_optimizer={"device": "none"}), {"nodes": 1}, []),
    ],
)
def test_what_a_node_holds(config, facts, expected):
    assert codes(config, known(host_memory=64 * GIB, **facts)) == expected


def test_the_finding_is_at_the_offload_whose_change_helps_first():
    config = zero(3, offload_optimizer=CPU, offload_param=CPU)
    facts = known(host_memory=120 * GIB, gpu="A100-80GB", world_size=1)
    (finding,) = memory_findings(config, facts)
    assert finding.key.startswith("zero_optimization.offload_")
    assert "of host memory)" in finding.help


# Offload


@pytest.mark.parametrize(
    ("facts", "tokens", "expected"),
    [
        ({"gpu": "H100-80GB", "world_size": 64}, 2048, ["DS844"]),
        ({"gpu": "H100-80GB", "world_size": 64}, None, []),  # activations are not known
        ({"gpu": "H100-80GB"}, 2048, []),
        ({"gpu": "H100-80GB", "world_size": 1}, 2048, []),
        ({"gpu": "T4", "world_size": 64}, 2048, []),
    ],
)
def test_offload_that_is_not_needed(facts, tokens, expected):
    facts = known(**facts)
    facts.sequence_length = tokens
    config = zero(3, offload_optimizer=CPU, offload_param=CPU)
    findings = [finding for finding in memory_findings(config, facts) if finding.code == "DS844"]
    assert [finding.code for finding in findings] == expected
    for finding in findings:
        linted = config_of_dict({"train_micro_batch_size_per_gpu": 1, **config}, stack="deepspeed", facts=facts)
        most = certainty.of_gpu_without_offload(linted).gpu_bytes.most
        assert most > certainty.of_gpu(linted).trained.gpu_bytes.most
        assert f"at most {gibibytes(most)} of 80 GiB" in finding.message
        assert f"{gibibytes(80 * GIB - most)} stay free" in finding.help
    assert "DS844" not in codes(zero(3), facts)


def test_of_several_sizes_of_a_gpu_the_smallest_has_to_suffice():
    assert named("A100").least_memory == 40 * GIB < named("A100").memory
    assert named("A100-80GB").least_memory == 80 * GIB


# Launches of a project

SCRIPT = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("model"{keywords})
{more}
Trainer(model=model, args=args).train()
"""
JOB = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:{gpu}:8
#SBATCH --mem={memory}G
torchrun --nproc_per_node 8 train.py --deepspeed ds.json --bf16 --output_dir out --model_name_or_path model
"""


@pytest.fixture
def found(monkeypatch, capsys, tmp_path):
    """A function that says what rules about memory find in a project."""
    monkeypatch.chdir(tmp_path)

    def check(config, *, keywords="", more="", gpu="a100", memory=512, transformers="4.57.6"):
        script = SCRIPT.format(keywords=keywords, more=more)
        job = JOB.format(gpu=gpu, memory=memory)
        config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": "auto"}, **config}
        files = {"ds.json": config, "run.sh": job, "train.py": script, "model/config.json": LLAMA}
        write_into(tmp_path)(files)
        run(
            [
                "check",
                ".",
                "--transformers-version",
                transformers,
                "--select",
                "DS844,DS851,DS852,DS855",
                "--output-format",
                "json",
            ]
        )
        return json.loads(capsys.readouterr().out)["findings"]

    return check


def stage(number, **settings):
    return {"zero_optimization": {"stage": number, **settings}}


def test_a_script_that_freezes_nothing_trains_everything(found):
    (finding,) = found(stage(1), gpu="t4")
    assert (finding["code"], finding["severity"]) == ("DS852", "error")
    assert "training all" not in finding["message"]
    (finding,) = found(stage(1), gpu="t4", more="model = get_peft_model(model, peft_config)")
    assert (finding["code"], finding["severity"]) == ("DS852", "warning")
    assert "training all" in finding["message"]
    assert found(stage(1), gpu="t4", more="model = PipelineModule(model, num_stages=4)") == []


def test_a_sequence_may_be_shorter_than_the_longest(found, monkeypatch):
    config = stage(3, offload_optimizer=CPU, stage3_gather_16bit_weights_on_model_save=False)
    assert found(config, gpu="h100") == []
    longest = "--model_name_or_path model --max_seq_length 131072 --gradient_checkpointing False"
    monkeypatch.setattr(sys.modules[__name__], "JOB", JOB.replace("--model_name_or_path model", longest))
    assert found(config, gpu="h100") == []


FP32 = 4 * PARAMETERS


@pytest.mark.parametrize(
    ("keywords", "transformers", "width"),
    [
        ("", "4.57.6", 4),
        ("", "5.0.0", 0),
        (", dtype=torch.float32", "5.0.0", 4),
        (', torch_dtype="auto"', "4.57.6", 0),
        (", torch_dtype=torch.bfloat16", "4.41.2", 2),
        (", torch_dtype=torch.bfloat16, low_cpu_mem_usage=True", "4.41.2", 0),
        (", torch_dtype=torch.float16", "4.57.6", 2),
        (", torch_dtype=dtype", "4.57.6", 0),
        (", **options", "4.57.6", 0),
        (', device_map={"": 0}', "4.57.6", 0),
        (", load_in_8bit=True", "4.57.6", 0),
    ],
)
def test_each_rank_loads_the_model(found, keywords, transformers, width):
    findings = found(stage(2), keywords=keywords, transformers=transformers, memory=64, gpu="h100")
    assert [finding["code"] for finding in findings] == (["DS855"] if width else [])
    for finding in findings:
        assert f"loads {gibibytes(8 * width * PARAMETERS)} into " in finding["message"]
        assert f"{gibibytes(width * PARAMETERS)} in each of 8 ranks" in finding["help"]
        assert (finding["key"], finding["severity"]) == ("zero_optimization.stage", "warning")
        assert {place["path"] for place in finding["related"]} == {"./train.py", "./run.sh"}


def test_one_rank_alone_may_be_too_much(found):
    (finding,) = found(stage(2), memory=24, gpu="h100")
    assert (finding["code"], finding["severity"]) == ("DS855", "error")


def test_enough_memory_and_partitions_are_no_problem(found):
    together = 8 * FP32 // GIB
    assert [one["code"] for one in found(stage(2), gpu="h100", memory=together)] == ["DS855"]
    assert found(stage(2), gpu="h100", memory=together + 1) == []
    assert found(stage(3, stage3_gather_16bit_weights_on_model_save=False), gpu="h100", memory=64) == []
