"""A call goes in; its answer comes out, or a task that has it later, from when its handler says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from ...errors import JSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.revision import InputRequest, Notification, Request
from ...server.context import ServerContext
from ...server.input_requests import MultiRoundTripRequest
from ...server.task_options import TaskOptions
from ...session.interfaces import ChannelProxy
from ...session.options import RequestOptions
from ...session.pending import log
from .execution import TaskExecution

CreateTask = Callable[[TaskOptions, asyncio.Future[Any]], Awaitable[tuple[TaskExecution, BaseModel]]]


class DeferrableCall(ChannelProxy):
    """The conversation as the handler of one call has it: what it asks is asked by the answer, and, once it is a task,
    by that. Clients of other revisions, and those that do not know tasks, get the answer alone."""

    def __init__(self, ctx: ServerContext, check: Callable[[], None], create_task: CreateTask) -> None:
        """`check` raises JSONRPCError for a client that has not declared that it knows tasks."""
        session = ctx._channel  # pyright: ignore[reportPrivateUsage]
        super().__init__(session)
        self._refusal: JSONRPCError | None = None
        try:
            check()
        except JSONRPCError as unknown:
            self._refusal = unknown
        self._is_possible = self._refusal is None and isinstance(session, MultiRoundTripRequest)
        self._create_task = create_task
        self._task: TaskExecution | None = None
        self._work: asyncio.Future[Any] | None = None
        self._created: asyncio.Future[BaseModel] = asyncio.get_running_loop().create_future()
        ctx._deferral = self  # pyright: ignore[reportPrivateUsage]
        if self._is_possible:
            ctx._channel = self  # pyright: ignore[reportPrivateUsage]

    async def run(self, handle: Callable[[], Awaitable[Any]]) -> Any:
        """What the handler answers, or the task it has become; who does not wait any more, ends either."""
        if not self._is_possible:
            return await handle()
        work = self._work = asyncio.ensure_future(self._run(handle))
        try:
            await asyncio.wait((work, self._created), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait([work])
            if not work.cancelled() and (fault := work.exception()) is not None:
                log.debug("a call that nobody waits for any more failed: %r", fault)
            raise
        return self._created.result() if self._created.done() else work.result()

    async def _run(self, handle: Callable[[], Awaitable[Any]]) -> Any:
        try:
            answer = await handle()
        except BaseException as fault:
            if self._task is None:
                raise
            return await self._task.fail(fault)
        return answer if self._task is None else await self._task.complete(answer)

    # ---- what the handler says ----------------------------------------------------------------------------------------

    async def begin(self, options: TaskOptions) -> bool:
        """See `Deferrable`; a task stays the one it is."""
        if not self._is_possible and options.required:
            raise self._refusal or JSONRPCError(INTERNAL_ERROR, "this needs a task, which this revision does not have")
        if self._is_possible and self._task is None:
            assert self._work is not None, "a handler runs before it says anything"
            self._task, created = await self._create_task(options, self._work)
            self._created.set_result(created)
        return self._is_possible

    async def set_status_message(self, message: str) -> None:
        if self._task is not None:
            await self._task.set_status_message(message)

    def close_sse_stream(self) -> None:
        if self._task is None:
            self._channel.close_sse_stream()

    async def send_notification(self, row: Notification, params: Any) -> None:
        """As the session's own; there is no way to tell something of a task."""
        if self._task is None:
            await self._channel.send_notification(row, params)

    async def send_request(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """What the client answers. A task waits for it as long as it is kept."""
        if self._task is not None and isinstance(row, InputRequest):
            return await self._task.request_input(row, params)
        return await self._channel.send_request(row, params, options)  # type: ignore[arg-type]
