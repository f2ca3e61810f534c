# ruff: noqa: E501 - commands and paths
"""Which scripts are run, and with what: a record for each.

No script is stored here or changed. A command is run in a folder of its own, in which ``source`` is the repository at the
commit, and the rest is made by ``tools/own_scripts/materials.py``. Of the command, ``{port}`` becomes a free port.
"""

from __future__ import annotations

from typing import Any

from tools.own_scripts import materials as made
from tools.own_scripts import projects, sharded
from tools.own_scripts.recipe import (
    ACCELERATE,
    DEEPSPEED,
    LAUNCH,
    LAUNCHER,
    TORCHRUN,
    TRAINER,
    Recipe,
)
from tools.own_scripts.repositories import (
    ACCELERATE_PACKAGE,
    ACCELERATE_REPOSITORY,
    ALPACA,
    DEEPSPEED_REPOSITORY,
    EXAMPLES,
    LLAMA_FACTORY,
    MEGATRON,
    PEFT,
    TRANSFORMERS,
    TRL,
)

MEGATRON_ARGUMENTS = (
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
    "--micro-batch-size 1 --global-batch-size 4 --train-iters 30 --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine "
    "--lr-warmup-iters 2 --weight-decay 0.1 --clip-grad 1.0 --data-path tokens --data-impl mmap --split 90,5,5 "
    "--tokenizer-type NullTokenizer --vocab-size 500 --bf16 --no-masked-softmax-fusion --no-bias-gelu-fusion "
    "--no-bias-dropout-fusion --no-gradient-accumulation-fusion --log-interval 1 --eval-interval 100 --eval-iters 1 "
    "--save out --save-interval 100 --distributed-backend gloo --deepspeed --deepspeed_config ds.json --zero-stage 1"
)
MEGATRON_MATERIALS = (
    made.token_file("tokens", documents=400, length=100, vocabulary=500),
    # pretrain_gpt.py imports the code for images too.
    made.module("torchvision/__init__.py", "from torchvision import datasets, transforms"),
    made.module("torchvision/datasets.py", "class VisionDataset: pass\nclass DatasetFolder: pass"),
    made.module("torchvision/transforms.py", ""),
    made.document("ds.json", {
        "train_batch_size": 4, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
        "bf16": {"enabled": True}, "zero_optimization": {"stage": 1}}),
)  # fmt: skip
# Random images in the place of data sets that torchvision downloads.
IMAGES = (
    made.module("torchvision/__init__.py", "from torchvision import datasets, transforms, utils"),
    made.module("torchvision/datasets.py", """import torch


class FakeData(torch.utils.data.Dataset):
    def __init__(self, image_size=(3, 32, 32), **_):
        self.size = image_size

    def __len__(self):
        return 2000

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.rand(self.size, generator=generator) * 2 - 1, index % 10


CIFAR10 = FakeData"""),
    made.module("torchvision/transforms.py", "Compose = Normalize = ToTensor = lambda *_: None"),
    made.module("torchvision/utils.py", "save_image = lambda *_, **__: None"),
)  # fmt: skip


