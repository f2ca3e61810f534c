"""The options of launches that the target's release of the launcher refuses, and what is meant."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.stacks import record_at
from ds_lint.launches.launcher_parser import refused_options
from ds_lint.record import Record
from ds_lint.source.launcher_words import LauncherWords
from ds_lint.targets.pin import is_exact, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.records import LauncherOptions, StackFacts
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Span


class RefusedLauncherOption(Record):
    """An option that a launcher refuses, at its place.

    ``removed_in`` and ``new_in`` are releases of ``library``; ``could_be`` are the options that it may be short for.
    """

    name: str
    launcher: str
    span: Span
    library: str
    removed_in: str = ""
    new_in: str = ""
    meant: str = ""
    is_certain: bool = False
    could_be: tuple[str, ...] = ()


def refused_launcher_options(config: Config) -> Iterator[RefusedLauncherOption]:
    """The refused options of the launches in a file."""
    for issue in config.document.issues:
        if isinstance(issue, LauncherWords):
            yield from _of_launch(issue, config)


def _of_launch(issue: LauncherWords, config: Config) -> Iterator[RefusedLauncherOption]:
    known = tables.load("launchers")[issue.found]
    library = known["library"]
    release = _torch(config, known["releases"]) if library == "torch" else config.knowledge.target.get(library)
    takes = options_at(known, release)
    if library == "accelerate":
        config.knowledge.depends_on("accelerate", known.get("only", {}).values())
        abbreviates = config.knowledge.stack_does("accelerate-launch-takes-beginnings")
    else:
        abbreviates = True
    if library == "deepspeed":
        config.knowledge.depends_on_deepspeed(known.get("only", {}).values())
    places = dict(issue.options)
    for one in refused_options(issue.words, takes, abbreviates=abbreviates):
        if one.name in places:
            found = RefusedLauncherOption(one.name, issue.found, places[one.name], library, could_be=one.could_be)
            _date(found, known, release)
            if not found.new_in and not one.could_be:
                _guess(found, sorted(takes))
            yield found


def _torch(config: Config, releases: list[str]) -> str | None:
    """The release of torch that the project pins, by its minor line; None if it names none or several."""
    pin = config.basis.pins.get("torch")
    if pin is None or not is_exact(pin.specifier):
        return None
    line = version_of(pin.specifier).split(".")[:2]
    return next((one for one in releases if one.split(".")[:2] == line), None)


def options_at(known: LauncherOptions, release: str | None) -> dict[str, str]:
    """The options that a launcher has in a release; all that any has, if the release is not known."""
    if release not in known["releases"]:
        return known["options"]
    only: dict[str, StackFacts] = known.get("only", {})
    return {
        name: takes
        for name, takes in known["options"].items()
        if name not in only or record_at(known, only[name], release) is not None  # type: ignore[arg-type]
    }


def _date(found: RefusedLauncherOption, known: LauncherOptions, release: str | None) -> None:
    """When an option that some releases have came or went."""
    runs = known.get("only", {}).get(found.name, {}).get("runs", [])
    releases = known["releases"]
    if not runs or release not in releases:
        return
    place = releases.index(release)
    later = [run["since"] for run in runs if releases.index(run["since"]) > place]
    before = [run["until"] for run in runs if "until" in run and releases.index(run["until"]) < place]
    if before:
        found.removed_in = releases[releases.index(before[-1]) + 1]
    elif later:
        found.new_in = later[0]


def _guess(found: RefusedLauncherOption, options: list[str]) -> None:
    from ds_lint.knowledge.suggestions import choice, is_typo  # difflib costs start-up

    longer = [one for one in options if one.startswith(found.name)]
    is_beginning = len({one.replace("-", "_") for one in longer}) == 1
    meant = longer[0] if is_beginning else choice(found.name, options) or ""
    spelled = [one for one in options if one.replace("-", "_") == meant.replace("-", "_")]
    if len(spelled) > 1:  # in the spelling of the user
        meant = next((one for one in spelled if ("_" in one[2:]) == ("_" in found.name[2:])), meant)
    found.meant = meant
    found.is_certain = bool(meant) and (is_beginning or is_typo(found.name, meant)) and not found.removed_in
