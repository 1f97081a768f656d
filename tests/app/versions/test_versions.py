"""Several versions of a tool, a resource or a prompt under one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, LocalError, RemoteJSONRPCError
from mcp_generated.middleware import ResponseCachingMiddleware
from mcp_generated.transforms import VersionFilter


def shop() -> App:
    app = App("shop")

    @app.tool(version="1.0")
    def price(item: str) -> str:
        return f"{item} costs 1"

    @app.tool(version="10")
    def price(item: str, currency: str = "EUR") -> str:  # noqa: F811
        return f"{item} costs 10 {currency}"

    @app.tool(version="2.0", name="price", tags={"old"})
    def second_price(item: str) -> str:
        return f"{item} costs 2"

    @app.tool
    def health() -> str:
        return "ok"

    @app.resource("shop://rules", version="v1")
    def first_rules() -> str:
        return "rules 1"

    @app.resource("shop://rules", version="v2")
    def second_rules() -> str:
        return "rules 2"

    @app.resource("shop://items/{name}", version=1)
    def first_item(name: str) -> str:
        return f"{name} 1"

    @app.resource("shop://items/{name}", version=2)
    def second_item(name: str) -> str:
        return f"{name} 2"

    @app.prompt(version="2025-02-01")
    def greet() -> str:
        return "newer"

    @app.prompt("greet", version="2025-01-15")
    def older_greeting() -> str:
        return "older"

    return app


def in_version(version: str) -> Mapping[str, Any]:
    return {"fastmcp": {"version": version}}


async def texts(app: App, version: str | None = None, prefix: str = "") -> list[str]:
    """Return the texts that a client gets for a tool call."""
    keywords: dict[str, Any] = {} if version is None else {"meta": in_version(version)}
    async with connect(app) as client:
        tool = await client.call_tool(f"{prefix}_price" if prefix else "price", {"item": "tea"}, **keywords)
        return [tool.content[0].text]


async def versions_of(app: App) -> dict[str, Any]:
    async with connect(app) as client:
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts
    entries = [(item.name, item) for item in tools]
    entries += [(str(item.uri), item) for item in resources]
    entries += [(item.uri_template, item) for item in templates]
    entries += [(item.name, item) for item in prompts]
    assert len(entries) == len(dict(entries)), "each name is listed once"
    meta = {name: (item.meta or {}).get("fastmcp") or {} for name, item in entries}
    return {name: (fields.get("version"), fields.get("versions")) for name, fields in meta.items()}


async def test_the_highest_version_is_listed_with_all_others() -> None:
    assert await versions_of(shop()) == {
        "price": ("10", ["10", "2.0", "1.0"]),
        "health": (None, None),
        "shop://rules": ("v2", ["v2", "v1"]),
        "shop://items/{name}": ("2", ["2", "1"]),
        "greet": ("2025-02-01", ["2025-02-01", "2025-01-15"]),
    }
    [tool] = [tool for tool in await shop().list_tools() if tool.name == "price"]
    assert set(tool.input_schema.properties or {}) == {"item", "currency"}


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25", "2024-11-05"])
@pytest.mark.parametrize("prefix", ["", "sub"])
async def test_a_request_names_a_version_in_its_metadata(protocol: str, prefix: str) -> None:
    app = shop()
    if prefix:
        app = App("outer")
        app.mount(shop(), prefix)
    tool, path = (f"{prefix}_price", f"shop://{prefix}/") if prefix else ("price", "shop://")
    prompt = f"{prefix}_greet" if prefix else "greet"
    async with connect(app, revisions=[protocol]) as client:

        async def price(**keywords: Any) -> str:
            return (await client.call_tool(tool, {"item": "tea"}, **keywords)).content[0].text

        assert [await price(), await price(meta=in_version("1.0")), await price(meta=in_version("v2"))] == [
            "tea costs 10 EUR",
            "tea costs 1",
            "tea costs 2",
        ]
        for uri, expected in ((f"{path}rules", "rules"), (f"{path}items/x", "x")):
            newest = await client.read_resource(uri)
            first = await client.read_resource(uri, meta=in_version("1"))
            assert [newest.contents[0].text, first.contents[0].text] == [f"{expected} 2", f"{expected} 1"]
            assert str(first.contents[0].uri) == uri
        newest = await client.get_prompt(prompt)
        older = await client.get_prompt(prompt, meta=in_version("2025-01-15"))
        assert [message.content.text for message in (*newest.messages, *older.messages)] == ["newer", "older"]
        with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'price' in the version '9'"):
            await client.call_tool(tool, {"item": "tea"}, meta=in_version("9"))
        with pytest.raises(RemoteJSONRPCError, match="resource not found: .* in the version '9'"):
            await client.read_resource(f"{path}rules", meta=in_version("9"))
        with pytest.raises(RemoteJSONRPCError, match="unknown prompt: 'greet' in the version '9'"):
            await client.get_prompt(prompt, meta=in_version("9"))


async def test_a_version_of_something_without_versions_changes_nothing() -> None:
    async with connect(shop()) as client:
        assert (await client.call_tool("health", meta=in_version("9"))).content[0].text == "ok"


@pytest.mark.parametrize("prefix", ["", "sub"])
async def test_a_filter_lists_and_serves_a_range_of_versions(prefix: str) -> None:
    app = shop()
    if prefix:
        app = App("outer")
        app.mount(shop(), prefix)
    app.add_transform(VersionFilter(version_lt="10"))
    name, path = (f"{prefix}_", f"{prefix}/") if prefix else ("", "")
    versions = await versions_of(app)
    assert versions[f"{name}price"] == ("2.0", ["2.0", "1.0"])
    assert f"{name}health" in versions and f"{name}greet" not in versions
    assert (await texts(app, prefix=prefix), await texts(app, "1", prefix)) == (["tea costs 2"], ["tea costs 1"])
    with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
        await texts(app, "10", prefix)
    with pytest.raises(RemoteJSONRPCError, match="unknown prompt"):
        await app.get_prompt(f"{name}greet")
    above = App("above")
    above.mount(shop(), prefix)
    above.add_transform(VersionFilter(version_gte="v2", include_unversioned=False))
    assert {item: version for item, (version, _) in (await versions_of(above)).items()} == {
        f"{name}price": "10",
        f"shop://{path}rules": "v2",
        f"shop://{path}items/{{name}}": "2",
        f"{name}greet": "2025-02-01",
    }
    with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
        await above.call_tool(f"{name}health")
    with pytest.raises(RemoteJSONRPCError, match="resource not found"):
        async with connect(above) as client:
            await client.read_resource(f"shop://{path}rules", meta=in_version("1"))


async def test_the_next_version_stands_in_for_a_disabled_one() -> None:
    app = App("app")
    app.add_tool(lambda: "one", "f", version="1")
    app.add_tool(lambda: "two", "f", version="2", tags={"beta"})
    outer = App("outer")
    outer.mount(app, "sub")
    for server, name in ((app, "f"), (outer, "sub_f")):
        server.disable(tags={"beta"})
        [tool] = await server.list_tools()
        assert (tool.meta or {})["fastmcp"]["versions"] == ["1"]
        assert (await server.call_tool(name)).content[0].text == "one"
        server.enable(tags={"beta"})
        assert (await server.call_tool(name)).content[0].text == "two"


async def test_cached_results_are_those_of_the_version() -> None:
    app = shop()
    app.add_middleware(ResponseCachingMiddleware())
    assert [await texts(app), await texts(app, "1"), await texts(app), await texts(app, "2")] == [
        ["tea costs 10 EUR"],
        ["tea costs 1"],
        ["tea costs 10 EUR"],
        ["tea costs 2"],
    ]


async def test_one_version_or_all_are_removed() -> None:
    app = shop()
    app.remove_tool("price", version="10")
    assert (await versions_of(app))["price"] == ("2.0", ["2.0", "1.0"])
    assert await texts(app) == ["tea costs 2"]
    assert (await app.get_tool("price", version="1.0")).version == "1.0"
    with pytest.raises(LocalError, match="version='10': there is no such version of 'price'.*'2.0', '1.0'"):
        app.remove_tool("price", version="10")
    with pytest.raises(LocalError, match="version='10': there is no such version of 'price'.*'2.0', '1.0'"):
        await app.get_tool("price", version="10")
    app.remove_tool("price")
    app.remove_resource("shop://rules", version="2")
    app.remove_prompt("greet")
    assert list(await versions_of(app)) == ["health", "shop://rules", "shop://items/{name}"]
    app.add_tool(lambda: "new", "price")
    assert (await app.call_tool("price")).content[0].text == "new"


def test_names_have_versions_everywhere_or_nowhere() -> None:
    app = shop()
    with pytest.raises(LocalError, match="versions of 'price' .* version="):
        app.add_tool(lambda: "x", "price")
    with pytest.raises(LocalError, match="'health' .* without a version"):
        app.add_tool(lambda: "x", "health", version="1")
    with pytest.raises(LocalError, match=r"'price' .* version 'v1' already"):
        app.add_tool(lambda: "x", "price", version="v1")


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("1.9", "1.10"),
        ("1.0a1", "1.0b1"),
        ("1.0rc1", "1.0"),
        ("1.0.dev1", "1.0a1"),
        ("1.0", "1.0.post1"),
        ("1.0", "1!0.1"),
        ("2", "2025-01-15"),
        ("2025-01-15", "2025-02-01"),
        ("alpha", "beta"),
        ("1.0+a", "1.0+1"),
    ],
)
async def test_versions_have_the_order_of_pep_440(lower: str, higher: str) -> None:
    for order in ((lower, higher), (higher, lower)):
        app = App("app")
        for version in order:
            app.add_tool(lambda: None, "f", version=version, structured_output=False)
        [tool] = await app.list_tools()
        assert (tool.meta or {})["fastmcp"] == {"version": higher, "versions": [higher, lower]}
