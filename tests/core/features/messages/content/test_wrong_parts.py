"""What a peer sends wrong in one item costs that item: the rest arrives, with a warning and a count."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from support.clients import connect
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INVALID_PARAMS,
    STATELESS,
    Rev,
    Wire,
    among,
    raw_server,
    server_of,
    since,
    wire_to,
)
from support.feature_cells.bridge.bridge_processes import bridge_command

from mcp_generated import REVISIONS, App, Gateway, InvalidResponseError

OBJECT = {"type": "object"}
LASTING = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
TEXT = {"type": "text", "text": "kept"}
TOOLS = [
    {"name": "good", "inputSchema": OBJECT, "annotations": {"readOnlyHint": "yes", "title": "Good"}},
    {"name": "bad", "inputSchema": "none"},
    {"name": "last", "inputSchema": OBJECT, "icons": [{"src": 5}, {"src": "https://example.org/i.png"}]},
]
LAST = {"uri": "x:last", "name": "l"}
RESULTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": TOOLS},
    "prompts/list": {"prompts": [{"name": "good", "arguments": [{"name": "a"}, {"title": "b"}]}, {"title": "bad"}]},
    "resources/list": {
        "resources": [
            {"uri": "x:good", "name": "x:good", "mimeType": 5},
            {"uri": "x:bad"},
            LAST,
        ]
    },
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "x:{good}", "name": "good"}, {"uriTemplate": 5, "name": "bad"}]
    },
    "resources/read": {"contents": [{"uri": "x:1", "text": "kept"}, {"uri": "x:2"}, {"uri": "x:3", "blob": "AA=="}]},
    "prompts/get": {"messages": [{"role": "robot", "content": TEXT}, {"role": "user", "content": TEXT}]},
    "completion/complete": {"completion": {"values": ["kept", 5], "total": "many"}},
    "tools/call": {
        "content": [
            {"type": "text", "text": "heard", "annotations": {"audience": ["everybody", "user"]}},
            {"type": "text"},
            {"type": "hologram", "n": 1},
            {"type": "smell", "n": 2},
            TEXT,
        ]
    },
}
# A server of any version that answers with RESULTS, without any implementation of the protocol.
SERVER = """
import json, sys
revision, results = sys.argv[1], json.loads(sys.argv[2])
party = {"name": "raw", "version": "1"}
capabilities = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}}
lasting = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
results = {method: {**result, **lasting} for method, result in results.items()}
if revision < "2026":
    results["initialize"] = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": party}
else:
    results["server/discover"] = {"supportedVersions": [revision], "capabilities": capabilities, **lasting}
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = results.get(message["method"])
        answer = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@asynccontextmanager
async def answering(wire: Wire, rev: Rev, result: Any) -> AsyncIterator[None]:
    """Open the conversation with a client, and answer each of its requests with a result."""

    async def answer() -> None:
        capabilities: dict[str, Any] = {"tools": {}}
        if not rev.stateless:
            await wire.welcome(rev, capabilities)
        while (request := await wire.receive()) is not None:
            value = result
            if request["method"] == "server/discover":
                value = {"supportedVersions": [rev.id], "capabilities": capabilities, **LASTING}
            wire.send({"jsonrpc": "2.0", "id": request["id"], "result": value})

    task = asyncio.create_task(answer())
    try:
        yield
    finally:
        task.cancel()


@pytest.fixture
def command(tmp_path: Path, revision: str) -> list[str]:
    (tmp_path / "server.py").write_text(SERVER)
    return [sys.executable, str(tmp_path / "server.py"), revision, json.dumps(RESULTS)]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    caplog.set_level(logging.WARNING, "mcp_runtime.session.left_out")
    yield lambda: " ".join(caplog.messages)


async def check_rest(client: Any) -> None:
    good, last = (await client.list_tools()).tools
    assert (good.name, last.name) == ("good", "last")
    icons = getattr(last, "icons", None)
    assert not icons or len(icons) in (1, 2)  # Before they were defined, they are what the server wrote.
    (prompt,) = (await client.list_prompts()).prompts
    assert (prompt.name, [argument.name for argument in prompt.arguments]) == ("good", ["a"])
    assert [resource.uri for resource in (await client.list_resources()).resources] == ["x:good", "x:last"]
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template == "x:{good}"
    assert [content.uri for content in (await client.read_resource("x:1")).contents] == ["x:1", "x:3"]
    (message,) = (await client.get_prompt("p")).messages
    assert message.content.text == "kept"
    completed = await client.complete({"type": "ref/prompt", "name": "p"}, {"name": "a", "value": ""})
    assert completed.completion.values == ["kept"]
    content = (await client.call_tool("good")).content
    assert [block.type for block in content] == ["text", "hologram", "smell", "text"]
    assert content[0].annotations.audience == ["user"] and content[-1].text == "kept"


