"""Whether weights that the model ties are tied after training, in the saved files, and after loading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.records.job import Exported
from ds_lint.smoke.verify.check import ObservedRun, checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check


def tied_weights(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The parameters of the small model that have several names."""
    groups = run.train[0].tied
    exported = run.exported if isinstance(run.exported, Exported) else None
    if not groups:
        return
    found = {"after the steps": all(group in run.train[0].tied_after for group in groups)}
    if exported is not None and exported.loaded is not None and not run.has_adapters:  # which are saved alone
        found["in the saved files"] = not any(_differ(exported.stored, group) for group in groups)
        if run.is_of_transformers:  # a class of the script has no loader
            found["after from_pretrained"] = all(group in exported.tied for group in groups)
    of_checkpoint = (exported.recovered or {}) if exported is not None else {}
    recovered = {name: digests[0] for name, digests in of_checkpoint.items()}
    if any(name in recovered for group in groups for name in group):  # what is frozen may be left out
        found["in what zero_to_fp32 recovers"] = not any(_differ(recovered, group) for group in groups)
    names = " and ".join(f"`{name}`" for name in groups[0])
    lost = [where for where, is_tied in found.items() if not is_tied]
    yield checked(
        "export",
        Requested(groups, expectation.stage.key if expectation.stage is not None else None),
        found,
        not lost,
        kept=f"{names} are one tensor {_enumerated(list(found))}",
        broken=f"{names} are one tensor in the model, but not {_enumerated(lost)}",
        help="Tie them again before saving: model.tie_weights().",
    )


def _differ(digests: dict[str, str], group: list[str]) -> bool:
    """Whether tensors of these names that are there are different ones; a file may leave all but one out."""
    return len({digests[name] for name in group if name in digests}) > 1


def _enumerated(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
