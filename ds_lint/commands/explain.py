"""``ds-lint explain``: the page of a rule, or what a key means."""

from __future__ import annotations

import sys

from ds_lint import __version__
from ds_lint.addresses import SITE
from ds_lint.commands.report import print_text
from ds_lint.knowledge import advisories, descriptions, keys
from ds_lint.linter.engine import every_rule
from ds_lint.linter.selection import find
from ds_lint.output.harmless import complaint
from ds_lint.output.terminal import QUIET, STRONG, terminal_of
from ds_lint.output.text import visible, wrap
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.diagnostics.rule import Rule
    from ds_lint.knowledge.descriptions import EntryLine
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import AdvisoryRecord
    from ds_lint.logs.meanings import Meaning
    from ds_lint.output.terminal import Terminal

    Json = dict[str, object]

VERSION = 1  # of the JSON, raised when a reader of it would have to change
_MOST = 12  # in a hint
_SHORTEST_TEXT = 3  # characters


def explain(subject: str, language: str | None = None, *, as_json: bool = False) -> int:
    """Print the page of a rule, translated if there is a translation, or the entry of a key; 2 if there is neither."""
    if (advisory := advisories.named(subject)) is not None:
        from ds_lint.rule_pages.advisories import page  # most ask for a rule

        if language is not None:
            _note(f"{advisory['id']} is not translated; this is the page in English")
        if as_json:
            return _print_json(advisories=[_of_advisory(advisory, page(advisory))])
        print_page(page(advisory))
        return 0
    rule = find(subject)
    if rule is not None:
        return _explain_rules([rule], language, as_json=as_json)
    knowledge = keys.knowledge()
    lines = descriptions.entry(tuple(subject.split(".")), knowledge)
    found = [] if lines else _meanings(subject)
    if not lines and not found:
        sys.stderr.write(complaint(f"unknown rule, advisory or key {subject}{_hint(subject, knowledge)}"))
        return 2
    if language is not None and lines:
        from ds_lint.rule_pages.languages import LANGUAGES

        _note(LANGUAGES[language].keys_are_english)
    if as_json:
        return _print_json(meanings=[*map(_of_meaning, found)]) if found else _print_json(keys=[_of_key(lines)])
    if found:
        _print_meanings(found)
    else:
        _print(lines, terminal_of(sys.stdout))
    return 0


def explain_all(language: str | None = None, *, as_json: bool = False) -> int:
    """Print the pages of all rules."""
    return _explain_rules(every_rule(), language, as_json=as_json)


def _explain_rules(rules: Sequence[Rule], language: str | None, *, as_json: bool) -> int:
    found = [(rule, _page(rule, language, is_shown=not as_json)) for rule in rules]
    if not as_json:
        print_page("\n".join(page for _, page in found))
        return 0
    from ds_lint.commands.rules import described

    return _print_json(rules=[{**described(rule), "page": page} for rule, page in found])


def _print_json(**found: list[Json]) -> int:
    """Print what was asked for as ``schemas/explain.schema.json`` describes it."""
    from json import dumps

    from ds_lint.output.harmless import JSON, harmless

    head = {"version": VERSION, "tool": {"name": "ds-lint", "version": __version__}}
    sys.stdout.write(harmless(dumps({**head, **found}, indent=2), JSON) + "\n")
    return 0


def _of_advisory(advisory: AdvisoryRecord, page: str) -> Json:
    from ds_lint.knowledge.advisory_words import affected, title

    return {
        "id": advisory["id"],
        "title": title(advisory),
        "affected": affected(advisory),
        "severity": advisory["severity"],
        "effect": advisory["effect"],
        "keys": advisory["keys"],
        "advice": advisory["advice"],
        "references": advisory["references"],
        "url": f"{SITE}advisories/{advisory['id']}/",
        "page": page,
    }


def _of_key(lines: list[EntryLine]) -> Json:
    (_, name), *rest = lines
    return {"key": name, "entry": [{"label": label, "text": text} for label, text in rest]}


