"""Run the handlers of requests and notifications, in sessions and for stateless requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..aio.process_exit import end_process
from ..errors import InvalidMessageError, JSONRPCError, MCPError, RemoteJSONRPCError, UnwritableValueError
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from .interfaces import Channel

_log: Final = logging.getLogger(__name__)

ENDS_PROCESS: Final = (SystemExit, KeyboardInterrupt)

Handle = Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]]


async def run_request_handler(
    connection: Connection, request: RequestReceived, handle: Handle, channel: Channel
) -> tuple[bytes, int] | None:
    """Return the encoded response to a request and its error code, 0 for a result; None if the client has cancelled the
    request meanwhile.

    An exception of the handler becomes an error response, also one that ends the process, which it does soon after.
    Raises CancelledError only if the current task is cancelled; CancelledRequestError if that was not for the request.
    """
    try:
        result = await handle(channel, request)
        is_open = request.open
        response = connection.send_result(request, result), 0
    except BaseException as error:  # Nobody waits for a response, whatever a handler raises.
        is_open = request.open
        if is_ended_by_others(error, request, getattr(channel, "is_cancelled", False)):
            raise
        response = error_response(connection, request, error)
        if is_cancelled(error):  # By the handler, or by what runs the task, which is told so.
            raise CancelledRequestError(response) from error
        if isinstance(error, ENDS_PROCESS):
            end_process(error)
    return response if is_open else None


async def run_notification_handler(notification: NotificationReceived, handle: Handle, channel: Channel) -> None:
    """Run the handler of a notification; log what it raises, because a notification has no response."""
    try:
        await handle(channel, notification)
    except Exception:
        _log.exception("the handler of %r failed", notification.row.method)


def error_response(connection: Connection, request: RequestReceived, error: BaseException) -> tuple[bytes, int]:
    """Return the error response to a request whose handler failed, and its code.

    Sent with their messages are a JSONRPCError, an UnwritableValueError, and what the client itself has refused; other
    exceptions become "internal error" and are logged.
    """
    if isinstance(error, MCPError) and error.is_refusal and not isinstance(error, JSONRPCError):
        error = _refusal(request, error)
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
    elif isinstance(error, ENDS_PROCESS):
        _log.error("the handler of %r ends the process: %r", request.row.method, error)
        text = f"the server ends: the handler of {request.row.method!r} has raised {type(error).__name__}"
        return connection.send_error(request, INTERNAL_ERROR, text), INTERNAL_ERROR
    else:
        _log.error("the handler of %r failed", request.row.method, exc_info=error)
    return connection.send_error(request, INTERNAL_ERROR, "internal error"), INTERNAL_ERROR


def _refusal(request: RequestReceived, error: MCPError) -> JSONRPCError:
    """Return the error that the client gets for its own refusal, or for what it cannot do."""
    _log.warning("the handler of %r needs what its client has refused: %s", request.row.method, error)
    if isinstance(error, RemoteJSONRPCError):
        return JSONRPCError(error.code, error.message, error.data)
    return JSONRPCError(INVALID_REQUEST, str(error))


class CancelledRequestError(asyncio.CancelledError):
    """Raised if the task of a request was cancelled, but not the request: `response` is the error response."""

    def __init__(self, response: tuple[bytes, int]) -> None:
        super().__init__()
        self.response = response


def is_cancelled(error: BaseException) -> bool:
    """Return True for the end of a task that is cancelled, and not only of something that it waited for."""
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


def is_ended_by_others(error: BaseException, request: RequestReceived, is_ended: bool) -> bool:
    """Return True for the end of a handler whose request is cancelled, or whose connection ends, and not for one that
    has cancelled its own task, or raised GeneratorExit.

    Args:
        error: What the handler has raised.
        request: Its request.
        is_ended: Whether this side has ended the handler.
    """
    if is_cancelled(error):
        return is_ended or not request.open
    return isinstance(error, GeneratorExit) and is_ended
