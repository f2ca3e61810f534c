"""What the libraries raise for a file that is missing, empty or not whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds_lint.checkpoints.record import SavedFile

# torch.load: PyTorchFileReader seeks before the start of a file that is too short for its directory.
_TRUNCATED = "OSError: [Errno 22] Invalid argument, or RuntimeError: PytorchStreamReader failed"
CHECKSUM = "by its checksum"
_EMPTY = "EOFError: Ran out of input"


def loss(file: SavedFile, absent: str) -> str:
    """A sentence about a file that cannot be loaded; ``absent`` is what raises where it is missing."""
    rank = "" if file.rank is None else f"rank {file.rank}: "
    if file.status == "missing":
        return f"{rank}{file.path} is missing{f' ({file.why})' if file.why else ''}: {absent}"
    if file.status == "empty":
        return f"{rank}{file.path} is empty: {_EMPTY}"
    if file.why is not None and file.why.endswith(CHECKSUM):
        raised = "UnpicklingError, or wrong values load" if "pickle" in file.why else (
            "torch.load does not compare it, and wrong values load")  # fmt: skip
        return f"{rank}{file.path} is damaged ({file.why}): {raised}"
    return f"{rank}{file.path} is truncated ({file.why}): {_TRUNCATED}"
