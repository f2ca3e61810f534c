"""Which rules check a config."""

from __future__ import annotations

from ds_lint.diagnostics.rule import named
from ds_lint.knowledge import advisories
from ds_lint.linter.engine import default_rules, every_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.diagnostics.rule import Rule

ALL = "ALL"  # every rule; those in preview still need ``preview``
IGNORED = "ignored"
NOT_SELECTED = "not selected"
OFF_BY_DEFAULT = "off by default"


class UnknownRule(Exception):  # noqa: N818 - it is the user's word that is unknown
    """A selector that names no rule; the message says which and what was meant."""


class Selection:
    """What the user says about rules: codes, prefixes of codes (``DS1``), names and ``ALL`` are accepted.

    The id of an advisory means that advisory alone, among those that its rule reports.

    ``selected`` is None without a selection; ``extended`` comes on top, and ``ignored`` is removed from both. ``over``
    is what was said before: ``selected`` takes its place, and without one the others change it. ``always`` are rules
    that no selection leaves out.
    """

    __slots__ = ("always", "extended", "ignored", "over", "preview", "selected")

    def __init__(
        self,
        selected: Iterable[str] | None = None,
        extended: Iterable[str] = (),
        ignored: Iterable[str] = (),
        *,
        preview: bool = False,
        over: Selection | None = None,
        always: Iterable[str] = (),
    ) -> None:
        self.selected = None if selected is None else list(selected)
        self.extended = list(extended)
        self.ignored = list(ignored)
        self.preview = preview  # whether rules in preview may be on at all
        self.over = over
        self.always = list(always)

    @property
    def says_nothing(self) -> bool:
        """Whether it leaves the rules that are on anyway."""
        is_silent = self.selected is None and not (self.extended or self.ignored or self.preview or self.always)
        return is_silent and (self.over is None or self.over.says_nothing)

    @property
    def parts(self) -> list[Selection]:
        """What counts, in the order in which it was said: nothing before the last that selects."""
        before = self.over.parts if self.selected is None and self.over is not None else []
        return [*before, self]

    @property
    def own(self) -> list[str]:
        """The words that switch rules on, without those that were said before."""
        return [*(self.selected or ()), *self.extended]

    @property
    def wanted(self) -> list[str]:
        """The words that switch rules on."""
        return [word for part in self.parts for word in part.own]


def select(selection: Selection) -> list[Rule]:
    """The rules that remain; one that is off by default runs where a word names it. Raises UnknownRule."""
    off = why_off(selection)
    return [rule for rule in every_rule() if rule not in off]


def why_off(selection: Selection) -> dict[Rule, str]:
    """The rules that do not remain, each with the reason. Raises UnknownRule."""
    selected = selection.parts[0].selected
    wanted = {rule for word in selection.always for rule in rules_of(word)}
    if selected is None:
        wanted.update(default_rules(preview=selection.preview))
    ignored: set[Rule] = set()
    for part in selection.parts:
        named = {rule for word in part.own for rule in rules_of(word)}
        wanted |= named
        ignored -= named
        ignored |= {rule for word in part.ignored for rule in rules_of(word) if not advisories.is_id(word)}
    off: dict[Rule, str] = {}
    for rule in every_rule():
        if rule in ignored:
            off[rule] = IGNORED
        elif rule.preview is not None and not selection.preview:
            off[rule] = f"in preview since {rule.preview}"
        elif rule not in wanted:
            off[rule] = OFF_BY_DEFAULT if selected is None else NOT_SELECTED
    return off


def skipped_advisories(selection: Selection) -> frozenset[str]:
    """The advisories that are ignored by their ids, or left out because others of their rule are selected by theirs."""
    skipped: set[str] = set()
    for part in selection.parts:
        skipped -= {word.upper() for word in part.own}
        skipped |= {word.upper() for word in part.ignored if advisories.is_id(word)}
    wanted = {word.upper() for word in selection.parts[0].selected or () if advisories.is_id(word)}
    if wanted:
        whole = {rule.code for word in selection.wanted if not advisories.is_id(word) for rule in rules_of(word)}
        known = advisories.advisories().items()
        skipped |= {one for one, record in known if one not in wanted and advisories.code_of(record) not in whole}
    return frozenset(skipped)


def fixable(parts: Iterable[tuple[list[str] | None, list[str], list[str]]]) -> frozenset[str]:
    """The codes of the rules whose fixes may be applied, by what is ``fixable``, added to that, and ``unfixable``.

    Each part counts over those before it, as in a selection. Raises UnknownRule.
    """
    codes = {rule.code for rule in every_rule()}
    for selected, extended, ignored in parts:
        if selected is not None:
            codes = set()
        codes |= {rule.code for word in (*(selected or ()), *extended) for rule in rules_of(word)}
        codes -= {rule.code for word in ignored for rule in rules_of(word)}
    return frozenset(codes)


def left_in_preview(selection: Selection) -> list[Rule]:
    """The rules that are named one by one, and stay off all the same because they are in preview."""
    if selection.preview:
        return []
    return [rule for word in selection.wanted if (rule := find(word)) is not None and rule.preview is not None]


def find(word: str) -> Rule | None:
    """The rule of this code or name, or the one that reports the advisory of this id; None if there is none."""
    every_rule()  # registers those that few files need
    advisory = advisories.named(word)
    return named(word if advisory is None else advisories.code_of(advisory))


def rules_of(word: str) -> list[Rule]:
    """The rules that a word means: a code, a prefix of codes, a name, an id or ``ALL``. Raises UnknownRule."""
    if word.upper() == ALL:
        return every_rule()
    if advisories.is_id(word):
        if (advisory := advisories.named(word)) is None:
            raise UnknownRule(f"unknown advisory {word}; `ds-lint advisories` lists them")
        word = advisories.code_of(advisory)
    found = [rule for rule in every_rule() if rule.name == word.lower() or rule.code.startswith(word.upper())]
    if not found:
        from ds_lint.knowledge.suggestions import no_such_rule  # few runs name a rule that there is not

        raise UnknownRule(no_such_rule(word))
    return found
