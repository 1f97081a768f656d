"""The execution of a task: its status, its input requests and its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from mcp_runtime.aio import clock
from mcp_runtime.aio.rates import TASK_STATUS, TokenBucket
from mcp_runtime.errors import JSONRPCError, UnwritableValueError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.models import format_validation_error, validator
from mcp_runtime.protocol.revision import InputRequest, Notification, Request, Revision
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.input_requests import MultiRoundTripRequest, input_request_params
from mcp_runtime.session.interfaces import ChannelProxy
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.usage.texts import escaped, unwritable

from .store import TERMINAL_STATUSES, Status, TaskOptions, TaskRecord

_log: Final = logging.getLogger("mcp_runtime.extensions.tasks.execution")

# The reason of a cancellation: the client cancelled the task, or it expired; None if the server shuts down, or if the
# function has cancelled itself.
CancelReason = Literal["cancelled", "expired"]
SaveRecord = Callable[[TaskRecord], Awaitable[None]]

CANCELLED: Final = "cancelled by the client"
_EXPIRED: Final = "the task has expired"
_ENDING: Final = "the server ended before the task did"
_CANCELLED_ITSELF: Final = "the function of the task has cancelled itself"


@dataclass(slots=True)
class _InputRequest:
    row: InputRequest[Any]
    wire: dict[str, Any]
    future: asyncio.Future[BaseModel]


class TaskExecution:
    """A running task. `save` is awaited with each record of the task, in order; `work` is the future of the handler;
    `scopes` returns the scopes that the call has required so far, and `is_ending` whether the server ends."""

    def __init__(
        self,
        record: TaskRecord,
        row: Request[Any],
        revision: Revision,
        capabilities: Capabilities,
        max_result_bytes: int,
        save: SaveRecord,
        work: asyncio.Future[Any],
        *,
        scopes: Callable[[], tuple[str, ...]] = tuple,
        is_ending: Callable[[], bool] = bool,
    ) -> None:
        self.record = record
        self._row = row
        self._revision = revision
        self._capabilities = capabilities
        self._max_result_bytes = max_result_bytes
        self._save = save
        self._work = work
        self._scopes = scopes
        self._is_ending = is_ending
        self.is_unsaved = False  # True if the store failed, so that only this process has the record.
        self.cancel_reason: CancelReason | None = None
        self._input_requests: dict[str, _InputRequest] = {}
        self._requested = 0
        self._save_lock = asyncio.Lock()
        self._status_rate = TokenBucket(TASK_STATUS)
        if record.ttl is not None:
            seconds = max(record.expires - clock.wall(), 0)
            timer = asyncio.get_running_loop().call_later(seconds, self.cancel, "expired", context=Context())
            work.add_done_callback(lambda _: timer.cancel())

    # ---- input requests ---------------------------------------------------------------------------------------------

    async def request_input(self, row: InputRequest[Any], params: dict[str, Any] | BaseModel) -> BaseModel:
        """Send an input request to the client and return its result; until then the task has the status input_required.

        Raises InvalidMessageError for invalid params, JSONRPCError if the client lacks the capability.
        """
        value = input_request_params(self._revision, self._capabilities, row, params)
        self._requested += 1
        key = f"{row.name.removeprefix('on_')}-{self._requested}"
        sent = {"method": row.method} | ({} if value is None else {"params": value})
        request = _InputRequest(row, sent, asyncio.get_running_loop().create_future())
        self._input_requests[key] = request
        try:
            await self._update_input_status()
            return await request.future
        finally:
            if self._input_requests.pop(key, None) is not None:  # The handler was cancelled.
                await self._update_input_status()

    async def resolve_inputs(self, responses: Mapping[str, Any]) -> None:
        """Settle pending input requests with the client's responses; responses without a request are ignored.

        Raises JSONRPCError if a response does not match its request; then all responses are ignored.
        """
        results: dict[str, BaseModel] = {}
        for key in responses.keys() & self._input_requests.keys():
            try:
                results[key] = validator(cast(Any, self._input_requests[key].row).result)(responses[key])
            except ValidationError as error:
                raise JSONRPCError(
                    INVALID_PARAMS, f"the response to {key!r} is invalid: {format_validation_error(error)}"
                ) from None
        for key, result in results.items():
            future = self._input_requests.pop(key).future
            if not future.done():
                future.set_result(result)
        if results:
            await self._update_input_status()

    async def set_status_message(self, message: str) -> None:
        """Set the status message. Above a rate limit, messages are not saved; they are visible in this process."""
        await self._transition(self.record.status, message, self.record.detail, save=not self._status_rate.acquire())

    async def _update_input_status(self) -> None:
        """Set the status to input_required while there are pending input requests, otherwise to working."""
        if self._input_requests:
            requests = {key: request.wire for key, request in self._input_requests.items()}
            await self._transition("input_required", self.record.message, {"inputRequests": requests})
        else:
            await self._transition("working", self.record.message)

    # ---- the end of the task ----------------------------------------------------------------------------------------

    def cancel(self, reason: CancelReason) -> None:
        """Cancel the handler. A handler that has ended or suppresses the cancellation is not affected."""
        if self.record.status not in TERMINAL_STATUSES:
            self.cancel_reason = self.cancel_reason or reason
            self._work.cancel()

    async def complete(self, result: Any) -> None:
        """Record the result of the handler."""
        if not isinstance(result, self._row.result):
            _log.error("%r: a task ends with %s, not with %r", self._row.method, self._row.result.__name__, result)
            return await self._record_error(INTERNAL_ERROR, "internal error")
        try:
            value = from_json(written := to_json(result))
        except ValueError as error:
            reason = f"the result of {self._row.method!r} cannot be sent: {unwritable(result) or error}"
            _log.error("%s", reason)
            return await self._record_error(INTERNAL_ERROR, f"internal error: {reason}")
        if len(written) > self._max_result_bytes:
            return await self._record_error(INTERNAL_ERROR, f"the result is longer than {self._max_result_bytes} bytes")
        await self._transition("completed", None, {"result": value})

    async def fail(self, error: BaseException) -> None:
        """Record the exception of the handler."""
        match error:
            case asyncio.CancelledError() if self.cancel_reason == "cancelled":
                await self._transition("cancelled", CANCELLED)
            case asyncio.CancelledError() if self.cancel_reason == "expired":
                await self._record_error(INTERNAL_ERROR, _EXPIRED)
            case asyncio.CancelledError() if self._is_ending():
                await self._record_error(INTERNAL_ERROR, _ENDING)
            case asyncio.CancelledError():
                _log.error("%r: %s", self._row.method, _CANCELLED_ITSELF)
                await self._record_error(INTERNAL_ERROR, _CANCELLED_ITSELF)
            case JSONRPCError(code=code, message=message, data=data):
                await self._record_error(code, message, data)
            case UnwritableValueError():  # Its message has places and types, and no values.
                _log.error("%s", error)
                await self._record_error(INTERNAL_ERROR, f"internal error: {error}")
            case _ if not isinstance(error, Exception):  # Such as SystemExit: the process goes on with other tasks.
                _log.error("%r: %s", self._row.method, reason_of_end(error), exc_info=error)
                await self._record_error(INTERNAL_ERROR, reason_of_end(error))
            case _:
                _log.error("the handler of a task of %r failed", self._row.method, exc_info=error)
                await self._record_error(INTERNAL_ERROR, "internal error")

    async def _record_error(self, code: int, message: str, data: object = None) -> None:
        message = escaped(message)
        error: dict[str, Any] = {"code": code, "message": message}
        try:
            error |= {} if data is None else {"data": from_json(to_json(data))}
        except ValueError:
            _log.exception("the data of an error of %r cannot be serialized", self._row.method)
        await self._transition("failed", message, {"error": error})

    async def _transition(
        self, status: Status, message: str | None, detail: Mapping[str, Any] | None = None, save: bool = True
    ) -> None:
        """Change the status and save the record; a terminal status never changes."""
        if self.record.status in TERMINAL_STATUSES:
            return
        self.record = replace(
            self.record,
            status=status,
            scopes=self._scopes(),
            updated=clock.wall(),
            message=message,
            detail=dict(detail or {}),
        )
        if save:
            async with self._save_lock:  # The last saved record must be the latest one.
                await self._save(self.record)


def reason_of_end(error: BaseException) -> str:
    """Return why a task has failed whose function has raised what is not an Exception."""
    return f"the function of the task has raised {type(error).__name__}"


# Deferral of calls: a handler can turn its call into a task at any time before its result.

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
        channel = ctx.channel
        super().__init__(channel)
        self._refusal: JSONRPCError | None = None
        try:
            check()
        except JSONRPCError as error:
            self._refusal = error
        self._is_possible = self._refusal is None and isinstance(channel, MultiRoundTripRequest)
        if ctx.task_request is not None:
            self._is_possible = True
        self._create_task = create_task
        self._hand_over = hand_over
        self._task: TaskExecution | None = None
        self._work: asyncio.Future[Any] | None = None
        self._created: asyncio.Future[BaseModel] = asyncio.get_running_loop().create_future()
        ctx.deferral = self
        if self._is_possible:
            ctx.channel = self

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

    async def begin(self, options: TaskOptions | None) -> bool:
        """Create the task, see `Deferrable`; a second call has no effect."""
        options = options or TaskOptions()
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
