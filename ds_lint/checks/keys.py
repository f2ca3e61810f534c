"""Rules over the keys that the target knows: removed, deprecated, without effect, unread, doubly named (DS10x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Fix, Related
from ds_lint.diagnostics.problem import ADVICE, IGNORED, NO_EFFECT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.features import OLD_OFFLOAD, adds_bf16, is_old_offload_unseen, is_truthy
from ds_lint.source.spelling import AUTO, holds_auto
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Safety, Stack
    from ds_lint.semantics.config import Config, Visit
    from ds_lint.source.tree import Member, Node


@rule("DS103", "removed-key", severity="error", effects=("rejected",))
def removed_key(config: Config) -> Iterator[Problem]:
    """Keys that DeepSpeed refuses by name since it removed their feature, whatever their value."""
    for visit in config.remarkable:
        if visit.key is None or "removed" not in visit.key.facts:
            continue
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
        if visit.path == OLD_OFFLOAD and is_old_offload_unseen(config):
            continue  # old-offload-with-own-optimizer
        successor = visit.key.facts["replaced_by"]
        known = visit.section.child(successor)
        name = known.name if known else successor
        both = _successor(config, visit, successor)
        if both is not None and both.value.value != AUTO:
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


@rule("DS105", "no-effect-key", severity="info", effects=("no-effect", "ignored"))
def no_effect_key(config: Config) -> Iterator[Problem]:
    """Keys that DeepSpeed accepts and then uses for nothing."""
    for visit in config.remarkable:
        if visit.key is None or "no_effect" not in visit.key.facts or not _says_something(visit):
            continue
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` changes nothing: {visit.key.facts['no_effect']}",
            IGNORED if visit.key.facts.get("unread") else NO_EFFECT,
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


@rule("DS108", "unread-key", severity="error", effects=("ignored",))
def unread_key(config: Config) -> Iterator[Problem]:
    """Known keys that nothing reads because of what stands, or does not stand, beside them."""
    for section in ("optimizer", "scheduler"):
        if "deepspeed" not in config.stacks and (section == "optimizer" or config.stack == "trainer"):
            continue  # optimizer_without_type, scheduler_without_type
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
    elif old is not None and new is None and adds_bf16(config):
        yield Problem(
            ("bfloat16",),
            old.key_span,
            "nothing reads `bfloat16`: Accelerate adds a `bf16`, which DeepSpeed looks at instead, and switches it on "
            "only where the arguments of the run ask for bf16",
            IGNORED,
            help="Rename it to `bf16`.",
            label="not read",
            severity="warning",
            fix=edits.renaming(config, ("bfloat16",), "bf16", "unsafe"),
        )


def _written_anew(visit: Visit, name: str) -> str:
    """The successor with the value that says the same; the offload switches became sections."""
    if not name.startswith("offload_"):
        return f"Write `{name}` instead."
    if visit.value.value is True:
        return f'Write "{name}": {{"device": "cpu"}} instead.'
    return "Delete it: nothing is offloaded without it either."


def _instead_of_removed(visit: Visit, since: str) -> str:
    instead = visit.key.facts.get("instead") if visit.key else None
    if instead:
        return f"Delete the key, and {instead}; or stay below DeepSpeed {since}."
    return f"Delete the key, or stay below DeepSpeed {since} if the run needs the feature."


def _is_missing(node: Node | None) -> bool:
    return node is None or node.kind == "null"


def _removed_outcome(stack: Stack, value: Node) -> Outcome:
    return rejected("initialize" if stack != "deepspeed" and holds_auto(value) else "parse")


def _succeeded(config: Config, visit: Visit, name: str) -> Fix | None:
    """The successor instead of a deprecated key, as ``_written_anew`` says it."""
    renamed = edits.renaming(config, visit.path, name, "safe")
    if not name.startswith("offload_"):
        return renamed
    if not visit.value.value:
        return edits.deletion(config, visit.path, "safe")
    return edits.offloading_anew(config, visit.path, name)


def _is_switched_off(value: Node) -> bool:
    """Whether a feature that is gone was not in use: false, null, nothing, -1 (of a size), or not enabled."""
    enabled = value.get("enabled")
    return not is_truthy(value) or value.value == -1 or (enabled is not None and not is_truthy(enabled))


def _safe_if_alike(config: Config, one: Node, other: Node) -> Safety:
    """How safe it is to delete one of two values: unless they are the same, it takes a decision."""
    text = config.document.text
    return "safe" if text[one.span.start : one.span.end] == text[other.span.start : other.span.end] else "unsafe"


def _successor(config: Config, visit: Visit, successor: str) -> Member | None:
    section = config.section(*visit.section.path)
    key = visit.section.child(successor)
    if section is None or key is None:
        return None
    return section.member(key.name) or section.member(key.facts.get("alias", key.name))


def _says_something(visit: Visit) -> bool:
    """A key that holds its own default says nothing that a reader could take for a setting."""
    return visit.value.value != AUTO and visit.value.value != visit.key.facts.get("default", AUTO)  # type: ignore[union-attr]
