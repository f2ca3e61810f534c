"""What a rule's page says of exceptions: the texts that a run ends with, so that a search for one leads to the rule."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ds_lint.knowledge import exceptions
from ds_lint.rule_pages import pages

if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.knowledge.exceptions import ExceptionRecord

MOST = 30  # texts of a page
WORDS = 3  # that a text must have beside what a run fills in
_FILLED = "..."


def section(rule: Rule) -> str:
    """The end of a rule's page; empty if no exception leads to it."""
    found = _texts().get(rule.code, [])
    if not found:
        return ""
    quoted = re.findall(r'"([^"\n]+)"', pages.page(rule))
    texts = dict.fromkeys(_filled(text, quoted) for text in found[:MOST])
    lines = "\n".join(f"#### {_code(text)}\n" for text in texts)  # a search looks at headings first
    which = "Some of the exceptions" if len(found) > MOST else "Exceptions"
    about = f"{which} that this rule foretells, with `{_FILLED}` for what differs. `ds-lint doctor LOG` finds them."
    return f"\n## In the log of a run\n\n{about}\n\n{lines}"


@cache
def _texts() -> dict[str, list[str]]:
    """The texts by the codes of the rules, each once, as their sources have them."""
    found: dict[str, dict[str, None]] = {}
    for record in exceptions.every():
        if record.proof == "source" and record.message is not None and _says_something(record):
            for code in record.rules:
                found.setdefault(code, {})[_text(record)] = None
    return {code: [*texts] for code, texts in found.items()}


def _says_something(record: ExceptionRecord) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", " ".join(piece or "" for piece in record.message or ()))) >= WORDS


def _text(record: ExceptionRecord) -> str:
    message = "".join(_FILLED if piece is None else piece for piece in record.message or ())
    return f"{record.raises}: {' '.join(message.split())}"


def _filled(text: str, quoted: list[str]) -> str:
    """A text as the page quotes it, with what a run fills in, if it does."""
    name, _, message = text.partition(": ")
    pattern = re.compile(".+".join(map(re.escape, message.split(_FILLED))))
    return next((f"{name}: {quote}" for quote in quoted if pattern.fullmatch(quote)), text)


def _code(text: str) -> str:
    """A text in code, whatever backticks it has."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
