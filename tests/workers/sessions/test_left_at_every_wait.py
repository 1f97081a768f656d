"""A request that is reset at any of its waits costs the others nothing, at its worker and at another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.cancelled_steps import MANY
from support.endpoints import HANDSHAKE, STATELESS, among
from support.http.leaving_client import LeavingClient, is_answered, left_at
from support.matrices import long_after
from support.stores.homes import FEW_HOMES, place_of
from support.stores.shared_workers import workers

from mcp_generated import App, Context

CHANGED = "notifications/tools/list_changed"


def announcing() -> App:
    """An app with a tool that announces a change to the clients of all workers, and reports progress."""
    app = App("announcing")

    @app.tool
    async def announce(ctx: Context, text: str) -> str:
        await ctx.report_progress(1)
        await app.server.notify_tool_list_changed()
        return text

    return app


@pytest.mark.parametrize("way", long_after(1, ["cancelled", "disconnected"]))
@pytest.mark.parametrize("home", FEW_HOMES)
@among([HANDSHAKE[-1], *STATELESS])
@pytest.mark.deadline(120)
async def test_a_request_that_is_left_at_any_wait_leaves_the_workers_well(
    rev: object, home: str, way: str, tmp_path: Path
) -> None:
    async with workers(rev, announcing, place_of(home, tmp_path), 2) as client:  # type: ignore[arg-type]
        first, second = client.applications
        session, revision = client.session, client.rev
        for number in range(1, MANY):
            leaving = asyncio.create_task(left_at(number, LeavingClient(first, revision, session, 0, "announce"), way))
            beside = [
                asyncio.create_task(is_answered(app, revision, session, 3 * number + index, "announce"))
                for index, app in enumerate((first, second))
            ]
            was_left = await leaving
            assert all(await asyncio.gather(*beside)), f"beside one that was left at its wait {number}"
            after = 3 * number + 2
            assert await is_answered(second, revision, session, after, "announce"), f"after one left at {number}"
            if not was_left:
                break
        assert 2 <= number < MANY - 1
        if not revision.stateless:
            await hears_the_next_change(client, session)


async def hears_the_next_change(client: object, session: str | None) -> None:
    """Check that a stream of the session still gets changes."""
    stream = client.request("GET", headers={"accept": "text/event-stream"}, at=1)  # type: ignore[attr-defined]
    await stream.until(lambda answer: answer.status == 200)
    before = stream.content.count(CHANGED.encode())
    assert await is_answered(client.applications[0], client.rev, session, 9_999, "announce")  # type: ignore[attr-defined]
    await stream.until(lambda answer: answer.content.count(CHANGED.encode()) > before)
    await stream.leave()
