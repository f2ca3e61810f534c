"""What was found about each place that raises: the rule that reports it before the run, or why no rule can.

The table lies beside this file, a JSON file for each library. A row repeats what ``sites.py`` reads off the source, so
that it is found again while lines move, and adds one of three:

* ``rules``: the codes of the rules that report it, and ``shown``, a config (and ``ranks``, or training ``arguments``)
  that raises there, if ``compiled`` in ``engine.compile()``; where no small config does, ``because`` says why.
* ``reason``, a word of ``REASONS``, and ``because``, a sentence.
* ``open``: a config reaches it, and no rule reports it yet.
"""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.raises.sites import Fingerprint, Site, count, sites_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = ("deepspeed", "transformers", "accelerate")
FOLDER = Path(__file__).parent

REASONS = {
    "script": "depends on the script: what it passes, calls or builds",
    "model": "depends on the model",
    "data": "depends on the training data",
    "checkpoint": "depends on the files of a checkpoint",
    "machine": "depends on the machine: devices, drivers, disks, environment variables",
    "package": "depends on the installed packages",
    "launch": "depends on flags of `accelerate launch` and files of `accelerate config`, which ds-lint does not read",
    "numbers": "depends on the numbers in the training",
    "other": "no run with DeepSpeed reaches it",
    "internal": "the library calls itself in a way that avoids it",
    "never": "rejected elsewhere before, or never true",
    "uncalled": "nothing calls it",
}


class Row(NamedTuple):
    """What the table says about one site."""

    module: str
    site: Fingerprint
    rules: tuple[str, ...]
    shown: dict[str, Any] | None
    reason: str | None
    because: str | None
    open: str | None

    @property
    def is_accounted_for(self) -> bool:
        """Whether a rule claims the site, or a reason explains it."""
        return bool(self.rules) or self.reason is not None


class Modules(NamedTuple):
    """Which modules the table is about, and which are left out, by pattern, each with the reason."""

    read: list[str]
    left_out: dict[str, str]

    def of(self, library: str) -> list[str]:
        """The modules of one library that are read."""
        return [module for module in self.read if module.startswith(f"{library}/")]

    def unlisted(self, tree: Path, library: str) -> list[str]:
        """The modules that raise and are in neither list."""
        found = []
        for path in sorted((tree / library).rglob("*.py")):
            module = path.relative_to(tree).as_posix()
            is_listed = module in self.read or any(fnmatch(module, pattern) for pattern in self.left_out)
            if not is_listed and count(path):
                found.append(module)
        return found


class Differences(NamedTuple):
    """How a release and the table differ."""

    new: list[Site]
    removed: list[Row]
    unlisted: list[str]


def modules() -> Modules:
    """The lists of modules."""
    lists = json.loads((FOLDER / "modules.json").read_text(encoding="utf-8"))
    left_out = {pattern: group["because"] for group in lists["left_out"] for pattern in group["modules"]}
    return Modules(lists["read"], left_out)


def rows(library: str) -> list[Row]:
    """The rows of one library, in the order of its source."""
    return [_row(module, row) for module, found in _raw(library).items() for row in found]


def extracted(tree: Path, library: str) -> list[Site]:
    """The sites of the release whose package lies in ``tree``."""
    return sites_of(tree, modules().of(library), Counter(row.module for row in rows(library)))


def differences(tree: Path, library: str) -> Differences:
    """What the release in ``tree`` has that the table lacks, and the other way round."""
    found, known = extracted(tree, library), rows(library)
    there, listed = {site.fingerprint for site in found}, {row.site for row in known}
    return Differences(
        [site for site in found if site.fingerprint not in listed],
        [row for row in known if row.site not in there],
        modules().unlisted(tree, library),
    )


def bring_up_to(tree: Path, library: str, release: str) -> None:
    """Give each site of a release its row: an empty one where it is new, none where it is removed."""
    raw = _raw(library)
    known = {_row(module, row).site: row for module, found in raw.items() for row in found}
    table: dict[str, list[dict[str, Any]]] = {}
    for site in extracted(tree, library):
        table.setdefault(site.module, []).append(known.get(site.fingerprint, _empty(site)))
    (FOLDER / f"{library}.json").write_text(_text(table), encoding="utf-8", newline="\n")
    named = json.dumps(releases() | {library: release}, indent=1)
    (FOLDER / "releases.json").write_text(f"{named}\n", encoding="utf-8", newline="\n")


def releases() -> dict[str, str]:
    """The releases that the table is about."""
    named: dict[str, str] = json.loads((FOLDER / "releases.json").read_text(encoding="utf-8"))
    return named


def _raw(library: str) -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / f"{library}.json").read_text(encoding="utf-8"))
    return table


def _row(module: str, row: dict[str, Any]) -> Row:
    place = module, row["function"], tuple(row["when"]), row["raises"], row["message"], row.get("which", 0)
    return Row(
        module,
        place,
        tuple(row.get("rules", ())),
        row.get("shown"),
        row.get("reason"),
        row.get("because"),
        row.get("open"),
    )


def _empty(site: Site) -> dict[str, Any]:
    row = {"function": site.function, "when": list(site.when), "raises": site.raises, "message": site.message}
    return row | ({"which": site.which} if site.which else {})


def _text(table: dict[str, list[dict[str, Any]]]) -> str:
    """A line for each row, so that a diff shows what changed."""
    return "{\n" + ",\n".join(_lines(table)) + "\n}\n"


def _lines(table: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for module, found in table.items():
        below = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in found)
        yield f" {json.dumps(module)}: [\n{below}\n ]"
