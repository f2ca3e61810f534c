"""``ds-lint check --show-settings``: what applies to a config, and where it comes from."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import NamedTuple

from ds_lint import __version__
from ds_lint.commands.documents import STANDARD_INPUT
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.report import default_format, print_text
from ds_lint.facts import Sources
from ds_lint.knowledge.advisories import is_id
from ds_lint.linter.engine import default_rules, every_rule
from ds_lint.linter.selection import IGNORED, rules_of, why_off
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.terminal import QUIET, STRONG, terminal_of
from ds_lint.output.text import shown_path, visible, width_of, wrap
from ds_lint.project.discovery import ENDINGS, EXCLUDED
from ds_lint.project.globs import matches, relative
from ds_lint.session.context import ignored_at
from ds_lint.session.session import Session, entries_for, selection_of
from ds_lint.settings.lines import lines_of
from ds_lint.targets.pin import LIBRARIES
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ds_lint.diagnostics.rule import Rule
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.context import LintContext
    from ds_lint.session.options import Options
    from ds_lint.settings.record import ConfigEntry, Layer, Settings

    Json = dict[str, object]

VERSION = 1  # of the JSON, raised when a reader of it would have to change
DEFAULT = "default"
NOT_SET = "not set"
_FACTS = {fact.name: fact.dashed for fact in Sources.options() if fact.part == "facts"}
WIDEST = 44  # columns of a value, beyond which its source is not aligned


class StatedValue(NamedTuple):
    """A setting; None for a value that is not set."""

    name: str
    value: object
    source: str


class _Shown(NamedTuple):
    """Everything that applies to one path."""

    path: str
    file: str | None  # of settings
    extends: list[str]  # the nearest first
    named_by: str | None  # the option or variable that names the file; None if it is the nearest one
    values: list[StatedValue]
    off: list[tuple[Rule, str]]  # with the reason
    on: list[Rule]


class _File:
    """A settings file with those that it extends, and the line of each setting in them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = shown(settings.path)
        self._lines: dict[str, dict[tuple[str, ...], int]] = {}
        for path in filter(None, (layer.path for layer in settings.layers)):
            with open(path, encoding="utf-8") as file:
                self._lines[path] = lines_of(file.read(), path)

    def place(self, name: str, *inner: str, layer: Layer | None = None) -> str:
        """``pyproject.toml:12``; without the line if it is written in a way that has none."""
        layer = layer or self.settings.layer(name)
        line = self._lines.get(layer.path, {}).get((name, *inner))
        giver = layer.giver(name)
        return giver if line is None else f"{giver}:{line}"

    def place_of(self, entry: ConfigEntry, name: str) -> str:
        """The same for a setting of some configs."""
        return self.place("configs", str(self.settings.configs.index(entry)), name)

    def all_of(self, name: str, layers: Sequence[Layer] | None = None) -> dict[str, list[str]]:
        """The values of a list by each place that has some."""
        layers = self.settings.layers if layers is None else layers
        return {self.place(name, layer=layer): layer.values[name] for layer in layers if layer.values.get(name)}

    def since(self, name: str) -> list[Layer]:
        """The layers from the last that has a setting, which replaces what those before it say."""
        layers = self.settings.layers
        first = max((place for place, layer in enumerate(layers) if name in layer.values), default=0)
        return layers[first:]


def show_settings(options: Options) -> int:
    """Print what applies to each path, and return the exit status."""
    try:
        session = Session(options)
        all_shown = [_shown(path, session) for path in options.paths]
    except WRONG_USAGE as error:
        return complain(error)
    if options.output_format == "json":
        sys.stdout.write(harmless(_as_json(all_shown), JSON))
    else:
        terminal = terminal_of(sys.stdout)
        blocks = ["".join(f"{line}\n" for line in _lines(one, terminal)) for one in all_shown]
        print_text(harmless("\n".join(blocks)), sys.stdout)
    return 0


def _shown(path: str, session: Session) -> _Shown:
    options = session.options
    place = (options.stdin_filename or "") if path == STANDARD_INPUT else path
    is_folder = os.path.isdir(place)
    linted = os.path.join(place, "") if is_folder else place
    context = session.context(linted)
    file = _File(context.settings)
    entries = [] if is_folder else entries_for(context.settings, place)
    values = [*_of_a_run(options, file, entries), *_versions(context, file), *_of_rules(options, file)]
    values += _of_fixes(options, file)
    values += _others(session, context, file)
    if is_folder:
        values += _of_some_configs(file)
    on = default_rules() if context.rules is None else context.rules
    named_by = options.source("settings") if options.settings is not None else None
    if any(os.path.isfile(one) for one in options.config_options):
        named_by = "--config"
    extends = [shown(one) for one in context.settings.extends]
    return _Shown(path, file.name or None, extends, named_by, values, list(_off(linted, options, file)), on)


# ------------------------------------------------------------------------------------------------------------- values


