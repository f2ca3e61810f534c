"""Rules about keys that the target knows: removed, deprecated, without effect, unread, under two names (DS10x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Fix, Related
from ds_lint.diagnostics.problem import ADVICE, IGNORED, NO_EFFECT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.features import OLD_OFFLOAD, adds_bf16, is_old_offload_unseen, is_truthy, pydantic_reads_true
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
    """DeepSpeed has removed the feature and rejects the key, whatever its value."""
    for visit in config.remarkable:
        if visit.key is None or "removed" not in visit.key.facts:
            continue
        since = visit.key.facts.get("since", config.knowledge.deepspeed)
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` is removed in DeepSpeed {since}, which rejects the config, even if the key is off",
            {stack: _removed_outcome(stack, visit.value) for stack in config.stacks},
            help=_instead_of_removed(visit, since),
            label="removed",
            fix=edits.deletion(config, visit.path, "safe" if _is_switched_off(visit.value) else "unsafe"),
        )


@rule("DS104", "deprecated-key", severity="info", effects=("advice", "rejected"))
def deprecated_key(config: Config) -> Iterator[Problem]:
    """The key still works, but DeepSpeed has a new name for it."""
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
                f"`{visit.member.key}` and its successor `{both.key}` are both set: DeepSpeed rejects the config",
                rejected("parse"),
                help=f"Delete `{visit.member.key}` and keep `{both.key}`.",
                label="deprecated",
                severity="error",
                related=[Related(both.key_span, "its successor")],
                fix=edits.deletion(config, visit.path, _safe_if_alike(config, visit.value, both.value)),
            )
        else:
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"`{visit.member.key}` is deprecated: DeepSpeed warns and converts it to `{name}`",
                ADVICE,
                help=_instead_of_deprecated(visit, name),
                label=f"now `{name}`",
                fix=_succeeded(config, visit, name),
            )


@rule("DS105", "no-effect-key", severity="info", effects=("no-effect", "ignored"))
def no_effect_key(config: Config) -> Iterator[Problem]:
    """DeepSpeed accepts the key and never uses it."""
    for visit in config.remarkable:
        if visit.key is None or "no_effect" not in visit.key.facts or not _says_something(visit):
            continue
        yield Problem(
            visit.path,
            visit.member.key_span,
            f"`{dotted(visit.path)}` has no effect: {visit.key.facts['no_effect']}",
            IGNORED if visit.key.facts.get("unread") else NO_EFFECT,
            help=_instead_of_no_effect(visit),
            label="no effect",
            fix=edits.deletion(config, visit.path, "unsafe" if visit.key.facts.get("deprecated") else "safe"),
        )


@rule("DS106", "key-under-two-names", severity="error", effects=("rejected",))
def key_under_two_names(config: Config) -> Iterator[Problem]:
    """A setting is in the config under both its name and its alias."""
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
                f"`{visit.member.key}` and `{first.member.key}` are two names of one setting: DeepSpeed rejects the "
                "config",
                rejected("parse"),
                help=f"Keep `{visit.key.name}`, the documented name, and delete the other one.",
                label="second name",
                related=[Related(first.member.key_span, "first name")],
                fix=edits.deletion(config, alias.path, _safe_if_alike(config, first.value, visit.value)),
            )


@rule("DS108", "unread-key", severity="error", effects=("ignored",))
def unread_key(config: Config) -> Iterator[Problem]:
    """DeepSpeed does not read a known key because another key is set or missing."""
    for section in ("optimizer", "scheduler"):
        if "deepspeed" not in config.stacks and (section == "optimizer" or config.stack == "trainer"):
            continue  # optimizer_without_type, scheduler_without_type
        node = config.section(section)
        params = node.member("params") if node else None
        if node is not None and params is not None and _is_missing(node.get("type")):
            yield Problem(
                (section, "params"),
                params.key_span,
                f"`{section}.type` is not set: DeepSpeed builds no {section} and ignores `{section}.params`",
                IGNORED,
                help=f"Set `{section}.type`.",
                label="not read",
            )
    old = config.member("bfloat16")
    new = config.member("bf16")
    if old is not None and new is not None and new.value.kind != "null":
        yield Problem(
            ("bfloat16",),
            old.key_span,
            "DeepSpeed ignores `bfloat16`: it reads this old name only if `bf16` is not set",
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
            "DeepSpeed ignores `bfloat16`: it reads the `bf16` section that Accelerate adds",
            IGNORED,
            help="Rename it to `bf16`. The section of Accelerate is enabled only if the arguments of the run enable "
            "bf16.",
            label="not read",
            severity="warning",
            fix=edits.renaming(config, ("bfloat16",), "bf16", "unsafe"),
        )


def _instead_of_deprecated(visit: Visit, name: str) -> str:
    """The successor with an equal value; the offload switches became sections."""
    if not name.startswith("offload_"):
        return f"Rename it to `{name}`."
    if pydantic_reads_true(visit.value):
        return f'Write "{name}": {{"device": "cpu"}} instead.'
    return "Delete it: offloading is off by default."


def _instead_of_removed(visit: Visit, since: str) -> str:
    instead = visit.key.facts.get("instead") if visit.key else None
    if instead:
        return f"Delete the key and {instead}, or pin DeepSpeed below {since}."
    return f"Delete the key, or pin DeepSpeed below {since} if the run needs the feature."


def _instead_of_no_effect(visit: Visit) -> str:
    instead = visit.key.facts.get("instead") if visit.key else None
    return f"Delete the key. The run stays the same.{f' For its effect, {instead}.' if instead else ''}"


def _is_missing(node: Node | None) -> bool:
    return node is None or node.kind == "null"


def _removed_outcome(stack: Stack, value: Node) -> Outcome:
    return rejected("initialize" if stack != "deepspeed" and holds_auto(value) else "parse")


def _succeeded(config: Config, visit: Visit, name: str) -> Fix | None:
    """The successor instead of a deprecated key, as ``_instead_of_deprecated`` says it."""
    renamed = edits.renaming(config, visit.path, name, "safe")
    if not name.startswith("offload_"):
        return renamed
    if not pydantic_reads_true(visit.value):
        return edits.deletion(config, visit.path, "safe")
    return edits.offloading_renamed(config, visit.path, name)


def _is_switched_off(value: Node) -> bool:
    """Whether a removed feature was off: false, null, empty, -1 (a size), or not enabled."""
    enabled = value.get("enabled")
    return not is_truthy(value) or value.value == -1 or (enabled is not None and not is_truthy(enabled))


def _safe_if_alike(config: Config, one: Node, other: Node) -> Safety:
    """How safe it is to delete one of two values: safe only if they are equal."""
    text = config.document.text
    return "safe" if text[one.span.start : one.span.end] == text[other.span.start : other.span.end] else "unsafe"


def _successor(config: Config, visit: Visit, successor: str) -> Member | None:
    section = config.section(*visit.section.path)
    key = visit.section.child(successor)
    if section is None or key is None:
        return None
    return section.member(key.name) or section.member(key.facts.get("alias", key.name))


def _says_something(visit: Visit) -> bool:
    """Whether a key has another value than its default; at its default it does not mislead."""
    return visit.value.value != AUTO and visit.value.value != visit.key.facts.get("default", AUTO)  # type: ignore[union-attr]
