"""Rules about releases that do not work together, told from the pins of the project (DS846)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.knowledge.pairs import clashes, working
from ds_lint.semantics.pin_places import related_pin
from ds_lint.targets.releases import numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.knowledge.pairs import Clash
    from ds_lint.semantics.config import Config

_NAMES = {"deepspeed": "DeepSpeed", "accelerate": "accelerate", "numpy": "NumPy"}
_STAGES: dict[str, Stage] = {"import": "load", "arguments": "load", "train": "initialize"}


@rule("DS846", "releases-do-not-work-together", severity="error", effects=("rejected",), kind="project")
def releases_do_not_work_together(config: Config) -> Iterator[Problem]:
    """The pinned releases of two of the libraries, or of DeepSpeed and what it imports, do not work together."""
    for clash in clashes(config.basis.pins):
        affected = [stack for stack in config.stacks if stack in clash.conflict["stacks"]]
        if not affected or (len(affected) < len(config.stacks) and "deepspeed" in config.stacks):
            continue  # nothing shows that the config is for one of them
        yield Problem(
            None,
            config.opening,
            _what_happens(clash),
            dict.fromkeys(affected, rejected(_STAGES[clash.conflict["when"]])),
            help=_what_to_pin(clash),
            severity=None if len(affected) == len(config.stacks) else "warning",
            related=[*related_pin(config, clash.pin), *related_pin(config, clash.other_pin)],
            subject=(clash.pin.library, clash.release, clash.other_pin.library, clash.other),
        )


def _what_happens(clash: Clash) -> str:
    releases = zip((clash.pin, clash.other_pin), clash.named, strict=True)
    one, other = (f"{_NAMES.get(pin.library, pin.library)} {release}" for pin, release in releases)
    what, kind = clash.conflict["what"], clash.conflict["kind"]
    if kind == "minimum":
        name = _NAMES.get(clash.other_pin.library, clash.other_pin.library)
        who = "the Trainer" if clash.pin.library == "transformers" else "Accelerator"
        return f"{one} needs {name} {what} or newer, but {clash.named[1]} is pinned: {who} raises an ImportError"
    if kind == "keyword":
        return f"{one} calls `{what}`, which {other} does not accept: the Trainer raises a TypeError"
    if kind == "missing":
        return f"{one} imports {what}, which {other} does not have: the import fails"
    return f"{one} does not work with {other}: {what}"


def _what_to_pin(clash: Clash) -> str:
    """The closest releases of either that work with the other."""
    first, second = working(clash)
    ways = []
    if second:
        ways.append(_bound(clash.other_pin.library, second, clash.other))
    if first:
        ways.append(_bound(clash.pin.library, first, clash.release))
    return f"Pin {', or '.join(ways)}." if ways else "Pin other releases of both."


def _bound(library: str, works: str, pinned: str) -> str:
    """A requirement that the closest release that works meets, and the pinned one does not."""
    return f"`{library}{'>=' if (numbers_of(works) or ()) > (numbers_of(pinned) or ()) else '<='}{works}`"
