"""Resources, prompts and completion made of functions; changes at run time, middleware, mounting and lifespans."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.servers.app import app

from mcp_generated import REVISIONS, App, Context, UserMessage
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_generated.v2026_07_28.methods import FromClient
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import LocalError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

INVALID_PARAMS = -32602
NAMES = ["weather://{city}/{day}", "file:///docs/{+path}", "search://items{?q,limit}"]


def content(result: t.ReadResourceResult) -> tuple[str, str | None, str | None]:
    [only] = result.contents
    assert isinstance(only, t.TextResourceContents)
    return only.text, only.mime_type, only.uri


async def test_resources_and_templates_are_listed_apart() -> None:
    first, second = await app.list_resources()
    assert (first.uri, first.name, first.mime_type) == ("sample://motd", "motd", "text/markdown")
    assert (first.description, second.uri) == ("The message of the day.", "sample://logo")
    templates = await app.list_resource_templates()
    assert [template.uri_template for template in templates] == NAMES
    assert (templates[0].title, templates[0].description) == ("Weather", "The weather of a day.")


@pytest.mark.clause("draft/resources/10")
async def test_a_resource_is_text_bytes_or_json() -> None:
    assert content(await app.read_resource(uri="sample://motd")) == ("# hello", "text/markdown", "sample://motd")
    [logo] = (await app.read_resource(uri="sample://logo")).contents
    assert isinstance(logo, t.BlobResourceContents)
    assert (base64.b64decode(logo.blob), logo.mime_type) == (b"\x89PNG", "image/png")
    uri = "weather://New%20York/2"
    assert content(await app.read_resource(uri=uri)) == (
        '{\n  "city": "New York",\n  "day": 2\n}',
        "application/json",
        uri,
    )
    assert content(await app.read_resource(uri="file:///docs/a/b.md"))[0] == "a/b.md"
    assert content(await app.read_resource(uri="search://items?q=x+y"))[0] == "x y 5"


@pytest.mark.clause("draft/resources/08")
@pytest.mark.parametrize(
    "uri",
    [
        "sample://nothing",
        "weather://Paris/soon",
        "weather://Paris",
        "file:///docs/../secret",
        "file:///docs/%2e%2e/secret",
        "file:///docs//etc/passwd",
        "weather://%2e%2e%2fx/1",
    ],
)
async def test_a_resource_that_is_not_there_is_not_found(uri: str) -> None:
    with pytest.raises(RemoteJSONRPCError, match="resource not found") as caught:
        await app.read_resource(uri=uri)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.clause("draft/prompts/08", "draft/prompts/09", "draft/prompts/11")
async def test_a_prompt_has_arguments_that_are_checked() -> None:
    review, chat = await app.list_prompts()
    assert (review.name, review.title, review.description) == ("review", "Review", "Review some code.")
    assert review.arguments == [
        t.PromptArgument(name="code", description="What to look at.", required=True),
        t.PromptArgument(name="depth", required=False),
    ]
    assert (chat.name, chat.arguments) == ("chat-start", None)
    prompt = await app.get_prompt(name="review", arguments={"code": "x = 1", "depth": "2"})
    assert prompt.messages == [t.PromptMessage(role="user", content=t.TextContent(text="Review 2: x = 1"))]
    wrong: list[dict[str, str]] = [{}, {"code": "x", "depth": "deep"}, {"code": "x", "more": "y"}]
    for arguments in wrong:
        with pytest.raises(RemoteJSONRPCError, match="the prompt 'review': invalid arguments") as caught:
            await app.get_prompt(name="review", arguments=arguments)
        assert caught.value.code == INVALID_PARAMS
    with pytest.raises(RemoteJSONRPCError, match="unknown prompt"):
        await app.get_prompt(name="nope")


async def test_a_prompt_may_be_several_messages() -> None:
    messages = (await app.get_prompt(name="chat-start")).messages
    assert [(message.role, message.content) for message in messages] == [
        ("user", t.TextContent(text="hi")),
        ("assistant", t.TextContent(text="hello")),
        ("user", t.TextContent(text="bye")),
    ]


@pytest.mark.clause("draft/completion/03")
async def test_completion_gives_at_most_a_hundred_and_says_how_many_there_are() -> None:
    ref = t.ResourceTemplateReference(uri=NAMES[0])
    result = await app.complete(ref=ref, argument=t.CompletionArgument(name="city", value="P"))
    values = result.completion
    assert (values.values[0], len(values.values), values.total, values.has_more) == ("P0", 100, 150, True)
    other = await app.complete(ref=ref, argument=t.CompletionArgument(name="day", value=""))
    assert other.completion.values == []
    for unknown in (t.PromptReference(name="nope"), t.ResourceTemplateReference(uri="nope://{x}")):
        with pytest.raises(RemoteJSONRPCError, match="unknown completion reference") as caught:
            await app.complete(ref=unknown, argument=t.CompletionArgument(name="city", value=""))
        assert caught.value.code == INVALID_PARAMS


async def test_lists_come_in_pages() -> None:
    many = App("many", page_size=3)
    for number in range(7):
        many.add_tool(lambda: "", f"tool{number}")
    async with Client.memory(many.server) as client:
        first = await client.list_tools()
        assert len(first.tools) == 3 and first.next_cursor is not None
        assert [tool.name async for tool in client.iter_tools()] == [f"tool{number}" for number in range(7)]


async def test_tools_come_and_go_at_run_time() -> None:
    changing = App("changing", declare=["prompts"])
    seen: list[str] = []
    changing.on_change.append(seen.append)
    changing.add_tool(lambda: "1", "one")
    async with Client.memory(changing.server) as client:
        changing.add_tool(lambda: "2", "two")
        changing.add_prompt(lambda: "hi", "greet")
        changing.remove_tool("one")
        assert [tool.name async for tool in client.iter_tools()] == ["two"]
        assert [prompt.name async for prompt in client.iter_prompts()] == ["greet"]
    assert seen == ["tools", "tools", "prompts", "tools"]
    with pytest.raises(LocalError, match="no 'one' among its tools"):
        changing.remove_tool("one")


class Listening(Client):
    """A client that hears of changes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.notifications: asyncio.Queue[str] = asyncio.Queue()

    async def on_subscriptions_acknowledged(self, ctx: Any, params: Any) -> None:
        self.notifications.put_nowait("listening")

    async def on_tool_list_changed(self, ctx: Any, params: Any) -> None:
        self.notifications.put_nowait("tools")


