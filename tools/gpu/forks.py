"""A process that has imported the libraries once, and calls each function in a fork of its own.

A fork takes GPUs only as long as nothing has initialized CUDA in the process that it comes from, so the libraries are
imported for the accelerator, and otherwise unused. Where a fork cannot, a process that has imported nothing takes its
place. ``python -m tools.gpu.forks`` is that process; it reads calls from its standard input, a line of JSON each.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from typing import IO, TYPE_CHECKING, Any

from tools.gpu.setting import OPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.gpu.setting import Result, Setting

_LIBRARIES = ("accelerate", "deepspeed", "deepspeed.runtime.zero.stage3", "deepspeed.runtime.zero.stage_1_and_2",
              "transformers", "transformers.models.llama.modeling_llama")  # fmt: skip
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_TICK = 0.05  # seconds between looks at a child
_LONGEST = 6000  # characters of an error
ONE = "--one"
# Images for GPUs set it, and it rounds the factors of every fp32 product: none of the claims is about that.
_TF32 = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"


class CallFailed(Exception):  # noqa: N818 - the call failed
    """A function that raised, was killed or took too long; the message has its traceback."""


class Forks:
    """The process, from its start to its end. One that dies is started again for the next call."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._log = os.path.join(setting.folder, "forks.log")
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        with open(self._log, "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tools.gpu.forks", self._setting.device],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(self._setting),
                start_new_session=True,
            )

    def call(self, function: str, arguments: Result, seconds: float) -> Result:
        """What ``module:function`` returns for these arguments, all of them as JSON."""
        if self._process.poll() is not None:
            self.close()
            self._process = self._start()
        given, answered = _pipes(self._process)
        given.write(json.dumps({"function": function, "arguments": arguments, "seconds": seconds}) + "\n")
        given.flush()
        line = answered.readline()
        if not line:
            self._process.kill()
            self._process.wait()  # so that the next call finds it ended
            raise CallFailed(f"the process with the libraries ended: {self._end_of_log()}")
        answer: Result = json.loads(line)
        if "error" in answer:
            raise CallFailed(str(answer["error"]))
        result: Result = answer["result"]
        return result

    def close(self) -> None:
        """End the process, and what it started."""
        with contextlib.suppress(OSError):
            _pipes(self._process)[0].close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _pipes(self._process)[1].close()

    def _end_of_log(self) -> str:
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-_LONGEST:]


@contextlib.contextmanager
def forks(setting: Setting) -> Iterator[Forks]:
    """The process while a part measures."""
    process = Forks(setting)
    try:
        yield process
    finally:
        process.close()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None  # noqa: S101 - it is started with pipes
    assert process.stdout is not None  # noqa: S101
    return process.stdin, process.stdout


def _environment(setting: Setting) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name != _TF32},
        "DS_ACCELERATOR": setting.device,
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "OMP_NUM_THREADS": "1",  # a pool of threads does not survive a fork
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "DEEPSPEED_LOG_LEVEL": "warning",
        "TORCH_EXTENSIONS_DIR": os.path.join(setting.folder, "extensions"),
        OPS: setting.ops,
        # As the one rank of its world; no other process listens.
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------- in that process


def serve(device: str) -> None:
    """Answer calls until the standard input ends; if what calls is killed, this is killed too."""
    _end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the libraries print does not go to the caller
    for name in _LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        answers.write(json.dumps(_in_fork(json.loads(line), device)) + "\n")
        answers.flush()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _in_fork(call: Result, device: str) -> Result:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.set_inheritable(writing, True)
        _be_fork(call, device, writing)
    os.close(writing)
    text, is_late = _read(reading, time.monotonic() + call["seconds"])
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may have no group yet
    _, status = os.waitpid(pid, 0)
    if is_late:
        return {"error": f"took more than {call['seconds']:g} s"}
    if not text:
        return {"error": f"the process ended with wait status {status}"}
    answer: Result = json.loads(text)
    return answer


def _read(reading: int, deadline: float) -> tuple[str, bool]:
    """What a child writes until it closes its end, and whether time was up before."""
    parts: list[bytes] = []
    os.set_blocking(reading, False)
    try:
        while time.monotonic() < deadline:
            try:
                part = os.read(reading, 2**16)
            except BlockingIOError:
                time.sleep(_TICK)
                continue
            if not part:
                return b"".join(parts).decode(), False
            parts.append(part)
        return "", True
    finally:
        os.close(reading)


def _be_fork(call: Result, device: str, writing: int) -> None:
    """In the child: call the function, and never return."""
    try:
        os.setsid()
        _end_with_parent()
        if device == "cuda" and not _takes_gpus():
            command = [sys.executable, "-m", "tools.gpu.forks", ONE, str(writing), json.dumps(call)]
            os.execv(sys.executable, command)  # noqa: S606 - ourselves
        answer(call, writing)
    finally:
        os._exit(1)


def _takes_gpus() -> bool:
    import deepspeed
    import torch

    try:
        torch.cuda.init()
        deepspeed.get_accelerator().available_memory()  # which asks the driver's library, used before the fork too
    except Exception:  # noqa: BLE001 - a process that has imported nothing tells what is to blame
        traceback.print_exc()
        return False
    return True


def answer(call: Result, writing: int) -> None:
    """Call the function, write down what it returns, and end the process."""
    with socket.socket() as one:  # a port that nothing listens at
        one.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(one.getsockname()[1])
    module, _, name = call["function"].partition(":")
    try:
        found: Result = {"result": getattr(importlib.import_module(module), name)(**call["arguments"])}
    except BaseException:  # noqa: BLE001 - whatever a library raises is an answer
        found = {"error": traceback.format_exc()[-_LONGEST:]}
    data = memoryview(json.dumps(found).encode())
    while data:
        data = data[os.write(writing, data) :]
    os._exit(0)  # exit handlers of the libraries have nothing to do here


def _main(arguments: list[str]) -> Any:
    if arguments[0] == ONE:
        return answer(json.loads(arguments[2]), int(arguments[1]))
    return serve(arguments[0])


if __name__ == "__main__":
    _main(sys.argv[1:])
