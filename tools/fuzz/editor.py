"""The surfaces of an editor: texts that are edited, and messages to a server."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from tools.fuzz.mutations import VALUES, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("editor, json", "editor, python", "editor, shell", "editor, markdown", "editor, yaml", "editor, messages")
TEXTS = NAMES[:-1]
KINDS = {name: name.rpartition(" ")[2] for name in NAMES} | {"editor, messages": "json"}
_FILES = {"json": "ds_config.json", "python": "t.py", "shell": "run.sh", "markdown": "a.md", "yaml": "accelerate.yaml"}
_AT_ONCE = 25  # messages to one server


def edit(name: str, text: str, seed: float) -> None:
    """Open a text, edit it, and ask about it as an editor does."""
    if name == "editor, messages":
        messages(text, seed)
        return
    from lsprotocol import types

    from ds_lint.lsp import actions, completion, diagnostics, hover, links
    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.lsp.lint import lint_text

    chance = random.Random(seed)  # noqa: S311 - no secret
    kind = KINDS[name]
    item = types.TextDocumentItem(f"file:///{_FILES[kind]}", kind, 1, text)
    opened = OpenDocument(item, f"/{_FILES[kind]}", chance.choice(("utf-8", "utf-16", "utf-32")))
    for _ in range(chance.randrange(3)):
        first = chance.randrange(len(opened.text) + 1)
        around = types.Range(opened.lines.position(first), opened.lines.position(first + chance.randrange(9)))
        opened.change([types.TextDocumentContentChangePartial(around, chance.choice(VALUES))], 2)
    context = _context()
    opened.result = lint_text(opened.configs, opened.lines, context)
    diagnostics.diagnostics(opened.result, opened.uri)
    position = opened.lines.position(chance.randrange(len(opened.text) + 1))
    hover.hover(opened, context, position)
    completion.completion(opened, context, position)
    list(links.links(opened))
    whole = types.Range(types.Position(0, 0), opened.lines.position(len(opened.text)))
    actions.actions(opened, opened.result, types.CodeActionContext([], only=["quickfix", "source"]), whole)


@cache
def _context() -> Any:
    from ds_lint.session.options import Options
    from ds_lint.session.session import Session

    return Session(Options([], isolated=True)).context("/ds_config.json")


def messages(text: str, seed: float) -> None:
    """Send broken messages to a server; it must answer one that is right all the same, and end at the request."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    sent = [_message(1, "initialize", {"processId": None, "rootUri": None, "capabilities": {}}),
            _message(None, "initialized", {})]  # fmt: skip
    sent += [_broken(chance, text) for _ in range(_AT_ONCE)]
    sent += [
        _message("last", "ds-lint/target", {"uri": ""}),
        _message("end", "shutdown", None),
        _message(None, "exit", None),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "lsp"], input=b"".join(sent), capture_output=True, timeout=60, check=False
    )
    if done.returncode != 0 or b"Traceback" in done.stderr or b'"id":"last"' not in done.stdout.replace(b" ", b""):
        raise RuntimeError(f"the server ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")


def _broken(chance: random.Random, text: str) -> bytes:
    """One message, broken somewhere."""
    uri = chance.choice(("file:///a/ds_config.json", "untitled:1", "file://[", "", "file:///a%00b.json", "x:\ud800"))
    place = {"line": chance.choice((0, 1, -1, 2**31, 10**30)), "character": chance.choice((0, 5, -1, 10**9))}
    document = {"uri": uri, "languageId": chance.choice(("json", "python", "")), "version": 1, "text": text}
    methods: dict[str, Any] = {
        "textDocument/didOpen": {"textDocument": document},
        "textDocument/didChange": {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [
            {"range": {"start": place, "end": place}, "text": "x"}, {"text": text}]},
        "textDocument/didClose": {"textDocument": {"uri": uri}},
        "textDocument/hover": {"textDocument": {"uri": uri}, "position": place},
        "textDocument/completion": {"textDocument": {"uri": uri}, "position": place},
        "textDocument/codeAction": {"textDocument": {"uri": uri}, "range": {"start": place, "end": place},
                                    "context": {"diagnostics": []}},
        "workspace/didChangeConfiguration": {"settings": {"ds-lint": {"worldSize": 8, "select": ["DS1"]}}},
        "workspace/executeCommand": {"command": "ds-lint.nothing", "arguments": [text]},
        "ds-lint/target": {"uri": uri},
        "$/cancelRequest": {"id": 7},
    }  # fmt: skip
    method = chance.choice(list(methods))
    body = json.dumps({"jsonrpc": "2.0", "id": chance.choice((1, "a", None, 1.5, [])), "method": method,
                       "params": methods[method]})  # fmt: skip
    how = chance.random()
    data = body.encode(errors="surrogatepass")
    if how < 0.4:
        changed = mutated(chance, body, [text])
        data = changed.encode(errors="surrogatepass")
    head = b"Content-Length: %d\r\n\r\n" % len(data)
    if how > 0.8:  # a head that says nothing that can be used; no body follows
        return chance.choice(tuple(_heads()))
    return head + data


def _heads() -> Iterator[bytes]:
    yield b"Content-Length: x\r\n\r\n"
    yield b"Content-Length: \r\n\r\n"
    yield b"Content-Length: 0\r\n\r\n"
    yield b"Content-Length: -5\r\n\r\n"
    yield b"Content-Length: 1.5\r\n\r\n"
    yield "Content-Length: ²\r\n\r\n".encode()
    yield b"Content-Length: 99999999999999999999999999\r\n\r\n"
    yield b"Content-Length: 99999999999\r\n\r\n"
    yield b"Nothing: 5\r\n\r\n"
    yield b"\r\n\r\n"
    yield b"Content-Type: application/vscode-jsonrpc; charset=x\r\nContent-Length: 2\r\n\r\n{}"


def _message(identity: object, method: str, params: object) -> bytes:
    content: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
    if identity is not None:
        content["id"] = identity
    if params is None:
        del content["params"]
    body = json.dumps(content).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
