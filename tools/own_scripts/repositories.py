"""The repositories and packages that the scripts are of."""

from __future__ import annotations

from tools.own_scripts.recipe import Source

TRANSFORMERS = Source("huggingface/transformers", "3034a13b258709cbf55f08aba35d4ec9a13dd420", ("examples/pytorch",))
ACCELERATE_REPOSITORY = Source(
    "huggingface/accelerate", "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83",
    ("examples", "src/accelerate/test_utils/scripts", "tests/deepspeed"),
)  # fmt: skip
EXAMPLES = Source(
    "deepspeedai/DeepSpeedExamples", "45b4b7156c8794a3452a5a7d03dbd8d797068569",
    ("training/HelloDeepSpeed", "training/DeepSpeed-ZenFlow/finetuning", "training/data_efficiency",
     "training/cifar", "training/gan", "training/bf16_master_weight/train.py",
     "training/bf16_master_weight/configs", "training/tensor_parallel/basic_example/autotp_example.py",
     "training/tensor_parallel/hf_integration/train.py", "training/DeepSpeed-SuperOffload",
     "applications/DeepSpeed-Chat/dschat", "applications/DeepSpeed-Chat/training"),
)  # fmt: skip
DEEPSPEED_REPOSITORY = Source(
    "deepspeedai/DeepSpeed", "edaa7221267243c7be7fb49c5d5f5c4fb97b4641", ("tests/small_model_debugging",)
)
MEGATRON = Source(
    "deepspeedai/Megatron-DeepSpeed",
    "4efb479d5317ce9b86096b9d8e3e8030b0b5263b",
    ("megatron", "tools", "pretrain_gpt.py"),
)
PEFT = Source("huggingface/peft", "5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40", ("examples/sft",))
LLAMA_FACTORY = Source(
    "hiyouga/LLaMA-Factory", "ff6d4d12eeb035d6ce06805a5733dd7b29f2ac30", ("src", "examples/deepspeed")
)
TRL = Source("trl")
ALPACA = Source(
    "tatsu-lab/stanford_alpaca", "761dc5bfbdeeffa89b8bff5d038781a4055f796a", ("configs", "train.py", "utils.py")
)
ACCELERATE_PACKAGE = Source("accelerate")
DEEPSEEK_CODER = Source("deepseek-ai/DeepSeek-Coder", "2f9fd85927c669dae3c0fbb2d607274023af243e", ("finetune",))
STARCODER = Source("bigcode-project/starcoder", "d72c7fe3dda81d47ad9b851f9567393fb6b551b9", ("chat",))
MEDICAL_GPT = Source("shibing624/MedicalGPT", "2f1008cfa49cbba69ff6f138c3b5e2fb0646bdc7", ("scripts", "training"))
BAICHUAN = Source(
    "baichuan-inc/Baichuan2",
    "ed1cf0f598378e1bc393f526c6052b8e6144eeef",
    ("fine-tune/fine-tune.py", "fine-tune/ds_config.json"),
)
DOLLY = Source("databrickslabs/dolly", "e2d664ddf06e0723d818dc56d6c522ead4bd881d", ("config", "training"))
FLAG_EMBEDDING = Source(
    "FlagOpen/FlagEmbedding", "7ed43d67ec03fbe5c31c0992dbfa941fb1860549", ("FlagEmbedding", "examples/finetune")
)
HANDBOOK = Source(
    "huggingface/alignment-handbook", "925acdfe4b2b4e38c3dabd1851bc418f0b656351", ("recipes", "scripts", "src")
)
TORCH_EXAMPLES = Source(
    "pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8", ("distributed/FSDP", "distributed/FSDP2")
)
FAST_CHAT = Source("lm-sys/FastChat", "0e6d3e4beaab66f4d3f93db72541a4abab8af28d", ("fastchat", "playground"))
