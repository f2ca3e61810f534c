"""A client of the tests' own, for a server in a process of its own."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import clean_environment

from tools import json_rpc

WAIT = 20  # seconds until a server that says nothing is taken for dead


class Client:
    """Speaks JSON-RPC with one server."""

    def __init__(self, folder, **environment):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ds_lint", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=clean_environment() | environment,
        )
        self.messages = queue.Queue()
        self.notifications = []
        self.requests = {}  # answers to what the server asks, by method
        self.asked = []  # what the server asked
        self.capabilities = None
        self._number = 0
        self._versions = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while message := json_rpc.receive(self.process.stdout):
            self.messages.put(message)
        self.messages.put(None)

    def kill(self):
        self.process.kill()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError), self.process:  # waits for it, and closes its pipes
            pass

    def send(self, message):
        json_rpc.send(self.process.stdin, message)

    def notify(self, method, **params):
        self.send({"method": method, "params": params})

    def start_request(self, method, params):
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        return self._number

    def request(self, method, **params):
        return self.answer(self.start_request(method, params))

    def answer(self, number):
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message["error"]
                return message["result"]

    def error(self, number):
        """The error that a request is answered with."""
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                return message["error"]

    def _next(self, wait=WAIT):
        message = self.messages.get(timeout=wait)
        assert message is not None, f"the server has ended: {self.process.stderr.read().decode()}"
        if "method" in message and "id" in message:
            self.asked.append(message)
            self.send({"id": message["id"], "result": self.requests.get(message["method"])})
        elif "method" in message:
            self.notifications.append(message)
        return message

    def initialize(self, *, encodings=None, options=None, capabilities=None):
        general = {"positionEncodings": encodings} if encodings else {}
        self.capabilities = self.request(
            "initialize",
            processId=None,
            rootUri=Path(self.folder).as_uri(),
            capabilities={"general": general, **(capabilities or {})},
            initializationOptions=options,
        )["capabilities"]
        self.notify("initialized")
        return self

    def uri(self, name):
        return name if ":" in name else (Path(self.folder) / name).as_uri()

    def open(self, name, text, language="json"):
        self._versions[name] = 1
        item = {"uri": self.uri(name), "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", textDocument=item)

    def change(self, name, *changes):
        """Changes are whole texts, or pairs of a range and a text."""
        self._versions[name] += 1
        events = [
            {"text": change} if isinstance(change, str) else {"range": change[0], "text": change[1]}
            for change in changes
        ]
        document = {"uri": self.uri(name), "version": self._versions[name]}
        self.notify("textDocument/didChange", textDocument=document, contentChanges=events)

    def save(self, name):
        self.notify("textDocument/didSave", textDocument={"uri": self.uri(name)})

    def diagnostics(self, name):
        """The diagnostics of the newest version of a text, waited for."""
        while True:
            for message in self.notifications:
                params = message["params"]
                if message["method"] == "textDocument/publishDiagnostics" and params["uri"] == self.uri(name):
                    self.notifications.remove(message)
                    if params.get("version") == self._versions[name]:
                        return params["diagnostics"]
                    break
            else:
                self._next()

    def close(self, name):
        del self._versions[name]
        self.notify("textDocument/didClose", textDocument={"uri": self.uri(name)})

    def move(self, folder):
        """Go on in another folder, as if nothing had been."""
        for name in list(self._versions):
            self.close(name)
        self.request("ds-lint/target", uri="")
        self.notifications.clear()
        self.folder = folder

    def at(self, method, name, line, character, **more):
        """The answer to a request about a position."""
        position = {"line": line, "character": character}
        return self.request(method, textDocument={"uri": self.uri(name)}, position=position, **more)

    def shown(self):
        """The messages that the server has shown."""
        return [one["params"]["message"] for one in self.notifications if one["method"] == "window/showMessage"]

    def logged(self):
        return [one["params"]["message"] for one in self.notifications if one["method"] == "window/logMessage"]

    def end(self):
        """Shut the server down; its exit status."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(WAIT)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A client whose server is initialized, for all tests that do not end it."""
    with_server = Client(tmp_path_factory.mktemp("root")).initialize()
    yield with_server
    with_server.process.kill()
    with_server.process.wait()


@pytest.fixture
def client(shared, tmp_path):
    """The shared client, in the folder of the test."""
    (tmp_path / ".git").mkdir()
    shared.move(tmp_path)
    yield shared
    shared.notify("workspace/didChangeConfiguration", settings={"ds-lint": {}})


@pytest.fixture
def start(tmp_path):
    """Starts a client, not initialized yet."""
    started = []

    def start(**environment):
        (tmp_path / ".git").mkdir(exist_ok=True)
        started.append(Client(tmp_path, **environment))
        return started[-1]

    yield start
    for one in started:
        one.kill()
