"""What a release may do in another way than the extractors know, on the releases that are made for their tests."""

from __future__ import annotations

from typing import NamedTuple

import made_sources


class Change(NamedTuple):
    """What a release does in another way: a text in a file and what stands there instead, and what the error says."""

    what: str
    file: str
    before: str
    after: str
    error: str


INTEGRATION, ARGUMENTS = "transformers/integrations/deepspeed.py", "transformers/training_args.py"
TRANSFORMERS = made_sources.transformers(
    trainer_config_process="""
        self.fill_match("optimizer.params.lr", args.learning_rate, "learning_rate")
        if args.save_on_each_node:
            self.config["checkpoint"]["use_node_local_storage"] = True
    """,
    deepspeed_optim_sched="""
        config = hf_deepspeed_config.config
        config["zero_allow_untested_optimizer"] = True
    """,
    deepspeed_init="""
        if inference:
            raise ValueError("only with stage 3")
    """,
)
_HELPER = "def helper(self, why='wrong'):\n    {body}\n\n\ndef deepspeed_optim_sched("
OF_TRANSFORMERS = (
    Change(
        "a function that fills returns early",
        INTEGRATION,
        "    if args.save_on",
        "    if not args.save:\n        return\n    if args.save_on",
        "before self.config['checkpoint']['use_node_local_storage'] = True, the function returns where not args.save",
    ),
    Change(
        "a function that refuses returns early",
        INTEGRATION,
        "    if inference:",
        "    if auto:\n        return\n    if inference:",
        "before raise ValueError('only with stage 3'), the function returns where auto",
    ),
    Change(
        "a stage is renamed",
        INTEGRATION,
        "def trainer_config_finalize",
        "def finish",
        "there is no trainer_config_finalize in",
    ),
    Change("the module is moved", INTEGRATION, "", "", "there is no"),
    Change(
        "the method that fills is renamed", INTEGRATION, "self.fill_match(", "self.fill(", "nothing calls fill_match"
    ),
    Change(
        "one call fills by another method",
        INTEGRATION,
        "    if args.save",
        '    self.fill_all("scheduler.params.warmup_min_lr", 0)\n    if args.save',
        "self.fill_all is none of fill_match, fill_only",
    ),
    Change(
        "a key is looped over",
        INTEGRATION,
        '"optimizer.params.lr"',
        "key",
        "the config is filled by self.fill_match(key",
    ),
    Change(
        "a value is passed by its name",
        INTEGRATION,
        ", args.learning_rate, ",
        ", hf_val=args.learning_rate, hf_key=",
        "the config is filled by self.fill_match",
    ),
    Change(
        "a helper fills",
        INTEGRATION,
        "def deepspeed_optim_sched(",
        _HELPER.format(body="self.fill_only('steps', 1)"),
        "helper fills the config, which is none of",
    ),
    Change(
        "a helper writes a key",
        INTEGRATION,
        "def deepspeed_optim_sched(",
        _HELPER.format(body="self.config['steps'] = 1"),
        "helper writes steps, and is none of",
    ),
    Change(
        "a helper raises",
        INTEGRATION,
        'raise ValueError("only with stage 3")',
        'raise_error("only with stage 3")\n\n\ndef raise_error(text):\n    raise ValueError(text)',
        "deepspeed_init calls raise_error, which raises and is not read",
    ),
    Change(
        "a message is handed on",
        INTEGRATION,
        'raise ValueError("only with stage 3")',
        "raise ValueError(num_training_steps)",
        "deepspeed_init raises with a message that it is handed",
    ),
    Change(
        "a key is written by a method",
        INTEGRATION,
        'config["zero_allow_untested_optimizer"] = True',
        'config.setdefault("zero_allow_untested_optimizer", True)',
        "the config is written by config.setdefault",
    ),
    Change(
        "a key is written together with others",
        INTEGRATION,
        'config["zero_allow_untested_optimizer"] = True',
        'config["zero_allow_untested_optimizer"], other = True, 1',
        "the config is written by",
    ),
    Change(
        "keys are written by update",
        INTEGRATION,
        'config["zero_allow_untested_optimizer"] = True',
        "config.update(**known)",
        "what config.update takes is not a dict with its keys written out",
    ),
    Change(
        "the arguments inherit their fields",
        ARGUMENTS,
        "class TrainingArguments:",
        "class TrainingArguments(BaseArguments):",
        "TrainingArguments inherits from BaseArguments, whose fields are not read",
    ),
    Change(
        "a field is made by a helper",
        ARGUMENTS,
        "field(default=5e-5,",
        "documented(default=5e-5,",
        "a default is given by documented(default=5e-05",
    ),
    Change(
        "a field is made from a table",
        ARGUMENTS,
        "field(default=5e-5,",
        "field(**LR,",
        "a default is given by field(**LR",
    ),
    Change(
        "another module makes the plugin",
        ARGUMENTS,
        "DeepSpeedPlugin(",
        "made(",
        "training_args.py makes no DeepSpeedPlugin",
    ),
    Change(
        "the layout of FSDP is another",
        ARGUMENTS,
        "_apply_legacy",
        "_apply_older",
        "there is no _apply_legacy_fsdp_to_config",
    ),
    Change(
        "the config of FSDP has another name",
        ARGUMENTS,
        'if self.fsdp_config.get("cpu_offload", False):',
        'config = self.fsdp_config\n        if config.get("cpu_offload", False):',
        "_process_fsdp_args uses self.fsdp_config in a way that is not read",
    ),
    Change("flags are read by another function", ARGUMENTS, "str_to_bool(", "as_flag(", "tells no flag_for of a key"),
    Change("the version of FSDP has another name", ARGUMENTS, "fsdp_version", "version", "tells no versions of a key"),
    Change(
        "the pins are made by a call",
        "transformers/dependency_versions_table.py",
        made_sources.PINS,
        "deps = dict(accelerate='accelerate>=0.20.3', deepspeed='deepspeed>=0.9.3')",
        "deps is not a dict with its keys written out: dict(accelerate=",
    ),
    Change(
        "the pins are merged",
        "transformers/dependency_versions_table.py",
        "deps = {",
        "deps = {**others, ",
        "deps is not a dict with its keys written out",
    ),
    Change(
        "the pins are annotated",
        "transformers/dependency_versions_table.py",
        "deps = {",
        "deps: dict = {",
        "dependency_versions_table.py has no pin of accelerate",
    ),
)

