"""The server that is simulated: functions that report, ask, send late, and take their time."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_generated import App, Context, asgi_app
from mcp_products.versions.adapters import AdapterSubscriber, server_candidates
from mcp_runtime.server.subscriptions import SubscriptionBus
from mcp_runtime.stores import StoreUnavailableError
from simulation.clients import REVISION
from simulation.world import Process

# A form whose schema is ready: of a type, it would be made anew with each call.
COLOUR = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
_FREE: list[SimulatedApp] = []  # Those whose processes have ended: to make one takes as long as a short schedule.


class SimulatedApp(App):
    """An app of one process. Each function says whose call it has run, so that a wrong answer is noticed."""

    process: Process

    def __init__(self) -> None:
        super().__init__("simulated")
        for function in (self.count, self.order, self.later):
            self.add_tool(function)
        self._candidates = server_candidates(self.server, [REVISION])

    def begin(self, process: Process) -> None:
        """Belong to a process that knows nothing of former ones."""
        self.process = process
        bus = self.server.parts.bus = SubscriptionBus()
        for candidate in self._candidates:
            adapter: Any = candidate.get()
            adapter.parts.bus = SubscriptionBus()
            bus.subscribe(AdapterSubscriber(adapter, bus))

    def application(self, **settings: Any) -> Any:
        """Return what `asgi` does, with the same adapter each time."""
        return asgi_app(*self._candidates, **settings)

    async def count(self, ctx: Context, call: str, steps: int, pause: float) -> str:
        process = self.process
        for step in range(steps):
            await ctx.report_progress(step + 1)
            if pause:
                await asyncio.sleep(pause)
            await process.goes_on()
        process.world.returned[call] = process.world.loop.now
        return call

    async def order(self, ctx: Context, call: str, pause: float) -> str:
        process = self.process
        answer: Any = await ctx.elicit(call, COLOUR, timeout=None)
        await process.goes_on()
        process.world.returned[call] = process.world.loop.now
        return f"{call} {answer.data['value']}"

    async def later(self, ctx: Context, call: str, pause: float) -> str:
        self.process.start(self._send_later(self.process, ctx, call, pause))
        return call

    async def _send_later(self, process: Process, ctx: Any, call: str, pause: float) -> None:
        world = process.world
        await asyncio.sleep(pause)
        await process.goes_on()
        world.note(f"worker {process.number} sends {call}")
        waiting = process.sending.setdefault(call.partition("-")[0], [])  # For the same stream.
        waiting.append(world.loop.now)
        try:
            await ctx.session.send_elicit_complete(call)
        except StoreUnavailableError:
            return world.gave_up(waiting[0], call)
        waiting.clear()
        await process.goes_on()
        world.sent.append(call)


def make(process: Process) -> SimulatedApp:
    """Return an app for a process."""
    app = _FREE.pop() if _FREE else SimulatedApp()
    app.begin(process)
    return app


def free(app: SimulatedApp) -> None:
    """Let another process have an app."""
    _FREE.append(app)


def forget() -> None:
    """Let no process have an app of former ones."""
    _FREE.clear()
