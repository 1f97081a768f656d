"""Parameters that functions of the server compute: in tools, prompts and resources."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Annotated, Any

import pytest

from mcp_generated import App, Context, Depends, ToolError
from mcp_generated.dependencies import CallArgument, CurrentAccessToken, CurrentContext, CurrentHeaders, TokenClaim
from mcp_generated.v2026_07_28 import Client


async def text(app: App, tool: str = "tool", **arguments: Any) -> str:
    """The text of a tool's result."""
    result = await app.call_tool(tool, arguments)
    [block] = result.content
    return block.text  # type: ignore[union-attr]


class Database:
    def __init__(self) -> None:
        self.is_open = True


def plain() -> str:
    return "value"


async def coroutine() -> str:
    return "value"


def generator() -> Iterator[str]:
    yield "value"


async def async_generator() -> AsyncIterator[str]:
    yield "value"


class Callable:
    def __call__(self) -> str:
        return "value"

    async def method(self) -> str:
        return "value"


FUNCTIONS: dict[str, Any] = {
    "def": plain,
    "async def": coroutine,
    "generator": generator,
    "async generator": async_generator,
    "context manager": contextmanager(generator),
    "async context manager": asynccontextmanager(async_generator),
    "lambda": lambda: "value",
    "lambda that returns a coroutine": lambda: coroutine(),
    "object": Callable(),
    "method": Callable().method,
    "partial": partial(lambda text: text, "value"),
    "class": type("Value", (str,), {"__new__": lambda cls: str.__new__(cls, "value")}),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
async def test_a_dependency_is_any_function(kind: str) -> None:
    app, function = App("app"), FUNCTIONS[kind]

    @app.tool()
    def annotated(x: Annotated[str, Depends(function)]) -> str:
        return x

    @app.tool()
    async def default(x: str = Depends(function)) -> str:
        return x

    assert await text(app, "annotated") == await text(app, "default") == "value"
    for tool in await app.list_tools():
        assert tool.input_schema.model_dump()["properties"] == {}


async def test_a_client_cannot_pass_a_dependency() -> None:
    app = App("app")

    @app.tool()
    def tool(a: int, x: str = Depends(plain)) -> str:
        return f"{a} {x}"

    [listed] = await app.list_tools()
    assert listed.input_schema.model_dump()["properties"].keys() == {"a"}
    result = await app.call_tool("tool", {"a": 1, "x": "evil"})
    assert result.is_error and "x" in str(result.content)
    assert await text(app, a=1) == "1 value"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("end", ["returns", "fails", "is cancelled", "times out"])
async def test_clean_up_runs_after_the_call(end: str, is_async: bool) -> None:
    events: list[str] = []
    started = asyncio.Event()
    app = App("app")

    def connect() -> Iterator[Database]:
        database = Database()
        try:
            yield database
        except BaseException as error:
            events.append(type(error).__name__)
            raise
        finally:
            events.append("closed")

    async def connect_async() -> AsyncIterator[Database]:
        database = Database()
        try:
            yield database
        except BaseException as error:
            events.append(type(error).__name__)
            raise
        finally:
            events.append("closed")

    @app.tool(timeout=0.05 if end == "times out" else 60)
    async def tool(database: Annotated[Database, Depends(connect_async if is_async else connect)]) -> str:
        assert database.is_open
        events.append("called")
        started.set()
        if end == "fails":
            raise ValueError("no")
        if end in ("is cancelled", "times out"):
            await asyncio.sleep(3600)
        return "done"

    async with Client.memory(app.server) as client:
        call = asyncio.ensure_future(client.call_tool(name="tool"))
        await started.wait()
        if end == "is cancelled":
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        else:
            assert (await call).is_error is (None if end == "returns" else True)
        while "closed" not in events:
            await asyncio.sleep(0)
    seen = {"returns": [], "fails": ["ValueError"], "is cancelled": ["CancelledError"], "times out": ["CancelledError"]}
    assert events == ["called", *seen[end], "closed"]


async def test_a_generator_cannot_hide_that_the_call_has_failed() -> None:
    app = App("app")

    async def suppress() -> AsyncIterator[int]:
        try:
            yield 1
        except ToolError:
            pass

    @app.tool()
    def tool(x: int = Depends(suppress)) -> str:
        raise ToolError("failed")

    assert (await app.call_tool("tool")).is_error and await text(app) == "failed"


async def test_a_dependency_runs_once_for_a_call_and_again_for_the_next() -> None:
    calls: list[str] = []
    app = App("app")

    class Service:
        def name(self) -> str:
            calls.append("name")
            return "n"

    service = Service()

    def base() -> int:
        calls.append("base")
        return len(calls)

    def first(x: int = Depends(base), name: str = Depends(service.name)) -> int:
        return x

    async def second(x: Annotated[int, Depends(base)], name: Annotated[str, Depends(service.name)]) -> int:
        return x

    @app.tool()
    def tool(a: int = Depends(first), b: int = Depends(second), c: int = Depends(base)) -> str:
        return f"{a} {b} {c}"

    assert await text(app) == "1 1 1" and sorted(calls) == ["base", "name"]
    await text(app)
    assert sorted(calls) == ["base", "base", "name", "name"]


async def test_a_dependency_gets_the_context_the_arguments_and_what_is_bound() -> None:
    app = App("app")

    async def user(id: int, ctx: Context, unit: str = "kg") -> str:
        assert isinstance(ctx, Context)
        return f"{id} {unit}"

    def bound(value: str, more: str = "-") -> str:
        return value + more

    @app.tool()
    def tool(
        id: int,
        owner: int,
        a: str = Depends(user),
        b: str = Depends(user, id=CallArgument("owner")),
        c: str = Depends(bound, value="x", more=Depends(plain)),
        d: str = Depends(bound, value="y"),
    ) -> str:
        return f"{a}, {b}, {c}, {d}"

    assert await text(app, id=1, owner=2) == "1 kg, 2 kg, xvalue, y-"


async def test_prompts_and_resources_have_dependencies() -> None:
    app, events = App("app"), list[str]()

    async def language(ctx: Context) -> AsyncIterator[str]:
        yield "Latin"
        events.append("closed")

    @app.prompt()
    def translate(text: str, language: str = Depends(language)) -> str:
        return f"Translate {text!r} into {language}"

    @app.resource("words://{name}")
    def word(name: str, language: Annotated[str, Depends(language)]) -> str:
        return f"{name} in {language}"

    [prompt] = await app.list_prompts()
    assert [argument.name for argument in prompt.arguments or []] == ["text"]
    assert "Latin" in str((await app.get_prompt("translate", {"text": "hello"})).messages)
    assert "hello in Latin" in str((await app.read_resource("words://hello")).contents)
    assert events == ["closed", "closed"]


async def test_a_plain_dependency_does_not_block_the_event_loop() -> None:
    app, main = App("app"), threading.get_ident()

    def thread() -> Iterator[int]:
        yield threading.get_ident()
        assert threading.get_ident() != main

    @app.tool()
    async def tool(a: int = Depends(threading.get_ident), b: int = Depends(thread)) -> str:
        return str(main not in (a, b) and threading.get_ident() == main)

    assert await text(app) == "True"


async def test_the_request_can_be_injected() -> None:
    app = App("app")

    @app.tool()
    async def context(ctx: Context = CurrentContext(), headers: dict[str, str] = CurrentHeaders()) -> str:
        return f"{isinstance(ctx, Context)} {headers}"

    @app.tool()
    async def user(user: Any = CurrentAccessToken()) -> str:
        return str(user)

    @app.tool()
    async def claim(claim: str = TokenClaim("sub")) -> str:
        return claim

    assert await text(app, "context") == "True {}"
    assert "without authentication" in await text(app, "user")
    assert "without authentication" in await text(app, "claim")


async def test_the_failure_of_a_dependency_is_that_of_the_call() -> None:
    app, closed = App("app"), list[bool]()

    def first() -> Iterator[int]:
        yield 1
        raise AssertionError("the exception of the other dependency is thrown here")

    def second() -> int:
        raise ToolError("no database")

    @app.tool()
    def tool(a: int = Depends(first), b: int = Depends(second)) -> str:
        closed.append(True)
        return "never"

    assert await text(app) == "no database" and not closed
