"""Handlers that wait get their turns: a transport that pushes messages does not fill a session with running ones."""

from __future__ import annotations

import asyncio

from mcp_runtime.session.handlers import RunningHandlers


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
