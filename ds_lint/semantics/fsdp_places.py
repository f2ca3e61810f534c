"""Where a setting of FSDP among the training arguments is: in a call, a flag, a file, or beside another file."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.record import Record
from ds_lint.semantics.related import given_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ds_lint.semantics.config import Config
    from ds_lint.semantics.fsdp_arguments import FsdpArguments
    from ds_lint.semantics.fsdp_arguments_before import OlderFsdpArguments
    from ds_lint.source.tree import KeyPath, Span

    AnyArguments: TypeAlias = FsdpArguments | OlderFsdpArguments


class FsdpPlace(Record):
    """The place in the document of the config, and the one in another file, which is shown if there is one."""

    path: KeyPath
    span: Span
    related: list[Related]


def place_of(arguments: AnyArguments, config: Config, name: str | None) -> FsdpPlace:
    """The place of a key as it is written; of the arguments themselves without a name."""
    file, is_own = arguments.file, config.document.kind == "TrainingArguments"
    path, span = _in_document(config, name) if is_own else ((), _of_file(config))
    related = [] if is_own else given_at(arguments.given or arguments.argument, "fsdp_config")
    if file is not None and file.root is not None and name != "fsdp":
        member = file.root.member(name) if name is not None else None
        there = member.key_span if member is not None else file.root.span
        related = [Related(there, "of `fsdp_config`", file.path)]
    return FsdpPlace(path, span, related)


def _of_file(config: Config) -> Span:
    """What in a file for ``accelerate launch`` is about the run that the arguments belong to."""
    root = config.document.root
    kind = root.member("distributed_type") if root is not None else None
    return kind.key_span if kind is not None else config.document_start


def _in_document(config: Config, name: str | None) -> tuple[KeyPath, Span]:
    root = config.document.root
    section = root.member("fsdp_config") if root is not None else None
    inner = section.value.member(name) if section is not None and name is not None else None
    if inner is not None:
        return ("fsdp_config", inner.key), inner.key_span
    own = root.member("fsdp") if root is not None and (name == "fsdp" or section is None) else section
    return ((own.key,), own.value.span) if own is not None else ((), config.document_start)
