"""Read the facts that somebody has named, each with its own reader."""

from __future__ import annotations

from ds_lint.facts import Facts, UnreadableFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts import Sources


def gather(sources: Sources) -> Facts:
    """The facts that these sources tell; raises UnreadableFact where one does not."""
    facts = Facts(world_size=sources.world_size, nodes=sources.nodes)
    if sources.world_size is not None:
        facts.origins["world size"] = f"{sources.world_size}, by {sources.said_by['world_size']}"
    if sources.nodes is not None:
        facts.origins["nodes"] = f"{sources.nodes}, by {sources.said_by['nodes']}"
    if sources.nodes is not None and sources.world_size is not None and sources.nodes > sources.world_size:
        raise UnreadableFact(f"{sources.nodes} nodes and {sources.world_size} ranks: every node has at least one rank")
    return facts
