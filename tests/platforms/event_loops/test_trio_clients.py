"""Clients in programs of trio and of anyio: calls, handlers, cancellation, and nothing left when they are closed."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from support.clients import connect
from support.processes import free_port

from mcp_generated import App, ConnectionClosedError, Context, LocalError, MultiClient
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

SERVER = (sys.executable, str(Path(__file__).with_name("calculator.py")), "asyncio")
ENVIRONMENT = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
SECONDS = 15.0


def run(main: Callable[[], Awaitable[None]], backend: str = "trio") -> None:
    """Run a program under a deadline. It leaves no thread of a client."""

    async def limited() -> None:
        with anyio.fail_after(SECONDS):
            await main()

    anyio.run(limited, backend=backend)
    assert [thread.name for thread in threading.enumerate() if thread.name == "mcp asyncio"] == []


def make_app() -> App:
    app = App("calculator")

    @app.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool()
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("What is your name?", str)
        await ctx.report_progress(1, 2, "an answer")
        return f"Hello {getattr(answer, 'data', answer.action)}"

    return app


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("kind", ["memory", "stdio", "http"])
def test_a_client_calls_a_server_over_any_transport(kind: str, backend: str) -> None:
    async def use(target: Any) -> None:
        async with connect(target, **({"env": ENVIRONMENT} if target is SERVER else {})) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            assert "add" in [tool.name async for tool in client.iter_tools()]
            assert "add" in [tool.name for tool in (await client.list_tools()).tools]
            assert client.server.capabilities.tools is not None

    async def main() -> None:
        if kind != "http":
            await use(SERVER if kind == "stdio" else make_app())
            return
        port = free_port()
        async with anyio.create_task_group() as group:
            group.start_soon(serve, make_app(), port)
            await listening(port)
            await use(f"http://127.0.0.1:{port}/mcp")
            group.cancel_scope.cancel()

    run(main, backend)


async def serve(app: App, port: int) -> None:
    await app.run_async("http", port=port)


async def listening(port: int) -> None:
    """Wait until a server accepts connections."""
    while True:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            return
        except OSError:
            await anyio.sleep(0.01)


def test_handlers_and_callbacks_run_in_the_trio_program_and_plain_handlers_in_threads() -> None:
    seen: list[object] = []

    class Guest(Client):
        async def on_elicit(self, ctx: Any, params: t.ElicitRequestFormParams) -> t.ElicitResult:
            assert trio.lowlevel.in_trio_task()
            await questions.send(params.message)
            total = await self.call_tool("add", {"a": 20, "b": 3})
            inner = await ctx.state.call_tool("add", {"a": 1, "b": 1})
            seen.append((total.structured_content, inner.structured_content))
            return t.ElicitResult(action="accept", content={"value": await names.receive()})

        def on_list_roots(self, ctx: Any, params: object) -> t.ListRootsResult:
            seen.append(("in trio", trio.lowlevel.in_trio_task(), threading.current_thread().name))
            return t.ListRootsResult(roots=[])

    async def answer() -> None:
        assert await shown.receive() == "What is your name?"
        await naming.send("Ann")

    app = make_app()

    @app.tool()
    async def roots(ctx: Context) -> int:
        return len((await ctx.list_roots()).roots)

    questions, shown = trio.open_memory_channel[str](0)
    naming, names = trio.open_memory_channel[str](0)

    async def main() -> None:
        steps: list[str | None] = []
        client = Guest.memory(app)
        async with trio.open_nursery() as nursery, client:
            assert isinstance(client, Guest)
            nursery.start_soon(answer)
            result = await client.call_tool("greet", on_progress=lambda progress: steps.append(progress.message))
            assert result.content == [t.TextContent(text="Hello Ann")]
            assert (await client.call_tool("roots")).structured_content == {"result": 0}
        assert steps == ["an answer"]
        assert seen == [({"result": 23}, {"result": 2}), ("in trio", False, "mcp handler")]
        assert type(client) is Guest

    run(main)


def test_methods_of_the_program_s_class_and_callbacks_of_its_client_run_in_trio() -> None:
    closed: list[Exception | None] = []

    class Doubling(Client):
        async def twice(self, number: int) -> int:
            await trio.lowlevel.checkpoint()
            result = await self.call_tool("add", {"a": number, "b": number})
            return int((result.structured_content or {})["result"])

    async def on_close(error: Exception | None) -> None:
        await trio.lowlevel.checkpoint()
        closed.append(error)

    async def main() -> None:
        async with Doubling.memory(make_app(), on_close=on_close) as client:
            assert await client.twice(4) == 8
        assert closed == [None]

    run(main)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["callback", "async callback"])
def test_progress_is_reported_in_the_trio_program_before_the_call_ends(kind: str) -> None:
    async def main() -> None:
        sending, receiving = trio.open_memory_channel[float](10)

        async def wait(progress: Any) -> None:
            assert trio.lowlevel.in_trio_task()
            await sending.send(progress.progress)

        def note(progress: Any) -> None:
            assert trio.lowlevel.in_trio_task()
            sending.send_nowait(progress.progress)

        async with connect(SERVER, env=ENVIRONMENT) as client:
            await client.call_tool("by_anyio", {"text": "x"}, on_progress=note if kind == "callback" else wait)
            assert receiving.receive_nowait() == 1

    run(main)


def waiting_app() -> tuple[App, threading.Event, threading.Event]:
    app, began, cancelled = App("waiting"), threading.Event(), threading.Event()

    @app.tool()
    async def wait() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    return app, began, cancelled


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_cancel_scope_cancels_the_request_at_the_server(version: str, backend: str) -> None:
    app, began, cancelled = waiting_app()

    async def main() -> None:
        async with connect(app, revisions=[version]) as client:
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    with calling:
                        await client.call_tool("wait")

                calling = anyio.CancelScope()
                group.start_soon(call)
                assert await anyio.to_thread.run_sync(began.wait, SECONDS)
                calling.cancel()
            assert calling.cancelled_caught
            assert await anyio.to_thread.run_sync(cancelled.wait, SECONDS)
            assert (await client.list_tools()).tools[0].name == "wait"

    run(main, backend)


def test_a_handler_that_is_cancelled_ends_before_its_client_is_closed() -> None:
    events: list[str] = []

    class Guest(Client):
        async def on_elicit(self, ctx: Any, params: t.ElicitRequestFormParams) -> t.ElicitResult:
            began.set()
            try:
                return await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    for _ in range(50):  # A client that does not wait would be closed meanwhile.
                        await trio.sleep(0.001)
                events.append("the handler ends")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            async with Guest.memory(make_app()) as client:

                async def call() -> None:
                    with pytest.raises(ConnectionClosedError):
                        await client.call_tool("greet")

                nursery.start_soon(call)
                await began.wait()
            events.append("the client is closed")

    began = trio.Event()
    run(main)
    assert events == ["the handler ends", "the client is closed"]


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_cancelled_program_closes_its_clients_and_their_servers(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import os\nfrom mcp_generated import App\napp = App('x')\n"
        "@app.tool()\ndef pid() -> int:\n    return os.getpid()\n"
        "app.run()\n"
    )
    clients: list[Any] = []
    processes: list[int] = []

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with connect([sys.executable, str(script)], env=ENVIRONMENT) as client:
                clients.append(client)
                processes.append((await client.call_tool("pid")).structured_content["result"])
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        with pytest.raises(ProcessLookupError):
            os.kill(processes[0], 0)
        with pytest.raises(ConnectionClosedError):
            await clients[0].list_tools()

    run(main, backend)


def test_a_cancelled_attempt_to_connect_ends_the_server(tmp_path: Path) -> None:
    script = tmp_path / "silent.py"
    script.write_text("import sys\nprint('started', file=sys.stderr, flush=True)\nsys.stdin.read()\n")

    async def main() -> None:
        with trio.CancelScope() as scope:
            token, lines = trio.lowlevel.current_trio_token(), list[str]()

            def on_line(line: str) -> None:
                lines.append(line)
                token.run_sync_soon(scope.cancel)

            async with connect([sys.executable, str(script)], stderr=on_line):
                raise AssertionError("connected")
        assert scope.cancelled_caught
        assert lines[0].strip() == "started"

    run(main)


def test_errors_are_those_of_asyncio_programs_and_a_client_may_connect_again() -> None:
    async def main() -> None:
        with pytest.raises(LocalError, match="no-such-program"):
            async with connect(["no-such-program-here"]):
                raise AssertionError("connected")
        client = connect(make_app())
        for _ in range(2):
            async with client:
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert result.structured_content == {"result": 3}
                with pytest.raises(TypeError, match="timeuot"):
                    await client.call_tool("add", {}, timeuot=3)  # type: ignore[call-arg]
            with pytest.raises(ConnectionClosedError):
                await client.list_tools()
        async with client:
            await client.close()
            await client.close()

    run(main)


def test_subscriptions_and_clients_of_several_servers_work_in_trio() -> None:
    app, other = make_app(), make_app()

    async def main() -> None:
        async with connect(app) as client, client.listen(tool_list_changed=True) as changes:
            app.remove_tool("greet")
            assert isinstance(await anext(changes), t.ToolListChangedNotification)
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(changes)
            assert scope.cancelled_caught
        async with MultiClient({"one": connect(app), "two": other}) as several:
            result = await several.call_tool("two_add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}
            assert [tool.name for tool in await several.list_tools()] == ["one_add", "two_add", "two_greet"]
            assert (await several.clients["one"].call_tool("add", {"a": 3, "b": 4})).structured_content == {"result": 7}

    run(main)
