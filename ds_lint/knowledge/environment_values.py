"""Which values of environment variables the libraries reject, and what they raise.

The values were given to the real libraries (``tests/fidelity/test_environment_truth.py``). What only some releases
refuse is not here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge.environment import accelerators, allocator_options

if TYPE_CHECKING:
    from collections.abc import Callable

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_AT_FIRST_USE = "the first use of CUDA raises"
_IS_NUMBER = re.compile(r"[ \t]*[+-]?\d")
_SWITCHES = ("expandable_segments", "pinned_use_cuda_host_register", "release_lock_on_cudamalloc")
_ARCHITECTURE = re.compile(r"\d+\.\d+(?:\+PTX)?")
_LEAST_SPLIT = 20  # MB
_DETAIL = ("OFF", "INFO", "DETAIL")
_BACKENDS = ("native", "cudaMallocAsync")


class RefusedValue(NamedTuple):
    """A value that is refused: ``why`` it is, what ``happens``, and what to write ``instead``.

    ``is_at_import`` says that the variable is read by an import, which a script may have done before it sets it, and
    ``is_of_kernels`` that DeepSpeed reads it where it builds a kernel for the GPU at run time.
    """

    why: str
    happens: str
    instead: str
    is_at_import: bool = True
    is_of_kernels: bool = False


def refusal(name: str, value: str) -> RefusedValue | None:
    """Why a library refuses the value of a variable; None if none does."""
    check = _CHECKS.get(name)
    return check(value) if check is not None else None


def _allocator(value: str) -> RefusedValue | None:
    """``AcceleratorAllocatorConfig::parseArgs`` in c10/core, before 2.9 ``CUDAAllocatorConfig`` in c10/cuda."""
    for item in _items("".join(value.split(" "))):
        option, colon, setting = item.partition(":")
        found = _unknown_option(option, has_colon=bool(colon)) or _refused_setting(option, setting)
        if found is not None:
            return RefusedValue(found[0], _AT_FIRST_USE, found[1], is_at_import=False)
    return None


def _items(value: str) -> list[str]:
    """The settings between commas, but for those of a list in brackets."""
    return [item for item in re.split(r",(?![^\[]*\])", value) if item]


def _unknown_option(option: str, *, has_colon: bool) -> tuple[str, str] | None:
    known = allocator_options()
    if option in known:
        return None if has_colon else (f"`{option}` has no value", f"Write `{option}:VALUE`.")
    from ds_lint.knowledge.suggestions import choice  # few values are refused

    name, sign, setting = option.partition("=")
    if sign and name in known and not has_colon:
        return f"`{option}` is not an option", f"Write `{name}:{setting}`: a colon separates an option from its value."
    near = choice(name, sorted(known))
    return (
        f"it has no option `{option}`",
        f"Write `{near}`." if near else f"The options are {', '.join(sorted(known))}.",
    )


def _refused_setting(option: str, setting: str) -> tuple[str, str] | None:
    if re.search(r"[:;=]", re.sub(r"\[.*\]", "", setting)):
        return f"`{option}` is `{setting}`", "Write a comma between two options."
    if option in _SWITCHES and setting not in ("True", "False"):
        return f"`{option}` is `{setting}`", f"Write `{option}:True` or `{option}:False`, with a capital letter."
    if option in ("max_split_size_mb", "garbage_collection_threshold") and not _IS_NUMBER.match(setting):
        return f"`{option}` is `{setting}`", f"Write a number behind `{option}:`."
    if option == "max_split_size_mb" and re.fullmatch(r"\d{1,9}", setting) and int(setting) < _LEAST_SPLIT:
        return f"`{option}` is {setting}", f"Write more than {_LEAST_SPLIT}."
    if option == "garbage_collection_threshold" and re.fullmatch(r"\d{1,9}(\.\d*)?", setting):
        number = float(setting)
        if number <= 0 or number >= 1:
            return f"`{option}` is {setting}", "Write a number between 0 and 1."
    if option == "roundup_power2_divisions" and re.fullmatch(r"\d{1,9}", setting):
        number = int(setting)
        if number & (number - 1):
            return f"`{option}` is {setting}", "Write a power of 2."
    if option == "backend" and setting not in _BACKENDS:
        return f"`backend` is `{setting}`", "Write `backend:native` or `backend:cudaMallocAsync`."
    return None


def _debug_level(value: str) -> RefusedValue | None:
    """``set_debug_level_from_env`` in torch/csrc/distributed/c10d/debug.cpp."""
    if value.upper() in _DETAIL:
        return None
    return RefusedValue(
        "it is none of OFF, INFO and DETAIL", "importing torch.distributed raises", _one_of(value, _DETAIL)
    )


def _accelerator(value: str) -> RefusedValue | None:
    """``get_accelerator`` in deepspeed/accelerator/real_accelerator.py."""
    known = accelerators()
    if value in known:
        return None
    return RefusedValue("DeepSpeed has no such accelerator", "importing deepspeed raises", _one_of(value, known))


def _architectures(value: str) -> RefusedValue | None:
    """``compute_capability_args`` in op_builder/builder.py of DeepSpeed."""
    wrong = [one for one in value.replace(" ", ";").split(";") if one and not _ARCHITECTURE.fullmatch(one)]
    if not wrong:
        return None
    number = re.match(r"\d+\.\d+", wrong[0])
    instead = f"Write `{number[0]}`" if number else 'Write numbers with semicolons between them, such as "8.0;9.0"'
    return RefusedValue(
        f"`{wrong[0]}` is not of the form 9.0 or 9.0+PTX",
        "DeepSpeed raises where it builds FusedAdam",
        f"{instead}, or delete the variable: DeepSpeed builds for the GPUs that it finds.",
        is_at_import=False,
        is_of_kernels=True,
    )


def _integer(happens: str, *, is_at_import: bool) -> Callable[[str], RefusedValue | None]:
    """A text that Python's ``int`` has to take."""

    def check(value: str) -> RefusedValue | None:
        try:
            int(value)
        except ValueError:
            return RefusedValue("it is not an integer", happens, "Write an integer.", is_at_import)
        return None

    return check


def _one_of(value: str, known: tuple[str, ...] | list[str]) -> str:
    from ds_lint.knowledge.suggestions import choice  # few values are refused

    near = choice(value, list(known))
    return f"Write `{near}`." if near else f"Write one of {', '.join(known)}."


_CHECKS: dict[str, Callable[[str], RefusedValue | None]] = {
    **dict.fromkeys(ALLOCATOR, _allocator),
    "TORCH_DISTRIBUTED_DEBUG": _debug_level,
    "DS_ACCELERATOR": _accelerator,
    "TORCH_CUDA_ARCH_LIST": _architectures,
    "DEEPSPEED_TIMEOUT": _integer("importing deepspeed raises", is_at_import=True),
    "MASTER_PORT": _integer("torch raises where it connects the ranks", is_at_import=False),
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": _integer(
        "Accelerate raises where it makes its DeepSpeedPlugin", is_at_import=False
    ),
}