async def test_the_rest_of_every_result_arrives_with_warnings(command: list[str], revision: str, warnings: Any) -> None:
    package = import_module(f"mcp_generated.{REVISIONS[revision]}")
    async with package.Client.stdio(*command) as client:
        await check_rest(client)
    logged = warnings()
    for part in (
        "tools[1] 'bad'",
        "prompts[1]: name",
        "prompts[0] 'good'.arguments[1]",
        "resources[1] 'x:bad': name",
        "resources[0] 'x:good'.mimeType",
        "resourceTemplates[1]",
        "contents[1] 'x:2'",
        "messages[0]: role",
        "completion.values[1]",
        "completion.total",
        "content[0].annotations.audience[0]",
        "content[1]: text",
    ):
        assert part in logged, part
    assert f"'tools/list' in {revision}: left out, because it cannot be read" in logged


async def test_the_rest_arrives_at_a_client_of_all_versions(command: list[str], revision: str) -> None:
    async with connect(command) as client:
        await check_rest(client)


async def test_the_rest_arrives_through_a_proxy(command: list[str], revision: str) -> None:
    async with connect(App.proxy(command)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["good", "last"]
        with catch_warnings():
            simplefilter("error")  # A warning of pydantic would show what is in content of an unknown type.
            assert (await client.call_tool("good")).content[-1].text == "kept"


@pytest.mark.parametrize("asked", ["2025-06-18", "2026-07-28"])
async def test_the_rest_arrives_through_a_bridge(command: list[str], revision: str, asked: str) -> None:
    async with connect(bridge_command(*command), revisions=[asked]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["good", "last"]
        assert [block.type for block in (await client.call_tool("good")).content][0::3] == ["text", "text"]


async def test_the_rest_arrives_through_a_gateway(command: list[str], revision: str, warnings: Any) -> None:
    gateway = Gateway({"upstreams": {"up": {"command": command[0], "args": command[1:]}}})
    async with connect(gateway.app) as client:
        tools = [tool async for tool in client.iter_tools()]
        assert [tool.name for tool in tools] == ["up_good", "up_last"]
        assert [prompt.name async for prompt in client.iter_prompts()] == ["up_good"]
        uris = [resource.uri async for resource in client.iter_resources()]
        templates = [template.uri_template async for template in client.iter_resource_templates()]
        assert (len(uris), len(templates)) == (2, 1)
        assert len((await client.read_resource(uris[0])).contents) == 2
        (message,) = (await client.get_prompt("up_good")).messages
        assert message.content.text == "kept"
        called = await client.call_tool("up_good")
        assert [block.type for block in called.content][0::3] == ["text", "text"]
        assert gateway.health()["status"] == "ok"
    for part in (
        "tools[1] 'bad'",
        "prompts[1]: name",
        "resources[1] 'x:bad': name",
        "resourceTemplates[1]",
        "content[1]: text",
    ):
        assert part in warnings(), part


@among(ALL_REVISIONS)
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("list_tools", {"tools": "none"}),
        ("list_tools", {"tools": [], "nextCursor": 5}),
        ("call_tool", {"content": [], "isError": "true"}),
        ("call_tool", ["content"]),
        ("call_tool", 5),
        ("call_tool", None),
    ],
)
async def test_a_result_that_is_wrong_as_a_whole_is_an_error(rev: Rev, method: str, result: Any) -> None:
    wire, connecting = raw_server()
    async with answering(wire, rev, result), rev.package.Client(connecting) as client:
        with pytest.raises(InvalidResponseError, match="invalid response"):
            await (client.call_tool("x") if method == "call_tool" else client.list_tools())


@among(ALL_REVISIONS)
async def test_a_strict_client_refuses_what_any_part_is_wrong_of(rev: Rev) -> None:
    wire, connecting = raw_server()
    async with answering(wire, rev, {"tools": TOOLS, **LASTING}), rev.package.Client(connecting, strict=True) as client:
        with pytest.raises(InvalidResponseError, match="'tools/list' in .*tools"):
            await client.list_tools()


async def test_a_strict_client_is_strict_in_the_version_that_it_negotiates(command: list[str], revision: str) -> None:
    async with connect(command, strict=True) as client:
        with pytest.raises(InvalidResponseError):
            await client.list_prompts()


@among(ALL_REVISIONS)
async def test_a_property_of_the_opening_that_is_wrong_costs_itself(rev: Rev, warnings: Any) -> None:
    wire, connecting = raw_server()
    info = {"name": "raw", "version": "1", "title": 5}

    async def serve() -> None:
        request = await wire.receive()
        capabilities = {"tools": {"listChanged": "yes"}}
        result = {"protocolVersion": rev.id, "capabilities": capabilities, "serverInfo": info, "instructions": 5}
        if rev.stateless:
            meta = {"io.modelcontextprotocol/serverInfo": info}
            result = {"supportedVersions": [rev.id], "capabilities": capabilities, "_meta": meta, **LASTING}
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    serving = asyncio.create_task(serve())
    async with rev.package.Client(connecting) as client:
        assert client.server.name == "raw" and client.server.instructions is None
        assert client.server.capabilities.tools.list_changed is None
    await serving
    assert "capabilities.tools.listChanged" in warnings()


# ---- what a client is asked, and what it answers --------------------------------------------------------------------

