"""How a handler ended goes in; out comes what its peer is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from .errors import InvalidMessage, Refusal
from .exchange import log
from .jsonrpc import INTERNAL_ERROR
from .peer import Asked, Peer, Told


def refused(peer: Peer, asked: Asked, fault: BaseException) -> tuple[bytes, int]:
    """The answer to a request whose handler failed, and its code: the other side is told what was said to be told to it,
    and nothing else."""
    if isinstance(fault, Refusal):
        code = peer.revision.sends_code(fault.code)
        if code != fault.code:
            log.warning("%r: %d is sent for the code %d, which is reserved", asked.row.method, code, fault.code)
        return peer.refuse(asked, code, fault.message, fault.data), code
    if isinstance(fault, InvalidMessage):
        log.error("%s", fault)
    else:
        log.error("the handler of %r failed", asked.row.method, exc_info=fault)
    return peer.refuse(asked, INTERNAL_ERROR, "internal error"), INTERNAL_ERROR


def is_cancelled(fault: BaseException) -> bool:
    """Whether it is the current task that was cancelled, and not something that its handler waited for."""
    task = asyncio.current_task() if isinstance(fault, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


async def hear(told: Told, heard: Awaitable[Any]) -> None:
    """Let a notification be handled; nobody waits for an answer."""
    try:
        await heard
    except Exception:
        log.exception("the handler of %r failed", told.row.method)
