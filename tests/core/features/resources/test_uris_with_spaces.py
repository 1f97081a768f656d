"""URIs with spaces and letters outside of ASCII are listed as URIs, and read in all spellings."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, LocalError, RemoteJSONRPCError, TextResource
from mcp_generated import v2026_07_28 as stateless
from mcp_generated.compat import FastMCP, MCPServer, Server, create_connected_server_and_client_session, types

URIS = {
    "demo://items/Item 1": "demo://items/Item%201",
    "demo://items/Item%201": "demo://items/Item%201",
    'demo://a"b/<c>': "demo://a%22b/%3Cc%3E",
    "demo://caf\u00e9/\u5317\u4eac": "demo://caf\u00e9/\u5317\u4eac",
    "demo://wide\u3000space": "demo://wide%E3%80%80space",
}
ENCODED = {"demo://caf\u00e9/\u5317\u4eac": "demo://caf%C3%A9/%E5%8C%97%E4%BA%AC"}


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("kind", ["function", "object", "mounted"])
@pytest.mark.parametrize("server_class", [App, FastMCP, MCPServer])
async def test_a_resource_is_listed_as_a_uri_and_read_in_all_spellings(server_class: Any, kind: str, uri: str) -> None:
    app = server_class("demo")
    target = server_class("inner") if kind == "mounted" else app
    if kind == "object":
        target.add_resource(TextResource(uri=uri, text="text"))
    else:
        target.resource(uri)(lambda: "text")
    if kind == "mounted":
        app.mount(target)
    async with connect(app) as client:
        [resource] = (await client.list_resources()).resources
        assert resource.uri == URIS[uri]
        for spelling in (uri, resource.uri, ENCODED.get(uri, uri)):
            result = await client.read_resource(spelling)
            assert result.contents[0].text == "text"  # type: ignore[union-attr]


async def test_a_value_of_a_template_with_a_space_is_decoded() -> None:
    app = App("demo")

    @app.resource("demo://my items/{name}")
    def item(name: str) -> str:
        return name

    async with connect(app) as client:
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "demo://my%20items/{name}"
        for spelling in ("demo://my items/caf\u00e9 au lait", "demo://my%20items/caf%C3%A9%20au%20lait"):
            result = await client.read_resource(spelling)
            assert result.contents[0].text == "caf\u00e9 au lait"  # type: ignore[union-attr]


async def test_an_encoded_slash_is_no_other_spelling_of_a_slash() -> None:
    app = App("demo")
    app.resource("demo://a/b")(lambda: "text")
    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match="not found"):
            await client.read_resource("demo://a%2Fb")


async def test_low_level_handlers_of_both_kinds_list_them_too() -> None:
    old: Any = Server("old")

    @old.list_resources()
    async def list_resources() -> list[types.Resource]:
        return [types.Resource(uri="demo://items/Item 1", name="one")]

    @old.read_resource()
    async def read_resource(uri: Any) -> str:
        return f"text of {uri}"

    async with create_connected_server_and_client_session(old) as session:
        listed: Any = await session.list_resources()
        assert [str(resource.uri) for resource in listed.resources] == ["demo://items/Item%201"]
        for uri in ("demo://items/Item 1", "demo://items/Item%201"):
            result: Any = await session.read_resource(uri)
            assert result.contents[0].text == "text of demo://items/Item%201"

    class New(stateless.Server):
        async def list_resources(self, ctx: Any, params: Any) -> stateless.types.ListResourcesResult:
            resource = stateless.types.Resource(uri="demo://items/Item 1", name="one")
            return stateless.types.ListResourcesResult(resources=[resource])

    async with stateless.Client.memory(New(name="new", version="1")) as client:
        [resource] = (await client.list_resources()).resources
        assert resource.uri == "demo://items/Item%201"


@pytest.mark.parametrize("uri", ["demo://a\nb", "demo://a\x00b", "demo://a\x7fb"])
def test_a_control_character_is_refused_where_it_is_written(uri: str) -> None:
    with pytest.raises(LocalError, match="has a control character; remove it"):
        App("demo").resource(uri)
