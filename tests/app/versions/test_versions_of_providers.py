"""Versions and tags of what providers list: of the targets of proxies, and of providers that a user writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, RemoteJSONRPCError
from mcp_generated.providers import Provider
from mcp_generated.transforms import VersionFilter
from mcp_generated.v2026_07_28 import types as t


def target() -> App:
    app = App("target")
    for number in ("1", "2"):
        app.add_tool(lambda number=number: f"price {number}", "price", version=number)  # type: ignore[misc]
        app.add_prompt(lambda number=number: f"greet {number}", "greet", version=number)  # type: ignore[misc]
        app.add_resource("shop://rules", lambda number=number: f"rules {number}", version=number)  # type: ignore[misc]
        app.add_resource("shop://items/{name}", items_of(number), version=number)
    app.add_tool(lambda: "ok", "health", tags={"internal"})
    app.add_resource("shop://plan", lambda: "plan", name="plan")
    return app


def items_of(number: str) -> Callable[[str], str]:
    def items(name: str) -> str:
        return f"{name} {number}"

    return items


class Prices(Provider):
    """A tool in three versions, a resource without any, and no prompts so far."""

    async def list_tools(self, ctx: Any) -> Sequence[t.Tool]:
        schema = t.Tool.model_validate({"name": "price", "inputSchema": {"type": "object"}})
        return [
            schema.model_copy(update={"meta": {"fastmcp": {"version": version, "tags": ["shop"]}}})
            for version in ("1.0", "3.0", "2.0")
        ]

    async def call_tool(self, ctx: Any, params: Any) -> t.CallToolResult:
        version = (params.meta.model_extra or {}).get("fastmcp", {}).get("version", "highest")
        return t.CallToolResult(content=[t.TextContent(text=f"price {version}")])

    async def list_prompts(self, ctx: Any) -> Sequence[t.Prompt]:
        return ()

    async def list_resources(self, ctx: Any) -> Sequence[t.Resource]:
        return [t.Resource(uri="shop://rules", name="rules")]

    async def read_resource(self, ctx: Any, params: Any) -> t.ReadResourceResult:
        content = t.TextResourceContents(uri=params.uri, text="rules")
        return t.ReadResourceResult(contents=[content], ttl_ms=0, cache_scope="private")


def proxied() -> App:
    return App.proxy(target())


def mounted() -> App:
    app = App("outer")
    app.mount(proxied())
    return app


def mounted_twice() -> App:
    app = App("outermost")
    app.mount(mounted())
    return app


def with_prices() -> App:
    app = App("prices")
    app.add_provider(Prices())
    return app


def in_version(version: str | None) -> Mapping[str, Any]:
    return {} if version is None else {"meta": {"fastmcp": {"version": version}}}


async def answers(app: App, version: str | None = None, prefix: str = "") -> list[str]:
    """Return what a client gets for the tool, the prompt, the resource and the template, errors as their messages."""
    name, path = (f"{prefix}_", f"{prefix}/") if prefix else ("", "")
    texts: list[str] = []
    async with connect(app) as client:

        async def add(read: Callable[[], Any], text: Callable[[Any], str]) -> None:
            try:
                texts.append(text(await read()))
            except RemoteJSONRPCError as error:
                texts.append(error.message)

        meta: Any = in_version(version)
        await add(lambda: client.call_tool(f"{name}price", {}, **meta), lambda got: got.content[0].text)
        await add(lambda: client.get_prompt(f"{name}greet", {}, **meta), lambda got: got.messages[0].content.text)
        for uri in ("rules", "items/x"):
            await add(lambda uri=uri: client.read_resource(f"shop://{path}{uri}", **meta), first_text)
    return texts


def first_text(result: Any) -> str:
    text: str = result.contents[0].text
    return text


async def listed(app: App) -> dict[str, list[str] | None]:
    """Return the versions that a client sees, by name or URI."""
    async with connect(app) as client:
        entries: list[Any] = [(tool.name, tool.meta) for tool in (await client.list_tools()).tools]
        entries += [(prompt.name, prompt.meta) for prompt in (await client.list_prompts()).prompts]
        entries += [(str(item.uri), item.meta) for item in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        entries += [(item.uri_template, item.meta) for item in templates]
    assert len(entries) == len(dict(entries)), "each name is listed once"
    return {name: (meta or {}).get("fastmcp", {}).get("versions") for name, meta in entries}


UNKNOWN = ["unknown tool: 'price'", "unknown prompt: 'greet'", "resource not found: 'shop://rules'"]
UNKNOWN.append("resource not found: 'shop://items/x'")


@pytest.mark.parametrize("make", [proxied, mounted, mounted_twice])
async def test_a_proxy_lists_and_serves_the_versions_of_its_target(make: Callable[[], App]) -> None:
    versions = ["2", "1"]
    assert await listed(make()) == {
        **dict.fromkeys(("price", "greet", "shop://rules", "shop://items/{name}"), versions),
        **dict.fromkeys(("health", "shop://plan"), None),
    }
    for version, number in ((None, "2"), ("1", "1"), ("v2.0", "2")):
        expected = [f"price {number}", f"greet {number}", f"rules {number}", f"x {number}"]
        assert await answers(make(), version) == expected
    assert await answers(make(), "9") == [f"{text} in the version '9'" for text in UNKNOWN]


async def test_a_prefix_changes_no_version() -> None:
    app = App("outer")
    app.mount(proxied(), "sub")
    assert await answers(app, "1", "sub") == ["price 1", "greet 1", "rules 1", "x 1"]


@pytest.mark.parametrize("make", [proxied, mounted, mounted_twice])
async def test_a_filter_restricts_the_versions_of_a_target(make: Callable[[], App]) -> None:
    app = make()
    app.add_transform(VersionFilter(version_gte="2"))
    assert (await listed(app))["price"] == ["2"]
    assert await answers(app) == await answers(app, "2") == ["price 2", "greet 2", "rules 2", "x 2"]
    assert await answers(app, "1") == [f"{text} in the version '1'" for text in UNKNOWN]


@pytest.mark.parametrize("make", [proxied, mounted, mounted_twice])
@pytest.mark.parametrize("version", [None, "1", "2"])
async def test_what_a_target_lists_in_a_version_out_of_range_is_neither_listed_nor_served(
    make: Callable[[], App], version: str | None
) -> None:
    """A proxy knows the definition of only the highest version, so lower ones cannot be listed."""
    app = make()
    app.add_transform(VersionFilter(version_lt="2"))
    assert set(await listed(app)) == {"health", "shop://plan"}
    assert await answers(app, version) == UNKNOWN


async def test_a_filter_without_unversioned_items_hides_those_of_a_target() -> None:
    app = mounted()
    app.add_transform(VersionFilter(version_gte="1", include_unversioned=False))
    assert "health" not in await listed(app) and "price" in await listed(app)
    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'health'"):
            await client.call_tool("health", {})
        with pytest.raises(RemoteJSONRPCError, match="resource not found: 'shop://plan'"):
            await client.read_resource("shop://plan")


async def test_a_provider_can_list_several_versions_of_a_name() -> None:
    assert await listed(with_prices()) == {"price": ["3.0", "2.0", "1.0"], "shop://rules": None}
    for version, text in ((None, "price highest"), ("2", "price 2.0"), ("3.0", "price 3.0")):
        assert (await answers(with_prices(), version))[0] == text
    assert (await answers(with_prices(), "4"))[0] == "unknown tool: 'price' in the version '4'"
    assert (await answers(with_prices(), "4"))[2] == "rules"


async def test_a_filter_selects_among_the_versions_of_a_provider() -> None:
    app = with_prices()
    app.add_transform(VersionFilter(version_lt="3"))
    assert await listed(app) == {"price": ["2.0", "1.0"], "shop://rules": None}
    assert [(await answers(app, version))[0] for version in (None, "1", "3")] == [
        "price 2.0",
        "price 1.0",
        "unknown tool: 'price' in the version '3'",
    ]


async def test_the_first_of_two_providers_with_a_name_has_all_of_its_versions() -> None:
    app = App("both")
    app.mount(proxied())
    app.add_provider(Prices())
    assert (await listed(app))["price"] == ["3.0", "2.0", "1.0"]
    assert (await answers(app, "2"))[0] == "price 2.0"


@pytest.mark.parametrize("make", [proxied, mounted, mounted_twice])
async def test_rules_of_visibility_hold_for_tags_and_names_of_a_target(make: Callable[[], App]) -> None:
    app = make()
    app.disable(tags={"internal"})
    app.disable(names={"plan"})
    assert not {"health", "shop://plan"} & {*await listed(app)}
    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'health'"):
            await client.call_tool("health", {})
        with pytest.raises(RemoteJSONRPCError, match="resource not found: 'shop://plan'"):
            await client.read_resource("shop://plan")
        assert (await client.call_tool("price", {})).content[0].text == "price 2"


@pytest.mark.parametrize("make", [proxied, mounted, mounted_twice])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
async def test_rules_of_visibility_hold_for_components_of_a_target(make: Callable[[], App], kind: Any) -> None:
    kinds = {
        **{"price": "tool", "health": "tool", "greet": "prompt"},
        **{"shop://rules": "resource", "shop://plan": "resource", "shop://items/{name}": "template"},
    }
    assert {*await listed(make())} == kinds.keys()
    app = make()
    app.disable(components={kind})
    assert {*await listed(app)} == {name for name, other in kinds.items() if other != kind}
    only = make()
    only.enable(components={kind}, only=True)
    assert {*await listed(only)} == {name for name, other in kinds.items() if other == kind}


async def test_only_what_has_a_tag_remains_of_a_provider() -> None:
    app = with_prices()
    app.enable(tags={"shop"}, only=True)
    assert await listed(app) == {"price": ["3.0", "2.0", "1.0"]}
    assert (await answers(app))[0] == "price highest" and (await answers(app))[2] == UNKNOWN[2]
