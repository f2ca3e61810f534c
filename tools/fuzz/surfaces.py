"""The surfaces: for each, the files of an input, which of them is mutated, and the command lines that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.output import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    Commands = tuple[tuple[str, ...], ...]


class Surface(NamedTuple):
    """One kind of input: a mutated text in the place of ``file``, beside ``beside``, and the command lines for it.

    ``kind`` is that of the seeds. Where ``wraps`` is given, the file holds what it makes of the mutated text. A word
    ``{}`` of a command line is the mutated text itself.
    """

    name: str
    kind: str
    file: str
    commands: Commands
    beside: tuple[tuple[str, str], ...] = ()
    wraps: Callable[[str], str] | None = None
    texts: tuple[str, ...] = ()  # seeds of its own


DS = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}\n'
PLAIN = '{"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}, "gradient_cliping": 1}\n'
TRAIN = (
    "import deepspeed, torch\nfrom transformers import HfArgumentParser, TrainingArguments, Trainer\n"
    "args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]\nTrainer(None, args).train()\n"
)
RUN = "deepspeed --num_gpus 2 train.py --deepspeed ds.json --bf16 True --per_device_train_batch_size 4\n"
MODEL = (
    '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, '
    '"num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 128, '
    '"torch_dtype": "bfloat16", "tie_word_embeddings": false, "max_position_embeddings": 64}\n'
)
_MODELS = (
    *tuple(
        MODEL.replace("llama", name).replace("LlamaForCausalLM", architecture)
        for name, architecture in (
            ("llama", "LlamaForCausalLM"),
            ("qwen2", "Qwen2ForCausalLM"),
            ("t5", "T5ForConditionalGeneration"),
            ("bert", "BertForMaskedLM"),
            ("gpt2", "GPT2LMHeadModel"),
            ("falcon", "FalconForCausalLM"),
            ("gpt_bigcode", "GPTBigCodeForCausalLM"),
            ("mixtral", "MixtralForCausalLM"),
            ("mamba", "MambaForCausalLM"),
            ("qwen2_moe", "Qwen2MoeForCausalLM"),
            ("deepseek_v3", "DeepseekV3ForCausalLM"),
            ("vit", "ViTModel"),
            ("llava", "LlavaForConditionalGeneration"),
            ("gemma3", "Gemma3ForConditionalGeneration"),
            ("opt", "OPTForCausalLM"),
            ("bloom", "BloomForCausalLM"),
            ("phi3", "Phi3ForCausalLM"),
            ("whisper", "WhisperForConditionalGeneration"),
        )
    ),
    '{"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 99, "n_inner": null}',
    '{"model_type": "t5", "d_model": 64, "d_ff": 99, "d_kv": 8, "num_heads": 4, "num_layers": 2, "vocab_size": 9, "feed_forward_proj": "gated-gelu", "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}}',
    '{"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "hidden_size": 8, "head_dim": 2}',
    '{"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 8}, "vision_config": {"hidden_size": 8}}',
)
ACCELERATE = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\n"
    "num_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 2\n  gradient_clipping: 1.0\n"
    "  offload_optimizer_device: cpu\n  deepspeed_hostfile: hostfile\n  zero3_init_flag: true\n"
)
_FSDP = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\n"
    "num_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_sharding_strategy: FULL_SHARD\n"
    "  fsdp_offload_params: true\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
)
_RECIPES = (
    (
        "model_name_or_path: m\nstage: sft\ndo_train: true\ndeepspeed: ds.json\nbf16: true\ncutoff_len: 2048\n"
        "per_device_train_batch_size: 2\ngradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\noutput_dir: out\n"
    ),
    (
        "base_model: m\ndatasets:\n  - path: x\n    type: alpaca\ndeepspeed: ds.json\nmicro_batch_size: 2\nadapter: lora\n"
        "lora_r: 8\nsequence_len: 2048\noptimizer: adamw_torch\nlearning_rate: 2e-5\ntf32: true\n"
    ),
    "model_name_or_path: m\ndataset_name: d\ndeepspeed: ds.json\nlearning_rate: 1e-5\nmax_length: 512\nuse_peft: true\n",
    "model: m\ntrain_type: lora\ndeepspeed: zero3\ndataset: x\ntorch_dtype: bfloat16\nmax_length: 2048\n",
)
_TOMLS = (
    '[project]\nname = "x"\ndependencies = ["deepspeed>=0.14,<0.19", "transformers==4.50.0", "accelerate~=1.0"]\n',
    '[tool.poetry.dependencies]\npython = "^3.10"\ndeepspeed = "^0.15"\ntransformers = {version = "*", extras = ["a"]}\n',
    '[[package]]\nname = "deepspeed"\nversion = "0.16.1"\nsource = { registry = "https://x" }\n',
)
_SETTINGS = (
    (
        'select = ["DS1", "DS2"]\nignore = ["DS101"]\nstack = "trainer"\nworld-size = 8\ngpu = "A100-80GB"\n'
        'trainer-args = "--bf16 True --learning_rate 1e-5"\npolicy = ["policy.json"]\nbaseline = "b.json"\n'
        '[versions]\ndeepspeed = "0.16.0"\n[per-file-ignores]\n"a*.json" = ["DS1"]\n[severity]\nDS101 = "warning"\n'
        '[[config]]\npath = "ds.json"\nworld-size = 4\nnodes = 2\nmodel = "model"\n'
    ),
)
_HOSTFILES = ("worker-1 slots=8\nworker-2 slots=8\n# c\n", "a slots=4 max_slots=8\n\n")
_REQUIREMENTS = (
    "deepspeed>=0.14,<0.19\ntransformers==4.50.0 ; python_version > '3'\n-r other.txt\n-e .\naccelerate[a]~=1.0 # c\n",
    "deepspeed @ git+https://github.com/deepspeedai/DeepSpeed@v0.15.0\n--hash=sha256:aa\ntorch!=2.0\n",
)
_CONDA = ("name: x\ndependencies:\n  - python=3.10\n  - deepspeed=0.15\n  - pip:\n    - transformers==4.50.0\n",)
_POLICIES = (
    (
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["bf16"], "properties": '
        '{"zero_optimization": {"properties": {"stage": {"enum": [2, 3]}}}, "gradient_clipping": {"maximum": 1, '
        '"multipleOf": 0.5}, "a": false}, "patternProperties": {"^train_": {"type": "integer"}}, "additionalProperties": '
        'true, "if": {"properties": {"fp16": true}}, "then": {"not": {"required": ["amp"]}}, "description": "Ask us."}'
    ),
    (
        '{"properties": {"optimizer": {"properties": {"type": {"pattern": "^(a+)+$"}}}}, "propertyNames": {"maxLength": 40}, '
        '"$defs": {"a": {"$ref": "#/$defs/a"}}, "allOf": [{"$ref": "other.json"}], "minProperties": 1}'
    ),
)
_BASELINES = (
    '{"version": 1, "findings": [{"path": "ds.json", "code": "DS101", "key": "gradient_cliping", "count": 1}]}',
)
_ARGUMENTS = (
    "--bf16 True --learning_rate 1e-5 --deepspeed ds.json --lr_scheduler_type cosine --num_train_epochs 3",
    "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_grad_norm 1.0 --gradient_checkpointing",
)
_ARGUMENT_FILES = (
    "bf16: true\nlearning_rate: 1e-5\nper_device_train_batch_size: 4\nlr_scheduler_kwargs: {a: 1}\nfsdp: ''\n",
    '{"bf16": true, "optim": "adamw_torch", "warmup_steps": 10, "deepspeed": "ds.json"}',
)
_MAKEFILES = (
    f"GPUS ?= 8\nN := $(shell nproc)\n.PHONY: t\nt: a\n\t@GPUS=$(GPUS) {RUN}\n\tdeepspeed $(ARGS) \\\n\t  train.py\n",
)
_DOCKERFILES = (
    f'ARG N=8\nFROM x AS y\nENV A=1 B=$N\nWORKDIR /a\nRUN {RUN}CMD ["deepspeed", "train.py", "--deepspeed", "ds.json"]\n',
    f"FROM x\nRUN <<EOF\n{RUN}EOF\nENTRYPOINT {RUN}",
)
_WORKFLOWS = (
    (
        f"on: push\nenv:\n  N: 8\njobs:\n  a:\n    runs-on: x\n    strategy:\n      matrix:\n        n: [1, 2]\n    steps:\n"
        f"      - uses: a/b@v1\n      - name: t\n        env: {{A: 1}}\n        run: |\n          {RUN}"
    ),
)
_SHELLS = (
    (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:8\n#SBATCH --ntasks-per-node=8\nN=${N:-8}\nsrun torchrun "
        "--nproc_per_node $N --nnodes $SLURM_NNODES train.py --deepspeed ds.json\n"
    ),
    f"case $1 in a) {RUN.strip()};; *) exit 1;; esac\nfor i in 1 2; do {RUN.strip()} --seed $i; done\n",
    f"cat > ds.json <<'EOF'\n{PLAIN}EOF\nexport CUDA_VISIBLE_DEVICES=0,1\n{RUN}",
    (
        "ARGS=(--bf16 True)\nARGS+=(--deepspeed ds.json)\naccelerate launch --config_file accelerate.yaml --num_processes 8 "
        'train.py "${ARGS[@]}" "$@"\n'
    ),
    "mpirun -np 16 -H a:8,b:8 bash -c 'python train.py --deepspeed ds.json'\n",
    "llamafactory-cli train recipe.yaml\nswift sft --deepspeed zero3 --model m\naxolotl train recipe.yaml --launcher torchrun\n",
)
_PYTHONS = (
    (
        "import deepspeed\nparser.add_argument('--n', type=int, default=8)\nconfig = {'train_batch_size': 2 * 4, "
        "'zero_optimization': {'stage': 3, **extra}, 'optimizer': {'type': 'Adam', 'params': {'lr': 1e-3}}}\n"
        "config['fp16'] = dict(enabled=True)\nconfig.update(gradient_clipping=1.0)\ndel config['optimizer']\n"
        "deepspeed.initialize(model=m, config=config, optimizer=o)\n"
    ),
    (
        "from accelerate import Accelerator, DeepSpeedPlugin\nplugin = DeepSpeedPlugin(zero_stage=3, gradient_clipping=1.0, "
        "offload_optimizer_device='cpu')\naccelerator = Accelerator(deepspeed_plugin=plugin, mixed_precision='bf16')\n"
    ),
    "from lightning.pytorch.strategies import DeepSpeedStrategy\nDeepSpeedStrategy(stage=3, offload_optimizer=True)\n",
    "import subprocess\nsubprocess.run(['deepspeed', '--num_gpus', str(8), 'train.py', '--deepspeed', 'ds.json'])\n",
)

_PROJECT = (("ds.json", DS), ("train.py", TRAIN))
_CHECK = ("check", "--color", "never")
_SIZE = ("--world-size", "8", "--gpu", "A100-80GB", "--micro-batch", "2", "--sequence-length", "512")
_EVERY = (
    *((*_CHECK, "ds.json", "--output-format", name) for name in FORMATS),
    *((*_CHECK, "ds.json", "--stack", stack) for stack in ("deepspeed", "trainer", "accelerate")),
    (*_CHECK, "ds.json", "--world-size", "6", "--nodes", "2", "--gpu", "V100", "--host-memory", "64GB"),
    (*_CHECK, "ds.json", "--model", "model", "--trainer-args", "--bf16 True --per_device_train_batch_size 3"),
    (*_CHECK, "ds.json", "--deepspeed-version", "0.9.0"),
    (*_CHECK, "ds.json", "--select", "ALL", "--preview", "--statistics"),
    (*_CHECK, "."),
)
_MODEL_BESIDE = (("model/config.json", MODEL),)

_LOGS = (
    (
        "[2024-03-11 09:12:08,331] [INFO] [launch.py:163:main] dist_world_size=2\n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/p/train.py", line 25, in <module>\n'
        "[rank1]:     engine.step()\n"
        '[rank1]:   File "/e/lib/python3.11/site-packages/deepspeed/runtime/config.py", line 9, in _batch_assertion\n'
        "[rank1]: AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 4 != 2 * 1 * 1\n"
        "  5%|▌         | 1/20 [00:01<00:19,  1.0it/s]{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}\r\n"
        "['python', '-u', 'train.py', '--local_rank=1'] exits with return code = -9\n"
    ),
    (
        "2026-11-26T15:14:00.137Z stderr F Failures:\n[1]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -15 (pid: 7)\n"
        "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 6)\n"
        "\x1b[31m[rank0]:\x1b[0m torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.74 GiB (GPU 5; 23.70 GiB)\n"
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1\nstep 3 loss 0.25\n"
    ),
    (
        "╭──── Traceback (most recent call last) ────╮\n│ /p/train.py:12 in <module>                │\n"
        "│ /e/site-packages/deepspeed/runtime/config.p │\n│ y:134 in _batch_assertion                 │\n"
        "╰───────────────────────────────────────────╯\nKeyError: 'inputs'\n\n"
        "During handling of the above exception, another exception occurred:\n\n> Traceback (most recent call last):\n"
        '>   File "a.py", line 1\n> SyntaxError: invalid syntax\nslurmstepd-n1: error: *** JOB 9 ON n1 CANCELLED AT 1 ***\n'
    ),
)
SURFACES = (
    Surface("json", "json", "ds.json", _EVERY, _MODEL_BESIDE),
    Surface(
        "keys",
        "keys",
        "ds.json",
        (
            *_EVERY,
            ("effective", "ds.json", "--stack", "trainer"),
            ("effective", "ds.json", "--world-size", "8"),
            ("memory", "ds.json", *_SIZE, "--model", "model"),
            ("memory", "ds.json", *_SIZE, "--parameters", "7B", "--sweep"),
            ("convert", "ds.json", "--to", "fsdp"),
        ),
        _MODEL_BESIDE,
    ),
    Surface("hjson", "json", "ds.hjson", ((*_CHECK, "ds.hjson"), (*_CHECK, ".", "--output-format", "json"))),
    Surface("standard input", "json", "", ((*_CHECK, "-", "--output-format", "json"), (*_CHECK, "-", "--diff"))),
    Surface(
        "fix",
        "json",
        "ds.json",
        (
            (*_CHECK, "ds.json", "--fix"),
            (*_CHECK, "ds.json", "--fix", "--unsafe-fixes"),
            (*_CHECK, "ds.json", "--diff", "--unsafe-fixes"),
            (*_CHECK, "ds.json", "--fix-only"),
        ),
    ),
    Surface("fix python", "python", "t.py", ((*_CHECK, "t.py", "--fix", "--unsafe-fixes"),), (), None, _PYTHONS),
    Surface("fix shell", "shell", "run.sh", ((*_CHECK, ".", "--diff", "--unsafe-fixes"),), _PROJECT, None, _SHELLS),
    Surface("fix notebook", "notebook", "n.ipynb", ((*_CHECK, ".", "--diff", "--unsafe-fixes"),)),
    Surface(
        "add-ignore",
        "json",
        "ds.json",
        ((*_CHECK, "ds.json", "--add-ignore", "--stack", "deepspeed"), (*_CHECK, "ds.json", "--add-ignore")),
    ),
    Surface("add-ignore python", "python", "t.py", ((*_CHECK, "t.py", "--add-ignore"),), (), None, _PYTHONS),
    Surface("yaml", "yaml", "any.yaml", ((*_CHECK, "any.yaml"), (*_CHECK, "."), (*_CHECK, "any.yaml", "--diff"))),
    Surface(
        "accelerate yaml",
        "",
        "accelerate.yaml",
        (
            (*_CHECK, "accelerate.yaml", "--output-format", "json"),
            (*_CHECK, "."),
            (*_CHECK, "accelerate.yaml", "--diff"),
            ("effective", "accelerate.yaml"),
        ),
        (("ds.json", DS), ("hostfile", "a slots=8\n")),
        None,
        (ACCELERATE, _FSDP),
    ),
    Surface(
        "python",
        "python",
        "train.py",
        ((*_CHECK, "train.py"), (*_CHECK, ".", "--output-format", "json"), (*_CHECK, ".", "--show-launches")),
        (("ds.json", DS), ("run.sh", RUN)),
        None,
        (*_PYTHONS, TRAIN),
    ),
    Surface(
        "python training script",
        "python",
        "train.py",
        ((*_CHECK, "."),),
        (("ds.json", PLAIN), ("run.sh", RUN), *_MODEL_BESIDE),
        None,
        (*_PYTHONS, TRAIN),
    ),
    Surface("notebook", "notebook", "n.ipynb", ((*_CHECK, "n.ipynb"), (*_CHECK, "."), (*_CHECK, "n.ipynb", "--diff"))),
    Surface("markdown", "markdown", "README.md", ((*_CHECK, "README.md"), (*_CHECK, ".", "--include-markdown"))),
    Surface(
        "shell",
        "shell",
        "run.sh",
        (
            (*_CHECK, "."),
            (*_CHECK, "run.sh"),
            (*_CHECK, ".", "--show-launches"),
            (*_CHECK, ".", "--show-launches", "--output-format", "json"),
            (*_CHECK, ".", "--show-files"),
        ),
        (*_PROJECT, ("accelerate.yaml", ACCELERATE)),
        None,
        _SHELLS,
    ),
    Surface(
        "makefile",
        "makefile",
        "Makefile",
        ((*_CHECK, "."), (*_CHECK, ".", "--show-launches")),
        _PROJECT,
        None,
        _MAKEFILES,
    ),
    Surface(
        "dockerfile",
        "dockerfile",
        "Dockerfile",
        ((*_CHECK, "."), (*_CHECK, ".", "--show-launches")),
        _PROJECT,
        None,
        _DOCKERFILES,
    ),
    Surface(
        "workflow",
        "",
        ".github/workflows/ci.yml",
        ((*_CHECK, "."), (*_CHECK, ".", "--show-launches")),
        _PROJECT,
        None,
        _WORKFLOWS,
    ),
    Surface(
        "recipe",
        "",
        "recipe.yaml",
        ((*_CHECK, "recipe.yaml"), (*_CHECK, "."), ("memory", "recipe.yaml", *_SIZE)),
        (*_PROJECT, ("run.sh", "llamafactory-cli train recipe.yaml\naxolotl train recipe.yaml\n")),
        None,
        _RECIPES,
    ),
    Surface(
        "hostfile",
        "",
        "hostfile",
        ((*_CHECK, "."),),
        (*_PROJECT, ("run.sh", "deepspeed --hostfile hostfile train.py --deepspeed ds.json\n")),
        None,
        _HOSTFILES,
    ),
    Surface(
        "requirements", "", "requirements.txt", ((*_CHECK, "ds.json"),), (("ds.json", PLAIN),), None, _REQUIREMENTS
    ),
    Surface("pyproject", "toml", "pyproject.toml", ((*_CHECK, "ds.json"),), (("ds.json", PLAIN),), None, _TOMLS),
    Surface("lock", "", "uv.lock", ((*_CHECK, "ds.json"),), (("ds.json", PLAIN),), None, _TOMLS),
    Surface("poetry lock", "", "poetry.lock", ((*_CHECK, "ds.json"),), (("ds.json", PLAIN),), None, _TOMLS),
    Surface("conda", "", "environment.yml", ((*_CHECK, "ds.json"),), (("ds.json", PLAIN),), None, _CONDA),
    Surface(
        "setup.cfg",
        "",
        "setup.cfg",
        ((*_CHECK, "ds.json"),),
        (("ds.json", PLAIN),),
        None,
        ("[options]\ninstall_requires =\n  deepspeed>=0.14\n  transformers\n",),
    ),
    Surface(
        "setup.py",
        "",
        "setup.py",
        ((*_CHECK, "ds.json"),),
        (("ds.json", PLAIN),),
        None,
        ("from setuptools import setup\nR = ['deepspeed>=0.14']\nsetup(install_requires=R + ['transformers'])\n",),
    ),
    Surface(
        "pipfile",
        "",
        "Pipfile.lock",
        ((*_CHECK, "ds.json"),),
        (("ds.json", PLAIN),),
        None,
        ('{"_meta": {}, "default": {"deepspeed": {"version": "==0.15.0"}}, "develop": {}}',),
    ),
    Surface(
        "model",
        "",
        "model/config.json",
        (
            (*_CHECK, "ds.json", "--model", "model"),
            ("memory", "ds.json", "--model", "model", *_SIZE),
            ("memory", "ds.json", "--model", "model", *_SIZE, "--output-format", "json", "--sweep"),
            ("memory", "ds.json", "--model", "model", *_SIZE, "--lora", "8"),
            ("effective", "ds.json", "--model", "model"),
            ("init", "--model", "model", "--output-file", "-"),
            ("init", "--model", "model", "--output-file", "-", "--fit", "--world-size", "8", "--gpu", "A100-80GB"),
        ),
        (("ds.json", DS),),
        None,
        _MODELS,
    ),
    Surface(
        "safetensors index",
        "",
        "model/model.safetensors.index.json",
        ((*_CHECK, "ds.json", "--model", "model"),),
        (("ds.json", DS), *_MODEL_BESIDE),
        None,
        ('{"metadata": {"total_size": 99}, "weight_map": {"a.weight": "x-00001.safetensors", "b": "y"}}',),
    ),
    Surface(
        "trainer-args",
        "",
        "",
        (
            (*_CHECK, "ds.json", "--trainer-args", "{}"),
            ("effective", "ds.json", "--trainer-args", "{}"),
            ("memory", "ds.json", "--trainer-args={}", *_SIZE, "--parameters", "7B"),
        ),
        (("ds.json", DS),),
        None,
        _ARGUMENTS,
    ),
    Surface(
        "trainer-args file",
        "",
        "args.yaml",
        ((*_CHECK, "ds.json", "--trainer-args", "args.yaml"), ("effective", "ds.json", "--trainer-args", "args.yaml")),
        (("ds.json", DS),),
        None,
        _ARGUMENT_FILES,
    ),
    Surface(
        "settings",
        "toml",
        "ds-lint.toml",
        ((*_CHECK, "ds.json"), (*_CHECK, ".", "--show-settings"), (*_CHECK, ".")),
        (("ds.json", PLAIN), ("policy.json", "{}"), *_MODEL_BESIDE),
        None,
        _SETTINGS,
    ),
    Surface(
        "policy",
        "",
        "policy.json",
        ((*_CHECK, "ds.json"),),
        (("ds.json", PLAIN), ("ds-lint.toml", 'policy = ["policy.json"]\n'), ("other.json", "{}")),
        None,
        _POLICIES,
    ),
    Surface(
        "policy's config",
        "json",
        "ds.json",
        ((*_CHECK, "ds.json"),),
        (("policy.json", _POLICIES[0]), ("ds-lint.toml", 'policy = ["policy.json"]\n')),
    ),
    Surface(
        "baseline",
        "",
        "b.json",
        (
            (*_CHECK, "ds.json", "--baseline", "b.json"),
            (*_CHECK, "ds.json", "--baseline", "b.json", "--write-baseline"),
        ),
        (("ds.json", PLAIN),),
        None,
        _BASELINES,
    ),
    Surface(
        "gitignore",
        "",
        ".gitignore",
        ((*_CHECK, "."),),
        (("ds.json", PLAIN), (".git/HEAD", "")),
        None,
        ("*.log\n!a/**/b\n/c/\n[a-z]*.json\n\\#x\n",),
    ),
    Surface(
        "memory",
        "json",
        "ds.json",
        (
            ("memory", "ds.json", *_SIZE, "--parameters", "7B"),
            ("memory", "ds.json", "--model", "model", *_SIZE),
            ("memory", "ds.json", *_SIZE, "--parameters", "70B", "--sweep", "--output-format", "json"),
            ("memory", "ds.json", "--stack", "trainer", "--parameters", "1B", "--world-size", "3"),
        ),
        _MODEL_BESIDE,
    ),
    Surface(
        "memory of a launch",
        "shell",
        "run.sh",
        (("memory", "run.sh", "--parameters", "7B"), ("memory", "run.sh", "--model", "model")),
        (*_PROJECT, *_MODEL_BESIDE),
        None,
        _SHELLS,
    ),
    Surface(
        "convert",
        "json",
        "ds.json",
        (
            ("convert", "ds.json", "--to", "fsdp"),
            ("convert", "ds.json", "--to", "fsdp", "--fsdp-version", "1", "--stack", "trainer"),
            ("convert", "ds.json", "--to", "fsdp", "--output-format", "json"),
        ),
    ),
    Surface(
        "convert from FSDP",
        "",
        "fsdp.yaml",
        (("convert", "fsdp.yaml", "--to", "deepspeed"),),
        (),
        None,
        (_FSDP, "fsdp: full_shard auto_wrap\nfsdp_config:\n  min_num_params: 9\nbf16: true\n"),
    ),
    Surface(
        "upgrade",
        "json",
        "ds.json",
        (
            ("upgrade", "ds.json", "--from", "0.9.0"),
            ("upgrade", "ds.json", "--from", "0.15.0", "--to", "0.18.1", "--output-format", "json"),
            ("upgrade", "ds.json", "--transformers-from", "4.30.0"),
        ),
    ),
    Surface(
        "effective",
        "json",
        "ds.json",
        (
            ("effective", "ds.json"),
            ("effective", "ds.json", "--stack", "trainer", "--world-size", "8"),
            ("effective", "ds.json", "--all", "--output-format", "json"),
            ("effective", "ds.json", "--against", "other.json", "--stack", "deepspeed"),
        ),
        (("other.json", PLAIN),),
    ),
    Surface(
        "init",
        "",
        "",
        (
            ("init", "--output-file", "-", "{}"),
            ("init", "--output-file", "-", "--stage", "{}"),
            ("init", "--output-file", "-", "--fit", "--gpu", "{}", "--world-size", "8", "--model", "model"),
            ("init", "--output-file", "-", "--host-memory", "{}"),
        ),
        _MODEL_BESIDE,
        None,
        ("3", "A100-80GB", "512GB", "cpu"),
    ),
    Surface(
        "option",
        "",
        "",
        (
            *(
                (*_CHECK, "ds.json", f"--{name}", "{}")
                for name in (
                    "world-size",
                    "nodes",
                    "gpu",
                    "host-memory",
                    "model",
                    "stack",
                    "deepspeed-version",
                    "transformers-version",
                    "select",
                    "ignore",
                    "fail-on",
                    "output-format",
                    "limit",
                    "settings",
                    "baseline",
                    "exclude",
                    "trainer-args",
                    "stdin-filename",
                )
            ),
            *(
                ("memory", "ds.json", *_SIZE, f"--{name}", "{}")
                for name in (
                    "parameters",
                    "gpu-memory",
                    "micro-batch",
                    "sequence-length",
                    "gpu",
                    "lora",
                    "world-size",
                    "nodes",
                )
            ),
        ),
        (("ds.json", PLAIN),),
        None,
        ("8", "A100-80GB", "80GB", "7B", "0.16", "DS1,DS2", "a/b.json", "64,128", "*.json", "meta-llama/Llama-2-7b"),
    ),
    Surface(
        "log",
        "",
        "train.log",
        (("doctor", "train.log"), ("doctor", "train.log", ".", "--output-format", "json")),
        (("ds.json", PLAIN), ("run.sh", RUN), ("train.py", TRAIN)),
        None,
        _LOGS,
    ),
    Surface(
        "command line",
        "",
        "",
        (),
        (("ds.json", PLAIN),),
        None,
        (
            "check ds.json --fix --diff",
            "check . --select DS1 --ignore DS101 --output-format json --exit-zero",
            "memory ds.json --parameters 7B --world-size 8 --gpu T4",
            "explain DS101",
            "explain zero_optimization.stage",
            "convert ds.json --to fsdp",
            "effective ds.json --all",
            "upgrade --from 0.14 ds.json",
            "rules",
            "schema",
            "check ds.json --trainer-args -- --add-ignore",
            "check --trainer-args=--bf16 ds.json",
            "init --output-file -",
            "completion bash",
            "help check",
            "check ds.json --world-size 8 --nodes 2 --model x",
            "-V",
            "explain --lang zh DS101",
        ),
    ),
)
