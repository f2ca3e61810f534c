"""The settings of training in fp8 with which ``accelerate launch`` or ``Accelerator()`` raises.

Sources: ``setup_fp8_env`` in ``accelerate/utils/launch.py``, ``TERecipeKwargs``, ``AORecipeKwargs``,
``MSAMPRecipeKwargs`` and ``DeepSpeedPlugin`` in ``utils/dataclasses.py``, and ``Accelerator.__init__``.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.deepspeed_config import config_file
from ds_lint.semantics.accelerate.fsdp import LOADING
from ds_lint.semantics.accelerate.refusal import LaunchRefusal, is_integer, kind_of, listed, of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch

_LINEAR = "fp8_override_linear_precision"
_INTEGERS = ("fp8_margin", "fp8_interval", "fp8_amax_history_len")
_FLAGS = {
    "TE": ("fp8_use_autocast_during_eval",),
    "AO": ("fp8_pad_inner_dim", "fp8_enable_fsdp_float8_all_gather"),
}
_WORDS = ("fp8_format", "fp8_amax_compute_algo")  # of TransformerEngine, in any case


def fp8_refusals(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The values that are refused in a run with ``mixed_precision: fp8``, from accelerate 1.9 on."""
    precision, backends = launch.value("mixed_precision"), launch.words("FP8BackendType")
    if not isinstance(precision, str) or precision.lower() != "fp8" or not backends:
        return
    yield from _linear_precision(launch)
    setting = launch.setting("fp8_backend")
    backend = "NO" if setting.value is None else setting.value
    if backend is UNKNOWN:
        return
    if str(backend) not in backends:
        meant = str(backend).upper()
        advice = f"Write `{meant}`." if meant in backends else "Write one of these words."
        instead = meant if meant in backends else None
        yield of(setting, "fp8_backend", f"not one of {listed(backends)}", advice, stage="initialize", instead=instead)
        return
    for name in _FLAGS.get(str(backend), ()):
        one = launch.setting(name)
        if one.value not in (None, UNKNOWN) and flag(one.value) is None:
            yield of(one, name, "neither true nor false", "Write `true` or `false`.", stage="initialize")
    if backend == "TE":
        yield from _transformer_engine(launch)
    elif backend == "MSAMP":
        yield from _ms_amp(launch)
    elif backend == "AO" and launch.value("use_fsdp") and flag(launch.value(LOADING)):
        advice = f"Write `{LOADING}: false`."
        yield of(setting, "fp8_backend", f"AO, and `{LOADING}` is on", advice, stage="initialize")


def _linear_precision(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """Three switches, of which the launch takes the first, second and third item."""
    setting = launch.setting(_LINEAR)
    value = setting.value
    if setting.member is None or value in (None, UNKNOWN):
        return
    advice = "Write a list of three, such as `[false, false, false]`."
    if not isinstance(value, (list, str)):
        yield of(setting, _LINEAR, f"{kind_of(value)}, not a list", advice)
    elif len(value) < 3:
        yield of(setting, _LINEAR, "shorter than three", advice)
    elif launch.value("fp8_backend") == "TE" and any(flag(one) is None for one in value[:3]):
        yield of(setting, _LINEAR, "neither true nor false", advice, stage="initialize")


def _transformer_engine(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    for name in _INTEGERS:
        setting = launch.setting(name)
        if setting.value not in (None, UNKNOWN) and not is_integer(str(setting.value)):
            yield of(setting, name, "not a whole number", "Write a whole number.", stage="initialize")
    for name in _WORDS:
        setting, words = launch.setting(name), _choices(launch, name)
        if setting.value not in (None, UNKNOWN) and str(setting.value).upper() not in [one.upper() for one in words]:
            yield of(setting, name, f"not one of {listed(words)}", "Write one of these words.", stage="initialize")


def _ms_amp(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    setting, words = launch.setting("fp8_opt_level"), _choices(launch, "fp8_opt_level")
    if setting.value not in (None, UNKNOWN) and str(setting.value) not in words:
        yield of(
            setting, "fp8_opt_level", f"not one of {listed(words)}", "Write one of these words.", stage="initialize"
        )
    backend = launch.setting("fp8_backend")
    if launch.value("use_fsdp"):
        yield of(
            backend, "fp8_backend", "MSAMP, which does not run with FSDP", "Write `TE` or `AO`.", stage="initialize"
        )
    elif launch.launcher == "deepspeed" and config_file(launch) is None and _is_stage_3(launch.value("zero_stage")):
        advice = "Write `zero_stage: 2`, or another backend."
        yield of(backend, "fp8_backend", "MSAMP, which does not run at ZeRO stage 3", advice, stage="initialize")


def _is_stage_3(stage: Any) -> bool:
    return stage is not UNKNOWN and str(stage).strip() == "3"


def _choices(launch: AccelerateLaunch, name: str) -> list[str]:
    found: list[str] = launch.table("launch_arguments").get(name, {}).get("choices", [])
    return found
