"""What the user wants: the command line, over the settings near each config."""

from __future__ import annotations

import os

from ds_lint.facts import Facts
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.choice import UnknownRelease, between, choose
from ds_lint.semantics.basis import Basis
from ds_lint.session.context import LintContext, ignored_at
from ds_lint.settings.nearest import Nearest
from ds_lint.settings.record import SettingsError
from ds_lint.targets.pin import LIBRARIES, PinPlace
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ds_lint.diagnostics.finding import Severity
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.facts import Sources
    from ds_lint.facts.own_framework import FrameworkCopies
    from ds_lint.facts.policy import Policy
    from ds_lint.linter.choice import Choice
    from ds_lint.linter.selection import Selection
    from ds_lint.session.exclusion import Exclusion, Inclusion
    from ds_lint.session.material import Material
    from ds_lint.session.options import Options
    from ds_lint.settings.record import ConfigEntry, Settings
    from ds_lint.targets.pin import Library, Pin

    Value = TypeVar("Value")


_NOTEBOOK = ".ipynb"
_FIXABLE = ("fixable", "extend-fixable", "unfixable")
_OF_SELECTION = ("select", "extend-select", "ignore")


class _Chosen:
    """What a file of settings and the command line say about rules together."""

    __slots__ = ("fixable", "left_in_preview", "origin", "rules", "severities", "skipped_advisories")

    def __init__(self, options: Options, settings: Settings) -> None:
        self.rules: list[Rule] | None = None
        self.severities: dict[str, Severity] = {}
        self.left_in_preview: list[Rule] = []
        self.skipped_advisories: frozenset[str] = frozenset()
        self.fixable: frozenset[str] | None = None
        extends = f", which extends {', '.join(map(shown, settings.extends))}" if settings.extends else ""
        self.origin = f"settings of {shown(settings.path)}{extends}" if settings.path else ""
        if settings.names(*_FIXABLE):
            from ds_lint.linter.selection import fixable

            values = [layer.values for layer in settings.layers]
            self.fixable = fixable(
                (one.get(_FIXABLE[0]), *(one.get(name, []) for name in _FIXABLE[1:])) for one in values
            )
        if not (options.names_rules or settings.names_rules):
            return
        from ds_lint.knowledge.advisories import is_id
        from ds_lint.linter.selection import find, left_in_preview, select, skipped_advisories

        selection = selection_of(options, settings)
        if not selection.says_nothing:
            self.rules = select(selection)
            self.left_in_preview = left_in_preview(selection)
            self.skipped_advisories = skipped_advisories(selection)
        for word, severity in settings.severity.items():
            if (rule := find(word)) is not None:
                self.severities[word.upper() if is_id(word) else rule.code] = severity


