"""Rules about the YAML of ``accelerate launch --config_file`` (DS65x)."""

from __future__ import annotations

from ds_lint.checks.accelerate_launches import switched_off_by
from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import (
    IGNORED,
    NO_EFFECT,
    OVERRIDDEN,
    RISK,
    WRONG_RESULT,
    Problem,
    rejected,
)
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.script_plugin import script_plugin
from ds_lint.fixes import edits
from ds_lint.knowledge import tables
from ds_lint.knowledge.suggestions import choice, is_typo
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.deepspeed_config import DEVICES, config_file
from ds_lint.semantics.accelerate.fsdp import NO_WRAP, SIZE, FsdpPlugin
from ds_lint.semantics.accelerate.launch import FSDP
from ds_lint.semantics.accelerate.refusals import refusals, refused_beside_file
from ds_lint.semantics.accelerate.unread import is_replaced, is_shown, is_telling, unread_keys
from ds_lint.semantics.features import recomputation_argument, set_argument
from ds_lint.semantics.fsdp_arguments import FsdpArguments, fsdp_arguments
from ds_lint.semantics.related import given_at
from ds_lint.source.spelling import as_json, is_comment
from ds_lint.source.tree import Span, dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.diagnostics.finding import Fix
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.made_config import SourceSetting
    from ds_lint.source.tree import KeyPath, Member

    _Reason = tuple[str, str, str | None]

_RAISES = "`accelerate launch` raises"
# The sections of the types of runs, which people leave in a file when they change the type.
_OF_TYPES = {"deepspeed_config": "DEEPSPEED", "fsdp_config": "FSDP", "megatron_lm_config": "MEGATRON_LM"}
_DELETE = "Delete the key."


@rule("DS650", "accelerate-file-unreadable", severity="error", effects=("rejected",), kind="accelerate")
def accelerate_file_unreadable(config: Config) -> Iterator[Problem]:
    """PyYAML raises when Accelerate reads the file."""
    for issue in config.document.issues:
        yield Problem(
            None,
            issue.span,
            f"PyYAML cannot read this file: {issue.found}",
            rejected("load"),
            help="Correct the YAML; `accelerate config` writes a new file.",
            label="here",
        )


@rule("DS651", "accelerate-unknown-key", severity="error", effects=("rejected",), kind="accelerate")
def accelerate_unknown_key(config: Config) -> Iterator[Problem]:
    """Accelerate raises over a key that it does not know at the top level."""
    launch = _launch(config)
    if launch is None or launch.is_command:
        return
    for path, member in launch.members():
        if len(path) > 1 or path[0] in launch.keys:
            continue
        what, advice, label, meant = _stranger(launch, path[0])
        yield Problem(
            path,
            member.key_span,
            f"{what}: {_RAISES}",
            rejected("load"),
            help=advice,
            label=label,
            fix=_renaming(config, path, path[0], meant),
        )


@rule("DS652", "accelerate-value-rejected", severity="error", effects=("rejected",), kind="accelerate")
def accelerate_value_rejected(config: Config) -> Iterator[Problem]:
    """A value with which the launch, the plugin or ``Accelerator()`` raises."""
    launch = _launch(config)
    for refusal in refusals(launch) if launch is not None else ():
        if config.document.is_fragment and (refusal.member is None or refusal.can_be_given):
            continue  # something is missing
        yield Problem(
            refusal.path,
            _value_span(refusal.member) if refusal.member is not None else config.document_start,
            _of_flag(refusal.path, refusal.message, launch),
            {"accelerate": rejected(refusal.stage)} if refusal.is_of_loop else rejected(refusal.stage),
            help=_of_flag(None, refusal.help, launch),
            label=refusal.label,
            fix=edits.replacement_in(config.document, refusal.member, refusal.instead, "safe")
            if refusal.instead is not None and refusal.member is not None and config.document.command is None
            else None,
            severity="info" if refusal.can_be_given else None,
        )


