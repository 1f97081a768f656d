"""What the commands of bridges and gateways have in common: the options of HTTP, and how they end."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from typing import Final

from mcp_runtime.errors import LocalError, MCPError
from mcp_runtime.usage.rules import check_variables
from mcp_runtime.usage.texts import plain

_THIS_MACHINE: Final = "127.0.0.1"


def run_command(serve: Callable[[], int]) -> int:
    """Return the exit code of a command: what `serve` returns, or 1 after an error, which is printed."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        check_variables()
        return serve()
    except KeyboardInterrupt:
        return 130  # The exit code of shells for SIGINT.
    except (MCPError, OSError, ImportError) as error:
        print(f"error: {plain(' '.join(str(error).split()))}", file=sys.stderr)
        return 1


def add_http_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an endpoint over HTTP, and the package of the revisions."""
    parser.add_argument("--bindings", default="mcp_generated", help="the generated package with the revisions")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP; by default over stdio")
    parser.add_argument("--path", default="/mcp", help="the path of the endpoint")
    parser.add_argument("--allow-host", action="append", dest="hosts", help="a value of the Host header to accept")
    parser.add_argument("--allow-origin", action="append", dest="origins", help="an origin of web pages to accept")


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of `host:port`, `:port` or `port`; without a host, that of this machine.

    Raises LocalError for another text.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise LocalError(f"--http needs HOST:PORT, such as 127.0.0.1:8000, not {text!r}")
    return host.strip("[]") or _THIS_MACHINE, int(port)