PLUGIN, ACCELERATOR, LAUNCH = (
    "accelerate/utils/dataclasses.py",
    "accelerate/accelerator.py",
    "accelerate/commands/launch.py",
)
PREPARING, YAML = "accelerate/utils/launch.py", "accelerate/commands/config/config_args.py"
ACCELERATE = made_sources.accelerate(
    plugin="""
        if self.zero_stage is None:
            self.zero_stage = int(os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", 2))
        plugin_to_config_mapping = {"zero_stage": "zero_optimization.stage"}
        kwargs = {v: getattr(self, k) for k, v in plugin_to_config_mapping.items()}
        for key in kwargs.keys():
            self.fill_match(key, **kwargs, must_match=False)
    """,
    precision="""
        ds_config = self.deepspeed_config
        ds_config["fp16"] = {"enabled": False}
        kwargs = {"fp16.enabled": mixed_precision == "fp16"}
        self.fill_match("fp16.enabled", must_match=False, **kwargs)
    """,
    prepare="""
        deepspeed_plugin.fill_match("steps", must_match=False, steps=self.steps)
        config_kwargs = {"gradient_clipping": 1.0}
        config_kwargs["train_batch_size"] = self.num_processes
        config_kwargs.update({"optimizer.params.lr": optimizer.lr})
        if optimizer is None:
            raise ValueError("no optimizer")
        deepspeed_plugin.deepspeed_config_process(must_match=False, **config_kwargs)
    """,
)
OF_ACCELERATE = (
    Change(
        "a method that fills returns early",
        PLUGIN,
        'ds_config["fp16"]',
        'if ready:\n            return\n        ds_config["fp16"]',
        "the function returns where ready",
    ),
    Change(
        "a method that fills a plugin returns early",
        ACCELERATOR,
        "config_kwargs = {",
        "if ready:\n            return\n        config_kwargs = {",
        "the function returns where ready",
    ),
    Change("the plugin is renamed", PLUGIN, "class DeepSpeedPlugin", "class Plugin", "there is no DeepSpeedPlugin in"),
    Change(
        "the plugin inherits its fields",
        PLUGIN,
        "class DeepSpeedPlugin:",
        "class DeepSpeedPlugin(Base):",
        "inherits from Base",
    ),
    Change(
        "the method that fills is renamed",
        PLUGIN,
        "def fill_match",
        "def fill",
        "there is no fill_match in DeepSpeedPlugin",
    ),
    Change(
        "the process that fills is renamed",
        PLUGIN,
        "def deepspeed_config_process",
        "def process",
        "there is no deepspeed_config_process in DeepSpeedPlugin",
    ),
    Change(
        "a mapping is made by a call",
        PLUGIN,
        'mapping = {"zero_stage": "zero_optimization.stage"}',
        'mapping = dict(zero_stage="zero_optimization.stage")',
        "plugin_to_config_mapping is not a dict with its keys written out",
    ),
    Change(
        "a mapping stands elsewhere",
        PLUGIN,
        "plugin_to_config_mapping = {",
        "other = {",
        "fills the config with plugin_to_config",
    ),
    Change(
        "values are made by a call",
        ACCELERATOR,
        "config_kwargs = {",
        "config_kwargs = values() or {",
        "config_kwargs is not a dict",
    ),
    Change(
        "values are merged in",
        ACCELERATOR,
        "config_kwargs.update(",
        "config_kwargs |= (",
        "what fills the config is made by",
    ),
    Change(
        "values are set by default",
        ACCELERATOR,
        'config_kwargs.update({"optimizer.params.lr": optimizer.lr})',
        'config_kwargs.setdefault("optimizer.params.lr", optimizer.lr)',
        "what fills the config is made by config_kwargs.setdefault",
    ),
    Change(
        "one value is handed on",
        ACCELERATOR,
        "steps=self.steps",
        "**self.steps()",
        "fills the config with self.steps()",
    ),
    Change("one value is missing", ACCELERATOR, ", steps=self.steps", "", "without a value for steps"),
    Change(
        "whether a config is given is asked in another way",
        PLUGIN,
        made_sources.GIVEN,
        "if self.hf_ds_config is not None:",
        "nothing in __post_init__ of DeepSpeedPlugin depends on",
    ),
    Change(
        "a key is inserted by a method",
        PLUGIN,
        'ds_config["fp16"] = {"enabled": False}',
        'ds_config.setdefault("fp16", {"enabled": False})',
        "the config is written by ds_config.setdefault",
    ),
    Change(
        "a helper raises",
        ACCELERATOR,
        'raise ValueError("no optimizer")',
        "self.refuse()\n\n    def refuse(self):\n        raise ValueError('none')\n\n    def more(self):\n        pass",
        "_prepare_deepspeed calls refuse, which raises and is not read",
    ),
    Change(
        "versions are compared in another way",
        ACCELERATOR,
        'compare_versions("deepspeed", "<", ',
        'not compare_versions("deepspeed", ">=", ',
        "Accelerator refuses a DeepSpeed by compare_versions('deepspeed', '>=', '0.9.3')",
    ),
    Change(
        "no version is compared",
        ACCELERATOR,
        "compare_versions(",
        "is_old(",
        "Accelerator refuses a DeepSpeed by nothing",
    ),
    Change(
        "the checks are renamed",
        PLUGIN,
        "def _deepspeed_config_checks",
        "def checks",
        "there is no _deepspeed_config_checks",
    ),
    Change(
        "the checks are made from a table",
        PLUGIN,
        'names = ["ACCELERATE',
        'names = NAMES or ["ACC',
        "has no list of variables",
    ),
    Change(
        "a variable is read by a helper",
        PLUGIN,
        'int(os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", 2))',
        'number_from_env("ACCELERATE_DEEPSPEED_ZERO_STAGE", 2)',
        "DeepSpeedPlugin reads ACCELERATE_DEEPSPEED_ZERO_STAGE by number_from_env",
    ),
    Change(
        "options are added by a function",
        LAUNCH,
        "fsdp_args.add_argument(",
        "add(",
        "launch_command_parser adds an argument by add(",
    ),
    Change(
        "options are looped over",
        LAUNCH,
        '"--fsdp_min_num_params"',
        'f"--{name}"',
        "launch_command_parser adds an argument by fsdp_args.add_argument(f",
    ),
    Change(
        "another module adds options",
        LAUNCH,
        "    deepspeed_args.add",
        "    add_more(parser)\n    deepspeed_args.add",
        "launch_command_parser adds an argument by add_more(parser)",
    ),
    Change(
        "the parser is renamed",
        LAUNCH,
        "def launch_command_parser",
        "def parser",
        "there is no launch_command_parser in",
    ),
    Change("the command is renamed", LAUNCH, "def launch_command(", "def launch(", "has no launch_command"),
    Change(
        "the YAML is read in another way",
        LAUNCH,
        "load_config_from_file(",
        "loaded(",
        "do not call load_config_from_file",
    ),
    Change(
        "a launcher prepares elsewhere",
        PREPARING,
        "def prepare(",
        "def older(",
        "hands the arguments to prepare, which is not read",
    ),
    Change(
        "the keys of a YAML stand elsewhere",
        YAML,
        "class ClusterConfig",
        "class Cluster",
        "there is no ClusterConfig in",
    ),
    Change(
        "the keys of SageMaker stand elsewhere",
        YAML,
        "class SageMakerConfig",
        "class AWS",
        "there is no SageMakerConfig in",
    ),
    Change("the keys have another base", YAML, "(BaseConfig)", "(CommonConfig)", "inherits from CommonConfig"),
    Change(
        "the answers have another name",
        "accelerate/commands/config/cluster.py",
        "deepspeed_config",
        "answers",
        "get_cluster_input asks for no key of deepspeed_config",
    ),
    Change(
        "an enumeration stands elsewhere",
        PLUGIN,
        "class DynamoBackend",
        "class Backend",
        "there is no DynamoBackend in",
    ),
    Change(
        "an enumeration has no words",
        PLUGIN,
        'NO = "no"',
        "NO = enum.auto()",
        "PrecisionType has other values than words",
    ),
    Change(
        "words stand elsewhere",
        "accelerate/utils/constants.py",
        "FSDP_STATE_DICT_TYPE = [",
        "STATE_DICTS = [",
        "FSDP_STATE_DICT_TYPE is not a list of words in",
    ),
    Change(
        "the environment is made elsewhere",
        PREPARING,
        "def prepare_multi_gpu_env",
        "def env",
        "there is no prepare_multi_gpu_env",
    ),
    Change(
        "the environment has another name",
        PREPARING,
        "current_env[",
        "env[",
        "names FSDP_AUTO_WRAP_POLICY without writing it",
    ),
    Change(
        "a variable is written by a method",
        PREPARING,
        'current_env["FSDP_RESHARD"] = str(args.fsdp_reshard).lower()',
        'current_env.update({"FSDP_RESHARD": str(args.fsdp_reshard).lower()})',
        "prepare_multi_gpu_env names FSDP_RESHARD without writing it into current_env",
    ),
    Change(
        "the plugin for FSDP reads a variable by a helper",
        PLUGIN,
        'int(os.environ.get(env_prefix + "MIN_NUM_PARAMS", 0))',
        'number_from_env(env_prefix + "MIN_NUM_PARAMS", 0)',
        "FullyShardedDataParallelPlugin reads FSDP_MIN_NUM_PARAMS by number_from_env",
    ),
    Change(
        "the plugin for FSDP reads elsewhere",
        PLUGIN,
        "def set_state_dict_type",
        "def set_type",
        "there is no set_state_dict_type",
    ),
)

