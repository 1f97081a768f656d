"""A mock of one side that answers with valid generated data, and a check of all methods of a server.

Nothing here does any I/O; see `stdio`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from ..errors import Json, is_list, is_object
from ..model.ir import Method, Side
from .messages import MessageFactory

_SKIPPED_ROLES: Final = frozenset({"initialize_request", "initialized", "listen", "cancelled", "progress"})
_VOWELS: Final = frozenset("AEIOU")
_CURSOR: Final = "cursor"
_NEXT: Final = "nextCursor"


class Mock:
    """One side of a connection, which answers every request of the other side with valid generated data."""

    def __init__(self, side: Side, messages: MessageFactory) -> None:
        revision = messages.revision
        direction = "client_to_server" if side == "server" else "server_to_client"
        self.messages = messages
        self._rows = {
            row.method: row for row in revision.methods if row.direction == direction and row.kind != "input_request"
        }

    def respond(self, message: Json) -> Json | None:
        """Return the response to a message, or None for a message without one. A batch is answered by a batch."""
        if is_list(message) and self.messages.revision.batches:
            responses = [response for item in message if (response := self._one(item)) is not None]
            return responses or None
        return self._one(message)

    def _one(self, message: Json) -> Json | None:
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            return self.error_response(None, "INVALID_REQUEST", "not a JSON-RPC message")
        if "method" not in message or "id" not in message:
            return None
        row = self._rows.get(str(message["method"]))
        if row is None or row.kind == "notification":
            return self.error_response(
                message["id"], "METHOD_NOT_FOUND", f"{message['method']!r} is not a request of this side"
            )
        if violation := self.check_params(row, message):
            return self.error_response(message["id"], "INVALID_PARAMS", violation)
        result = self.messages.result(row)
        if _CURSOR in (message.get("params") or {}):
            result.pop(_NEXT, None)  # The second page is the last, so that paging ends.
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def check_params(self, row: Method, message: dict[str, Any]) -> str:
        """Return a description of the first violation in a message of a row, or an empty string."""
        violation = self.messages.first_violation(row.type, message)
        return violation.describe if violation is not None else ""

    def error_response(self, id: Json, code: str, message: str) -> dict[str, Any]:
        """Return an error response by the name of its code in the schema."""
        error = {"code": self.messages.revision.constants[code], "message": message}
        return {"jsonrpc": "2.0", "id": id, "error": error}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one request: `passed` if the response is valid by the schema, or an error."""

    method: str
    passed: bool
    text: str


# The check yields each message to send, and is sent the response to it, if there is one.
MethodChecks = Generator[dict[str, Any], Json, list[Verdict]]


def check_all_methods(messages: MessageFactory) -> MethodChecks:
    """As a client, initialize the connection, then send every declared request and every notification."""
    roles = messages.revision.lifecycle.roles
    by_method = {row.method: row for row in messages.revision.methods if row.direction == "client_to_server"}
    first_row = by_method[roles.get("initialize_request") or roles["discover"]]
    response = yield messages.request(first_row, 0)
    verdicts = [_verdict(messages, first_row, response)]
    if not verdicts[0].passed or "result" not in response:
        return verdicts
    declared = response["result"].get("capabilities", {})
    if "initialized" in roles:
        yield messages.request(by_method[roles["initialized"]], 0)
    skipped = {roles[role] for role in _SKIPPED_ROLES if role in roles} | {first_row.method}
    # Notifications come first: requests that a server sends because of them are answered during the rest.
    rows = sorted(by_method.values(), key=lambda row: row.kind != "notification")
    for id, row in enumerate((row for row in rows if row.method not in skipped), start=1):
        if not _is_declared(row, declared):
            verdicts.append(Verdict(row.method, True, f"not sent: {row.capability} is not declared"))
        elif row.kind == "notification":
            yield messages.request(row, id)
        else:
            message = messages.request(row, id)
            message.get("params", {}).pop(
                _CURSOR, None
            )  # The first page always exists; only the server can create other cursors.
            response = yield message
            verdicts.append(_verdict(messages, row, response))
    return verdicts


def _is_declared(row: Method, declared: Json) -> bool:
    """Return True if the server declared the capability that this message needs."""
    side, *path = row.capability.split(".")
    at = declared
    for segment in path if side == "server" else ():
        at = at.get(segment) if is_object(at) else None
    return at is not None and at is not False


def _verdict(messages: MessageFactory, row: Method, response: Json) -> Verdict:
    """Return the verdict on a response: an error, or a result that is valid for one of the result types."""
    error = response.get("error")
    if is_object(error) and "result" not in response:
        is_valid = type(error.get("code")) is int and isinstance(error.get("message"), str)
        return Verdict(row.method, is_valid, f"error {error.get('code')}: {error.get('message')}")
    names = [row.result or "", *(interim.type for interim in row.interim)]
    violations = [messages.first_violation(name, response.get("result")) for name in names]
    if any(violation is None for violation in violations):
        name = names[violations.index(None)]
        return Verdict(row.method, True, _with_article(name))
    return Verdict(
        row.method,
        False,
        f"not {_with_article(names[0])}: {violations[0].describe if violations[0] is not None else ''}",
    )


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in _VOWELS else 'a'} {name}"
