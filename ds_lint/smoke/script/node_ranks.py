"""Which ranks of the script are on which node, and whether all nodes have the same libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import RunNode

if TYPE_CHECKING:
    from ds_lint.smoke.script.command_start import CommandEnd

_LIBRARIES = ("deepspeed", "torch", "transformers", "accelerate")


def nodes_of(end: CommandEnd) -> list[RunNode]:
    """The nodes of a start, in the order of their first ranks; empty if there is only one."""
    ranks: dict[str, list[int]] = {}
    for one in end.ranks:
        if one.rank is not None:
            ranks.setdefault(one.node, []).append(one.rank)
    return [RunNode(node, found) for node, found in ranks.items()] if len(ranks) > 1 else []


def other_releases(end: CommandEnd) -> str | None:
    """The sentence about a node that has another release of a library than that of the first rank; None if none has."""
    node_of = {one.rank: one.node for one in end.ranks}
    for ranks in end.engines.values():
        first = ranks[0]
        for one in ranks[1:]:
            for library in _LIBRARIES:
                wanted, found = first.versions.get(library), one.versions.get(library)
                if wanted is not None and found is not None and wanted != found:
                    there = f"rank {one.evidence.rank} on {node_of.get(one.evidence.rank, 'its node')}"
                    here = f"rank {first.evidence.rank} on {node_of.get(first.evidence.rank, 'its node')}"
                    return (
                        f"{there} has {library} {found}, and {here} has {wanted}: install the same release everywhere"
                    )
    return None
