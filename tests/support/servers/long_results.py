"""A server over stdio whose result of one method is long: `long_results.py VERSION METHOD PROPERTY ITEM BYTES`.

The property is a list of the item, in which NUMBER stands for another number each time.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def long_list(item: str, size: int) -> bytes:
    """A list of about so many bytes."""
    items = [item.replace("NUMBER", str(number)) for number in range(size // len(item))]
    return f"[{','.join(items)}]".encode()


def main(version: str, method: str, name: str, item: str, size: str) -> None:
    """Answer until the end of the input."""
    server = {"serverInfo": {"name": "long", "version": "1"}, "capabilities": {"tools": {}}}
    other: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "content": [], "tools": []}
    openings = {
        "initialize": {"protocolVersion": version, **server},
        "server/discover": {**other, "supportedVersions": [version], **server},
    }
    long = long_list(item, int(size))
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = openings.get(message["method"], other | ({name: "LONG"} if message["method"] == method else {}))
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        sys.stdout.buffer.write(answer.replace(b'"LONG"', long) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
