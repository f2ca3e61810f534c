"""A script that uses FSDP of torch by itself, as the rules see it."""

from __future__ import annotations

from ds_lint.diagnostics.problem import Problem
from ds_lint.knowledge.fsdp import FsdpNames
from ds_lint.launches.fsdp_models import FsdpReader
from ds_lint.semantics.config import once
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_offsets import Offsets
from ds_lint.source.python_syntax import parsed
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast

    from ds_lint.diagnostics.finding import Fix, Related, Severity
    from ds_lint.diagnostics.problem import Outcome
    from ds_lint.launches.fsdp_models import FsdpWrap
    from ds_lint.semantics.config import Config
    from ds_lint.targets.pin import Pin

_WRAPPERS = {
    1: "torch.distributed.fsdp.FullyShardedDataParallel",
    2: "torch.distributed.fsdp.fully_shard",
}
_OLDER = {2: "torch.distributed._composable.fsdp.fully_shard.fully_shard"}  # before 2.6


class FsdpScript:
    """The text of a script, what torch has for it, and what it does."""

    def __init__(self, config: Config) -> None:
        self.torch = FsdpNames(torch_pin(config))
        self.names = ModuleNames(parsed(config.document.text))
        self._offsets = Offsets(config.document.text)
        positional = {}
        for version, name in _WRAPPERS.items():
            facts = self.torch.facts(name) or self.torch.facts(_OLDER.get(version, name)) or {}
            parameters = facts.get("parameters", [])
            positional[version] = parameters[: facts.get("positional", len(parameters))]
        self.reader = FsdpReader(self.names, positional)

    @property
    def wraps(self) -> list[FsdpWrap]:
        """The calls that shard a model."""
        return self.reader.wraps

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        """The range of a node in the text."""
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101, PT018 - it was parsed
        start = self._offsets.offset(node.lineno, node.col_offset)
        return Span(start, self._offsets.offset(node.end_lineno, node.end_col_offset))

    def argument_span(self, wrap: FsdpWrap, name: str) -> Span:
        """The range of a keyword of a call with its value, or of the argument in its place."""
        return self.span(wrap.written(name))

    def problem(
        self,
        node: ast.expr | ast.stmt | ast.keyword | Span,
        key: str | None,
        message: str,
        outcome: Outcome,
        *,
        help: str,
        label: str,
        severity: Severity | None = None,
        related: list[Related] | None = None,
        fix: Fix | None = None,
    ) -> Problem:
        """A problem at a node."""
        return Problem(
            (key,) if key is not None else None,
            node if isinstance(node, Span) else self.span(node),
            message,
            outcome,
            help=help,
            label=label,
            severity=severity,
            related=related or [],
            fix=fix,
        )


@once
def torch_pin(config: Config) -> Pin | None:
    """What pins torch: the files of the project, even if they name no other library, or what is installed."""
    import os

    from ds_lint.targets.combination import narrowed
    from ds_lint.targets.project import pin_of_companion

    path = config.document.path
    stated = pin_of_companion("torch", os.path.dirname(path) or ".") if os.path.isfile(path) else None
    known = config.basis.pins.get("torch")
    return narrowed(stated, known) if stated is not None and known is not None else stated or known


@once
def fsdp_script(config: Config) -> FsdpScript | None:
    """The script of a document; None if it cannot be read."""
    try:
        return FsdpScript(config)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def name_of(wrap: FsdpWrap) -> str:
    """How a script calls the wrapper."""
    return dotted_name(wrap.call.func)
