"""Handlers that wait get their turns: a transport that pushes messages does not fill a session with running ones."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from support.endpoints import HANDSHAKE, Rev, among
from support.http.asgi_client import Web

from mcp_generated import App
from mcp_runtime.session.running import RunningHandlers


class Push:
    """A transport that delivers messages until it is paused, and goes on when it is resumed."""

    def __init__(self, handlers: RunningHandlers, messages: int) -> None:
        self._handlers = handlers
        self.pending = messages
        self._paused = False
        self.running = self.maximum = 0

    def set_receiver(self, deliver: object) -> None:
        """Do nothing: the handlers of this transport are its own."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        while self.pending and not self._paused:
            self.pending -= 1
            self._handlers.start(self._handle())

    async def _handle(self) -> None:
        self.running += 1
        self.maximum = max(self.maximum, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        task = asyncio.current_task()
        assert task is not None
        self._handlers.remove(task)


async def test_handlers_that_wait_shortly_end_before_many_others_begin() -> None:
    handlers = RunningHandlers(asyncio.get_running_loop(), None)
    push = handlers.push = Push(handlers, 1000)
    push.resume()
    while push.pending or push.running:
        await asyncio.sleep(0)
    assert 0 < push.maximum <= 200


def sessions_with_handlers() -> int:
    """The number of sessions that have handlers of their own."""
    gc.collect()
    return sum(type(item) is RunningHandlers for item in gc.get_objects())


@among(HANDSHAKE[-1:])
async def test_a_session_has_handlers_of_its_own_only_while_one_waits(rev: Rev) -> None:
    app, go = App("waits"), asyncio.Event()

    @app.tool
    async def wait() -> str:
        await go.wait()
        return "done"

    def call(id: int) -> dict[str, Any]:
        return rev.request(id, "tools/call", {"name": "wait", "arguments": {}})

    endpoint, before = app.asgi(), sessions_with_handlers()
    clients = [Web(endpoint, rev) for _ in range(3)]
    for client in clients:
        await client.open()
    answers = [client.request(body=call(id)) for client in clients for id in (1, 2)]
    await asyncio.sleep(0.01)
    assert sessions_with_handlers() == before + len(clients)
    go.set()
    for answer in answers:
        await answer.whole()
        assert answer.json["result"]["content"][0]["text"] == "done"
    assert sessions_with_handlers() == before
    await endpoint.close()