CONFIGURATION = "transformers/models/small/configuration_small.py"
OF_MODELS = (
    Change("configurations have another name", CONFIGURATION, "", "", "has a class with a model_type"),
    Change("the type has another name", CONFIGURATION, "model_type", "kind", "has a class with a model_type"),
    Change("the type is computed", CONFIGURATION, '"small"', "name()", "the model_type of SmallConfig is name()"),
    Change(
        "the configuration inherits from elsewhere",
        CONFIGURATION,
        "PreTrainedConfig",
        "DecoderConfig",
        "SmallConfig inherits from DecoderConfig, which no configuration_*.py defines",
    ),
    Change(
        "keys are renamed by a call",
        CONFIGURATION,
        "    hidden_size: int = 8",
        "    attribute_map = dict(hidden_size='n_embd')",
        "attribute_map of SmallConfig is not a dict with its keys written out",
    ),
    Change(
        "modules have another name",
        "transformers/models/small/modeling_small.py",
        "",
        "",
        "there is no modeling_*.py below",
    ),
)

STRATEGY = "lightning/pytorch/strategies/deepspeed.py"
OF_LIGHTNING = (
    Change("the module is moved", STRATEGY, "", "", "there is no"),
    Change(
        "the strategy is renamed",
        STRATEGY,
        "class DeepSpeedStrategy",
        "class Strategy",
        "there is no DeepSpeedStrategy in",
    ),
    Change(
        "names are registered in a loop",
        STRATEGY,
        '        strategy_registry.register("deepspeed", cls, description="Default")',
        "        for name in NAMES: strategy_registry.register(name, cls)",
        "strategies are registered by for name in NAMES",
    ),
    Change(
        "a keyword is changed on the way",
        STRATEGY,
        "offload=offload",
        "offload=not offload",
        "is passed on as something else",
    ),
    Change(
        "keywords are passed on in a dict",
        STRATEGY,
        "offload=offload, stage=stage",
        "**rest",
        "are passed on in a dict",
    ),
    Change(
        "another function makes the config",
        STRATEGY,
        "self._create_default_config(",
        "self.create(",
        "the constructor of DeepSpeedStrategy does not call _create_default_config",
    ),
    Change(
        "a value is computed", STRATEGY, '"block_size": size', '"block_size": size * 2', "aio.block_size gets size * 2"
    ),
    Change(
        "a section is made by a call",
        STRATEGY,
        "zero_config = rest",
        "zero_config = dict(rest)",
        "the config is made of dict(rest)",
    ),
    Change(
        "there is a loop", STRATEGY, "return cfg", "for key in cfg: print(key)", "the config is made by for key in cfg"
    ),
    Change(
        "something else is returned",
        STRATEGY,
        "return cfg",
        "return other",
        "the config is made of other, which is not followed",
    ),
    Change(
        "a keyword has no default", STRATEGY, "accelerator=None", "accelerator", "takes something without a default"
    ),
    Change(
        "a keyword has no place",
        STRATEGY,
        "accelerator=None, ",
        "accelerator=None, *, ",
        "takes keyword-only arguments or **kwargs, which are not read",
    ),
    Change(
        "the config is returned early",
        STRATEGY,
        "        if size !=",
        "        if size is None:\n            return cfg\n        if size !=",
        "the config is made by return cfg",
    ),
)

