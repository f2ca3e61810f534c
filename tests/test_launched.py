"""``ds-lint check`` knows what the launches of a project tell of its configs, and ``--show-launches`` says it."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from command_line import write_into
from jsonschema import Draft7Validator

from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge import resources
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.source.document import Document

OF_TRAINER = {
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": "auto"},
    "scheduler": {"type": "WarmupLR", "params": {}},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
}
FLAGS = "--output_dir out --bf16 --lr_scheduler_type cosine --learning_rate 1e-5 --deepspeed conf/ds.json"
TRAIN = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(args=args).train()
"""
BATCH = {"train_batch_size": 10, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}

FOUR = "num_machines: 1\nnum_processes: 4\n"


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


def findings(run, *arguments):
    return json.loads(run("check", *arguments, "--output-format", "json").stdout)["findings"]


def with_code(code, found):
    return [finding for finding in found if finding["code"] == code]


def shown(run, *arguments):
    result = run("check", "--show-launches", "--output-format", "json", *arguments)
    described = json.loads(result.stdout)
    with open(resources.path("schemas", "shown_launches.schema.json"), encoding="utf-8") as schema:
        Draft7Validator(json.load(schema)).validate(described)
    return described["launches"]


def test_training_arguments_of_a_launch_have_their_place(run, write):
    write({"conf/ds.json": OF_TRAINER, "train.py": TRAIN, "run.sh": f"set -e\ndeepspeed train.py {FLAGS}\n"})
    (finding,) = with_code("DS517", findings(run, "."))
    assert "cosine" in finding["message"]
    assert [place["path"] for place in finding["related"]] == ["./run.sh"]


def test_the_ranks_of_a_launch_decide_about_batch_sizes(run, write):
    write({"ds.json": BATCH, "run.sh": "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config ds.json\n"})
    (finding,) = with_code("DS512", findings(run, "."))
    assert finding["related"][-1]["path"] == "./run.sh"
    assert finding["related"][-1]["span"]["start"]["line"] == 1
    write({"run.sh": "deepspeed --num_gpus 5 train.py --deepspeed --deepspeed_config ds.json\n"})
    assert findings(run, ".") == []


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("import deepspeed\nengine, *_ = deepspeed.initialize(model=model, mpu=mpu)\n", ""),
        ("from deepspeed.pipe import PipelineModule\nmodel = PipelineModule(layers, num_stages=2)\n", ""),
        ("from megatron.training import pretrain\n", "--tensor-model-parallel-size 2"),
    ],
)
def test_ranks_that_share_a_copy_of_the_model_are_not_counted(run, write, script, flags):
    launch = f"deepspeed --num_gpus 4 train.py {flags} --deepspeed --deepspeed_config ds.json\n"
    write({"ds.json": BATCH, "train.py": script, "run.sh": launch})
    assert with_code("DS512", findings(run, ".")) == []
    write({"train.py": "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, mpu=None)\n"})
    write({"run.sh": launch.replace("model-parallel-size 2", "model-parallel-size 1")})
    assert len(with_code("DS512", findings(run, "."))) == 1