class Session:
    """What the user wants for each config; for an upgrade, ``ends`` are the releases from and to by library.

    ``on_error`` hears of a file of settings that cannot be opened; without it OSError is raised. Raises SettingsError,
    UnknownRule, UnreadableFact and UnknownRelease.
    """

    def __init__(
        self,
        options: Options,
        ends: dict[Library, tuple[str, str | None]] | None = None,
        *,
        on_error: Callable[[OSError], None] | None = None,
    ) -> None:
        self.options = options
        self.ends = ends
        self.choices: dict[str, Choice] = {}  # by directory, or by the path of a notebook that installs releases
        self._installed: dict[str, dict[str, Pin]] = {}  # by the path of a notebook
        self._nearest = _nearest(options, on_error)
        self._chosen: dict[str, _Chosen] = {}  # by the path of the settings
        self._exclusions: dict[str, Exclusion] = {}  # by the path of the settings
        self._inclusions: dict[str, Inclusion] = {}  # by the path of the settings
        self._gathered: dict[tuple[object, ...], Facts] = {}  # by what the sources say
        self._policies: dict[str, list[Policy]] = {}  # by the path of the settings
        self._notes: list[str] = []  # notes
        self._copies: FrameworkCopies = {}
        self._material: dict[str, list[Material]] = {}  # by the whole path of the config that it names
        self._chosen_by(self._nearest.none)  # a rule that there is not is wrong usage, whatever files there are
        self._facts([])  # and so is a fact that cannot be read,
        if options.versions or ends:
            self._choose("", {}, {})  # or a release

    def context(self, path: str) -> LintContext:
        """How the config at a path is linted."""
        settings = self._nearest.to(os.path.dirname(path))
        chosen = self._chosen_by(settings)
        entries = entries_for(settings, path)
        options, choice = self.options, self.choice(os.path.dirname(path), self._notebook_of(path))
        ignored, skipped = ignored_at(path, settings)
        basis = Basis(
            knowledge(choice.newest),
            stack=options.stack or _last([settings.stack, *(entry.stack for entry in entries)]),
            facts=self._facts([*(entry.sources for entry in reversed(entries)), settings.sources]),
            policies=self._policies_in(settings),
            pins=choice.pins,
            is_upgrade=bool(self.ends),
            copies=self._copies,
            skipped_advisories=chosen.skipped_advisories | skipped,
        )
        return LintContext(
            settings,
            choice,
            basis,
            rules=_without(ignored, chosen.rules),
            severities=chosen.severities,
            fail_on=options.fail_on or settings.fail_on or "warning",
            baseline=self._baseline(settings),
            fixable=chosen.fixable,
            unsafe_fixes=settings.unsafe_fixes if options.unsafe_fixes is None else options.unsafe_fixes,
            material=self._material.get(os.path.abspath(path), ()) if self._material else (),
        )

    def say(self, note: str) -> None:
        """Add to the notes."""
        self._notes.append(note)

    def add_material(self, material: Material, config: str) -> None:
        """Lint the config at a path with what a recipe or a launch says that names it."""
        self._material.setdefault(os.path.abspath(config), []).append(material)

    def has_material(self, config: str) -> bool:
        """Whether a recipe or a launch is known that names the config at a path."""
        return os.path.abspath(config) in self._material

    def choice(self, directory: str, notebook: str | None = None) -> Choice:
        """The releases that the configs of a directory, or of a notebook, are linted with, chosen once."""
        installed = self._installed_by(notebook) if notebook is not None else {}
        key = notebook if notebook is not None and installed else directory
        if key not in self.choices:
            settings, given = self._nearest.to(directory), self.options.versions
            stated = {library: version for library, version in settings.versions.items() if library not in given}
            places: dict[str, PinPlace | str] = {
                library: PinPlace(settings.giver(f"{library}-version")) for library in stated
            }
            try:
                self.choices[key] = self._choose(directory, stated, places, installed)
            except UnknownRelease as error:  # not of the command line, which was asked before
                raise UnknownRelease(f"{' and '.join(dict.fromkeys(map(str, places.values())))}: {error}") from None
        return self.choices[key]

    def _notebook_of(self, path: str) -> str | None:
        """The notebook that a config is in, or that alone launches it."""
        if path.endswith(_NOTEBOOK):
            return path
        by = {one.document.path for one in self._material.get(os.path.abspath(path), ())} if self._material else set()
        return min(by) if len(by) == 1 and min(by).endswith(_NOTEBOOK) else None

    def _installed_by(self, notebook: str) -> dict[str, Pin]:
        if notebook not in self._installed:
            from ds_lint.project.notebook_pins import pins_in  # few configs have to do with one

            self._installed[notebook] = pins_in(notebook)
        return self._installed[notebook]

    def _choose(
        self,
        directory: str,
        stated: dict[str, str],
        given_by: dict[str, PinPlace | str],
        installed: dict[str, Pin] | None = None,
    ) -> Choice:
        if variables := self.options.given_by:
            names = {library: variables.get(f"{library}-version") for library in LIBRARIES}
            given_by = given_by | {library: name for library, name in names.items() if name is not None}
        if self.ends:
            return between(directory, self.ends, stated, given_by=given_by)
        return choose(directory, stated | self.options.versions, given_by=given_by, first=installed)

    def leaves_out(self, path: str, is_folder: bool) -> bool:
        """Whether a file or folder is excluded from a search of the folder that it is in."""
        return self._exclusion(os.path.dirname(path)).leaves_out(path, is_folder=is_folder)

    def forbids(self, path: str, *, is_folder: bool) -> bool:
        """Whether a file or folder is excluded although the command line names it (``--force-exclude``)."""
        directory = os.path.dirname(path)
        force = self.options.force_exclude
        if not (self._nearest.to(directory).force_exclude if force is None else force):
            return False
        return self._exclusion(directory).covers(path, is_folder=is_folder)

    def excludes(self, path: str) -> bool:
        """Whether the settings leave a file out by a pattern that is written in them."""
        settings = self._nearest.to(os.path.dirname(path))
        if settings.include is not None and not self.includes(path):
            return True
        if not (settings.exclude or settings.extend_exclude):
            return False
        from ds_lint.session.exclusion import exclusion_written

        return exclusion_written(settings).covers(path, is_folder=False)

    def includes(self, path: str) -> bool:
        """Whether a search looks at a file, by its name."""
        folder, name = os.path.split(path)
        return bool(self.included(folder, [name]))

    def may_report_on(self, path: str) -> bool:
        """Whether ``include`` lets a search report on a file that it has not looked at for configs, as a Makefile."""
        is_chosen = self.options.include is not None or self._nearest.to(os.path.dirname(path)).include is not None
        return not is_chosen or self.includes(path)

    def included(self, folder: str, names: list[str]) -> list[str]:
        """The names in a folder that a search looks at."""
        settings = self._nearest.to(folder)
        if settings.path not in self._inclusions:
            from ds_lint.session.exclusion import inclusion_by  # a file that is named is not searched for

            self._inclusions[settings.path] = inclusion_by(self.options, settings)
        return self._inclusions[settings.path].among(names, folder)

    @property
    def output_format(self) -> str | None:
        """The format of reports by the settings near the first path of the command line."""
        path = self.options.paths[0]
        if path == "-":
            path = self.options.stdin_filename or path
        return self._nearest.to(path if os.path.isdir(path) else os.path.dirname(path)).output_format

    def respects_gitignore(self, directory: str) -> bool:
        """Whether a search of a folder leaves out what git ignores."""
        wanted = self.options.respect_gitignore
        return self._nearest.to(directory).respect_gitignore if wanted is None else wanted

    def _exclusion(self, directory: str) -> Exclusion:
        settings = self._nearest.to(directory)
        if settings.path not in self._exclusions:
            from ds_lint.session.exclusion import exclusion_by  # a file that is named is not searched for

            self._exclusions[settings.path] = exclusion_by(self.options, settings)
        return self._exclusions[settings.path]

    @property
    def notes(self) -> list[str]:
        """What a person should know beside the findings; with ``--verbose`` also the releases and their sources."""
        notes = [
            *self._nearest.notes,
            *self._notes,
            *(note for choice in self.choices.values() for note in choice.notes),
        ]
        notes += [
            f"{rule.name} ({rule.code}) is in preview: enable it with --preview (preview = true in the settings)"
            for chosen in self._chosen.values()
            for rule in chosen.left_in_preview
        ]
        notes += [doubt for facts in self._gathered.values() for doubt in facts.doubts]
        if self.options.verbose:
            for directory, choice in self.choices.items():
                place = f"{directory or os.curdir}: " if len(self.choices) > 1 else ""
                notes.append(f"{place}checked against {choice}")
            notes += [chosen.origin for chosen in self._chosen.values() if chosen.origin]
            notes += [f"{fact}: {who}" for facts in self._gathered.values() for fact, who in facts.origins.items()]
        return list(dict.fromkeys(notes))

    def _facts(self, sources: list[Sources]) -> Facts:
        """What the settings near a config tell, the first before the others and the command line before all."""
        joined = self.options.sources
        for others in filter(None, sources):
            joined = joined.over(others)
        if not joined:
            return Facts()
        key = tuple((_hashable(getattr(joined, one.name)), joined.giver(one.name)) for one in joined.options())
        if key not in self._gathered:
            from ds_lint.facts.readers import gather

            try:
                self._gathered[key] = gather(joined)
            except UnreadableFact as error:
                given = (one.name for one in joined.options() if getattr(joined, one.name) is not None)
                givers = " and ".join(dict.fromkeys(map(joined.giver, given)))
                raise UnreadableFact(f"{error}" if self.options.sources else f"{givers}: {error}") from None
        return self._gathered[key]

    def _baseline(self, settings: Settings) -> str | None:
        if self.options.baseline is not None:
            return self.options.baseline
        if settings.baseline is not None:
            return settings.baseline
        if self.options.write_baseline:
            from ds_lint.settings.baseline import DEFAULT_NAME

            return settings.beside(DEFAULT_NAME)
        return None

    def _policies_in(self, settings: Settings) -> list[Policy]:
        if not settings.policy:
            return []
        if settings.path not in self._policies:
            from ds_lint.facts.policy import load

            try:
                self._policies[settings.path] = [load(path) for path in settings.policy]
            except OSError as error:
                place = f"{settings.giver('policy')}: policy: {shown(error.filename)}"
                raise SettingsError(f"{place}: {error.strerror}") from None
        return self._policies[settings.path]

    def _chosen_by(self, settings: Settings) -> _Chosen:
        if settings.path not in self._chosen:
            self._chosen[settings.path] = _Chosen(self.options, settings)
        return self._chosen[settings.path]


