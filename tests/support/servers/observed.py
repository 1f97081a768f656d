"""An app whose tools log, wait and send requests to the client: over stdio, or HTTP with a port."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable
from typing import Any

from mcp_generated import App, ClientLogHandler, Context

app = App("observed", version="3.1")
log = logging.getLogger("shop")
log.setLevel(logging.DEBUG)
log.addHandler(ClientLogHandler())
reasons: list[str | None] = []


@app.tool
async def wait(ctx: Context) -> str:
    """Wait until the request is cancelled, and record the reason."""
    await ctx.report_progress(1)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError as error:
        reasons.append(error.args[0] if error.args else None)
        raise
    return "never"


@app.tool
async def next_reason() -> str:
    """Wait for the reason of a cancellation, and return it as JSON."""
    while not reasons:
        await asyncio.sleep(0.001)
    return json.dumps(reasons.pop(0))


@app.tool
def in_order(ctx: Context) -> Any:
    """Log and report progress in a plain function, whose rest is a coroutine."""
    for number in range(0, 20, 2):
        ctx.sync.info(number)
        ctx.sync.log("error", {"n": number + 1}, "plain", extra={"more": True})
        ctx.sync.report_progress(number + 1, 20)

    async def rest() -> str:
        await ctx.warning(20)
        return "done"

    result: Awaitable[str] = rest()
    return result


@app.tool
async def program_log(texts: list[str]) -> str:
    """Log texts with the logger of the program, in each level."""
    log_texts(texts)
    return "logged"


@app.tool
def program_log_in_thread(texts: list[str]) -> str:
    """Log texts in a plain function."""
    log_texts(texts)
    return "logged"


def log_texts(texts: list[str]) -> None:
    """Log each text with another level, from the lowest one."""
    for number, text in enumerate(texts):
        log.log((number % 5 + 1) * 10, "%s", text)


@app.tool
async def fails() -> str:
    """Raise an exception, whose details are for the server."""
    raise OSError("the password of the database is hunter2")


@app.tool
async def question(ctx: Context, count: int) -> str:
    """Show forms one after the other, and return how many were answered."""
    for number in range(count):
        await ctx.elicit(f"question {number}", str)
    return str(count)


@app.tool
async def sample(ctx: Context, count: int) -> str:
    """Sample messages one after the other."""
    for number in range(count):
        await ctx.sample(f"message {number}")
    return str(count)


@app.tool
async def roots(ctx: Context) -> list[str]:
    """Return the roots of the client."""
    return [root.uri for root in (await ctx.list_roots()).roots]


@app.tool
async def leave() -> str:
    """End the process of the server."""
    asyncio.get_running_loop().call_later(0.01, sys.exit)
    return "bye"


@app.resource("notes://motto", name="motto", title="The motto")
def motto() -> str:
    """Return a text."""
    return "Read."


@app.resource("notes://{user}/{+path}{?page}", name="note")
def note(user: str, path: str, page: str = "") -> str:
    """Return the values of the URI."""
    return f"{user}|{path}|{page}"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    if sys.argv[1:] == ["http"]:
        app.run("http", port=0, legacy_sse=True)
    else:
        app.run("stdio")