def trainer_config(stage: int, precision: str = "bf16", **zero: Any) -> dict[str, object]:
    """A config whose values are those of the training arguments."""
    return {
        "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto", precision: {"enabled": "auto"},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
        "scheduler": {"type": "WarmupDecayLR", "params": {
            "total_num_steps": "auto", "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
        "zero_optimization": {"stage": stage, **zero},
    }  # fmt: skip


# The parameters of models this small would all stay whole on every rank.
SHARDED: dict[str, Any] = {"stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}
TRL_ARGUMENTS = (
    "--model_name_or_path model --dataset_name data --output_dir out --per_device_train_batch_size 2 "
    "--learning_rate 1e-3 --bf16 true --max_steps 30 --logging_steps 1 --report_to none --deepspeed ds.json"
)
BERT_DATA = (
    made.named_dataset("nyu-mll/glue", "mrpc", made.pair, "train", "validation"),
    made.metric("glue"),
)
OLDER = "transformers 4.51.3"
OLDER_TRL = "trl 0.24.0"  # the newest that the framework allows
CHAT = "applications/DeepSpeed-Chat"

RECIPES = (
    Recipe(
        "transformers-run-clm", TRANSFORMERS, "examples/pytorch/language-modeling/run_clm.py", "torchrun", TRAINER, 1,
        f"{TORCHRUN} source/examples/pytorch/language-modeling/run_clm.py --model_name_or_path model "
        "--train_file train.txt --validation_file train.txt --block_size 32 --do_train --do_eval --output_dir out "
        "--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --max_steps 30 --eval_strategy steps "
        "--eval_steps 2 --max_eval_samples 8 --logging_steps 1 --bf16 --max_grad_norm 0.5 --report_to none "
        "--deepspeed ds.json",
        (made.llama("model"), made.tokenizer("model"), made.lines("train.txt"), made.metric("accuracy"),
         made.document("ds.json", trainer_config(3, **SHARDED))),
    ),
    Recipe(
        "transformers-run-translation", TRANSFORMERS, "examples/pytorch/translation/run_translation.py", "deepspeed",
        TRAINER, 1,
        f"{LAUNCHER} source/examples/pytorch/translation/run_translation.py --model_name_or_path model "
        "--train_file train.jsonl --source_lang en --target_lang ro --max_source_length 32 --max_target_length 32 "
        "--do_train --output_dir out --per_device_train_batch_size 2 --max_steps 30 --save_steps 2 --logging_steps 1 "
        "--label_smoothing_factor 0.1 --report_to none --bf16 --deepspeed ds.json",
        (made.t5("model"), made.tokenizer("model"), made.rows("train.jsonl", made.translation), made.metric("sacrebleu"),
         made.document("ds.json", trainer_config(2, offload_optimizer={"device": "cpu"}))),
    ),
    Recipe(
        "transformers-run-glue", TRANSFORMERS, "examples/pytorch/text-classification/run_glue.py", "torchrun", TRAINER, 1,
        f"{TORCHRUN} source/examples/pytorch/text-classification/run_glue.py --model_name_or_path model "
        "--train_file train.json --validation_file train.json --max_seq_length 32 --do_train --output_dir out "
        "--per_device_train_batch_size 4 --max_steps 30 --logging_steps 1 --fp16 --report_to none --deepspeed ds.json",
        (made.bert("model"), made.tokenizer("model"), made.rows("train.json", made.pair), made.metric("accuracy"),
         made.document("ds.json", trainer_config(1, "fp16"))),
    ),
    Recipe(
        "transformers-run-clm-no-trainer", TRANSFORMERS, "examples/pytorch/language-modeling/run_clm_no_trainer.py",
        "accelerate", ACCELERATE, 1,
        f"{LAUNCH} --zero_stage 2 --mixed_precision bf16 --gradient_accumulation_steps 2 --gradient_clipping 1.0 "
        "source/examples/pytorch/language-modeling/run_clm_no_trainer.py --model_name_or_path model "
        "--train_file train.txt --validation_file train.txt --block_size 32 --per_device_train_batch_size 2 "
        "--gradient_accumulation_steps 2 --max_train_steps 30 --num_warmup_steps 2 --checkpointing_steps 2 "
        "--output_dir out",
        (made.opt("model"), made.tokenizer("model"), made.lines("train.txt")),
    ),
    Recipe(
        "accelerate-config-support", ACCELERATE_REPOSITORY, "examples/by_feature/deepspeed_with_config_support.py",
        "accelerate", ACCELERATE, 1,
        f"{LAUNCH} --deepspeed_config_file ds.json --zero3_init_flag true "
        "source/examples/by_feature/deepspeed_with_config_support.py --model_name_or_path model --train_file train.txt "
        "--block_size 32 --per_device_train_batch_size 2 --num_train_epochs 1 --learning_rate 1e-3 --output_dir out",
        (made.llama("model"), made.tokenizer("model"), made.lines("train.txt"),
         made.document("ds.json", {
             "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 2,
             "gradient_clipping": 1.0,
             "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
             "scheduler": {"type": "WarmupDecayLR", "params": {
                 "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto",
                 "total_num_steps": "auto"}},
             "zero_optimization": {"stage": 3, **SHARDED, "offload_optimizer": {"device": "cpu"},
                                   "offload_param": {"device": "cpu"}}})),
    ),
    Recipe(
        "accelerate-nlp-example", ACCELERATE_REPOSITORY, "examples/nlp_example.py", "accelerate", ACCELERATE, 1,
        f"{LAUNCH} --zero_stage 1 --mixed_precision bf16 source/examples/nlp_example.py",
        (made.bert("bert-base-cased"), made.tokenizer("bert-base-cased"), *BERT_DATA),
    ),
    Recipe(
        "accelerate-test-performance", ACCELERATE_PACKAGE, "accelerate.test_utils.scripts.external_deps.test_performance",
        "accelerate", ACCELERATE, 1,
        f"{LAUNCH} --zero_stage 3 --mixed_precision bf16 -m accelerate.test_utils.scripts.external_deps.test_performance "
        "--model_name_or_path bert --num_epochs 1 --output_dir out",
        (made.bert("bert"), made.tokenizer("bert"), *BERT_DATA),
    ),
    Recipe(
        "accelerate-multiple-models", ACCELERATE_REPOSITORY,
        "src/accelerate/test_utils/scripts/external_deps/test_ds_multiple_model.py", "torchrun", ACCELERATE, 4,
        f"{TORCHRUN} source/src/accelerate/test_utils/scripts/external_deps/test_ds_multiple_model.py "
        "--model_name_or_path bert --num_epochs 2",
        (made.bert("bert"), made.tokenizer("bert"), *BERT_DATA),
    ),
    Recipe(
        "trl-sft", TRL, "trl.scripts.sft", "torchrun", TRAINER, 1,
        f"{TORCHRUN} -m trl.scripts.sft {TRL_ARGUMENTS} --gradient_accumulation_steps 2 --max_length 64 "
        "--use_peft --lora_r 4 --lora_target_modules q_proj v_proj",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.conversation),
         made.document("ds.json", trainer_config(3, **SHARDED))),
    ),
    Recipe(
        "trl-dpo", TRL, "trl.scripts.dpo", "accelerate", TRAINER, 2,
        f"accelerate launch --num_processes 2 --num_machines 1 --multi_gpu --main_process_port {{port}} "
        f"-m trl.scripts.dpo {TRL_ARGUMENTS} --max_length 64",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.preference),
         made.document("ds.json", trainer_config(3, **SHARDED))),
    ),
    Recipe(
        "trl-grpo", TRL, "trl.scripts.grpo", "deepspeed", TRAINER, 2,
        f"{LAUNCHER} --module trl.scripts.grpo {TRL_ARGUMENTS} --num_generations 4 --max_completion_length 12 "
        "--beta 0.04 --reward_model_name_or_path reward",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.prompt),
         made.llama("reward", "LlamaForSequenceClassification", num_labels=1), made.tokenizer("reward"),
         made.document("ds.json", trainer_config(2))),
    ),
    Recipe(
        "trl-reward", TRL, "trl.scripts.reward", "torchrun", TRAINER, 1,
        f"{TORCHRUN} -m trl.scripts.reward {TRL_ARGUMENTS} --max_length 64",
        (made.llama("model", "LlamaForSequenceClassification", num_labels=1), made.tokenizer("model"),
         made.dataset("data", made.preference), made.document("ds.json", trainer_config(2))),
    ),
    Recipe(
        # The program itself parses the arguments, and then launches the ranks.
        "trl-cli-sft", TRL, "trl.cli", "trl", TRAINER, 1,
        "trl sft --accelerate_config zero3 --num_processes 2 --main_process_port {port} --model_name_or_path model "
        "--dataset_name data --output_dir out --per_device_train_batch_size 2 --bf16 true --max_steps 30 "
        "--logging_steps 1 --report_to none --max_length 64 --packing --eval_strategy steps --eval_steps 2",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.conversation)),
    ),
    Recipe(
        # The loss is computed in the forward pass of the engine, which gets the model itself as an input.
        "trl-distillation", TRL, "trl.scripts.distillation", "accelerate", TRAINER, 2,
        f"{LAUNCH} --zero_stage 2 --mixed_precision bf16 -m trl.scripts.distillation --model_name_or_path model "
        "--teacher_model_name_or_path model --dataset_name data --output_dir out --per_device_train_batch_size 2 "
        "--learning_rate 1e-3 --bf16 true --max_steps 30 --logging_steps 1 --report_to none",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.prompt)),
    ),
    Recipe(
        "llama-factory-sft", LLAMA_FACTORY, "src/llamafactory/cli.py", "llamafactory-cli", TRAINER, 1,
        "env DISABLE_VERSION_CHECK=1 FORCE_TORCHRUN=1 NPROC_PER_NODE=2 MASTER_PORT={port} "
        "llamafactory-cli train train.yaml",
        (made.llama("model"), made.tokenizer("model"),
         # It imports the code for audio too.
         made.module("torchaudio/__init__.py", ""),
         made.rows("data/alpaca.json", made.instruction),
         made.document("data/dataset_info.json", {"alpaca": {"file_name": "alpaca.json"}}),
         made.document("train.yaml", {
             "model_name_or_path": "model", "stage": "sft", "do_train": True, "finetuning_type": "full",
             "deepspeed": "source/examples/deepspeed/ds_z3_config.json", "dataset": "alpaca", "template": "empty",
             "cutoff_len": 64, "disable_gradient_checkpointing": True, "output_dir": "saves", "logging_steps": 1,
             "save_steps": 2, "report_to": "none", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2,
             "learning_rate": 1e-5, "lr_scheduler_type": "cosine", "bf16": True})),
        importable=("src",), older=OLDER_TRL,
    ),
    Recipe(
        "peft-sft", PEFT, "examples/sft/train.py", "accelerate", TRAINER, 1,
        "accelerate launch --config_file source/examples/sft/configs/deepspeed_config.yaml --num_processes 2 "
        "--main_process_port {port} source/examples/sft/train.py --model_name_or_path model --dataset_name data "
        "--splits train,test --max_length 64 --bf16 true --use_peft_lora --lora_r 4 --lora_target_modules all-linear "
        "--per_device_train_batch_size 1 --gradient_accumulation_steps 4 --gradient_checkpointing --max_steps 30 "
        "--learning_rate 1e-3 --logging_steps 1 --output_dir out --report_to none",
        (made.llama("model"), made.tokenizer("model"), made.dataset("data", made.text)),
    ),
    Recipe(
        "deepspeed-hello", EXAMPLES, "training/HelloDeepSpeed/train_bert_ds.py", "deepspeed", DEEPSPEED, 1,
        f"{LAUNCHER} source/training/HelloDeepSpeed/train_bert_ds.py --checkpoint_dir experiments --num_layers 2 "
        "--num_heads 4 --h_dim 64 --ff_dim 64 --batch_size 4 --max_seq_length 32 --num_iterations 30 "
        "--checkpoint_every 2 --log_every 1",
        (made.tokenizer("roberta-base", masked=True), made.named_dataset("wikitext", "wikitext-2-v1", made.text, "train")),
    ),
    Recipe(
        "deepspeed-chat-sft", EXAMPLES, f"{CHAT}/training/step1_supervised_finetuning/main.py", "deepspeed", DEEPSPEED, 1,
        f"{LAUNCHER} source/{CHAT}/training/step1_supervised_finetuning/main.py --model_name_or_path facebook/opt "
        "--data_path Dahoas/rm-static --data_split 2,4,4 --data_output_path files --max_seq_len 64 "
        "--per_device_train_batch_size 2 --per_device_eval_batch_size 2 --gradient_accumulation_steps 2 "
        "--num_warmup_steps 2 --zero_stage 2 --offload --dtype bf16 --output_dir out --deepspeed",
        (made.opt("facebook/opt"), made.tokenizer("facebook/opt"), made.saved_dataset("Dahoas/rm-static", made.preference)),
        importable=(CHAT,), older=OLDER,
    ),
    Recipe(
        "deepspeed-chat-rlhf", EXAMPLES, f"{CHAT}/training/step3_rlhf_finetuning/main.py", "deepspeed", DEEPSPEED, 4,
        f"{LAUNCHER} source/{CHAT}/training/step3_rlhf_finetuning/main.py --actor_model_name_or_path facebook/opt "
        "--critic_model_name_or_path facebook/opt-reward --data_path Dahoas/rm-static --data_split 2,4,4 "
        "--data_output_path files --num_padding_at_beginning 1 --per_device_generation_batch_size 2 "
        "--per_device_training_batch_size 2 --max_answer_seq_len 16 --max_prompt_seq_len 16 --actor_zero_stage 3 "
        "--critic_zero_stage 2 --dtype bf16 --offload --num_warmup_steps 2 --output_dir out --deepspeed",
        (made.opt("facebook/opt"), made.tokenizer("facebook/opt"),
         made.opt("facebook/opt-reward", "OPTModel"), made.tokenizer("facebook/opt-reward"),
         made.critic_weights("facebook/opt-reward"),
         made.saved_dataset("Dahoas/rm-static", made.preference)),
        importable=(CHAT,), older=OLDER,
    ),
    Recipe(
        "deepspeed-zenflow", EXAMPLES, "training/DeepSpeed-ZenFlow/finetuning/finetune_llama.py", "deepspeed",
        DEEPSPEED, 1,
        f"{LAUNCHER} source/training/DeepSpeed-ZenFlow/finetuning/finetune_llama.py --deepspeed_config ds.json "
        "--model_name model --num_train_epochs 1 --lr 2e-5 --batch_size 4 --output_dir out",
        (made.llama("model", max_position_embeddings=512), made.tokenizer("model"),
         made.dataset("tatsu-lab/alpaca", made.instruction),
         made.document("ds.json", {
             "train_batch_size": 4, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
             "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}},
             "optimizer": {"type": "AdamW", "params": {
                 "lr": 2e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}}})),
    ),
    Recipe(
        # DeepSpeed's analyzer of the data fails on two ranks, so what it would write is there already.
        "deepspeed-pipeline", EXAMPLES,
        "training/data_efficiency/variable_batch_size_and_lr/variable_batch_size_and_lr_example.py", "torchrun",
        DEEPSPEED, 1,
        f"{TORCHRUN} source/training/data_efficiency/variable_batch_size_and_lr/variable_batch_size_and_lr_example.py "
        "--pipeline-num-stages 2",
        (made.sequence_lengths("curriculum_output", 1000, 3, 15, seed=42),),
    ),
    Recipe(
        "deepspeed-variable-batch", EXAMPLES,
        "training/data_efficiency/variable_batch_size_and_lr/variable_batch_size_and_lr_example.py", "torchrun",
        DEEPSPEED, 1,
        f"{TORCHRUN} source/training/data_efficiency/variable_batch_size_and_lr/variable_batch_size_and_lr_example.py",
        (made.sequence_lengths("curriculum_output", 1000, 3, 15, seed=42),),
    ),
    *(
        Recipe(
            name, MEGATRON, "pretrain_gpt.py", "deepspeed", DEEPSPEED, 1,
            f"{LAUNCHER} source/pretrain_gpt.py {parallel} {MEGATRON_ARGUMENTS}",
            MEGATRON_MATERIALS, older="deepspeed 0.16.9",
        )
        for name, parallel in (
            ("megatron-gpt", "--no-pipeline-parallel"),
            ("megatron-gpt-tensor-parallel", "--no-pipeline-parallel --tensor-model-parallel-size 2"),
            ("megatron-gpt-pipeline", "--pipeline-model-parallel-size 2"),
        )
    ),
    Recipe(
        "stanford-alpaca", ALPACA, "train.py", "torchrun", TRAINER, 1,
        f"{TORCHRUN} source/train.py --model_name_or_path model --data_path data.json --bf16 True --output_dir out "
        "--num_train_epochs 3 --per_device_train_batch_size 2 --gradient_accumulation_steps 2 --save_steps 2000 "
        "--learning_rate 2e-5 --weight_decay 0. --warmup_ratio 0.03 --logging_steps 1 --report_to none "
        "--deepspeed source/configs/default_offload_opt_param.json",
        (made.llama("model"), made.tokenizer("model"),
         made.document("data.json", [made.instruction(number) for number in range(made.ROWS)]),
         made.module("openai/__init__.py", "class openai_object:\n    OpenAIObject = dict")),
        older=OLDER,
    ),
    Recipe(
        "deepspeed-cifar-moe", EXAMPLES, "training/cifar/cifar10_deepspeed.py", "deepspeed", DEEPSPEED, 1,
        f"{LAUNCHER} source/training/cifar/cifar10_deepspeed.py --deepspeed --epochs 1 --dtype bf16 --stage 2 --moe "
        "--ep-world-size 2 --num-experts 2 --top-k 1 --noisy-gate-policy RSample --moe-param-group",
        IMAGES,
    ),
    Recipe(
        "deepspeed-gan", EXAMPLES, "training/gan/gan_deepspeed_train.py", "deepspeed", DEEPSPEED, 2,
        f"{LAUNCHER} source/training/gan/gan_deepspeed_train.py --dataset fake --dataroot none --workers 0 "
        "--batchSize 32 --ngf 8 --ndf 8 --deepspeed_config source/training/gan/gan_deepspeed_config.json",
        IMAGES,
    ),
    Recipe(
        "deepspeed-bf16-master-weights", EXAMPLES, "training/bf16_master_weight/train.py", "deepspeed", DEEPSPEED, 1,
        f"{LAUNCHER} source/training/bf16_master_weight/train.py --deepspeed_config "
        "source/training/bf16_master_weight/configs/bf16_full.json --hidden_dim 64 --num_layers 2 --num_heads 4 "
        "--vocab_size 500 --seq_length 32",
        (),
    ),
    Recipe(
        "deepspeed-autotp", EXAMPLES, "training/tensor_parallel/basic_example/autotp_example.py", "torchrun", DEEPSPEED, 1,
        "torchrun --nproc-per-node 4 --master-port {port} "
        "source/training/tensor_parallel/basic_example/autotp_example.py --model_name model --tp_size 2 --dp_size 2 "
        "--zero_stage 2 --seq_length 32",
        (made.llama("model"),),
    ),
    Recipe(
        "deepspeed-test-model", DEEPSPEED_REPOSITORY, "tests/small_model_debugging/test_model.py", "deepspeed",
        DEEPSPEED, 1,
        f"{LAUNCHER} source/tests/small_model_debugging/test_model.py --zero 2",
        (),
    ),
    *projects.RECIPES,
    *sharded.RECIPES,
)  # fmt: skip
