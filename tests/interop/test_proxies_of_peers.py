"""A proxy in front of servers of others: the same answers as without it."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients import connect
from support.peers import node_peer, python_peer
from support.project import PEER_DRIVERS

from mcp_generated import App, RemoteJSONRPCError
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

pytestmark = [pytest.mark.long, pytest.mark.deadline(90)]

PACKAGE = "@modelcontextprotocol/server-everything@2026.8.31"
FRONTS = ["2024-11-05", "2025-11-25", "2026-07-28"]


class Host(Client):
    """A client that answers all requests."""

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="decline")

    async def on_create_message(self, ctx: Any, params: Any) -> t.CreateMessageResult:
        return t.CreateMessageResult(model="m", role="assistant", content=t.TextContent(text="an idea"))

    async def on_list_roots(self, ctx: Any, params: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///work")])


async def seen(target: Any, revision: str) -> dict[str, Any]:
    """What a client sees of server-everything."""
    progress: list[float] = []
    async with connect(target, client=Host, revisions=[revision]) as client:
        tools = [tool.model_dump() async for tool in client.iter_tools()]
        echo = await client.call_tool("echo", {"message": "héllo"})
        long = await client.call_tool(
            "trigger-long-running-operation",
            {"duration": 0.2, "steps": 2},
            on_progress=lambda step: progress.append(step.progress),
        )
        image = await client.call_tool("get-tiny-image")
        prompts = [prompt.model_dump() async for prompt in client.iter_prompts()]
        templates = [template.model_dump() async for template in client.iter_resource_templates()]
        resources = [resource.uri async for resource in client.iter_resources()]
        read = (await client.read_resource(resources[0])).contents[0]
        sampled = await client.call_tool("trigger-sampling-request", {"prompt": "What?"})
        try:
            wrong: Any = (await client.call_tool("echo", {"message": 7})).model_dump()["content"]
        except RemoteJSONRPCError as error:
            wrong = (error.code, error.message)
    results = [result.model_dump()["content"] for result in (echo, long, image, sampled)]
    return {
        "tools": tools, "results": results, "prompts": prompts, "templates": templates, "resources": resources,
        "read": read.model_dump(), "wrong": wrong, "progress": progress,
    }  # fmt: skip


@pytest.mark.parametrize("front", FRONTS)
async def test_server_everything_is_the_same_through_a_proxy(front: str) -> None:
    command = [str(node_peer(PACKAGE) / "node_modules" / ".bin" / "mcp-server-everything"), "stdio"]
    direct = await seen(command, "2025-11-25")
    through = await seen(App.proxy(command), front)
    assert "an idea" in str(direct["results"])
    assert through["progress"] == direct["progress"] == [1, 2]
    if front == "2024-11-05":  # It has fewer properties.
        missing = {tool["name"] for tool in direct["tools"]} - {tool["name"] for tool in through["tools"]}
        assert missing == {"trigger-elicitation-request"}  # That revision has no elicitation.
        assert through["resources"] == direct["resources"]
    else:
        assert through == direct


@pytest.mark.parametrize("sdk", ["mcp==1.30.0", "mcp==2.3.0"])
@pytest.mark.parametrize("front", FRONTS)
async def test_a_server_of_the_official_sdk_is_served_in_every_revision(sdk: str, front: str) -> None:
    proxy = App.proxy([str(python_peer(sdk)), str(PEER_DRIVERS / "python_sdk_server.py")])
    steps: list[float] = []
    async with connect(proxy, revisions=[front]) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"add", "work"}
        assert (await client.call_tool("add", {"a": 2, "b": 3})).content[0].text == "5"
        await client.call_tool("work", on_progress=lambda step: steps.append(step.progress))
        assert (await client.read_resource("note://one")).contents[0].text == "hello"
        assert len((await client.get_prompt("question", {"about": "MCP"})).messages) == 1
    assert len(steps) == 1
