"""Releases that were made for the tests of the extractors: as small as they may be, and laid out as the real ones.

A release is a table of files; ``write`` puts it into a folder.
"""

from __future__ import annotations

from textwrap import dedent, indent


def write(folder, files):
    """Write a release into a folder, and return the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def _function(head, body):
    return f"def {head}:\n{indent(dedent(body).strip() or 'pass', '    ')}\n"


# ------------------------------------------------------------------------------------------------------- transformers

TRAINING_ARGUMENTS = """
@dataclass
class TrainingArguments:
    output_dir: str
    learning_rate: float = field(default=5e-5, metadata={"help": "AdamW"})
    lr_scheduler_kwargs: dict = field(default_factory=dict)
    logging_dir: str | None = None
    processes: int = int(os.environ["PROCESSES"])
    _n_gpu: int = field(init=False)

    def __post_init__(self):
        self.deepspeed_plugin = DeepSpeedPlugin(hf_ds_config=self.hf_deepspeed_config)

    def _process_fsdp_args(self):
        if not self.fsdp:
            return None
        for k in list(self.fsdp_config):
            self.fsdp_config[k[5:]] = self.fsdp_config.pop(k)
        self._apply_legacy_fsdp_to_config(self.fsdp, self.fsdp_config)
        self.fsdp_config["min_num_params"] = self.fsdp_config.get("min_num_params", 0)
        self.fsdp_config.setdefault("xla", False)
        fsdp_version = int(self.fsdp_config.get("version", 2))
        if self.fsdp_config.get("cpu_offload", False):
            plugin["cpu_offload"] = True
        auto_wrap_policy = self.fsdp_config.get("auto_wrap_policy", FSDP_AUTO_WRAP_POLICY[0])
        if auto_wrap_policy == FSDP_AUTO_WRAP_POLICY[1] and self.fsdp_config["min_num_params"] > 0:
            plugin["min_num_params"] = self.fsdp_config["min_num_params"]
        elif auto_wrap_policy == FSDP_AUTO_WRAP_POLICY[0] and self.fsdp_config.get("layers") is not None:
            plugin["layers"] = ",".join(self.fsdp_config["layers"])
        if fsdp_version == 2:
            plugin["reshard"] = str_to_bool(str(self.fsdp_config.get("reshard", True)).lower())
        else:
            plugin["reshard"] = str(self.fsdp_config.get("reshard", "full_shard")).lower()
            plugin["prefetch"] = str_to_bool(str(self.fsdp_config.get("prefetch", "false")).lower())

    def _apply_legacy_fsdp_to_config(fsdp, fsdp_config):
        pass
"""
PINS = 'deps = {"accelerate": "accelerate>=0.20.3", "deepspeed": "deepspeed>=0.9.3", "torch": "torch"}\n'
STAGES = {
    "trainer_config_process": "trainer_config_process(self, args, auto_find_batch_size=False)",
    "trainer_config_finalize": "trainer_config_finalize(self, args, model, num_training_steps)",
    "deepspeed_optim_sched": "deepspeed_optim_sched(trainer, hf_deepspeed_config, args)",
    "deepspeed_init": "deepspeed_init(trainer, num_training_steps)",
}
FILLED = 'self.fill_match("optimizer.params.lr", args.learning_rate, "learning_rate")'


OLDER_FSDP = """

class Older:
    def _process(self):
        for key in list(self.fsdp_config):
            if key.startswith("fsdp_"):
                self.fsdp_config[key[5:]] = self.fsdp_config.pop(key)
        if self.fsdp_config.get("cpu_ram_efficient_loading"):
            raise ValueError("sync_module_states must be on with cpu_ram_efficient_loading")
"""
_SEQ2SEQ = """
class Seq2SeqTrainingArguments(TrainingArguments):
    sortish_sampler: bool = field(default=False, metadata={"help": "whether to use it"})
"""
_WORDS = """
class IntervalStrategy(ExplicitEnum):
    NO = "no"
    STEPS = "steps"
"""
_PARSER = """
class HfArgumentParser:
    @staticmethod
    def _parse_dataclass_field(parser, field):
        long_options = [f"--{field.name}"]
        if "_" in field.name:
            long_options.append(f"--{field.name.replace('_', '-')}")
