"""Rules about keys: unknown, misplaced, removed, deprecated, without effect (DS1xx)."""

from __future__ import annotations

from ds_lint.checks.problem import ADVICE, IGNORED, NO_EFFECT, Outcome, Problem, rejected
from ds_lint.config import AUTO
from ds_lint.finding import Related
from ds_lint.rule import rule
from ds_lint.spelling import holds_auto, is_comment
from ds_lint.switches import is_truthy
from ds_lint.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.config import Config, Visit
    from ds_lint.finding import Fix
    from ds_lint.knowledge import Key
    from ds_lint.tree import Member, Node


@rule("DS101", "unknown-key", severity="error", effects=("ignored", "rejected", "no-effect"))
def unknown_key(config: Config) -> Iterator[Problem]:
    """Keys that no section of this name reads, with the key that was meant where one is close."""
    for visit in _unknown(config):
        if _arrival(config, visit):
            continue  # newer-key
        renamed, rewritten = _renamed(config, visit)
        meant, is_misplaced = (renamed, False) if renamed else _meant(config, visit)
        if is_misplaced:
            continue  # misplaced-key
        outcomes = _outcomes_of_unread(config, visit)
        last_release = config.knowledge.last_release_of(visit.path)
        what = f"DeepSpeed does not know `{dotted(visit.path)}`"
        if last_release:
            what = f"DeepSpeed has not read `{dotted(visit.path)}` since {_next_release(config, last_release)}"
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"{what}: {_consequence(visit, outcomes)}",
            outcomes,
            help=rewritten or _help(visit, meant),
            label=f"{'now' if renamed else 'did you mean'} `{_shown(meant, visit)}`{'' if renamed else '?'}"
            if meant
            else "unknown key",
            severity=None if meant or last_release or visit.section.strict else "warning",
            fix=None if rewritten else _as_meant(config, visit, meant),
        )


@rule("DS102", "misplaced-key", severity="error", effects=("ignored", "rejected", "no-effect"))
def misplaced_key(config: Config) -> Iterator[Problem]:
    """Keys that another section reads, and this one does not."""
    for visit in _unknown(config):
        name = visit.member.key
        home, is_misplaced = (None, False) if _arrival(config, visit) else _meant(config, visit)
        if home is None or not is_misplaced:
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


@rule("DS103", "removed-key", severity="error", effects=("rejected",))
def removed_key(config: Config) -> Iterator[Problem]:
    """Keys that DeepSpeed refuses by name since it removed their feature, whatever their value."""
    for visit in config.remarkable:
        if visit.key is None or "removed" not in visit.key.facts:
            continue
        from ds_lint import edits  # only findings have fixes

        since = visit.key.facts.get("since", config.knowledge.deepspeed)
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` was removed in DeepSpeed {since}, which refuses a config that still has the key, "
            "even switched off",
            {stack: _removed_outcome(stack, visit.value) for stack in config.stacks},
            help=_instead_of_removed(visit, since),
            label="removed",
            fix=edits.deletion(config, visit.path, "safe" if _is_switched_off(visit.value) else "unsafe"),
        )


@rule("DS104", "deprecated-key", severity="info", effects=("advice", "rejected"))
def deprecated_key(config: Config) -> Iterator[Problem]:
    """Keys that still work and have a successor."""
    for visit in config.remarkable:
        if visit.key is None or not visit.key.facts.get("deprecated") or visit.value.value == AUTO:
            continue
        if "no_effect" in visit.key.facts:
            continue  # no-effect-key
        successor = visit.key.facts["replaced_by"]
        known = visit.section.child(successor)
        name = known.name if known else successor
        both = _successor(config, visit, successor)
        if both is not None and both.value.value != AUTO:
            from ds_lint import edits

            yield Problem(
                visit.path,
                visit.member.key_span,
                f"`{visit.member.key}` and its successor `{both.key}` are both set: DeepSpeed refuses the two together",
                rejected("parse"),
                help=f"Delete `{visit.member.key}`; `{both.key}` says the same.",
                label="deprecated spelling",
                severity="error",
                related=[Related(both.key_span, "its successor")],
                fix=edits.deletion(config, visit.path, _safe_if_alike(config, visit.value, both.value)),
            )
        else:
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"`{visit.member.key}` is deprecated: DeepSpeed warns and takes it over into `{name}`",
                ADVICE,
                help=_written_anew(visit, name),
                label=f"now `{name}`",
                fix=_succeeded(config, visit, name),
            )


@rule("DS105", "no-effect-key", severity="info", effects=("no-effect",))
def no_effect_key(config: Config) -> Iterator[Problem]:
    """Keys that DeepSpeed accepts and then uses for nothing."""
    for visit in config.remarkable:
        if visit.key is None or "no_effect" not in visit.key.facts or not _says_something(visit):
            continue
        from ds_lint import edits

        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` changes nothing: {visit.key.facts['no_effect']}",
            NO_EFFECT,
            help="Delete the key; the run stays the same.",
            label="without effect",
            fix=edits.deletion(config, visit.path, "unsafe" if visit.key.facts.get("deprecated") else "safe"),
        )