def _of_a_run(options: Options, file: _File, entries: list[ConfigEntry]) -> Iterator[StatedValue]:
    """Stack and facts: the command line, then the last entry about this config, then the file."""
    stacks = [
        (options.source("stack"), options.stack),
        *((file.place_of(one, "stack"), one.stack) for one in reversed(entries)),
    ]
    stacks.append((file.place("stack"), file.settings.stack))
    yield _first("stack", stacks, "inferred from each config, else all")
    for fact, name in _FACTS.items():
        sayers = [(options.sources.giver(fact), getattr(options.sources, fact))]
        sayers += [(file.place_of(entry, name), getattr(entry.sources, fact)) for entry in reversed(entries)]
        sayers.append((file.place(name), getattr(file.settings.sources, fact)))
        yield _first(name, sayers, NOT_SET)
    if options.sources.here:
        yield StatedValue("here", True, "--here")


def _first(name: str, sayers: Iterable[tuple[str, object]], otherwise: str, default: object = None) -> StatedValue:
    for source, value in sayers:
        if value is not None:
            return StatedValue(name, value, source)
    return StatedValue(name, default, otherwise)


def _versions(context: LintContext, file: _File) -> Iterator[StatedValue]:
    """The releases that configs are checked against; of several the oldest and the newest with ``to`` between."""
    for library in LIBRARIES:
        releases, source = context.choice.releases[library], context.choice.origins[library]
        name = f"{library}-version"
        ends = [releases[0], releases[-1]] if len(releases) > 1 else releases
        yield StatedValue(name, " to ".join(ends), file.place(name) if source == file.settings.giver(name) else source)


def _of_rules(options: Options, file: _File) -> Iterator[StatedValue]:
    """The selection of rules; one on the command line replaces the one in the file."""
    settings = file.settings
    selected = settings.layer("select").values.get("select")
    yield _first("select", [("--select", options.select), (file.place("select"), selected)], "the default rules")
    layers = [] if options.select is not None else file.since("select")
    for name, given in (("extend-select", options.extend_select), ("ignore", options.ignore)):
        yield _joined(name, {**file.all_of(name, layers), f"--{name}": given})
    previews = [("--preview", options.preview or None), (file.place("preview"), settings.preview or None)]
    yield _first("preview", previews, DEFAULT, default=False)
    givers = [file.place("severity", layer=layer) for layer in settings.layers if layer.values.get("severity")]
    yield StatedValue("severity", settings.severity, " and ".join(givers) or DEFAULT)
    yield _table("per-file-ignores", settings.layer("per-file-ignores").values.get("per-file-ignores", {}), file)
    for layer in settings.layers:
        if added := layer.values.get("extend-per-file-ignores"):
            yield StatedValue("extend-per-file-ignores", added, file.place("extend-per-file-ignores", layer=layer))


def _of_fixes(options: Options, file: _File) -> Iterator[StatedValue]:
    """Which fixes may be applied; what is fixable replaces what was said before."""
    layer = file.settings.layer("fixable")
    yield _first("fixable", [(file.place("fixable"), layer.values.get("fixable"))], DEFAULT, default=["ALL"])
    for name in ("extend-fixable", "unfixable"):
        yield _joined(name, file.all_of(name, file.since("fixable")))
    yield _switch("unsafe-fixes", options.unsafe_fixes, file, default=False)


def _others(session: Session, context: LintContext, file: _File) -> Iterator[StatedValue]:
    settings, options = file.settings, session.options
    sayers = [(options.source("fail-on"), options.fail_on), (file.place("fail-on"), settings.fail_on)]
    yield _first("fail-on", sayers, DEFAULT, default="warning")
    yield from _of_the_search(options, file)
    variable = options.given_by.get("output-format")
    name, source = (options.output_format, variable) if variable else default_format(options, session.output_format)
    if source == "settings" and name == settings.output_format:
        source = file.place("output-format")
    yield StatedValue("output-format", name, source)
    yield _table("policy", settings.policy, file)
    by = "--baseline" if options.baseline else file.place("baseline")
    yield StatedValue("baseline", context.baseline, by if context.baseline else "none")


def _of_the_search(options: Options, file: _File) -> Iterator[StatedValue]:
    """What a search leaves out, and whether what is named is searched all the same."""
    settings = file.settings
    excluded, included = list(EXCLUDED), [f"*{ending}" for ending in ENDINGS]
    for name, given, more, otherwise in (
        ("exclude", options.exclude, options.extend_exclude, excluded),
        ("include", options.include, options.extend_include, included),
    ):
        written = settings.layer(name).values.get(name)
        yield _first(name, [(f"--{name}", given), (file.place(name), written)], DEFAULT, default=otherwise)
        yield _joined(f"extend-{name}", {**file.all_of(f"extend-{name}"), f"--extend-{name}": more})
    yield _switch("force-exclude", options.force_exclude, file, default=False)
    yield _switch("include-markdown", options.include_markdown, file, default=False)
    yield _switch("respect-gitignore", options.respect_gitignore, file, default=True)


