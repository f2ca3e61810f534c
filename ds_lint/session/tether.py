"""``python -m ds_lint.session.tether FOLDER ARGUMENTS...``: ds-lint in a folder, until its standard input closes.

Whoever starts it holds the other end: when that ends, however it does, this process ends like on Ctrl-C. The folder is
entered late, so that no module that lies there stands in for one of Python's.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def main(folder: str, arguments: list[str]) -> None:
    """Run ds-lint with these arguments in a folder."""
    held = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the script reads nothing of it
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()
    os.chdir(folder)
    sys.argv[1:] = arguments
    runpy.run_module("ds_lint", run_name="__main__", alter_sys=True)


def _end_with(held: int) -> None:
    """End this process once the other end of a pipe is closed."""
    while os.read(held, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
