"""Members of the context that FastMCP has: the transport, extensions, and log messages in its order."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev
from support.http.in_process import connecting

from mcp_generated import App, Context, LocalError, RequestOptions
from mcp_generated.v2025_11_25 import Client

SERVER = """
from mcp_generated import App, Context
app = App("transports")
@app.tool
def transport(ctx: Context) -> str | None:
    return ctx.transport
app.run()
"""
app = App("members")


@app.tool
def transport(ctx: Context) -> str | None:
    return ctx.transport


@app.tool
def supports(ctx: Context, extension: str) -> bool:
    return ctx.client_supports_extension(extension)


@pytest.mark.parametrize("rev", ALL_REVISIONS, ids=str)
async def test_the_transport_over_http_is_that_of_the_revision(rev: Rev) -> None:
    kind: Any = rev.package.Client
    async with kind(connecting(app, rev.revision)) as client:
        [content] = (await client.call_tool(name="transport", arguments={})).content
    assert content.text == ("sse" if rev.id == "2024-11-05" else "streamable-http")


async def test_the_transport_of_a_process_is_stdio(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", os.pathsep.join(sys.path))}
    async with connect([sys.executable, str(program)], env=environment) as client:
        assert (await client.call_tool("transport")).structured_content == {"result": "stdio"}


async def test_in_memory_there_is_no_transport() -> None:
    assert (await app.call_tool("transport")).structured_content == {"result": None}


async def test_an_extension_is_supported_if_the_client_declares_it() -> None:
    declared = {"extensions": {"io.example/paint": {}}}
    async with connect(app, capabilities=declared) as client:
        for extension, expected in (("io.example/paint", True), ("io.example/other", False)):
            result = await client.call_tool("supports", {"extension": extension})
            assert result.structured_content == {"result": expected}
    assert (await app.call_tool("supports", {"extension": "io.example/paint"})).structured_content == {"result": False}


Log = Callable[[Any], Awaitable[None]]
LOGS: dict[str, tuple[Log, tuple[str, Any, str | None]]] = {
    "level and message": (lambda ctx: ctx.log("warning", "text"), ("warning", "text", None)),
    "message alone": (lambda ctx: ctx.log("text"), ("info", "text", None)),
    "message that is a level": (lambda ctx: ctx.log("error"), ("info", "error", None)),
    "message and level=": (lambda ctx: ctx.log("text", level="warning"), ("warning", "text", None)),
    "message, level": (lambda ctx: ctx.log("text", "warning"), ("warning", "text", None)),
    "message, level, logger": (lambda ctx: ctx.log("text", "warning", "names"), ("warning", "text", "names")),
    "FastMCP's keywords": (
        lambda ctx: ctx.log(message="text", level="error", logger_name="names"),
        ("error", "text", "names"),
    ),
    "message=": (lambda ctx: ctx.log(message="text"), ("info", "text", None)),
    "the official SDK's": (
        lambda ctx: ctx.log("debug", message="text", logger_name="names"),
        ("debug", "text", "names"),
    ),
    "an object": (lambda ctx: ctx.log({"a": 1}, level="notice"), ("notice", {"a": 1}, None)),
    "extra": (lambda ctx: ctx.log("text", extra={"a": 1}), ("info", {"msg": "text", "extra": {"a": 1}}, None)),
    "three arguments": (lambda ctx: ctx.log("alert", "text", "names"), ("alert", "text", "names")),
}


@pytest.mark.parametrize("form", LOGS)
async def test_a_log_message_has_the_level_and_the_text_of_its_call(form: str) -> None:
    call, expected = LOGS[form]
    logging, messages = App("logging"), list[Any]()

    @logging.tool
    async def tool(ctx: Context) -> None:
        await call(ctx)

    class Listening(Client):
        async def on_logging_message(self, ctx: Any, params: Any) -> None:
            messages.append((params.level, params.data, params.logger))

    async with Listening.memory(logging) as client:
        await client.call_tool("tool", options=RequestOptions(timeout=20))
    assert messages == [expected]


WRONG: dict[str, tuple[Log, type[Exception], str]] = {
    "unknown level": (lambda ctx: ctx.log("loud", "text"), LocalError, "no level 'loud'"),
    "unknown level=": (lambda ctx: ctx.log("text", level="loud"), LocalError, "no level 'loud'"),
    "no message": (lambda ctx: ctx.log(level="info"), TypeError, "needs a level and a message"),
    "nothing": (lambda ctx: ctx.log(), TypeError, "needs a level and a message"),
    "two levels": (lambda ctx: ctx.log("info", "text", "x", level="info"), TypeError, "needs a level and a message"),
    "two messages": (lambda ctx: ctx.log("info", "text", message="x"), TypeError, "not two of one"),
    "unknown keyword": (lambda ctx: ctx.log("info", "text", colour="red"), TypeError, "colour"),
}


@pytest.mark.parametrize("form", WRONG)
async def test_a_wrong_call_of_log_is_refused(form: str) -> None:
    call, error, text = WRONG[form]
    logging, errors = App("logging"), list[Exception]()

    @logging.tool
    async def tool(ctx: Context) -> None:
        try:
            await call(ctx)
        except Exception as raised:
            errors.append(raised)

    await logging.call_tool("tool")
    [raised] = errors
    assert isinstance(raised, error)
    assert text in str(raised)
