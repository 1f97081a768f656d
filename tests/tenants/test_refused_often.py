"""A tenant that asks on and on is refused later, so that it takes no time from the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev

from mcp_generated import App, RateLimit, connect
from mcp_generated.tenants import Limits, TenantRequest, Tenants
from mcp_products.tenants import records
from mcp_runtime.errors import RemoteJSONRPCError

NONE_LEFT = Limits(calls=RateLimit(per_second=0.0001, burst=1))


def busy_or_quiet(request: TenantRequest) -> str:
    return "busy" if request.method == "tools/call" else "quiet"


def test_refusals_come_at_once_then_in_turn_and_never_very_late() -> None:
    record: dict[str, Any] = {}
    waits = [records.refuse_later(record, 1_000.0) for _ in range(200)]
    assert waits[:20] == pytest.approx([0.0] * 20, abs=1e-6)
    assert waits[20] == pytest.approx(0.02) and waits[29] == pytest.approx(0.2)
    assert waits[-1] == 1.0
    assert records.refuse_later(record, 2_000.0) == 0.0


@pytest.mark.parametrize("rev", ALL_REVISIONS, ids=str)
async def test_refusals_above_a_number_wait_and_others_do_not(rev: Rev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_REFUSALS", 0.001)
    monkeypatch.setattr(records, "_REFUSED_WITHIN", 1_000.0)
    limits = {"busy": NONE_LEFT}
    app = App("app", tenant=Tenants(by=busy_or_quiet, limits=lambda name: limits.get(name, Limits())))

    @app.tool
    async def busy() -> str:
        return "busy"

    @app.prompt
    async def quiet() -> str:
        return "quiet"

    async with connect(app, revisions=[rev.id]) as client:
        await client.call_tool("busy")
        calls = [asyncio.create_task(client.call_tool("busy")) for _ in range(25)]
        done: set[Any] = set()
        while len(done) < 20:
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)
            done = {call for call in calls if call.done()}
        assert "quiet" in str(await client.get_prompt("quiet"))
        refused = [call for call in calls if call.done()]
        assert len(refused) == 20
        assert all(isinstance(call.exception(), RemoteJSONRPCError) for call in refused)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