def _switch(name: str, given: bool | None, file: _File, *, default: bool) -> StatedValue:
    option = f"--{name}" if given else f"--no-{name}"
    written = file.settings.layer(name).values.get(name)
    return _first(name, [(option, given), (file.place(name), written)], DEFAULT, default=default)


def _joined(name: str, sayers: Mapping[str, Sequence[str]]) -> StatedValue:
    """A list that several add to."""
    values = list(dict.fromkeys(value for given in sayers.values() for value in given))
    return StatedValue(name, values, " and ".join(who for who, given in sayers.items() if given) or DEFAULT)


def _table(name: str, value: object, file: _File) -> StatedValue:
    return StatedValue(name, value, file.place(name) if value else DEFAULT)


def _of_some_configs(file: _File) -> Iterator[StatedValue]:
    """The settings of the configs that a pattern matches."""
    for entry in file.settings.configs:
        stated = {"stack": entry.stack, **{name: getattr(entry.sources, fact) for fact, name in _FACTS.items()}}
        for name, value in stated.items():
            if value is not None:
                yield StatedValue(f'configs."{entry.pattern}".{name}', value, file.place_of(entry, name))


def _off(path: str, options: Options, file: _File) -> Iterator[tuple[Rule, str]]:
    """The rules that are off for a path, each with the reason and where it comes from."""
    settings = file.settings
    (ignored, _), reasons = ignored_at(path, settings), why_off(selection_of(options, settings))
    ignoring = [layer for layer in reversed(settings.layers) if "ignore" in layer.values]
    for rule in every_rule():
        if rule in ignored:
            yield rule, f"ignored for this path, {_place_for_path(path, rule, file)}"
        elif reasons.get(rule) == IGNORED and _names(options.ignore, rule):
            yield rule, "--ignore"
        elif reasons.get(rule) == IGNORED:
            layer = next((one for one in ignoring if _names(one.values["ignore"], rule)), None)
            yield rule, f"ignored, {file.place('ignore', layer=layer)}"
        elif rule in reasons:
            yield rule, reasons[rule]


def _place_for_path(path: str, rule: Rule, file: _File) -> str:
    """Where a rule is ignored for a path."""
    for layer, name, pattern, words in reversed(file.settings.per_file_ignores):
        if matches(relative(path, layer.directory), pattern) and _names(words, rule):
            return file.place(name, layer=layer)
    return file.name


def _names(words: Iterable[str], rule: Rule) -> bool:
    return any(rule in rules_of(word) for word in words if not is_id(word))


# ------------------------------------------------------------------------------------------------------------- output


def _lines(one: _Shown, terminal: Terminal) -> Iterator[str]:
    yield terminal.paint(shown_path(one.path), STRONG)
    named_by = f", {one.named_by}" if one.named_by else ""
    extends = f", extends {', '.join(map(visible, one.extends))}" if one.extends else ""
    yield f"settings: {visible(one.file) if one.file else 'no file'}{named_by}{extends}"
    texts = [visible(f"{value.name} = {_text(value.value)}") for value in one.values]
    width = max(width_of(text) for text in texts if width_of(text) <= WIDEST)
    for text, value in zip(texts, one.values, strict=True):
        first, *rest = wrap(text, terminal.width, taken=2, indent=6)
        source, *more = wrap(visible(value.source), terminal.width, taken=width + 4, indent=width + 4)
        if rest or width_of(text) > width:  # beside a long value there is no room
            yield from (f"  {first}", *rest, " " * (width + 4) + terminal.paint(source, QUIET))
        else:
            yield f"  {text}{' ' * (width - width_of(text))}  {terminal.paint(source, QUIET)}"
        yield from (terminal.paint(line, QUIET) for line in more)
    yield f"rules: {len(one.on)} on, {len(one.off)} off"
    reasons: dict[str, list[str]] = {}
    for rule, why in one.off:
        reasons.setdefault(why, []).append(rule.code)
    for why, codes in reasons.items():
        first, *rest = wrap(f"off: {' '.join(codes)}", terminal.width, taken=2, indent=7)
        yield from (f"  {first}", *rest)
        yield f"{' ' * 7}{terminal.paint(visible(why), QUIET)}"


def _text(value: object) -> str:
    return "?" if value is None else dumps(value, ensure_ascii=False, default=str)


def _as_json(all_shown: list[_Shown]) -> str:
    described: Json = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        "settings": [
            {
                "path": one.path,
                "file": one.file,
                "extends": one.extends,
                "values": [value._asdict() for value in one.values],
                "rules": {
                    "on": [rule.code for rule in one.on],
                    "off": [{"code": rule.code, "name": rule.name, "why": why} for rule, why in one.off],
                },
            }
            for one in all_shown
        ],
    }
    return dumps(described, indent=2) + "\n"
