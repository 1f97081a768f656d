"""A task that a handler is at work on goes in; questions and answers pass through it, and what became of it comes out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from ..errors import InvalidMessage, Refusal
from ..exchange import log
from ..faces.questions import check_asked
from ..faces.rates import Allowance, Rate
from ..jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, json_of
from ..lifecycle import Capabilities
from ..spec import InputRequest, Request, Revision
from ..wire import complaint, reader
from .kept import ENDED, Status, TaskRecord

# Why a handler is cancelled: its client wishes so, its task has expired, or nothing: then the server ends.
Why = Literal["cancelled", "expired"]
Keep = Callable[[TaskRecord], Awaitable[None]]

_SAYING: Final = Rate(per_second=50, burst=200)
_EXPIRED: Final = "the task has expired"
_ENDING: Final = "the server ended before the task did"


@dataclass(slots=True)
class _Question:
    row: InputRequest[Any]
    said: dict[str, Any]
    waiting: asyncio.Future[BaseModel]


class Running:
    """One of them. `keep` is awaited with each record of it, in order; `work` is what runs the handler."""

    def __init__(
        self,
        record: TaskRecord,
        row: Request[Any],
        revision: Revision,
        capabilities: Capabilities,
        largest: int,
        keep: Keep,
        work: asyncio.Future[Any],
    ) -> None:
        self.record = record
        self._row = row
        self._revision = revision
        self._capabilities = capabilities
        self._largest = largest
        self._keep = keep
        self._work = work
        self.is_lost = False  # Whether it could not be kept, and is known here alone.
        self._why: Why | None = None
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._keeping = asyncio.Lock()
        self._pace = Allowance(_SAYING)
        if record.ttl is not None:
            expiring = asyncio.get_running_loop().call_later(record.ttl, self.stop, "expired")
            work.add_done_callback(lambda _: expiring.cancel())

    # ---- questions to the client ------------------------------------------------------------------------------------

    async def ask(self, row: InputRequest[Any], params: dict[str, Any] | BaseModel) -> BaseModel:
        """What the client answers, as soon as it does: until then, the task waits for input. Raises Refusal for a
        capability that it has not declared."""
        value: dict[str, Any] = from_json(json_of(params))
        try:
            said = reader(row.params)(value)
        except ValidationError as fault:
            raise InvalidMessage(f"{row.method!r}: params: {complaint(fault)} ({self._revision.id})") from None
        check_asked(self._revision, self._capabilities, [(row, said)])
        self._asked += 1
        key = f"{row.name.removeprefix('on_')}-{self._asked}"
        question = _Question(row, {"method": row.method, "params": value}, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        try:
            await self._wait_or_work()
            return await question.waiting
        finally:
            if self._questions.pop(key, None) is not None:  # Nobody waits for the answer any more.
                await self._wait_or_work()

    async def answer(self, responses: Mapping[str, Any]) -> None:
        """Take the client's answers to what is asked now, and leave others alone. Raises Refusal for one that is no
        answer to its question; then none of them counts."""
        read: dict[str, BaseModel] = {}
        for key in responses.keys() & self._questions.keys():
            try:
                read[key] = reader(cast(Any, self._questions[key].row).result)(responses[key])
            except ValidationError as fault:
                raise Refusal(INVALID_PARAMS, f"the answer to {key!r} is none: {complaint(fault)}") from None
        for key, answer in read.items():
            waiting = self._questions.pop(key).waiting
            if not waiting.done():
                waiting.set_result(answer)
        if read:
            await self._wait_or_work()

    async def say(self, message: str) -> None:
        """What the task is at, in words; where that changes too often to be kept, the last of it is known here alone."""
        await self._move(self.record.status, message, self.record.detail, is_kept=not self._pace.take())

    async def _wait_or_work(self) -> None:
        """Be waiting for input as long as something is asked."""
        if self._questions:
            asked = {key: each.said for key, each in self._questions.items()}
            await self._move("input_required", self.record.message, {"inputRequests": asked})
        else:
            await self._move("working", self.record.message)

    # ---- how it ends ------------------------------------------------------------------------------------------------

    def stop(self, why: Why) -> None:
        """Wish that the handler ends; one that has ended, or does not care, goes its way."""
        if self.record.status not in ENDED:
            self._why = self._why or why
            self._work.cancel()

    async def done(self, answer: Any) -> None:
        """The handler has answered."""
        if not isinstance(answer, self._row.result):
            log.error("%r: a task ends with %s, not with %r", self._row.method, self._row.result.__name__, answer)
            return await self._fail(INTERNAL_ERROR, "internal error")
        try:
            result = from_json(written := to_json(answer))
        except ValueError:
            log.exception("the result of a task of %r is no JSON", self._row.method)
            return await self._fail(INTERNAL_ERROR, "internal error")
        if len(written) > self._largest:
            return await self._fail(INTERNAL_ERROR, f"the result is longer than {self._largest} bytes")
        await self._move("completed", None, {"result": result})

    async def failed(self, fault: BaseException) -> None:
        """The handler has raised something."""
        match fault:
            case asyncio.CancelledError() if self._why == "cancelled":
                await self._move("cancelled", "cancelled by the client")
            case asyncio.CancelledError():
                await self._fail(INTERNAL_ERROR, _EXPIRED if self._why == "expired" else _ENDING)
            case Refusal(code=code, message=message, data=data):
                await self._fail(code, message, data)
            case _:
                log.error("the handler of a task of %r failed", self._row.method, exc_info=fault)
                await self._fail(INTERNAL_ERROR, "internal error")

    async def _fail(self, code: int, message: str, data: object = None) -> None:
        error: dict[str, Any] = {"code": code, "message": message}
        try:
            error |= {} if data is None else {"data": from_json(to_json(data))}
        except ValueError:
            log.exception("the data of an error of %r is no JSON", self._row.method)
        await self._move("failed", message, {"error": error})

    async def _move(
        self, status: Status, message: str | None, detail: Mapping[str, Any] | None = None, is_kept: bool = True
    ) -> None:
        """Change the task, which an end of it forbids, and keep it so."""
        if self.record.status in ENDED:
            return
        self.record = replace(
            self.record, status=status, updated=time.time(), message=message, detail=dict(detail or {})
        )
        if is_kept:
            async with self._keeping:  # What is kept last is what it was last.
                await self._keep(self.record)