async def test_who_listens_hears_of_changes_that_a_tool_makes_in_its_thread() -> None:
    changing = App("changing")

    @changing.tool()
    def add() -> str:
        changing.add_tool(lambda: "", "more")
        return "added"

    async with Listening.memory(changing.server) as client:
        params = {"notifications": {"toolsListChanged": True}}
        request = client._send_request(FromClient.SUBSCRIPTIONS_LISTEN, params, RequestOptions(timeout=None))
        listening = asyncio.create_task(request)
        assert await client.notifications.get() == "listening"
        await client.call_tool(name="add")
        assert await client.notifications.get() == "tools"
        assert [tool.name async for tool in client.iter_tools()] == ["add", "more"]
        listening.cancel()
        await asyncio.wait([listening])


@pytest.mark.parametrize("version", [version for version in REVISIONS if version != "2026-07-28"])
async def test_clients_of_older_revisions_use_an_app_and_hear_of_changes(version: str) -> None:
    changing = App("changing")
    notified = asyncio.Event()

    @changing.tool()
    async def add(ctx: Context, name: str) -> str:
        changing.add_tool(lambda: "", name)
        return f"added for {ctx.client_info['name']}"

    async def on_tool_list_changed(self: Any, ctx: Any, params: Any) -> None:
        notified.set()

    package = import_module(f"mcp_generated.{REVISIONS[version]}")
    older = type("Older", (package.Client,), {"on_tool_list_changed": on_tool_list_changed})
    async with older.memory(*server_candidates(changing.server), name="old") as client:
        result = await client.call_tool(name="add", arguments={"name": "more"})
        assert [block.text for block in result.content] == ["added for old"]
        await notified.wait()
        assert [tool.name async for tool in client.iter_tools()] == ["add", "more"]


