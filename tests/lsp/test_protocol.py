"""What is not as the protocol wants it is answered with its error; no log asks to report it, and the server goes on."""

from __future__ import annotations

import pytest

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, NOT_INITIALIZED = -32700, -32600, -32601, -32602, -32002

HOVER = {"textDocument": {"uri": "file:///nowhere.json"}, "position": {"line": 0, "character": 0}}
TYPO = '{"zero_optimization": {"stage": 2}, "gradient_cliping": 1.0}'

MALFORMED = {  # requests by what is wrong with them, with the code of the answer
    "no parameters": ("textDocument/hover", None, INVALID_PARAMS),
    "an array": ("textDocument/hover", [], INVALID_PARAMS),
    "another type": ("textDocument/hover", {**HOVER, "textDocument": 3}, INVALID_PARAMS),
    "no position": ("textDocument/completion", {"textDocument": {"uri": "file:///a.json"}}, INVALID_PARAMS),
    "a position in words": ("textDocument/hover", {**HOVER, "position": {"line": "a", "character": 0}}, INVALID_PARAMS),
    "a line before the first": (
        "textDocument/hover",
        {**HOVER, "position": {"line": -1, "character": 0}},
        INVALID_PARAMS,
    ),
    "no range": ("textDocument/codeAction", {"textDocument": {"uri": "file:///a.json"}}, INVALID_PARAMS),
    "no address": ("ds-lint/target", {}, INVALID_PARAMS),
    "an address that is none": ("ds-lint/target", {"uri": 3}, INVALID_PARAMS),
    "no rule": ("ds-lint/explain", [7], INVALID_PARAMS),
    "no method of ours": ("textDocument/rename", {}, INVALID_PARAMS),
    "no method of the protocol": ("ds-lint/nothing", {}, METHOD_NOT_FOUND),
    "a second beginning": ("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, INVALID_REQUEST),
    "a method that is not a name": (5, {}, INVALID_REQUEST),
}


def complains(client):
    return [one for one in client.logged() if "report" in one or "Traceback" in one]


def still_answers(client, name="ds_config.json"):
    client.open(name, TYPO)
    found = client.diagnostics(name)
    client.close(name)
    return "DS101" in [one["code"] for one in found] and not complains(client)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_answered_with_the_code_for_it(client, name):
    method, params, code = MALFORMED[name]
    error = client.error(client.start_request(method, params))
    assert error["code"] == code
    assert str(method) in error["message"] or code == INVALID_REQUEST
    assert "traceback" not in error.get("data", {})
    assert still_answers(client)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/didOpen", {"textDocument": {}}),
        (
            "textDocument/didOpen",
            {"textDocument": {"uri": "file://[", "languageId": "json", "version": 1, "text": TYPO}},
        ),
        (
            "textDocument/didOpen",
            {"textDocument": {"uri": "file:///%00", "languageId": "json", "version": 1, "text": "{"}},
        ),
        ("textDocument/didChange", {"textDocument": {"uri": 3}, "contentChanges": 5}),
        ("textDocument/didClose", None),
        ("workspace/didChangeConfiguration", None),
        ("workspace/didChangeConfiguration", {"settings": {"ds-lint": 5}}),
        ("$/cancelRequest", {}),
        ("ds-lint/nothing", {}),
    ],
)
def test_a_malformed_notification_has_no_answer_and_does_no_harm(client, method, params):
    client.send({"method": method, "params": params})
    assert still_answers(client)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{bad}", PARSE_ERROR),
        (b"\xff\xfe\xfd\xfc", PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b"123", INVALID_REQUEST),
        (b'{"method": "textDocument/hover", "id": 1}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "foo": 1}', INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "shutdown"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": [], "method": "shutdown"}', INVALID_REQUEST),
    ],
)
def test_what_is_no_message_is_answered_as_such(client, body, code):
    client.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    client.process.stdin.flush()
    while "error" not in (answer := client.messages.get(timeout=20)):
        pass
    assert answer["error"]["code"] == code
    assert "id" in answer
    assert still_answers(client)


@pytest.mark.parametrize("length", [b"99999999999", b"9" * 5000, b"100000000", b"-5", b"x", b"0", "²".encode(), b""])
def test_a_length_that_no_message_has_does_no_harm(client, length):
    client.process.stdin.write(b"Content-Length: %s\r\n\r\n" % length)
    client.process.stdin.flush()
    assert still_answers(client)


def test_before_it_is_initialized_the_server_answers_nothing_else(start):
    client = start()
    assert client.error(client.start_request("textDocument/hover", HOVER))["code"] == NOT_INITIALIZED
    assert client.error(client.start_request("shutdown", None))["code"] == NOT_INITIALIZED
    client.notify("textDocument/didOpen", textDocument={"uri": "file:///early.json", "languageId": "json",
                                                        "version": 1, "text": TYPO})  # fmt: skip
    client.initialize()
    assert still_answers(client)
    assert client.end() == 0


def test_after_shutdown_every_request_is_refused(start):
    client = start().initialize()
    client.request("shutdown")
    for method, params in (("textDocument/hover", HOVER), ("shutdown", None), ("ds-lint/target", {"uri": ""})):
        assert client.error(client.start_request(method, params))["code"] == INVALID_REQUEST
    client.notify("textDocument/didClose", textDocument={"uri": "file:///late.json"})
    client.notify("exit")
    assert client.process.wait(20) == 0
    assert not complains(client)


def test_a_text_that_is_not_open_has_no_answer_whatever_is_asked(client):
    document = {"textDocument": {"uri": "file:///nowhere.json"}}
    everything = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    assert client.request("textDocument/hover", **HOVER) is None
    assert client.request("textDocument/completion", **HOVER) is None
    assert client.request("textDocument/documentLink", **document) == []
    assert client.request("textDocument/codeAction", **document, range=everything, context={"diagnostics": []}) == []
    assert still_answers(client)
