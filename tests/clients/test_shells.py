"""Completion in bash, zsh and fish, on the tab key."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time

import pytest
from command_line import ROOT, clean_environment

pytestmark = pytest.mark.client

# How each shell is started without the settings of a user, and how it reads a script. In place of ds-lint stands a
# function that says what it was called with.
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], "source {script}", "ds-lint() {{ printf 'GOT<%s>\\n' \"$@\"; }}"),
    "zsh": (
        ["-f", "-i"],
        "autoload -Uz compinit; compinit -D -u; source {script}",
        "ds-lint() {{ printf 'GOT<%s>\\n' \"$@\"; }}",
    ),
    "fish": (["--no-config", "-i"], "source {script}", "function ds-lint; printf 'GOT<%s>\\n' $argv; end"),
}
PATIENCE = 20  # seconds for a shell to answer


class Session:
    """A shell on a terminal of its own."""

    def __init__(self, command, folder):
        self.ours, theirs = os.openpty()
        environment = clean_environment() | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "TERM": "dumb"}
        environment |= {"XDG_DATA_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "PS1": "> "}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - a shell asks for a terminal of its own
        )
        os.close(theirs)

    def type(self, text):
        os.write(self.ours, text.encode())

    def read_until(self, end):
        seen = ""
        latest = time.monotonic() + PATIENCE
        while end not in seen:
            left = latest - time.monotonic()
            assert select.select([self.ours], [], [], max(left, 0))[0], f"no {end!r} in {seen!r}"
            seen += os.read(self.ours, 65536).decode(errors="replace")
        return seen

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.ours)


@pytest.fixture(scope="module", params=SHELLS)
def shell(request, program, tmp_path_factory):
    arguments, source, function = SHELLS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "my config.json").write_text("{}")
    script = subprocess.run(
        [sys.executable, "-m", "ds_lint", "completion", request.param],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "script").write_text(script.stdout)
    session = Session([program(request.param), *arguments], folder)
    session.type(f"{source.format(script='./script')}\n{function.replace('{{', '{').replace('}}', '}')}\n")
    session.type("echo REA''DY\n")
    session.read_until("READY")
    yield session
    session.end()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("chec", ["check"]),
        ("check --world", ["check", "--world-size"]),
        ("check --stack tra", ["check", "--stack", "trainer"]),
        ("check --stack=tra", ["check", "--stack=trainer"]),
        ("check --fail-on w", ["check", "--fail-on", "warning"]),
        ("check --ignore DS101,unknown-k", ["check", "--ignore", "DS101,unknown-key"]),
        ("check --deepspeed-version 0.3.1", ["check", "--deepspeed-version", "0.3.1"]),
        ("check my", ["check", "my config.json"]),
        ("check --settings my", ["check", "--settings", "my config.json"]),
        ("explain unknown-k", ["explain", "unknown-key"]),
        ("explain zero_optimization.stage3_pre", ["explain", "zero_optimization.stage3_prefetch_bucket_size"]),
        ("effective --output-format j", ["effective", "--output-format", "json"]),
        ("bug-report --output-format j", ["bug-report", "--output-format", "json"]),
        ("completion fi", ["completion", "fish"]),
    ],
)
def test_tab_completes(shell, typed, meant):
    shell.type(f"ds-lint {typed}\t")
    time.sleep(0.3)  # keys that come while a shell completes are taken for a change of mind
    shell.type(" ; echo DO''NE\n")
    seen = shell.read_until("DONE\r\n")
    assert [line.split(">")[0] for line in seen.split("GOT<")[1:]] == meant
