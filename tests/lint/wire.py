"""A server that says what a JSON file says, over stdio or HTTP: `python wire.py FILE [PORT]`."""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCRIPT: dict[str, Any] = {}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    result = SCRIPT["results"].get(message["method"])
    head = {"jsonrpc": "2.0", "id": message["id"]}
    if isinstance(result, dict) and message["method"] == "tools/call":
        result = result.get(message["params"]["name"])
    if isinstance(result, list):  # Pages.
        cursor = int(message["params"].get("cursor", 0))
        following = (cursor + 1) % len(result) if SCRIPT.get("cycle") else cursor + 1
        result = {**result[cursor], **({"nextCursor": str(following)} if following < len(result) else {})}
    if result is None:
        return {**head, "error": {"code": -32601, "message": f"no {message['method']}"}}
    return {**head, "result": result}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if SCRIPT.get("token") and self.headers.get("Authorization") != SCRIPT["token"]:
            self.send_response(401)
            self.end_headers()
            return
        if address := SCRIPT.get("moved"):
            self.send_response(307)
            self.send_header("Location", address)
            self.end_headers()
            return
        body = json.dumps(answer(message)) if "id" in message else ""
        events = SCRIPT.get("events", False)
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "text/event-stream" if events else "application/json")
        if message["method"] == "initialize":
            self.send_header("Mcp-Session-Id", "one")
        self.end_headers()
        while SCRIPT.get("endless") == message["method"]:
            self.wfile.write(b": alive\n\n")  # Until the client closes.
            time.sleep(0.01)
        self.wfile.write(f"event: message\ndata: {body}\n\n".encode() if events and body else body.encode())

    def log_message(self, *words: Any) -> None:
        pass


def main() -> None:
    SCRIPT.update(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if len(sys.argv) > 2:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Path(sys.argv[2]).write_text(str(server.server_port), encoding="utf-8")
        server.serve_forever()
    for line in SCRIPT.get("noise", []):
        print(line, flush=True)
    if SCRIPT.get("dies"):
        print(SCRIPT["dies"], file=sys.stderr)
        sys.exit(1)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" in message and "id" in message:
            if SCRIPT.get("asks"):
                print('{"jsonrpc": "2.0", "id": "p", "method": "ping"}', flush=True)
            print(json.dumps(answer(message)), flush=True)
    while SCRIPT.get("stays"):
        time.sleep(1)


if __name__ == "__main__":
    main()
