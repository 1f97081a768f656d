"""A task that answered a request goes in; its result comes out once it is there, and what it asks meanwhile is answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from ..errors import (
    ConnectionClosedError,
    InvalidResponseError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from ..protocol.models import format_validation_error
from ..protocol.revision import InputRequest, Request
from ..session.options import DEFAULT_OPTIONS, RequestOptions

if TYPE_CHECKING:
    from ..bindings.client import BaseClient

_DEFAULT_INTERVAL: Final = 1.0  # Seconds between two questions for a task, where its server says nothing of it.
_MIN_INTERVAL: Final = 0.01
_MAX_INTERVAL: Final = 60.0
_CANCEL_OPTIONS: Final = RequestOptions(timeout=5.0)


async def wait_for_task(client: BaseClient, task: BaseModel, options: RequestOptions | None = None) -> Any:
    """The result of the request that this task answered. It is asked for as often as its server suggests, and its
    questions go to the client's handlers, each once; `timeout` is that of each request, `max_timeout` that of it all.

    Raises RemoteJSONRPCError where the task failed, RemoteError where it was cancelled or asks what there is no handler
    for, and RequestTimeoutError. Who stops waiting cancels the task.
    """
    following = _TaskPolling(client, task, options or DEFAULT_OPTIONS)
    longest = following.options.max_timeout
    try:
        async with asyncio.timeout(longest):
            ended = await following.poll_until_ended()
    except TimeoutError:
        await following.cancel()
        raise RequestTimeoutError(f"{following.row.method!r}: its task has not ended within {longest:g} s") from None
    except (ConnectionClosedError, RemoteJSONRPCError):
        raise
    except BaseException:
        await following.cancel()
        raise
    return following.result(ended)


class _TaskPolling:
    """One task."""

    def __init__(self, client: BaseClient, task: Any, options: RequestOptions) -> None:
        self.options = options
        self._client = client
        self._task = task
        rows = client.revision.rows
        self._rows: dict[str, Any] = {row.name: row for row in rows}
        self.row: Request[Any] = next(
            row for row in rows if isinstance(row, Request) and type(task) in row.result_types
        )
        self._answered: set[str] = set()

    async def poll_until_ended(self) -> Any:
        """How the task stands once it has ended."""
        stands, each = self._task, RequestOptions(timeout=self.options.timeout, meta=self.options.meta)
        while stands.status in ("working", "input_required"):
            await asyncio.sleep(_poll_interval(stands.poll_interval_ms))
            stands = await self._send_request("get_task", {}, each)
            if stands.status == "input_required":
                await self._answer_input_requests(stands.input_requests or {}, each)
        return stands

    async def cancel(self) -> None:
        """Say that nobody waits any more."""
        with suppress(MCPError):
            await self._send_request("cancel_task", {}, _CANCEL_OPTIONS)

    def result(self, task: Any) -> Any:
        """What the task has come to."""
        what = f"{self.row.method!r}: its task"
        if task.status == "failed" and task.error is not None:
            error = task.error.model_dump()
            raise RemoteJSONRPCError(error["code"], error["message"], error.get("data"))
        if task.status != "completed":
            raise RemoteError(f"{what} is {task.status}: {task.status_message or 'nobody says why'}")
        try:
            return self.row.read_result(task.result)
        except ValidationError as fault:
            raise InvalidResponseError(f"{what} came to what is no result: {format_validation_error(fault)}") from None

    async def _answer_input_requests(self, input_requests: dict[str, Any], options: RequestOptions) -> None:
        """Answer what is new, one after the other: a user has one dialog at a time."""
        client = self._client
        known: dict[str, InputRequest[Any]] = client._input_handlers()  # pyright: ignore[reportPrivateUsage]
        for key, question in input_requests.items():
            if key in self._answered:
                continue
            if question.method not in known:
                raise RemoteError(
                    f"{self.row.method!r}: its task asks for {question.method!r}, which nobody answers here"
                )
            said = await client._answer_input_request(
                known[question.method], question.params
            )  # pyright: ignore[reportPrivateUsage]
            self._answered.add(key)
            await self._send_request("update_task", {"inputResponses": {key: said.model_dump()}}, options)

    async def _send_request(self, name: str, params: dict[str, Any], options: RequestOptions) -> Any:
        said = {"taskId": self._task.task_id, **params}
        return await self._client._send_request(self._rows[name], said, options)  # pyright: ignore[reportPrivateUsage]


def _poll_interval(milliseconds: int | None) -> float:
    return _DEFAULT_INTERVAL if milliseconds is None else min(max(milliseconds / 1000, _MIN_INTERVAL), _MAX_INTERVAL)
