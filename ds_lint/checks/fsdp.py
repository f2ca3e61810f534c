"""Rules about FSDP that the training arguments set up, and about what it does with a model (DS66x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import IGNORED, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.fsdp_arguments import FsdpArguments, fsdp_arguments
from ds_lint.semantics.related import given_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span


@rule("DS660", "fsdp-config-refused", severity="error", effects=("rejected",), kind="accelerate", elsewhere=True)
def fsdp_config_refused(config: Config) -> Iterator[Problem]:
    """Values of ``fsdp`` and ``fsdp_config`` in the training arguments with which the Trainer raises."""
    arguments = fsdp_arguments(config)
    if arguments is None or not arguments.is_on:
        return
    for name, what, advice in arguments.refusals():
        yield _about(arguments, config, name, f"{what}: the Trainer raises", rejected("initialize"), advice)


@rule("DS661", "fsdp-config-unread", severity="warning", effects=("ignored",), kind="accelerate", elsewhere=True)
def fsdp_config_unread(config: Config) -> Iterator[Problem]:
    """Keys of ``fsdp_config`` in the training arguments that the Trainer does not read."""
    arguments = fsdp_arguments(config)
    if arguments is None:
        return
    if not arguments.argument.value:
        if arguments.values:
            what = "`fsdp_config` of the training arguments has no effect: `fsdp` is not set"
            yield _about(arguments, config, None, what, IGNORED, arguments.switch)
        return
    for name, why, advice in arguments.unread() if arguments.is_on else ():
        if arguments.is_telling(name):
            what = f"`{name}` of `fsdp_config` has no effect: {why}"
            yield _about(arguments, config, name, what, IGNORED, advice)


def _about(
    arguments: FsdpArguments, config: Config, name: str | None, message: str, outcome: Outcome, advice: str
) -> Problem:
    """A problem of the training arguments, at their place: a call, a flag, a file, or elsewhere for another file."""
    place, span = _place(arguments, config, name)
    related = given_at(arguments.given or arguments.argument, "fsdp_config")
    file = arguments.file
    if file is not None and file.root is not None and name != "fsdp":
        member = file.root.member(name) if name is not None else None
        there = member.key_span if member is not None else file.root.span
        related = [Related(there, "of `fsdp_config`", file.path)]
    elif config.document.kind == "TrainingArguments":
        related = []
    return Problem(
        place,
        span,
        message,
        {"trainer": outcome},
        help=advice,
        label="with these training arguments",
        related=related,
    )


def _place(arguments: FsdpArguments, config: Config, name: str | None) -> tuple[KeyPath | None, Span]:
    """Where the document has what a problem is about."""
    root = config.document.root
    if config.document.kind != "TrainingArguments" or root is None:
        kind = root.member("distributed_type") if root is not None else None
        return None, kind.key_span if kind is not None else config.document_start
    section = root.member("fsdp_config")
    inner = section.value.member(name) if section is not None and name is not None else None
    if inner is not None:
        return ("fsdp_config", inner.key), inner.key_span
    own = root.member(name if name in ("fsdp", "fsdp_config") else "fsdp_config") or root.member("fsdp")
    return ((own.key,), own.value.span) if own is not None else (None, config.document_start)