"""


def transformers(*, file="integrations/deepspeed.py", version="", **bodies):
    """A release in which the named functions have these bodies; the first fills the learning rate otherwise."""
    bodies.setdefault("trainer_config_process", FILLED)
    functions = "\n".join(_function(head, bodies.get(name, "")) for name, head in STAGES.items())
    return {
        "transformers/__init__.py": f'__version__ = "{version}"\n' if version else "",
        f"transformers/{file}": functions,
        "transformers/training_args.py": TRAINING_ARGUMENTS,
        "transformers/training_args_seq2seq.py": _SEQ2SEQ,
        "transformers/trainer_utils.py": _WORDS,
        "transformers/debug_utils.py": "",
        "transformers/hf_argparser.py": _PARSER,
        "transformers/dependency_versions_table.py": PINS,
    }


MODEL_CONFIG = 'class SmallConfig(PreTrainedConfig):\n    model_type = "small"\n    hidden_size: int = 8\n'


def models(configuration=MODEL_CONFIG, modeling=""):
    """A release with one model, ``small``."""
    folder = "transformers/models/small"
    return {f"{folder}/configuration_small.py": configuration, f"{folder}/modeling_small.py": modeling}


# --------------------------------------------------------------------------------------------------------- accelerate

_FIELDS = """
    zero_stage: int = field(default=None, metadata={"help": "0 to 3"})
    hf_ds_config: Any = field(default=None)
"""
GIVEN = "if isinstance(self.hf_ds_config, dict) or isinstance(self.hf_ds_config, HfDeepSpeedConfig):"
_METHODS = {  # the head of each, its body if none is given, and what it begins with in any case
    "plugin": ("__post_init__(self)", "", f"{GIVEN}\n    self._deepspeed_config_checks()\n"),
    "precision": ("set_mixed_precision(self, mixed_precision)", "", ""),
    "filling": ("fill_match(self, ds_key_long, mismatches=None, must_match=True, **kwargs)", "", ""),
    "checks": ("_deepspeed_config_checks(self)", 'names = ["ACCELERATE_MIXED_PRECISION"]', ""),
    "process": ("deepspeed_config_process(self, must_match=True, **kwargs)", "", ""),
    "constructor": (
        "__init__(self)",
        'if compare_versions("deepspeed", "<", "0.9.3"):\n    raise ImportError("too old")',
        "",
    ),
    "prepare": ("_prepare_deepspeed(self, *args)", "", ""),
}
_CONFIG = """
@dataclass
class BaseConfig:
    mixed_precision: str

@dataclass
class ClusterConfig(BaseConfig):
    num_processes: int = -1
    deepspeed_config: dict = None

    def read(config_dict):
        if "fp16" in config_dict:
            del config_dict["fp16"]
        config_dict.pop("num_processes")
        config_dict.pop("dynamo_backend")

@dataclass
class SageMakerConfig(BaseConfig):
    region: str = "us-east-1"
"""
_ASKING = """
def get_cluster_input():
    deepspeed_config = {}
    deepspeed_config["zero_stage"] = ask()
    fsdp_config["fsdp_offload_params"] = ask()
"""
_LAUNCH = """
from accelerate.commands.utils import CustomArgumentParser

def launch_command_parser():
    parser = CustomArgumentParser("launch")
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--debug", action="store_true")
    tpu_args = parser.add_argument_group("TPU")
    tpu_args.add_argument("--tpu_cluster", action="store_true", dest="tpu_use_cluster")
    tpu_args.add_argument("--no_tpu_cluster", action="store_false", dest="tpu_use_cluster")
    deepspeed_args.add_argument("--zero_stage", default=None, type=int, choices=[0, 1])
    fsdp_args.add_argument("--fsdp_min_num_params", type=int, default=int(1e8))
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)

def deepspeed_launcher(args):
    command = prepare(args)
    run(command, getattr(args, "debug", False))

def other_launcher(args):
    run(args.num_processes)

def launch_command(args):
    if args.fsdp_version:
        defaults = load_config_from_file(args.config_file)
    if args.dynamo_backend is None:
        warned.append("no")
        args.dynamo_backend = "no"
    for name, value in defaults.__dict__.items():
        setattr(args, name, value)
    if defaults.distributed_type:
        deepspeed_launcher(args)
    else:
        other_launcher(args)
