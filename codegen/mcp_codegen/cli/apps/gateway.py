"""The command `gateway`: this process becomes many servers behind one endpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from ..options import FILE, report_errors
from .run import option_words, replace_process

_GATEWAY: Final = (sys.executable, "-P", "-m", "mcp_runtime.gateway")  # -P: the current folder hides no module.


@click.command("gateway", short_help="Serve many servers behind one endpoint.")
@click.argument("file", type=FILE)
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP at this address. Default: stdio.")
@click.option("--path", help="The path of the endpoint, with --http. Default: /mcp.")
@click.option("--allow-host", multiple=True, metavar="HOST", help="A value of Host to accept. May be repeated.")
@click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="An origin of pages. May be repeated.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes that serve, with --http. Default: 1.")
@click.option("--store", metavar="URL", help="What workers share: sqlite:///FILE or redis://HOST.")
@click.option("--check", is_flag=True, help="Read the file, and exit.")
@click.option("--lock", is_flag=True, help="Write the lock of the definitions, and exit.")
@report_errors
def gateway(file: Path, **settings: str | int | bool | tuple[str, ...] | None) -> None:
    """Serve the tools, resources and prompts of many servers, by the rules of a TOML file.

    \b
    mcp-codegen gateway gateway.toml --http :8000
    mcp-codegen gateway gateway.toml --lock
    """
    replace_process((*_GATEWAY, *option_words(settings), "--", str(file)), dict(os.environ))
