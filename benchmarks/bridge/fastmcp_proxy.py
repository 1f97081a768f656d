"""FastMCP's proxy: to a command or a URL, over stdio, or over HTTP at the port of `--port`."""

from __future__ import annotations

import sys
from typing import Any

from fastmcp.server import create_proxy


def main(words: list[str]) -> None:
    """Serve the proxy until the client ends it."""
    port = 0
    if words[0] == "--port":
        port, words = int(words[1]), words[2:]
    target: dict[str, Any] = (
        {"url": words[0]} if words[0].startswith("http") else {"command": words[0], "args": words[1:]}
    )
    proxy = create_proxy({"mcpServers": {"echo": target}}, name="proxy")
    if port:
        proxy.run("http", port=port, show_banner=False, log_level="error")
    else:
        proxy.run("stdio", show_banner=False, log_level="error")


main(sys.argv[1:])
