"""A call of ``ds_lint.check`` and its like: their keywords are the terms of the table of options."""

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
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.option import Option
    from ds_lint.session.options import Options


def findings(config: Any, **keywords: object) -> list[Finding]:
    """What is found in a config, which is a path, or a dict as the library gets it."""
    options = options_of(terms(), keywords, given_by="ds_lint.check")
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


def options_of(known: list[Option], keywords: Mapping[str, object], given_by: str) -> Options:
    """The options of the keywords of a call. Raises TypeError or ValueError."""
    given = {term.name: _value(term, value) for term in known if (value := keywords[term.as_keyword]) is not None}
    return options_of_terms(given, given_by=given_by)


def _value(term: Option, value: object) -> object:
    """The value of a keyword. Raises TypeError or ValueError."""
    if term.is_path and isinstance(value, os.PathLike):
        return os.fspath(value)
    if term.type == "object":
        return value  # its reader says what it takes
    kind, article = (
        (int, "an int") if term.is_number else (bool, "a bool") if term.type[:4] == "bool" else (str, "a str")
    )
    if not isinstance(value, kind):
        raise TypeError(f"{term.as_keyword} must be {article}, not {type(value).__name__}")
    if term.is_number and isinstance(value, int) and value < term.least:
        raise ValueError(f"{term.as_keyword} must be at least {term.least}, not {value}")
    if (words := term.wrong_choice(value)) is not None:
        raise ValueError(f"{term.as_keyword} must be {words}, not {value!r}")
    return value
