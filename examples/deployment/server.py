"""The server that the files of this folder start. README.md lists the environment variables that set it."""

from __future__ import annotations

import os
import sys

from mcp_generated import App, Context
from mcp_generated.http import HTTPLimits

ARTICLES = {"pan": 1999, "kettle": 9950, "spoon": 250}
# Only a proxy reaches the port, so that all connections have its address. Requests have that of their client: the proxy
# passes it on, and FORWARDED_ALLOW_IPS names the proxies whose header uvicorn reads.
LIMITS = HTTPLimits(max_connections_per_address=10_000)

app = App("shop")


@app.tool
async def price(article: str) -> int:
    """Return the price of an article in cents."""
    return ARTICLES[article]


@app.tool
async def total(articles: list[str], ctx: Context) -> int:
    """Return the price of several articles in cents, and report progress."""
    cents = 0
    for number, article in enumerate(articles, 1):
        cents += ARTICLES[article]
        await ctx.report_progress(number, len(articles))
    return cents


def text(name: str, default: str) -> str:
    """Return a variable; one that is empty is as one that is not set."""
    return os.environ.get(name) or default


def number(name: str, default: str) -> int:
    """Return the whole number of a variable."""
    value = text(name, default)
    if not (value.isascii() and value.isdigit()):
        sys.exit(f"{name} must be a whole number; {value!r} is not")
    return int(value)


if __name__ == "__main__":
    app.run(
        "http",
        host=text("MCP_HOST", "127.0.0.1"),
        port=number("MCP_PORT", "8000"),
        hosts=text("MCP_HOSTS", "localhost,127.0.0.1").split(","),
        store=text("MCP_STORE", "memory"),
        workers=number("MCP_WORKERS", "1"),
        limits=LIMITS,
        health_path="/healthz",
        ready_path="/readyz",
        metrics_path=text("MCP_METRICS", "") or None,
    )
