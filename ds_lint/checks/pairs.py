"""Rules about releases that do not work together, told from the pins of the project (DS846)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.knowledge.pairs import clashes, working
from ds_lint.source.document import Document
from ds_lint.source.tree import Span
from ds_lint.targets.releases import numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.knowledge.pairs import Clash
    from ds_lint.semantics.config import Config
    from ds_lint.targets.pin import Pin

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
            related=[*_related(config, clash.pin), *_related(config, clash.other_pin)],
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


def _related(config: Config, pin: Pin) -> Iterator[Related]:
    """The place of a pin, if a file states it."""
    from ds_lint.targets.pin_location import place_of  # few pins clash

    if (place := place_of(pin)) is not None:
        path, text, start, end = place
        document, span = Document(path, text, None, []), Span(start, end)
        if path.endswith(".ipynb"):
            document, span = _in_notebook(pin, text, path) or (document, span)
        config.quoted.append(document)
        yield Related(span, f"pins {pin.library}", path)


def _in_notebook(pin: Pin, text: str, path: str) -> tuple[Document, Span] | None:
    """The line of a cell that installs a release, in the text of all cells."""
    from ds_lint.source.notebook_format import read_notebook

    notebook = read_notebook(text)
    cell, line = (int(number) for number in pin.places[0].within.removeprefix("cell ").split(":"))
    found = next((one for one in notebook.cells if one.number == cell), None) if notebook is not None else None
    if notebook is None or found is None:
        return None
    document = Document(path, notebook.text, None, [])
    document.notebook = notebook
    lines = found.source.splitlines(keepends=True)
    start = found.start + sum(map(len, lines[: line - 1]))
    return document, Span(start, start + len(lines[line - 1].rstrip()))
