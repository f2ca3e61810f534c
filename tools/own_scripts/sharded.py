# ruff: noqa: E501 - commands and paths
"""Scripts that train with FSDP: of torch itself, through Accelerate, and through the Trainer."""

from __future__ import annotations

from tools.own_scripts import materials as made
from tools.own_scripts.recipe import ACCELERATE, TORCH, TORCHRUN, TRAINER, Recipe
from tools.own_scripts.repositories import (
    ACCELERATE_REPOSITORY,
    FAST_CHAT,
    PEFT,
    TORCH_EXAMPLES,
    TRL,
)

OLDEST = "transformers 4.45.2"
FSDP_1, FSDP_2 = "fsdp1", "fsdp2"

RECIPES = (
    Recipe(
        "torch-fsdp-t5", TORCH_EXAMPLES, "distributed/FSDP/T5_training.py", "torchrun", TORCH, 1,
        f"{TORCHRUN} source/distributed/FSDP/T5_training.py --batch-size 2 --epochs 1",
        (made.t5("t5-base", padded=0, ends=1), made.sentence_pieces("t5-base"),
         made.named_dataset("wikihow", "all", made.article, "train", "validation", count=3000),
         made.module("nlp/__init__.py", "from datasets import load_dataset as _load\n\n\ndef load_dataset(name, subset, data_dir=None, **options):\n    return _load(name, subset, **options)"),
         made.module("pkg_resources/__init__.py", "import packaging.version")),
        older=OLDEST, wrapping=FSDP_1,
    ),
    Recipe(
        "torch-fsdp2", TORCH_EXAMPLES, "distributed/FSDP2/example.py", "torchrun", TORCH, 1,
        f"{TORCHRUN} source/distributed/FSDP2/example.py --mixed-precision --dcp-api",
        (), wrapping=FSDP_2,
    ),
    Recipe(
        "accelerate-fsdp-peak-memory", ACCELERATE_REPOSITORY, "examples/by_feature/fsdp_with_peak_mem_tracking.py", "accelerate",
        ACCELERATE, 1,
        # The plugin that the script makes writes whole state dicts, and the template asks for sharded ones.
        "accelerate launch --config_file source/examples/config_yaml_templates/fsdp.yaml "
        "--fsdp_state_dict_type FULL_STATE_DICT --main_process_port {port} "
        "source/examples/by_feature/fsdp_with_peak_mem_tracking.py --model_name_or_path bert "
        "--checkpointing_steps 2 --output_dir out",
        (made.bert("bert"), made.tokenizer("bert"),
         made.named_dataset("nyu-mll/glue", "mrpc", made.pair, "train", "validation"), made.metric("glue")),
        wrapping=FSDP_1,
    ),
    Recipe(
        "fastchat", FAST_CHAT, "fastchat/train/train.py", "torchrun", TRAINER, 1,
        f"{TORCHRUN} source/fastchat/train/train.py --model_name_or_path model --data_path data.json --bf16 True "
        "--output_dir out --num_train_epochs 3 --per_device_train_batch_size 2 --gradient_accumulation_steps 2 "
        "--evaluation_strategy no --save_strategy steps --save_steps 1200 --learning_rate 2e-5 --weight_decay 0. "
        "--warmup_ratio 0.03 --lr_scheduler_type cosine --logging_steps 1 --fsdp 'full_shard auto_wrap' "
        "--fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer --model_max_length 256 --gradient_checkpointing True "
        "--lazy_preprocess True --report_to none",
        (made.llama("model"), made.tokenizer("model", begins=True),
         made.document("data.json", [made.turns(number) for number in range(made.ROWS)])),
        importable=("",), older=OLDEST, wrapping=FSDP_1,
    ),
    Recipe(
        "trl-cli-sft-fsdp2", TRL, "trl.cli", "trl", TRAINER, 1,
        "trl sft --accelerate_config fsdp2 --num_processes 2 --main_process_port {port} --model_name_or_path model "
        "--dataset_name data --output_dir out --per_device_train_batch_size 2 --bf16 true --max_steps 30 "
        "--logging_steps 1 --report_to none --max_length 64",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.conversation)),
        wrapping=FSDP_2,
    ),
    Recipe(
        "peft-sft-fsdp", PEFT, "examples/sft/train.py", "accelerate", TRAINER, 1,
        "accelerate launch --config_file source/examples/sft/configs/fsdp_config.yaml --num_processes 2 "
        "--main_process_port {port} source/examples/sft/train.py --model_name_or_path model --dataset_name data "
        "--splits train,test --max_length 64 --bf16 true --use_peft_lora --lora_r 4 --lora_target_modules all-linear "
        "--per_device_train_batch_size 1 --gradient_accumulation_steps 4 "
        "--max_steps 30 --learning_rate 1e-3 --logging_steps 1 --output_dir out --report_to none",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.text)),
        wrapping=FSDP_1,
    ),
    Recipe(
        "accelerate-nd-parallel", ACCELERATE_REPOSITORY, "examples/torch_native_parallelism/nd_parallel.py", "accelerate", ACCELERATE,
        1,
        "accelerate launch --num_processes 2 --num_machines 1 --multi_gpu --mixed_precision bf16 "
        "--main_process_port {port} source/examples/torch_native_parallelism/nd_parallel.py --dp-shard-size 2 "
        "--sequence-length 64 --num-steps 30 --checkpoint-frequency 2 --model-name model --save-dir out",
        (made.llama("model"), made.tokenizer("model"), made.dataset("roneneldan/TinyStories", made.text, "train")),
        wrapping=FSDP_2,
    ),
)  # fmt: skip
