"""Forwarded requests: the request of a client, while the target handles it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

from ...aio.fan_out import FanOut
from ...errors import JSONRPCError
from ...protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from ...protocol.revision import InputRequest
from ...server.context import ServerContext
from ...server.input_requests import InputRequired
from ...session.options import Progress
from .front import send_input_request

_MAX_SECONDS: Final = 1800.0  # Seconds that a call waits for the next round of its client.
_MIN_SECONDS: Final = 60.0  # Seconds that it waits in any case, even if others need its connection.
_MAX_CALLS: Final = 1000  # Calls that wait for the next round; the oldest one is cancelled.


class _PendingInput:
    """A request of the target that waits for the next round of its client."""

    def __init__(self, row: InputRequest[Any], params: Any) -> None:
        self.row = row
        self.params = params
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class ForwardedCall:
    """One request of a client; `ctx` is its context, None between two rounds of a multi round-trip request."""

    def __init__(self, ctx: ServerContext, in_rounds: bool = False) -> None:
        """Create the call of a request; `in_rounds` if requests of the target become input requests of it."""
        self.ctx: ServerContext | None = ctx
        self.task: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._in_rounds = in_rounds
        self._inputs: list[_PendingInput] = []
        self._changed = asyncio.Event()
        self._fan_out = FanOut()

    async def on_progress(self, progress: Progress) -> None:
        """Pass progress of the target to the client."""
        if self.ctx is not None:  # The result waits for this, and the connection with it.
            sending = self.ctx.progress(progress.progress, progress.total, progress.message)
            await self._fan_out.send(self, sending)

    async def request_input(self, row: InputRequest[Any], params: Any) -> Any:
        """Return the client's result of a request of the target. Raises JSONRPCError."""
        if not self._in_rounds:
            assert self.ctx is not None, "the context of a call that is no multi round-trip request"
            if self.ctx.connection_state.is_stateless:
                message = f"{row.method!r} cannot be sent during {self.ctx.request_id!r}, which has no input requests"
                raise JSONRPCError(INVALID_REQUEST, message)
            return await send_input_request(self.ctx, row, params)
        pending = _PendingInput(row, params)
        self._inputs.append(pending)
        self._changed.set()
        try:
            return await pending.result
        except asyncio.CancelledError:  # The target needs no answer any more.
            self._inputs.remove(pending)
            raise

    async def run_round(self, ctx: ServerContext) -> Any:
        """Return the result of the call; the requests of the target become input requests of the client's request.

        Raises InputRequired if the client must answer one first.
        """
        assert self.task is not None, "the request was sent to the target"
        while True:
            # All of them again, because the context counts the equal ones of a round.
            for pending in self._inputs:
                try:
                    result = await send_input_request(ctx, pending.row, pending.params)
                except JSONRPCError as error:
                    if not pending.result.done():
                        pending.result.set_exception(error)
                else:
                    if not pending.result.done():
                        pending.result.set_result(result)
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([self.task, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if self.task.done():
                return self.task.result()


class SuspendedCalls:
    """The calls that wait for the next round of their multi round-trip requests, by id."""

    def __init__(self, proxy: str) -> None:
        """Create an empty table; `proxy` is the name of the proxy, for messages."""
        self._proxy = proxy
        self._calls: dict[str, ForwardedCall] = {}

    async def run(self, key: str, ctx: ServerContext, start: Callable[[ForwardedCall], Awaitable[Any]]) -> Any:
        """Return the result of a multi round-trip request to a target whose requests interrupt no call.

        Args:
            key: What is called; different for all calls that one request of the client makes.
            ctx: The context of the client's request, in any round.
            start: Sends the request to the target, and returns its result.

        Raises JSONRPCError if the call of an earlier round has ended, and InputRequired.
        """
        request = ctx._mrtr  # pyright: ignore[reportPrivateUsage]
        assert request is not None, "only multi round-trip requests have rounds"
        key = f"proxy {self._proxy} {key}"
        id: str | None = request.values.get(key)
        call = ForwardedCall(ctx, in_rounds=True) if id is None else self._calls.pop(id, None)
        if call is None:
            message = "the call ended before its input responses arrived: send the request again without them"
            raise JSONRPCError(INVALID_PARAMS, message)
        task = call.task = call.task or asyncio.ensure_future(start(call))
        if call.timer is not None:
            call.timer.cancel()
        call.ctx = ctx
        is_suspended, reason = False, None
        try:
            return await call.run_round(ctx)
        except asyncio.CancelledError as error:
            reason = str(error) or None
            raise
        except InputRequired:
            call.ctx = None
            is_suspended = True
            id = request.values[key] = id or uuid4().hex
            self._suspend(id, call)
            raise
        finally:
            if not is_suspended:
                request.values.pop(key, None)
                await _cancel(task, reason)

    def _suspend(self, id: str, call: ForwardedCall) -> None:
        self._calls[id] = call
        call.timer = asyncio.get_running_loop().call_later(_MAX_SECONDS, self._drop, id)
        if len(self._calls) > _MAX_CALLS:
            self._drop(next(iter(self._calls)))

    def end_oldest(self) -> None:
        """End the call that has waited longest, because another one needs its connection."""
        id, call = next(iter(self._calls.items()), (None, None))
        if id is not None and call is not None and call.timer is not None:
            began = call.timer.when() - _MAX_SECONDS
            if asyncio.get_running_loop().time() - began >= _MIN_SECONDS:
                self._drop(id)

    def _drop(self, id: str) -> None:
        call = self._calls.pop(id, None)
        if call is not None and call.task is not None and call.timer is not None:
            call.timer.cancel()
            call.task.cancel()

    async def close(self) -> None:
        """Cancel all calls."""
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        for id in list(self._calls):
            self._drop(id)
        for task in tasks:
            await _cancel(task)


async def _cancel(task: asyncio.Task[Any], reason: str | None = None) -> None:
    """Cancel a task and wait until it has ended; its exception is not raised."""
    task.cancel(reason)
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
