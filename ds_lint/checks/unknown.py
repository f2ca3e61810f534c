"""Rules about keys that the target does not know: misspelled, misplaced, of other releases (DS10x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.source.spelling import AUTO, holds_auto, is_comment
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Fix, Stack
    from ds_lint.knowledge.keys import Key
    from ds_lint.semantics.config import Config, Visit


@rule("DS101", "unknown-key", severity="error", effects=("ignored", "rejected", "no-effect"))
def unknown_key(config: Config) -> Iterator[Problem]:
    """The section does not know this key; the finding suggests a key if one is close."""
    for visit in _unknown(config):
        if _arrival(config, visit):
            continue  # newer-key
        renamed, rewritten = _renamed(config, visit)
        meant, is_misplaced = (renamed, False) if renamed else _meant(config, visit)
        if is_misplaced:
            continue  # misplaced-key
        last_release = config.knowledge.last_release_of(visit.path)
        if config.document.may_have_own_keys and not (last_release or renamed or _is_slip(visit, meant)):
            continue  # what reads the file may take it for itself
        outcomes = _outcomes_of_unread(config, visit)
        what = f"unknown key `{dotted(visit.path)}`"
        if last_release:
            what = f"`{dotted(visit.path)}` is unknown since DeepSpeed {_next_release(config, last_release)}"
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"{what}: {_consequence(visit, outcomes)}",
            outcomes,
            help=rewritten or _help(visit, meant),
            label=f"{'renamed to' if renamed else 'did you mean'} `{_shown(meant, visit)}`{'' if renamed else '?'}"
            if meant
            else "unknown key",
            severity=None if meant or last_release or visit.section.strict else "warning",
            fix=None if rewritten else _as_meant(config, visit, meant),
        )


@rule("DS102", "misplaced-key", severity="error", effects=("ignored", "rejected", "no-effect"))
def misplaced_key(config: Config) -> Iterator[Problem]:
    """Another section reads this key, this one does not."""
    for visit in _unknown(config):
        name = visit.member.key
        home, is_misplaced = (None, False) if _arrival(config, visit) else _meant(config, visit)
        if home is None or not is_misplaced or (config.document.may_have_own_keys and not visit.section.path):
            continue
        outcomes = _outcomes_of_unread(config, visit)
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{name}` belongs {_into(home)}, not {_into(visit.section, section=True)}: "
            f"{_consequence(visit, outcomes)}",
            outcomes,
            help=_move(visit, home),
            label=f"belongs {_into(home)}",
            fix=_moved(config, visit, home),
        )


@rule("DS107", "comment-in-strict-section", severity="error", effects=("rejected", "no-effect"))
def comment_in_strict_section(config: Config) -> Iterator[Problem]:
    """A comment key in a section that rejects unknown keys."""
    for visit in config.unknown:
        if visit.section.strict and is_comment(visit.member.key):
            outcomes = _outcomes_of_unread(config, visit)
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"comment key `{dotted(visit.path)}` in a strict section: {_consequence(visit, outcomes)}",
                outcomes,
                help="Move the comment to the top level of the config, where DeepSpeed ignores unknown keys.",
                label="no comments here",
                fix=edits.moving(config, visit.path, (visit.member.key,), "safe"),
            )


@rule("DS109", "newer-key", severity="error", effects=("ignored", "rejected", "no-effect"))
def newer_key(config: Config) -> Iterator[Problem]:
    """Only DeepSpeed releases newer than the target read this key."""
    for visit in _unknown(config):
        arrival = _arrival(config, visit)
        if arrival is None:
            continue
        outcomes = _outcomes_of_unread(config, visit)
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` is new in DeepSpeed {arrival} and unknown to {config.knowledge.deepspeed}: "
            f"{_consequence(visit, outcomes)}",
            outcomes,
            help=_instead_of_newer(config, visit, arrival),
            label=f"new in {arrival}",
            fix=_as_of_old(config, visit),
        )


def _arrival(config: Config, visit: Visit) -> str | None:
    """The release that adds an unknown key, if the target is older; a key that the target has lost is left out."""
    if config.knowledge.last_release_of(visit.path):
        return None
    return config.knowledge.next_release_of(visit.path)


def _instead_of_newer(config: Config, visit: Visit, arrival: str) -> str:
    old = config.knowledge.old_name(visit.path)
    if old is None:
        return f"Upgrade to DeepSpeed {arrival}, or delete the key."
    renamed = config.knowledge.new_name((*visit.section.path, old)) or {}
    if "value" in renamed:
        return f"Upgrade to DeepSpeed {arrival}, or use `{old}`, which accepts other values."
    return f"Rename it to `{old}`, its name before {arrival}."


def _renamed(config: Config, visit: Visit) -> tuple[Key | None, str | None]:
    """The new name of a key, and how to write it if the value changes too."""
    renamed = config.knowledge.new_name(visit.path)
    key = config.knowledge.find((*visit.section.path, renamed["to"])) if renamed else None
    if renamed is None or key is None:
        return None, None
    return key, f"DeepSpeed renamed it: write `{key.name}` with {renamed['value']}." if "value" in renamed else None


def _move(visit: Visit, home: Key) -> str:
    if _is_loss_scale_of_bf16(visit, home):
        return "Delete it: bf16 has the range of fp32 and needs no loss scale."
    section = dotted(home.path[:-1])
    return f"Move it {f'into `{section}`' if section else 'to the top level'}: DeepSpeed reads `{dotted(home.path)}`."


def _is_loss_scale_of_bf16(visit: Visit, home: Key) -> bool:
    return home.path[0] == "fp16" and visit.section.path[:1] in (("bf16",), ("bfloat16",))


_MOST_GUESSES = 100  # a file with more unknown keys is not a config with typos


def _meant(config: Config, visit: Visit) -> tuple[Key | None, bool]:
    """The most likely intended key, and whether it is this one in the wrong section."""
    guesses = config.derived.setdefault("guesses", {})
    if visit.path not in guesses:
        if len(guesses) >= _MOST_GUESSES:
            return None, False
        from ds_lint.knowledge.suggestions import meant  # difflib costs start-up

        guesses[visit.path] = meant(visit.member.key, visit.section, config.knowledge)
    guess: tuple[Key | None, bool] = guesses[visit.path]
    return guess


def _unknown(config: Config) -> Iterator[Visit]:
    for visit in config.unknown:
        if not is_comment(visit.member.key) and not config.is_last_word(visit.value):
            yield visit


def _outcomes_of_unread(config: Config, visit: Visit) -> dict[Stack, Outcome]:
    """What each stack does with a key that its section does not know."""
    return {stack: _unread_outcome(stack, visit) for stack in config.stacks}


def _unread_outcome(stack: Stack, visit: Visit) -> Outcome:
    if stack != "deepspeed" and holds_auto(visit.value):
        return rejected("initialize")  # Accelerate's prepare: "`x` not found in kwargs"
    if not visit.section.strict:
        return IGNORED
    return NO_EFFECT if visit.value.value == AUTO else rejected("parse")


def _is_slip(visit: Visit, meant: Key | None) -> bool:
    """Whether an unknown key is another one of its section, mistyped."""
    if meant is None or meant.path[:-1] != visit.section.path:
        return False
    from ds_lint.knowledge.suggestions import is_typo

    return is_typo(visit.member.key, meant.name)


def _consequence(visit: Visit, outcomes: dict[Stack, Outcome]) -> str:
    effects = {outcome.effect for outcome in outcomes.values()}
    if effects == {"ignored"}:
        return "DeepSpeed silently ignores it"
    if effects == {"no-effect"}:
        return 'DeepSpeed silently drops its "auto"'
    if effects == {"rejected"} and not holds_auto(visit.value):
        return "DeepSpeed rejects the config"
    if effects == {"rejected"} and "deepspeed" in outcomes:  # in a section that rejects unknown keys
        if len(outcomes) == 1:
            return "DeepSpeed rejects the config"
        return 'DeepSpeed rejects the config, Accelerate raises a ValueError at the unfilled "auto"'
    if effects == {"rejected"}:
        return 'Accelerate raises a ValueError at the unfilled "auto"'
    return 'DeepSpeed silently ignores it, Accelerate raises a ValueError at the unfilled "auto"'


def _help(visit: Visit, meant: Key | None) -> str:
    if meant is None:
        return "Delete the key. If it is a comment, put it at the top level and start its name with an underscore."
    if meant.path[:-1] == visit.section.path:
        return f"Rename it to `{meant.name}`."
    return f"Write `{dotted(meant.path)}` instead."


def _shown(meant: Key, visit: Visit) -> str:
    return meant.name if meant.path[:-1] == visit.section.path else dotted(meant.path)


def _into(key: Key, *, section: bool = False) -> str:
    path = key.path if section else key.path[:-1]
    return f"in `{dotted(path)}`" if path else "at the top level"


def _as_meant(config: Config, visit: Visit, meant: Key | None) -> Fix | None:
    """Rename a typo; moving a key to another section under another name, or deleting it, is unsafe."""
    if meant is None:
        return edits.deletion(config, visit.path, "unsafe")
    if meant.path[:-1] != visit.section.path:
        return edits.moving(config, visit.path, meant.path, "unsafe")
    if visit.value.value == AUTO and not config.filled_by(meant.path):
        return None
    return edits.renaming(
        config, visit.path, meant.name, "safe" if _is_beyond_doubt(config, visit, meant) else "unsafe"
    )


def _is_beyond_doubt(config: Config, visit: Visit, meant: Key) -> bool:
    """Whether a key was renamed, is another tool's name for this one, or is a typo."""
    from ds_lint.knowledge import suggestions

    name, knowledge = visit.member.key, config.knowledge
    is_known = knowledge.new_name(visit.path) is not None or suggestions.confusion(name, knowledge) is meant
    return is_known or suggestions.is_typo(name, meant.name)


def _moved(config: Config, visit: Visit, home: Key) -> Fix | None:
    """Move a key to its section, safe if that section exists; delete a loss scale in bf16."""
    if _is_loss_scale_of_bf16(visit, home):
        return edits.deletion(config, visit.path, "safe")
    is_there = len(home.path) == 1 or config.written.get(home.path[0]) is not None
    return edits.moving(config, visit.path, home.path, "safe" if is_there else "unsafe")


def _as_of_old(config: Config, visit: Visit) -> Fix | None:
    """Use the name that the target knows, if it accepts the same values."""
    old = config.knowledge.old_name(visit.path)
    if old is None:
        return edits.deletion(config, visit.path, "unsafe")
    renamed = config.knowledge.new_name((*visit.section.path, old)) or {}
    return None if "value" in renamed else edits.renaming(config, visit.path, old, "safe")


def _next_release(config: Config, release: str) -> str:
    releases = config.knowledge.releases
    return releases[releases.index(release) + 1]
