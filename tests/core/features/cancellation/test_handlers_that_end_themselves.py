"""Handlers that cancel their own task, or raise what is no Exception: whoever waits gets an answer, at once."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, client_of, server_of
from support.matrices import long_after
from support.processes import exit_code_within

from mcp_generated import App, Context, Depends
from mcp_runtime.errors import ConnectionClosedError, LocalError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

OPTIONS = RequestOptions(timeout=30)
CANCELLED = "internal error: the handler of '.*' was cancelled, but its request was not"
ENDINGS = {
    **dict.fromkeys(("cancel", "cancel later", "cancelled"), CANCELLED),
    "generator": "internal error: the handler of '.*' has raised GeneratorExit",
    "base": "internal error: the handler of '.*' has raised BaseException",
}


async def end(kind: str) -> None:
    """End the task that runs this."""
    task = asyncio.current_task()
    assert task is not None
    if kind == "cancel later":
        await asyncio.sleep(0)
    if kind.startswith("cancel ") or kind == "cancel":
        task.cancel()
        await asyncio.sleep(0)
    raise {"cancelled": asyncio.CancelledError, "generator": GeneratorExit, "base": BaseException}[kind]("own")


@pytest.mark.parametrize("kind", ENDINGS)
@among(ALL_REVISIONS)
async def test_a_handler_of_a_class(rev: Rev, kind: str) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "fine":
            return rev.text("fine")
        await end(kind)

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        for _ in range(3):
            with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
                await client.call_tool("ends", options=OPTIONS)
        assert (await client.call_tool("fine", options=OPTIONS)).content[0].text == "fine"


@pytest.mark.parametrize("kind", ENDINGS)
async def test_functions_of_an_app(kind: str) -> None:
    app = App("ends")

    @app.tool
    async def tool() -> None:
        await end(kind)

    async def dependency() -> int:
        await end(kind)
        return 1

    @app.tool
    def needs(value: int = Depends(dependency)) -> int:
        return value

    @app.tool(timeout=30)
    async def timed() -> None:
        await end(kind)

    @app.prompt
    async def prompt(topic: str) -> str:
        await end(kind)
        return "x"

    @app.resource("data://value")
    async def resource() -> str:
        await end(kind)
        return "x"

    @app.completion
    async def complete(ref: Any, argument: Any) -> list[str]:
        await end(kind)
        return []

    from mcp_generated.v2026_07_28 import types as t

    async with connect(app) as client:
        requests: list[Callable[[], Any]] = [
            *(lambda name=name: client.call_tool(name, options=OPTIONS) for name in ("tool", "needs", "timed")),
            lambda: client.get_prompt("prompt", {"topic": "a"}, options=OPTIONS),
            lambda: client.read_resource("data://value", options=OPTIONS),
            lambda: client.complete(
                t.PromptReference(name="prompt"), t.CompletionArgument(name="topic", value=""), options=OPTIONS
            ),
        ]
        for request in requests:
            with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
                await request()


@pytest.mark.parametrize("kind", ["cancelled", "generator", "base"])
async def test_plain_functions_of_an_app(kind: str) -> None:
    app = App("ends")

    def fail() -> str:
        raise {"cancelled": asyncio.CancelledError, "generator": GeneratorExit, "base": BaseException}[kind]("own")

    app.add_tool(fail, "threaded")
    app.add_tool(fail, "looped", thread=False)
    async with connect(app) as client:
        for name in ("threaded", "looped", "threaded"):
            with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
                await client.call_tool(name, options=OPTIONS)


@pytest.mark.parametrize("kind", ENDINGS)
async def test_middleware(kind: str) -> None:
    app = App("ends")

    @app.tool
    def tool() -> str:
        return "x"

    @app.middleware
    async def middleware(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        if name == "call_tool":
            await end(kind)
        return await call_next(ctx, params)

    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
            await client.call_tool("tool", options=OPTIONS)


@pytest.mark.parametrize("kind", ENDINGS)
@among(ALL_REVISIONS)
async def test_every_handler_of_a_class(rev: Rev, kind: str) -> None:
    async def ends(*arguments: Any) -> Any:
        await end(kind)

    names = ("list_tools", "list_prompts", "get_prompt", "list_resources", "read_resource", "complete")
    own = () if rev.stateless else ("subscribe", "set_level")
    server = server_of(rev, {"logging": {}}, **dict.fromkeys((*names, *own), ends))
    async with client_of(rev, server) as client:
        requests: list[Callable[[], Any]] = [
            lambda: client.list_tools(options=OPTIONS),
            lambda: client.list_prompts(options=OPTIONS),
            lambda: client.get_prompt("a", options=OPTIONS),
            lambda: client.list_resources(options=OPTIONS),
            lambda: client.read_resource("data://a", options=OPTIONS),
            lambda: client.complete(
                rev.t.PromptReference(name="a"), completion_argument(rev)(name="b", value=""), options=OPTIONS
            ),
        ]
        if own:
            requests += [lambda: client.subscribe("data://a", options=OPTIONS)]
            requests += [lambda: client.set_level("error", options=OPTIONS)]
        for request in requests:
            with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
                await request()


def completion_argument(rev: Rev) -> Any:
    """The type of the argument of a completion, which older revisions name by its place."""
    return getattr(rev.t, "CompletionArgument", None) or rev.t.CompleteRequestParamsArgument


@pytest.mark.parametrize("kind", ENDINGS)
async def test_methods_of_a_vendor(kind: str) -> None:
    app = App("ends")

    @app.method("acme/end")
    async def own() -> str:
        await end(kind)
        return "x"

    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
            await client.request_own("acme/end", {}, options=OPTIONS)


ASKED = {"on_create_message": "sampling", "on_elicit": "elicitation", "on_list_roots": "roots"}


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize("handler", ASKED)
@among(HANDSHAKE)
async def test_handlers_of_a_client(rev: Rev, handler: str, kind: str) -> None:
    if handler == "on_elicit" and rev.id < "2025-06-18":
        return  # There is none.

    async def call_tool(ctx: Any, params: Any) -> Any:
        message = rev.t.SamplingMessage(role="user", content=rev.t.TextContent(text="who"))
        try:
            match handler:
                case "on_create_message":
                    await ctx.create_message(messages=[message], max_tokens=5)
                case "on_elicit":
                    asked = {"message": "?", "requested_schema": {"type": "object", "properties": {}}}
                    if rev.id == "2025-06-18":
                        await ctx.elicit(**asked)
                    else:
                        await ctx.elicit(rev.t.ElicitRequestFormParams(**asked))
                case "on_list_roots":
                    await ctx.list_roots()
        except RemoteJSONRPCError as error:
            return rev.text(error.message)

    async def ends(*arguments: Any) -> Any:
        await end(kind)

    async with client_of(rev, server_of(rev, call_tool=call_tool), **{handler: ends}) as client:
        result = await client.call_tool("ask", options=OPTIONS)
    assert re.fullmatch(ENDINGS[kind], result.content[0].text)


@pytest.mark.parametrize("kind", ["cancelled", "generator"])
async def test_an_answer_of_a_client_without_sessions_is_an_error_of_its_own_call(kind: str) -> None:
    from mcp_generated.v2026_07_28 import Client

    app = App("asks")

    @app.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("?", str)).action

    class Person(Client):
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            await end(kind)

    async with connect(app, client=Person) as client:
        wrong, text = (LocalError, CANCELLED[16:]) if kind == "cancelled" else (GeneratorExit, "own")
        with pytest.raises(wrong, match=text):
            await client.call_tool("ask", options=OPTIONS)


@pytest.mark.parametrize("kind", ["cancelled", "generator", "base"])
@among(ALL_REVISIONS)
async def test_a_lifespan(rev: Rev, kind: str) -> None:
    @asynccontextmanager
    async def lifespan(app: Any) -> Any:
        await end(kind)
        yield None

    app = App("ends", lifespan=lifespan)
    app.add_tool(lambda: "x", "tool")
    with pytest.raises(BaseException, match=r".*") as caught:
        async with asyncio.timeout(30), client_of(rev, app.server) as client:
            await client.call_tool("tool", options=OPTIONS)
    assert not isinstance(caught.value, TimeoutError) and "no response within" not in str(caught.value)


async def test_a_request_that_its_client_cancels_gets_no_answer() -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    app = App("waits")

    @app.tool
    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with connect(app) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(ended.wait(), 30)


# ---- what ends the process ------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from mcp_generated import App
app = App("ends")

def leave(kind):
    if kind == "interrupt":
        raise KeyboardInterrupt
    sys.exit(7)

@app.tool
def threaded(kind: str) -> str:
    leave(kind)

@app.tool(thread=False)
def looped(kind: str) -> str:
    leave(kind)

@app.tool
async def waiting(kind: str) -> str:
    await asyncio.sleep(0)
    leave(kind)

@app.tool
def fine() -> str:
    return "fine"
"""


