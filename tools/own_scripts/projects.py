# ruff: noqa: E501 - commands and paths
"""Scripts of projects that train a model of their own or for their users: Trainer, Accelerate and plain DeepSpeed."""

from __future__ import annotations

from tools.own_scripts import materials as made
from tools.own_scripts.recipe import ACCELERATE, DEEPSPEED, LAUNCH, LAUNCHER, TORCHRUN, TRAINER, Recipe
from tools.own_scripts.repositories import (
    ACCELERATE_REPOSITORY,
    BAICHUAN,
    DEEPSEEK_CODER,
    DOLLY,
    EXAMPLES,
    FLAG_EMBEDDING,
    HANDBOOK,
    MEDICAL_GPT,
    STARCODER,
)

OLDER, OLDEST = "transformers 4.51.3", "transformers 4.45.2"
LLAMA = (made.llama("model"), made.tokenizer("model"))
BERT = (
    made.bert("bert-base-cased"), made.tokenizer("bert-base-cased"),
    made.named_dataset("nyu-mll/glue", "mrpc", made.pair, "train", "validation"), made.metric("glue"),
)  # fmt: skip
ZERO_2 = "--zero_stage 2 --mixed_precision bf16"

RECIPES = (
    Recipe(
        # Its last function writes the state dict of the partitioned model, as it is.
        "deepseek-coder", DEEPSEEK_CODER, "finetune/finetune_deepseekcoder.py", "deepspeed", TRAINER, 1,
        f"{LAUNCHER} source/finetune/finetune_deepseekcoder.py --model_name_or_path model --data_path data.json "
        "--output_dir out --num_train_epochs 3 --model_max_length 768 --per_device_train_batch_size 2 "
        "--gradient_accumulation_steps 4 --save_strategy steps --save_steps 100 --save_total_limit 100 "
        "--learning_rate 2e-5 --warmup_steps 10 --logging_steps 1 --lr_scheduler_type cosine "
        "--gradient_checkpointing True --report_to none --deepspeed source/finetune/configs/ds_config_zero3.json "
        "--bf16 True",
        (made.llama("model", max_position_embeddings=1024), made.tokenizer("model"),
         made.document("data.json", [made.instruction(number) for number in range(made.ROWS)])),
        older=OLDER,
    ),
    Recipe(
        "starchat", STARCODER, "chat/train.py", "torchrun", TRAINER, 1,
        f"{TORCHRUN} source/chat/train.py source/chat/config.yaml --model_name_or_path=model --dataset_name=data "
        "--block_size=64 --preprocessing_num_workers=2 --output_dir=out --report_to=none --push_to_hub= "
        "--gradient_accumulation_steps=2 --per_device_train_batch_size=2 "
        "--deepspeed=source/chat/deepspeed_z3_config_bf16.json",
        (*LLAMA, made.dataset("data", made.conversation)),
        older=OLDEST,
    ),
    Recipe(
        "medical-gpt-sft", MEDICAL_GPT, "training/supervised_finetuning.py", "torchrun", TRAINER, 1,
        f"{TORCHRUN} source/training/supervised_finetuning.py --model_name_or_path model --train_file_dir data "
        "--validation_file_dir data --per_device_train_batch_size 2 --per_device_eval_batch_size 1 --do_train "
        "--use_peft True --max_train_samples 400 --model_max_length 128 --num_train_epochs 1 --learning_rate 2e-5 "
        "--warmup_steps 5 --weight_decay 0.05 --logging_steps 1 --save_steps 500 --save_strategy steps "
        "--gradient_accumulation_steps 2 --preprocessing_num_workers 1 --output_dir out --ddp_timeout 30000 "
        "--target_modules all --lora_rank 4 --lora_alpha 16 --lora_dropout 0.05 --torch_dtype bfloat16 --bf16 "
        "--device_map None --report_to none --gradient_checkpointing True --template_name vicuna "
        "--deepspeed source/scripts/zero2.json",
        (*LLAMA, made.rows("data/train.jsonl", made.turns)),
    ),
    Recipe(
        "baichuan2", BAICHUAN, "fine-tune/fine-tune.py", "deepspeed", TRAINER, 1,
        f"{LAUNCHER} source/fine-tune/fine-tune.py --report_to none --data_path data.json --model_name_or_path model "
        "--output_dir out --model_max_length 64 --num_train_epochs 4 --per_device_train_batch_size 4 "
        "--gradient_accumulation_steps 1 --save_strategy epoch --learning_rate 2e-5 --lr_scheduler_type constant "
        "--adam_beta1 0.9 --adam_beta2 0.98 --adam_epsilon 1e-8 --max_grad_norm 1.0 --weight_decay 1e-4 "
        "--warmup_ratio 0.0 --logging_steps 1 --gradient_checkpointing True "
        "--deepspeed source/fine-tune/ds_config.json --bf16 True",
        (*LLAMA, made.document("data.json", [made.turns(number) for number in range(made.ROWS)])),
        older=OLDER,
    ),
    Recipe(
        "dolly", DOLLY, "training/trainer.py", "deepspeed", TRAINER, 1,
        f"{LAUNCHER} --module training.trainer --input-model model --deepspeed source/config/a100_config.json "
        "--epochs 2 --local-output-dir out --per-device-train-batch-size 2 --per-device-eval-batch-size 2 "
        "--logging-steps 1 --save-steps 200 --save-total-limit 20 --eval-steps 2 --warmup-steps 2 --test-size 8 "
        "--lr 5e-6 --bf16 true --training-dataset data",
        (made.gpt_neox("model"), made.tokenizer("model", segments=False), made.dataset("data", made.answer, "train")),
        importable=("",), older=OLDEST,
    ),
    Recipe(
        # The loss compares with the samples of the other rank.
        "flag-embedding", FLAG_EMBEDDING, "FlagEmbedding/finetune/embedder/encoder_only/base/__main__.py", "torchrun",
        TRAINER, 1,
        f"{TORCHRUN} -m FlagEmbedding.finetune.embedder.encoder_only.base --model_name_or_path bge "
        "--train_data data.jsonl --cache_path cache --train_group_size 4 --query_max_len 32 --passage_max_len 32 "
        "--pad_to_multiple_of 8 --knowledge_distillation False --output_dir out --learning_rate 1e-5 --fp16 "
        "--num_train_epochs 4 --per_device_train_batch_size 2 --dataloader_drop_last True --warmup_ratio 0.1 "
        "--gradient_checkpointing --deepspeed source/examples/finetune/ds_stage0.json --logging_steps 1 "
        "--save_steps 1000 --negatives_cross_device --temperature 0.02 --sentence_pooling_method cls "
        "--normalize_embeddings True --kd_loss_type kl_div --report_to none",
        (made.bert("bge", "BertModel"), made.tokenizer("bge"), made.rows("data.jsonl", made.passages)),
        importable=("",), older=OLDER,
    ),
    Recipe(
        "alignment-handbook-sft", HANDBOOK, "scripts/sft.py", "accelerate", TRAINER, 1,
        "accelerate launch --config_file source/recipes/accelerate_configs/zero3.yaml --num_processes 2 "
        "--main_process_port {port} source/scripts/sft.py --model_name_or_path model --dataset_name data "
        "--learning_rate 2.0e-5 --num_train_epochs 1 --max_length 64 --per_device_train_batch_size 2 "
        "--gradient_accumulation_steps 2 --gradient_checkpointing --bf16 true --logging_steps 1 "
        "--eval_strategy steps --eval_steps 2 --output_dir out --report_to none",
        (*LLAMA, made.dataset("data", made.conversation)),
        importable=("src",), older="trl 0.24.0",
    ),
    Recipe(
        "deepspeed-zero3-finetune", EXAMPLES, "training/DeepSpeed-SuperOffload/finetune_zero3.py", "deepspeed",
        DEEPSPEED, 1,
        f"{LAUNCHER} source/training/DeepSpeed-SuperOffload/finetune_zero3.py --deepspeed_config ds.json "
        "--model_name model --num_train_epochs 1 --lr 1e-5 --batch_size 4 --weight_decay 0.05 --output_dir out "
        "--seed 42 --max_length 64 --log_interval 1 --dataset_name tatsu-lab/alpaca --bench_steps 10 --warmup_steps 20 "
        "--activation_checkpointing --attn_implementation sdpa --save_checkpoint",
        (*LLAMA, made.dataset("tatsu-lab/alpaca", made.instruction),
         made.module("wandb/__init__.py", ""),
         made.document("ds.json", {
             "train_batch_size": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": True},
             "zero_optimization": {
                 "stage": 3, "overlap_comm": False, "reduce_bucket_size": 4e8, "sub_group_size": 4e8,
                 "offload_optimizer": {"device": "cpu", "pin_memory": True}},
             "wall_clock_breakdown": True})),
    ),
    Recipe(
        "deepspeed-autotp-trainer", EXAMPLES, "training/tensor_parallel/hf_integration/train.py", "deepspeed", TRAINER, 1,
        f"{LAUNCHER} source/training/tensor_parallel/hf_integration/train.py --model_name_or_path model "
        "--data_path data.json --bf16 True --output_dir out --num_train_epochs 3 --gradient_checkpointing false "
        "--per_device_train_batch_size 4 --per_device_eval_batch_size 1 --eval_strategy no --save_strategy steps "
        "--save_steps 10000 --gradient_accumulation_steps 2 --learning_rate 2e-5 --weight_decay 0. --warmup_steps 0 "
        "--lr_scheduler_type cosine --logging_steps 1 --tf32 True --report_to none --deepspeed ds.json",
        (*LLAMA, made.document("data.json", [made.instruction(number) for number in range(made.ROWS)]),
         made.document("ds.json", {
             "bf16": {"enabled": "auto"},
             "optimizer": {"type": "AdamW", "params": {
                 "lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
             "scheduler": {"type": "WarmupDecayLR", "params": {
                 "total_num_steps": "auto", "warmup_min_lr": "auto", "warmup_max_lr": "auto",
                 "warmup_num_steps": "auto"}},
             "zero_optimization": {"stage": 2, "gather_16bit_weights_on_model_save": True},
             "tensor_parallel": {"autotp_size": 2}, "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
             "steps_per_print": 1, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
             "wall_clock_breakdown": False})),
    ),
    *(
        Recipe(
            name, ACCELERATE_REPOSITORY, f"examples/by_feature/{script}", "accelerate", ACCELERATE, 1,
            f"{LAUNCH} {ZERO_2} source/examples/by_feature/{script} {arguments}",
            BERT,
        )
        for name, script, arguments in (
            ("accelerate-gradient-accumulation", "gradient_accumulation.py", "--gradient_accumulation_steps 2"),
            ("accelerate-checkpointing", "checkpointing.py", "--checkpointing_steps 2 --output_dir out"),
            ("accelerate-early-stopping", "early_stopping.py", "--mixed_precision bf16"),
        )
    ),
    Recipe(
        "accelerate-ulysses", ACCELERATE_REPOSITORY, "examples/alst_ulysses_sequence_parallelism/sp-alst.py", "accelerate", ACCELERATE,
        1,
        "accelerate launch --main_process_port {port} --config_file "
        "source/examples/alst_ulysses_sequence_parallelism/sp-alst.accelerate-config.yml "
        "source/examples/alst_ulysses_sequence_parallelism/sp-alst.py",
        (made.llama("TinyLlama/TinyLlama-1.1B-Chat-v1.0", num_key_value_heads=4),
         made.tokenizer("TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
         made.named_dataset("HuggingFaceH4/ultrachat_200k", "default", made.chat, "train_sft"),
         made.document("sp-alst.ds-config.json", {
             "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}, "gradient_accumulation_steps": 1,
             "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
             "seq_parallel_communication_data_type": "bf16"})),
    ),
)  # fmt: skip
