"""What a client may send and when; whatever else it sends is answered with an error of the protocol.

pygls answers neither a message that it cannot take apart nor one that comes after ``shutdown``, and takes requests
before ``initialize``. The codes are those of https://microsoft.github.io/language-server-protocol/specification#errorCodes.
"""

from __future__ import annotations

from typing import Any

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

VERSION = "2.0"  # of JSON-RPC
MOST_COMPLAINTS = 3  # about the parameters of one message


class RefusedMessage:
    """A message that cannot be taken apart; ``id`` is that of a request, and ``is_answered`` false where none waits."""

    def __init__(self, error: JsonRpcException, identity: Any = None, *, is_answered: bool = True) -> None:
        self.error = error
        self.id = identity
        self.is_answered = is_answered


class Protocol(LanguageServerProtocol):
    """The protocol, with our own texts: pygls ends lines at characters that are not line ends for a client."""

    _server: Any  # our Server, which is made with this class
    _is_initialized = False

    def structure_message(self, data: dict[str, Any]) -> Any:
        """An object of a message, or the message itself; a refusal of one that is not as the protocol wants it."""
        if "jsonrpc" not in data:
            return data
        refusal = _invalid_request(data)
        if refusal is not None:
            return refusal
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            complaints = "; ".join(_complaints(error))
            invalid = JsonRpcInvalidParams(f"{data.get('method', 'a response')} has invalid parameters: {complaints}")
            return RefusedMessage(invalid, data.get("id"), is_answered="id" in data and "method" in data)

    def handle_message(self, message: Any) -> None:
        """Answer a message, or say why it is not answered."""
        if not hasattr(message, "jsonrpc"):
            if not isinstance(message, RefusedMessage):  # no object of JSON-RPC at all
                message = RefusedMessage(
                    JsonRpcInvalidRequest("a message is a JSON object with jsonrpc, method and params")
                )
            self.refuse(message)
            return
        error = self._untimely(getattr(message, "method", None))
        if error is not None:
            self.refuse(RefusedMessage(error, getattr(message, "id", None), is_answered=hasattr(message, "id")))
            return
        self._is_initialized = True  # by this request, if by none before
        super().handle_message(message)

    def refuse(self, refusal: RefusedMessage) -> None:
        """Answer a request with an error; a notification has no answer, so the client logs it instead."""
        error = refusal.error
        if refusal.is_answered:
            answer = {"code": error.code, "message": error.message}
            self._send_data({"jsonrpc": VERSION, "id": refusal.id, "error": answer})
        elif self._is_initialized and not self._shutdown:
            message = f"ds-lint: {error.message}; ignored"
            self._server.window_log_message(types.LogMessageParams(types.MessageType.Warning, message))

    def _untimely(self, method: str | None) -> JsonRpcException | None:
        """Why a message comes too early or too late; None where its time is right. Responses have no method."""
        if method is None or method == types.EXIT:
            return None
        if self._shutdown:
            return JsonRpcInvalidRequest(f"{method} comes after shutdown")
        if method == types.INITIALIZE:
            return JsonRpcInvalidRequest("the server is initialized already") if self._is_initialized else None
        return None if self._is_initialized else JsonRpcServerNotInitialized(f"{method} comes before initialize")

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """A text is open from now on."""
        self._server.schedule.opened(params.text_document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """A text has changed."""
        self._server.schedule.changed(params)
        self._server.runs.text_changed(params.text_document.uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """A text is no longer open."""
        self._server.schedule.closed(params.text_document.uri)
        self._server.runs.text_changed(params.text_document.uri)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """A notebook is open from now on."""
        self._server.notebooks.open(params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """The cells of a notebook have changed."""
        self._server.notebooks.change(params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """A notebook is no longer open."""
        self._server.notebooks.close(params.notebook_document.uri)


def _invalid_request(data: dict[str, Any]) -> RefusedMessage | None:
    """The refusal of what is not a message of JSON-RPC, whatever its parameters are."""
    identity = data.get("id")
    if not isinstance(identity, (int, str, type(None))):
        return RefusedMessage(JsonRpcInvalidRequest("the id of a request is a number or a string"))
    if data["jsonrpc"] != VERSION:
        return RefusedMessage(JsonRpcInvalidRequest(f'jsonrpc is "{VERSION}"'), identity)
    if "method" in data:
        is_name = isinstance(data["method"], str)
        return None if is_name else RefusedMessage(JsonRpcInvalidRequest("method is a string"), identity)
    if "result" in data or "error" in data:
        return None
    return RefusedMessage(JsonRpcInvalidRequest("a request has a method"), identity)


def _complaints(error: JsonRpcException) -> list[str]:
    """What is wrong with the parameters, each with its place."""
    cause = error.__cause__
    return transform_error(cause)[:MOST_COMPLAINTS] if cause is not None else [error.message]
