"""Rules about configs that a launch composes with Hydra (DS67x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.hydra.merging import AbsentKeyError


@rule("DS676", "override-of-absent-key", severity="error", effects=("rejected",), keys=())
def override_of_absent_key(config: Config) -> Iterator[Problem]:
    """A word of the command line that overrides a key which the composed config does not have.

    Source: ``_apply_overrides_to_config`` in ``hydra/_internal/config_loader_impl.py``.
    """
    launch = config.facts.launch
    composed = launch.composed if launch is not None else None
    if composed is None or config.document.composed is None:
        return
    for one in composed.absent:
        key = dotted(tuple(one.path))
        meant = _meant(one)
        add = f"`+{one.override.word}` adds a key."
        yield Problem(
            None,
            one.override.span,
            f"the config has no `{key}`: Hydra raises before the script starts",
            rejected("load"),
            help=f"Write `{meant}`. {add}" if meant else f"Write `+{one.override.word}` to add the key.",
            label=f"did you mean `{meant}`?" if meant else "no such key",
            subject=one.override.word,
        )


def _meant(error: AbsentKeyError) -> str | None:
    """The key of the config that was most likely meant, as the command line has it."""
    from ds_lint.knowledge.suggestions import choice  # difflib costs start-up

    *above, name = error.path
    near = choice(name, [one.key for one in error.parent.members])
    return None if near is None else ".".join([*above, near, *error.override.key.split(".")[len(error.path) :]])
