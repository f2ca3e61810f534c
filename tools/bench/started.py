"""Start a command, and print what it took: ``tools/bench/cost.py`` runs this as a program of its own.

The system counts the memory of the process that forks into the highest of its child, and a benchmark has more of it
than ds-lint. This process has that of a bare Python.
"""

import os
import resource
import sys
import time


def main() -> None:
    """Start what the arguments after the first say, with so many seconds of a processor at most (0: no limit)."""
    most, command = int(sys.argv[1]), sys.argv[2:]
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        if most:
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.execv(command[0], command)  # noqa: S606 - our own commands
    _, status, used = os.wait4(child, 0)
    clock = time.perf_counter() - begun
    sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime} {clock} {used.ru_maxrss}")


if __name__ == "__main__":
    main()
