"""A task that a handler is at work on goes in; questions and answers pass through it, and what became of it comes out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from ...aio.rate_limit import RateLimit, TokenBucket
from ...errors import JSONRPCError
from ...protocol.capabilities import Capabilities
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ...protocol.models import format_validation_error, validator
from ...protocol.revision import InputRequest, Request, Revision
from ...server.input_requests import input_request_params
from ...session.pending import log
from .store import TERMINAL_STATUSES, Status, TaskRecord

# Why a handler is cancelled: its client wishes so, its task has expired, or nothing: then the server ends.
CancelReason = Literal["cancelled", "expired"]
SaveRecord = Callable[[TaskRecord], Awaitable[None]]

_STATUS_RATE: Final = RateLimit(per_second=50, burst=200)
_EXPIRED: Final = "the task has expired"
_ENDING: Final = "the server ended before the task did"


@dataclass(slots=True)
class _InputRequest:
    row: InputRequest[Any]
    wire: dict[str, Any]
    future: asyncio.Future[BaseModel]


class TaskExecution:
    """One of them. `keep` is awaited with each record of it, in order; `work` is what runs the handler."""

    def __init__(
        self,
        record: TaskRecord,
        row: Request[Any],
        revision: Revision,
        capabilities: Capabilities,
        max_result_bytes: int,
        save: SaveRecord,
        work: asyncio.Future[Any],
    ) -> None:
        self.record = record
        self._row = row
        self._revision = revision
        self._capabilities = capabilities
        self._max_result_bytes = max_result_bytes
        self._save = save
        self._work = work
        self.is_expired = False  # Whether it could not be kept, and is known here alone.
        self._cancel_reason: CancelReason | None = None
        self._input_requests: dict[str, _InputRequest] = {}
        self._answered = 0
        self._saving = asyncio.Lock()
        self._status_rate = TokenBucket(_STATUS_RATE)
        if record.ttl is not None:
            expiring = asyncio.get_running_loop().call_later(record.ttl, self.cancel, "expired")
            work.add_done_callback(lambda _: expiring.cancel())

    # ---- questions to the client ------------------------------------------------------------------------------------

    async def request_input(self, row: InputRequest[Any], params: dict[str, Any] | BaseModel) -> BaseModel:
        """What the client answers, as soon as it does: until then, the task waits for input. Raises JSONRPCError for a
        capability that it has not declared."""
        value = input_request_params(self._revision, self._capabilities, row, params)
        self._answered += 1
        key = f"{row.name.removeprefix('on_')}-{self._answered}"
        question = _InputRequest(
            row, {"method": row.method, "params": value}, asyncio.get_running_loop().create_future()
        )
        self._input_requests[key] = question
        try:
            await self._wait_or_work()
            return await question.future
        finally:
            if self._input_requests.pop(key, None) is not None:  # Nobody waits for the answer any more.
                await self._wait_or_work()

    async def resolve_inputs(self, responses: Mapping[str, Any]) -> None:
        """Take the client's answers to what is asked now, and leave others alone. Raises JSONRPCError for one that is no
        answer to its question; then none of them counts."""
        read: dict[str, BaseModel] = {}
        for key in responses.keys() & self._input_requests.keys():
            try:
                read[key] = validator(cast(Any, self._input_requests[key].row).result)(responses[key])
            except ValidationError as fault:
                raise JSONRPCError(
                    INVALID_PARAMS, f"the answer to {key!r} is none: {format_validation_error(fault)}"
                ) from None
        for key, answer in read.items():
            waiting = self._input_requests.pop(key).future
            if not waiting.done():
                waiting.set_result(answer)
        if read:
            await self._wait_or_work()

    async def set_status_message(self, message: str) -> None:
        """What the task is at, in words; where that changes too often to be kept, the last of it is known here alone."""
        await self._transition(self.record.status, message, self.record.detail, save=not self._status_rate.acquire())

    async def _wait_or_work(self) -> None:
        """Be waiting for input as long as something is asked."""
        if self._input_requests:
            asked = {key: each.wire for key, each in self._input_requests.items()}
            await self._transition("input_required", self.record.message, {"inputRequests": asked})
        else:
            await self._transition("working", self.record.message)

    # ---- how it ends ------------------------------------------------------------------------------------------------

    def cancel(self, reason: CancelReason) -> None:
        """Wish that the handler ends; one that has ended, or does not care, goes its way."""
        if self.record.status not in TERMINAL_STATUSES:
            self._cancel_reason = self._cancel_reason or reason
            self._work.cancel()

    async def complete(self, result: Any) -> None:
        """The handler has answered."""
        if not isinstance(result, self._row.result):
            log.error("%r: a task ends with %s, not with %r", self._row.method, self._row.result.__name__, result)
            return await self._record_error(INTERNAL_ERROR, "internal error")
        try:
            value = from_json(written := to_json(result))
        except ValueError:
            log.exception("the result of a task of %r is no JSON", self._row.method)
            return await self._record_error(INTERNAL_ERROR, "internal error")
        if len(written) > self._max_result_bytes:
            return await self._record_error(INTERNAL_ERROR, f"the result is longer than {self._max_result_bytes} bytes")
        await self._transition("completed", None, {"result": value})

    async def fail(self, error: BaseException) -> None:
        """The handler has raised something."""
        match error:
            case asyncio.CancelledError() if self._cancel_reason == "cancelled":
                await self._transition("cancelled", "cancelled by the client")
            case asyncio.CancelledError():
                await self._record_error(INTERNAL_ERROR, _EXPIRED if self._cancel_reason == "expired" else _ENDING)
            case JSONRPCError(code=code, message=message, data=data):
                await self._record_error(code, message, data)
            case _:
                log.error("the handler of a task of %r failed", self._row.method, exc_info=error)
                await self._record_error(INTERNAL_ERROR, "internal error")

    async def _record_error(self, code: int, message: str, data: object = None) -> None:
        error: dict[str, Any] = {"code": code, "message": message}
        try:
            error |= {} if data is None else {"data": from_json(to_json(data))}
        except ValueError:
            log.exception("the data of an error of %r is no JSON", self._row.method)
        await self._transition("failed", message, {"error": error})

    async def _transition(
        self, status: Status, message: str | None, detail: Mapping[str, Any] | None = None, save: bool = True
    ) -> None:
        """Change the task, which an end of it forbids, and keep it so."""
        if self.record.status in TERMINAL_STATUSES:
            return
        self.record = replace(
            self.record, status=status, updated=time.time(), message=message, detail=dict(detail or {})
        )
        if save:
            async with self._saving:  # What is kept last is what it was last.
                await self._save(self.record)
