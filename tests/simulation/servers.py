"""The server that is simulated: functions that report, ask, send late, and take their time."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_generated import App, Context
from simulation.world import Process


def make(process: Process) -> App:
    """An app of one process. Each function says whose call it has run, so that a wrong answer is noticed."""
    app, world = App("simulated"), process.world

    @app.tool
    async def count(ctx: Context, call: str, steps: int, pause: float) -> str:
        for step in range(steps):
            await ctx.report_progress(step + 1)
            if pause:
                await asyncio.sleep(pause)
            await process.goes_on()
        return call

    @app.tool
    async def order(ctx: Context, call: str, pause: float) -> str:
        answer = await ctx.elicit(call, str, timeout=None)
        await process.goes_on()
        return f"{call} {getattr(answer, 'data', answer.action)}"

    @app.tool
    async def later(ctx: Context, call: str, pause: float) -> str:
        process.start(send_later(ctx, call, pause))
        return call

    async def send_later(ctx: Any, call: str, pause: float) -> None:
        await asyncio.sleep(pause)
        await process.goes_on()
        world.note(f"worker {process.number} sends {call}")
        await ctx.session.send_elicit_complete(call)
        await process.goes_on()
        world.sent.append(call)

    return app