@rule("DS653", "accelerate-key-unread", severity="warning", effects=("ignored",), kind="accelerate")
def accelerate_key_unread(config: Config) -> Iterator[Problem]:
    """Nothing reads a key, because of the type of the run, of its place, or of its name."""
    launch = _launch(config)
    if launch is None:
        return
    wrong_type = any(one.path == ("distributed_type",) and not one.can_be_given for one in refusals(launch))
    if wrong_type and not config.document.is_fragment:
        return
    plugin = FsdpPlugin(launch)
    for path, member in unread_keys(launch):
        if not is_shown(launch, plugin, path, member) or (path[0] in _OF_TYPES and switched_off_by(launch)):
            continue
        changes_nothing = _is_left_over(launch, path) or not is_telling(launch, plugin, path, member)
        if config.document.is_fragment and plugin.knows(launch.landed.get(path, "")) and not plugin.is_settled:
            continue  # what is left out may decide
        is_setting = len(path) > 1 or plugin.knows(launch.landed.get(path, ""))
        found = _reasons(launch, plugin, path, config) if is_setting else _reasons_at_top(launch, path)
        why, advice, meant = next(found)
        yield Problem(
            path,
            member.key_span,
            _of_flag(path, f"`{dotted(path)}` has no effect: {why}", launch),
            IGNORED,
            help="Leave out the flag." if launch.is_command and advice == _DELETE else _of_flag(None, advice, launch),
            label="not read",
            fix=None if launch.is_command else _renaming(config, path, launch.landed.get(path, path[-1]), meant),
            severity="info" if changes_nothing else None,
        )


@rule("DS654", "settings-beside-config-file", severity="error", effects=("rejected", "ignored"), kind="accelerate")
def settings_beside_config_file(config: Config) -> Iterator[Problem]:
    """Settings that must not stand beside ``deepspeed_config_file``; up to accelerate 0.15 they are ignored."""
    launch = _launch(config)
    if launch is not None and not launch.is_command and config.facts.launch is not None:
        yield from _beside_config_of_script(config, launch, config.facts.launch)
    file = config_file(launch) if launch is not None and launch.launcher == "deepspeed" else None
    if launch is None or file is None or file.member is None:
        return
    settings = config.knowledge.table("accelerate", "beside_file")
    for path, member in refused_beside_file(launch, settings):
        name = path[-1]
        yield Problem(
            path,
            member.key_span,
            f"`{name}` is set beside `deepspeed_config_file`: `Accelerator()` raises",
            rejected("initialize"),
            help=f"Delete `{name}`, and set it in the DeepSpeed config that `deepspeed_config_file` names: only that "
            "file decides about it.",
            label="not beside a file",
            related=[Related(file.member.key_span, "the DeepSpeed config")],
        )
    if not settings:
        yield from _overruled(launch, file)


@rule(
    "DS655", "accelerate-setting-misread", severity="warning", effects=("wrong-result", "no-effect"), kind="accelerate"
)
def accelerate_setting_misread(config: Config) -> Iterator[Problem]:
    """A setting that the plugin takes for another value than the one that is written."""
    launch = _launch(config)
    if launch is None:
        return
    yield from _left_over_ranks(launch)
    if config.accelerate is None or config.accelerate.made is None:
        return
    yield from _misread_save(launch, config)
    yield from _stage_3_only(launch)


