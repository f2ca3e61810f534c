"""Rules about changes between releases: defaults, and keys that come into effect (DS12x).

They compare the target with an older release: the one before the upgrade, or the oldest that a range allows.
"""

from __future__ import annotations

from ds_lint.diagnostics.problem import ADVICE, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import optimizer_constructor, scheduler_constructor
from ds_lint.semantics.features import is_on, zero_stage
from ds_lint.source.spelling import AUTO, as_json
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Fix
    from ds_lint.knowledge.keys import Key, Knowledge
    from ds_lint.semantics.config import Config, Visit
    from ds_lint.semantics.constructors import Constructor
    from ds_lint.source.tree import KeyPath, Scalar, Span


@rule("DS121", "changed-default", severity="info", effects=("advice",), kind="comparison")
def changed_default(config: Config) -> Iterator[Problem]:
    """The config does not set a key whose default has changed."""
    if config.before is None:
        return
    for key in _left_out(config, config.knowledge.root):
        older = config.before.find(key.path)
        if older is None or not _differs(older.facts.get("default", AUTO), key.facts.get("default", AUTO)):
            continue
        since = config.knowledge.since_default(key.path)
        consequence = key.facts.get("on_new_default")
        if not consequence and not config.is_upgrade:
            continue  # in a range, only defaults that change the training are reported
        overwritten = config.knowledge.trainer["overwrites"].get(dotted(key.path), {"by": ()})
        yield Problem(
            key.path,
            _place(config, key.path[:-1]),
            f"the default of `{dotted(key.path)}` changed from {as_json(older.facts['default'])} to "
            f"{as_json(key.facts['default'])}{f' in DeepSpeed {since}' if since else ''}"
            + (f": {consequence}" if consequence else ""),
            {stack: ADVICE for stack in config.stacks if stack not in overwritten["by"]},
            help=f'The config does not set it. Set "{key.name}": {as_json(older.facts["default"])} to keep the '
            "behaviour of DeepSpeed "
            f"{config.before.deepspeed}, or {as_json(key.facts['default'])} to confirm the new default.",
            label="new default",
            severity="warning" if consequence and config.is_upgrade else None,
            fix=_as_before(config, key.path, older.facts["default"]),
        )
    yield from _changed_parameters(config, config.before)


@rule("DS122", "newly-read-key", severity="warning", effects=("advice",), kind="comparison")
def newly_read_key(config: Config) -> Iterator[Problem]:
    """The older release silently ignores the key, the newer one reads it."""
    if config.before is None or not config.is_upgrade:
        return
    for visit in config.visits:
        if visit.key is None or "removed" in visit.key.facts or config.before.find(visit.path) is not None:
            continue
        section = config.before.find(visit.section.path)
        if section is None or section.strict or not _may_take_effect(config, visit):
            continue  # the section is reported, or the config did not start, or nothing follows from the key
        arrival = config.before.next_release_of(visit.path)
        if arrival:
            yield Problem(
                visit.path,
                visit.member.key_span,
                f"DeepSpeed {config.before.deepspeed} silently ignores `{dotted(visit.path)}`, "
                f"but {arrival} and newer read it: it may take effect",
                ADVICE,
                help="Check that you want this value, or delete the key.",
                label=f"read since {arrival}",
            )


def _may_take_effect(config: Config, visit: Visit) -> bool:
    """Whether a newly read key differs from its default, or is a section that is enabled."""
    if visit.key is None or "no_effect" in visit.key.facts:
        return False
    if visit.key.is_section:
        return visit.value.kind != "object" or _is_in_use(config, visit.key)
    default: object = visit.key.facts.get("default", AUTO)
    return visit.value.value != default


def _left_out(config: Config, section: Key) -> Iterator[Key]:
    """The keys that the config does not set in its sections that are in use."""
    for name in section.names():
        key = section.child(name)
        if key is None or "removed" in key.facts or "deprecated" in key.facts or "no_effect" in key.facts:
            continue
        node = config.node(*key.path)
        if node is None and "alias" in key.facts:
            node = config.root.at((*section.path, key.facts["alias"]))
        if node is None:
            yield key
        elif key.is_section and node.kind == "object" and _is_in_use(config, key):
            yield from _left_out(config, key)


def _is_in_use(config: Config, section: Key) -> bool:
    """Whether a section has an effect: it is enabled, or names a device."""
    if section.child("enabled") is not None:
        return is_on(config, *section.path, "enabled") or config.value(*section.path, "enabled") == AUTO
    if section.child("device") is not None:
        return config.value(*section.path, "device") in ("cpu", "nvme")
    return section.path != ("zero_optimization",) or zero_stage(config) != 0


def _changed_parameters(config: Config, before: Knowledge) -> Iterator[Problem]:
    """The config does not set a parameter of the optimizer or scheduler whose default has changed."""
    for section, constructor in (
        ("optimizer", optimizer_constructor(config)),
        ("scheduler", scheduler_constructor(config)),
    ):
        kind = config.value(section, "type")
        if constructor is None or constructor.is_torch or not isinstance(kind, str):
            continue
        kind = kind.lower() if section == "optimizer" else kind
        older = _defaults(before, section, kind, constructor)
        newer = _defaults(config.knowledge, section, kind, constructor)
        for name, default in newer.items():
            if name in older and _differs(older[name], default) and config.node(section, "params", name) is None:
                consequence = (constructor.facts(name) or {}).get("on_new_default")
                since = config.knowledge.since_default_of_parameter(f"{section}.params", kind, constructor.name, name)
                yield Problem(
                    (section, "params", name),
                    _place(config, (section,)),
                    f"the default of `{name}` of {constructor.name} changed "
                    f"from {as_json(older[name])} to {as_json(default)} in DeepSpeed {since}"
                    + (f": {consequence}" if consequence else ""),
                    ADVICE,
                    help=f'The config does not set it. Set "{name}": {as_json(older[name])} to keep the behaviour of '
                    f"DeepSpeed {before.deepspeed}.",
                    label="new default",
                    severity="warning" if config.is_upgrade else None,
                    fix=_as_before(config, (section, "params", name), older[name]),
                )


def _defaults(knowledge: Knowledge, section: str, kind: str, constructor: Constructor) -> dict[str, Scalar]:
    for one in knowledge.constructors(f"{section}.params", kind):
        if one["callee"].endswith(f".{constructor.name}"):
            return one.get("parameters") or {}
    return {}


def _as_before(config: Config, path: KeyPath, default: Scalar) -> Fix | None:
    """Write the older default, except null, which DeepSpeed may not accept."""
    return None if default is None else edits.written(config, path, default, "unsafe")


def _differs(older: object, newer: object) -> bool:
    """Whether two defaults behave differently; false and null do not, and sections are not compared."""
    if isinstance(older, (dict, list)) or isinstance(newer, (dict, list)) or AUTO in (older, newer):
        return False
    return older != newer and bool(older or newer)


def _place(config: Config, path: tuple[str, ...]) -> Span:
    """The place to report a missing key at: the key of its section, or the opening of the config."""
    member = config.member(*path) if path else None
    return member.key_span if member is not None else config.opening
