"""`python -m mcp_runtime.bridge`: connect any client to any server. `mcp-codegen bridge` becomes this process."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bindings.hosts.configuration import read_entries
from ..errors import LocalError, MCPError
from ..http.addresses import parse_address
from ..protocol.framing import SizeLimit
from ..usage.terminal import plain
from .bridge_service import Bridge
from .relay.bridge_state import BridgeSettings
from .upstream.bridge_targets import Target, target_of_entry
from .upstream.pools import MAX_LINKS


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the client closes the connection, or until SIGINT or SIGTERM, and return 0; 1 after an error."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        target = _target(options)
        if options.report:
            from .loss_report import print_report

            return print_report(target, options.bindings, options.revision or ())
        settings = BridgeSettings(
            options.timeout,
            options.shared,
            options.idle,
            options.http is None,
            _count(options, "connections") or MAX_LINKS,
            _count(options, "session_connections"),
        )
        _serve(Bridge(target, options.bindings, settings), options, target.max_bytes)
    except KeyboardInterrupt:
        return 130  # The exit code of shells for SIGINT.
    except (MCPError, OSError, ImportError) as error:
        print(f"error: {plain(' '.join(str(error).split()))}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mcp_runtime.bridge", description=__doc__)
    parser.add_argument("--bindings", default="mcp_generated", help="the generated package with the revisions")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP; by default over stdio")
    parser.add_argument("--path", default="/mcp", help="the path of the endpoint")
    parser.add_argument("--allow-host", action="append", dest="hosts", help="a value of the Host header to accept")
    parser.add_argument("--allow-origin", action="append", dest="origins", help="an origin of web pages to accept")
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
        entry = entries[options.server]
    elif len(words) == 1 and words[0].startswith(("http://", "https://")):
        entry = {"url": words[0]}
    elif words:
        entry = {"command": words[0], "args": words[1:]}
    else:
        raise LocalError("pass the URL of a server, or -- and the words of its command")
    entry = {**entry, "headers": {**entry.get("headers", {}), **_named(options.header, ":", "--header")}}
    if options.max_bytes is not None:
        entry["max_bytes"] = options.max_bytes
    entry["env"] = {**entry.get("env", {}), **_named(options.env, "=", "--env")}
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
        from ..session.serving import serve
        from ..transports.stdio.server import run_server

        candidates = bridge.candidates()
        limit = SizeLimit(max_bytes, "--max-bytes of the bridge")
        run_server(lambda transport: serve(candidates, transport), limit)
        return
    from ..transports.http_server.http_limits import HTTPLimits
    from ..transports.http_server.run import serve_with_uvicorn

    host, port = parse_address(options.http)
    serve_with_uvicorn(
        bridge.services(),
        host=host,
        port=port,
        path=options.path,
        hosts=options.hosts,
        origins=options.origins,
        limits=HTTPLimits(max_body=max_bytes),
        legacy_sse=True,
    )


if __name__ == "__main__":
    sys.exit(main())
