"""What a proxy may stand in front of, where it can be mounted, and which targets are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.http.sockets import listening
from support.installation.extras import optional

import mcp_generated
from mcp_generated import App, LocalError
from mcp_generated.v2024_11_05 import Server as OldServer
from mcp_generated.v2024_11_05 import types as old
from mcp_generated.v2026_07_28 import Client

compat = optional("mcp_generated.compat")

SERVER = """
import sys
from mcp_generated import App

app = App("file")


@app.tool
def where() -> str:
    return "file " + " ".join(sys.argv[1:])


app.run()
"""


class Old(OldServer):
    """A server of the oldest revision, with nothing but tools."""

    async def list_tools(self, ctx: Any, params: Any) -> old.ListToolsResult:
        first = params.cursor is None
        tools = [old.Tool(name="where" if first else "second", input_schema=old.ToolInputSchema())]
        return old.ListToolsResult(tools=tools, next_cursor="page 2" if first else None)

    async def call_tool(self, ctx: Any, params: Any) -> old.CallToolResult:
        return old.CallToolResult(content=[old.TextContent(text="old")])


def inner_app(name: str = "inner") -> App:
    app = App(name)

    @app.tool
    def where(text: str = "") -> str:
        return f"{name} {text}".strip()

    @app.resource("note://a/{day}")
    def note(day: str) -> str:
        return f"{name} {day}"

    @app.resource("note://today")
    def today() -> str:
        return name

    @app.prompt
    def greet() -> str:
        return name

    @app.completion
    def complete(ref: Any, argument: Any) -> list[str]:
        return [name]

    return app


async def where(app: App, name: str = "where") -> str:
    async with connect(app) as client:
        return str((await client.call_tool(name)).content[0].text)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "a server.py"
    path.write_text(SERVER)
    return path


@pytest.mark.long
async def test_a_file_is_started(script: Path) -> None:
    assert await where(App.proxy(str(script))) == "file "


@pytest.mark.long
async def test_a_path_a_command_and_entries_are_started(script: Path, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(script), "one"]}
    assert await where(App.proxy(script)) == "file "
    assert await where(App.proxy([sys.executable, str(script), "x"])) == "file x"
    assert await where(App.proxy(f"{sys.executable} '{script}' x")) == "file x"
    assert await where(App.proxy(entry)) == "file one"
    assert await where(App.proxy({"mcpServers": {"only": entry}})) == "file one"
    configuration = tmp_path / "mcp.json"
    configuration.write_text(json.dumps({"mcpServers": {"a-b": entry, "c d": entry}}))
    proxy = App.proxy(configuration)
    assert [tool.name for tool in await proxy.list_tools()] == ["a-b_where", "c_d_where"]
    assert await where(proxy, "c_d_where") == "file one"


async def test_urls_servers_and_clients_are_targets() -> None:
    async with listening(inner_app().asgi()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        assert await where(App.proxy(url)) == "inner"
        assert await where(App.proxy(connect(url))) == "inner"
        async with connect(url) as client:
            assert await where(App.proxy(client)) == "inner"
            assert (await client.call_tool("where")).content[0].text == "inner"
        for made in (mcp_generated.Client(url), mcp_generated.connect(url)):
            assert await where(App.proxy(made)) == "inner"
            async with made:
                assert await where(App.proxy(made)) == "inner"
    assert await where(App.proxy(Old(name="old", version="1"))) == "old"
    assert await where(compat.create_proxy(inner_app())) == "inner"
    assert await where(compat.create_proxy(compat.create_proxy(inner_app()), name="outer")) == "inner"


@pytest.mark.parametrize("keyword", ["elicitation", "sampling", "on_log", "on_change", "on_message"])
async def test_a_client_with_functions_has_to_be_connected_before(keyword: str) -> None:
    settings: dict[str, Any] = {keyword: lambda params: None}
    client = mcp_generated.Client(inner_app(), **settings)
    with pytest.raises(LocalError, match=f"handles {keyword}, which a proxy passes to its own clients"):
        App.proxy(client)
    async with client:
        assert await where(App.proxy(client)) == "inner"


async def test_a_client_with_roots_has_to_be_connected_before() -> None:
    with pytest.raises(LocalError, match="handles roots"):
        App.proxy(mcp_generated.Client(inner_app(), roots=["."]))


async def test_pages_of_the_target_are_passed_as_they_are() -> None:
    async with connect(App.proxy(Old(name="old", version="1"))) as client:
        first = await client.list_tools()
        assert ([tool.name for tool in first.tools], first.next_cursor) == (["where"], "page 2")
        assert [tool.name for tool in (await client.list_tools(cursor="page 2")).tools] == ["second"]
        assert [prompt async for prompt in client.iter_prompts()] == []


async def test_a_mounted_proxy_has_a_prefix_or_none() -> None:
    app = App("gate")

    @app.tool
    def own() -> str:
        return "own"

    app.mount(App.proxy(inner_app("one"), "one"), "one")
    app.mount(App.proxy(Old(name="old", version="1"), "old"), "old")
    deeper = App("deeper")
    deeper.mount(App.proxy(inner_app("two"), "two"), "two")
    app.mount(deeper, "deep")
    assert [tool.name for tool in await app.list_tools()] == [
        "own",
        "one_where",
        "old_where",
        "old_second",
        "deep_two_where",
    ]
    assert await where(app, "one_where") == "one"
    assert await where(app, "deep_two_where") == "two"
    assert [item.uri for item in await app.list_resources()] == ["note://one/today", "note://deep/two/today"]
    read = (await app.read_resource("note://deep/two/a/monday")).contents[0]
    assert (read.uri, read.text) == ("note://deep/two/a/monday", "two monday")
    assert (await app.get_prompt("one_greet")).messages[0].content.text == "one"
    reference = app.types.PromptReference(name="deep_two_greet")
    argument = app.types.CompletionArgument(name="a", value="")
    assert (await app.complete(reference, argument)).completion.values == ["two"]

    both = App("both")
    both.mount(App.proxy(inner_app("one"), "one"))
    both.mount(App.proxy(Old(name="old", version="1"), "old"))
    assert [tool.name for tool in await both.list_tools()] == ["where", "second"]
    assert (await where(both), await where(both, "second")) == ("one", "old")
    assert (await both.read_resource("note://a/x")).contents[0].text == "one x"


async def test_middleware_and_rules_of_the_proxy_hold_for_the_target() -> None:
    seen: list[str] = []
    proxy = App.proxy(inner_app())

    @proxy.middleware
    async def log(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        seen.append(name)
        return await call_next(ctx, params)

    assert await where(proxy) == "inner"
    assert seen == ["call_tool"]
    proxy.disable(names={"where"})
    assert await proxy.list_tools() == []
    with pytest.raises(Exception, match="unknown tool: 'where'"):
        await where(proxy)


class Deaf(Client):
    """A client with a handler of its own."""

    async def on_elicit(self, ctx: Any, params: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize(
    ("target", "keywords", "message"),
    [
        (7, {}, "an App, a Server, a Client or a configuration; 7 is none of them"),
        ("", {}, "an empty string is none of them"),
        ("missing.py", {}, "there is no file 'missing.py': pass the path of a server, a URL or a command"),
        (Path("notes.txt"), {}, "'notes.txt' is not a server file (.py, .js, .jar): pass its command as a list"),
        ("python 'server.py", {}, "is not a command line: No closing quotation"),
        ({"mcpServers": {}}, {}, "all servers of the configuration are disabled"),
        ({"name": "x"}, {}, 'the configuration has no servers: write {"mcpServers"'),
        ({"command": "x", "url": "http://x"}, {}, "cannot have"),
        ({"command": "x", "headers": {"A": "b"}}, {}, "proxy(): 'headers' is for a server with a URL: leave it out"),
        (
            {"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}}},
            {},
            "get the same prefix 'a_b': rename one",
        ),
        (
            {"mcpServers": {"a": {"command": "x"}}},
            {"cwd": "."},
            "with a configuration takes no 'cwd': write it into the",
        ),
        (connect(inner_app(), client=Deaf), {}, "handles elicitation/create, which a proxy passes to its own clients"),
        (inner_app(), {"revisions": ["1999-01-01"]}, "1999-01-01"),
    ],
)
def test_a_wrong_target_is_refused_where_it_is_written(target: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError) as caught:
        App.proxy(target, **keywords)
    assert message in str(caught.value)


def test_wrong_keywords_name_what_has_them() -> None:
    with pytest.raises(TypeError, match="env"):
        App.proxy("http://localhost/mcp", env={})
    with pytest.raises(TypeError, match="instruction"):
        App.proxy(inner_app(), instruction="x")
    with pytest.raises(LocalError, match="subclass of Provider"):
        App("x").add_provider(inner_app())  # type: ignore[arg-type]


def test_a_circle_of_proxies_is_refused_when_it_is_closed() -> None:
    """Its first request opened connections without end, and could not be cancelled."""
    first, second = App("first"), App("second")
    with pytest.raises(LocalError, match="'proxy' cannot be mounted inside of itself"):
        first.mount(App.proxy(first), "again")
    first.mount(App.proxy(second), "second")
    with pytest.raises(LocalError, match="'proxy' cannot be mounted inside of itself"):
        second.mount(App.proxy(first), "first")
    second.mount(App.proxy(App("third")), "third")


async def test_a_folder_that_is_not_there_is_named(script: Path, tmp_path: Path) -> None:
    app = App.proxy([sys.executable, str(script)], cwd=str(tmp_path / "gone"))
    async with connect(app) as client:
        with pytest.raises(mcp_generated.MCPError, match="cannot be started in the folder '.*gone'"):
            await client.call_tool("where", {})