@rule("DS106", "key-under-two-names", severity="error", effects=("rejected",))
def key_under_two_names(config: Config) -> Iterator[Problem]:
    """One setting written under its name and under its alias."""
    seen: dict[tuple[str, ...], Visit] = {}
    for visit in config.remarkable:
        if visit.key is None or "alias" not in visit.key.facts or visit.value.value == AUTO:
            continue
        place = (*visit.section.path, visit.key.name)
        first = seen.setdefault(place, visit)
        if first is not visit:
            from ds_lint import edits

            alias = first if visit.member.key == visit.key.name else visit
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"`{visit.member.key}` and `{first.member.key}` are two names of one setting: "
                "DeepSpeed refuses the two together",
                rejected("parse"),
                help=f"Keep `{visit.key.name}`, the documented name, and delete the other.",
                label="second name",
                related=[Related(first.member.key_span, "first name")],
                fix=edits.deletion(config, alias.path, _safe_if_alike(config, first.value, visit.value)),
            )


@rule("DS107", "comment-in-strict-section", severity="error", effects=("rejected", "no-effect"))
def comment_in_strict_section(config: Config) -> Iterator[Problem]:
    """Comment keys in a section that refuses every key it does not know."""
    for visit in config.unknown:
        if visit.section.strict and is_comment(visit.member.key):
            from ds_lint import edits

            outcomes = _outcomes_of_unread(config, visit)
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"`{dotted(visit.section.path)}` takes no comment keys: {_consequence(visit, outcomes)}",
                outcomes,
                help="Move the comment to the top level of the config, where DeepSpeed does not look at it.",
                label="refused here",
                fix=edits.moving(config, visit.path, (visit.member.key,), "safe"),
            )


@rule("DS108", "unread-key", severity="error", effects=("ignored",))
def unread_key(config: Config) -> Iterator[Problem]:
    """Known keys that nothing reads because of what stands, or does not stand, beside them."""
    for section in ("optimizer", "scheduler"):
        node = config.section(section)
        params = node.member("params") if node else None
        if node is not None and params is not None and _is_missing(node.get("type")):
            yield Problem(
                (section, "params"),
                params.key_span,
                f"nothing reads `{section}.params`: without `{section}.type` DeepSpeed builds no {section}",
                IGNORED,
                help=f"Name the {section} in `{section}.type`.",
                label="not read",
            )
    old = config.member("bfloat16")
    new = config.member("bf16")
    if old is not None and new is not None and new.value.kind != "null":
        from ds_lint import edits

        yield Problem(
            ("bfloat16",),
            old.key_span,
            "nothing reads `bfloat16`: DeepSpeed looks at the old name only where there is no `bf16`",
            IGNORED,
            help="Delete `bfloat16`.",
            label="not read",
            severity="warning",
            related=[Related(new.key_span, "read instead")],
            fix=edits.deletion(config, ("bfloat16",), _safe_if_alike(config, old.value, new.value)),
        )


