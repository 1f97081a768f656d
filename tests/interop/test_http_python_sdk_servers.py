"""Our clients with servers of the official Python SDK in both its versions, over Streamable HTTP and HTTP+SSE."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from support.http.raw_server import run
from support.peers import clean, python_peer, started
from support.processes import end_with_session
from support.project import PEER_DRIVERS, package

from mcp_generated import REVISIONS, v2025_11_25
from mcp_runtime.bindings.client import negotiate
from mcp_runtime.session.requests import Progress, RequestOptions

pytestmark = pytest.mark.long

PATHS = {"stream": "/mcp", "json": "/mcp", "sse": "/sse"}
HANDSHAKES = [id for id in REVISIONS if id < "2026"]


@cache
def served(sdk: str, transport: str) -> str:
    """The URL of a server of this process, which ends with it."""
    driver = str(PEER_DRIVERS / "python_sdk_http.py")
    server = started([str(python_peer(sdk)), driver, transport], clean(), "port ")
    end_with_session(server.process)
    return f"http://127.0.0.1:{int(server.output.split()[-1])}{PATHS[transport]}"


@pytest.fixture(params=[(sdk, transport) for sdk in ("mcp==1.30.0", "mcp==2.3.0") for transport in PATHS], ids="-".join)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    yield served(*request.param)


def newest(url: str) -> str:
    """The revision that is agreed where all are offered: the stateless one needs the newer SDK and the one endpoint."""
    modern = "2.3.0" in next(sdk for sdk in ("mcp==1.30.0", "mcp==2.3.0") if url in _urls(sdk))
    return "2026-07-28" if modern and url.endswith("/mcp") else "2025-11-25"


def _urls(sdk: str) -> list[str]:
    return [served(sdk, transport) for transport in PATHS]


async def use(client: Any) -> None:
    """All that such a server has."""
    progress: list[Progress] = []
    assert {tool.name async for tool in client.iter_tools()} == {"add", "steps", "fail", "big"}
    assert (await client.call_tool(name="add", arguments={"a": 1, "b": 2})).content[0].text == "3"
    result = await client.call_tool(name="steps", options=RequestOptions(on_progress=progress.append))
    assert result.content[0].text == "done" and progress in ([Progress(n, 3) for n in (1, 2, 3)], [])
    assert (await client.call_tool(name="fail")).is_error
    assert len((await client.call_tool(name="big")).content[0].text) == 3 << 20
    assert (await client.read_resource(uri="demo://text")).contents[0].text == "héllo"
    [message] = (await client.get_prompt(name="greet", arguments={"name": "Ada"})).messages
    assert message.content.text == "Hello, Ada"


@pytest.mark.parametrize("handshake", HANDSHAKES)
def test_each_revision_with_a_handshake_is_spoken(url: str, handshake: str) -> None:
    if handshake == "2024-11-05" and not url.endswith("/sse"):
        pytest.skip("this revision has HTTP+SSE alone")

    async def test() -> None:
        async with package(handshake, "client").Client.http(url) as client:
            assert client.server.protocol_version == handshake
            await use(client)

    run(test())


def test_of_all_revisions_the_newest_that_both_speak_is_agreed(url: str) -> None:
    async def test() -> None:
        client = await negotiate(*(package(id, "client").Client.http(url) for id in REVISIONS))
        assert client.revision.id == newest(url)
        await use(client)
        await client.close()

    run(test())


def test_the_synchronous_client_calls(url: str) -> None:
    with v2025_11_25.SyncClient.http(url) as client:
        assert client.call_tool(name="add", arguments={"a": 20, "b": 22}).content[0].text == "42"  # type: ignore[union-attr]
