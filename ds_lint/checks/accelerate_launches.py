"""Rules about what ``accelerate launch`` makes of its flags and a YAML together, and about its ranks (DS66x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import OVERRIDDEN, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.accelerator_precision import AcceleratorPrecision, accelerator_precision, script_precision
from ds_lint.facts.script_plugin import script_plugin
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.launch import DEEPSPEED, FLAGS_OF_TYPE
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Member

_SECTIONS = ("deepspeed_config", "fsdp_config")  # whose settings are of the run, not of its machines


@rule(
    "DS662",
    "deepspeed-switched-off-by-flag",
    severity="warning",
    effects=("overridden",),
    kind="accelerate",
    elsewhere=True,
)
def deepspeed_switched_off_by_flag(config: Config) -> Iterator[Problem]:
    """A flag for another type of run beside a YAML with DeepSpeed.

    Source: ``_validate_launch_command`` in ``accelerate/commands/launch.py``, which reads the type of the file only if
    no flag gives one, and ``launch_command``, which checks ``--cpu`` before DeepSpeed.
    """
    launched, launch = _with_flags(config)
    kind = launch.root.member("distributed_type") if launch is not None else None
    if launched is None or launch is None or kind is None or kind.value.value != DEEPSPEED:
        return
    flag = switched_off_by(launch)
    if flag is None:
        return
    yield Problem(
        ("distributed_type",),
        kind.value.span,
        f"`--{flag}` overrides `distributed_type: DEEPSPEED` of the YAML: the run trains without DeepSpeed",
        OVERRIDDEN,
        help=f"Remove `--{flag}`, or change `distributed_type` in the YAML.",
        label="not DeepSpeed",
        related=[Related(launched.place, "without DeepSpeed", launched.document.path)],
        subject=flag,
    )


@rule(
    "DS663", "setting-overruled-at-launch", severity="info", effects=("overridden",), kind="accelerate", elsewhere=True
)
def setting_overruled_at_launch(config: Config) -> Iterator[Problem]:
    """A flag and a key of the YAML with different values for one setting.

    Source: ``_validate_launch_command`` in ``accelerate/commands/launch.py``: a flag wins; before accelerate 1.5.0, a
    key of a section does.
    """
    yield from _replaced_by_script(config)
    launched, launch = _with_flags(config)
    if launched is None or launch is None:
        return
    flags = {member.key: member for member in launch.flags}
    for overruled, counts in ((launch.overruled, False), (launch.outweighed, True)):
        for path, name in overruled.items():
            member = _member(launch, path)
            flag = flags[name]
            if member is None or not (path[0] in _SECTIONS or name == "mixed_precision") or not launch.reads(name):
                continue
            given, written = flag.value.value, member.value.value
            if flag.value.kind == "template" or str(given).lower() == str(written).lower():
                continue
            yield _overruled(launched, launch, path, member, f"--{name} {given}".rstrip(), file_counts=counts)


@rule("DS664", "precisions-contradict", severity="error", effects=("rejected",), elsewhere=True)
def precisions_contradict(config: Config) -> Iterator[Problem]:
    """A config that enables another 16-bit format than ``Accelerator`` uses.

    Source: ``set_mixed_precision`` of ``DeepSpeedPlugin`` in ``accelerate/utils/dataclasses.py``.
    """
    given = _given_precision(config)
    other = _OTHER.get(given.word) if given is not None else None
    member = config.member(other, "enabled") if other is not None else None
    if given is None or other is None or member is None or not _is_true(member.value.value):
        return
    yield Problem(
        (other, "enabled"),
        member.value.span,
        f"{given.origin} contradicts `{other}.enabled` of the config: `Accelerator()` raises",
        {"accelerate": rejected("initialize")},
        help=f'Write `"{other}": {{"enabled": "auto"}}`, which follows `mixed_precision`, or set '
        f"`mixed_precision` to {other}.",
        label=f"{other}",
        related=given.related,
        subject=given.word,
    )


@rule("DS665", "precision-overruled", severity="warning", effects=("overridden",), elsewhere=True)
def precision_overruled(config: Config) -> Iterator[Problem]:
    """A precision without effect: that of the command beside the script's, or either beside the config's.

    Sources: ``AcceleratorState.__init__`` in ``accelerate/state.py``, and ``set_mixed_precision`` in
    ``utils/dataclasses.py``.
    """
    launch = config.facts.launch
    if launch is None or config.stacks != ("accelerate",):
        return
    if config.accelerate is not None:
        yield from _overruled_by_script(config, launch)
        return
    given = _given_precision(config)
    dtype = _DTYPES.get(given.word) if given is not None else None
    member = config.member(dtype, "enabled") if dtype is not None else None
    if given is None or dtype is None or member is None or member.value.value is not False:
        return
    if (other := config.member(_OTHER[given.word], "enabled")) is not None and _is_true(other.value.value):
        return
    yield Problem(
        (dtype, "enabled"),
        member.value.span,
        f"`{dtype}.enabled: false` of the config overrides {given.origin}: the run trains in fp32",
        {"accelerate": OVERRIDDEN},
        help=f'Write `"{dtype}": {{"enabled": "auto"}}`, which follows `mixed_precision`.',
        label="used",
        related=given.related,
        subject=given.word,
    )


def _overruled_by_script(config: Config, launched: LaunchFacts) -> Iterator[Problem]:
    """The precision of a YAML or of flags, for which the script has another."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    own, setting = script_precision(launched), launch.setting("mixed_precision") if launch is not None else None
    if own is None or setting is None or setting.path is None or setting.member is None or own.word is UNKNOWN:
        return
    if not isinstance(setting.value, str) or setting.value.lower() == own.word:
        return
    key = ("bf16" if setting.value.lower() == "bf16" else "fp16", "enabled")
    yield Problem(
        key,
        setting.member.value.span,
        f"{own.origin} in the script overrides `mixed_precision: {setting.value}` of the launch",
        {"accelerate": OVERRIDDEN},
        help="Set the precision in one place only.",
        label="not used",
        related=own.related,
        subject=(own.word, setting.value),
        severity="info",
    )


