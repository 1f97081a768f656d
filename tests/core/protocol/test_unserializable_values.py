"""What JSON cannot say is not sent: it is an error of who tries, and never a request without an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_generated.v2025_03_26 import Client, Context, Server
from mcp_generated.v2025_03_26 import types as t
from mcp_runtime.errors import InvalidMessageError, JSONRPCError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

DEADLINE = 10.0


class Refusing(Server):
    def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name == "unsayable":
            return t.CallToolResult(content=[], extra=object())  # type: ignore[call-arg]
        raise JSONRPCError(-32000, "no", {"x": object()})


@pytest.mark.parametrize("value", [object(), "\ud800"], ids=["an object", "half a surrogate pair"])
def test_an_argument_is_an_invalid_message(value: Any) -> None:
    async def conversation() -> None:
        async with Client.memory(Refusing(name="r", version="1")) as client:
            with pytest.raises(InvalidMessageError, match="'tools/call' in 2025-03-26: params: "):
                await client.call_tool(name="x", arguments={"a": value})

    asyncio.run(asyncio.wait_for(conversation(), DEADLINE))


@pytest.mark.parametrize(("name", "reason"), [("refusal", "no .the data"), ("unsayable", "internal error")])
def test_a_refusal_and_a_result_are_still_answered(name: str, reason: str) -> None:
    async def conversation() -> None:
        async with Client.memory(Refusing(name="r", version="1")) as client:
            with pytest.raises(RemoteJSONRPCError, match=f"{reason}.*a value of the type 'object' has no form in JSON"):
                await client.call_tool(name=name, options=RequestOptions(timeout=2))

    asyncio.run(asyncio.wait_for(conversation(), DEADLINE))


def test_a_number_that_is_none_is_never_written() -> None:
    async def conversation() -> None:
        async with Client.memory(Refusing(name="r", version="1")) as client:
            with pytest.raises(InvalidMessageError, match="no number NaN"):
                await client.call_tool(name="x", arguments={"a": float("nan")}, options=RequestOptions(timeout=2))

    asyncio.run(asyncio.wait_for(conversation(), DEADLINE))
