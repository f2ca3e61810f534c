"""The ``DeepSpeedPlugin`` that a script makes itself: its keywords come before what the launch sets.

Source: ``Accelerator.__init__`` in ``accelerate/accelerator.py`` and ``DeepSpeedPlugin`` in ``utils/dataclasses.py``.
"""

from __future__ import annotations

from ds_lint.facts.script_values import script_value
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.diagnostics.finding import Related
    from ds_lint.facts.launched import LaunchFacts

WHOLE = "hf_ds_config"  # the keyword of a whole config


class ScriptPlugin(Record):
    """The values of the keywords that are given, UNKNOWN or not; ``has_config`` says that one is a whole config."""

    values: dict[str, Any]
    is_known: bool
    has_config: bool
    related: list[Related]


def script_plugin(launch: LaunchFacts) -> ScriptPlugin | None:
    """The plugin that ``Accelerator`` of the script gets; None if it gets none."""
    loop = launch.script.calls.loop if launch.script is not None else None
    if loop is None or loop.plugin is None:
        return None
    related = launch.related(loop.plugin.place, "set here")
    if loop.plugin.keywords is None:
        return ScriptPlugin({}, False, False, related)
    expressions = dict(loop.plugin.keywords)
    whole = expressions.pop(WHOLE, "None")
    values = {name: script_value(text, launch.launch, launch.script) for name, text in expressions.items()}
    given = {name: value for name, value in values.items() if value is not None}
    return ScriptPlugin(given, not any(value is UNKNOWN for value in given.values()), whole != "None", related)
