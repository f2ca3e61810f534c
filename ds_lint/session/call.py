"""A call of ``ds_lint.check``: its keywords are the terms of the table of options."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from warnings import warn

from ds_lint.facts.readers import gather
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.choice import choose
from ds_lint.linter.lint import lint_for
from ds_lint.semantics.basis import Basis
from ds_lint.session.options import options_of_terms, terms
from ds_lint.source import documents
from ds_lint.source.files import bytes_of

if TYPE_CHECKING:
    from typing import Any

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.option import Option


def findings(config: Any, **keywords: object) -> list[Finding]:
    """What is found in a config, which is a path, or a dict as the library gets it."""
    given = {term.name: _value(term, value) for term in terms() if (value := keywords[term.as_keyword]) is not None}
    options = options_of_terms(given, given_by="ds_lint.check")
    facts = gather(options.sources)
    if isinstance(config, str) or hasattr(config, "__fspath__"):
        path = str(config)
        data = bytes_of(path)
        found = documents.configs_in(data, path) or documents.unparsed(data, path, is_named=True)
        choice = choose(os.path.dirname(path), options.versions)
    elif hasattr(config, "keys"):
        found = [documents.from_dict(config)]
        choice = choose("", options.versions)
    else:
        raise TypeError(f"a config must be a dict or a path, not {type(config).__name__}")
    for note in choice.notes:
        warn(note, stacklevel=3)  # of a release that ds-lint does not know
    basis = Basis(knowledge(choice.newest), options.stack, facts)
    return [finding for document in found for finding in lint_for(choice, document, basis).findings]


def _value(term: Option, value: object) -> object:
    """The value of a keyword. Raises TypeError or ValueError."""
    if term.is_path and isinstance(value, os.PathLike):
        return os.fspath(value)
    if term.type == "object":
        return value  # its reader says what it takes
    kind = int if term.is_number else str
    if not isinstance(value, kind):
        raise TypeError(f"{term.as_keyword} must be {'an int' if kind is int else 'a str'}, not {type(value).__name__}")
    if isinstance(value, int) and value < term.least:
        raise ValueError(f"{term.as_keyword} must be at least {term.least}, not {value}")
    if (words := term.wrong_choice(value)) is not None:
        raise ValueError(f"{term.as_keyword} must be {words}, not {value!r}")
    return value
