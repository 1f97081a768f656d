"""How a handler ended goes in; out comes what its peer is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from ..errors import InvalidMessageError, JSONRPCError
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from .pending import log


def error_response(connection: Connection, request: RequestReceived, error: BaseException) -> tuple[bytes, int]:
    """The answer to a request whose handler failed, and its code: the other side is told what was said to be told to it,
    and nothing else."""
    if isinstance(error, JSONRPCError):
        code = connection.revision.error_code_to_send(error.code)
        if code != error.code:
            log.warning("%r: %d is sent for the code %d, which is reserved", request.row.method, code, error.code)
        return connection.send_error(request, code, error.message, error.data), code
    if isinstance(error, InvalidMessageError):
        log.error("%s", error)
    else:
        log.error("the handler of %r failed", request.row.method, exc_info=error)
    return connection.send_error(request, INTERNAL_ERROR, "internal error"), INTERNAL_ERROR


def is_cancelled(error: BaseException) -> bool:
    """Whether it is the current task that was cancelled, and not something that its handler waited for."""
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


async def run_notification_handler(notification: NotificationReceived, handler: Awaitable[Any]) -> None:
    """Let a notification be handled; nobody waits for an answer."""
    try:
        await handler
    except Exception:
        log.exception("the handler of %r failed", notification.row.method)
