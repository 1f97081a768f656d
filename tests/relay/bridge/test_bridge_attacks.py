"""Attacks on a bridge: what a client sends does not reach the upstream beyond its messages, and users stay apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.feature_cells.bridge.bridge_processes import bridge_command, listening
from support.feature_cells.bridge.recording_server import VERSION, Recording, recording_servers

from mcp_products.relay.upstream.suspended import SuspendedCall, SuspendedCalls
from mcp_runtime.errors import JSONRPCError

META = "io.modelcontextprotocol/"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[type[Recording], type[Recording], str]]:
    """An upstream, another server that it redirects to, and the origin of a bridge with a credential of its own."""
    with recording_servers() as (upstream, other):
        options = ("--http", "127.0.0.1:0", "--header", "Authorization: Bearer of-the-bridge")
        yield upstream, other, listening(bridge_command(upstream.url, options=options))


def post(bridge: str, name: str, **headers: str) -> httpx2.Response:
    """Call a tool through a bridge."""
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    params = {"name": name, "arguments": {}, "_meta": meta}
    own = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    all_headers = {**own, "mcp-method": "tools/call", "mcp-name": name, **headers}
    return httpx2.post(f"{bridge}/mcp", json=message, headers=all_headers, timeout=20)


def test_tokens_and_headers_of_a_client_are_not_passed(servers: Any) -> None:
    upstream, _, origin = servers
    secrets = {"authorization": "Bearer of-the-client", "cookie": "id=1", "x-forwarded-for": "10.0.0.1", "x-key": "k"}
    assert post(origin, "t", **secrets).status_code == 200
    assert upstream.heads
    for head in upstream.heads:
        assert head["authorization"] == "Bearer of-the-bridge"
        assert not {"cookie", "x-forwarded-for", "x-key"} & head.keys()
        assert "of-the-client" not in str(head)


def test_line_ends_in_a_name_make_no_header(servers: Any) -> None:
    upstream, _, origin = servers
    name = "t\r\nX-Injected: 1"
    encoded = "=?base64?dA0KWC1JbmplY3RlZDogMQ==?="
    assert post(origin, name, **{"mcp-name": encoded}).status_code == 200
    assert upstream.heads[-1]["mcp-name"] == encoded and "x-injected" not in upstream.heads[-1]


def test_a_redirect_of_the_upstream_is_not_followed(servers: Any) -> None:
    _, other, origin = servers
    answer = post(origin, "redirect").json()
    assert "the upstream of the bridge failed" in answer["error"]["message"]
    assert other.heads == [], "the credential of the bridge went to another server"


def test_pages_of_other_origins_and_hosts_are_refused(servers: Any) -> None:
    _, _, origin = servers
    assert post(origin, "t", origin="https://evil.example").status_code == 403
    assert post(origin, "t", host="evil.example").status_code in (403, 421)


ELSEWHERE = ("mcp-init-host", "x-forwarded-host", "x-forwarded-server", "x-original-url", "x-mcp-target", "router-key")


@pytest.mark.advisory("GHSA-g53w-w6mj-hrpp")
def test_no_header_of_a_client_chooses_the_upstream(servers: Any) -> None:
    upstream, other, origin = servers
    place = other.url.removeprefix("http://").removesuffix("/mcp")
    upstream.heads.clear()
    answer = post(origin, "t", **dict.fromkeys(ELSEWHERE, place), forwarded=f"host={place}").json()
    assert "result" in answer and other.heads == []
    assert {head["host"] for head in upstream.heads} == {upstream.url.removeprefix("http://").removesuffix("/mcp")}


@pytest.mark.advisory("CVE-2025-49596")
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/stdio", "/connect", "/config"])
def test_no_request_starts_a_command_or_opens_another_url(path: str, servers: Any, tmp_path: Path) -> None:
    _, other, origin = servers
    file = tmp_path / "started"
    query = {"transportType": "stdio", "command": "touch", "args": str(file), "url": other.url}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {**query, "_meta": {}}}
    with httpx2.stream("POST", f"{origin}{path}", params=query, json=message, headers=headers, timeout=20) as response:
        assert response.status_code >= 200
    assert not file.exists() and other.heads == []


async def test_a_call_that_waits_for_input_goes_on_for_its_user_only() -> None:
    suspended, call = SuspendedCalls(), SuspendedCall("ada")
    call.task = asyncio.ensure_future(asyncio.sleep(60))
    suspended.add(call)
    with pytest.raises(JSONRPCError, match="requestState is not valid"):
        suspended.take(call.state, "eve")
    assert suspended.take("other", "ada") is None
    assert suspended.take(call.state, "ada") is call
    call.task.cancel()
