"""Deferral of calls: a handler can turn its call into a task at any time before its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel

from ...errors import JSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.revision import InputRequest, Notification, Request
from ...server.context import ServerContext
from ...server.input_requests import MultiRoundTripRequest
from ...server.task_options import TaskOptions
from ...session.interfaces import ChannelProxy
from ...session.options import RequestOptions
from .execution import TaskExecution

_log: Final = logging.getLogger(__name__)

CreateTask = Callable[[TaskOptions, asyncio.Future[Any]], Awaitable[tuple[TaskExecution, BaseModel]]]
HandOver = Callable[[TaskOptions], Awaitable[BaseModel | None]]


class _HandedOver(asyncio.CancelledError):
    """Ends a handler here: it begins again where the queue lets it run."""


class DeferrableCall(ChannelProxy):
    """The channel of the handler of one call that may become a task.

    Input requests of the handler go into the result of the call, and into the task once there is one. Clients without
    the tasks extension, and clients of other revisions, get the result without a task.
    """

    def __init__(
        self, ctx: ServerContext, check: Callable[[], None], create_task: CreateTask, hand_over: HandOver
    ) -> None:
        """Replace the channel of a context; `check` raises JSONRPCError if the client lacks the tasks capability."""
        channel = ctx._channel  # pyright: ignore[reportPrivateUsage]
        super().__init__(channel)
        self._refusal: JSONRPCError | None = None
        try:
            check()
        except JSONRPCError as error:
            self._refusal = error
        self._is_possible = self._refusal is None and isinstance(channel, MultiRoundTripRequest)
        if ctx._task_request is not None:  # pyright: ignore[reportPrivateUsage]
            self._is_possible = True
        self._create_task = create_task
        self._hand_over = hand_over
        self._task: TaskExecution | None = None
        self._work: asyncio.Future[Any] | None = None
        self._created: asyncio.Future[BaseModel] = asyncio.get_running_loop().create_future()
        ctx._deferral = self  # pyright: ignore[reportPrivateUsage]
        if self._is_possible:
            ctx._channel = self  # pyright: ignore[reportPrivateUsage]

    async def run(self, handle: Callable[[], Awaitable[Any]]) -> Any:
        """Run the handler, and return its result or the created task. Cancelling this cancels the handler."""
        if not self._is_possible:
            return await handle()
        work = self._work = asyncio.ensure_future(self._run(handle))
        try:
            await asyncio.wait((work, self._created), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait([work])
            if not work.cancelled() and (error := work.exception()) is not None:
                _log.debug("a cancelled call failed: %r", error)
            raise
        return self._created.result() if self._created.done() else work.result()

    async def _run(self, handle: Callable[[], Awaitable[Any]]) -> Any:
        try:
            result = await handle()
            if self._task is not None:
                await _take_cancellation()
        except _HandedOver:
            return None
        except BaseException as error:
            if self._task is None:
                raise
            with suppress(asyncio.CancelledError):
                await _take_cancellation()
            return await self._task.fail(error)
        return result if self._task is None else await self._task.complete(result)

    # ---- methods for the handler -------------------------------------------------------------------------------------

    async def begin(self, options: TaskOptions) -> bool:
        """Create the task, see `Deferrable`; a second call has no effect."""
        if not self._is_possible and options.required:
            raise self._refusal or JSONRPCError(
                INTERNAL_ERROR, "this call needs a task, which this revision does not have"
            )
        if self._is_possible and self._task is None:
            assert self._work is not None, "`run` starts the handler"
            if options.repeatable and (created := await self._hand_over(options)) is not None:
                self._created.set_result(created)
                raise _HandedOver("another worker may run this call")
            task, created = await self._create_task(options, self._work)
            self._task = task
            self._created.set_result(created)
        return self._is_possible

    async def set_status_message(self, message: str) -> None:
        if self._task is not None:
            await self._task.set_status_message(message)

    def close_sse_stream(self, standalone: bool = False) -> None:
        if self._task is None or standalone:
            self._channel.close_sse_stream(standalone)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification; once the call is a task, it is dropped, because tasks have no notifications from
        handlers."""
        if self._task is None:
            await self._channel.send_notification(row, params)

    async def send_request(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """Send a request to the client and return its result. A task waits until it expires, without a timeout."""
        if self._task is not None and isinstance(row, InputRequest):
            return await self._task.request_input(row, params)
        return await self._channel.send_request(row, params, options)  # type: ignore[arg-type]


async def _take_cancellation() -> None:
    """Raise the CancelledError of a function that has cancelled itself and then ended without a wait."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)