def _given_precision(config: Config) -> AcceleratorPrecision | None:
    launch = config.facts.launch
    if launch is None or config.stacks != ("accelerate",) or config.accelerate is not None or config.call is not None:
        return None
    return accelerator_precision(launch)


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


_OTHER = {"fp16": "bf16", "bf16": "fp16", "fp8": "fp16"}
_DTYPES = {"fp16": "fp16", "bf16": "bf16", "fp8": "bf16"}


def _replaced_by_script(config: Config) -> Iterator[Problem]:
    """Settings for which the plugin of the script has another value."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    plugin = script_plugin(config.facts.launch) if config.facts.launch is not None and launch is not None else None
    if launch is None or plugin is None or plugin.has_config:
        return
    for name, setting in launch.replaced.items():
        given = plugin.values.get(name, UNKNOWN)
        if UNKNOWN in (given, setting.value) or setting.member is None or setting.path is None:
            continue
        if str(given).lower() == str(setting.value).lower():
            continue
        yield Problem(
            setting.path,
            setting.member.value.span,
            f"`DeepSpeedPlugin({name}={given!r})` in the script overrides `{name}: {setting.value}` of the launch",
            OVERRIDDEN,
            help="Set the value in one place only.",
            label="not used",
            related=plugin.related,
            subject=(name, str(given)),
        )


def _overruled(
    launched: LaunchFacts, launch: AccelerateLaunch, path: KeyPath, member: Member, flag: str, *, file_counts: bool
) -> Problem:
    written = f"{dotted(path)}: {member.value.value}"
    message = f"`{flag}` overrides `{written}` of the YAML"
    if file_counts:
        message = f"`{written}` of the YAML overrides `{flag}` with accelerate {launch.release}"
    return Problem(
        path,
        member.value.span,
        message,
        OVERRIDDEN,
        help="Set the value in one place only.",
        label="used" if file_counts else "not used",
        related=[Related(launched.place, "not used" if file_counts else "used", launched.document.path)],
        severity="warning" if file_counts else None,
    )


def switched_off_by(launch: AccelerateLaunch) -> str | None:
    """The flag that keeps a run from using the DeepSpeed of its YAML; None if there is none."""
    given = [member.key for member in launch.flags]
    if "use_deepspeed" not in given and (other := [name for name in FLAGS_OF_TYPE if name in given]):
        return other[0]
    return "cpu" if "cpu" in given else None


def _with_flags(config: Config) -> tuple[LaunchFacts | None, AccelerateLaunch | None]:
    """The launch of a YAML, and the run that both make; nothing where the flags alone are the config."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or launch.is_command or not launch.flags or not launch.is_followed or launch.is_sagemaker:
        return None, None
    return config.facts.launch, launch


def _member(launch: AccelerateLaunch, path: KeyPath) -> Member | None:
    section = launch.root if len(path) == 1 else launch.section(path[0])
    return section.member(path[-1]) if section is not None else None
