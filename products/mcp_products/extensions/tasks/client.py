"""Wait for a task that a request was answered with."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from mcp_runtime.client.core import ClientCore
from mcp_runtime.session.requests import RequestOptions


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
