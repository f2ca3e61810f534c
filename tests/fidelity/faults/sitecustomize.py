"""Faults for ranks of a smoke run, without a hook in the product: Python imports this file when it starts.

``DS_LINT_FAULT`` says what happens, ``DS_LINT_FAULT_AT`` where, as "train 1 save": part, rank and phase. The file
``DS_LINT_FAULT_DONE`` gets the pid of the pool when it has happened, and it happens once. Every rank also leaves what
ranks may leave: children, one of them in a session of its own, and segments of shared memory.
"""

import os
import signal
import sys
import time


def _hang(_say):
    time.sleep(600)


def _raise(_say):
    raise RuntimeError("the third layer has no seventh head")


def _kill(_say):
    os.kill(os.getpid(), signal.SIGKILL)


def _leave_lock(_say):
    folder = os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], "fused_adam")
    os.makedirs(folder)
    os.open(os.path.join(folder, "lock"), os.O_CREAT | os.O_EXCL)
    _kill(_say)


def _find_no_room(_say):
    raise OSError(28, "No space left on device")


def _fill_disk(_say):
    with open("ballast", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**16))
        except OSError:
            pass


def _abort_at_exit(_say):
    os._exit = lambda _status: os.abort()


def _print_much(_say):
    os.write(1, b"much\n" * 2**21)
    _kill(_say)


def _close_connection(say):
    say.__self__.close()
    time.sleep(600)


FAULTS = {
    "hang": _hang,
    "raise": _raise,
    "kill": _kill,
    "leave lock": _leave_lock,
    "no room": _find_no_room,
    "fill disk": _fill_disk,
    "abort at exit": _abort_at_exit,
    "print much": _print_much,
    "close connection": _close_connection,
    "none": lambda _say: None,
}


def _leave_things():
    for goes_away in (False, True):
        if os.fork() == 0:
            if goes_away:
                os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
    names = [
        f"torch_{os.getpid()}_1_1",
        f"deepspeed_allreduce_buffer_{os.getuid()}_127.0.0.1_{os.environ['MASTER_PORT']}_0",
    ]
    for name in names:
        with open(os.path.join("/dev/shm", name), "w", encoding="utf-8") as file:
            file.write(os.environ["DS_LINT_TEST"])


def _make_faulty():
    """In a rank that was just forked."""
    worker = sys.modules.get("ds_lint.smoke.rank.run")
    if worker is None or "faulty" in worker.work.__name__:
        return
    work = worker.work
    part, rank, phase = os.environ["DS_LINT_FAULT_AT"].split(maxsplit=2)
    done = os.environ["DS_LINT_FAULT_DONE"]

    def faulty(job, number, say):
        def enter(entered):
            say(entered)
            if job.part != "export" and entered == "model":
                _leave_things()
            if (job.part, number, entered) == (part, int(rank), phase) and not os.path.exists(done):
                with open(f"{done}.new", "w", encoding="utf-8") as file:
                    file.write(str(os.getppid()))
                os.rename(f"{done}.new", done)
                FAULTS[os.environ["DS_LINT_FAULT"]](say)

        return work(job, number, enter)

    worker.work = faulty


if "DS_LINT_FAULT" in os.environ:
    if "ds_lint.smoke.rank.pool" in sys.orig_argv:
        with open(os.environ["DS_LINT_FAULT_DONE"] + ".pools", "a", encoding="utf-8") as pools:
            pools.write(f"{os.getpid()}\n")
    if os.environ["DS_LINT_FAULT"] == "no fork":
        del os.fork
    else:
        os.register_at_fork(after_in_child=_make_faulty)
