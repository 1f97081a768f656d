"""Names that are misspelt, and errors: each says what exists, what to write, and where that is documented."""

from __future__ import annotations

import asyncio
import tomllib
import traceback
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.project import ROOT

from mcp_generated import (
    App,
    Client,
    Context,
    LocalError,
    MCPError,
    RemoteJSONRPCError,
    RequestTimeoutError,
    SyncClient,
)
from mcp_runtime.errors import DOCUMENTATION


def served() -> App:
    app = App("served")

    @app.tool()
    def find(text: str) -> str:
        """Find a text."""
        return text

    @app.tool()
    async def wait() -> None:
        """Wait for long."""
        await asyncio.sleep(60)

    @app.prompt()
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hi {name}."

    app.add_resource("text://one", lambda: "1", name="one")
    return app


@among(ALL_REVISIONS)
async def test_a_name_that_a_server_does_not_have_is_answered_with_the_nearest(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        assert (await client.get_tool("find")).name == "find"
        with pytest.raises(LocalError, match="no tool 'fnd'; did you mean 'find'"):
            await client.get_tool("fnd")
        with pytest.raises(LocalError, match="no tool 'xyzq'; the tools are find, wait"):
            await client.get_tool("xyzq")
        with pytest.raises(RemoteJSONRPCError, match="'fnd'; did you mean 'find'"):
            await client.call_tool("fnd", {"text": "a"})
        with pytest.raises(RemoteJSONRPCError, match="'gret'; did you mean 'greet'"):
            await client.get_prompt("gret", {"name": "Ada"})
        with pytest.raises(RemoteJSONRPCError, match="did you mean 'text://one'"):
            await client.read_resource("text://on")
        with pytest.raises(LocalError, match="no resource 'onw'; did you mean 'one'"):
            await client.get_resource("onw")
        with pytest.raises(RemoteJSONRPCError) as raised:
            await client.get_prompt("greet", {})
        assert "did you mean" not in str(raised.value) and "the prompts are" not in str(raised.value)
    async with Client(App("empty"), revisions=rev.id) as client:
        with pytest.raises(LocalError, match="no tool 'find'; it has none"):
            await client.get_tool("find")


@among(ALL_REVISIONS)
async def test_templates_are_named_where_a_uri_is_unknown(rev: Rev) -> None:
    app = App("rows")

    @app.resource("row://{id}")
    def row(id: int) -> str:
        return str(id)

    async with Client(app, revisions=rev.id) as client:
        with pytest.raises(RemoteJSONRPCError, match=r"'note://1'; the resources are row://\{id\}"):
            await client.read_resource("note://1")
        with pytest.raises(RemoteJSONRPCError, match=r"'row://x': id: .*integer") as raised:
            await client.read_resource("row://x")
        assert "resources are" not in str(raised.value) and "has none" not in str(raised.value)


async def test_lists_of_an_empty_app_are_empty() -> None:
    app = App("empty")
    assert await app.list_tools() == []
    assert await app.list_prompts() == []
    assert await app.list_resources() == []
    assert await app.list_resource_templates() == []
    with pytest.raises(LocalError, match="there is no tool 'find'; the tools are none"):
        await app.get_tool("find")
    with pytest.raises(LocalError, match="there is no tool 'fnd'; the tools are 'find', 'wait'"):
        await served().get_tool("fnd")


async def test_a_misspelt_method_names_the_nearest() -> None:
    app, seen, private = served(), list[str](), "private"

    @app.tool()
    def misspell(ctx: Context) -> None:
        """Misspell a method of the context."""
        context: Any = ctx
        with pytest.raises(AttributeError) as raised:
            context.elict("x")
        seen.append(str(raised.value))

    anything: Any = app
    with pytest.raises(AttributeError, match="'App' object has no attribute 'tol'; did you mean 'tool'"):
        anything.tol()
    async with Client(app) as client:
        anything = client
        with pytest.raises(
            AttributeError, match="'Client' object has no attribute 'list_tols'; did you mean 'list_tools'"
        ):
            await anything.list_tols()
        with pytest.raises(AttributeError, match="write .generated.discover"):
            await anything.discover()
        with pytest.raises(AttributeError, match="did you mean 'read_resource'"):
            anything.generated.read_resorce("x")
        with pytest.raises(AttributeError, match="attribute '_private'$"):
            getattr(anything, f"_{private}")
        await client.call_tool("misspell")
    assert seen == ["'Context' object has no attribute 'elict'; did you mean 'elicit'?"]


def test_a_misspelt_method_of_a_client_without_async_names_the_nearest() -> None:
    with SyncClient(served()) as client:
        anything: Any = client
        with pytest.raises(AttributeError, match="'SyncClient' .* did you mean 'list_tools'"):
            anything.list_tols()
        assert client.get_tool("find").name == "find"
        with pytest.raises(LocalError, match="did you mean 'find'"):
            client.get_tool("fnd")


def test_the_generated_client_of_one_without_async_blocks() -> None:
    with SyncClient(served()) as client:
        assert [tool.name for tool in client.generated.list_tools().tools] == ["find", "wait"]
        assert [tool.name for tool in client.generated.iter_tools()] == ["find", "wait"]
        assert client.generated.call_tool("find", {"text": "a"}).content[0].text == "a"
        assert client.generated.name == client.client.generated.name


@among(ALL_REVISIONS)
async def test_a_call_that_takes_too_long_is_a_timeout_of_python(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        with pytest.raises(TimeoutError) as raised:
            await client.call_tool("wait", timeout=0.05)
    assert isinstance(raised.value, RequestTimeoutError)


async def test_an_error_ends_with_the_address_of_its_documentation() -> None:
    async with Client(served()) as client:
        with pytest.raises(MCPError) as raised:
            await client.get_tool("fnd")
    last = "".join(traceback.format_exception(raised.value)).splitlines()[-1]
    assert last == f"see {DOCUMENTATION}/troubleshooting.html#localerror"
    assert DOCUMENTATION.startswith("https://")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Documentation"] == DOCUMENTATION