@rule("DS656", "fsdp-model-in-one-unit", severity="info", effects=("risk",), kind="accelerate")
def fsdp_model_in_one_unit(config: Config) -> Iterator[Problem]:
    """No policy that says which layers are units: every pass gathers the parameters of all of them at once.

    Sources: ``set_auto_wrap_policy`` in ``accelerate/utils/dataclasses.py``, which silently takes 0 for no policy.
    """
    plugin = _fsdp(config)
    if plugin is None or plugin.version not in (1, 2) or plugin.is_alone or config.document.is_fragment:
        return
    policy, size = plugin.setting("auto_wrap_policy"), plugin.setting("min_num_params")
    if plugin.policy == NO_WRAP and policy.member is None:
        member, label = plugin.place, "no `fsdp_auto_wrap_policy`"
        what = "`fsdp_auto_wrap_policy` is missing, which means NO_WRAP"
    elif plugin.policy == SIZE and plugin.text("min_num_params") == "0" and size.member is not None:
        member, label = size.member, "no size"
        what = "`fsdp_min_num_params` is 0, and SIZE_BASED_WRAP means NO_WRAP"
    else:
        return
    yield Problem(
        size.path if member is size.member else plugin.path,
        member.key_span,
        _of_flag(None, f"{what}: each pass gathers all layers at once", _launch(config)),
        RISK,
        help=_of_flag(
            None,
            "Write `fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP`; each layer is then gathered for itself. Without "
            "it, the layers are one unit of FSDP.",
            _launch(config),
        ),
        label=_of_flag(None, label, _launch(config)),
    )


@rule("DS657", "fsdp-argument-refused", severity="error", effects=("rejected",), kind="accelerate")
def fsdp_argument_refused(config: Config) -> Iterator[Problem]:
    """Training arguments that the Trainer refuses in a run with FSDP.

    Source: ``create_accelerator_and_postprocess`` in ``transformers/trainer.py``.
    """
    plugin = _fsdp(config)
    if plugin is None or config.facts.training is None:
        return
    only_model, best = set_argument(config, "save_only_model"), set_argument(config, "load_best_model_at_end")
    refuses_best = config.knowledge.stack_does("save-only-model-refuses-best-model")
    if only_model is not None and best is not None and refuses_best:
        yield _refused_argument(
            plugin.path,
            plugin.place,
            "`save_only_model` and `load_best_model_at_end` are both set: with FSDP, Trainer() raises",
            "Remove one of the two training arguments.",
            [*given_at(only_model, "save_only_model"), *given_at(best, "load_best_model_at_end")],
        )
    elif (
        only_model is not None
        and plugin.state_dict_type == SHARDED
        and config.knowledge.stack_does("save-only-model-refuses-shards")
    ):
        setting = plugin.setting("state_dict_type")
        yield _refused_argument(
            setting.path or plugin.path,
            setting.member or plugin.place,
            f"`save_only_model` is set, and the type of checkpoint is {SHARDED}: Trainer() raises",
            "Write `fsdp_state_dict_type: FULL_STATE_DICT`, or remove `save_only_model`.",
            given_at(only_model, "save_only_model"),
        )
    recomputed, setting = recomputation_argument(config), plugin.setting("activation_checkpointing")
    if recomputed is not None and recomputed[1].value is True and plugin.is_on("activation_checkpointing"):
        yield _refused_argument(
            setting.path or plugin.path,
            setting.member or plugin.place,
            f"`fsdp_activation_checkpointing` and the argument `{recomputed[0]}` are both on: Trainer() raises",
            f"Remove `{recomputed[0]}`; FSDP recomputes the activations.",
            given_at(recomputed[1], recomputed[0]),
        )


@rule("DS658", "fsdp-file-overruled", severity="warning", effects=("overridden",), kind="accelerate")
def fsdp_file_overruled(config: Config) -> Iterator[Problem]:
    """Training arguments that decide instead of the file.

    Sources: ``create_accelerator_and_postprocess`` in ``transformers/trainer.py``, which hands a plugin of its own to
    ``Accelerator``, and ``Accelerator.__init__``, which takes a plugin for DeepSpeed first.
    """
    launch = _launch(config)
    kind = launch.root.member("distributed_type") if launch is not None else None
    if launch is None or kind is None or launch.distributed_type != FSDP or config.facts.training is None:
        return
    deepspeed, own = set_argument(config, "deepspeed"), set_argument(config, "fsdp")
    if deepspeed is not None and own is None:
        yield Problem(
            ("distributed_type",),
            kind.value.span,
            "`distributed_type` is FSDP, but with `deepspeed` among its arguments the Trainer trains with DeepSpeed",
            {"trainer": OVERRIDDEN},
            help="Write `distributed_type: DEEPSPEED` and name the config there, or remove `deepspeed`.",
            label="not FSDP",
            related=given_at(deepspeed, "deepspeed"),
        )
    elif own is not None and deepspeed is None:
        yield from _overruled_by_fsdp(launch, own, config)


