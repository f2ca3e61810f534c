"""The values of a YAML for which ``accelerate launch``, the plugin or ``Accelerator()`` raises.

Sources: ``_validate_launch_command`` in ``accelerate/commands/launch.py``, ``prepare_deepspeed_cmd_env``,
``prepare_multi_gpu_env`` and ``prepare_simple_launcher_cmd_env`` in ``utils/launch.py``, ``DeepSpeedPlugin`` in
``utils/dataclasses.py``, and ``determine_local_world_size`` in ``torch/distributed/run.py``.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.compiler import compiler_refusals
from ds_lint.semantics.accelerate.conversions import flag, is_digits
from ds_lint.semantics.accelerate.deepspeed_config import DEVICES, config_file
from ds_lint.semantics.accelerate.flags import problem_of_flag
from ds_lint.semantics.accelerate.fp8 import fp8_refusals
from ds_lint.semantics.accelerate.fsdp_refusals import fsdp_refusals
from ds_lint.semantics.accelerate.launch import last_members, value_of
from ds_lint.semantics.accelerate.parallelism import parallelism_refusals
from ds_lint.semantics.accelerate.refusal import LaunchRefusal, is_integer, kind_of, listed, of, wrong
from ds_lint.source.spelling import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.made_config import SourceSetting
    from ds_lint.source.tree import KeyPath, Member

_PROCESS_WORDS = ("auto", "cpu", "gpu", "xpu")  # of torchrun
_BY_LAUNCHER = ("deepspeed", "multi_gpu")  # those that start torchrun
_MODELLED = (*_BY_LAUNCHER, "simple")
STANDARD = "standard"  # the launcher for several machines that is torchrun


def refusals(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """Everything in the values of a file that keeps a run from its start; unknown keys are another matter."""
    yield from _flags(launch)
    yield from _kinds(launch)
    if launch.is_sagemaker:
        yield from _sagemaker(launch)
        return
    if launch.launcher not in _MODELLED or not launch.is_followed:
        return
    yield from _gpu_ids(launch)
    yield from _machines(launch)
    yield from _processes(launch)
    yield from _precision(launch)
    yield from _port(launch)
    yield from fp8_refusals(launch)
    if launch.launcher == "deepspeed":
        yield from _deepspeed(launch)
    else:
        yield from compiler_refusals(launch)
    yield from _cpu(launch)
    if launch.launcher == "simple":
        yield from _address(launch)
    if launch.launcher == "multi_gpu":
        yield from fsdp_refusals(launch)
    yield from parallelism_refusals(launch)


def _flags(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The values of flags that the parser refuses; which of a launch with a file is another matter."""
    facts = launch.table("launch_arguments")
    for member in launch.flags if launch.is_command and not launch.variables else ():
        text = member.value.value if member.value.kind == "string" else None
        problem = problem_of_flag(None if text is None else str(text), facts.get(member.key, {}))
        if problem is not None:
            yield wrong((member.key,), member, problem, "Write such a value.")


