"""Where a launch saves, as far as the name of the folder tells whether each node has it for itself."""

from __future__ import annotations

import re

from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from ds_lint.facts.launched import LaunchFacts

    # The folder as it is written, who has it, and where it stands in the script of the launch.
    Storage: TypeAlias = tuple[str, Literal["local", "shared"], Span]

_SAVED = re.compile(r"\.save_checkpoint\(\s*\w*args\.(\w+)")  # the flag that names the folder of a checkpoint
_FOLDER = re.compile(r"[=\s]\s*([\"']?[\w$/{}.~-]+)")
# Folders that each node has for itself, and names of file systems that nodes share.
_IS_LOCAL = re.compile(r"(?:\$\{?(?:SLURM_TMPDIR|TMPDIR|LOCAL_SCRATCH|LSCRATCH)\b|/tmp/|/var/tmp/|/dev/shm/)")
_IS_SHARED = re.compile(r"(?:^|[/_-])(?:nfs|lustre|gpfs|beegfs|cephfs|efs|fsx|shared)(?:[/_-]|$)")

_MOST = 500  # characters between a flag and its value


def storage_of(launch: LaunchFacts) -> Storage | None:
    """Where a run saves; None if it is not known, or its name tells nothing."""
    script = launch.script_document.text if launch.script_document is not None else ""
    names = ["output_dir"] if launch.stack == "trainer" else _SAVED.findall(script)
    for name in names:
        if name not in launch.launch.arguments:
            continue
        flag = launch.flag(name)
        found = _FOLDER.match(launch.document.text[flag.end : flag.end + _MOST]) if flag != launch.place else None
        if found is None:
            continue
        folder, span = found[1].strip("\"'"), Span(flag.start, flag.end + found.end())
        if _IS_LOCAL.match(folder):
            return folder, "local", span
        if _IS_SHARED.search(folder):
            return folder, "shared", span
    return None
