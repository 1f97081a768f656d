"""The execution of a task: its status, its input requests and its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from ...aio import clock
from ...aio.rate_limit import RateLimit, TokenBucket
from ...errors import JSONRPCError, UnwritableValueError
from ...protocol.capabilities import Capabilities
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ...protocol.models import format_validation_error, validator
from ...protocol.revision import InputRequest, Request, Revision
from ...server.input_requests import input_request_params
from ...usage.unwritable import escaped, unwritable
from .store import TERMINAL_STATUSES, Status, TaskRecord

_log: Final = logging.getLogger(__name__)

# The reason of a cancellation: the client cancelled the task, or it expired; None if the server shuts down, or if the
# function has cancelled itself.
CancelReason = Literal["cancelled", "expired"]
SaveRecord = Callable[[TaskRecord], Awaitable[None]]

_STATUS_RATE: Final = RateLimit(per_second=50, burst=200)
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
        self._cancel_reason: CancelReason | None = None
        self._input_requests: dict[str, _InputRequest] = {}
        self._requested = 0
        self._save_lock = asyncio.Lock()
        self._status_rate = TokenBucket(_STATUS_RATE)
        if record.ttl is not None:
            seconds = max(record.expires - clock.wall(), 0)
            timer = asyncio.get_running_loop().call_later(seconds, self.cancel, "expired")
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
            self._cancel_reason = self._cancel_reason or reason
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
            case asyncio.CancelledError() if self._cancel_reason == "cancelled":
                await self._transition("cancelled", CANCELLED)
            case asyncio.CancelledError() if self._cancel_reason == "expired":
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
    """Return why a task has failed whose function has raised what is no Exception."""
    return f"the function of the task has raised {type(error).__name__}"
