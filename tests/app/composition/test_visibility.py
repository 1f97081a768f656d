"""Tags, and what is enabled and disabled: for all clients, for one session, at run time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import App, Context, LocalError
from mcp_generated.v2026_07_28 import Client
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import RemoteJSONRPCError


def example() -> App:
    app = App("app")

    @app.tool(tags={"read", "a"}, meta={"fastmcp": {"other": 1}, "own": 2})
    def read() -> str:
        return "text"

    @app.tool(tags=["admin"])
    def erase() -> str:
        return "text"

    @app.resource("notes://today", tags={"read"})
    def today() -> str:
        return "text"

    @app.resource("notes://{name}/x", tags={"admin"})
    def named(name: str) -> str:
        return "text"

    @app.prompt(tags={"admin"})
    def plan() -> str:
        return "text"

    @app.tool()
    async def hide(ctx: Context, tag: str) -> str:
        await ctx.disable_components(tags={tag})
        return "hidden"

    @app.tool()
    async def show(ctx: Context, name: str) -> str:
        await ctx.enable_components(names={name})
        return "shown"

    @app.tool()
    async def reset(ctx: Context) -> str:
        await ctx.reset_visibility()
        return "reset"

    return app


async def names(app: App) -> list[str]:
    """What an app lists, without the tools that change it."""
    lists = (
        [tool.name for tool in await app.list_tools()],
        [resource.name for resource in await app.list_resources()],
        [template.name for template in await app.list_resource_templates()],
        [prompt.name for prompt in await app.list_prompts()],
    )
    return [name for names in lists for name in names if not name.endswith(("hide", "show", "reset"))]


async def test_tags_are_in_the_meta_of_definitions() -> None:
    read, erase, *_ = await example().list_tools()
    assert read.meta == {"fastmcp": {"other": 1, "tags": ["a", "read"]}, "own": 2}
    assert erase.meta == {"fastmcp": {"tags": ["admin"]}}
    assert (await example().list_tools())[2].meta is None


@pytest.mark.parametrize("tags", ["admin", b"x", [1], [""], 5])
def test_tags_are_a_collection_of_strings(tags: Any) -> None:
    app = App("app")
    with pytest.raises(TypeError, match="the tool 'f': tags="):
        app.add_tool(lambda: "", "f", tags=tags)
    with pytest.raises(TypeError, match=r"disable\(\): tags="):
        app.disable(tags=tags)


async def test_what_is_disabled_is_neither_listed_nor_served() -> None:
    app = example()
    assert app.disable(tags={"admin"}) is app
    assert await names(app) == ["read", "today"]
    with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'erase'"):
        await app.call_tool("erase")
    with pytest.raises(RemoteJSONRPCError, match="resource not found"):
        await app.read_resource("notes://y/x")
    with pytest.raises(RemoteJSONRPCError, match="unknown prompt: 'plan'"):
        await app.get_prompt("plan")
    assert not (await app.call_tool("read")).is_error


async def test_later_rules_override_earlier_ones() -> None:
    app = example()
    app.disable(tags={"admin"}).enable(names={"erase"})
    assert await names(app) == ["read", "erase", "today"]
    app.disable(components={"resource"})
    assert await names(app) == ["read", "erase"]
    app.enable(names={"notes://today", "notes://{name}/x"})
    assert await names(app) == ["read", "erase", "today", "named"]
    app.enable(tags={"read"}, only=True)
    assert await names(app) == ["read", "today"] and len(await app.list_tools()) == 1
    app.enable(tags={"read"}, components={"prompt"}, only=True)
    assert await names(app) == []


async def test_a_rule_holds_for_what_is_added_later_and_for_mounted_apps() -> None:
    app, outer = example(), App("outer")
    app.disable(names={"late"})
    app.add_tool(lambda: "", "late")
    outer.mount(app, "sub")
    assert "sub_late" not in await names(outer) and "sub_erase" in await names(outer)
    outer.disable(names={"sub_erase", "notes://sub/today"})
    assert await names(outer) == ["sub_read", "named", "sub_plan"]
    outer.disable(tags={"admin"})
    assert await names(outer) == ["sub_read"]
    for call in (outer.call_tool("sub_erase"), outer.call_tool("sub_late"), outer.get_prompt("sub_plan")):
        with pytest.raises(RemoteJSONRPCError, match="unknown"):
            await call
    assert await names(app) == ["read", "erase", "today", "named", "plan"]


def test_a_rule_without_criteria_or_with_an_unknown_kind_is_refused() -> None:
    app = App("app")
    with pytest.raises(LocalError, match=r"disable\(\) needs names=, tags= or components="):
        app.disable()
    with pytest.raises(LocalError, match=r"enable\(\): components=\['tools'\] is unknown; use 'tool'"):
        app.enable(components={"tools"})  # type: ignore[arg-type]


async def test_many_changes_leave_few_rules() -> None:
    app = example()
    for _ in range(100):
        app.disable(names={"read"}).enable(names={"read"})
    assert len(app.registry.visibility) == 1


async def test_clients_are_notified_of_the_lists_that_change() -> None:
    app, changes = example(), list[str]()
    app.on_change.append(changes.append)
    app.disable(tags={"read"})
    assert changes == ["tools", "resources"]
    app.disable(tags={"read"})
    app.disable(names={"nothing"})
    assert changes == ["tools", "resources"]
    app.enable(names={"read"})
    assert changes == ["tools", "resources", "tools"]


def client(rev: Rev, app: App, **handlers: Any) -> Any:
    """A client of a revision."""
    kind = type("Listener", (rev.package.Client,), handlers)
    return kind.memory(*server_candidates(app.server, "all"))


async def listed(connected: Any) -> set[str]:
    """What a client lists, without the tools that change it."""
    tools = [tool.name for tool in (await connected.list_tools()).tools]
    prompts = [prompt.name for prompt in (await connected.list_prompts()).prompts]
    return {*tools, *prompts} - {"hide", "show", "reset"}


@among(ALL_REVISIONS)
async def test_a_session_has_rules_of_its_own(rev: Rev) -> None:
    app = example()
    app.disable(names={"read"})
    async with client(rev, app) as first, client(rev, app) as second:
        await first.call_tool(name="hide", arguments={"tag": "admin"})
        assert await listed(first) == set() and await listed(second) == {"erase", "plan"}
        with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
            await first.call_tool(name="erase", arguments={})
        with pytest.raises(RemoteJSONRPCError, match="resource not found"):
            await first.read_resource(uri="notes://y/x")
        await second.call_tool(name="erase", arguments={})
        await first.call_tool(name="show", arguments={"name": "read"})
        await first.call_tool(name="read", arguments={})
        with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
            await second.call_tool(name="read", arguments={})
        await first.call_tool(name="reset", arguments={})
        assert await listed(first) == {"erase", "plan"}


@among([rev for rev in ALL_REVISIONS if not rev.stateless])
async def test_a_session_is_notified_of_its_changes_and_others_are_not(rev: Rev) -> None:
    app, changed, other = example(), asyncio.Event(), asyncio.Event()

    async def on_change(self: Any, ctx: Any, params: Any) -> None:
        changed.set()

    async def on_other(self: Any, ctx: Any, params: Any) -> None:
        other.set()

    first = client(rev, app, on_tool_list_changed=on_change)
    async with first, client(rev, app, on_tool_list_changed=on_other) as second:
        await first.call_tool(name="hide", arguments={"tag": "admin"})
        await changed.wait()
        await second.list_tools()
        assert not other.is_set()


async def test_a_rule_of_the_session_has_the_names_of_the_outermost_app() -> None:
    inner, outer = example(), App("outer")
    outer.mount(inner, "sub")
    async with Client.memory(outer.server) as connected:
        await connected.call_tool(name="sub_show", arguments={"name": "read"})
        await connected.call_tool(name="sub_hide", arguments={"tag": "admin"})
        tools = [tool.name for tool in (await connected.list_tools()).tools]
        assert "sub_read" in tools and "sub_erase" not in tools
        with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
            await connected.call_tool(name="sub_erase")
        await connected.call_tool(name="sub_read")


async def test_a_tool_is_cancelled_after_its_time() -> None:
    app, ended = App("app"), list[str]()

    @app.tool(timeout=0.01)
    async def slow() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return ""

    release = threading.Event()

    @app.tool(timeout=0.01)
    def blocks() -> str:
        release.wait()
        return ""

    @app.tool(timeout=60)
    async def own() -> str:
        raise TimeoutError("of the tool itself")

    @app.tool(timeout=60)
    async def fast() -> str:
        return "done"

    for name in ("slow", "blocks"):
        result = await app.call_tool(name)
        assert result.is_error
        assert result.content[0].text == f"the tool {name!r} timed out after 0.01 s"  # type: ignore[union-attr]
    release.set()
    assert ended == ["cancelled"]
    assert (await app.call_tool("own")).content[0].text == "the tool 'own' failed"  # type: ignore[union-attr]
    assert (await app.call_tool("fast")).content[0].text == "done"  # type: ignore[union-attr]


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "5", True])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(LocalError, match="the tool 'f': timeout=.* is not a number of seconds above 0"):
        App("app").add_tool(lambda: "", "f", timeout=timeout)