@rule("DS659", "fsdp-model-not-saved", severity="info", effects=("risk",), kind="accelerate")
def fsdp_model_not_saved(config: Config) -> Iterator[Problem]:
    """Checkpoints in shards, with which the Trainer saves no model at the end, unless the script changes the type.

    Source: ``save_model`` in ``transformers/trainer.py``.
    """
    plugin = _fsdp(config)
    if plugin is None or config.stacks != ("trainer",) or plugin.state_dict_type != SHARDED:
        return
    if config.document.is_fragment or not config.knowledge.stack_does("fsdp-shards-are-not-saved-as-model"):
        return
    script = config.facts.launch.script if config.facts.launch is not None else None
    if script is not None and script.calls.chooses_checkpoints:
        return
    setting = plugin.setting("state_dict_type")
    default = "" if setting.member is not None else ", the default of FSDP 2"
    what = f"checkpoints are {SHARDED}{default}: save_model() writes no weights"
    launch, saved = config.facts.launch, script.calls.model_save if script is not None else None
    is_certain = launch is not None and saved is not None
    yield Problem(
        setting.path or plugin.path,
        _value_span(setting.member) if setting.member is not None else plugin.place.key_span,
        f"{what} for from_pretrained" if is_certain else f"{what} unless the script changes the type",
        {"trainer": RISK},
        severity="warning" if is_certain else None,
        related=launch.related(saved, "saves no weights") if launch is not None and saved is not None else [],
        help=_of_flag(None, _SAVED_WHOLE, _launch(config)),
        label="no model is saved",
    )


_SAVED_WHOLE = (
    "Write `fsdp_state_dict_type: FULL_STATE_DICT`, or call "
    '`trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")` before the model is saved.'
)


def _fsdp(config: Config) -> FsdpPlugin | None:
    """The plugin that the file makes, in a run with FSDP; None if the script makes it."""
    launch = _launch(config)
    if launch is None or launch.launcher != "multi_gpu" or not launch.value("use_fsdp") or not launch.is_followed:
        return None
    plugin = FsdpPlugin(launch)
    return plugin if plugin.is_known else None


def _refused_argument(path: KeyPath, member: Member, message: str, advice: str, related: list[Related]) -> Problem:
    return Problem(
        path,
        member.key_span,
        message,
        {"trainer": rejected("initialize")},
        help=advice,
        label="with FSDP",
        related=related,
    )


def _overruled_by_fsdp(launch: AccelerateLaunch, own: Argument, config: Config) -> Iterator[Problem]:
    """The settings of the file that are other than those of the plugin that the Trainer makes."""
    arguments = fsdp_arguments(config)
    if not isinstance(arguments, FsdpArguments) or not arguments.is_on:  # older ones set variables
        return
    for name, unset in _MADE_BY_TRAINER.items():
        setting, used = launch.setting(f"fsdp_{name}"), arguments.values.get(name, unset)
        if setting.member is None or setting.path is None or setting.value is UNKNOWN:
            continue
        if str(setting.value).upper() != str(used).upper():
            yield Problem(
                setting.path,
                _value_span(setting.member),
                f"`fsdp_{name}` is {_quoted(setting.value)}, but the training argument `fsdp` makes it {_quoted(used)}",
                {"trainer": OVERRIDDEN},
                help=f"Write `{name}` into `fsdp_config` of the training arguments, which decides if they set `fsdp`, "
                "or remove `fsdp` from them.",
                label="not used",
                related=given_at(own, "fsdp"),
            )


