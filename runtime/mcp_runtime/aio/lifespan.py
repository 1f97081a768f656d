"""A lifespan that many connections share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import Any


class SharedLifespan:
    """A lifespan that is started at first use and ended once, both in its own task."""

    def __init__(self, lifespan: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._lifespan = lifespan
        self._state: asyncio.Future[Any] | None = None
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def state(self) -> Any:
        """Return what the lifespan yields; start it if needed. Raises what the lifespan raises.

        It is started for all, in an empty context: who needs it first may be cancelled.
        """
        if self._state is None:
            self._state = asyncio.get_running_loop().create_future()
            self._task = asyncio.get_running_loop().create_task(self._run(self._state), context=Context())
        return self._state.result() if self._state.done() else await asyncio.shield(self._state)

    async def end(self) -> None:
        """End the lifespan, if it was started."""
        self._end.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, state: asyncio.Future[Any]) -> None:
        try:
            async with self._lifespan() as yielded:
                state.set_result(yielded)
                await self._end.wait()
        except BaseException as error:
            if state.done():
                raise
            if isinstance(error, Exception):
                state.set_exception(error)
                return
            reason = RuntimeError(f"the lifespan has raised {type(error).__name__}")
            reason.__cause__ = error
            state.set_exception(reason)
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                raise
