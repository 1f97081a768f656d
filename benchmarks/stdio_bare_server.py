"""The limit of the benchmark: lines in, parsed with the json module, answered at once; no protocol, nothing checked.

What arrives together is answered together, so that no server in Python which parses each message can do with less.
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
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    if method == "initialize":
        about = {"name": "echo", "version": "1.0"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    return {"tools": [TOOL]} if method == "tools/list" else {}


def main() -> None:
    rest = b""
    while data := os.read(0, 1 << 17):
        *lines, rest = (rest + data).split(b"\n")
        answers: list[str] = []
        for line in lines:
            asked = json.loads(line)
            if "id" in asked:
                answer = result(asked["method"], asked.get("params", {}))
                answers.append(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}) + "\n")
        left = memoryview("".join(answers).encode())
        while left:
            left = left[os.write(1, left) :]


main()
