"""The rule pages in other languages: ``rules/<language>/<code>-<name>.md``, beside the English ones in ``rules/``.

English is the source. A translated page holds the prose alone, line for line, and takes from the English page what
ds-lint prints and what it is shown for::

    <!-- translates: 3f2a90 77b1ce -->
    # DS512: batch-arithmetic
    ...
    <!-- row -->
    ...
    <!-- example 1 -->

``<!-- row -->`` stands for the row of severities and effects, ``<!-- example 1 -->`` for the first fenced blocks, up to
the next line of prose. The first line names the English prose that is translated, by a hash of each of its lines;
``python -m tools.translations`` tells which of them have changed since.
"""

from __future__ import annotations

import re

from ds_lint.knowledge import resources
from ds_lint.rule_pages import pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule

ROW = "<!-- row -->"
_FENCED = r"^```[^\n]*\n.*?^```$"
_EXAMPLE = re.compile(rf"{_FENCED}(?:\n+{_FENCED})*", re.DOTALL | re.MULTILINE)


def path(rule: Rule, language: str) -> str:
    """Where the translated page of a rule lies, if there is one."""
    return resources.path("rules", language, f"{rule.code}-{rule.name}.md")


def page(rule: Rule, language: str) -> str | None:
    """The page of a rule in a language, with its examples; None if it is not translated."""
    return with_examples(path(rule, language), pages.page(rule))


def with_examples(translation: str, english: str) -> str | None:
    """The translation in a file with what it takes from the English text; None if there is no such file."""
    try:
        with open(translation, encoding="utf-8") as file:
            _, _, text = file.read().partition("\n")
    except FileNotFoundError:
        return None
    _, kept = outline(english)
    for placeholder, original in kept.items():
        text = text.replace(placeholder, original)
    return text


def summary(rule: Rule, language: str) -> str | None:
    """What the rule catches, in one sentence of a language; None if its page is not translated."""
    text = page(rule, language)
    return None if text is None else pages.first_paragraph(text)


def outline(english: str) -> tuple[str, dict[str, str]]:
    """An English page with placeholders for what translations take from it, and what each of them stands for."""
    kept: dict[str, str] = {}

    def keep(found: re.Match[str]) -> str:
        placeholder = f"<!-- example {len(kept) + 1} -->"
        kept[placeholder] = found[0]
        return placeholder

    before, table, after = _EXAMPLE.sub(keep, english).partition(pages.TABLE)
    if not table:
        return before, kept
    kept[ROW], end, rest = after.partition("\n")
    return f"{before}{table}{ROW}{end}{rest}", kept
