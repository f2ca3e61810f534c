"""How the model of a run computes attention: as it is told to, else as its class does unasked."""

from __future__ import annotations

from ds_lint.facts import own_arguments
from ds_lint.knowledge import tables
from ds_lint.targets.releases import numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.semantics.config import Config

_SINCE = (5,)  # the release from which classes are as the measured ones; in older ones fewer of them have SDPA
_IN_FILES = ("attn_implementation", "_attn_implementation")  # of a ``config.json``


def of(config: Config) -> str | None:
    """eager, sdpa or flash_attention_2, as transformers names them; None if it is not known."""
    given = own_arguments.attention(config.facts)
    return given if given is not None else _usual(config)


def _usual(config: Config) -> str | None:
    """What the class takes unasked, in a script of the user's own that certainly leaves it alone.

    Source: ``get_correct_attn_implementation`` in ``transformers/modeling_utils.py``.
    """
    launch, model = config.facts.launch, config.facts.model
    release = numbers_of(config.knowledge.target.get("transformers") or "")
    if launch is None or model is None or config.facts.recipe is not None or release is None or release < _SINCE:
        return None
    if any(model.config.get(name) is not None for name in _IN_FILES) or not _is_left_alone(launch):
        return None
    measured = tables.load("activations")["models"].get(str(model.config.get("model_type")))
    return measured["attention"] if measured is not None else None


def _is_left_alone(launch: LaunchFacts) -> bool:
    script = launch.script
    if script is None or launch.recipe is not None or launch.framework is not None:
        return False
    if script.may_run_own_models or script.calls.names_attention:
        return False
    from ds_lint.facts.named_model import taken  # few configs have a script

    sources = [source for source, _ in taken(launch.launch, script)]
    return bool(sources) and all(one.class_name is not None and one.attention is None for one in sources)
