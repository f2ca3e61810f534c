"""The rule about the policies of an organisation, which are its own JSON Schemas (DS2xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import ADVICE, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.source.spelling import as_json
from ds_lint.source.tree import dotted, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.policy import Violation
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Node, Span

_CLOSED = ("additionalProperties", "unevaluatedProperties")
# What a keyword of a schema requires, in words.
_WANTED = {
    "const": "{}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "pattern": "text that matches {}",
    "minLength": "text of at least {} characters",
    "maxLength": "text of at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
}
_LONGEST = 60  # of a value that a message repeats


@rule("DS207", "policy-violation", severity="warning", effects=("advice",))
def policy_violation(config: Config) -> Iterator[Problem]:
    """The config violates a policy from the settings."""
    if not config.policies or any(issue.kind == "deep-nesting" for issue in config.document.issues):
        return
    content = plain(config.root)
    for policy in config.policies:
        seen: set[tuple[KeyPath, str]] = set()
        for pattern in policy.given_up(content):
            yield Problem(
                None,
                config.opening,
                f"{policy.name} is not checked in full: its pattern {_short(pattern)} takes too long on this config",
                ADVICE,
                help="Write the pattern without a repetition inside a repetition.",
                label="not checked in full",
                severity="warning",
            )
        for violation in policy.violations(content):
            for problem in _problems(config, policy.name, violation):
                identity = problem.key or (), problem.message  # each violation names all missing keys
                if identity not in seen:
                    seen.add(identity)
                    yield problem


def _problems(config: Config, policy: str, violation: Violation) -> Iterator[Problem]:
    """The problems of one violation: one for each key that is missing or not allowed."""
    path = violation.path
    node = config.root.at(path)
    if node is None or node.kind in ("template", "missing"):
        return  # the value that replaces it is not known
    way_out = _way_out(violation, policy)
    if violation.keyword == "required":
        for name in violation.wanted:
            if name not in violation.instance:
                message = f"`{dotted((*path, name))}` is not set, but {policy} requires it"
                yield Problem((*path, name), _place(config, path), message, ADVICE, help=way_out, label="missing key")
    elif violation.keyword in _CLOSED and (extra := _extra_keys(violation)):
        for name in extra:
            message = f"{policy} does not allow `{dotted((*path, name))}`"
            span = _place(config, (*path, name))
            yield Problem((*path, name), span, message, ADVICE, help=way_out, label="not allowed")
    elif not violation.keyword:
        message = f"{policy} does not allow {_subject(path)}"
        yield Problem(path or None, _place(config, path), message, ADVICE, help=way_out, label="not allowed")
    else:
        span = _place(config, path) if node.kind in ("object", "array") else node.span
        message = _mismatch(node, policy, violation)
        yield Problem(path or None, span, message, ADVICE, help=way_out, label="policy violation")


def _extra_keys(violation: Violation) -> list[str]:
    """The keys that a closed object of the schema does not list, if it lists its keys."""
    if violation.wanted is not False:
        return []
    from re import search

    known = violation.schema.get("properties", {})
    patterns = violation.schema.get("patternProperties", {})
    return [
        name
        for name in violation.instance
        if name not in known and not any(search(pattern, name) for pattern in patterns)
    ]


def _mismatch(node: Node, policy: str, violation: Violation) -> str:
    value = "an object" if node.kind == "object" else "an array" if node.kind == "array" else _short(node.value)
    wanted = _wanted(violation.keyword, violation.wanted)
    return f"{_subject(violation.path)} is {value}, but {policy} requires {wanted}"


def _wanted(keyword: str, value: object) -> str:
    if keyword == "enum" and isinstance(value, list):
        return f"one of {', '.join(as_json(choice) for choice in value)}"
    if keyword == "type":
        return " or ".join(value) if isinstance(value, list) else str(value)
    if keyword in ("anyOf", "oneOf") and isinstance(value, list):
        return f"one of {len(value)} other forms"
    return _WANTED[keyword].format(_short(value)) if keyword in _WANTED else f'another value (keyword "{keyword}")'


def _short(value: object) -> str:
    text = as_json(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _way_out(violation: Violation, policy: str) -> str:
    """The description in the schema of the organisation, if there is one."""
    words = violation.schema.get("description")
    return words if isinstance(words, str) and words else f"Change it to what {policy} requires."


def _subject(path: KeyPath) -> str:
    return f"`{dotted(path)}`" if path else "the config"


def _place(config: Config, path: KeyPath) -> Span:
    """The key of a member, otherwise the value itself; the opening of the config for its root."""
    if not path:
        return config.opening
    section = config.root.at(path[:-1])
    member = section.member(path[-1]) if section is not None and section.kind == "object" else None
    node = config.root.at(path)
    return member.key_span if member is not None else node.span if node is not None else config.opening