async def test_an_app_is_mounted_in_an_asgi_application_and_answers_over_http() -> None:
    import httpx2

    served = app.asgi()
    transport = httpx2.ASGITransport(app=served)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "google", "arguments": {"city": "Rome"}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "google",
    }
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/mcp", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert "Rome 3" in answer.text


@pytest.mark.clause("draft/tools/05", "draft/resources/01", "draft/prompts/01", "draft/completion/01")
async def test_only_what_there_is_is_declared() -> None:
    tools = App("tools")
    tools.add_tool(lambda: "", "one")
    assert tools.server.capabilities == {"logging": {}, "tools": {"listChanged": True}}
    assert {*app.server.capabilities} == {"logging", "tools", "resources", "prompts", "completions"}
    assert app.server.capabilities["resources"] == {"listChanged": True, "subscribe": True}


async def test_the_first_item_of_a_list_that_was_not_declared_is_refused() -> None:
    tools = App("tools")
    tools.add_tool(lambda: "", "one")
    async with Client.memory(tools.server) as client:
        with pytest.raises(LocalError, match=r"declare=\['prompts'\]"):
            tools.add_prompt(lambda: "hi", "greet")
        tools.remove_tool("one")
        tools.add_tool(lambda: "", "two")
        assert [tool.name async for tool in client.iter_tools()] == ["two"]


async def test_middleware_is_around_every_request_in_order() -> None:
    seen: list[str] = []
    watched = App("watched")

    @watched.middleware
    async def outer(name: str, ctx: Any, params: Any, go: Any) -> Any:
        seen.append(f"outer {name}")
        answer = await go(ctx, params)
        seen.append("outer ends")
        return answer

    @watched.middleware
    async def inner(name: str, ctx: Any, params: Any, go: Any) -> Any:
        seen.append(f"inner {name}")
        if name == "call_tool":
            params = params.model_copy(update={"arguments": {"text": params.arguments["text"].upper()}})
        return await go(ctx, params)

    @watched.tool()
    def shout(text: str) -> str:
        return text

    result = await watched.call_tool(name="shout", arguments={"text": "hey"})
    assert result.content == [t.TextContent(text="HEY")]
    assert seen == ["outer call_tool", "inner call_tool", "outer ends"]
    await watched.list_tools()
    assert seen[3:] == ["outer list_tools", "inner list_tools", "outer ends"]


def opening(events: list[str]) -> Any:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[str]:
        events.append(f"{app.name} opens")
        yield f"state of {app.name}"
        events.append(f"{app.name} closes")

    return lifespan


async def test_an_app_is_mounted_in_another_under_a_prefix() -> None:
    events: list[str] = []
    inner, outer = App("inner", lifespan=opening(events)), App("outer", lifespan=opening(events))
    outer.mount(inner, "sub")

    async def state(ctx: Context) -> str:
        return str(ctx.state)

    @inner.middleware
    async def note(name: str, ctx: Any, params: Any, go: Any) -> Any:
        events.append(f"inner {name}")
        return await go(ctx, params)

    for part in (inner, outer):
        part.add_tool(state, "state")
        part.add_resource("notes://today", lambda: "note")
    inner.add_resource("notes://{day}/x", lambda day: day, name="day")
    inner.add_prompt(lambda: UserMessage("hi"), "greet")
    assert [tool.name for tool in await outer.list_tools()] == ["state", "sub_state"]
    assert [resource.uri for resource in await outer.list_resources()] == ["notes://today", "notes://sub/today"]
    assert [template.uri_template for template in await outer.list_resource_templates()] == ["notes://sub/{day}/x"]
    assert [prompt.name for prompt in await outer.list_prompts()] == ["sub_greet"]
    events.clear()
    result = await outer.call_tool(name="sub_state")
    assert result.content == [t.TextContent(text="state of inner")]
    assert events == ["outer opens", "inner opens", "inner call_tool", "inner closes", "outer closes"]
    assert (await outer.call_tool(name="state")).content == [t.TextContent(text="state of outer")]
    assert content(await outer.read_resource(uri="notes://sub/mon/x")) == ("mon", "text/plain", "notes://sub/mon/x")
    assert len((await outer.get_prompt(name="sub_greet")).messages) == 1
    with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
        await outer.call_tool(name="sub_nope")
    with pytest.raises(LocalError, match="inside of itself"):
        inner.mount(outer, "loop")


