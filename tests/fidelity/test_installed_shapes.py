"""The installed libraries with one thing changed: what an extractor cannot read any more is an error.

``tests/test_extract_shapes.py`` has many more cases, on sources made for them. These show that the checks hold for the
real ones, in which there is more that could hide a change.
"""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from changed_shapes import Change, Harmless
from installed import measured_with_the_newest

from tools import launcher_options, model_classes
from tools.extract import __main__ as command
from tools.raises import table
from tools.raises.sites import sites_of

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]  # the changes are those of its source

TRANSFORMERS = (
    Change(
        "fills",
        "integrations/deepspeed.py",
        'self.fill_match("gradient_clipping", args.max_grad_norm, "max_grad_norm")',
        'self.fill_value("gradient_clipping", args.max_grad_norm)',
        "self.fill_value is none of fill_match, fill_only",
    ),
    Change(
        "fills in a helper",
        "integrations/deepspeed.py",
        "        # scheduler\n",
        "        self._scheduler()\n\n    def _scheduler(self):\n",
        "_scheduler fills the config",
    ),
    Change(
        "stage",
        "integrations/deepspeed.py",
        "def deepspeed_init(",
        "def init_deepspeed(",
        "there is no deepspeed_init in",
    ),
    Change(
        "overwrites",
        "integrations/deepspeed.py",
        'config["zero_allow_untested_optimizer"] = True',
        "config.update(zero_allow_untested_optimizer=True)",
        "what config.update takes is not a dict",
    ),
    Change(
        "refusals",
        "integrations/deepspeed.py",
        'raise ValueError("ZeRO inference only',
        'refuse("ZeRO inference only',
        "deepspeed_init hands a message to refuse, which may raise and is not read",
    ),
    Change(
        "fields", "training_args.py", "class TrainingArguments:", "class TrainingArguments(Base):", "inherits from Base"
    ),
    Change("plugin", "training_args.py", "DeepSpeedPlugin", "Plugin", "training_args.py makes no DeepSpeedPlugin"),
    Change(
        "keys of FSDP",
        "training_args.py",
        "_apply_legacy_fsdp_to_config",
        "_legacy",
        "there is no _apply_legacy_fsdp_to",
    ),
    Change(
        "flags of FSDP", "training_args.py", "str_to_bool(", "as_bool(", "tells no flag_for of a key of fsdp_config"
    ),
    Change("pins", "dependency_versions_table.py", "deps = {", "pins = deps = table or {", "deps is not a dict"),
)
ACCELERATE = (
    Change(
        "mapping",
        "utils/dataclasses.py",
        "plugin_to_config_mapping = {",
        "mapping = {",
        "with plugin_to_config_mapping",
    ),
    Change("values", "accelerator.py", "config_kwargs = {", "config_kwargs = known | {", "config_kwargs is not a dict"),
    Change(
        "process",
        "accelerator.py",
        "config_kwargs.update(",
        "config_kwargs.__ior__(",
        "is made by config_kwargs.__ior__(",
    ),
    Change(
        "given",
        "utils/dataclasses.py",
        "isinstance(self.hf_ds_config, dict)\n",
        "self.hf_ds_config\n",
        "depends on isinstance",
    ),
    Change(
        "inserts",
        "utils/dataclasses.py",
        'ds_config["communication_data_type"] = "fp32"',
        'ds_config.setdefault("communication_data_type", "fp32")',
        "the config is written by ds_config.setdefault(",
    ),
    Change(
        "refusals",
        "accelerator.py",
        'raise ValueError(\n                    "You cannot create a `DummyOptim`',
        'self.refuse(\n                    "You cannot create a `DummyOptim`',
        "_prepare_deepspeed hands a message to self.refuse, which may raise and is not read",
    ),
    Change(
        "requires",
        "accelerator.py",
        'compare_versions("deepspeed", "<", "0.9.3")',
        "is_old()",
        "Accelerator refuses a DeepSpeed by nothing that is read",
    ),
    Change(
        "variables",
        "utils/dataclasses.py",
        'os.environ.get("ACCELERATE_FP8_OPT_LEVEL"',
        'env("ACCELERATE_FP8_OPT_LEVEL"',
        "reads ACC",
    ),
    Change(
        "flags",
        "commands/launch.py",
        "paradigm_args.add_argument(",
        "add(",
        "launch_command_parser adds an argument by add(",
    ),
    Change(
        "FSDP", "utils/launch.py", 'current_env["FSDP_VERSION"]', 'other["FSDP_VERSION"]', "names FSDP_VERSION without"
    ),
    Change(
        "plugin of FSDP",
        "utils/dataclasses.py",
        'os.environ.get(env_prefix + "VERSION", "1")',
        'env(env_prefix + "VERSION", "1")',
        "reads FSDP_VERSION by env(",
    ),
)
LIGHTNING = (
    Change(
        "config", "pytorch/strategies/deepspeed.py", "self._create_default_config(", "self._config(", "does not call"
    ),
    Change(
        "sections",
        "pytorch/strategies/deepspeed.py",
        '"activation_checkpointing": {',
        '"activation_checkpointing": dict or {',
        "gets",
    ),
)
MODELS = (
    Change("types", "models/llama/configuration_llama.py", "model_type = ", "kind = ", "has a class with a model_type"),
    Change(
        "bases",
        "models/llama/configuration_llama.py",
        "(PreTrainedConfig)",
        "(DecoderConfig)",
        "inherits from DecoderConfig",
    ),
    Change(
        "names",
        "models/gpt2/configuration_gpt2.py",
        "attribute_map = {",
        "attribute_map = NAMES | {",
        "attribute_map of GPT2Config",
    ),
)
DEEPSPEED = (
    Change(
        "config",
        "runtime/config.py",
        "class DeepSpeedConfig(",
        "class Config(",
        "there is no deepspeed.runtime.config.DeepSpeedConfig",
    ),
    Change("start", "__init__.py", "def initialize(", "def start(", "there is no deepspeed.initialize"),
    Change(
        "parameter",
        "runtime/zero/partition_parameters.py",
        "config_dict_or_path=None",
        "config=None",
        "takes no config_dict_or_path",
    ),
    Change("engine", "runtime/engine.py", "self._config", "self._settings", "does not keep the config as _config"),
    Change(
        "further engine",
        "runtime/pipe/engine.py",
        "class PipelineEngine",
        "class Pipeline",
        "there is no deepspeed.runtime.pipe",
    ),
)
# What of a library is copied, and the changes: as little as its extractor reads before it meets them.
LIBRARIES = {
    "transformers": (
        (
            "integrations/deepspeed.py",
            "training_args.py",
            "dependency_versions_table.py",
            "__init__.py",
            "hf_argparser.py",
            "training_args_seq2seq.py",
            "trainer_utils.py",
            "debug_utils.py",
        ),
        TRANSFORMERS,
    ),
    "accelerate": (
        (
            *("__init__.py", "accelerator.py", "commands/launch.py", "commands/config/*.py"),
            *("utils/constants.py", "utils/dataclasses.py", "utils/deepspeed.py", "utils/launch.py"),
        ),
        ACCELERATE,
    ),
    "lightning": (("pytorch/strategies/deepspeed.py", "fabric/strategies/deepspeed.py"), LIGHTNING),
    "models": (("models/llama/*.py", "models/gpt2/*.py"), MODELS),
    "deepspeed": (
        (
            *("__init__.py", "comm/comm.py", "git_version_info_installed.py", "runtime/*.py", "runtime/pipe/engine.py"),
            "runtime/zero/partition_parameters.py",
            "runtime/data_pipeline/constants.py",
            "runtime/data_pipeline/data_sampling/variable_batch_size_and_lr.py",
        ),
        DEEPSPEED,
    ),
}