def environment(fast: bool) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MCP_FAST_PATHS": "1" if fast else "0"}


@pytest.mark.parametrize("fast", long_after(1, [True, False]))
@pytest.mark.parametrize("id", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("tool", ["threaded", "looped", "waiting"])
@pytest.mark.parametrize("kind", ["exit", "interrupt"])
async def test_a_server_over_stdio_answers_before_it_ends(
    tmp_path: Path, kind: str, tool: str, id: str, fast: bool
) -> None:
    (tmp_path / "server.py").write_text(PROGRAM + "app.run('stdio')\n")
    command = (sys.executable, str(tmp_path / "server.py"))
    client = connect(command, env=environment(fast), revisions=[id])
    name = "SystemExit" if kind == "exit" else "KeyboardInterrupt"
    async with client:
        for _ in range(5):
            assert (await client.call_tool("fine", options=OPTIONS)).content[0].text == "fine"  # pyright: ignore
        with pytest.raises(RemoteJSONRPCError, match=f"the server ends: .* has raised {name}"):
            await client.call_tool(tool, {"kind": kind}, options=OPTIONS)
        with pytest.raises(ConnectionClosedError):
            while True:
                await client.call_tool("fine", options=OPTIONS)


@pytest.mark.parametrize("tool", long_after(1, ["threaded", "looped", "waiting"]))
@pytest.mark.parametrize("id", ["2025-11-25", "2026-07-28"])
def test_a_server_over_http_answers_before_it_ends(tmp_path: Path, tool: str, id: str) -> None:
    (tmp_path / "server.py").write_text(PROGRAM + "app.run('http', port=0)\n")
    command = [sys.executable, str(tmp_path / "server.py")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(True))
    try:
        assert process.stderr is not None
        url = process.stderr.readline().split()[-1]
        rev = Rev(id)
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": id}
        with httpx2.Client(headers=headers, timeout=30) as client:
            if not rev.stateless:
                hello = {"protocolVersion": id, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
                answer = client.post(url, json=rev.request(1, "initialize", hello))
                client.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
                client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            own = {"mcp-method": "tools/call", "mcp-name": tool}
            params = {"name": tool, "arguments": {"kind": "exit"}}
            text = client.post(url, json=rev.request(2, "tools/call", params), headers=own).text
        assert "the server ends: " in text and "SystemExit" in text
        assert exit_code_within(process, 30) == 7
    finally:
        process.kill()
        process.communicate()
