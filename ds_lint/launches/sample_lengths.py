"""How long a script lets a sample be: where its tokenizer cuts texts off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.launches.script_code import keyword, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.source.python_names import ModuleNames

_TOKENIZERS = re.compile(r"(?:\w*_)?(?:processor|tok|tokenizer)", re.IGNORECASE)
_METHODS = ("batch_encode_plus", "encode", "encode_plus")
_OF_ANSWERS = "text_target"  # which only a decoder beside an encoder gets


def sample_lengths(names: ModuleNames, sources: SourceReader) -> Iterator[str]:
    """The lengths at which texts are cut off, as expressions, one for each call."""
    for call in names.calls:
        if _cuts_off(call) and (given := keyword(call, "max_length")) is not None:
            yield sources.text(given)


def _cuts_off(call: ast.Call) -> bool:
    owner, _, method = dotted_name(call.func).rpartition(".")
    last = owner.rpartition(".")[2] if method in _METHODS else method
    if not _TOKENIZERS.fullmatch(last) or keyword(call, _OF_ANSWERS) is not None:
        return False
    return literal(keyword(call, "truncation")) in (True, "longest_first", "only_first")
