"""A tool that asks the user, served by two processes that share only a key ring: one over stdio, one over HTTP."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.project import SERVERS

from mcp_generated import v2025_06_18, v2026_07_28
from mcp_generated.v2026_07_28 import types as t
from mcp_products.common.keys import KeyRing
from mcp_runtime.errors import RemoteJSONRPCError

SERVER = str(SERVERS / "elicitation.py")
CAPABILITIES = {"elicitation": {}}


@asynccontextmanager
async def over_http(key: str) -> AsyncIterator[str]:
    """A process that serves over HTTP, as its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, key, "http", stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        async for line in process.stderr:
            if match := re.search(rb"listening at (\S+)", line):
                yield match[1].decode()
                break
    finally:
        process.terminate()
        await process.communicate()


def by_stdio(package: Any, key: str, **settings: Any) -> Any:
    return package.stdio(sys.executable, SERVER, key, "stdio", **settings)


@pytest.mark.long
@pytest.mark.parametrize("package", [v2025_06_18, v2026_07_28], ids=["handshake", "stateless"])
async def test_the_same_tool_asks_clients_of_both_lifecycles_over_both_transports(package: Any) -> None:
    class Answering(package.Client):  # type: ignore[misc]
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            return package.types.ElicitResult(action="accept", content={"name": "Ada"})

    key = KeyRing.new_key().hex()
    async with over_http(key) as url:
        for client in (by_stdio(Answering, key), Answering.http(url)):
            async with client:
                assert (await client.call_tool(name="ask")).content[0].text == "accept Ada"


@pytest.mark.long
async def test_a_request_begun_at_one_process_is_ended_by_another_that_has_the_key() -> None:
    key, other_key = KeyRing.new_key().hex(), KeyRing.new_key().hex()
    async with by_stdio(v2026_07_28.Client, key, capabilities=CAPABILITIES) as client:
        first: Any = await client.call_tool(name="ask")
    assert isinstance(first, t.InputRequiredResult) and first.input_requests is not None
    input_responses: Any = {
        key: t.ElicitResult(action="accept", content={"name": "Ada"}) for key in first.input_requests
    }
    state = first.request_state
    async with over_http(key) as url, v2026_07_28.Client.http(url, capabilities=CAPABILITIES) as client:
        result: Any = await client.call_tool(name="ask", input_responses=input_responses, request_state=state)
        assert result.content[0].text == "accept Ada"
    async with by_stdio(v2026_07_28.Client, other_key, capabilities=CAPABILITIES) as client:
        with pytest.raises(RemoteJSONRPCError, match="no key of this server decrypts the token"):
            await client.call_tool(name="ask", input_responses=input_responses, request_state=state)
