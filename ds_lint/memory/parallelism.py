"""What divides a run among its ranks beside ZeRO: sequences, which an estimate counts, or the model, which none does.

Sources: ``deepspeed/runtime/config.py`` and ``tensor_parallel/config.py`` beside it, ``parallelism_config.py`` of
accelerate, and the fields of training frameworks.
"""

from __future__ import annotations

import re

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.semantics.features import is_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

_IN_CONFIG = (("tensor_parallel", "autotp_size"), ("tensor_parallel", "tp_size"), ("pipeline", "stages"))
_IN_YAML = ("parallelism_config_tp_size", "parallelism_config_cp_size")
_ARGUMENTS = (  # of recipes and launches: frameworks, Megatron and its descendants
    *(name for one in FRAMEWORKS.values() for name in one.splitting),
    *("model_parallel_size", "pipeline_model_parallel_size", "pipeline_parallel_size", "tensor_model_parallel_size"),
)
_SEQUENCES = (*(name for one in FRAMEWORKS.values() for name in one.sequences), "ulysses_degree")
_IN_SCRIPT = re.compile(r"\b(PipelineModule|ParallelismConfig)\b|\b(mpu)\s*=\s*(?!None\b)\w")


def split(config: Config) -> str | None:
    """What divides the model itself, in words; None if nothing is known to."""
    for path in _IN_CONFIG:
        if (size := _count(config.value(*path))) > 1:
            return f"`{'.'.join(path)}` {size} splits the model among {size} ranks"
    if is_on(config, "expert_parallel", "enabled"):
        return "`expert_parallel` splits the experts among ranks"
    for name in (*_ARGUMENTS, *_IN_YAML):
        if (size := max(map(_count, _arguments(config, name)), default=0)) > 1:
            return f"`{name}` {size} splits the model among {size} ranks"
    launch = config.facts.launch
    document = launch.script_document if launch is not None else None
    found = _IN_SCRIPT.search(document.content) if document is not None else None
    if document is not None and found is not None:
        return f"`{found[1] or found[2]}` in {document.path} may split the model among ranks"
    return None


def sequence_ranks(config: Config) -> int:
    """The ranks among which each sequence is divided; 1 without sequence parallelism."""
    names = [_count(config.value("sequence_parallel_size"))]
    names += [_count(value) for name in _SEQUENCES for value in _arguments(config, name)]
    names += [_count(value) for value in _arguments(config, "parallelism_config_sp_size")]
    return max((1, *names))


def _arguments(config: Config, name: str) -> Iterator[object]:
    """The values of a field of a recipe, a flag of the launch, and a setting of Accelerate's YAML."""
    facts = config.facts
    if facts.recipe is not None:
        yield facts.recipe.value(name)
    if facts.launch is not None:
        yield facts.launch.launch.arguments.get(name)
    if config.accelerate is not None and config.accelerate.launch is not None:
        yield config.accelerate.launch.value(name)


def _count(value: object) -> int:
    """A number of ranks; 0 for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < len(str(10**9)):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value < 10**9 else 0
