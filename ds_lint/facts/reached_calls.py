"""What of a script runs under a launch: a branch that its arguments do not take contradicts no config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.facts.script_values import conditions_hold

if TYPE_CHECKING:
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript


def reached(script: TrainingScript, launch: Launch) -> TrainingScript:
    """The script without the loads of models that the launch does not reach."""

    def runs(conditions: tuple[tuple[str, bool], ...]) -> bool:
        return conditions_hold(conditions, launch, script) is not False

    calls = script.calls
    loads = tuple(one for one in calls.loads if runs(one.conditions))
    quantizations = tuple(one for one in calls.quantizations if runs(one.conditions))
    return script._replace(calls=calls._replace(loads=loads, quantizations=quantizations))
