"""``python -m ds_lint.smoke.rank.fresh DESCRIPTOR JOB NUMBER``: a rank on a GPU, which the pool could not fork.

It talks to the pool through the pipe that a forked rank would have.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection

from ds_lint.smoke.records.messages import IMPORTING


def main(descriptor: int, path: str, number: int) -> None:
    """Do the work of the rank, and never return."""
    status = 1
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, 2)  # the pool asks where it is
    try:
        connection = Connection(descriptor)
        connection.send(IMPORTING)
        with open(path, "rb") as file:
            job = pickle.load(file)  # noqa: S301 - the pool wrote it
        from ds_lint.smoke.rank.run import work

        connection.send(work(job, number, connection.send))
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # skips exit handlers, which may abort after all is done


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
