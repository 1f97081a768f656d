"""Servers over HTTP that note the heads of the requests that they get."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

VERSION = "2026-07-28"


class Recording(BaseHTTPRequestHandler):
    """A server of the newest revision that notes the heads of requests; `elsewhere` is the URL of another one."""

    heads: list[dict[str, str]]
    tools: ClassVar[list[dict[str, Any]]] = []
    elsewhere: str = ""
    url: str = ""

    def do_POST(self) -> None:
        """Answer a request with a result, or with a redirect to another server."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.heads.append({name.lower(): value for name, value in self.headers.items()})
        if message["method"] == "tools/call" and message["params"]["name"] == "redirect":
            self.send_response(307)
            self.send_header("location", self.elsewhere)
            self.end_headers()
            return
        link = {"type": "resource_link", "uri": self.elsewhere, "name": "link"}
        content = [link] if message.get("params", {}).get("name") == "link" else []
        result: dict[str, Any] = {"resultType": "complete", "content": content, "ttlMs": 0, "cacheScope": "private"}
        result |= {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, "tools": self.tools}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""

    def do_GET(self) -> None:
        """Note a request for anything else, and refuse it."""
        self.heads.append({"path": self.path})
        self.send_error(404)


@contextmanager
def recording_servers() -> Iterator[tuple[type[Recording], type[Recording]]]:
    """Yield the handlers of two servers: the first one redirects and links to the second."""
    running: list[ThreadingHTTPServer] = []
    handlers = [type(name, (Recording,), {"heads": []}) for name in ("Upstream", "Other")]
    for handler in handlers:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        handler.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    handlers[0].elsewhere = handlers[1].url
    try:
        yield handlers[0], handlers[1]
    finally:
        for server in running:
            server.shutdown()
