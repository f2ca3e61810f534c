"""Where a launch saves, as far as the name of the folder tells whether each node has it for itself."""

from __future__ import annotations

import re

from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from ds_lint.diagnostics.finding import Stack

    # The folder as it is written, who has it, and where it is in the script of the launch.
    Storage: TypeAlias = tuple[str, Literal["local", "shared"], Span]

_SAVED = re.compile(r"\.save_checkpoint\(\s*\w*args\.(\w+)")  # the flag that names the folder of a checkpoint
_FOLDER = re.compile(r"[=\s]\s*([\"']?[\w$/{}.~-]+)")
# Folders that each node has for itself, and names of file systems that nodes share.
_IS_LOCAL = re.compile(
    r"\$\{?(?:SLURM_TMPDIR|TMPDIR|LOCAL_SCRATCH|LOCALSCRATCH|LSCRATCH|SCRATCH_LOCAL)\b"
    r"|(?:/tmp|/var/tmp|/dev/shm|/raid|/scratch/local"
    r"|(?:/mnt)?/(?:local(?:[_-]?(?:scratch|disk|nvme|ssd))?|scratch[_-]local|lscratch|nvme\d*))(?:/|$)"
)
_IS_SHARED = re.compile(r"(?:^|[/_-])(?:nfs|lustre|gpfs|beegfs|cephfs|efs|fsx|shared)(?:[/_-]|$)")

_MOST = 500  # characters between a flag and its value


def saved_by(stack: Stack | None, script: str) -> list[str]:
    """The flags that may name the folder which a training script saves to."""
    return ["output_dir"] if stack == "trainer" else _SAVED.findall(script)


def storage_behind(text: str, flag: Span, value: str | None) -> Storage | None:
    """The folder behind a flag in the text of a launch; None if its name does not tell who has it.

    ``value`` is the folder as the shell gives it, if that is known.
    """
    found = _FOLDER.match(text[flag.end : flag.end + _MOST])
    if found is None:
        return None
    written, span = found[1].strip("\"'"), Span(flag.start, flag.end + found.end())
    for folder in (written, value or ""):
        if _IS_LOCAL.match(folder):
            return folder, "local", span
        if _IS_SHARED.search(folder):
            return folder, "shared", span
    return None
