"""What a run needs of each GPU and each host, shown above ``zero_optimization`` if the facts suffice for a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint.diagnostics.amounts import gibibytes
from ds_lint.semantics import configs
from ds_lint.session.material import grouped, with_material

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.footprint.band import Band
    from ds_lint.footprint.certainty import Needs
    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.semantics.config import Config
    from ds_lint.session.context import LintContext
    from ds_lint.session.material import Material

_KEY = "zero_optimization"
_MOST = 3  # lenses at one place
_NO_COMMAND = ""  # a title that does nothing


def lenses(opened: OpenDocument, context: LintContext) -> list[types.CodeLens]:
    """The lenses of a text: one for each config, or for each of the launches whose figures differ."""
    found = []
    for document in opened.configs:
        if document.kind != "deepspeed" or document.root is None or (member := document.root.member(_KEY)) is None:
            continue
        groups = grouped([one for one in context.material if one.may_name(document)])
        material: list[Material | None] = [group[0] for group in groups] or [None]
        basis = context.basis.but(policies=())
        titles: dict[str, str] = {}  # with the first launch of each
        for one in material:
            config = configs.from_document(document, with_material(one, basis) if one is not None else basis)
            if (title := _title(config)) is not None:
                titles.setdefault(title, one.origin if one is not None else "")
        for title, origin in list(titles.items())[:_MOST]:
            label = f"{title} ({origin})" if len(titles) > 1 else title
            command = types.Command(label, _NO_COMMAND)
            found.append(types.CodeLens(opened.lines.range(member.key_span), command))
    return found


def _title(config: Config) -> str | None:
    """The figures of a run; None if a fact is missing."""
    if config.facts.model is None or config.world_size is None:
        return None
    from ds_lint.footprint import certainty  # most texts lack a fact

    on_gpu, on_host = certainty.of_gpu_at_full_length(config), certainty.of_host(config)
    if on_gpu is None:
        return None
    gpu, host = config.facts.gpu, config.facts.host_memory
    figures = [_figure(on_gpu.trained.gpu_bytes, gpu.memory if gpu is not None else None, "GPU")]
    if on_host is not None:
        figures.append(_figure(on_host.trained.host_bytes, host, "host"))
    return "; ".join([*figures, *_assumed(on_gpu)])


def _figure(band: Band, capacity: int | None, where: str) -> str:
    """What is likely, of what there is, and the bounds; the same unless it is exact."""
    of = f" of {gibibytes(capacity)}" if capacity is not None else ""
    bounds = "" if band.is_exact else f", likely ({gibibytes(band.least)} to {gibibytes(band.most)})"
    return f"{gibibytes(band.likely)}{of} per {where}{bounds}"


def _assumed(needs: Needs) -> Iterator[str]:
    """What the figures take for granted, or leave out."""
    if not needs.trains_all:
        yield "if all parameters are trained"
    if "activations" not in needs.trained.parts:
        yield "without activations"