# What the Trainer sets in any case, and the values that it takes if its ``fsdp_config`` has none.
_MADE_BY_TRAINER: dict[str, Any] = {
    "version": 2,
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "cpu_ram_efficient_loading": False,
    "state_dict_type": "FULL_STATE_DICT",
}
SHARDED = "SHARDED_STATE_DICT"


def _of_flag(path: KeyPath | None, message: str, launch: AccelerateLaunch | None) -> str:
    """A message about settings that are flags of a command names them with their dashes."""
    if launch is None or not launch.is_command:
        return message
    if path is not None:
        message = message.replace(f"`{path[0]}`", f"`{launch.shown(path[0])}`")
    for name in launch.table("fsdp_variables") if "`fsdp_" in message else ():
        between = "=" if launch.variables else " "
        message = message.replace(f"`{name}: ", f"`{launch.shown(name)}{between}")
        message = message.replace(f"`{name}`", f"`{launch.shown(name)}`")
    return message


def _launch(config: Config) -> AccelerateLaunch | None:
    return config.accelerate.launch if config.accelerate is not None else None


def _renaming(config: Config, path: KeyPath, name: str, meant: str | None) -> Fix | None:
    """Rename a key to what is meant: safe if it is a typo, or DeepSpeed's name of the same setting."""
    root = config.document.root
    if meant is None or root is None:
        return None
    is_certain = is_typo(name, meant) or _of_plugin(config, path[-1]) == meant
    return edits.renaming_in(config.document, root, path, meant, "safe" if is_certain else "unsafe")


def _stranger(launch: AccelerateLaunch, name: str) -> tuple[str, str, str, str | None]:
    """What is wrong with an unknown key of the top level, what to do, a label, and the key that is meant."""
    store = tables.load("accelerate")
    releases: list[str] = store["releases"]
    runs = (store["sagemaker"] if launch.is_sagemaker else store["yaml"]).get(name, {}).get("runs", [])
    if later := [run["since"] for run in runs if releases.index(run["since"]) > releases.index(launch.release)]:
        return (
            f"`{name}` is new in accelerate {later[0]} and unknown to {launch.release}",
            f"Upgrade to accelerate {later[0]}, or delete the key.",
            f"new in {later[0]}",
            None,
        )
    if runs:
        removed_in = releases[releases.index(runs[-1]["until"]) + 1]
        return f"`{name}` is removed in accelerate {removed_in}", "Delete the key.", f"removed in {removed_in}", None
    section = _home(launch, name)
    if section is not None:
        return f"`{name}` belongs in `{section}`", f"Move `{name}` into `{section}`.", f"belongs in `{section}`", None
    meant = choice(name, list(launch.keys))
    if meant is not None:
        return f"unknown key `{name}`", f"Write `{meant}`.", f"did you mean `{meant}`?", meant
    if is_comment(name):
        return f"unknown key `{name}`", "Write a comment with #.", "unknown key", None
    return f"unknown key `{name}`", "Delete the key.", "unknown key", None


def _home(launch: AccelerateLaunch, name: str) -> str | None:
    """The section that a name of the parser belongs in."""
    if f"deepspeed_config.{name}" in launch.keys:
        return "deepspeed_config"
    if name not in launch.arguments:
        return None
    for prefix in ("fsdp", "fp8", "dynamo", "megatron_lm", "parallelism"):
        if name.startswith(f"{prefix}_"):
            return next((key for key in launch.keys if key.startswith(prefix) and key.endswith("_config")), None)
    return None


def _reasons_at_top(launch: AccelerateLaunch, path: KeyPath) -> Iterator[_Reason]:
    """Why nothing reads a key of the top level, what to do, and the key that is meant; the first counts."""
    kind, name = _shown(launch.distributed_type), path[-1]
    if (needed := _OF_TYPES.get(name)) is not None:
        yield f"the type of the run is {kind}", f"Write `distributed_type: {needed}`, or delete the section.", None
    if launch.arguments.get(name) is not None and path not in launch.landed and launch.reads(name):
        default = as_json(launch.arguments[name])
        why = f"the parser of `accelerate launch` has a default of its own, {default}"
        yield why, f"Pass `--{name}` on the command line.", None
    yield f"a run of type {kind} does not read it", _DELETE, None