"""
_PREPARING = """
def prepare(args):
    for arg in vars(args):
        if arg.startswith("fp8_"):
            pass
    args.standalone = args.zero_stage is None

def prepare_multi_gpu_env(args):
    current_env["ACCELERATE_DEBUG"] = str(args.debug)
    if args.use_fsdp:
        current_env["FSDP_VERSION"] = str(args.fsdp_version) if hasattr(args, "fsdp_version") else "1"
        current_env["FSDP_RESHARD"] = str(args.fsdp_reshard).lower()
        if args.fsdp_auto_wrap_policy is not None:
            current_env["FSDP_AUTO_WRAP_POLICY"] = str(args.fsdp_auto_wrap_policy)
"""
_ENUMERATIONS = """
class DistributedType(str, enum.Enum):
    NO = "NO"
    DEEPSPEED = "DEEPSPEED"
    TPU = DeprecatedFieldDescriptor("TPU", "XLA")

class ComputeEnvironment(str, enum.Enum):
    LOCAL_MACHINE = "LOCAL_MACHINE"

class DynamoBackend(str, enum.Enum):
    NO = "NO"

class FP8BackendType(str, enum.Enum):
    NO = "NO"

class PrecisionType(BaseEnum):
    NO = "no"

class SageMakerDistributedType(str, enum.Enum):
    NO = "NO"
"""
_FSDP_PLUGIN = """
class FullyShardedDataParallelPlugin:
    def __post_init__(self):
        env_prefix = "FSDP_"
        if self.fsdp_version is None:
            self.fsdp_version = int(os.environ.get(env_prefix + "VERSION", "1"))
        if self.fsdp_version == 1:
            if self.sharding_strategy is None:
                self.sharding_strategy = os.environ.get(env_prefix + "SHARDING_STRATEGY", "FULL_SHARD")
        if self.reshard_after_forward is None and self.sharding_strategy is None:
            reshard = os.environ.get(env_prefix + "RESHARD", "true" if self.fsdp_version == 2 else "FULL_SHARD")
            if self.fsdp_version == 2:
                self.reshard_after_forward = str_to_bool(reshard.lower(), to_bool=True)
        if self.backward_prefetch is None:
            self.backward_prefetch = os.environ.get(env_prefix + "BACKWARD_PREFETCH", None)
        if self.fsdp_version == 2 and self.backward_prefetch is not None:
            self.backward_prefetch = None
        self.set_state_dict_type()
        if isinstance(self.auto_wrap_policy, str):
            if self.auto_wrap_policy.upper() == "TRANSFORMER_BASED_WRAP":
                pass
            elif self.auto_wrap_policy.upper() == "SIZE_BASED_WRAP":
                if self.min_num_params is None:
                    self.min_num_params = int(os.environ.get(env_prefix + "MIN_NUM_PARAMS", 0))

    def set_state_dict_type(self, state_dict_type=None):
        if self.state_dict_type is None:
            self.state_dict_type = os.environ.get("FSDP_STATE_DICT_TYPE", "FULL_STATE_DICT")
        if self.fsdp_version == 2 and self.state_dict_type == StateDictType.LOCAL_STATE_DICT:
            raise ValueError("FSDP2 does not support LOCAL_STATE_DICT.")
"""
_CONSTANTS = """
FSDP_SHARDING_STRATEGY = ["FULL_SHARD"]
FSDP_AUTO_WRAP_POLICY = ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP"]
FSDP_BACKWARD_PREFETCH = ["BACKWARD_PRE"]
FSDP_STATE_DICT_TYPE = ["FULL_STATE_DICT"]
FSDP_PYTORCH_VERSION = "2.1.0"
"""


def accelerate(*, version="", **bodies):
    """A release in which the named methods have these bodies, and the others are empty or do what they must."""
    written = {
        part: indent(_function(head, start + dedent(bodies.get(part, body))), "    ")
        for part, (head, body, start) in _METHODS.items()
    }
    plugin = "".join(written[part] for part in ("plugin", "precision", "filling", "checks", "process"))
    return {
        "accelerate/__init__.py": f'__version__ = "{version}"\n' if version else "",
        "accelerate/utils/launch.py": _PREPARING,
        "accelerate/utils/dataclasses.py": f"{_ENUMERATIONS}class DeepSpeedPlugin:\n{_FIELDS}{plugin}{_FSDP_PLUGIN}",
        "accelerate/utils/constants.py": _CONSTANTS,
        "accelerate/utils/deepspeed.py": (
            "class HfDeepSpeedConfig:\n    def __init__(self, config): self.config = config\n"
        ),
        "accelerate/accelerator.py": f"class Accelerator:\n{written['constructor']}{written['prepare']}",
        "accelerate/commands/launch.py": _LAUNCH,
        "accelerate/commands/config/config_args.py": _CONFIG,
        "accelerate/commands/config/cluster.py": _ASKING,
    }


# ---------------------------------------------------------------------------------------------------------- lightning

LIGHTNING = {
    "lightning/__init__.py": "",
    "lightning/pytorch/strategies/deepspeed.py": """