def test_the_model_of_a_launch_is_known_like_one_that_is_given(run, write):
    config = {"fp16": {"enabled": True}, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    config["train_micro_batch_size_per_gpu"] = 1
    launch = "#!/bin/bash\n#SBATCH --mem=64G\ndeepspeed --num_gpus 2 train.py --deepspeed_config ds.json "
    write({"ds.json": config, "run.sh": f"{launch}--model_name_or_path google/gemma-7b\n"})
    found = {one["code"]: one for one in findings(run, ".")}
    assert "google/gemma-7b is saved in bfloat16" in found["DS450"]["message"]
    assert "8.54 billion parameters" in found["DS851"]["message"]
    assert found["DS450"]["related"][0]["label"] == found["DS851"]["related"][0]["label"] == "names the model"
    given = {one["code"] for one in findings(run, ".", "--model", "google/gemma-7b")}
    assert given == set(found)
    needed = json.loads(run("memory", "run.sh", "--output-format", "json").stdout)
    assert needed["fits"]["host"] is False


def test_launches_with_different_models_are_told_apart(run, write):
    config = {"fp16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1}
    command = "deepspeed --num_gpus 2 train.py --deepspeed_config ds.json --model_name_or_path"
    models = ("google/gemma-7b", "Qwen/Qwen2.5-7B", "facebook/opt-1.3b")
    write({"ds.json": config, "run.sh": "".join(f"{command} {model}\n" for model in models)})
    found = with_code("DS450", findings(run, "."))
    assert [one["message"].partition(" is ")[0] for one in found] == ["google/gemma-7b", "Qwen/Qwen2.5-7B"]
    assert [one["related"][0]["span"]["start"]["line"] for one in found] == [1, 2]


def test_options_win_over_launches(run, write):
    write({"ds.json": BATCH, "run.sh": "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config ds.json\n"})
    assert with_code("DS512", findings(run, ".", "--world-size", "5")) == []


def test_launches_that_disagree_are_told_apart(run, write):
    of = "deepspeed --num_gpus {} train.py --deepspeed --deepspeed_config ds.json\n"
    write({"ds.json": BATCH, "a.sh": of.format(5), "b.sh": of.format(4), "c.sh": of.format(4)})
    (finding,) = with_code("DS512", findings(run, "."))
    (place,) = [place for place in finding["related"] if place["path"].endswith(".sh")]
    assert (place["path"], place["label"]) == ("./b.sh", "launched here, and 1 more launch")
    write({"c.sh": of.format(8)})
    assert [one["related"][-1]["path"] for one in with_code("DS512", findings(run, "."))] == ["./b.sh", "./c.sh"]


@pytest.mark.parametrize(
    ("config", "differing"),
    [
        (OF_TRAINER, ("--lr_scheduler_type linear", "--lr_scheduler_type cosine")),
        (OF_TRAINER, ("--optim adafactor", "--optim sgd", "")),
        (
            {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
            ("--optim lion_8bit", "--optim adagrad", "--optim ademamix"),
        ),
        ({"zero_optimization": {"stage": 3}}, ("--lr_scheduler_type polynomial", "--max_grad_norm 0")),
        ({"zero_optimization": {"stage": 3}}, ("--use_peft True", "")),
        (BATCH | {"train_batch_size": "auto"}, ("--gradient_accumulation_steps 4", "--gradient_accumulation_steps 8")),
        ({"fp16": {"enabled": True}}, ("--model_name_or_path google/gemma-7b", "--model_name_or_path gpt2")),
    ],
)
def test_two_launches_find_what_each_finds_alone(run, write, config, differing):
    """Whichever comes first: findings of the same rule at the same key are not taken for one another."""

    def found(*flags):
        line = "torchrun --nproc_per_node 2 train.py --deepspeed ds.json --output_dir out --bf16 {}\n"
        write({"run.sh": "".join(map(line.format, flags))})
        return {(one["code"], re.sub(r"run\.sh:\d+", "", one["message"])) for one in findings(run, ".")}

    write({"ds.json": config | {"train_micro_batch_size_per_gpu": "auto"}, "train.py": TRAIN})
    alone = set().union(*map(found, differing))
    assert found(*differing) == found(*reversed(differing)) == alone
    assert any(found(one) != alone for one in differing)


def test_a_finding_that_names_its_launch_is_the_same_for_another(run, write):
    script = "args = GRPOConfig('out', deepspeed='ds.json')\nGRPOTrainer('m', args=args).train()\n"
    line = "accelerate launch --num_processes 2 --num_machines 1 train.py --ds3_gather_for_generation False --seed {}\n"
    write(
        {"ds.json": {"zero_optimization": {"stage": 3}}, "train.py": script, "run.sh": line.format(1) + line.format(2)}
    )
    (finding,) = with_code("DS828", findings(run, "."))
    assert finding["related"][-1]["label"].endswith("and 1 more launch")


def test_what_several_launches_share_is_reported_once(run, write):
    write({"conf/ds.json": OF_TRAINER, "train.py": TRAIN})
    write({f"{name}.sh": f"deepspeed --num_gpus {name} train.py {FLAGS}\n" for name in (2, 4, 8)})
    (finding,) = with_code("DS517", findings(run, "."))
    assert any("2 more launches" in place["label"] for place in finding["related"])


@pytest.mark.parametrize(
    "train",
    [
        TRAIN.replace("(TrainingArguments,)", "(Mine,)").replace("import HfA", "import TrainingArguments as T, HfA"),
        TRAIN.replace("Trainer(args=args)", "args = dataclasses.replace(args, max_grad_norm=0.1)\nTrainer(args=args)"),
        "from mine import TrainingArguments\n" + TRAIN.replace(", TrainingArguments", ""),
        "class TrainingArguments(Base): pass\n" + TRAIN.replace(", TrainingArguments", ""),
        TRAIN.replace("HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()", "make()"),
        None,
    ],
    ids=["its own class", "makes it again", "imports it from elsewhere", "defines it", "no parser", "no script"],
)
def test_a_default_that_the_script_may_change_is_unknown(run, write, train):
    config = {**OF_TRAINER, "gradient_clipping": 0.5}
    write({"conf/ds.json": config, "run.sh": f"deepspeed train.py {FLAGS}\n", "train.py": TRAIN})
    (mismatch,) = with_code("DS610", findings(run, "."))
    assert mismatch["key"] == "gradient_clipping"
    write({"train.py": train} if train is not None else {"train.py": "raise SystemExit\n"})
    assert with_code("DS610", findings(run, ".")) == []


def test_the_defaults_are_known_of_arguments_that_are_unpacked_in_a_function(run, write):
    script = """\
from transformers import Trainer, TrainingArguments as Arguments
def main():
    common = {"seed": 1}
    Trainer(args=Arguments("out", deepspeed="ds.json", **common)).train()
main()
"""
    write({"ds.json": {**OF_TRAINER, "gradient_clipping": 0.5}, "train.py": script})
    (mismatch,) = with_code("DS610", findings(run, "."))
    assert mismatch["key"] == "gradient_clipping"


UNEQUAL = {**OF_TRAINER, "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 0.5}
OWN_OPTIONS = """\
from dataclasses import dataclass, field
from transformers import HfArgumentParser, Trainer, TrainingArguments
@dataclass
class Data:
    corpus: str = "c4"
    splits: list[str] = field(default_factory=list)
    packing: bool = False
data, args = HfArgumentParser((Data, TrainingArguments)).parse_args_into_dataclasses()
Trainer(args=args).train()
"""


def doubts(flags):
    """The words that may change what others of a launch say."""
    (launch,) = launches_in(f"deepspeed train.py {FLAGS} {flags}", "run.sh", lambda _: None).launches
    return LaunchFacts(launch, Document("run.sh", flags, None, []), read_training_script(OWN_OPTIONS)).doubts


@pytest.mark.parametrize(
    "flags",
    [
        '--seed "$SEED"',
        "--seed=$SEED --bf16",
        "--run_name night-$DAY --logging_steps 5",
        "--report_to $WHERE",
        "--save_steps $((EPOCH * 2))",
        '--corpus "$CORPUS"',
        "--splits $SPLITS",
        "--odd=$ODD",
        "--odd data/$ODD",
        "--odd $((8 / $N))",
    ],
)
def test_an_unknown_value_of_an_option_changes_nothing_else(flags):
    assert doubts(flags) == []


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ('"$@"', "$@"),
        ("$EXTRA --bf16", "$EXTRA"),
        ("${EXTRA:+--fp16}", "$EXTRA"),
        ("$(cat flags.txt)", "$(cat flags.txt)"),
        ('"${MORE[@]}"', "$MORE"),
        ("--odd $ODD", "$ODD"),  # which may be its value, or options behind it
        ("--packing $EXTRA", "$EXTRA"),
        ("--splits a $EXTRA", "$EXTRA"),
        ('--output_dir "$@"', "$@"),
        ("--use_$MODE yes", "$MODE"),
    ],
)
def test_an_unknown_word_that_may_be_options_is_a_doubt(flags, name):
    assert doubts(flags) == [name]


def of_clipping_and_batch(run, write, flags, launcher="deepspeed"):
    """The severities of findings that rest on a default and on a written argument, and the doubts about the latter."""
    flags = f"{FLAGS} --per_device_train_batch_size 2 {flags}"
    write({"conf/ds.json": UNEQUAL, "train.py": TRAIN, "run.sh": f"{launcher} train.py {flags}\n"})
    found = {finding["key"]: finding for finding in with_code("DS610", findings(run, "."))}
    batch = found.pop("train_micro_batch_size_per_gpu")
    return [one["severity"] for one in found.values()], batch["severity"], batch.get("doubts")


def test_beside_unknown_options_what_is_written_counts_and_no_default(run, write):
    certain = (["error"], "error", None)
    assert of_clipping_and_batch(run, write, '--seed "$SEED"') == certain
    assert of_clipping_and_batch(run, write, "", "deepspeed --num_gpus=$N") == certain
    assert of_clipping_and_batch(run, write, "", "deepspeed $MORE") == certain
    assert of_clipping_and_batch(run, write, '"$@"') == ([], "warning", ["$@"])
    assert "unknown: `$@` of the launch may change this" in run("check", ".").stdout


def test_ranks_beside_unknown_options_of_the_launcher_are_doubted(run, write):
    sure = "deepspeed --num_gpus 4 --num_nodes 1 {} train.py --deepspeed --deepspeed_config ds.json\n"
    write({"ds.json": BATCH, "run.sh": sure.format("$MORE")})
    (finding,) = with_code("DS512", findings(run, "."))
    assert (finding["severity"], finding.get("doubts")) == ("warning", ["$MORE"])
    write({"sure.sh": sure.format("")})
    (finding,) = with_code("DS512", findings(run, "."))
    assert (finding["severity"], finding.get("doubts")) == ("error", None)


def test_a_script_may_stand_in_an_unknown_folder(run, write):
    write({"ds.json": BATCH, "run.sh": "deepspeed $HERE/train.py --deepspeed_config ds.json --local_rank $RANK\n"})
    (launch,) = shown(run, ".")
    assert (launch["script"], launch["deepspeed_config"]) == (None, "ds.json")
    write({"run.sh": 'deepspeed --num_gpus 4 "$SCRIPT" --deepspeed_config ds.json "$@"\n'})
    (launch,) = shown(run, ".")
    assert (launch["world_size"], launch["arguments"]) == (4, {"deepspeed_config": "ds.json"})


def test_a_batch_size_that_the_script_may_search_for_is_doubted(run, write):
    write({"conf/ds.json": UNEQUAL, "run.sh": f"deepspeed mine.py {FLAGS} --per_device_train_batch_size 2\n"})
    (finding,) = with_code("DS610", findings(run, "."))
    assert (finding["severity"], finding["key"]) == ("warning", "train_micro_batch_size_per_gpu")
    assert finding["message"].endswith("raises unless `auto_find_batch_size` is true")


def test_a_config_in_one_of_two_places_is_not_guessed(run, write):
    launch = "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config ds.json\n"
    write({"ds.json": BATCH, "sub/ds.json": BATCH, "sub/run.sh": launch})
    assert findings(run, ".") == []
    write({"sub/run.sh": f'cd "$(dirname "$0")"\n{launch}'})
    assert [finding["path"] for finding in findings(run, ".")] == ["./sub/ds.json"]


@pytest.mark.parametrize(
    "folder",
    [
        '$(cd "$(dirname "$0")/.." && pwd)',
        '$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )/..',
        '$(dirname "$(readlink -f "$0")")/..',
        "${BASH_SOURCE[0]%/*}/..",
        '""; cd "$(dirname "$0")/.."; ROOT=$PWD',
    ],
)
def test_a_file_is_found_from_the_folder_of_the_script(run, write, folder):
    launch = f"ROOT={folder}\ndeepspeed --num_gpus 4 $ROOT/train.py --deepspeed --deepspeed_config=$ROOT/conf/ds.json\n"
    write({"conf/ds.json": BATCH, "train.py": "", "sub/run.sh": launch})
    assert [finding["path"] for finding in findings(run, ".")] == ["./conf/ds.json"]
    (shown_one,) = shown(run, ".")
    assert (shown_one["script"], shown_one["deepspeed_config"]) == ("train.py", "conf/ds.json")
    write({"sub/run.sh": launch.replace("\n", "\ncd $ROOT/conf\n", 1)})
    (shown_one,) = shown(run, ".")
    assert (shown_one["script"], shown_one["deepspeed_config"]) == ("../train.py", "ds.json")
    write({"sub/conf/ds.json": BATCH, "sub/run.sh": launch})  # of which one may be meant, if the folder is not known
    (shown_one,) = shown(run, ".")
    assert shown_one["deepspeed_config"] is None


def test_accelerates_yaml_and_the_file_that_it_names_know_their_launch(run, write):
    yaml = "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    write({"acc.yaml": yaml, "ds.json": BATCH, "run.sh": "accelerate launch --config_file acc.yaml train.py\n"})
    (finding,) = with_code("DS512", findings(run, "."))
    assert (finding["path"], finding["related"][-1]["path"]) == ("./ds.json", "./run.sh")


def test_one_file_of_a_repository_is_checked_with_its_launch(run, write, tmp_path):
    launch = "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config conf/ds.json\n"
    write({"conf/ds.json": BATCH, "run.sh": launch})
    assert findings(run, "conf/ds.json") == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (finding,) = findings(run, "conf/ds.json")
    assert finding["code"] == "DS512"


def test_what_is_understood_of_a_launch_is_shown(run, write):
    write(
        {"run.sh": "GPUS=${GPUS:-8}\n\ndeepspeed --num_nodes 2 --num_gpus $GPUS train.py --x $Y --deepspeed ds.json\n"}
    )
    (launch,) = shown(run, ".")
    assert launch == {
        "path": "run.sh",
        "line": 3,
        "launcher": "deepspeed",
        "nodes": 2,
        "processes_per_node": 8,
        "world_size": 16,
        "command": [
            "deepspeed",
            "--num_nodes",
            "2",
            "--num_gpus",
            "8",
            "train.py",
            "--x",
            None,
            "--deepspeed",
            "ds.json",
        ],
        "script": "train.py",
        "recipe": None,
        "accelerate_config": None,
        "deepspeed_config": "ds.json",
        "arguments": {"x": None, "deepspeed": "ds.json"},
        "unknown": ["Y"],
    }
    assert shown(run, "run.sh") == [launch]
    text = run("check", "--show-launches").stdout
    assert text.startswith(
        "run.sh:3  deepspeed, 16 ranks on 2 nodes, script train.py, DeepSpeed config ds.json, unknown: Y\n"
    )


def test_a_script_that_is_not_understood_is_said(run, write):
    write({"run.sh": "deepspeed --host <node> <other> train.py\ndeepspeed b.py\n"})
    result = run("check", "--show-launches")
    assert "run.sh:1: this part is not understood" in result.stderr


@pytest.mark.parametrize(
    ("files", "world_size"),
    [
        ({"run.sh": "deepspeed --hostfile hosts train.py", "hosts": "a slots=4\nb slots=4\n"}, 8),
        ({"run.sh": "deepspeed --include a:0,1@b:2,3 train.py"}, 4),
        ({"run.sh": "export CUDA_VISIBLE_DEVICES=0,1,2\ndeepspeed train.py"}, 3),
        ({"run.sh": "deepspeed train.py"}, None),
        ({"run.sh": "deepspeed $OPTIONS --num_gpus 2 train.py"}, None),
        ({"run.sh": "torchrun train.py"}, 1),
        ({"run.sh": "torchrun --nnodes 2 --nproc-per-node 4 train.py"}, 8),
        ({"run.sh": "torchrun --nnodes 1:4 --nproc_per_node gpu train.py"}, None),
        ({"run.sh": "accelerate launch --num_processes 8 --num_machines 2 train.py"}, 8),
        (
            {
                "run.sh": "accelerate launch --config_file c.yaml train.py",
                "c.yaml": "num_machines: 2\nnum_processes: 16",
            },
            16,
        ),
        ({"run.sh": "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\nsrun python train.py --deepspeed x"}, 8),
        ({"run.sh": "#SBATCH --nodes=2\nsrun torchrun --nnodes 2 --nproc_per_node 8 train.py"}, 16),
        ({"run.sh": "srun -n 6 python train.py --deepspeed x"}, 6),
        ({"run.sh": "mpirun -np 4 python train.py --deepspeed x"}, 4),
        ({"run.sh": "python train.py --deepspeed x"}, 1),
        ({"run.sh": "NPROC_PER_NODE=4 swift sft --model x"}, 4),
        ({"run.sh": "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train x.yaml"}, 16),
        ({"run.sh": "llamafactory-cli train x.yaml"}, None),
        ({"run.sh": "trl sft --config x.yaml --accelerate_config c.yaml", "c.yaml": FOUR, "x.yaml": "seed: 1"}, 4),
        ({"run.sh": "trl sft --config x.yaml --accelerate_config c.yaml", "c.yaml": FOUR, "x.yaml": FOUR}, None),
        ({"run.sh": "trl sft --num_processes 2 --config x.yaml --accelerate_config c.yaml", "c.yaml": FOUR}, 2),
        ({"run.sh": "trl sft --model m --accelerate_config zero3"}, 8),  # by the YAML of trl
        ({"run.sh": "axolotl train x.yaml --launcher torchrun -- --nnodes=2 --nproc_per_node=4"}, 8),
        ({"run.sh": "axolotl train x.yaml --launcher accelerate -- --config_file=c.yaml", "c.yaml": FOUR}, 4),
        ({"run.sh": "axolotl train x.yaml --num-processes 3"}, 3),
        ({"run.sh": "axolotl train x.yaml --launcher python"}, 1),
        ({"run.sh": "trl sft --model m --launcher python --num_processes 3"}, 3),  # no option of it
        ({"run.sh": "axolotl train x.yaml"}, None),
    ],
    ids=lambda value: value.get("run.sh", "")[-45:] if isinstance(value, dict) else str(value),
)
def test_the_number_of_ranks_follows_from_the_launch(run, write, files, world_size):
    write(files)
    (launch,) = shown(run, ".")
    assert launch["world_size"] == world_size


@pytest.mark.parametrize(
    "line",
    [
        *("deepspeed --help-me", "python prepare.py", "accelerate config", "swift infer", "ls"),
        *(
            "python -m deepspeed x.py --deepspeed ds.json",
            "python -m trl sft",
            "python -m torchrun x.py",
            "torch.distributed.run x.py",
        ),
    ],
)
def test_other_commands_are_no_launches(run, write, line):
    write({"run.sh": f"echo deepspeed\n{line}\n".replace("deepspeed --help-me", "echo deepspeed train.py")})
    assert shown(run, ".") == []


def test_a_loop_of_ones_own_is_not_taken_for_the_trainer(run, write):
    """Examples such as run_clm_no_trainer.py have flags with the names of training arguments."""
    yaml = (
        "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  gradient_clipping: 0.5\n  zero_stage: 2\n"
    )
    flags = "--learning_rate 1e-5 --gradient_accumulation_steps 4 --per_device_train_batch_size 1 --output_dir o"
    write({"acc.yaml": yaml, "run.sh": f"accelerate launch --config_file acc.yaml run_no_trainer.py {flags}\n"})
    assert findings(run, ".") == []
    write(
        {"run.sh": f"accelerate launch --config_file acc.yaml train.py {flags} --save_steps 100 --max_grad_norm 0.1\n"}
    )
    assert [finding["code"] for finding in findings(run, ".")] == ["DS610"]


def test_training_arguments_may_be_a_whole_launch_command(run, write):
    write({"conf/ds.json": OF_TRAINER})
    (finding,) = with_code("DS517", findings(run, "conf/ds.json", "--trainer-args", f"deepspeed train.py {FLAGS}"))
    assert "cosine" in finding["message"]
    for said in ("ls -la", "no such.yaml"):
        assert run("check", "conf/ds.json", "--trainer-args", said).stderr.startswith(f"ds-lint: {said}: No such file")
    two = run("check", "conf/ds.json", "--trainer-args", "deepspeed a.py --bf16; deepspeed b.py --fp16")
    assert (two.returncode, "has 2 launch commands" in two.stderr) == (2, True)


def test_a_finding_points_into_the_script_that_a_launch_starts(run, write):
    script = "import torch\nimport deepspeed\noptimizer = torch.optim.AdamW(model.parameters())\n"
    script += "engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, args=args)\n"
    offload = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    launches = "deepspeed --num_gpus 8 src/train.py --deepspeed_config ds.json\n"
    launches += launches.replace("8", "4")
    write({"ds.json": offload, "src/train.py": script, "run.sh": launches})
    (finding,) = with_code("DS823", findings(run, "."))
    assert (finding["path"], finding["span"]["start"]["line"]) == ("./src/train.py", 3)
    assert finding["related"][0]["path"] == "./ds.json"


def test_accelerate_that_builds_whole_models_takes_a_device_map(run, write):
    script = "from accelerate import Accelerator\nfrom transformers import AutoModel\naccelerator = Accelerator()\n"
    script += 'model = AutoModel.from_pretrained("m", device_map={"": 0})\n'
    yaml = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  zero3_init_flag: {}\nnum_processes: 2\n"
    for flag in ("true", "false"):
        write(
            {
                "a.yaml": yaml.format(flag),
                "train.py": script,
                "run.sh": "accelerate launch --config_file a.yaml train.py\n",
            }
        )
        assert len(with_code("DS820", findings(run, "."))) == (flag == "true")


def test_of_a_flag_given_twice_the_last_counts(run, write):
    flags = FLAGS.replace("cosine", "linear --lr_scheduler_type cosine")
    write({"conf/ds.json": OF_TRAINER, "train.py": TRAIN, "run.sh": f"deepspeed train.py {flags}\n"})
    (finding,) = with_code("DS517", findings(run, "."))
    assert "`lr_scheduler_type` cosine" in finding["message"]


def test_the_place_of_a_launch_is_in_the_file_that_has_it(run, write):
    launch = "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config ds.json\n"
    common = f"# one\n# two\nstart() {{\n  {launch}}}\n"
    write({"ds.json": BATCH, "run.sh": "# with deepspeed\nsource ./common.sh\nstart\n", "common.sh": common})
    (finding,) = with_code("DS512", findings(run, "."))
    (place,) = [place for place in finding["related"] if place["path"].endswith(".sh")]
    assert (place["path"], place["span"]["start"]["line"]) == ("./common.sh", 4)


def test_a_script_that_python_starts_is_read_for_what_it_uses(run, write):
    write({"ds.json": BATCH, "run.sh": "python train.py\n", "train.py": "import deepspeed\n"})
    assert [launch["launcher"] for launch in shown(run, ".")] == ["python"]


WRITES = """\
#!/bin/bash
GPUS={gpus}
CONFIG=conf_$GPUS.json
cat > $CONFIG <<EOT
{{"train_batch_size": 10, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}}
EOT
deepspeed --num_gpus $GPUS train.py --deepspeed --deepspeed_config $CONFIG
"""


def test_a_config_that_a_script_writes_is_checked_with_the_launch_behind(run, write):
    write({"run.sh": WRITES.format(gpus=4)})
    for path in (".", "run.sh"):
        (finding,) = findings(run, path)
        assert (finding["code"], finding["span"]["start"]["line"]) == ("DS512", 5)
        assert [(place["label"], place["span"]["start"]["line"]) for place in finding["related"]][-1] == (
            "launched here",
            7,
        )
    write({"run.sh": WRITES.format(gpus=5)})
    assert findings(run, ".") == []


@pytest.mark.parametrize(
    "written",
    [
        "tee ds.json <<'EOT'\n{}\nEOT\n",
        "cat <<EOT > ./ds.json\n{}\nEOT\n",
        "echo '{}' > ds.json\n",
        "cat > ds.json <<-EOT\n\t{}\n\tEOT\n",
        "mkdir -p conf\ncd conf\ncat > ../ds.json <<EOT\n{}\nEOT\ncd ..\n",
    ],
    ids=["tee", "redirection behind", "echo", "tabs", "another folder"],
)
def test_however_the_script_writes_it(run, write, written):
    launch = "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config ds.json\n"
    write({"run.sh": written.format(json.dumps(BATCH)) + launch})
    (finding,) = findings(run, "run.sh")
    assert finding["code"] == "DS512"


def test_each_config_of_a_script_has_its_own_launch(run, write):
    once = "cat > {0}.json <<EOT\n{1}\nEOT\ndeepspeed --num_gpus {2} a.py --deepspeed --deepspeed_config {0}.json\n"
    texts = [once.format(name, json.dumps(BATCH), gpus) for name, gpus in (("a", 5), ("b", 4))]
    write({"run.sh": "".join(texts)})
    (finding,) = findings(run, ".")
    assert finding["span"]["start"]["line"] == 6


@pytest.mark.parametrize(
    "script",
    [
        "cat >> ds.json <<EOT\n{0}\nEOT\n{1}",  # behind what is in it
        "cat > other.json <<EOT\n{0}\nEOT\n{1}",
        "{1}cat > ds.json <<EOT\n{0}\nEOT\n",
        "cat > ds.json <<EOT\n{0}\nEOT\ncat > ds.json <<EOT\n{2}\nEOT\n{1}",
        "cd $SOMEWHERE\ncat > ds.json <<EOT\n{0}\nEOT\ncd $ELSEWHERE\n{1}",
    ],
    ids=["appended", "another file", "behind the launch", "written again", "unknown folders"],
)
def test_a_config_that_the_launch_may_not_read_is_checked_without_it(run, write, script):
    launch = "deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config ds.json\n"
    write({"run.sh": script.format(json.dumps(BATCH), launch, json.dumps({**BATCH, "train_batch_size": 8}))})
    assert [one for one in findings(run, "run.sh") if one["code"] != "DS881"] == []


WITH_RANKS = """\
import deepspeed, sys
CONFIG = {{"train_batch_size": {total}, "train_micro_batch_size_per_gpu": 6, "gradient_accumulation_steps": 2,
          "optimizer": {{"type": "AdamW"}}, "zero_optimization": {{"stage": 1}}}}

def work(*_):
    deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)

{main}
"""


@pytest.mark.parametrize(
    ("main", "is_known"),
    [
        ("import torch.multiprocessing as mp\nmp.spawn(work, nprocs=4)", True),
        ("from accelerate import notebook_launcher\nnotebook_launcher(work, num_processes=4)", True),
        ("import subprocess\nsubprocess.run(['torchrun', '--nproc_per_node', '4', __file__])", True),
        ("import os\nos.execvp('torchrun', ['torchrun', '--nproc_per_node', '4', sys.argv[0]])", True),
        ("import ray\nray.get([ray.remote(work).remote() for _ in range(4)])", False),
        ("import multiprocessing\nfor rank in range(4):\n    multiprocessing.Process(target=work).start()", False),
    ],
)
def test_the_script_that_python_starts_may_start_the_ranks(run, write, main, is_known):
    for total, wrong in ((48, 0), (36, 1)):
        write({"run.sh": "python train.py\n", "train.py": WITH_RANKS.format(total=total, main=main)})
        found = findings(run, ".")
        assert [one["code"] for one in found] == ["DS512"] * (wrong and is_known)
        assert all("4 ranks = 48" in one["message"] for one in found)


def test_a_module_that_python_starts_is_read(run, write):
    write({"run.sh": "python -m jobs.train\n", "jobs/train.py": WITH_RANKS.format(total=36, main="work()")})
    assert {one["code"] for one in findings(run, ".")} == {"DS512", "DS803", "DS830"}


LIGHTNING = "import json\nimport lightning as L\nfrom lightning.pytorch.strategies import DeepSpeedStrategy\n"


@pytest.mark.parametrize(
    "script",
    [
        LIGHTNING + "strategy = DeepSpeedStrategy(config='ds.json')\n",
        LIGHTNING + "with open('ds.json') as f:\n    config = json.load(f)\nDeepSpeedStrategy(config=config)\n",
    ],
)
def test_a_script_that_nothing_starts_tells_who_takes_a_config(run, write, script):
    write({"ds.json": {"zero_optimization": {"stage": 2}, "gradient_clipping": 1.0}})
    assert [one["code"] for one in findings(run, ".")] == ["DS511"]
    write({"train.py": script})
    assert findings(run, ".") == []


def test_a_script_that_nothing_starts_has_its_own_training_arguments(run, write):
    script = "from transformers import Trainer, TrainingArguments\n"
    script += "args = TrainingArguments('out', deepspeed='ds.json', per_device_train_batch_size=4)\nTrainer(m, args)\n"
    write({"ds.json": {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}, "train.py": script})
    (finding,) = with_code("DS610", findings(run, "."))
    assert "train.py:2" in finding["message"]