def _reasons(launch: AccelerateLaunch, plugin: FsdpPlugin, path: KeyPath, config: Config) -> Iterator[_Reason]:
    """The same for a key of a section."""
    name, landed, is_of_deepspeed = path[-1], launch.landed.get(path, ""), path[0] == "deepspeed_config"
    if is_replaced(launch, path) and launch.reads(landed):
        yield f"`{dotted(launch.setting(landed).path or ())}` sets it, too", "Delete one of the two.", None
    if plugin.knows(landed):
        yield (*plugin.why_unread(landed), None)
    if is_of_deepspeed and name in launch.arguments and f"{path[0]}.{name}" in launch.keys:
        how = "Set it in a DeepSpeed config, and name that with `deepspeed_config_file`."
        yield "`accelerate launch` does not pass it on", how, None
    if is_of_deepspeed and (own := _of_plugin(config, name)) is not None:
        yield f"it is DeepSpeed's name for `{own}`", f"Write `{own}` instead.", own
    if is_of_deepspeed and config.knowledge.called(name):
        how = "Write it into a DeepSpeed config, and name that with `deepspeed_config_file`."
        yield "it is a key of a DeepSpeed config", how, None
    if name in launch.arguments:
        yield f"a run of type {_shown(launch.distributed_type)} does not read it", _DELETE, None
    if (since := _next_release_with(launch, landed or name)) is not None:
        yield f"it is new in accelerate {since}", f"Upgrade to accelerate {since}, or delete the key.", None
    meant = choice(landed or name, [key for key in launch.arguments if launch.reads(key)])
    how = f"Write `{meant}`." if meant is not None else _DELETE
    yield f"accelerate {launch.release} has no such setting", how, meant


def _next_release_with(launch: AccelerateLaunch, name: str) -> str | None:
    """The first later release whose launch has a setting of this name."""
    store = tables.load("accelerate")
    releases: list[str] = store["releases"]
    runs = store["launch_arguments"].get(name, {}).get("runs", [])
    return next((run["since"] for run in runs if releases.index(run["since"]) > releases.index(launch.release)), None)


def _of_plugin(config: Config, name: str) -> str | None:
    """The setting of a YAML for a key of a DeepSpeed config, by what the plugin fills the key with."""
    for key, facts in config.knowledge.table("accelerate", "fills").items():
        if key.rpartition(".")[2] == name:
            for source in facts["sources"]:
                owner, _, field = source["from"].partition(".")
                if owner == "DeepSpeedPlugin" and f"deepspeed_config.{field}" in config.knowledge.table(
                    "accelerate", "yaml"
                ):
                    return field
    return None


def _is_left_over(launch: AccelerateLaunch, path: KeyPath) -> bool:
    """Whether a key belongs to another type of run, while the file has the section of its own type."""
    is_section = path[0] in _OF_TYPES and len(path) == 1
    return is_section and any(launch.section(name) and launch.is_read((name,)) for name in _OF_TYPES)


def _beside_config_of_script(config: Config, launch: AccelerateLaunch, launched: LaunchFacts) -> Iterator[Problem]:
    """Settings beside the config that the script gives to a plugin of its own."""
    plugin = script_plugin(launched)
    if plugin is None or not plugin.has_config or launch.launcher != "deepspeed":
        return
    for path, member in refused_beside_file(launch, config.knowledge.table("accelerate", "beside_file")):
        yield Problem(
            path,
            member.key_span,
            f"`{path[-1]}` is set beside the config of the script's `DeepSpeedPlugin`, which raises",
            {"accelerate": rejected("initialize")},
            help=f"Delete `{path[-1]}`, and set it in the DeepSpeed config: only that decides about it.",
            label="not beside a config",
            related=plugin.related,
        )


