"""The queue of repeatable tasks: docket, whose worker runs in the event loop of this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote

from redis.exceptions import RedisError

from ....errors import LocalError
from ....stores.primitives import StoreUnavailableError

_log: Final = logging.getLogger(__name__)

_LEASE_SECONDS: Final = 10.0  # Seconds without a sign of life after which a task begins again at another worker.
_RECONNECT_SECONDS: Final = 1.0  # Seconds between two attempts to reach Redis.
_ANSWER_SECONDS: Final = 3.0  # Seconds for Redis to answer.
_END_SECONDS: Final = 3.0  # Seconds for the tasks of a worker that ends to be put back.
_MAX_RUNNING: Final = 100  # Tasks that run at the same time in one worker.
_RUN: Final = "mcp_run_task"  # The name of the function that docket calls.

Run = Callable[[str], Awaitable[float | None]]


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return False for a record of docket that a task begins again: why it does is logged here."""
    return f"{_RUN}(" not in record.getMessage()


class DocketQueue:
    """The queue of the tasks of one server. docket gets no more than their ids."""

    def __init__(self, url: str, name: str, run: Run, leave: Callable[[], None]) -> None:
        """Create the queue.

        Args:
            url: The URL of Redis.
            name: The name of the server, which it has in all workers.
            run: Runs the task with an id. It returns None when the task has ended, or else the seconds after which it
                has to begin again.
            leave: Called at the end, when this worker gets no more tasks: those that run here have to return at once.
        """
        self._docket: Any = import_module("docket")
        name = f"mcp-tasks:{quote(name, safe='')}"  # docket uses it in a pattern, too.
        self._queue: Any = self._docket.Docket(name=name, url=url, execution_ttl=timedelta(0))
        logging.getLogger("docket.dependencies").addFilter(_is_of_others)  # A second time changes nothing.
        self._run = run
        self._leave = leave
        self._ending = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect to Redis, and run tasks from now on. Raises StoreUnavailableError."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(opened))
        await opened

    async def add(self, id: str) -> None:
        """Add a task, once for an id. Raises StoreUnavailableError."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):  # The connections of docket wait for ever.
                await self._queue.add(_RUN, key=id)(id)
        except (RedisError, OSError) as error:  # A TimeoutError is an OSError.
            raise StoreUnavailableError(f"the queue of tasks cannot be reached: {error}") from error

    async def close(self) -> None:
        """Run no more tasks, and leave Redis."""
        self._ending.set()
        if self._serving is not None:
            await asyncio.wait([self._serving], timeout=_END_SECONDS)
            self._serving.cancel()  # Redis cannot be reached: others take its tasks after their leases.
            await asyncio.wait([self._serving], timeout=_END_SECONDS)

    def _job(self) -> Callable[..., Awaitable[None]]:
        """Return the function that docket calls, which is repeated as often as it requests that."""
        repeated: Any = self._docket.Retry(attempts=None, delay=timedelta(seconds=_RECONNECT_SECONDS))

        async def mcp_run_task(id: str, retry: Any = repeated) -> None:
            seconds = await self._run(id)
            if seconds is not None:
                retry.after(timedelta(seconds=seconds))

        return mcp_run_task

    async def _serve(self, opened: asyncio.Future[None]) -> None:
        """Run the worker of docket, whose context variables have to be set and reset in one asyncio task."""
        settings = {
            "concurrency": _MAX_RUNNING,
            "redelivery_timeout": timedelta(seconds=_LEASE_SECONDS),
            "reconnection_delay": timedelta(seconds=_RECONNECT_SECONDS),
            "schedule_automatic_tasks": False,
        }
        try:
            async with self._queue:
                self._queue.register(self._job(), names=[_RUN])
                async with self._docket.Worker(self._queue, **settings) as worker:
                    opened.set_result(None)
                    await self._work(worker)
                    # When the worker is to end, and before it waits for its tasks.
                    asyncio.get_running_loop().call_soon(self._leave)
        except (RedisError, OSError) as error:
            if opened.done():
                _log.warning("the queue of tasks could not be left in order: %s", error)
            else:
                opened.set_exception(StoreUnavailableError(f"the queue of tasks cannot be reached: {error}"))
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(LocalError(f"the queue of tasks cannot be opened: {error}"))

    async def _work(self, worker: Any) -> None:
        """Let the worker run until the end."""
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            while not ending.done():
                working = asyncio.ensure_future(worker.run_forever())
                await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    error = None if working.cancelled() else working.exception()
                    _log.error("the worker of the queue of tasks has ended, and begins again", exc_info=error)
                    await asyncio.wait([ending], timeout=_RECONNECT_SECONDS)
        finally:
            ending.cancel()
