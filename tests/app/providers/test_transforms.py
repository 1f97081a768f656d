"""Transforms, providers and injected tools, as clients of an app see them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Context, LocalError, RemoteJSONRPCError
from mcp_generated.middleware import ToolInjectionMiddleware
from mcp_generated.providers import FileSystemProvider, Provider
from mcp_generated.transforms import (
    BM25SearchTransform,
    PromptsAsTools,
    RegexSearchTransform,
    ResourcesAsTools,
    Transform,
)
from mcp_generated.v2026_07_28 import types as t
from mcp_products.app.transforms.tool_search import ToolIndex


def library() -> App:
    app = App("library", page_size=2)

    @app.tool
    def send_email(recipient: str, ctx: Context) -> str:
        """Send a message to a person."""
        return f"sent to {recipient}"

    @app.tool
    def read_inbox() -> str:
        """Read the messages that arrived."""
        return "nothing"

    @app.tool(tags={"admin"})
    def erase_disk() -> str:
        """Erase all files, messages too."""
        return "erased"

    @app.resource("note://a")
    def note() -> str:
        return "note a"

    @app.resource("note://days/{day}")
    def day(day: str) -> str:
        return f"day {day}"

    @app.prompt
    def greet(person: str) -> str:
        return f"Greet {person}"

    return app


async def names(app: App) -> list[str]:
    return [tool.name for tool in await app.list_tools()]


async def result_of(app: App, tool: str, /, **arguments: Any) -> Any:
    result = await app.call_tool(tool, arguments)
    assert not result.is_error, result
    structured = result.model_dump().get("structuredContent")
    return result.content[0].text if structured is None else structured["result"]


async def test_resources_are_tools() -> None:
    app = library()
    app.add_transform(ResourcesAsTools())
    assert (await names(app))[-2:] == ["list_resources", "read_resource"]
    listed = await result_of(app, "list_resources")
    assert [item.get("uri") or item["uriTemplate"] for item in listed] == ["note://a", "note://days/{day}"]
    assert [item["text"] for item in await result_of(app, "read_resource", uri="note://days/x")] == ["day x"]
    with pytest.raises(RemoteJSONRPCError, match="resource not found"):
        await app.call_tool("read_resource", {"uri": "note://b"})


async def test_prompts_are_tools() -> None:
    app = library()
    app.add_transform(PromptsAsTools())
    assert [item["name"] for item in await result_of(app, "list_prompts")] == ["greet"]
    messages = await result_of(app, "get_prompt", name="greet", arguments={"person": "Ann"})
    assert messages[0]["content"]["text"] == "Greet Ann"


async def test_an_app_with_nothing_but_resources_declares_the_tools_of_a_transform() -> None:
    app = App("notes")
    app.add_resource("note://a", lambda: "a")
    app.add_transform(ResourcesAsTools())
    assert await names(app) == ["list_resources", "read_resource"]


@pytest.mark.parametrize(
    ("transform", "argument"),
    [(BM25SearchTransform, {"query": "email a person"}), (RegexSearchTransform, {"pattern": "^SEND_|recipient"})],
)
async def test_a_search_replaces_the_list_of_tools(transform: Any, argument: dict[str, str]) -> None:
    app = library()
    app.add_transform(transform(2))
    assert await names(app) == ["search_tools", "call_tool"]
    assert [tool["name"] for tool in await result_of(app, "search_tools", **argument)] == ["send_email"]
    assert await result_of(app, "call_tool", name="send_email", arguments={"recipient": "Ann"}) == "sent to Ann"
    again = await app.call_tool("call_tool", {"name": "call_tool", "arguments": {}})
    assert again.is_error


async def test_a_search_ranks_and_shows_only_what_a_client_may_call() -> None:
    app = library()
    app.add_transform(BM25SearchTransform(always_visible=["read_inbox"]))
    assert await names(app) == ["read_inbox", "search_tools", "call_tool"]
    ranked = await result_of(app, "search_tools", query="erase messages")
    assert [tool["name"] for tool in ranked] == ["erase_disk"]
    app.disable(tags={"admin"})
    assert await result_of(app, "search_tools", query="erase messages") == []
    with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
        await app.call_tool("call_tool", {"name": "erase_disk"})


async def test_a_query_is_a_few_words_and_a_longer_one_is_refused_with_the_limit() -> None:
    app = library()
    app.add_transform(BM25SearchTransform())
    refused = await app.call_tool("search_tools", {"query": "erase " * 50_000})
    [content] = refused.content
    assert refused.is_error and "1000 characters" in content.text
    longest = ("erase " * 170)[:1000]
    assert [tool["name"] for tool in await result_of(app, "search_tools", query=longest)] == ["erase_disk"]
    [schema] = [tool.input_schema.model_dump() for tool in await app.list_tools() if tool.name == "search_tools"]
    assert schema["properties"]["query"]["maxLength"] == 1000


async def test_a_search_finds_tools_that_were_added_after_another_search() -> None:
    app = library()
    app.add_transform(BM25SearchTransform())
    assert await result_of(app, "search_tools", query="bicycle") == []
    app.add_tool(lambda: "rides", name="ride", description="Ride a bicycle.")
    assert [tool["name"] for tool in await result_of(app, "search_tools", query="bicycle")] == ["ride"]


def test_a_search_reads_only_the_texts_that_have_its_words() -> None:
    texts = ["red apple", "green apple apple", "blue sky", ""]
    index = ToolIndex(texts)
    assert index.ranked("apple") == [1, 0]
    assert sorted(index.ranked("SKY, red")) == [0, 2]
    assert index.ranked("nothing") == index.ranked("") == ToolIndex([]).ranked("apple") == []


async def test_a_pattern_of_a_client_takes_linear_time_or_is_an_error() -> None:
    app = library()
    app.add_transform(RegexSearchTransform())
    for pattern in ("(", "(?=x)", "x" * 500):
        result = await app.call_tool("search_tools", {"pattern": pattern})
        assert result.is_error
    assert await result_of(app, "search_tools", pattern="(a+)+$") == []


class Renamed(Transform):
    """A transform that adds a suffix to names."""

    async def list_tools(self, tools: Sequence[Any], ctx: Any) -> Sequence[Any]:
        return [tool.model_copy(update={"name": f"{tool.name}_v1"}) for tool in tools]

    async def call_tool(self, ctx: Any, params: Any, call_next: Any) -> Any:
        return await call_next(ctx, params.model_copy(update={"name": params.name.removesuffix("_v1")}))


async def test_a_transform_of_ones_own_gets_all_pages() -> None:
    app = library()
    app.add_transform(Renamed())
    assert await names(app) == ["send_email_v1", "read_inbox_v1", "erase_disk_v1"]
    assert await result_of(app, "read_inbox_v1") == "nothing"


async def test_a_mounted_app_with_transforms_is_refused_and_a_proxy_of_it_is_not() -> None:
    inner, app = library(), App("outer")
    inner.add_transform(Renamed())
    with pytest.raises(LocalError, match=r"has transforms, which only its own clients see: mount App.proxy\(app\)"):
        app.mount(inner, "in")
    app.mount(App.proxy(inner), "in")
    assert await names(app) == ["in_send_email_v1", "in_read_inbox_v1", "in_erase_disk_v1"]
    assert await result_of(app, "in_read_inbox_v1") == "nothing"


class Numbers(Provider):
    """A provider whose tools are the numbers of a list."""

    def __init__(self) -> None:
        self.numbers = ["one"]

    async def list_tools(self, ctx: Any) -> Sequence[t.Tool]:
        return [t.Tool(name=name, input_schema=t.ToolInputSchema()) for name in self.numbers]

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        if params.name not in self.numbers:
            return await super().call_tool(ctx, params)
        return t.CallToolResult(content=[t.TextContent(text=params.name)])


async def test_a_provider_lists_and_serves_at_each_request() -> None:
    numbers, app = Numbers(), App("numbers")
    app.add_provider(numbers)
    app.add_provider(Numbers(), "sub")
    numbers.numbers.append("two")
    assert await names(app) == ["one", "two", "sub_one"]
    assert [await result_of(app, name) for name in ("two", "sub_one")] == ["two", "one"]
    with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'three'"):
        await app.call_tool("three")
    app.disable(names={"two"})
    with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'two'"):
        await app.call_tool("two")


async def test_middleware_injects_tools() -> None:
    def version() -> str:
        return "7"

    app = library()
    app.add_middleware(ToolInjectionMiddleware([version]))
    assert await names(app) == ["version", "send_email", "read_inbox", "erase_disk"]
    assert await result_of(app, "version") == "7"
    only = App("only", middleware=[ToolInjectionMiddleware([version])])
    assert await names(only) == ["version"]


FILE = """
from mcp_generated import tool
from mcp_generated.providers import prompt, resource