def package_of(library):
    name = command.LIBRARIES[library].LIBRARY
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return Path(find_spec(name).origin).parent


@pytest.fixture
def copied(tmp_path):
    """The status of ``--check`` for a copy of the installed release with a change, if there is one."""

    def check(library, change=None):
        package = package_of(library)
        for path in (found for pattern in LIBRARIES[library][0] for found in package.glob(pattern)):
            target = tmp_path / package.name / path.relative_to(package)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        if change is not None:
            substitute(tmp_path / package.name, change)
        release = version(package.name).partition("+")[0]
        return command.main([library, release, "--check", "--tree", str(tmp_path)])

    return check


def substitute(folder, change):
    file = folder / change.file
    text = file.read_text(encoding="utf-8")
    assert change.before in text, f"{change.file} does not have what the test changes"
    file.write_text(text.replace(change.before, change.after), encoding="utf-8")


@pytest.mark.parametrize("library", ["transformers", "accelerate", "lightning"])
def test_what_is_copied_is_all_that_is_read(library, copied):
    assert copied(library) == 0


_MATCHING = "def named(mode):\n    match mode:\n        case [one, *_]:\n            return one\n\n\n"
HARMLESS = {
    "transformers": (
        Harmless("type hint", "integrations/deepspeed.py", "train_batch_size = args.", "train_batch_size: int = args."),
        Harmless("match", "integrations/deepspeed.py", "def deepspeed_init(", f"{_MATCHING}def deepspeed_init("),
        Harmless(
            "log line",
            "integrations/deepspeed.py",
            "        # scheduler\n",
            '        logger.info("the optimizer is read")\n        # scheduler\n',
        ),
    ),
    "accelerate": (
        Harmless(
            "type hint of a mapping", "utils/dataclasses.py", "config_mapping = {", "config_mapping: dict[str, str] = {"
        ),
        Harmless(
            "type hint of values", "utils/dataclasses.py", "            kwargs = {", "            kwargs: dict = {"
        ),
        Harmless(
            "type hint of arguments", "accelerator.py", " config_kwargs = {", " config_kwargs: dict[str, Any] = {"
        ),
        Harmless("match", "accelerator.py", "class Accelerator:", f"{_MATCHING}class Accelerator:"),
    ),
    "lightning": (
        Harmless("type hint", "pytorch/strategies/deepspeed.py", " cfg = {", " cfg: dict[str, Any] = {"),
        Harmless(
            "helper",
            "pytorch/strategies/deepspeed.py",
            "class DeepSpeedStrategy(",
            f"{_MATCHING}class DeepSpeedStrategy(",
        ),
    ),
}


