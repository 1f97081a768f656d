"""A task that answered a request goes in; its result comes out once it is there, and what it asks meanwhile is answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from ..errors import ErrorResponse, InvalidResponse, McpError, NotConnected, RemoteError, TimedOut
from ..spec import InputRequest, Request
from ..wire import complaint
from .calls import DEFAULT, Options

if TYPE_CHECKING:
    from .client import BaseClient

_PAUSE: Final = 1.0  # Seconds between two questions for a task, where its server says nothing of it.
_SHORTEST: Final = 0.01
_LONGEST: Final = 60.0
_CANCELLING: Final = Options(timeout=5.0)


async def follow(client: BaseClient, task: BaseModel, options: Options | None = None) -> Any:
    """The result of the request that this task answered. It is asked for as often as its server suggests, and its
    questions go to the client's handlers, each once; `timeout` is that of each request, `max_timeout` that of it all.

    Raises ErrorResponse where the task failed, RemoteError where it was cancelled or asks what there is no handler
    for, and TimedOut. Who stops waiting cancels the task.
    """
    following = _Following(client, task, options or DEFAULT)
    longest = following.options.max_timeout
    try:
        async with asyncio.timeout(longest):
            ended = await following.ended()
    except TimeoutError:
        await following.cancel()
        raise TimedOut(f"{following.row.method!r}: its task has not ended within {longest:g} s") from None
    except (NotConnected, ErrorResponse):
        raise
    except BaseException:
        await following.cancel()
        raise
    return following.result(ended)


class _Following:
    """One task."""

    def __init__(self, client: BaseClient, task: Any, options: Options) -> None:
        self.options = options
        self._client = client
        self._task = task
        rows = client.revision.rows
        self._rows: dict[str, Any] = {row.name: row for row in rows}
        self.row: Request[Any] = next(row for row in rows if isinstance(row, Request) and type(task) in row.answers)
        self._answered: set[str] = set()

    async def ended(self) -> Any:
        """How the task stands once it has ended."""
        stands, each = self._task, Options(timeout=self.options.timeout, meta=self.options.meta)
        while stands.status in ("working", "input_required"):
            await asyncio.sleep(_pause(stands.poll_interval_ms))
            stands = await self._ask("get_task", {}, each)
            if stands.status == "input_required":
                await self._answer(stands.input_requests or {}, each)
        return stands

    async def cancel(self) -> None:
        """Say that nobody waits any more."""
        with suppress(McpError):
            await self._ask("cancel_task", {}, _CANCELLING)

    def result(self, ended: Any) -> Any:
        """What the task has come to."""
        what = f"{self.row.method!r}: its task"
        if ended.status == "failed" and ended.error is not None:
            error = ended.error.model_dump()
            raise ErrorResponse(error["code"], error["message"], error.get("data"))
        if ended.status != "completed":
            raise RemoteError(f"{what} is {ended.status}: {ended.status_message or 'nobody says why'}")
        try:
            return self.row.read_result(ended.result)
        except ValidationError as fault:
            raise InvalidResponse(f"{what} came to what is no result: {complaint(fault)}") from None

    async def _answer(self, questions: dict[str, Any], each: Options) -> None:
        """Answer what is new, one after the other: a user has one dialog at a time."""
        client = self._client
        known: dict[str, InputRequest[Any]] = client._answerable()  # pyright: ignore[reportPrivateUsage]
        for key, question in questions.items():
            if key in self._answered:
                continue
            if question.method not in known:
                raise RemoteError(
                    f"{self.row.method!r}: its task asks for {question.method!r}, which nobody answers here"
                )
            said = await client._answer(known[question.method], question.params)  # pyright: ignore[reportPrivateUsage]
            self._answered.add(key)
            await self._ask("update_task", {"inputResponses": {key: said.model_dump()}}, each)

    async def _ask(self, name: str, params: dict[str, Any], options: Options) -> Any:
        said = {"taskId": self._task.task_id, **params}
        return await self._client._ask(self._rows[name], said, options)  # pyright: ignore[reportPrivateUsage]


def _pause(milliseconds: int | None) -> float:
    return _PAUSE if milliseconds is None else min(max(milliseconds / 1000, _SHORTEST), _LONGEST)
