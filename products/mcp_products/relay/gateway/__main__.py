"""`python -m mcp_products.relay.gateway`: many servers at one endpoint, for `mcp-generated gateway`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.transports.http_server.limits import HTTPLimits
from mcp_runtime.usage.texts import plain

from ..commands import add_http_options, parse_address, run_command
from .gateway import Gateway

_FINDINGS: Final = "mcp_products.relay.gateway_check.findings"  # It reads settings as this package does.


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the client closes the connection, or until SIGINT or SIGTERM, and return 0; 1 after an error.

    With --check, return 0 for a file that is right, and 1 otherwise.
    """
    options = _parser().parse_args(arguments)
    return run_command(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.lock:
        asyncio.run(Gateway.write_lock(options.file, options.bindings))
        return 0
    if options.check and (wrong := load(_FINDINGS).check_file(options.file)):
        print(*(f"error: {plain(line)}" for line in wrong), sep="\n", file=sys.stderr)
        return 1
    gateway = Gateway(options.file, package=options.bindings)
    if not options.check:
        gateway.run(**_serving(options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mcp_products.relay.gateway", description=__doc__)
    parser.add_argument("file", help="the TOML file with the settings")
    add_http_options(parser)
    parser.add_argument("--workers", type=int, default=1, help="processes that serve over HTTP")
    parser.add_argument("--store", help="what workers share: sqlite:///FILE, redis://HOST or redis+cluster://HOST")
    parser.add_argument("--max-bytes", type=int, help="bytes of one message of a client; by default 8 MiB")
    parser.add_argument("--check", action="store_true", help="say what is wrong in the file, and exit")
    parser.add_argument("--lock", action="store_true", help="write the lock of the definitions, and exit")
    return parser


def _serving(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of `Gateway.run`. Raises LocalError for options that need --http."""
    if options.http is None:
        if options.workers > 1 or options.store is not None:
            raise LocalError("--workers and --store are those of a gateway over HTTP: pass --http HOST:PORT")
        return {} if options.max_bytes is None else {"max_bytes": options.max_bytes}
    host, port = parse_address(options.http)
    optional = {"hosts": options.hosts, "origins": options.origins, "store": options.store}
    others = {name: value for name, value in optional.items() if value is not None}
    if options.max_bytes is not None:
        others["limits"] = HTTPLimits(max_body=options.max_bytes)
    if options.workers > 1:
        others["workers"] = options.workers
    return {"transport": "http", "host": host, "port": port, "path": options.path, **others}


if __name__ == "__main__":
    sys.exit(main())