class DeepSpeedStrategy:
    def __init__(self, accelerator=None, on: bool = True, stage: int = 2, offload=False, size: int = 10_000,
                 level=logging.WARN):
        self.config = self._create_default_config(on, size, offload=offload, stage=stage)

    def _create_default_config(self, on, size, offload, **rest):
        cfg = {"aio": {"block_size": size}}
        if on:
            zero_config = rest
            if offload:
                zero_config["offload_optimizer"] = {"buffer_size": size}
            cfg = {"zero_optimization": zero_config, **cfg}
        if size != "auto":
            cfg = {"size": size, **cfg}
        return cfg

    @classmethod
    def register_strategies(cls, strategy_registry):
        strategy_registry.register("deepspeed", cls, description="Default")
        strategy_registry.register("deepspeed_3", cls, description="Stage 3", stage=3, offload=True)
""",
    "lightning/fabric/strategies/deepspeed.py": """
class DeepSpeedStrategy:
    @classmethod
    def register_strategies(cls, strategy_registry):
        strategy_registry.register("deepspeed_1", cls, description="Stage 1", stage=1)
""",
}

# ---------------------------------------------------------------------------------------------------------- deepspeed

_DEEPSPEED_CONFIG = """
    import json

    class DeepSpeedConfig:
        def __init__(self, config):
            json.load(open(config))
            self._initialize(config)

        def _initialize(self, param_dict):
"""


def deepspeed(reads, before="", **modules):
    """A release: what DeepSpeedConfig does with the config, what stands before it, and the modules beside it."""
    modules["config"] = dedent(before) + dedent(_DEEPSPEED_CONFIG) + indent(dedent(reads), " " * 8)
    modules = {"__init__": "", "engine": "class DeepSpeedEngine: ...", **modules}
    return {f"deepspeed/runtime/{name}.py": dedent(source) for name, source in modules.items()}


# --------------------------------------------------------------------------------------------------------- frameworks

AXOLOTL = {
    "axolotl/utils/schemas/config.py": """
class Hyperparameters(BaseModel):
    LIMITS: ClassVar[dict] = {}
    micro_batch_size: int | None = Field(default=1, json_schema_extra={})
    optimizer: str | None = Field(default=Names.ADAMW)
    weight_decay: float | None = None

class AxolotlInputConfig(Hyperparameters):
    learning_rate: str | float

    def check_muon(cls, data):
        if data.get("optimizer") != "muon":
            return data
        if data.get("deepspeed"):
            raise ValueError("Muon is incompatible with DeepSpeed")
        if data.get("fsdp_version"):
            raise ValueError("not about DeepSpeed")

class Elsewhere(BaseModel):
    learning_rate: float = 3
""",
    "axolotl/utils/schemas/validation.py": "from pydantic import BaseModel\n",
    "axolotl/utils/schemas/enums.py": """
class CustomSupportedOptimizers(str, Enum):
    muon = "muon"
    dion = "dion"
""",
    "axolotl/core/builders/base.py": """
class Builder:
    def _configure(self, training_args_kwargs):
        for arg in ["learning_rate", "weight_decay"]:
            if hasattr(self.cfg, arg) and getattr(self.cfg, arg) is not None:
                training_args_kwargs[arg] = getattr(self.cfg, arg)
        training_args_kwargs["per_device_train_batch_size"] = self.cfg.micro_batch_size
        names = [opt.value for opt in CustomSupportedOptimizers]
        if self.cfg.optimizer not in names:
            training_args_kwargs["optim"] = self.cfg.optimizer
        training_args_kwargs["not_of_transformers"] = 1
