"""`MCPConfig` and `ClientGroup`: the servers of a configuration, and a client for each of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from mcp_generated.compat import ClientGroup, FastMCP, FastMCPClient, MCPConfig
from mcp_products.compat.sessions.fastmcp_client import SSETransport, StdioTransport, StreamableHttpTransport


def shop(name: str) -> FastMCP:
    mcp = FastMCP(name)

    @mcp.tool()
    def who() -> str:
        return name

    return mcp


async def test_a_group_connects_all_its_clients_and_closes_them() -> None:
    group = ClientGroup({name: FastMCPClient(shop(name)) for name in ("tea", "rice")})
    async with group:
        assert [(await client.call_tool("who")).data for client in group.clients.values()] == ["tea", "rice"]
        assert group.protocol_versions == {"tea": "2026-07-28", "rice": "2026-07-28"}
        async with group:
            pass
        assert all(client.is_connected() for client in group.clients.values())
    assert not any(client.is_connected() for client in group.clients.values())


async def test_clients_are_closed_if_one_cannot_connect() -> None:
    clients = {"tea": FastMCPClient(shop("tea")), "none": FastMCPClient(StdioTransport("no-such-command", []))}
    with pytest.raises(OSError):
        async with ClientGroup(clients):
            pass
    assert not clients["tea"].is_connected()


def test_a_group_without_clients_is_refused() -> None:
    with pytest.raises(ValueError, match="ClientGroup"):
        ClientGroup({})


async def test_a_group_lists_and_calls_the_tools_of_all_servers_by_names_of_its_own() -> None:
    clients = {name: FastMCPClient(shop(name)) for name in ("tea", "rice")}
    group = ClientGroup(clients)
    with pytest.raises(RuntimeError, match="not connected"):
        await group.call_tool("tea_who")
    async with group:
        assert (await group.call_tool("rice_who")).data == "rice"
        assert (await group.call_tool("tea_who", timeout=30)).content[0].text == "tea"
        assert [tool.name for tool in await group.list_tools()] == ["tea_who", "rice_who"]
        route = await group.resolve_tool("tea_who")
        assert (route.server_name, route.client, route.upstream_name) == ("tea", clients["tea"], "who")
        with pytest.raises(KeyError, match="Unknown tool: 'who'"):
            await group.call_tool("who")


async def test_two_tools_of_one_name_in_a_group_are_refused() -> None:
    tea = FastMCP("tea")
    tea.add_tool(lambda: "a", "b_who")
    async with ClientGroup({"a": FastMCPClient(tea), "a_b": FastMCPClient(shop("b"))}) as group:
        with pytest.raises(ValueError, match="Tool name collision: 'a_b_who'"):
            await group.list_tools()


def test_a_configuration_is_read_written_and_made_of_transports(tmp_path: Path) -> None:
    servers = {
        "local": {"command": sys.executable, "args": ["server.py"], "env": {"A": "1"}},
        "remote": {"url": "https://shop.test/mcp", "headers": {"x": "y"}},
        "old": {"url": "https://shop.test/sse"},
    }
    config = MCPConfig.from_dict(servers)
    assert config.to_dict() == {"mcpServers": servers}
    config.write_to_file(tmp_path / "deep" / "mcp.json")
    assert MCPConfig.from_file(tmp_path / "deep" / "mcp.json") == config
    assert MCPConfig.from_file(tmp_path / "none.json").mcpServers == {}
    kinds = [type(server.to_transport()) for server in config.mcpServers.values()]
    assert kinds == [StdioTransport, StreamableHttpTransport, SSETransport]
    assert [*ClientGroup.from_config(config).clients] == ["local", "remote", "old"]
    chosen = ClientGroup.from_config({"old": {"url": "https://shop.test/mcp", "mode": "legacy"}})
    assert [client.mode for client in chosen.clients.values()] == ["legacy"]
    with pytest.raises(ValidationError):
        MCPConfig.from_dict({"mcpServers": {"wrong": {"args": []}}})


async def test_a_client_takes_the_keywords_of_2_x_and_names_the_version_of_a_tool() -> None:
    mcp = FastMCP("shop")
    for version in ("1", "2"):
        mcp.add_tool(lambda version=version: version, "which", version=version)
    async with FastMCPClient(mcp, input_required_max_rounds=3, auto_initialize=True) as client:
        called = [await client.call_tool("which", version=version) for version in ("1", "2")]
        assert [result.content[0].text for result in called] == ["1", "2"]
    with pytest.raises(TypeError, match="no keyword argument 'wrong'"):
        FastMCPClient(mcp, wrong=1)  # type: ignore[call-arg]
