"""Asynchronous methods of the context in plain `def` functions, without `await`: never silent."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Context, Depends, RemoteJSONRPCError
from mcp_generated.dependencies import CurrentContext, Progress, get_context

CALLS: dict[str, Any] = {
    "info": lambda ctx: ctx.info("text"),
    "debug": lambda ctx: ctx.debug("text"),
    "warning": lambda ctx: ctx.warning("text"),
    "error": lambda ctx: ctx.error("text"),
    "log": lambda ctx: ctx.log("info", "text"),
    "report_progress": lambda ctx: ctx.report_progress(1, 2),
    "progress": lambda ctx: ctx.progress(1, 2),
    "set_state": lambda ctx: ctx.set_state("key", 1),
    "read_resource": lambda ctx: ctx.read_resource("demo://x"),
    "elicit": lambda ctx: ctx.elicit("Sure?", bool),
    "notify_tool_list_changed": lambda ctx: ctx.notify_tool_list_changed(),
    "send_log_message": lambda ctx: ctx.session.send_log_message("info", "text"),
}
HAVE_SYNC = ("info", "debug", "warning", "error", "log", "report_progress", "progress")


@pytest.fixture(autouse=True)
def no_warning_of_python() -> Iterator[None]:
    """Ours is the only message: Python's warning about a coroutine would be a second one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(item.message) for item in caught if "never awaited" in str(item.message)] == []


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return the texts of the log, with those of its exceptions."""
    texts = [f"{record.getMessage()} {record.exc_info[1] if record.exc_info else ''}" for record in caplog.records]
    return "\n".join(texts)


@pytest.mark.parametrize("method", CALLS)
async def test_a_tool_that_does_not_await_fails_with_the_line_to_write(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("plain")

    @app.tool
    def work(ctx: Context) -> str:
        CALLS[method](ctx)
        return "done"

    async with connect(app) as client:
        result = await client.call_tool("work")
    assert result.is_error
    text = logged(caplog)
    assert f"the tool 'work': {method}() in line " in text
    assert "test_unawaited_calls.py" in text
    assert f"`async def`, and `await ctx.{method}(…)`" in text
    assert (f"`ctx.sync.{method}(…)`" in text) is (method in HAVE_SYNC)


def call_and_drop(ctx: Any) -> str:
    ctx.info("text")
    return "value"


def value(ctx: Context) -> str:
    """A dependency that is a plain function."""
    return call_and_drop(ctx)


def opened(ctx: Context) -> Iterator[str]:
    """A dependency that is a plain generator."""
    yield call_and_drop(ctx)


async def test_dependencies_and_injected_objects_fail_too(caplog: pytest.LogCaptureFixture) -> None:
    app = App("plain")

    @app.tool
    async def one(x: str = Depends(value)) -> str:
        return x

    @app.tool
    async def two(x: str = Depends(opened)) -> str:
        return x

    @app.tool
    def three(ctx: Any = CurrentContext()) -> str:
        return call_and_drop(ctx)

    @app.tool
    def four(progress: Progress = Progress()) -> str:
        progress.increment()  # type: ignore[unused-coroutine]
        return "done"

    @app.tool(thread=False)
    def five(ctx: Context) -> str:
        return call_and_drop(ctx)

    async with connect(app) as client:
        for tool in ("one", "two", "three", "four", "five"):
            assert (await client.call_tool(tool)).is_error, tool
    text = logged(caplog)
    places = ["the dependency 'value'", "the dependency 'opened'", "the tool 'three'", "the tool 'four'"]
    assert [place for place in [*places, "the tool 'five'"] if f"{place}: " not in text] == []


async def test_prompts_resources_and_functions_below_them_fail_too(caplog: pytest.LogCaptureFixture) -> None:
    app = App("plain")

    @app.prompt
    def question(ctx: Context) -> str:
        return call_and_drop(ctx)

    @app.resource("demo://text")
    def read(ctx: Context) -> str:
        return call_and_drop(ctx)

    @app.tool
    def below() -> str:
        return call_and_drop(get_context())

    async with connect(app) as client:
        await client.call_tool("below")
        with pytest.raises(RemoteJSONRPCError):
            await client.get_prompt("question")
        with pytest.raises(RemoteJSONRPCError):
            await client.read_resource("demo://text")
    text = logged(caplog)
    places = ["get_context() in call_tool", "the prompt 'question'", "the resource 'demo://text'"]
    assert [place for place in places if f"{place}: " not in text] == []


async def test_the_error_of_the_function_itself_stays_and_the_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = App("plain", tool_errors=(KeyError,))

    @app.tool
    def work(ctx: Context) -> str:
        call_and_drop(ctx)
        raise KeyError("own")

    async with connect(app) as client:
        result = await client.call_tool("work")
    assert "own" in result.content[0].text
    assert "info() in line" in logged(caplog)


async def test_what_is_awaited_by_others_is_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    """A call can run in the event loop of the server, be returned, or be a task."""
    app, received = App("plain"), list[Any]()
    loop = asyncio.get_running_loop()

    @app.tool
    def in_the_loop(ctx: Context) -> str:
        asyncio.run_coroutine_threadsafe(ctx.info("waits"), loop).result()
        asyncio.run_coroutine_threadsafe(ctx.info("does not wait"), loop)
        ctx.sync.info("sync")
        return "done"

    @app.tool(structured_output=False)
    def returned(ctx: Context) -> Any:
        return ctx.info("returned")

    @app.tool(thread=False)
    def as_a_task(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.info("task")))
        return "done"

    tasks: list[asyncio.Task[None]] = []
    from mcp_generated.v2025_11_25 import Client

    class Recording(Client):
        async def on_logging_message(self, ctx: Any, params: Any) -> None:
            received.append(params.data)

    with caplog.at_level(logging.ERROR):
        async with Recording.memory(app) as client:
            results = [await client.call_tool(name) for name in ("in_the_loop", "returned", "as_a_task")]
    assert not any(result.is_error for result in results)
    assert received == ["waits", "does not wait", "sync", "returned", "task"]
    assert caplog.records == []
