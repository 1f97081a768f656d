"""A bare echo over HTTP: parse the body, and respond. The port is the argument; 0 is a free one, which is printed."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


def response(body: bytes) -> bytes:
    """Return the response to a message."""
    message: dict[str, Any] = json.loads(body)
    if "id" not in message:
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    match message["method"]:
        case "tools/call":
            result: dict[str, Any] = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
        case "initialize":
            details = {"name": "echo", "version": "1.0"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": details}
        case "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            result = {"tools": [{"name": "echo", "inputSchema": schema}]}
        case _:
            result = {}
    data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the requests of one connection."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].partition("\r\n")[0] or 0)
            body = await reader.readexactly(length)
            is_post = head.startswith("post")
            writer.write(response(body) if is_post else b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
