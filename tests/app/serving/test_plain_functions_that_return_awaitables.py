"""A plain `def` may return something to await: a coroutine, a task or a future. It is awaited wherever functions go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App
from mcp_generated.v2025_11_25 import Server as OlderServer
from mcp_generated.v2025_11_25 import types as older
from mcp_generated.v2026_07_28 import Server
from mcp_generated.v2026_07_28 import types as newest


async def text(value: str) -> str:
    await asyncio.sleep(0)
    return value


class Later:
    """An awaitable that is neither a coroutine nor a future."""

    def __await__(self) -> Generator[Any, None, str]:
        return text("later").__await__()


def awaitables(kind: str) -> Any:
    return {"coroutine": lambda: text("later"), "awaitable": Later}[kind]


KINDS = ["coroutine", "awaitable"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("thread", [True, False])
async def test_results_of_tools_resources_and_prompts_are_awaited(kind: str, thread: bool) -> None:
    app = App("later")
    make = awaitables(kind)

    @app.tool(thread=thread)
    def tool() -> str:
        value: str = make()
        return value

    @app.resource("test://fixed", thread=thread)
    def fixed() -> str:
        value: str = make()
        return value

    @app.resource("test://variable/{name}", thread=thread)
    def variable(name: str) -> str:
        value: str = make()
        return value

    @app.prompt(thread=thread)
    def prompt() -> str:
        value: str = make()
        return value

    async with connect(app) as client:
        called: Any = await client.call_tool(name="tool")
        assert [called.is_error or False, called.content[0].text] == [False, "later"]
        for uri in ("test://fixed", "test://variable/x"):
            read: Any = await client.read_resource(uri=uri)
            assert read.contents[0].text == "later", uri
        prompted: Any = await client.get_prompt(name="prompt")
        assert prompted.messages[0].content.text == "later"


@pytest.mark.parametrize("kind", KINDS)
async def test_results_of_completions_are_awaited(kind: str) -> None:
    app = App("later")
    make = awaitables(kind)

    @app.prompt
    def greet(who: str) -> str:
        return who

    @app.completion
    def suggest(ref: Any, argument: Any, context: Any) -> Any:
        async def suggestions() -> list[str]:
            return [await make()]

        return suggestions()

    async with connect(app) as client:
        ref: Any = newest.PromptReference(name="greet")
        result = await client.complete(ref=ref, argument=newest.CompletionArgument(name="who", value=""))
        assert result.completion.values == ["later"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("package", "server_class"), [(older, OlderServer), (newest, Server)])
async def test_results_of_the_methods_of_a_server_are_awaited(kind: str, package: Any, server_class: Any) -> None:
    make = awaitables(kind)

    def call_tool(self: Any, ctx: Any, params: Any) -> Awaitable[Any]:
        async def result() -> Any:
            return package.CallToolResult(content=[package.TextContent(text=await make())])

        return result()

    server = type("Later", (server_class,), {"call_tool": call_tool})(name="later", version="1")
    async with connect(server) as client:
        called: Any = await client.call_tool(name="any")
        assert called.content[0].text == "later"
