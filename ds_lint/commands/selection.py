"""Which rules ``--select`` and ``--ignore`` leave."""

from __future__ import annotations

from ds_lint.engine import default_rules, every_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.rule import Rule


class UnknownRule(Exception):  # noqa: N818 - it is the user's word that is unknown
    """A selector that names no rule; the message says which and what was meant."""


def select(selected: list[str] | None, ignored: list[str] | None) -> list[Rule]:
    """The rules that remain: codes, prefixes of codes (``DS1``) and names are accepted.

    Rules that are off by default run where a selection names them.
    """
    chosen = default_rules()
    if selected:
        chosen = [rule for rule in every_rule() if any(_matches(rule, word) for word in selected)]
    for word in [*(selected or ()), *(ignored or ())]:
        if not any(_matches(rule, word) for rule in every_rule()):
            raise UnknownRule(_unknown(word))
    return [rule for rule in chosen if not any(_matches(rule, word) for word in ignored or ())]


def find(word: str) -> Rule | None:
    """The rule of this code or name, or None."""
    return next((rule for rule in every_rule() if word.lower() in (rule.code.lower(), rule.name)), None)


def _matches(rule: Rule, word: str) -> bool:
    return rule.name == word.lower() or rule.code.startswith(word.upper())


def _unknown(word: str) -> str:
    from ds_lint.suggest import choice

    meant = choice(word, [name for rule in every_rule() for name in (rule.code, rule.name)])
    hint = f"; did you mean {meant}?" if meant else "; `ds-lint rules` lists them"
    return f"there is no rule {word}{hint}"
