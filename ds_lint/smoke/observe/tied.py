"""Names of parameters that are one tensor, such as an embedding and the head that shares it."""

from __future__ import annotations

from typing import Any


def tied(model: Any) -> list[list[str]]:
    """The names of each parameter that has several, in order."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return sorted(sorted(group) for group in names.values() if len(group) > 1)