def _nearest(options: Options, on_error: Callable[[OSError], None] | None) -> Nearest:
    """The settings files, with what the command line says of them."""
    if not options.gives_settings:
        return Nearest(options.settings, is_isolated=options.isolated, on_error=on_error)
    from ds_lint.session.given_settings import given_layers, named_file  # most runs give none

    given = given_layers(options)
    return Nearest(*named_file(options), is_isolated=options.isolated, given=given, on_error=on_error)


def entries_for(settings: Settings, path: str) -> list[ConfigEntry]:
    """What the settings say of this config alone."""
    if not settings.configs:
        return []
    from ds_lint.project.globs import matches, relative

    place = relative(path, settings.configs[0].directory)  # all are in one file
    return [entry for entry in settings.configs if matches(place, entry.pattern)]


def selection_of(options: Options, settings: Settings) -> Selection:
    """What is said about rules: by the settings, what they extend first, and over them by the command line."""
    from ds_lint.linter.selection import Selection

    preview = options.preview or settings.preview
    tables = [layer.values for layer in settings.layers if any(name in layer.values for name in _OF_SELECTION)]
    parts = [tuple(values.get(name) for name in _OF_SELECTION) for values in tables]
    selection: Selection | None = None
    for selected, extended, ignored in (*parts, (options.select, options.extend_select, options.ignore)):
        selection = Selection(
            selected, extended or (), ignored or (), preview=preview, over=selection, always=options.always
        )
    assert selection is not None  # noqa: S101 - the command line is a part
    return selection


def _without(ignored: list[Rule], rules: list[Rule] | None) -> list[Rule] | None:
    """The rules without those that the settings ignore for a config."""
    if not ignored:
        return rules
    from ds_lint.linter.selection import Selection, select

    return [rule for rule in (select(Selection()) if rules is None else rules) if rule not in ignored]


def _last(values: list[Value | None]) -> Value | None:
    """The last that says something."""
    return next((value for value in reversed(values) if value is not None), None)


def _hashable(value: object) -> object:
    """What stands for the value of a source in a key: a caller in Python may give an object."""
    return value if value is None or isinstance(value, (str, int)) else id(value)