MESSAGES = [
    {"role": "user", "content": {"type": "text", "text": "a"}},
    {"role": "robot", "content": {"type": "text", "text": "b"}},
    {"role": "user", "content": {"type": "text", "text": "c"}},
]


def sampling(**params: Any) -> dict[str, Any]:
    return {"messages": MESSAGES, "maxTokens": 5, **params}


@among(HANDSHAKE)
async def test_a_client_samples_the_messages_that_it_can_read(rev: Rev, warnings: Any) -> None:
    heard: list[str] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        heard.extend(getattr(message.content, "text", None) or message.content[0].text for message in params.messages)
        return rev.t.CreateMessageResult(role="assistant", model="m", content=rev.t.TextContent(text="d"))

    kind = type("Asked", (rev.package.Client,), {"on_create_message": staticmethod(on_create_message)})
    wire, connecting = raw_server()
    opening = asyncio.create_task(wire.welcome(rev))
    async with kind(connecting):
        await opening
        request = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}
        assert "result" in await wire.request({**request, "params": sampling()})
        refused = await wire.request({**request, "params": sampling(systemPrompt=5)})
        assert refused["error"]["code"] == INVALID_PARAMS and "systemPrompt" in refused["error"]["message"]
    assert heard == ["a", "c"] and "messages[1]" in warnings()


@among(STATELESS)
async def test_a_client_answers_the_part_of_an_input_request_that_it_can_read(rev: Rev) -> None:
    heard: list[str] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        heard.extend(message.content.text for message in params.messages)
        return rev.t.CreateMessageResult(role="assistant", model="m", content=rev.t.TextContent(text="d"))

    kind = type("Asked", (rev.package.Client,), {"on_create_message": staticmethod(on_create_message)})
    wire, connecting = raw_server()
    asked = {"method": "sampling/createMessage", "params": sampling()}
    results = {
        "server/discover": {"supportedVersions": [rev.id], "capabilities": {"tools": {}}, **LASTING},
        "tools/call": {"resultType": "input_required", "inputRequests": {"k": asked}, "requestState": "s"},
    }

    async def serve() -> Any:
        for _ in range(2):
            request = await wire.receive()
            wire.send({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]})
        retried = await wire.receive()
        wire.send({"jsonrpc": "2.0", "id": retried["id"], "result": {"content": [], "resultType": "complete"}})
        return retried["params"]

    serving = asyncio.create_task(serve())
    async with kind(connecting) as client:
        await client.call_tool("x")
    assert heard == ["a", "c"] and (await serving)["inputResponses"]["k"]["content"]["text"] == "d"


@among(HANDSHAKE)
async def test_a_server_reads_the_roots_that_it_can_read(rev: Rev, warnings: Any) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(" ".join(root.uri for root in (await ctx.list_roots()).roots))

    async with wire_to(server_of(rev, call_tool=call_tool)) as wire:
        await wire.shake_hands(rev, {"roots": {}})
        wire.send(rev.request(1, "tools/call", {"name": "x"}))
        asked = await wire.receive()
        roots = [{"uri": "file:///a", "name": 5}, {"uri": 7}, {"uri": "file:///b"}]
        wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}})
        answer = await wire.receive()
    assert answer["result"]["content"][0]["text"] == "file:///a file:///b"
    assert "roots[1]" in warnings() and "roots[0] 'file:///a'.name" in warnings()


@among(STATELESS)
async def test_a_server_reads_the_roots_in_an_input_response_and_refuses_other_params(rev: Rev, warnings: Any) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(" ".join(root.uri for root in (await ctx.list_roots()).roots))

    async with wire_to(server_of(rev, call_tool=call_tool)) as wire:
        meta = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}}
        asked = await wire.request(rev.request(1, "tools/call", {"name": "x", **meta}))
        ((key, _),) = asked["result"]["inputRequests"].items()
        roots = [{"uri": "file:///a", "name": 5}, {"uri": 7}, {"uri": "file:///b"}]
        retry = {"name": "x", **meta, "requestState": asked["result"]["requestState"]}
        answer = await wire.request(rev.request(2, "tools/call", {**retry, "inputResponses": {key: {"roots": roots}}}))
        assert answer["result"]["content"][0]["text"] == "file:///a file:///b" and "roots[1]" in warnings()
        for wrong in ({"name": 5}, {"arguments": "none"}, {"inputResponses": {key: {"roots": "none"}}}):
            refused = await wire.request(rev.request(3, "tools/call", {**retry, **wrong}))
            assert refused["error"]["code"] == INVALID_PARAMS


@among(since("2025-11-25", HANDSHAKE))
async def test_an_answer_to_a_form_is_read_as_a_whole(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        return rev.text(str((await ctx.elicit({"mode": "form", "message": "?", "requestedSchema": schema})).content))

    async with wire_to(server_of(rev, call_tool=call_tool)) as wire:
        await wire.shake_hands(rev, {"elicitation": {}})
        wire.send(rev.request(1, "tools/call", {"name": "x"}))
        asked = await wire.receive()
        wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"x": ["a", 5]}}})
        answer = await wire.receive()
    assert "error" in answer or answer["result"].get("isError")
