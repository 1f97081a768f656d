"""`python -m mcp_products.relay.bridge`: any client to any server. `mcp-generated bridge` becomes this process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_products.host.multi_client import read_entries
from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.framing import SizeLimit
from mcp_runtime.protocol.models import is_object
from mcp_runtime.usage.rules import shown

from ..commands import add_http_options, parse_address, run_command
from ..upstream.pool import MAX_CONNECTIONS
from ..upstream.target import Target, target_of_entry
from .service import Bridge
from .state import BridgeSettings

if TYPE_CHECKING:
    from mcp_products.hosting import run as running
    from mcp_runtime.session import serving
    from mcp_runtime.transports.http_server import limits
    from mcp_runtime.transports.stdio import server as stdio

    from . import report
else:  # Imported when they are used.
    report = LazyModule("mcp_products.relay.bridge.report")
    serving = LazyModule("mcp_runtime.session.serving")
    stdio = LazyModule("mcp_runtime.transports.stdio.server")
    running = LazyModule("mcp_products.hosting.run")
    limits = LazyModule("mcp_runtime.transports.http_server.limits")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the client closes the connection, or until SIGINT or SIGTERM, and return 0; 1 after an error."""
    options = _parser().parse_args(arguments)
    return run_command(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    target = _target(options)
    if options.report:
        return report.print_report(target, options.bindings, options.revision or ())
    settings = BridgeSettings(
        options.timeout,
        options.shared,
        options.idle,
        options.http is None,
        _count(options, "connections") or MAX_CONNECTIONS,
        _count(options, "session_connections"),
    )
    _serve(Bridge(target, options.bindings, settings), options, target.max_bytes)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mcp_products.relay.bridge", description=__doc__)
    add_http_options(parser)
    parser.add_argument("--shared", type=int, default=0, help="connections that all sessions share; 0: none is shared")
    parser.add_argument("--connections", type=int, help="connections of clients without sessions, with --http")
    parser.add_argument("--session-connections", type=int, help="connections of sessions, with --http")
    parser.add_argument("--idle", type=float, help="seconds after which an unused connection to the server ends")
    parser.add_argument("--max-bytes", type=int, help="bytes of one message of either side; by default 8 MiB")
    parser.add_argument("--timeout", type=float, help="seconds that one request may take")
    parser.add_argument("--report", action="store_true", help="print what the revisions cannot represent, and exit")
    parser.add_argument("--revision", action="append", help="with --report: a revision of clients")
    parser.add_argument("--login", action="store_true", help="log in with a browser if the server requires it")
    parser.add_argument("--tokens", type=Path, help="a file to store the tokens in")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a host's configuration file, with --server")
    parser.add_argument("--server", metavar="NAME", help="the name of a server in the configuration file")
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME:VALUE", help="a header, with ${VARIABLES}"
    )
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the command")
    parser.add_argument("words", nargs="*", help="a URL, or the words of a command")
    return parser


def _count(options: argparse.Namespace, name: str) -> int | None:
    """Return a number of connections of clients over HTTP; None if it is not set. Raises LocalError."""
    number: int | None = getattr(options, name)
    if number is not None and (number < 1 or options.http is None):
        option = f"--{name.replace('_', '-')}"
        raise LocalError(f"{option} is a number above 0, for clients over HTTP: pass --http too")
    return number


def _target(options: argparse.Namespace) -> Target:
    """Return the target that the arguments name. Raises LocalError."""
    words: list[str] = options.words
    entry: dict[str, Any]
    if options.config is not None or options.server is not None:
        if words or options.config is None or options.server is None:
            raise LocalError("pass --config FILE and --server NAME, and neither a URL nor a command")
        entries = read_entries(options.config)
        if options.server not in entries:
            raise LocalError(f"{options.config} has no server {options.server!r}; its servers: {', '.join(entries)}")
        if not is_object(entry := entries[options.server]):
            raise LocalError(f"{options.config}: {options.server!r} is not an object: {shown(entry)}")
    elif words and words[0].startswith(("http://", "https://")):
        if words[1:]:
            raise LocalError(f"pass the URL of a server alone, or a command alone: {shown(words[1])} is after the URL")
        entry = {"url": words[0]}
    elif words:
        entry = {"command": words[0], "args": words[1:]}
    else:
        raise LocalError("pass the URL of a server, or -- and the words of its command")
    of_url = {"--header": options.header, "--login": options.login, "--tokens": options.tokens}
    kind, others = ("URL", of_url) if "command" in entry else ("command", {"--env": options.env})
    if (wrong := next((name for name, value in others.items() if value), None)) is not None:
        raise LocalError(f"{wrong} is for a server with a {kind}: leave it out")
    named = {"headers": _named(options.header, ":", "--header"), "env": _named(options.env, "=", "--env")}
    for key, values in named.items():
        own: Any = entry.get(key) or {}
        if values and is_object(own):  # What is not an object is refused with the rest of the entry.
            entry = {**entry, key: {**own, **values}}
    if options.max_bytes is not None:
        entry = {**entry, "max_bytes": options.max_bytes}
    target = target_of_entry(entry)
    return replace(target, login=options.login, tokens=options.tokens) if target.url else target


def _named(texts: Sequence[str], separator: str, option: str) -> dict[str, str]:
    """Return the names and values of texts such as `Name: value`. Raises LocalError."""
    parts = [text.partition(separator) for text in texts]
    if wrong := next((text for text, (name, _, value) in zip(texts, parts, strict=True) if not (name and value)), None):
        raise LocalError(f"{option}: {wrong.partition(separator)[0]!r} needs the form NAME{separator}VALUE")
    return {name.strip(): value.strip() for name, _, value in parts}


def _serve(bridge: Bridge, options: argparse.Namespace, max_bytes: int) -> None:
    if options.http is None:
        candidates = bridge.candidates()
        limit = SizeLimit(max_bytes, "--max-bytes of the bridge")
        stdio.run_server(lambda transport: serving.serve(candidates, transport), limit)
        return

    host, port = parse_address(options.http)
    if not options.path.startswith("/"):
        raise LocalError(f"--path: {shown(options.path)} must begin with a slash, such as /mcp")
    running.serve_with_uvicorn(
        bridge.services(),
        host=host,
        port=port,
        path=options.path,
        hosts=options.hosts,
        origins=options.origins,
        limits=limits.HTTPLimits(max_body=max_bytes),
        legacy_sse=True,
    )


if __name__ == "__main__":
    sys.exit(main())
