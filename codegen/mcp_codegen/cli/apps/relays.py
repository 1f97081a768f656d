"""The commands `bridge` and `gateway`, for which this process becomes a relay, and `top`, which shows what one does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from ...errors import CodegenError
from ...servers.probe import entry_of, is_module, is_python_file, parse_target
from ..options import FILE, report_errors
from .running import option_words, replace_process

_BRIDGE: Final = (sys.executable, "-P", "-m", "mcp_products.relay.bridge")  # -P: the current folder hides no module.
_OPTIONS: Final = (
    click.option("--http", metavar="HOST:PORT", help="Serve over HTTP at this address. Default: stdio."),
    click.option("--path", help="The path of the endpoint, with --http. Default: /mcp."),
    click.option("--allow-host", multiple=True, metavar="HOST", help="A value of Host to accept. May be repeated."),
    click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="An origin of pages. May be repeated."),
    click.option("--config", type=FILE, metavar="FILE", help="The configuration file of a host, with --server."),
    click.option("--server", metavar="NAME", help="The name of a server in the configuration file."),
    click.option("--header", multiple=True, metavar="NAME:VALUE", help="A header of each request, with ${VARIABLES}."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of the command. May be repeated."),
    click.option("--login", is_flag=True, help="Log in with a browser if the server requires it."),
    click.option("--tokens", type=FILE, metavar="FILE", help="A file to store the tokens of the login in."),
    click.option("--shared", type=click.IntRange(min=0), help="Connections that all sessions share. Default: 0, none."),
    click.option("--connections", type=click.IntRange(min=1), help="Those of clients without sessions. Default: 16."),
    click.option(
        "--session-connections",
        type=click.IntRange(min=1),
        help="Those of sessions. Default: 256 for a command, 10,000 for a URL.",
    ),
    click.option("--idle", type=click.FloatRange(min=0, min_open=True), help="Seconds until an unused one ends."),
    click.option("--max-bytes", type=click.IntRange(min=1), help="Bytes of one message. Default: 8 MiB."),
    click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that a request may take."),
    click.option("--report", is_flag=True, help="Print what cannot pass, and exit."),
    click.option("--revision", multiple=True, metavar="R", help="With --report: a revision of clients."),
)


@click.command("bridge", short_help="Connect any client to any server.")
@click.argument("target", nargs=-1, type=click.UNPROCESSED)
@report_errors
def bridge(target: tuple[str, ...], **settings: str | float | bool | Path | tuple[str, ...] | None) -> None:
    """Relay messages between clients and one server, whatever revision and transport either has.

    \b
    mcp-generated bridge --http :8000 -- npx -y @modelcontextprotocol/server-everything
    mcp-generated bridge https://example.com/mcp --login
    mcp-generated bridge mcp.json:weather
    mcp-generated bridge server.py --http :8000
    """
    words = target
    if not words and settings["config"] is None and settings["server"] is None:
        raise CodegenError("no server was named; write bridge SERVER, or bridge -- COMMAND")
    if len(target) == 1 and (entry := entry_of(target[0])) is not None:
        settings, words = {**settings, "config": entry[0], "server": entry[1]}, ()
    elif len(target) == 1 and (is_python_file(target[0]) or is_module(target[0])):
        words = parse_target(target[0]).command
    replace_process((*_BRIDGE, *option_words(settings), "--", *words), dict(os.environ))


for _add in _OPTIONS:
    _add(bridge)


# The command `gateway`: this process becomes many servers behind one endpoint.

_GATEWAY: Final = (sys.executable, "-P", "-m", "mcp_products.relay.gateway")  # -P: the current folder hides no module.


@click.command("gateway", short_help="Serve many servers behind one endpoint.")
@click.argument("file", type=FILE)
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP at this address. Default: stdio.")
@click.option("--path", help="The path of the endpoint, with --http. Default: /mcp.")
@click.option("--allow-host", multiple=True, metavar="HOST", help="A value of Host to accept. May be repeated.")
@click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="An origin of pages. May be repeated.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes that serve, with --http. Default: 1.")
@click.option("--max-bytes", type=click.IntRange(min=1), help="Bytes of a message of a client. Default: 8 MiB.")
@click.option("--store", metavar="URL", help="What workers share: sqlite:///FILE or redis://HOST.")
@click.option("--check", is_flag=True, help="Read the file, and exit.")
@click.option("--lock", is_flag=True, help="Write the lock of the definitions, and exit.")
@report_errors
def gateway(file: Path, **settings: str | int | bool | tuple[str, ...] | None) -> None:
    """Serve the tools, resources and prompts of many servers, by the rules of a TOML file.

    \b
    mcp-generated gateway gateway.toml --http :8000
    mcp-generated gateway gateway.toml --lock
    """
    replace_process((*_GATEWAY, *option_words(settings), "--", str(file)), dict(os.environ))


# The command `top`: this process shows what runs at a server.

_TOP: Final = (sys.executable, "-P", "-m", "mcp_products.metrics.top")


@click.command("top", short_help="Show what runs at a server or a gateway, by its metrics.")
@click.argument("url")
@click.option("--once", is_flag=True, help="Print one table, and exit.")
@click.option("--interval", type=click.FloatRange(min=0.1), help="Seconds between two looks. Default: 2.")
@report_errors
def top(url: str, **settings: bool | float | None) -> None:
    """Show what runs at a server or a gateway until Ctrl-C: calls, sessions, streams, errors, upstreams.

    The server needs a route for metrics: run("http", metrics_path="/metrics"), or metrics = "/metrics" in the file of a
    gateway. URL is that of the endpoint, of the host, or of the metrics.

    \b
    mcp-generated top http://127.0.0.1:8000
    mcp-generated top http://127.0.0.1:8000 --once
    """
    replace_process((*_TOP, *option_words(settings), "--", url), dict(os.environ))