READ = "self.steps = param_dict.get(STEPS, STEPS_DEFAULT)"
DEEPSPEED = {
    **made_sources.deepspeed(
        READ,
        before="""
            from deepspeed.runtime.constants import STEPS
            from .defaults import *
        """,
        constants="STEPS = 'steps'",
        defaults="STEPS_DEFAULT = 10",
        engine="""
            class DeepSpeedEngine:
                def __init__(self, config):
                    self.steps = self._config.steps
        """,
    ),
    "deepspeed/__init__.py": "def initialize(model=None, config=None, config_params=None):\n    pass\n",
    "deepspeed/comm/comm.py": "def configure(deepspeed_config=None):\n    pass\n",
    "deepspeed/runtime/zero/partition_parameters.py": (
        "class Init:\n    def __init__(self, config_dict_or_path=None):\n        pass\n"
    ),
    "deepspeed/runtime/pipe/engine.py": "class PipelineEngine:\n    pass\n",
}
OF_DEEPSPEED = (
    Change(
        "a pattern takes the config apart",
        "deepspeed/runtime/config.py",
        READ,
        "match param_dict:\n            case {'steps': steps}:\n                self.steps = steps",
        "a value of the config is matched with {'steps': steps}, which is not followed",
    ),
    Change(
        "the config is moved",
        "deepspeed/runtime/config.py",
        "class DeepSpeedConfig",
        "class Config",
        "there is no deepspeed.runtime.config.DeepSpeedConfig",
    ),
    Change(
        "the engine is moved",
        "deepspeed/runtime/engine.py",
        "class DeepSpeedEngine",
        "class Engine",
        "there is no deepspeed.runtime.engine.DeepSpeedEngine",
    ),
    Change(
        "the engine keeps the config under another name",
        "deepspeed/runtime/engine.py",
        "self._config",
        "self._settings",
        "DeepSpeedEngine does not keep the config as _config",
    ),
    Change(
        "the start is renamed",
        "deepspeed/__init__.py",
        "def initialize",
        "def start",
        "there is no deepspeed.initialize",
    ),
    Change(
        "the config is taken under another name",
        "deepspeed/__init__.py",
        "config=None, config_params=None",
        "settings=None",
        "deepspeed.initialize takes no config and no config_params",
    ),
    Change(
        "a further engine is renamed",
        "deepspeed/runtime/pipe/engine.py",
        "class PipelineEngine",
        "class Engine",
        "there is no deepspeed.runtime.pipe.engine.PipelineEngine",
    ),
    Change(
        "a context takes the config under another name",
        "deepspeed/runtime/zero/partition_parameters.py",
        "config_dict_or_path",
        "config",
        "deepspeed.runtime.zero.partition_parameters.Init takes no config_dict_or_path",
    ),
    Change(
        "a function is moved with its module",
        "deepspeed/runtime/pipe/engine.py",
        "class PipelineEngine:",
        "def init_compression(deepspeed_config):\n    pass\n\n\nclass PipelineEngine:",
        "there is no deepspeed.compression.compress, and init_compression is in deepspeed/runtime/pipe/engine.py",
    ),
    Change(
        "a name is not where it is imported from",
        "deepspeed/runtime/constants.py",
        "STEPS =",
        "OTHER =",
        "STEPS, which is imported from deepspeed.runtime.constants, is not found",
    ),
    Change(
        "a module is not where a name is imported from",
        "deepspeed/runtime/constants.py",
        "",
        "",
        "deepspeed.runtime.constants, from which STEPS is imported, is not found",
    ),
    Change(
        "a module is not where all names are imported from",
        "deepspeed/runtime/defaults.py",
        "",
        "",
        "deepspeed.runtime.defaults, from which deepspeed.runtime.config imports all names, is not found",
    ),
    Change(
        "another function reads the file",
        "deepspeed/runtime/config.py",
        "json.load(",
        "loaded(",
        "nothing that is followed reads a config file",
    ),
)

