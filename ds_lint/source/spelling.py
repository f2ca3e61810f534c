"""How a config is written: comment keys, "auto" for "fill this in", and values as JSON has them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Node

AUTO = "auto"


def is_comment(name: str) -> bool:
    """Whether people mean a key of this name as a comment."""
    return name.startswith(("_", "//", "#", "$")) or name.lower() in ("comment", "comments")


def holds_auto(node: Node) -> bool:
    """Whether Accelerate would meet an ``"auto"`` in this value: it descends into objects, not into arrays."""
    pending = [node]
    while pending:  # a value of any depth
        current = pending.pop()
        if current.value == AUTO:
            return True
        pending.extend(member.value for member in current.members)
    return False


def as_json(value: object) -> str:
    """A value as a config writes it."""
    from json import dumps  # messages only

    return dumps(value, default=str)  # of YAML also a date


def spelled(value: object, document: Document) -> str:
    """A value as the config in a document is written, in JSON, in Python, or, if it is a scalar, in YAML."""
    if document.kind == "accelerate":
        return as_yaml(value)
    return _as_python(value) if document.is_python else as_json(value)


def _as_python(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_json(key)}: {_as_python(element)}" for key, element in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(_as_python(element) for element in value)}]"
    return as_json(value) if isinstance(value, str) else repr(value)


def as_yaml(value: object) -> str:
    """A scalar as a YAML has it, a text in quotes if it would be read as something else without them."""
    if not isinstance(value, str):
        return as_json(value)
    import yaml

    try:
        is_plain = yaml.safe_load(f"key: {value}") == {"key": value} and "#" not in value
    except (yaml.YAMLError, ValueError):
        is_plain = False
    return value if is_plain else "'" + value.replace("'", "''") + "'"
