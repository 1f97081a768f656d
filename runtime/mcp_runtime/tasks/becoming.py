"""A call goes in; its answer comes out, or a task that has it later, from when its handler says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from ..errors import Refusal
from ..exchange import OnProgress, log
from ..faces.rounds import Rounds
from ..faces.server import ServerContext
from ..faces.tasking import Task
from ..jsonrpc import INTERNAL_ERROR
from ..seams import Passing
from ..spec import InputRequest, Notification, Request
from .running import Running

Begin = Callable[[Task, asyncio.Future[Any]], Awaitable[tuple[Running, BaseModel]]]


class Becoming(Passing):
    """The conversation as the handler of one call has it: what it asks is asked by the answer, and, once it is a task,
    by that. Clients of other revisions, and those that do not know tasks, get the answer alone."""

    def __init__(self, ctx: ServerContext, check: Callable[[], None], begin: Begin) -> None:
        """`check` raises Refusal for a client that has not declared that it knows tasks."""
        session = ctx._session  # pyright: ignore[reportPrivateUsage]
        super().__init__(session)
        self._unknown: Refusal | None = None
        try:
            check()
        except Refusal as unknown:
            self._unknown = unknown
        self._possible = self._unknown is None and isinstance(session, Rounds)
        self._begin = begin
        self._task: Running | None = None
        self._work: asyncio.Future[Any] | None = None
        self._begun: asyncio.Future[BaseModel] = asyncio.get_running_loop().create_future()
        ctx._call = self  # pyright: ignore[reportPrivateUsage]
        if self._possible:
            ctx._session = self  # pyright: ignore[reportPrivateUsage]

    async def answer(self, handle: Callable[[], Awaitable[Any]]) -> Any:
        """What the handler answers, or the task it has become; who does not wait any more, ends either."""
        if not self._possible:
            return await handle()
        work = self._work = asyncio.ensure_future(self._run(handle))
        try:
            await asyncio.wait((work, self._begun), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait([work])
            if not work.cancelled() and (fault := work.exception()) is not None:
                log.debug("a call that nobody waits for any more failed: %r", fault)
            raise
        return self._begun.result() if self._begun.done() else work.result()

    async def _run(self, handle: Callable[[], Awaitable[Any]]) -> Any:
        try:
            answer = await handle()
        except BaseException as fault:
            if self._task is None:
                raise
            return await self._task.failed(fault)
        return answer if self._task is None else await self._task.done(answer)

    # ---- what the handler says ----------------------------------------------------------------------------------------

    async def begin(self, how: Task) -> bool:
        """See `MayBecomeTask`; a task stays the one it is."""
        if not self._possible and how.needed:
            raise self._unknown or Refusal(INTERNAL_ERROR, "this needs a task, which this revision does not have")
        if self._possible and self._task is None:
            assert self._work is not None, "a handler runs before it says anything"
            self._task, created = await self._begin(how, self._work)
            self._begun.set_result(created)
        return self._possible

    async def say(self, message: str) -> None:
        if self._task is not None:
            await self._task.say(message)

    def part(self) -> None:
        if self._task is None:
            self._session.part()

    async def tell(self, row: Notification, params: Any) -> None:
        """As the session's own; there is no way to tell something of a task."""
        if self._task is None:
            await self._session.tell(row, params)

    async def ask(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
    ) -> BaseModel:
        """What the client answers. A task waits for it as long as it is kept."""
        if self._task is not None and isinstance(row, InputRequest):
            return await self._task.ask(row, params)
        return await self._session.ask(row, params, timeout, on_progress, longest)  # type: ignore[arg-type]