BUILDER, FIELDS = "axolotl/core/builders/base.py", "axolotl/utils/schemas/config.py"
OF_AXOLOTL = (
    Change(
        "a builder returns early",
        BUILDER,
        "        names = [",
        "        if self.cfg.plain:\n            return\n        names = [",
        "the function returns where self.cfg.plain",
    ),
    Change(
        "a builder is moved",
        "axolotl/core/builders/causal.py",
        "",
        "",
        "there is no **/axolotl/core/builders/causal.py in",
    ),
    Change(
        "the class of a recipe is renamed",
        FIELDS,
        "class AxolotlInputConfig",
        "class Input",
        "no class AxolotlInputConfig in",
    ),
    Change(
        "a base is moved",
        FIELDS,
        "class Hyperparameters(BaseModel):",
        "from axolotl.utils.hyper import Parameters\n\nclass Hyperparameters(Parameters):",
        "Hyperparameters inherits from Parameters, which is in axolotl.utils.hyper",
    ),
    Change(
        "a base comes with a star",
        FIELDS,
        "class Hyperparameters(BaseModel):",
        "from .hyper import *\n\nclass Hyperparameters(Parameters):",
        "Hyperparameters inherits from Parameters, which is not found",
    ),
    Change(
        "the arguments have another name",
        BUILDER,
        "training_args_kwargs",
        "kwargs",
        "no builder assigns anything to training_args_kwargs",
    ),
    Change(
        "arguments are added by a method",
        BUILDER,
        'training_args_kwargs["not_of_transformers"] = 1',
        "training_args_kwargs.update({'seed': 1})",
        "training arguments are added by training_args_kwargs.update",
    ),
    Change(
        "arguments are merged in",
        BUILDER,
        'training_args_kwargs["not_of_transformers"] = 1',
        "training_args_kwargs |= {'seed': 1}",
        "training arguments are added by training_args_kwargs |=",
    ),
    Change(
        "arguments are made at once",
        BUILDER,
        'training_args_kwargs["not_of_transformers"] = 1',
        "training_args_kwargs = {**training_args_kwargs, 'seed': 1}",
        "training arguments are made by training_args_kwargs =",
    ),
    Change(
        "arguments are there from the beginning",
        BUILDER,
        'training_args_kwargs["not_of_transformers"] = 1',
        "training_args_kwargs: dict[str, Any] = dict(seed=1)",
        "training arguments are made by training_args_kwargs = dict(seed=1)",
    ),
    Change(
        "another module adds arguments",
        BUILDER,
        'training_args_kwargs["not_of_transformers"] = 1',
        "add_more(training_args_kwargs)",
        "training arguments are handed to add_more, which is not read",
    ),
    Change(
        "the words are used in another way",
        BUILDER,
        "[opt.value for opt in",
        "[opt for opt in",
        "are used in another way than",
    ),
    Change(
        "the words stand elsewhere",
        "axolotl/utils/schemas/enums.py",
        "class CustomSupportedOptimizers",
        "class Optimizers",
        "there is no CustomSupportedOptimizers in",
    ),
)
PARSER, _SEED = "llamafactory/hparams/parser.py", "training_args.seed = 1"
OF_LLAMA_FACTORY = (
    Change(
        "a class of arguments is renamed",
        "llamafactory/hparams/model_args.py",
        "class FinetuningArguments",
        "class TuningArguments",
        "no class FinetuningArguments in",
    ),
    Change(
        "what parses is moved",
        "llamafactory/hparams/parser.py",
        "",
        "",
        "there is no llamafactory/hparams/parser.py in",
    ),
    Change(
        "the arguments have another name",
        "llamafactory/hparams/parser.py",
        "training_args",
        "arguments",
        "no builder assigns anything to training_args",
    ),
    *(
        Change(f"arguments are set by {way}", PARSER, _SEED, way, error)
        for way, error in (
            ("setattr(training_args, 'seed', 1)", "training arguments are set by setattr(training_args"),
            (
                "training_args = dataclasses.replace(training_args, seed=1)",
                "are set by dataclasses.replace(training_ar",
            ),
            ("vars(training_args).update(seed=1)", "are set by vars(training_args).update(seed=1)"),
            ("training_args.__dict__['seed'] = 1", "are set by an item of training_args.__dict__"),
            ("training_args.__setattr__('seed', 1)", "are set by training_args.__setattr__("),
            ("finish(training_args)", "training arguments are handed to finish, which is not read"),
            ("finish(arguments=training_args)", "training arguments are handed to finish, which is not read"),
        )
    ),
)
ARGUMENTS_OF_SWIFT = "swift/arguments/sft_args.py"
OF_MS_SWIFT = (
    Change("a class is renamed", ARGUMENTS_OF_SWIFT, "class RLHFArguments", "class RL", "no class RLHFArguments in"),
    Change("a module is moved", "swift/trainers/arguments.py", "", "", "there is no swift/trainers/arguments.py in"),
    Change(
        "a base is moved",
        ARGUMENTS_OF_SWIFT,
        "from transformers import",
        "from swift.base import",
        "SftArguments inherits from Seq2SeqTrainingArguments, which is in swift.base",
    ),
    *(
        Change(f"arguments are set by {way}", ARGUMENTS_OF_SWIFT, "self.seed = 1", way, error)
        for way, error in (
            ("setattr(self, name, 1)", "training arguments are set by setattr(self, name, 1)"),
            ("self.__dict__.update(seed=1)", "training arguments are set by self.__dict__.update(seed=1)"),
            ("object.__setattr__(self, 'seed', 1)", "training arguments are set by object.__setattr__("),
        )
    ),
    Change(
        "another function takes over what was saved",
        ARGUMENTS_OF_SWIFT,
        "def load_args_from_ckpt",
        "def load",
        "training arguments are set by setattr(self, key, value)",
    ),
)
CONFIG = "trl/trainer/sft_config.py"
OF_TRL = (
    Change("the configs have other names", CONFIG, "class SFTConfig", "class SFT", "no class (?!DDPO|AlignProp)"),
    Change("the scripts are moved", "trl/scripts/utils.py", "", "", "there is no trl/scripts/utils.py in"),
    Change(
        "a base is moved",
        CONFIG,
        "from transformers import",
        "from .base_config import",
        "SFTConfig inherits from TrainingArguments, which is in .base_config",
    ),
    Change("a field is made from a table", CONFIG, "= 10", "= field(**STEPS)", "a default is given by field(**STEPS)"),
)
OF_TRL_CLASSES = (
    Change("the configs are moved", "trl/trainer/base_config.py", "", "", "_BaseConfig, whose fields are not read"),
    Change(
        "a base is renamed",
        CONFIG,
        "import _BaseConfig",
        "import Base",
        "inherits from _BaseConfig, which is not found",
    ),
    Change(
        "a field is made from a table", CONFIG, "= 1024", "= field(**LENGTH)", "a default is given by field(**LENGTH)"
    ),
)

