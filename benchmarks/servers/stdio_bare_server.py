"""The lower limit of the benchmark: parse lines with the json module and respond, without protocol and validation.

Lines that arrive in one read get their responses in one write, so that no Python server that parses each message needs
less.
"""

from __future__ import annotations

import json
import os
from typing import Any

TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    if method == "initialize":
        server_info = {"name": "echo", "version": "1.0"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server_info}
    return {"tools": [TOOL]} if method == "tools/list" else {}


def main() -> None:
    """Serve until the end of the input."""
    rest = b""
    while data := os.read(0, 1 << 17):
        *lines, rest = (rest + data).split(b"\n")
        responses: list[str] = []
        for line in lines:
            request = json.loads(line)
            if "id" in request:
                value = result(request["method"], request.get("params", {}))
                responses.append(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}) + "\n")
        remaining = memoryview("".join(responses).encode())
        while remaining:
            remaining = remaining[os.write(1, remaining) :]


main()
