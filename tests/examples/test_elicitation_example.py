"""The example that asks, as a child process: clients of every revision that can be asked get the same from one tool."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.project import ROOT, package

SERVER = [sys.executable, str(ROOT / "examples" / "elicitation" / "server.py")]


def client_of(revision: str, action: str, has_model: bool) -> Any:
    """A client whose user and, if it has one, whose model answer."""
    t = package(revision, "types")

    async def on_elicit(self: Any, ctx: Any, params: Any) -> Any:
        content = {"name": "Ada", "guests": 2} if action == "accept" else None
        return t.ElicitResult(action=action, content=content)

    async def on_create_message(self: Any, ctx: Any, params: Any) -> Any:
        return t.CreateMessageResult(role="assistant", model="m", content=t.TextContent(text="See you!"))

    handlers: dict[str, Any] = {"on_elicit": on_elicit}
    if has_model:
        handlers["on_create_message"] = on_create_message
    return type("Asked", (package(revision, "client").Client,), handlers)


def booked(revision: str, action: str, has_model: bool = False) -> str:
    async def conversation() -> str:
        async with client_of(revision, action, has_model).stdio(*SERVER) as client:
            result = await client.call_tool(name="book", arguments={"restaurant": "Roma"})
        assert not result.is_error, result
        return str(result.content[0].text)

    return asyncio.run(asyncio.wait_for(conversation(), 60))


@pytest.mark.long
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_one_tool_asks_the_users_and_the_models_of_clients_of_each_revision(version: str) -> None:
    assert booked(version, "accept", has_model=True) == "1: Roma, 2 guests, Ada\nSee you!"
    assert booked(version, "accept") == "1: Roma, 2 guests, Ada"
    assert booked(version, "decline") == "1: nothing was booked (decline)"
