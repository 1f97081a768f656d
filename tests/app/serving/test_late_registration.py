"""What is registered after the server was created is declared and served, until the first client has connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among, since
from support.http.sockets import listening

from mcp_generated import App, LocalError
from mcp_generated.middleware import Middleware
from mcp_generated.v2026_07_28 import types as t


def register(app: App) -> None:
    @app.tool
    def tool() -> str:
        return "a tool"

    @app.prompt
    def prompt(topic: str) -> str:
        return f"about {topic}"

    @app.resource("data://value")
    def resource() -> str:
        return "a value"

    @app.completion
    def complete(ref: Any, argument: Any) -> list[str]:
        return ["suggested"]


def mounted(app: App) -> None:
    inner = App("inner")
    app.mount(inner)
    register(inner)


def provided(app: App) -> None:
    """Mount a proxy, which is a provider."""
    inner = App("inner")
    register(inner)
    app.mount(App.proxy(inner))


WAYS: dict[str, Callable[[App], None]] = {"decorators": register, "mount": mounted, "proxy": provided}
CREATIONS: dict[str, Callable[[App], Any]] = {
    "asgi": lambda app: app.asgi(),
    "http_app": lambda app: app.http_app(),
    "server": lambda app: app.server,
}


async def check(client: Any) -> None:
    assert (await client.call_tool("tool")).content[0].text == "a tool"
    assert [item.name for item in (await client.list_tools()).tools] == ["tool"]
    assert (await client.get_prompt("prompt", {"topic": "x"})).messages[0].content.text == "about x"
    assert (await client.read_resource("data://value")).contents[0].text == "a value"
    capabilities = client.server.model_dump()["capabilities"]
    assert {"tools", "prompts", "resources"} <= capabilities.keys()
    assert capabilities["tools"]["listChanged"] is True and capabilities["resources"]["subscribe"] is True


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("creation", CREATIONS)
@among(ALL_REVISIONS)
async def test_all_kinds_are_declared_and_served_in_memory(rev: Rev, creation: str, way: str) -> None:
    app = App("late")
    CREATIONS[creation](app)
    WAYS[way](app)
    async with rev.package.Client.memory(app) as client:
        await check(client)


@pytest.mark.parametrize("way", WAYS)
@among(since("2025-03-26"))
async def test_all_kinds_are_declared_and_served_over_http(rev: Rev, way: str) -> None:
    app = App("late")
    async with listening(app.asgi()) as port:  # It listens before anything is registered.
        WAYS[way](app)
        async with rev.package.Client.http(f"http://127.0.0.1:{port}/mcp") as client:
            await check(client)


async def test_middleware_that_is_added_later_handles_messages() -> None:
    seen: list[str] = []

    class Noting(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append("called")
            return await call_next(context)

    app = App("late")
    app.asgi()
    register(app)
    app.add_middleware(Noting())
    async with app.client_class().memory(app) as client:
        await client.call_tool("tool")
    assert seen == ["called"]


@among(ALL_REVISIONS)
async def test_an_app_without_a_kind_does_not_declare_it(rev: Rev) -> None:
    app = App("late")
    app.asgi()
    app.add_tool(lambda: "x", "tool")
    async with rev.package.Client.memory(app) as client:
        capabilities = client.server.model_dump()["capabilities"]
        assert "tools" in capabilities and not {"prompts", "resources", "completions"} & capabilities.keys()


async def test_the_first_of_a_kind_is_refused_when_a_client_has_connected() -> None:
    app = App("late")
    app.asgi()
    app.add_tool(lambda: "x", "first")
    changes: list[str] = []
    app.on_change.append(changes.append)
    async with app.client_class().memory(app) as client:
        await client.list_tools()
        app.add_tool(lambda: "y", "second")  # Its list is declared to change.
        assert [tool.name for tool in (await client.list_tools()).tools] == ["first", "second"]
        with pytest.raises(LocalError, match=r"declare=\['prompts'\]"):
            app.add_prompt(lambda: "x", "prompt")
    assert changes == ["tools"]


async def test_a_call_of_the_app_itself_is_no_client() -> None:
    app = App("late")
    app.add_tool(lambda: "x", "tool")
    assert [tool.name for tool in await app.list_tools()] == ["tool"]
    app.add_prompt(lambda: "x", "prompt")
    assert [prompt.name for prompt in await app.list_prompts()] == ["prompt"]


async def test_a_task_needs_a_server_with_tasks() -> None:
    app = App("late")
    app.asgi()
    with pytest.raises(LocalError, match="add the first tool with `task` before it"):
        app.add_tool(lambda: "x", "tool", task=True)


async def test_completions_are_declared_late() -> None:
    app = App("late")
    app.asgi()
    register(app)
    reference = t.PromptReference(name="prompt")
    result = await app.complete(ref=reference, argument=t.CompletionArgument(name="topic", value=""))
    assert result.completion.values == ["suggested"]