def _of_meaning(one: Meaning) -> Json:
    return {"message": one.message, "help": one.help, "library": one.library, "rules": list(one.codes)}


def _meanings(text: str) -> list[Meaning]:
    """What a text of a log or of an exception may mean."""
    if find(text.split(" ", maxsplit=1)[0].rstrip(":")) is None and len(text) < _SHORTEST_TEXT:
        return []
    from ds_lint.logs.meanings import meanings  # most ask for a rule

    return meanings(text)


def _print_meanings(found: list[Meaning]) -> None:
    terminal = terminal_of(sys.stdout)
    for one in found:
        rules = [rule for code in one.codes if (rule := find(code)) is not None]
        print_text(f"{terminal.paint(visible(one.message), STRONG)}\n", sys.stdout)
        for line in wrap(visible(one.help), terminal.width, taken=2, indent=2):
            print_text(f"  {line.strip()}\n", sys.stdout)
        for rule in rules:
            print_text(f"  {terminal.paint(f'ds-lint explain {rule.code}', QUIET)}  {rule.name}\n", sys.stdout)
        print_text("\n", sys.stdout)


def _page(rule: Rule, language: str | None, *, is_shown: bool) -> str:
    """The page in the requested language, or in English with a note that says why."""
    from ds_lint.rule_pages import pages, translations
    from ds_lint.rule_pages.languages import LANGUAGES

    translated = translations.page(rule, language) if language is not None else None
    if translated is not None and (not is_shown or terminal_of(sys.stdout).can_show(translated)):
        return translated
    if translated is not None:
        _note(f"{sys.stdout.encoding} cannot show the page; set PYTHONIOENCODING=utf-8 to print it")
    elif language is not None:
        _note(LANGUAGES[language].no_page.format(rule.code))
    return pages.page(rule)


def _note(text: str) -> None:
    sys.stderr.write(complaint(text))


def print_page(text: str) -> None:
    """Print a page: laid out on a terminal, as Markdown in a pipe or a file."""
    terminal = terminal_of(sys.stdout)
    if terminal.width is not None:
        from ds_lint.output import markdown

        text = "".join(f"{line}\n" for line in markdown.lines(text, terminal))
    print_text(text, sys.stdout)


def _hint(subject: str, knowledge: Knowledge) -> str:
    from ds_lint.knowledge.suggestions import choice

    known = every_rule()
    codes = [rule.code for rule in known]
    if beginning := [code for code in codes if code.startswith(subject.upper())]:
        return _any_of(beginning) or f"; {len(beginning)} codes begin with it, and `ds-lint rules` lists them"
    paths = [dotted(key.path) for key in knowledge.everywhere()]
    if ending := [path for path in paths if path.endswith(f".{subject}")]:
        return _any_of(ending) or f"; {len(ending)} sections have it, such as {ending[0]}"
    by_name = {_last_name(path): path for path in reversed(paths)}  # in another section, or without its section
    names = [] if "." in subject else list(by_name)
    close = choice(subject, [*(rule.name for rule in known), *codes, *paths, *names])
    close = close or choice(_last_name(subject), list(by_name))
    return _any_of([by_name.get(close, close)]) if close else "; `ds-lint rules` lists the rules"


def _any_of(words: list[str]) -> str:
    """A hint with everything that may be meant; empty if that is too much."""
    if len(words) > _MOST:
        return ""
    *others, last = words
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def _last_name(path: str) -> str:
    return path.rpartition(".")[2]


def _print(lines: list[EntryLine], terminal: Terminal) -> None:
    (_, name), *rest = lines
    sys.stdout.write(terminal.paint(name, STRONG) + "\n")
    width = max(len(label) for label, _ in rest) if rest else 0
    for label, text in rest:
        first, *others = wrap(text, terminal.width, taken=width + 4, indent=width + 4)
        sys.stdout.write(f"  {terminal.paint(label.ljust(width), QUIET)}  {first}\n")
        for line in others:
            sys.stdout.write(f"{line}\n")
