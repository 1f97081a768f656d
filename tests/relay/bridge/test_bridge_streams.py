"""SSE streams through a bridge: an upstream that closes its stream lets the client poll, as without a bridge."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import bridge_origin, listening, with_our_packages

SERVER = """
import asyncio
from mcp_generated import App, Context

app = App("poll")

@app.tool
async def later(ctx: Context, before: int) -> str:
    for number in range(before):
        await ctx.report_progress(number)
    await ctx.close_sse_stream()
    await asyncio.sleep(0.05)
    return "You came back."

app.run("http", port=0)
"""


@pytest.fixture(scope="module")
def server() -> str:
    """Return the endpoint of a server that closes its streams."""
    return listening(with_our_packages(sys.executable, "-c", SERVER)) + "/mcp"


@pytest.fixture(scope="module")
def bridge(server: str) -> str:
    """Return the endpoint of a bridge to the server."""
    return f"{bridge_origin(server)}/mcp"


def messages(text: str) -> list[dict[str, Any]]:
    """Return the messages of the events of a stream."""
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]


def opened(bridge: str, version: str) -> dict[str, str]:
    """Open a session, and return the headers of its requests."""
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version}
    details = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": details}
    response = httpx2.post(bridge, json=message, headers=headers, timeout=20)
    headers["mcp-session-id"] = response.headers["mcp-session-id"]
    httpx2.post(bridge, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers, timeout=20)
    return headers


def called(bridge: str, headers: dict[str, str], before: int) -> httpx2.Response:
    """Return the response to a call, complete or closed."""
    params = {"name": "later", "arguments": {"before": before}, "_meta": {"progressToken": "p"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx2.post(bridge, json=message, headers=headers, timeout=20)


@pytest.mark.parametrize("before", [0, 2])
def test_a_stream_that_the_upstream_closes_is_closed_for_the_client_which_resumes_it(bridge: str, before: int) -> None:
    headers = opened(bridge, "2025-11-25")
    response = called(bridge, headers, before)
    events = response.text.split("\n\n")
    assert "id: " in events[0] and re.search(r"^data: ?$", events[0], re.M), "the first event is an id without data"
    assert re.search(r"^retry: \d+$", response.text, re.M)
    assert [message["method"] for message in messages(response.text)] == ["notifications/progress"] * before
    last = re.findall(r"^id: ?(\S+)$", response.text, re.M)[-1]
    resumed = {**headers, "last-event-id": last}
    with httpx2.stream("GET", bridge, headers=resumed, timeout=20) as stream:
        lines = "".join(line + "\n" for line in stream.iter_lines())
    (answer,) = messages(lines)
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "You came back.")


def test_a_client_whose_revision_cannot_poll_gets_the_result_on_its_stream(bridge: str) -> None:
    response = called(bridge, opened(bridge, "2025-06-18"), 1)
    assert messages(response.text)[-1]["result"]["content"][0]["text"] == "You came back."


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_our_client_gets_the_result_with_and_without_the_bridge(server: str, bridge: str, version: str) -> None:
    for endpoint in (server, bridge):
        async with connect(endpoint, revisions=[version]) as client:
            result = (await client.call_tool("later", {"before": 0})).model_dump()
            assert result["content"][0]["text"] == "You came back."
