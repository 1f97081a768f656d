"""The messages of the Debug Adapter Protocol, which are those of JSON-RPC under other names.

https://microsoft.github.io/debug-adapter-protocol/specification#base-protocol
"""

from __future__ import annotations

import logging
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcp_runtime.protocol.framing import OversizedMessage
from mcp_runtime.protocol.jsonrpc import Id
from mcp_runtime.protocol.models import is_object

REQUEST_FAILED: Final = -32803  # As LSP has it: for a failure without a number of its own.

_log: Final = logging.getLogger("mcp_runtime.json_rpc.debug_adapter")


class DebugAdapterMessages:
    """Writes and reads the messages of one connection.

    | here                          | JSON-RPC                       |
    |-------------------------------|--------------------------------|
    | `command`, `arguments`, `seq` | `method`, `params`, `id`       |
    | `event`, `body`               | `method`, `params`             |
    | `request_seq`, `body`         | `id`, `result`                 |
    | `success: false`, `body`      | `error`, with the body as data |
    """

    def __init__(self) -> None:
        self._last = 0  # Each message has a number, events and responses too.
        self._ids: dict[Any, Id] = {}  # Of requests that wait for a response, by their numbers.
        self._commands: dict[Any, str] = {}  # Of requests that were received: a response repeats the command.

    def write(self, message: bytes) -> bytes | None:
        """Return a message of JSON-RPC as one of this protocol; None for an error of no request, which it lacks."""
        value = from_json(message)
        if "method" not in value and value.get("id") is None:
            _log.warning("the other side sent a message that cannot be read: %s", value["error"]["message"])
            return None
        self._last += 1
        return to_json({"seq": self._last, **(self._sent(value) if "method" in value else self._response(value))})

    def forget(self, id: Id) -> None:
        """Forget a request for whose response nobody waits any more."""
        self._ids = {number: waiting for number, waiting in self._ids.items() if waiting != id}

    def _sent(self, value: dict[str, Any]) -> dict[str, Any]:
        if "id" not in value:
            body = {"body": value["params"]} if "params" in value else {}
            return {"type": "event", "event": value["method"], **body}
        self._ids[self._last] = value["id"]
        arguments = {"arguments": value["params"]} if "params" in value else {}
        return {"type": "request", "command": value["method"], **arguments}

    def _response(self, value: dict[str, Any]) -> dict[str, Any]:
        id = value["id"]
        response = {"type": "response", "request_seq": id, "command": self._commands.pop(id, "")}
        if "error" not in value:
            body = {} if value["result"] is None else {"body": value["result"]}
            return {**response, "success": True, **body}
        error = value["error"]
        data = error.get("data")
        text = error["message"]
        described = data if is_object(data) else {"error": {"id": error["code"], "format": text}}
        return {**response, "success": False, "message": text, "body": described}

    def read(self, data: bytes) -> bytes:
        """Return a message of this protocol as one of JSON-RPC; as it is, where it is none of both."""
        if isinstance(data, OversizedMessage):
            return data
        try:
            value = from_json(data)
        except ValueError:
            return data
        return to_json({"jsonrpc": "2.0", **self._received(value)}) if is_object(value) else data

    def _received(self, value: dict[str, Any]) -> dict[str, Any]:
        match value.get("type"):
            case "request":
                id, command = value.get("seq"), value.get("command")
                if isinstance(id, int) and isinstance(command, str):
                    self._commands[id] = command
                arguments = {"params": value["arguments"]} if "arguments" in value else {}
                return {"id": id, "method": command, **arguments}
            case "event":
                params = {"params": value["body"]} if "body" in value else {}
                return {"method": value.get("event"), **params}
            case "response":
                number = value.get("request_seq")
                is_known = isinstance(number, int) and number in self._ids
                # An id that no request has: the response is ignored.
                id = self._ids.pop(number) if is_known else f"request_seq {number}"
                body = value.get("body")
                if value.get("success") is True:
                    return {"id": id, "result": {} if body is None else body}
                return {"id": id, "error": _error(value.get("message"), body)}
            case kind:
                return {"id": None, "error": {"code": REQUEST_FAILED, "message": f"a message of the type {kind!r}"}}


def _error(message: object, body: object) -> dict[str, Any]:
    """Return the error of a response: its number and text are those of `body.error`, where it has one."""
    error: object = body.get("error") if is_object(body) else None
    described = error if is_object(error) else dict[str, Any]()
    text = str(described.get("format") or message or "the request failed")
    variables = described.get("variables")
    for name, value in variables.items() if is_object(variables) else ():
        text = text.replace(f"{{{name}}}", str(value))
    code = described.get("id")
    return {"code": code if isinstance(code, int) else REQUEST_FAILED, "message": text, "data": body}
