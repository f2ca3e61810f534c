"""Leads what a script writes into the folder of the run, and keeps it from sending anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.probe import imports

if TYPE_CHECKING:
    from types import ModuleType

    from ds_lint.smoke.probe.plan import Plan


def install(plan: Plan) -> None:
    """Redirect the outputs of each library as soon as it is imported."""

    def redirect(module: ModuleType) -> None:
        prepare = module.TrainingArguments.__post_init__

        def redirected(arguments: object) -> None:
            prepare(arguments)
            arguments.output_dir = plan.outputs  # type: ignore[attr-defined]

        module.TrainingArguments.__post_init__ = redirected

    imports.after("transformers.training_args", redirect)