""",
    "axolotl/core/builders/causal.py": "",
}
AXOLOTL["axolotl/utils/schemas/config.py"] = (
    "from pydantic import BaseModel\n" + AXOLOTL["axolotl/utils/schemas/config.py"]
)
LLAMA_FACTORY = {
    "llamafactory/hparams/training_args.py": """
from transformers import Seq2SeqTrainingArguments
BaseTrainingArguments = Seq2SeqTrainingArguments

class TrainingArguments(Fp8Arguments, BaseTrainingArguments):
    weight_decay: float = field(default=0.5, metadata={})
""",
    "llamafactory/hparams/model_args.py": """
class Fp8Arguments:
    fp8: bool = field(default=False)
class ModelArguments:
    quantization_bit: int | None = None
class DataArguments:
    pass
class FinetuningArguments:
    pass
class GeneratingArguments:
    pass
class InferArguments:
    other: int = 1
""",
    "llamafactory/hparams/parser.py": """
def get_train_args(args):
    training_args.remove_unused_columns = False
    def _create_muon_optimizer(model):
        if param.ndim == 2 and "embed" not in name:
            pass
    if training_args.seed is None:
        training_args.seed = 1
    if training_args.deepspeed is not None and finetuning_args.use_galore:
        raise ValueError("GaLore is incompatible")
    if finetuning_args.use_galore:
        raise ValueError("not about it")
""",
    "llamafactory/train/trainer_utils.py": "",
}
MS_SWIFT = {
    "swift/arguments/sft_args.py": """
from transformers import Seq2SeqTrainingArguments

class SftArguments(Seq2SeqTrainingArguments):
    lora_rank: int = 8
    weight_decay: float = 0.1

    def __post_init__(self):
        self.remove_unused_columns = False
        if self.seed is None:
            self.seed = 1

    def load_args_from_ckpt(self):
        for key, value in saved.items():
            setattr(self, key, value)

class PretrainArguments(SftArguments):
    pass

class RLHFArguments(SftArguments):
    beta: float = 0.1
""",
    "swift/trainers/arguments.py": "",
}
TRL = {
    "trl/trainer/sft_config.py": """
from transformers import TrainingArguments

class SFTConfig(TrainingArguments):
    packing: bool = False
    logging_steps: float = 10
""",
    "trl/scripts/utils.py": """
class ScriptArguments:
    dataset_name: str | None = None
""",
}

# ----------------------------------------------------------------------------------------------------------------- trl

TRL_CLASSES = {
    "trl/__init__.py": '_import_structure = {"trainer": ["SFTConfig"]}\nfrom .trainer import KTOConfig\n',
    "trl/trainer/base_config.py": """
from transformers import TrainingArguments

@dataclass
class _BaseConfig(TrainingArguments):
    bf16: bool | None = field(default=None, metadata={"help": "16 bits"})

    def __post_init__(self):
        self.bf16 = not (self.fp16) if self.bf16 is None else self.bf16
        super().__post_init__()
""",
    "trl/trainer/sft_config.py": """
from .base_config import _BaseConfig

@dataclass
class SFTConfig(_BaseConfig):
    max_length: int | None = 1024
    max_seq_length: int | None = None
    loss_type: str = field(default="nll", metadata={"choices": ["nll", "dft"]})

    def __post_init__(self):
        if self.max_seq_length is not None:
            warnings.warn("`max_seq_length` is deprecated and will be removed. Use `max_length` instead.")
            self.max_length = self.max_seq_length
        warnings.warn("`loss_type` is deprecated. Use `another_class` instead.")

class ClosedConfig(_BaseConfig):
    more: int = 1
""",
    "trl/experimental/kto/kto_config.py": """
from ...trainer.base_config import _BaseConfig

@dataclass
class KTOConfig(_BaseConfig):
    beta: float = 0.1
""",
    "trl/experimental/kto/__init__.py": "from .kto_config import KTOConfig\n",
    "trl/trainer/kto_config.py": """
from ..experimental.kto import KTOConfig as _KTOConfig

@dataclass
class KTOConfig(_KTOConfig):
    pass
""",
}
