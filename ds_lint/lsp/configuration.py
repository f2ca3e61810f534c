"""What the client's settings say, which count like options of the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ds_lint.session.options import options_of_terms, terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.session.options import Options

SECTION = "ds-lint"
RUN_LENSES = "runLenses"  # false: no lens offers a run


def options_of(values: Mapping[str, Any], directory: str) -> Options:
    """The options that a client's settings come to; what is empty, unknown or of another type says nothing."""
    given: dict[str, object] = {}
    for term in terms():
        value = values.get(term.camel)
        if term.is_number and type(value) is int and value >= term.least:
            given[term.name] = value
        elif not term.is_number and isinstance(value, str) and (text := value.strip()):
            path = os.path.join(directory, text)  # relative to the workspace
            if term.wrong_choice(text) is None:
                given[term.name] = path if term.is_path and os.path.exists(path) else text
    return options_of_terms(given, given_by="the editor")


def complaints(values: Mapping[str, Any]) -> Iterator[str]:
    """What cannot be used of a client's settings."""
    for term in terms():
        value = values.get(term.camel)
        if isinstance(value, str) and value.strip() and (words := term.wrong_choice(value.strip())):
            yield f'the setting {SECTION}.{term.camel} must be {words}, not "{value}"'
