"""A session that was lost is opened again for all, whoever of those that need it is cancelled, and whenever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.cancelled_steps import each_wait
from support.http.raw_server import Got, Raw, Write, reply, serving, text
from support.matrices import long_after

from mcp_generated import v2025_03_26, v2025_06_18, v2025_11_25


@asynccontextmanager
async def lost_session(client_class: Any) -> AsyncIterator[Any]:
    """A client whose session the server has ended after a call."""
    raw = Raw()

    async def check(got: Got, write: Write) -> None:
        if got.headers.get("mcp-session-id") != raw.session:
            await write(reply(b"", 404))
        else:
            await raw.default_answer(got, write)

    raw.answers["tools/call"] = check
    async with serving(raw), client_class.http(raw.url) as client:

        async def ask() -> str:
            return text(await client.call_tool(name="x"))

        assert await ask() == "usual"
        raw.session = "s-2"
        yield ask
        assert len(raw.requests_of("initialize")) == 2
        opened = [got.headers["mcp-session-id"] for got in raw.requests_of("notifications/initialized")]
        assert opened == ["s-1", "s-2"]


@pytest.mark.deadline(120)
@pytest.mark.parametrize("client_class", long_after(1, [v2025_11_25.Client, v2025_06_18.Client, v2025_03_26.Client]))
async def test_a_session_is_opened_again_for_all_although_one_request_was_cancelled(client_class: Any) -> None:
    assert await each_wait(lambda: lost_session(client_class), "usual") > 0
