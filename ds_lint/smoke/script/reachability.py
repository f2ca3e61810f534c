"""Whether a node reaches that of the first rank: ranks that do not connect wait for half an hour, and say nothing."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.journal import areas
from ds_lint.smoke.script.processes import ranks_of

if TYPE_CHECKING:
    from ds_lint.smoke.script.processes import ScriptProcess

_PATIENCE = 3.0  # seconds for an answer


def obstacle(processes: list[ScriptProcess]) -> str | None:
    """Why ranks of this node that have not connected cannot do so, in a sentence; None if nothing shows that."""
    here = areas.own_node()
    for one in ranks_of(processes):
        if one.node != here or one.world_size is not None or not one.rank or not one.address or not one.port:
            continue
        where = f"{one.address}, the node of rank 0 (MASTER_ADDR)"
        try:
            found = socket.getaddrinfo(one.address, one.port, type=socket.SOCK_STREAM)
        except OSError as error:
            return f"{here} cannot resolve {where}: {error.strerror}; set it to an address that all nodes reach"
        why = [_refusal(family, address) for family, _, _, _, address in found]
        if all(why):
            return (
                f"{here} cannot connect to port {one.port} of {where}: {why[0]}; rank 0 does not run there, or a "
                "firewall is between the nodes"
            )
    return None


def _refusal(family: int, address: Any) -> str:
    """Why a port does not answer; empty if it does."""
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(address)
        except OSError as error:
            return error.strerror or "no answer"
        return ""