def _kinds(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The words that say what the file is for."""
    if launch.is_command:
        return
    environment, kind = launch.root.member("compute_environment"), launch.root.member("distributed_type")
    words = launch.words("ComputeEnvironment")
    if (
        environment is not None
        and isinstance(value_of(environment.value), str)
        and environment.value.value not in words
        and words
    ):
        yield wrong(("compute_environment",), environment, f"not one of {listed(words)}", "Write `LOCAL_MACHINE`.")
    if kind is None:
        yield LaunchRefusal(
            None,
            None,
            "missing `distributed_type`: `accelerate launch` raises",
            "Add `distributed_type: DEEPSPEED`, or the type of run that you want.",
            label="no `distributed_type`",
        )
        return
    value = value_of(kind.value)
    words = launch.words("SageMakerDistributedType" if launch.is_sagemaker else "DistributedType")
    if isinstance(value, str) and value not in words and words:
        meant = next((word for word in words if word == value.upper().replace("-", "_")), None)
        yield wrong(
            ("distributed_type",),
            kind,
            f"not one of {listed(words)}",
            f"Write `{meant}`." if meant else "Write one of these words.",
        )


def _sagemaker(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The keys without which SageMaker's file is refused, and the type of run that it never is."""
    kind = launch.root.member("distributed_type")
    if launch.distributed_type == "NO" and kind is not None and launch.does("processes-are-added-for-sagemaker"):
        problem = "NO, for which accelerate adds `num_processes`, a key that it does not know for SageMaker"
        yield wrong(("distributed_type",), kind, problem, "Write `DATA_PARALLEL` or `MODEL_PARALLEL`.")
    for name, facts in launch.keys.items():
        is_set = {"default", "default_is"} & facts.keys() or name in _SET_BY_ACCELERATE
        if not is_set and launch.root.member(name) is None:
            environment = launch.root.member("compute_environment")
            yield LaunchRefusal(
                ("compute_environment",),
                environment,
                f"missing `{name}`: a `compute_environment` other than LOCAL_MACHINE is read as SageMaker's, which "
                f"requires `{name}`",
                f"Add `{name}`, or write `compute_environment: LOCAL_MACHINE`.",
            )


_SET_BY_ACCELERATE = ("compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "fp16")


def _gpu_ids(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    member, value = launch.root.member("gpu_ids"), launch.value("gpu_ids")
    if member is None or value is UNKNOWN or launch.setting("gpu_ids").path != ("gpu_ids",):
        return
    if not isinstance(value, str):
        written = ",".join(str(one) for one in value) if isinstance(value, list) else str(value)
        instead = written if type(value) is int else None
        yield wrong(("gpu_ids",), member, "not a string", f"Write `gpu_ids: '{written}'`.", instead=instead)
    elif launch.value("multi_gpu") and value != "all" and len(value.split(",")) < 2 and _is_one_machine(launch):
        yield wrong(
            ("gpu_ids",),
            member,
            f"a single GPU, and `distributed_type: {launch.distributed_type}` requires two",
            "Name at least two GPUs, or write `gpu_ids: all`.",
        )


def _machines(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    setting = launch.setting("num_machines")
    value = setting.value
    if value is UNKNOWN:
        return
    if not isinstance(value, (int, float)):
        yield _no_number(setting, "num_machines")
        return
    rank = launch.setting("machine_rank")
    if value > 1 and rank.value is not UNKNOWN and launch.launcher in _BY_LAUNCHER and not is_integer(rank.value):
        yield of(rank, "machine_rank", f"{kind_of(rank.value)}, not a number", "Write the rank of the machine.")
    if value > 1 and launch.launcher == "simple":
        for name in ("main_process_ip", "main_process_port"):
            if launch.value(name) is None:
                yield of(setting, "num_machines", f"above 1, and `{name}` is missing", f"Add `{name}`, or write 1.")


def _processes(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    setting, machines = launch.setting("num_processes"), launch.value("num_machines")
    value = setting.value
    if value is UNKNOWN or not isinstance(machines, (int, float)):
        return
    if setting.member is None and value in (None, -1):  # up to accelerate 0.33, no flag stands in for the key
        kind = launch.root.member("distributed_type")
        can_be_given = value == -1
        unless = " unless its command line has `--num_processes`" if can_be_given else ""
        yield LaunchRefusal(
            ("distributed_type",) if kind else None,
            kind,
            f"missing `num_processes`: `accelerate launch` raises{unless}",
            "Add `num_processes`, the number of GPUs of all machines.",
            label="no `num_processes`",
            can_be_given=can_be_given,
        )
        return
    if value == -1 and not isinstance(value, float):
        yield of(setting, "num_processes", "-1, which stands for a missing number", "Write the number of GPUs.")
        return
    if launch.launcher == "simple":
        if value is not None and not isinstance(value, (int, float)):
            yield _no_number(setting, "num_processes")
        return
    if machines > 1:
        if _passes_filter(launch):
            return
        if not isinstance(value, (int, float)):
            yield _no_number(setting, "num_processes")
        elif _is_started_by_torchrun(launch) and not _counts_ranks(value // machines):
            yield of(
                setting,
                "num_processes",
                f"{as_json(value)} for {as_json(machines)} machines",
                "Write the number of GPUs of all machines.",
            )
        elif not is_integer(str(value // machines)):  # --num_gpus of DeepSpeed's launcher
            name = "num_machines" if isinstance(machines, float) else "num_processes"
            yield of(launch.setting(name), name, "a fraction", "Write a whole number.")
    elif not _counts_ranks(value):
        yield of(
            setting,
            "num_processes",
            "not a number of ranks" if value is not None else "null",
            "Write the number of GPUs, 1 or more.",
        )


def _passes_filter(launch: AccelerateLaunch) -> bool:
    """Whether DeepSpeed's launcher gets the GPUs to use, so that their number is not calculated."""
    names = ("deepspeed_exclusion_filter", "deepspeed_inclusion_filter")
    return not _is_started_by_torchrun(launch) and any(launch.value(name) is not None for name in names)


def _is_started_by_torchrun(launch: AccelerateLaunch) -> bool:
    """Whether torchrun starts the ranks of several machines."""
    return launch.launcher == "multi_gpu" or launch.value("deepspeed_multinode_launcher") == STANDARD


def _counts_ranks(value: Any) -> bool:
    """Whether torchrun starts at least one rank for ``--nproc_per_node``, which gets the value as a text."""
    text = str(value)
    return text in _PROCESS_WORDS or (is_integer(text) and int(text) > 0)


def _cpu(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The switch, a mapping of which is copied as a section is; without torchrun, its text has to be a flag."""
    setting, member = launch.setting("use_cpu"), launch.root.member("use_cpu")
    is_read = launch.launcher == "simple" and not launch.value("cpu") and launch.does("use-cpu-is-a-flag")
    if member is not None and member.value.kind == "object":
        yield wrong(("use_cpu",), member, "a mapping", "Write `true` or `false`.")
    elif is_read and member is not None and setting.value is not UNKNOWN and flag(setting.value) is None:
        yield of(setting, "use_cpu", "neither true nor false", "Write `true` or `false`.")


def _address(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The address that processes without torchrun get as a text."""
    address, machines = launch.setting("main_process_ip"), launch.value("num_machines")
    is_several = any(isinstance(one, (int, float)) and one > 1 for one in (launch.value("num_processes"), machines))
    if is_several and address.value not in (None, UNKNOWN) and not isinstance(address.value, str):
        yield of(address, "main_process_ip", f"{kind_of(address.value)}, not a string", "Write it in quotes.")


def _precision(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    setting, words = launch.setting("mixed_precision"), launch.words("PrecisionType")
    value, instead = setting.value, None
    if value is UNKNOWN or (isinstance(value, str) and (value.lower() in words or not words)):
        return
    if value is False:
        problem, advice, instead = "a bare `no`, which YAML reads as false", "Write `'no'` in quotes.", "no"
    elif isinstance(value, str):
        problem, advice = f"not one of {listed(words)}", "Write one of these words; `'no'` trains in fp32."
    else:
        problem, advice = f"{kind_of(value)}, not one of {listed(words)}", "Write one of these words."
    yield of(setting, "mixed_precision", problem, advice, instead=instead)


def _port(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The port, which is looked at on the first machine by launchers that start torchrun or DeepSpeed's."""
    setting = launch.setting("main_process_port")
    value, machines, rank = setting.value, launch.value("num_machines"), launch.value("machine_rank")
    if value in (None, UNKNOWN) or launch.launcher == "simple" or not launch.does("port-is-looked-at"):
        return
    is_looked_at = not isinstance(machines, (int, float)) or machines <= 1 or (is_integer(rank) and int(rank) == 0)
    if not is_looked_at:
        return
    if not isinstance(value, int):
        yield _no_number(setting, "main_process_port")
    elif not 0 <= value <= 65535:
        yield of(setting, "main_process_port", "not a port", "Write a number from 0 to 65535; 0 finds a free port.")


def _deepspeed(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    member = launch.root.member("deepspeed_config")
    if member is not None and member.value.kind not in ("object", "null"):
        yield wrong(
            ("deepspeed_config",),
            member,
            "not a mapping",
            "Write the settings below it, such as `deepspeed_config_file`, indented.",
        )
        return
    file = config_file(launch)
    if file is None:
        yield from _plugin(launch)
    elif file.value == "":
        yield of(file, "deepspeed_config_file", "empty", "Write the path of the DeepSpeed config, or delete the key.")
    elif file.value is not UNKNOWN and not isinstance(file.value, str):
        advice = "Write the path of the DeepSpeed config."
        yield of(file, "deepspeed_config_file", f"{kind_of(file.value)}, not a path", advice, stage="initialize")
    yield from _zero3_init(launch)
    yield from _expert_classes(launch)


def _expert_classes(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """Names that no class of a model can have; source: ``set_moe_leaf_modules`` of the plugin."""
    setting = launch.setting("deepspeed_moe_layer_cls_names")
    if setting.value in (None, UNKNOWN):
        return
    wrong_ones = [name for name in str(setting.value).split(",") if not name.isidentifier()]
    if wrong_ones and launch.has_plugin_field("transformer_moe_cls_names"):
        yield LaunchRefusal(
            setting.path,
            setting.member,
            f'`deepspeed_moe_layer_cls_names` names a class "{wrong_ones[0]}", which no model has: '
            "`accelerator.prepare` raises",
            "Write the names in one string, separated by commas without spaces, such as `MixtralSparseMoeBlock`.",
            stage="initialize",
            label="not the name of a class",
        )


def _plugin(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The settings that the plugin makes a config of."""
    steps = launch.setting("gradient_accumulation_steps")
    if steps.value not in (None, UNKNOWN) and not (is_digits(str(steps.value)) and int(str(steps.value)) > 0):
        meant = " " if steps.value != "auto" else ' ("auto" is for a DeepSpeed config)'
        yield of(
            steps,
            "gradient_accumulation_steps",
            f"not a whole number above 0{meant}".rstrip(),
            "Write a number, or delete the key: the script's `Accelerator` then decides.",
            stage="initialize",
        )
    clipping = launch.setting("gradient_clipping")
    word = launch.otherwise("gradient_clipping")  # "none" in older releases
    if clipping.value not in (None, UNKNOWN) and not _is_float(clipping.value) and str(clipping.value).lower() != word:
        yield of(
            clipping,
            "gradient_clipping",
            "not a number",
            "Write a number; 0 switches clipping off, null clips at 1.0.",
            stage="initialize",
        )
    stage = launch.setting("zero_stage")
    if stage.value not in (None, UNKNOWN) and not is_integer(str(stage.value)):
        yield of(stage, "zero_stage", "not a whole number", "Write 0, 1, 2 or 3.", stage="initialize")
    for name in DEVICES:
        device = launch.setting(name)
        if device.value is False:
            yield of(
                device,
                name,
                "a bare `no`, which YAML reads as false",
                "Write `none`.",
                stage="initialize",
                instead="none",
            )


def _zero3_init(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    setting = launch.setting("zero3_init_flag")
    if setting.value not in (None, UNKNOWN) and flag(setting.value) is None:
        yield of(setting, "zero3_init_flag", "neither true nor false", "Write `true` or `false`.", stage="initialize")


def refused_beside_file(launch: AccelerateLaunch, settings: dict[str, Any]) -> Iterator[tuple[KeyPath, Member]]:
    """The keys that must not be beside ``deepspeed_config_file``, whatever their values; ``settings`` names them.

    Source: ``_deepspeed_config_checks``, which gets the keys of the section, and ``mixed_precision`` if it is not null.
    """
    section = launch.section("deepspeed_config")
    for name, member in last_members(section) if section is not None else ():
        if name.lower() in settings:
            yield ("deepspeed_config", name), member
    precision = launch.setting("mixed_precision")
    path, written = precision.path, precision.member
    if "mixed_precision" in settings and path is not None and written is not None and len(path) == 1:
        yield path, written  # also the fp16 of old


def _is_one_machine(launch: AccelerateLaunch) -> bool:
    machines = launch.value("num_machines")
    return not isinstance(machines, (int, float)) or machines <= 1


def _is_float(value: Any) -> bool:
    try:
        float(str(value).lower())
    except ValueError:
        return False
    return True


def _no_number(setting: SourceSetting, name: str) -> LaunchRefusal:
    """The refusal of what must be a number; digits in quotes are meant as one."""
    value = setting.value
    instead = int(value) if isinstance(value, str) and is_digits(value) else None
    return of(setting, name, f"{kind_of(value)}, not a number", "Write a number without quotes.", instead=instead)
