"""Messages of many kinds, of every version and of any size, well-formed and hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS: Final = ("2026-07-28",)
REVISIONS: Final = (*HANDSHAKE, *STATELESS)
# Messages with these names are measured in the large sizes as well: those with params of their own, and batches.
LARGE: Final = 1_000_000  # Bytes.
LARGE_ONES: Final = ("tools/call", "subscriptions/listen", "initialize", "a batch")
_META: Final = "io.modelcontextprotocol/"
_PROMPT: Final = {"type": "ref/prompt", "name": "greet"}

# The messages that a client sends, by name: the method and the params. Those with an id are requests.
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "ping": {},
    "tools/list": {},
    "tools/call": {"name": "echo", "arguments": {"text": "x"}},
    "prompts/list": {},
    "prompts/get": {"name": "greet", "arguments": {"who": "x"}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "test://a"},
    "completion/complete": {"ref": _PROMPT, "argument": {"name": "who", "value": ""}},
    "no/such": {},
}
_CLIENT: Final = {"name": "attack", "version": "1"}
OF_SESSIONS: Final[dict[str, dict[str, Any]]] = {
    "initialize": {"protocolVersion": "", "capabilities": {}, "clientInfo": _CLIENT},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "test://a"},
    "notifications/progress": {"progressToken": 1, "progress": 1},
    "notifications/cancelled": {"requestId": 99},
    "notifications/roots/list_changed": {},
}
OF_STATELESS: Final[dict[str, dict[str, Any]]] = {"server/discover": {}, "subscriptions/listen": {"notifications": {}}}

# What fills a message: well-formed metadata, and what no schema allows. `{}` is the place of the params of the kind.
WELL_FORMED: Final = ("text", "escaped text", "members", "numbers", "nested arrays")
HOSTILE: Final = ("an array for the params", "unknown members", "wrong items", "integers of 300 digits", "a cut end")
# Arguments of tools that are no good: the tool, and the JSON of one item of its `values`.
ARGUMENTS: Final = {
    "strings for integers": ("numbers", '"a"'),
    "1e308 for integers": ("numbers", "1e308"),
    "integers": ("numbers", "12345678"),
    "objects without properties": ("people", "{}"),
    "people": ("people", '{"name":"somebody","marks":[1,2,3]}'),
    "no branch of a union": ("choices", '{"a":1}'),
}


@dataclass(frozen=True)
class Attack:
    """One message: its version and name, what fills it, and how to make it with about so many bytes."""

    revision: str
    name: str
    filling: str
    method: str
    tool: str
    make: Callable[[int], bytes]

    @property
    def is_hostile(self) -> bool:
        """True if no schema allows it."""
        return self.filling not in (*WELL_FORMED, "integers", "people")


def attacks(revision: str) -> list[Attack]:
    """Return all messages of a version."""
    kinds = REQUESTS | (OF_STATELESS if revision in STATELESS else OF_SESSIONS)
    if revision in STATELESS:
        kinds = {name: params for name, params in kinds.items() if name != "ping"}
    result: list[Attack] = []
    for method, params in kinds.items():
        if "protocolVersion" in params:
            params = {**params, "protocolVersion": revision}
        for filling in (*WELL_FORMED, *HOSTILE):
            result.append(_filled(revision, method, params, filling))
    for filling, (tool, item) in ARGUMENTS.items():
        result.append(_called(revision, filling, tool, item))
    if revision == "2025-03-26":
        result += [_batch(revision, "a batch of numbers", "1"), _batch(revision, "a batch of objects", "{}")]
        result.append(_batch(revision, "a batch of pings", '{"jsonrpc":"2.0","id":1,"method":"ping"}'))
    return result


def opening(revision: str) -> bytes:
    """Return the request that opens a session."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": _CLIENT}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def headers_of(attack: Attack, session: str | None) -> list[tuple[bytes, bytes]]:
    """Return the headers of a good client."""
    fields = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    if attack.method == "initialize":
        session = None
    else:
        fields["mcp-protocol-version"] = attack.revision
    if session is not None:
        fields["mcp-session-id"] = session
    if attack.revision in STATELESS:
        fields["mcp-method"] = attack.method
        named = {"tools/call": attack.tool or "echo", "prompts/get": "greet", "resources/read": "test://a"}
        if attack.method in named:
            fields["mcp-name"] = named[attack.method]
    return [(name.encode(), value.encode()) for name, value in fields.items()]


def _meta(revision: str) -> dict[str, Any]:
    if revision not in STATELESS:
        return {}
    return {f"{_META}protocolVersion": revision, f"{_META}clientInfo": _CLIENT, f"{_META}clientCapabilities": {}}


def _envelope(revision: str, method: str, params: dict[str, Any], mark: str) -> tuple[str, str]:
    """Return the text of a message before and after a place in its metadata."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if not method.startswith("notifications/"):
        message["id"] = 1
    message["params"] = {"_meta": {**_meta(revision), "com.example/x": mark}, **params}
    before, _, after = json.dumps(message, separators=(",", ":")).partition(f'"{mark}"')
    return before, after


def _items(item: str, size: int) -> str:
    return ",".join([item] * max(1, size // (len(item) + 1)))


def _members(size: int) -> str:
    return ",".join(f'"com.example/{index:07d}":1' for index in range(max(1, size // 24)))


def _filled(revision: str, method: str, params: dict[str, Any], filling: str) -> Attack:
    before, after = _envelope(revision, method, params, "MARK")
    wrong = _envelope(revision, method, {**params, (*params, "cursor")[max(len(params) - 1, 0)]: ["ITEMS"]}, "MARK")
    start, _, end = "1".join(wrong).partition('"ITEMS"')
    params_at = before.index('"params":') + len('"params":')

    def make(size: int) -> bytes:
        match filling:
            case "text":
                value = '"' + "text, " * (size // 6) + '"'
            case "escaped text":
                value = '"' + '\\",' * (size // 3) + '"'
            case "members":
                value = "{" + _members(size) + "}"
            case "numbers":
                value = "[" + _items("12345.5", size) + "]"
            case "nested arrays":
                value = "[" + _items("[[[]]]", size) + "]"
            case "integers of 300 digits":
                value = "[" + _items("9" * 300, size) + "]"
            case "an array for the params":
                return f"{before[:params_at]}[{_items('1', size)}]}}".encode()
            case "unknown members":
                return f"{before}1}},{_members(size)}{after[1:]}".encode()  # The first brace ends the metadata.
            case "wrong items":
                return f"{start}{_items(chr(34) * 2, size)}{end}".encode()
            case _:  # A cut end.
                return f"{before}[{_items('[1]', size)}".encode()
        return f"{before}{value}{after}".encode()

    return Attack(revision, method, filling, method, "", make)


def _called(revision: str, filling: str, tool: str, item: str) -> Attack:
    params = {"name": tool, "arguments": {"values": ["ITEMS"]}}
    before, after = _envelope(revision, "tools/call", params, "MARK")
    start, _, end = f'{before}"x"{after}'.partition('"ITEMS"')

    def make(size: int) -> bytes:
        return f"{start}{_items(item, size)}{end}".encode()

    return Attack(revision, "tools/call", filling, "tools/call", tool, make)


def _batch(revision: str, filling: str, item: str) -> Attack:
    return Attack(revision, "a batch", filling, "", "", lambda size: f"[{_items(item, size)}]".encode())