def test_what_cannot_be_a_resource_is_refused_at_once() -> None:
    broken = App("broken")
    with pytest.raises(LocalError, match="URI variables and function parameters differ: day"):
        broken.add_resource("weather://{city}/{day}", lambda city: "")
    with pytest.raises(LocalError, match="need a default: q"):
        broken.add_resource("search://items{?q}", lambda q: "")
    broken.add_resource("a://b", lambda: "")
    with pytest.raises(LocalError, match="already"):
        broken.add_resource("a://b", lambda: "")


def test_a_picture_may_be_a_file(tmp_path: Path) -> None:
    from mcp_generated import Image

    path = tmp_path / "photo.jpg"
    path.write_bytes(b"jpeg")
    assert Image(path=path).mime_type == Image(path).mime_type == "image/jpeg"
    assert base64.b64decode(Image(path=path).encoded()) == base64.b64decode(Image(str(path)).encoded()) == b"jpeg"
    for arguments in ({}, {"data": b"", "path": path}):
        with pytest.raises(LocalError, match="Image needs either `data` or `path`"):
            Image(**arguments)


async def test_what_two_mounted_apps_have_is_listed_once_and_served_by_the_first() -> None:
    def said(text: str, name: str = "?") -> str:
        return text

    outer = App("outer")
    for number in ("1", "2"):
        inner = App(f"inner {number}")
        inner.add_resource("data://one", partial(said, number), name=f"one {number}")
        inner.add_resource("data://{name}/y", partial(said, number), name=f"many {number}")
        outer.mount(inner)
    async with Client.memory(outer) as client:
        assert [item.name for item in (await client.list_resources()).resources] == ["one 1"]
        assert [item.name for item in (await client.list_resource_templates()).resource_templates] == ["many 1"]
        for uri in ("data://one", "data://x/y"):
            (content,) = (await client.read_resource(uri)).contents
            assert getattr(content, "text", "") == "1"


@asynccontextmanager
async def failing(app: App) -> AsyncIterator[None]:
    raise ValueError("no database")
    yield


@asynccontextmanager
async def failing_at_the_end(app: App) -> AsyncIterator[None]:
    yield
    raise ValueError("no database")


@pytest.mark.parametrize("lifespan", [failing, failing_at_the_end])
async def test_what_a_lifespan_raises_is_what_a_client_in_memory_raises(lifespan: Any) -> None:
    failing_app = App("failing", lifespan=lifespan)
    failing_app.add_tool(lambda: "x", "get")
    for call in (failing_app.call_tool("get"), called_in_memory(failing_app)):
        with pytest.raises(ValueError, match="no database"):
            await call


async def called_in_memory(served: App) -> None:
    async with Client.memory(served.server) as client:
        await client.call_tool("get")


async def test_a_lifespan_that_returns_its_value_is_an_error_with_the_remedy() -> None:
    with pytest.raises(LocalError, match="the lifespan 'plain' returned {}, no async context manager: put @async"):
        await App("plain", lifespan=plain).list_tools()


def plain(app: App) -> Any:
    return {}
