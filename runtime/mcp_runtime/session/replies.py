"""Run the handlers of requests and notifications, in sessions and for stateless requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..errors import InvalidMessageError, JSONRPCError, UnwritableValueError
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from .interfaces import Channel

_log: Final = logging.getLogger(__name__)

Handle = Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]]


async def run_request_handler(
    connection: Connection, request: RequestReceived, handle: Handle, channel: Channel
) -> tuple[bytes, int] | None:
    """Return the encoded response to a request and its error code, 0 for a result; None if the client has cancelled the
    request meanwhile.

    An exception of the handler becomes an error response. Raises CancelledError only if the current task is cancelled.
    """
    try:
        result = await handle(channel, request)
        is_open = request.open
        response = connection.send_result(request, result), 0
    except (Exception, asyncio.CancelledError) as error:
        is_open = request.open
        response = error_response(connection, request, error)
    return response if is_open else None


async def run_notification_handler(notification: NotificationReceived, handle: Handle, channel: Channel) -> None:
    """Run the handler of a notification; log what it raises, because a notification has no response."""
    try:
        await handle(channel, notification)
    except Exception:
        _log.exception("the handler of %r failed", notification.row.method)


def error_response(connection: Connection, request: RequestReceived, error: BaseException) -> tuple[bytes, int]:
    """Return the error response to a request whose handler failed, and its code.

    Only a JSONRPCError is sent with its message, and an UnwritableValueError with its reason; other exceptions become
    "internal error" and are logged.
    Raises the CancelledError of a task that is cancelled.
    """
    if _is_task_cancelled(error):
        raise error
    if isinstance(error, JSONRPCError):
        code = connection.revision.error_code_to_send(error.code)
        if code != error.code:
            _log.warning("%r: %d is sent instead of the reserved code %d", request.row.method, code, error.code)
        return connection.send_error(request, code, error.message, error.data), code
    if isinstance(error, UnwritableValueError):  # Its message has places and types, and no values.
        _log.error("%s", error)
        return connection.send_error(request, INTERNAL_ERROR, f"internal error: {error}"), INTERNAL_ERROR
    if isinstance(error, InvalidMessageError):
        _log.error("%s", error)
    else:
        _log.error("the handler of %r failed", request.row.method, exc_info=error)
    return connection.send_error(request, INTERNAL_ERROR, "internal error"), INTERNAL_ERROR


def _is_task_cancelled(error: BaseException) -> bool:
    """Return True if the current task is cancelled, and not only something that it waited for."""
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0
