"""Messages from one side go in, valid generated answers of the other come out; and a tour that asks a server everything.

Nothing here reads or writes: `stdio` does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..json_types import is_list, is_object
from ..model.ir import Method
from .instances import Json
from .messages import Messages

Side = Literal["client", "server"]

_UNASKED: Final = frozenset({"initialize_request", "initialized", "listen", "cancelled", "progress"})
_VOWELS: Final = frozenset("AEIOU")
_CURSOR: Final = "cursor"
_NEXT: Final = "nextCursor"


class Mock:
    """One side of a conversation, which answers whatever the other may ask with valid generated data."""

    def __init__(self, side: Side, messages: Messages) -> None:
        revision = messages.revision
        other = "client_to_server" if side == "server" else "server_to_client"
        self.messages = messages
        self._rows = {
            row.method: row for row in revision.methods if row.direction == other and row.kind != "input_request"
        }

    def answer(self, message: Json) -> Json | None:
        """What goes back for a message, or None where nothing does. A list of messages is answered by a list."""
        if is_list(message) and self.messages.revision.batches:
            answers = [answer for each in message if (answer := self._one(each)) is not None]
            return answers or None
        return self._one(message)

    def _one(self, message: Json) -> Json | None:
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            return self.refuse(None, "INVALID_REQUEST", "this is no JSON-RPC message")
        if "method" not in message or "id" not in message:
            return None
        row = self._rows.get(str(message["method"]))
        if row is None or row.kind == "notification":
            return self.refuse(message["id"], "METHOD_NOT_FOUND", f"{message['method']!r} is no request to this side")
        if fault := self.check_params(row, message):
            return self.refuse(message["id"], "INVALID_PARAMS", fault)
        result = self.messages.result(row)
        if _CURSOR in (message.get("params") or {}):
            result.pop(_NEXT, None)  # The second page is the last, so that no reader turns pages for ever.
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def check_params(self, row: Method, message: dict[str, Any]) -> str:
        """What is wrong with a message of a row, empty for nothing."""
        fault = self.messages.first_violation(row.type, message)
        return fault.describe if fault is not None else ""

    def refuse(self, id: Json, code: str, message: str) -> dict[str, Any]:
        """An error by the name of its code in the schema."""
        error = {"code": self.messages.revision.constants[code], "message": message}
        return {"jsonrpc": "2.0", "id": id, "error": error}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one request of the tour was answered: `is_right` if the answer is what the schema says, or an error."""

    method: str
    is_right: bool
    text: str


# What the tour does: it sends each message it yields, and is sent the answer where there is one.
MethodChecks = Generator[dict[str, Any], Json, list[Verdict]]


def check_all_methods(messages: Messages) -> MethodChecks:
    """As a client: open the conversation, then ask all that the server has declared, and tell all there is to tell."""
    roles = messages.revision.lifecycle.roles
    by_method = {row.method: row for row in messages.revision.methods if row.direction == "client_to_server"}
    opening = by_method[roles.get("initialize_request") or roles["discover"]]
    answer = yield messages.request(opening, 0)
    verdicts = [_verdict(messages, opening, answer)]
    if not verdicts[0].is_right or "result" not in answer:
        return verdicts
    declared = answer["result"].get("capabilities", {})
    if "initialized" in roles:
        yield messages.request(by_method[roles["initialized"]], 0)
    left_out = {roles[role] for role in _UNASKED if role in roles} | {opening.method}
    # Notifications come first, so that what they make a server ask is answered while it answers the rest.
    rows = sorted(by_method.values(), key=lambda row: row.kind != "notification")
    for id, row in enumerate((row for row in rows if row.method not in left_out), start=1):
        if not _may(row, declared):
            verdicts.append(Verdict(row.method, True, f"not asked: {row.capability} is not declared"))
        elif row.kind == "notification":
            yield messages.request(row, id)
        else:
            message = messages.request(row, id)
            message.get("params", {}).pop(
                _CURSOR, None
            )  # The first page is there; any other cursor is not ours to make.
            answer = yield message
            verdicts.append(_verdict(messages, row, answer))
    return verdicts


def _may(row: Method, declared: Json) -> bool:
    side, *path = row.capability.split(".")
    at = declared
    for segment in path if side == "server" else ():
        at = at.get(segment) if is_object(at) else None
    return at is not None and at is not False


def _verdict(messages: Messages, row: Method, answer: Json) -> Verdict:
    error = answer.get("error")
    if is_object(error) and "result" not in answer:
        right = type(error.get("code")) is int and isinstance(error.get("message"), str)
        return Verdict(row.method, right, f"error {error.get('code')}: {error.get('message')}")
    names = [row.result or "", *(interim.type for interim in row.interim)]
    faults = [messages.first_violation(name, answer.get("result")) for name in names]
    if any(fault is None for fault in faults):
        name = names[faults.index(None)]
        return Verdict(row.method, True, f"{'an' if name[:1] in _VOWELS else 'a'} {name}")
    return Verdict(row.method, False, f"no {names[0]}: {faults[0].describe if faults[0] is not None else ''}")