@tool(title="Where")
def where(city: str) -> str:
    return f"{city} is there"


@resource("file://a")
def a() -> str:
    return "a"


@prompt
def greet() -> str:
    return "hello"


def hidden() -> str:
    return "no tool"
"""


async def test_functions_of_files_are_tools_resources_and_prompts(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "places.py").write_text(FILE)
    (tmp_path / "_private.py").write_text("raise AssertionError")
    app = App("files")
    app.add_provider(FileSystemProvider(tmp_path), "f")
    assert await names(app) == ["f_where"]
    assert await result_of(app, "f_where", city="Rome") == "Rome is there"
    assert (await app.read_resource("file://f/a")).contents[0].text == "a"
    assert [item.name for item in await app.list_prompts()] == ["f_greet"]


async def test_changed_files_are_loaded_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "places.py"
    file.write_text(FILE)
    app = App("files")
    app.add_provider(FileSystemProvider(tmp_path, reload=True, poll_interval=0.01))
    async with connect(app) as client, client.listen(tool_list_changed=True) as changes:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["where"]
        file.write_text(FILE.replace("def where", "def whither"))
        await anext(changes)
        assert [tool.name for tool in (await client.list_tools()).tools] == ["whither"]
        with caplog.at_level(logging.WARNING):
            file.write_text("this is not Python")
            (tmp_path / "b.py").write_text(FILE.replace("where", "here").replace("file://a", "file://b"))
            while "cannot be loaded" not in caplog.text:
                await client.list_tools()
        file.write_text(FILE.replace("greet", "wave"))
        await anext(changes)
        assert {tool.name for tool in (await client.list_tools()).tools} == {"where", "here"}


@pytest.mark.parametrize("reload", [True, False])
async def test_files_that_may_come_later_are_declared(tmp_path: Path, reload: bool) -> None:
    app = App("files")
    app.add_provider(FileSystemProvider(tmp_path, reload=reload))
    async with connect(app) as client:
        declared = client.server.capabilities
        assert [getattr(declared, name) is not None for name in ("tools", "resources", "prompts")] == [reload] * 3


class Silent(Provider):
    """A provider that lists nothing, and completes what it does not list."""

    async def complete(self, ctx: Any, params: Any) -> t.CompleteResult:
        return t.CompleteResult(completion=t.Completion(values=[f"{params.argument.value}!"]))


async def test_the_only_provider_completes_what_it_does_not_list_and_of_two_the_one_that_lists_it() -> None:
    class Listing(Silent):
        async def list_prompts(self, ctx: Any) -> Sequence[t.Prompt]:
            return [t.Prompt(name="greet")]

    class Other(Silent):
        async def complete(self, ctx: Any, params: Any) -> t.CompleteResult:
            return t.CompleteResult(completion=t.Completion(values=["the other"]))

    for providers in ([Silent()], [Other(), Listing()]):
        app = App("app")
        app.add_prompt(lambda: "mine", "own")
        for provider in providers:
            app.add_provider(provider)
        async with connect(app) as client:
            got = await client.complete(t.PromptReference(name="greet"), t.CompletionArgument(name="a", value="x"))
            assert got.completion.values == ["x!"]


async def test_resources_and_templates_are_got_by_their_uris() -> None:
    app, outer = library(), App("outer")
    outer.mount(app)
    assert (await outer.get_resource("note://a")).definition.name == "note"
    assert (await outer.get_resource("note://days/monday")).definition.uri_template == "note://days/{day}"
    assert (await outer.get_resource_template("note://days/{day}")).definition.name == "day"
    with pytest.raises(LocalError, match="there is no resource 'note://b'; the resources are 'note://a'"):
        await outer.get_resource("note://b")
    with pytest.raises(LocalError, match="there is no resource template 'note://a'"):
        await outer.get_resource_template("note://a")


async def test_an_app_without_a_prefix_comes_after_the_app_itself() -> None:
    app = App("outer")
    app.add_tool(lambda: "mine", "read_inbox")
    app.mount(library())
    assert sorted(await names(app)) == ["erase_disk", "read_inbox", "send_email"]
    assert await result_of(app, "read_inbox") == "mine"
    assert (await app.read_resource("note://a")).contents[0].text == "note a"


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    app = App("wrong")
    (tmp_path / "bad.py").write_text("from mcp_generated import tool\n\n@tool(scope=[])\ndef f() -> str: ...\n")
    for wrong, message in [
        (lambda: app.add_transform(ResourcesAsTools), "needs an object, not the class ResourcesAsTools: write Res"),
        (lambda: app.add_transform(Numbers()), "needs an object of a subclass of Transform"),
        (lambda: app.add_provider(App("x")), "needs an object of a subclass of Provider"),
        (lambda: BM25SearchTransform(0), "max_results must be 1 or more; 0 is not"),
        (lambda: RegexSearchTransform(always_visible="a"), "always_visible must be a list of names; write \\['a'\\]"),
        (lambda: ToolInjectionMiddleware([]), "needs a list of functions"),
        (lambda: FileSystemProvider(tmp_path / "none"), "there is no folder"),
        (lambda: FileSystemProvider(tmp_path, poll_interval=0), "poll_interval must be above 0 seconds"),
        (lambda: app.add_provider(FileSystemProvider(tmp_path)), "bad.py.* cannot be loaded: .*scope.*scopes"),
    ]:
        with pytest.raises(LocalError, match=message):
            wrong()
    inner = App("inner")
    App("outer").mount(inner)
    with pytest.raises(LocalError, match="this app is mounted"):
        inner.add_transform(ResourcesAsTools())
    app.server.connected()
    with pytest.raises(LocalError, match="clients have connected to this app already"):
        app.add_transform(ResourcesAsTools())
