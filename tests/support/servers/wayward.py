"""A server over stdio that does one thing wrong with one method: `python wayward.py WRONG METHOD`."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

WRONG, METHOD = sys.argv[1:3] if len(sys.argv) > 2 else ("nothing", "")
LISTS = {
    "tools/list": ("tools", lambda name: {"name": name, "inputSchema": {"type": "object"}}),
    "prompts/list": ("prompts", lambda name: {"name": name}),
    "resources/list": ("resources", lambda name: {"name": name, "uri": f"note://{name}"}),
    "resources/templates/list": (
        "resourceTemplates",
        lambda name: {"name": name, "uriTemplate": f"all://{name}/{{x}}"},
    ),
}
WITHOUT_CONTENT = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
_count = itertools.count()


def page(method: str, cursor: str | None) -> dict[str, Any]:
    """Return a page of a list."""
    name, item = LISTS[method]
    if method != METHOD or WRONG == "changes":
        return {name: [item("own")]}
    if WRONG == "many":
        return {name: [item(f"n{number}") for number in range(20_000)]}
    items = [item(f"n{next(_count)}")]
    if WRONG == "big":
        items[0]["description"] = "x" * 2_000_000
    if WRONG == "circle":
        return {name: items, "nextCursor": "b" if cursor == "a" else "a"}
    return {name: items, "nextCursor": f"c{next(_count)}"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None for an unknown one."""
    if method == "initialize":
        kinds = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {**kinds, "logging": {}},
            "serverInfo": {"name": "wayward", "version": "1"},
        }
    if method in LISTS:
        return page(method, params.get("cursor"))
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"called {params['name']}"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"read {params['uri']}"}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "got"}}]}
    if method == "completion/complete":
        return {"completion": {"values": ["completed"]}}
    return {} if method in WITHOUT_CONTENT else None


def send(**message: Any) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method = message.get("method", "")
        print(method, json.dumps(message.get("params", {})), file=sys.stderr, flush=True)
        if "id" not in message or not method:
            continue
        if WRONG == "hangs" and method == METHOD:
            continue
        if WRONG == "fails" and method == METHOD:
            send(id=message["id"], error={"code": -32603, "message": "out of order"})
            continue
        result = answer(method, message.get("params", {}))
        if result is None:
            send(id=message["id"], error={"code": -32601, "message": "unknown"})
            continue
        send(id=message["id"], result=result)
        if WRONG == "changes" and method == METHOD:
            for _ in range(3000):
                send(method="notifications/tools/list_changed")


if __name__ == "__main__":
    main()
