"""A minimal ASGI application: read the body, parse it, respond. The port is the argument."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from pydantic_core import from_json, to_json

HEADERS = [(b"content-type", b"application/json"), (b"mcp-session-id", b"bare")]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Respond to any request with its text."""
    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message["body"]
        more = message.get("more_body", False)
    request = from_json(body)
    text = request.get("params", {}).get("arguments", {}).get("text", "")
    result = {"content": [{"type": "text", "text": text}]}
    response = to_json({"jsonrpc": "2.0", "id": request.get("id"), "result": result})
    head = [*HEADERS, (b"content-length", b"%d" % len(response))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": response})


uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning", backlog=4096)