RELEASES = {
    "transformers": (TRANSFORMERS, OF_TRANSFORMERS),
    "accelerate": (ACCELERATE, OF_ACCELERATE),
    "models": (made_sources.models(), OF_MODELS),
    "lightning": (made_sources.LIGHTNING, OF_LIGHTNING),
    "deepspeed": (DEEPSPEED, OF_DEEPSPEED),
    "axolotl": (made_sources.AXOLOTL, OF_AXOLOTL),
    "llamafactory": (made_sources.LLAMA_FACTORY, OF_LLAMA_FACTORY),
    "ms-swift": (made_sources.MS_SWIFT, OF_MS_SWIFT),
    "recipes of trl": (made_sources.TRL, OF_TRL),
    "trl": (made_sources.TRL_CLASSES, OF_TRL_CLASSES),
}


class Harmless(NamedTuple):
    """What a release does in another way that means the same."""

    what: str
    file: str
    before: str
    after: str


_MATCHING = (
    'def named(mode):\n    match mode:\n        case "a" | "b":\n            return 1\n        case {"c": c, **d}:\n'
)
_MATCHING += '            log(c)\n        case _:\n            log("unknown")\n\n\n'
HARMLESS = {
    "transformers": (
        Harmless(
            "a type hint",
            INTEGRATION,
            "config = hf_deepspeed_config.config",
            "config: dict = hf_deepspeed_config.config",
        ),
        Harmless(
            "a helper", INTEGRATION, "def deepspeed_init(", "def named(mode):\n    return mode\n\n\ndef deepspeed_init("
        ),
        Harmless("a helper with match", INTEGRATION, "def deepspeed_init(", f"{_MATCHING}def deepspeed_init("),
        Harmless(
            "a log line",
            INTEGRATION,
            "    if inference:",
            '    logger.info("starts with DeepSpeed")\n    if inference:',
        ),
        Harmless("a docstring", INTEGRATION, "    config = hf_", '    """Makes the optimizer."""\n    config = hf_'),
        Harmless(
            "a return at the end",
            INTEGRATION,
            '    raise ValueError("only with stage 3")',
            '    raise ValueError("only with stage 3")\n    if model:\n        return 1',
        ),
        Harmless(
            "a return in the other branch",
            INTEGRATION,
            "    if args.save_on_each_node:",
            "    if not args.save_on_each_node:\n        return\n    else:",
        ),
    ),
    "accelerate": (
        Harmless("a type hint of values", PLUGIN, "        kwargs = {v:", "        kwargs: dict = {v:"),
        Harmless("a type hint of a mapping", PLUGIN, "mapping = {", "mapping: dict[str, str] = {"),
        Harmless("a type hint of arguments", ACCELERATOR, "config_kwargs = {", "config_kwargs: dict[str, Any] = {"),
        Harmless("a type hint of a field", PLUGIN, "self.zero_stage = int(", "self.zero_stage: int = int("),
        Harmless(
            "a match",
            ACCELERATOR,
            "        config_kwargs = {",
            "        match mode:\n            case {'a': a}:\n                log(a)\n        config_kwargs = {",
        ),
        Harmless("a helper", ACCELERATOR, "class Accelerator:", f"{_MATCHING}class Accelerator:"),
    ),
    "lightning": (
        Harmless("a type hint", STRATEGY, 'cfg = {"aio"', 'cfg: dict[str, Any] = {"aio"'),
        Harmless(
            "a docstring", STRATEGY, '        cfg = {"aio"', '        """Makes the config."""\n        cfg = {"aio"'
        ),
        Harmless("a helper", STRATEGY, "class DeepSpeedStrategy", f"{_MATCHING}class DeepSpeedStrategy"),
    ),
    "models": (Harmless("a docstring", CONFIGURATION, "    model_type", '    """Small."""\n    model_type'),),
    "deepspeed": (
        Harmless("a type hint", "deepspeed/runtime/config.py", "self.steps = ", "self.steps: int = "),
        Harmless(
            "a match",
            "deepspeed/runtime/config.py",
            READ,
            f'match self.mode:\n            case "a" | "b":\n                {READ}',
        ),
        Harmless(
            "a captured name",
            "deepspeed/runtime/config.py",
            READ,
            f"match param_dict:\n            case given:\n                {READ.replace('param_dict', 'given')}",
        ),
        Harmless(
            "a group of errors",
            "deepspeed/runtime/config.py",
            READ,
            f"try:\n            {READ}\n        except* OSError:\n            pass",
        ),
        Harmless(
            "a loop that has an else",
            "deepspeed/runtime/config.py",
            READ,
            f"while self.more():\n            pass\n        else:\n            {READ}",
        ),
    ),
    "axolotl": (
        Harmless("a type hint", BUILDER, "        names = [", "        names: list[str] = ["),
        Harmless(
            "a match",
            BUILDER,
            "        names = [",
            '        match mode:\n            case ["a", *rest]:\n                log(rest)\n        names = [',
        ),
    ),
    "llamafactory": (
        Harmless(
            "a type hint",
            PARSER,
            "training_args.remove_unused_columns =",
            "training_args.remove_unused_columns: bool =",
        ),
        Harmless("a log line", PARSER, _SEED, f"{_SEED}\n        print(training_args)"),
        Harmless("a helper", PARSER, "def get_train_args", f"{_MATCHING}def get_train_args"),
    ),
    "ms-swift": (
        Harmless("a type hint", ARGUMENTS_OF_SWIFT, "self.seed = 1", "self.seed: int = 1"),
        Harmless(
            "a helper",
            ARGUMENTS_OF_SWIFT,
            "    def load_args",
            "    def hand_on(self):\n        log(self)\n\n    def load_args",
        ),
    ),
    "recipes of trl": (Harmless("a docstring", CONFIG, "    packing", '    """Config of SFT."""\n    packing'),),
    "trl": (
        Harmless("a docstring", CONFIG, "    max_length", '    """Config of SFT."""\n    max_length'),
        Harmless("a helper", CONFIG, "@dataclass\nclass SFTConfig", f"{_MATCHING}@dataclass\nclass SFTConfig"),
    ),
}
