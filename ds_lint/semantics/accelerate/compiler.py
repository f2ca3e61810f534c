"""The settings of the compiler with which ``accelerate launch`` or ``Accelerator()`` raises.

DeepSpeed's launcher does not hand them on. Sources: ``prepare_multi_gpu_env`` and ``prepare_simple_launcher_cmd_env``
in ``accelerate/utils/launch.py``, and ``TorchDynamoPlugin`` in ``utils/dataclasses.py``.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.refusal import LaunchRefusal, kind_of, listed, of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch

_FLAGS = ("dynamo_use_fullgraph", "dynamo_use_regional_compilation", "dynamo_use_dynamic")


def compiler_refusals(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The backend, the mode, and the switches, which are texts when the plugin gets them."""
    yield from _backend(launch)
    mode = launch.setting("dynamo_mode")
    is_text = mode.member is None or mode.value is UNKNOWN or isinstance(mode.value, str)
    if launch.launcher == "simple" and not is_text:  # for ``subprocess.Popen``; the other launcher makes a text of it
        yield of(mode, "dynamo_mode", f"{kind_of(mode.value)}, not a string", "Write `dynamo_mode: default`.")
    for name in _FLAGS:
        setting = launch.setting(name)
        if setting.member is not None and setting.value is not UNKNOWN and flag(setting.value) is None:
            yield of(setting, name, "neither true nor false", "Write `true` or `false`.", stage="initialize")


def _backend(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    setting, words = launch.setting("dynamo_backend"), launch.words("DynamoBackend")
    value = setting.value
    if value in (None, UNKNOWN) or (isinstance(value, str) and (value.upper() in words or not words)):
        return
    if value is False:
        problem, advice = "a bare `no`, which YAML reads as false", "Write `'no'` in quotes."
        yield of(setting, "dynamo_backend", problem, advice, instead="no")
    else:
        yield of(setting, "dynamo_backend", f"not one of {listed(words)}", "Write one of these words.")
