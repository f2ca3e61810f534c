"""Scripts that use FSDP of torch by themselves: a module that calls one of its wrappers."""

from __future__ import annotations

from ds_lint.source.document import Document
from ds_lint.source.python_names import dotted_name
from ds_lint.source.python_offsets import Offsets
from ds_lint.source.tree import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

_HOME = "torch.distributed."
# What a text has that may be such a script.
_MARKS = (b"FullyShardedDataParallel", b"fully_shard")
_OTHERS = "torch.sagemaker"  # a package that comes with a torch of its own, whose FSDP takes other keywords


def may_use_fsdp(data: bytes) -> bool:
    """Whether it is worth parsing a module to find out."""
    return any(mark in data for mark in _MARKS) and b"torch" in data


def version_of_wrapper(name: str) -> int | None:
    """The version of FSDP whose wrapper has this full name; None for anything else, such as that of fairscale."""
    if not name.startswith(_HOME):
        return None
    package, _, last = name.rpartition(".")
    if last in ("FullyShardedDataParallel", "FSDP") and package.startswith(("torch.distributed.fsdp", f"{_HOME}_fsdp")):
        return 1
    return 2 if last == "fully_shard" and "fsdp" in package else None


def script_with_fsdp(names: ModuleNames, text: str, path: str) -> list[Document]:
    """The module as a document, if it calls a wrapper of FSDP; its place is that of the first call."""
    imported = dict(_imported(names))
    if _OTHERS in text:
        return []
    for call in names.calls:
        first, dot, rest = dotted_name(call.func).partition(".")
        if first in imported and version_of_wrapper(f"{imported[first]}{dot}{rest}") is not None:
            document = Document(path, text, Node("missing", Offsets(text).span(call.func)), [])
            document.language, document.kind, document.is_python = "python", "FSDP", True
            document.is_dict = True
            return [document]
    return []


def _imported(names: ModuleNames) -> Iterator[tuple[str, str]]:
    """The names that imports of torch bind, each with what it stands for."""
    for node in names.imports:
        module = getattr(node, "module", None)
        for alias in node.names:
            if module is not None:
                yield alias.asname or alias.name, f"{module}.{alias.name}"
            elif not hasattr(node, "module"):
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
