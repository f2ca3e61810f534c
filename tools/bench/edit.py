"""Measure what an edit costs in the language server, from the change to the diagnostics.

    python -m tools.bench.edit

A real server over pipes, one character typed at a time into a config of 4 KB, as an editor sends it, 50 in a second.
Wall time, and CPU time of the server where the system tells it (Linux); then the same with launches of the config, with
findings in the text, with a range of releases to lint with, and for hover and completion. Last, from the start of the
process to the answer to ``initialize``. Ratios are to ``python -c pass`` of the same interpreter.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import json_rpc
from tools.bench.size_texts import CLEAN, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKES = {"gradient_cliping": 1.0, "zero_optimisation": {}, "fp16": {"enabled": "yes", "los_scale": 0}}
LAUNCHES = 20
LAUNCH = "deepspeed --num_gpus {} train.py --deepspeed_config ds_config_{}.json\n"
STARTS, EDITS = 7, 300
SIZE = 4096  # of the config, in bytes
WARM_UP = 20
_PAUSE = 0.02  # seconds between two edits


class Server:
    """One server, with the little of the protocol that a measurement needs."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-m", "ds_lint", "lsp"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._number = 0
        self.request("initialize", {"processId": None, "rootUri": Path(folder).as_uri(), "capabilities": {}})
        self.notify("initialized", {})

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        """Send what is answered, and wait for that."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self._wait(lambda message: message.get("id") == self._number)["result"]

    def diagnostics(self, version: int) -> list[Any]:
        """Wait for the diagnostics of a version."""
        found = self._wait(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"].get("version") == version
            )
        )
        diagnostics: list[Any] = found["params"]["diagnostics"]
        return diagnostics

    def cpu_seconds(self) -> float | None:
        """The CPU time of the server so far; None where the system does not tell."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End it."""
        self.request("shutdown", None)
        self.notify("exit", None)
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        json_rpc.send(self._process.stdin, message)

    def _wait(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = self._read()
            if is_it(message):
                return message

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        message = json_rpc.receive(self._process.stdout)
        if message is None:
            raise SystemExit("the server has ended")
        return message


class Text:
    """A text that is open in a server; its last value is what is typed at."""

    def __init__(self, server: Server, folder: str, name: str, config: dict[str, Any]) -> None:
        self._server = server
        self.uri = (Path(folder) / name).as_uri()
        lines = json.dumps({**config, "steps_per_print": 1}, indent=2).splitlines()
        self._line, self._column = len(lines) - 2, len(lines[-2]) - 1
        self._version = 1
        item = {"uri": self.uri, "languageId": "json", "version": 1, "text": "\n".join(lines)}
        server.notify("textDocument/didOpen", {"textDocument": item})
        self.findings = len(server.diagnostics(1))

    def type(self) -> None:
        """Replace the number by another one, and wait for the diagnostics."""
        self._version += 1
        start = {"line": self._line, "character": self._column}
        end = {"line": self._line, "character": self._column + 1}
        change = {"range": {"start": start, "end": end}, "text": str(self._version % 9 + 1)}
        document = {"uri": self.uri, "version": self._version}
        self._server.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self._server.diagnostics(self._version)

    def ask(self, method: str) -> None:
        """Ask about the first key."""
        place = {"textDocument": {"uri": self.uri}, "position": {"line": 1, "character": 4}}
        self._server.request(method, place)


def main() -> None:
    """Print the table."""
    base = statistics.median(_timed(_bare) for _ in range(21))
    _line("python -c pass", [base], base)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".git").mkdir()
        starts = [_start(folder) for _ in range(STARTS)]
        server = Server(folder)
        clean, broken = _of_size(CLEAN, SIZE), _of_size({**CLEAN, **MISTAKES}, SIZE)
        text = Text(server, folder, "ds_config_clean.json", clean)
        bench = Bench(server, EDITS, base)
        bench.run("an edit of a clean config", text.type)
        bench.run("hover", lambda: text.ask("textDocument/hover"))
        bench.run("completion", lambda: text.ask("textDocument/completion"))
        for name, launches in {"once": 1, "often": LAUNCHES}.items():
            commands = "".join(LAUNCH.format(number + 2, name) for number in range(launches))
            (Path(folder) / f"{name}.sh").write_text(commands, encoding="utf-8")
        bench.run("an edit of a config with a launch", Text(server, folder, "ds_config_once.json", clean).type)
        often = Text(server, folder, "ds_config_often.json", clean)
        bench.run(f"an edit of a config with {LAUNCHES} launches", often.type)
        text = Text(server, folder, "ds_config_broken.json", broken)
        bench.run(f"an edit with {text.findings} findings", text.type)
        ranged = Path(folder) / "ranged"
        ranged.mkdir()
        (ranged / "requirements.txt").write_text("deepspeed>=0.14,<0.19\n", encoding="utf-8")
        text = Text(server, str(ranged), "ds_config_broken.json", broken)
        bench.run("  the same, for deepspeed>=0.14,<0.19", text.type)
        server.end()
    _line("start to the answer to initialize", starts, base)


def _of_size(config: dict[str, Any], size: int) -> dict[str, Any]:
    """The config with comments of hjson's kind, harmless keys, up to a size."""
    missing = size - len(json.dumps({**config, "steps_per_print": 1}, indent=2))
    number = max(0, missing // 64)
    return {**{f"_comment_{place:03}": "x" * 42 for place in range(number)}, **config}


class Bench:
    """What is measured of one server."""

    def __init__(self, server: Server, rounds: int, base: float) -> None:
        self._server = server
        self._rounds = rounds
        self._base = base

    def run(self, name: str, act: Callable[[], None]) -> None:
        """Do something again and again, and print what it took."""
        for _ in range(WARM_UP):
            act()
        before, times = self._server.cpu_seconds(), []
        for _ in range(self._rounds):
            times.append(_timed(act))
            time.sleep(_PAUSE)
        after = self._server.cpu_seconds()
        cpu = (after - before) / self._rounds if before is not None and after is not None else None
        _line(name, times, self._base, cpu)


def _timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def _start(folder: str) -> float:
    begun = time.perf_counter()
    server = Server(folder)
    seconds = time.perf_counter() - begun
    server.end()
    return seconds


def _bare() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _line(name: str, seconds: list[float], base: float, cpu: float | None = None) -> None:
    median = statistics.median(seconds)
    p95 = sorted(seconds)[int(len(seconds) * 0.95)]
    more = f"  CPU {cpu * 1000:6.2f} ms" if cpu is not None else ""
    sys.stdout.write(f"{name:38} {median * 1000:8.2f} ms  p95 {p95 * 1000:8.2f} ms  {median / base:6.2f} x{more}\n")


if __name__ == "__main__":
    main()