def _overruled(launch: AccelerateLaunch, file: SourceSetting) -> Iterator[Problem]:
    """Settings that older releases leave out beside a file."""
    for path, member in launch.members():
        if path[0] == "deepspeed_config" and path[-1] in _PLUGIN and file.member is not None:
            yield Problem(
                path,
                member.key_span,
                f"`{path[1]}` has no effect beside `deepspeed_config_file`",
                IGNORED,
                help=f"Delete `{path[1]}`, and set it in the DeepSpeed config that `deepspeed_config_file` names: "
                "only that file decides about it.",
                label="not beside a file",
                severity="warning",
                related=[Related(file.member.key_span, "the DeepSpeed config")],
            )


_PLUGIN = ("zero_stage", "gradient_accumulation_steps", "gradient_clipping", *DEVICES)


def _left_over_ranks(launch: AccelerateLaunch) -> Iterator[Problem]:
    """A number of ranks that the machines do not share evenly: each starts the whole part of the quotient."""
    setting, machines = launch.setting("num_processes"), launch.value("num_machines")
    ranks = setting.value
    if type(ranks) is not int or type(machines) is not int or setting.path is None or setting.member is None:
        return
    if launch.launcher not in ("deepspeed", "multi_gpu") or machines < 2 or ranks < machines or ranks % machines == 0:
        return
    each = ranks // machines
    yield Problem(
        setting.path,
        _value_span(setting.member),
        f"`num_processes` is {ranks} for {machines} machines: each starts {each}, so {each * machines} ranks train",
        WRONG_RESULT,
        help=f"`num_processes` counts the GPUs of all machines: write {each * machines} or {(each + 1) * machines}.",
        label=f"{each * machines} ranks",
    )


def _misread_save(launch: AccelerateLaunch, config: Config) -> Iterator[Problem]:
    """A word for true that only ``zero3_init_flag`` understands."""
    setting = launch.setting("zero3_save_16bit_model")
    if setting.member is None or setting.path is None or setting.value in (None, UNKNOWN):
        return
    if str(setting.value).lower() != "true" and flag(setting.value) is not False:
        yield Problem(
            setting.path,
            _value_span(setting.member),
            _of_flag(
                setting.path,
                f"`zero3_save_16bit_model` is {_quoted(setting.value)}, which accelerate reads as false: only `true` "
                "is on",
                launch,
            ),
            WRONG_RESULT,
            help="Write `true`." if launch.is_command else "Write `true` without quotes.",
            label="false",
            fix=None if launch.is_command else edits.replacement_in(config.document, setting.member, True, "safe"),
        )


def _stage_3_only(launch: AccelerateLaunch) -> Iterator[Problem]:
    """Switches of ZeRO-3 at another stage."""
    stage: Any = launch.value("zero_stage")
    if stage is UNKNOWN or str(2 if stage is None else stage).strip() not in ("0", "1", "2"):
        return
    for name, is_on in (
        ("zero3_init_flag", flag),
        ("zero3_save_16bit_model", lambda value: str(value).lower() == "true"),
    ):
        setting = launch.setting(name)
        if setting.member is not None and setting.value not in (None, UNKNOWN) and is_on(setting.value):
            yield Problem(
                setting.path,
                _value_span(setting.member),
                _of_flag(
                    setting.path,
                    f"`{name}` has no effect at ZeRO stage {2 if stage is None else stage}: it is for stage 3",
                    launch,
                ),
                NO_EFFECT,
                help="Set `zero_stage` to 3, or leave this out.",
                label="for stage 3",
                severity="info",
            )


def _value_span(member: Member) -> Span:
    """The value of a key, or the key if nothing is written there."""
    span = member.value.span
    return span if span.start < span.end and member.value.kind not in ("object", "array") else member.key_span


def _quoted(value: object) -> str:
    """A value as a message quotes it; YAML has values that JSON has not."""
    try:
        return as_json(value)
    except (TypeError, ValueError):
        return str(value)


def _shown(kind: object) -> str:
    return kind if isinstance(kind, str) else as_json(kind) if isinstance(kind, (bool, int)) else "unknown"