@rule("DS109", "newer-key", severity="error", effects=("ignored", "rejected", "no-effect"))
def newer_key(config: Config) -> Iterator[Problem]:
    """Keys that only newer releases of DeepSpeed than the target read."""
    for visit in _unknown(config):
        arrival = _arrival(config, visit)
        if arrival is None:
            continue
        outcomes = _outcomes_of_unread(config, visit)
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` came with DeepSpeed {arrival}, and {config.knowledge.deepspeed} does not know it: "
            f"{_consequence(visit, outcomes)}",
            outcomes,
            help=_instead_of_newer(config, visit, arrival),
            label=f"since {arrival}",
            fix=_as_of_old(config, visit),
        )


def _arrival(config: Config, visit: Visit) -> str | None:
    """The release with which an unknown key came, if the target is older; a key that it lost is another matter."""
    if config.knowledge.last_release_of(visit.path):
        return None
    return config.knowledge.next_release_of(visit.path)


def _instead_of_newer(config: Config, visit: Visit, arrival: str) -> str:
    old = config.knowledge.old_name(visit.path)
    if old is None:
        return f"Upgrade to DeepSpeed {arrival}, or delete the key."
    renamed = config.knowledge.new_name((*visit.section.path, old)) or {}
    if "value" in renamed:
        return f"Upgrade to DeepSpeed {arrival}, or say it with `{old}`, which takes other values."
    return f"Write `{old}`, its name before {arrival}."


def _renamed(config: Config, visit: Visit) -> tuple[Key | None, str | None]:
    """What a key is called now, and how to write it if that is more than the new name."""
    renamed = config.knowledge.new_name(visit.path)
    key = config.knowledge.find((*visit.section.path, renamed["to"])) if renamed else None
    if renamed is None or key is None:
        return None, None
    return key, f"DeepSpeed renamed it: write `{key.name}` with {renamed['value']}." if "value" in renamed else None


def _written_anew(visit: Visit, name: str) -> str:
    """The successor with the value that says the same; the offload switches became sections."""
    if not name.startswith("offload_"):
        return f"Write `{name}` instead."
    if visit.value.value is True:
        return f'Write "{name}": {{"device": "cpu"}} instead.'
    return "Delete it: nothing is offloaded without it either."


def _move(visit: Visit, home: Key) -> str:
    if _is_loss_scale_of_bf16(visit, home):
        return "Delete it: bf16 has the range of fp32 and needs no loss scale."
    section = dotted(home.path[:-1])
    return f"Move it {f'into `{section}`' if section else 'to the top level'}: DeepSpeed reads `{dotted(home.path)}`."


def _is_loss_scale_of_bf16(visit: Visit, home: Key) -> bool:
    return home.path[0] == "fp16" and visit.section.path[:1] in (("bf16",), ("bfloat16",))


def _instead_of_removed(visit: Visit, since: str) -> str:
    instead = visit.key.facts.get("instead") if visit.key else None
    if instead:
        return f"Delete the key, and {instead}; or stay below DeepSpeed {since}."
    return f"Delete the key, or stay below DeepSpeed {since} if the run needs the feature."


def _is_missing(node: Node | None) -> bool:
    return node is None or node.kind == "null"


_MOST_GUESSES = 100  # a file with more unknown keys is no config with typing errors


def _meant(config: Config, visit: Visit) -> tuple[Key | None, bool]:
    """The key that was most likely meant, and whether it is this one in the wrong section."""
    guesses = config.derived.setdefault("guesses", {})
    if visit.path not in guesses:
        if len(guesses) >= _MOST_GUESSES:
            return None, False
        from ds_lint.suggest import meant  # difflib costs start-up

        guesses[visit.path] = meant(visit.member.key, visit.section, config.knowledge)
    guess: tuple[Key | None, bool] = guesses[visit.path]
    return guess


def _unknown(config: Config) -> Iterator[Visit]:
    for visit in config.unknown:
        if not is_comment(visit.member.key):
            yield visit


def _outcomes_of_unread(config: Config, visit: Visit) -> dict[str, Outcome]:
    """What each stack does with a key that its section does not know."""
    return {stack: _unread_outcome(stack, visit) for stack in config.stacks}


def _unread_outcome(stack: str, visit: Visit) -> Outcome:
    if stack != "deepspeed" and holds_auto(visit.value):
        return rejected("initialize")  # Accelerate's prepare: "`x` not found in kwargs"
    if not visit.section.strict:
        return IGNORED
    return NO_EFFECT if visit.value.value == AUTO else rejected("parse")


def _removed_outcome(stack: str, value: Node) -> Outcome:
    return rejected("initialize" if stack != "deepspeed" and holds_auto(value) else "parse")


def _consequence(visit: Visit, outcomes: dict[str, Outcome]) -> str:
    effects = {outcome.effect for outcome in outcomes.values()}
    if effects == {"ignored"}:
        return "the key is ignored without a word"
    if effects == {"no-effect"}:
        return 'DeepSpeed drops the key without a word, because its value is "auto"'
    if effects == {"rejected"} and not holds_auto(visit.value):
        return f"`{dotted(visit.section.path)}` refuses keys it does not know, and the run stops"
    if effects == {"rejected"}:
        return 'Accelerate stops at an "auto" that nobody fills'
    return 'DeepSpeed alone drops it without a word, Accelerate stops at an "auto" that nobody fills'


def _help(visit: Visit, meant: Key | None) -> str:
    if meant is None:
        return "Delete the key, or start its name with an underscore if it is meant as a comment at the top level."
    if meant.path[:-1] == visit.section.path:
        return f"Write `{meant.name}`."
    return f"DeepSpeed reads `{dotted(meant.path)}`."


def _shown(meant: Key, visit: Visit) -> str:
    return meant.name if meant.path[:-1] == visit.section.path else dotted(meant.path)


def _into(key: Key, *, section: bool = False) -> str:
    path = key.path if section else key.path[:-1]
    return f"in `{dotted(path)}`" if path else "at the top level"


def _as_meant(config: Config, visit: Visit, meant: Key | None) -> Fix | None:
    """A typo is mended; a key that belongs elsewhere under another name, or nowhere, is more than that."""
    from ds_lint import edits

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
    """Whether a key was renamed, is another tool's name for this one, or mistyped."""
    from ds_lint import suggest

    name, knowledge = visit.member.key, config.knowledge
    is_known = knowledge.new_name(visit.path) is not None or suggest.confusion(name, knowledge) is meant
    return is_known or suggest.is_typo(name, meant.name)


def _moved(config: Config, visit: Visit, home: Key) -> Fix | None:
    """To its section, safe where that is there or the one around it; a loss scale in bf16 has no place."""
    from ds_lint import edits

    if _is_loss_scale_of_bf16(visit, home):
        return edits.deletion(config, visit.path, "safe")
    is_there = len(home.path) == 1 or config.written.get(home.path[0]) is not None
    return edits.moving(config, visit.path, home.path, "safe" if is_there else "unsafe")


def _succeeded(config: Config, visit: Visit, name: str) -> Fix | None:
    """The successor instead of a deprecated key, as ``_written_anew`` says it."""
    from ds_lint import edits
    from ds_lint.finding import Fix

    renamed = edits.renaming(config, visit.path, name, "safe")
    if not name.startswith("offload_"):
        return renamed
    if not visit.value.value:
        return edits.deletion(config, visit.path, "safe")
    section = edits.replacement(config, visit.path, '{"device": "cpu"}', "safe")
    if visit.value.value is not True or renamed is None or section is None:
        return None
    return Fix(f"Write `{name}` instead", "safe", [*renamed.edits, *section.edits])


def _as_of_old(config: Config, visit: Visit) -> Fix | None:
    """The name that the target knows, where it takes the same values."""
    from ds_lint import edits

    old = config.knowledge.old_name(visit.path)
    if old is None:
        return edits.deletion(config, visit.path, "unsafe")
    renamed = config.knowledge.new_name((*visit.section.path, old)) or {}
    return None if "value" in renamed else edits.renaming(config, visit.path, old, "safe")


def _is_switched_off(value: Node) -> bool:
    """Whether a feature that is gone was not in use: false, null, nothing, -1 (of a size), or not enabled."""
    enabled = value.get("enabled")
    return not is_truthy(value) or value.value == -1 or (enabled is not None and not is_truthy(enabled))


def _safe_if_alike(config: Config, one: Node, other: Node) -> str:
    """How safe it is to delete one of two values: unless they are the same, it takes a decision."""
    text = config.document.text
    return "safe" if text[one.span.start : one.span.end] == text[other.span.start : other.span.end] else "unsafe"


def _next_release(config: Config, release: str) -> str:
    releases = config.knowledge.releases
    return releases[releases.index(release) + 1]


def _successor(config: Config, visit: Visit, successor: str) -> Member | None:
    section = config.section(*visit.section.path)
    key = visit.section.child(successor)
    if section is None or key is None:
        return None
    return section.member(key.name) or section.member(key.facts.get("alias", key.name))


def _says_something(visit: Visit) -> bool:
    """A key that holds its own default says nothing that a reader could take for a setting."""
    return visit.value.value != AUTO and visit.value.value != visit.key.facts.get("default", AUTO)  # type: ignore[union-attr]
