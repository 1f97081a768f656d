"""Wait for the result of a task, and answer its input requests meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from mcp_runtime.client.core import ClientCore
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidResponseError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.protocol.models import format_validation_error
from mcp_runtime.protocol.revision import InputRequest, Request, Revision
from mcp_runtime.session.requests import DEFAULT_OPTIONS, Params, RequestOptions

_DEFAULT_INTERVAL: Final = 1.0  # Seconds between two polls, where the server suggests none.
_MIN_INTERVAL: Final = 0.01
_MAX_INTERVAL: Final = 60.0
_CANCEL_OPTIONS: Final = RequestOptions(timeout=5.0)


@dataclass(frozen=True, slots=True)
class TaskRequests:
    """The functions of a client that task polling uses.

    Args:
        revision: The protocol version of the client.
        send_request: Send a request and return its result.
        input_rows: The input requests that the client has a handler for, by method.
        answer_input_request: Return the response to an input request.
        read_result: Return the result of a request, as results of the connection are read. Raises ValidationError.
    """

    revision: Revision
    send_request: Callable[[Request[Any], Params, RequestOptions | None], Awaitable[Any]]
    input_rows: Mapping[str, InputRequest[Any]]
    answer_input_request: Callable[[InputRequest[Any], Any], Awaitable[Any]]
    read_result: Callable[[Request[Any], object], Any]


async def result_of_task(requests: TaskRequests, task: BaseModel, options: RequestOptions | None = None) -> Any:
    """Return the result of the request that was answered with this task.

    The task is polled at the interval that its server suggests, and each of its input requests is answered once. If the
    wait is cancelled or times out, the task is cancelled.

    Args:
        requests: The functions of the client.
        task: The task, as the server sent it.
        options: `timeout` limits each request in seconds, `max_timeout` the whole wait.

    Raises RemoteJSONRPCError if the task failed, RemoteError if it was cancelled or requires input that the client has
    no handler for, and RequestTimeoutError after `max_timeout` seconds.
    """
    polling = _TaskPolling(requests, task, options or DEFAULT_OPTIONS)
    max_timeout = polling.options.max_timeout
    try:
        async with asyncio.timeout(max_timeout):
            final_task = await polling.poll_until_ended()
    except RequestTimeoutError:  # Of one of the requests for the task.
        await polling.cancel()
        raise
    except TimeoutError:
        await polling.cancel()
        message = f"{polling.row.method!r}: its task has not ended within {max_timeout:g} s"
        raise RequestTimeoutError(message) from None
    except (ConnectionClosedError, RemoteJSONRPCError):
        raise
    except BaseException:
        await polling.cancel()
        raise
    return polling.result(final_task)


async def wait_for_task(client: ClientCore, task: BaseModel, options: RequestOptions | None = None) -> Any:
    """Return the result of the request that was answered with this task.

    Args:
        client: The client that sent the request.
        task: The `CreateTaskResult` that it got.
        options: `timeout` bounds each request for the task's status, `max_timeout` the whole wait.

    Raises RemoteJSONRPCError if the task failed, RemoteError if it was cancelled or requires input that the client has
    no handler for, and RequestTimeoutError. To stop waiting cancels the task.
    """
    return await client.parts.wait_for_task(task, options)


class _TaskPolling:
    def __init__(self, requests: TaskRequests, task: Any, options: RequestOptions) -> None:
        self.options = options
        self._requests = requests
        self._task = task
        rows = requests.revision.rows
        self._rows: dict[str, Any] = {row.name: row for row in rows}
        self.row: Request[Any] = next(
            row for row in rows if isinstance(row, Request) and type(task) in row.result_types
        )
        self._answered: set[str] = set()

    async def poll_until_ended(self) -> Any:
        """Return the task in its final status."""
        task, options = self._task, RequestOptions(timeout=self.options.timeout, meta=self.options.meta)
        while task.status in ("working", "input_required"):
            await asyncio.sleep(_poll_interval(task.poll_interval_ms))
            task = await self._send_request("get_task", {}, options)
            if task.status == "input_required":
                await self._answer_input_requests(task.input_requests or {}, options)
        return task

    async def cancel(self) -> None:
        """Cancel the task, because its result is not awaited any more; ignore errors."""
        with suppress(MCPError):
            await self._send_request("cancel_task", {}, _CANCEL_OPTIONS)

    def result(self, task: Any) -> Any:
        """Return the result of a task that has ended, or raise its error."""
        method = self.row.method
        if task.status == "failed" and task.error is not None:
            error = task.error.model_dump()
            raise RemoteJSONRPCError(error["code"], error["message"], error.get("data"))
        if task.status != "completed":
            raise RemoteError(
                f"{method!r}: its task is {task.status}: {task.status_message or 'without a status message'}"
            )
        try:
            return self._requests.read_result(self.row, task.result)
        except ValidationError as error:
            message = f"{method!r}: the result of its task is invalid: {format_validation_error(error)}"
            raise InvalidResponseError(message) from None

    async def _answer_input_requests(self, input_requests: Mapping[str, Any], options: RequestOptions) -> None:
        for key, input_request in input_requests.items():
            if key in self._answered:
                continue
            row = self._requests.input_rows.get(input_request.method)
            if row is None:
                raise RemoteError(
                    f"{self.row.method!r}: its task requires {input_request.method!r}, and this client has no handler"
                    " for it: override the client's method"
                )
            response = await self._requests.answer_input_request(row, input_request.params)
            self._answered.add(key)
            await self._send_request("update_task", {"inputResponses": {key: response.model_dump()}}, options)

    async def _send_request(self, name: str, params: dict[str, Any], options: RequestOptions) -> Any:
        return await self._requests.send_request(self._rows[name], {"taskId": self._task.task_id, **params}, options)


def _poll_interval(milliseconds: int | None) -> float:
    return _DEFAULT_INTERVAL if milliseconds is None else min(max(milliseconds / 1000, _MIN_INTERVAL), _MAX_INTERVAL)