@pytest.mark.parametrize(
    ("library", "change"),
    [(library, change) for library, changes in HARMLESS.items() for change in changes],
    ids=lambda value: getattr(value, "what", value),
)
def test_a_harmless_change_changes_no_fact(library, change, copied):
    assert copied(library, change) == 0


@pytest.mark.parametrize(
    ("library", "change"),
    [(library, change) for library, (_, changes) in LIBRARIES.items() for change in changes],
    ids=lambda value: getattr(value, "what", value),
)
def test_another_shape_is_an_error(library, change, copied, capsys):
    assert copied(library, change) == 2
    error = capsys.readouterr().err
    assert "the extractor does not know how " in error
    assert change.error in error


LAUNCHERS = (
    Change("deepspeed", "deepspeed/launcher/runner.py", "parser.add_argument(", "add(", "adds an option"),
    Change("torchrun", "torch/distributed/run.py", "parser.add_argument(", "add(", "adds an option"),
    Change(
        "accelerate", "accelerate/commands/launch.py", "paradigm_args.add_argument(", "add(", "adds an argument by add("
    ),
)


@pytest.mark.parametrize("change", LAUNCHERS, ids=lambda one: one.what)
def test_a_launcher_that_adds_its_options_in_another_way_is_an_error(change, tmp_path):
    library, files = launcher_options.LAUNCHERS[change.what]
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    for file in files:
        target = tmp_path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((Path(find_spec(library).origin).parents[1] / file).read_bytes())
    substitute(tmp_path, change)
    with pytest.raises(LookupError, match=change.error.replace("(", r"\(")):
        launcher_options._options(tmp_path, files)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "\nMODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(",
            "\nMODEL_FOR_CAUSAL_LM_MAPPING_NAMES: dict = OrderedDict(",
        ),
        ("_MAPPING_NAMES", "_TABLE"),
    ],
)
def test_classes_that_are_mapped_in_another_way_are_an_error(before, after, tmp_path):
    text = (package_of("transformers") / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    assert before in text
    mappings = tmp_path / "modeling_auto.py"
    mappings.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(LookupError, match="is not a list of pairs"):
        list(model_classes._entries(mappings))


def test_a_library_in_which_nothing_raises_is_an_error():
    tree = package_of("accelerate").parent
    modules = table.modules().of("accelerate")
    known = Counter(row.module for row in table.rows("accelerate"))
    assert sites_of(tree, modules, known) == table.extracted(tree, "accelerate")
    with pytest.raises(LookupError, match=r"nothing raises in accelerate/accelerator\.py, .*, which had \d+ sites"):
        sites_of(tree / "elsewhere", modules, known)
