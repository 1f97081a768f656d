"""What programs of trio and of anyio do other than programs of asyncio."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def is_trio_task() -> bool:
    """Return True if a task of trio calls this function."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def shielded_from_scopes() -> AbstractContextManager[Any]:
    """Return a context manager for a task of asyncio, whose body the cancel scopes of anyio do not cancel.

    A cancelled scope of anyio cancels each wait of a task, not only the first one as asyncio does. Without
    this, a client would not wait for the end of its connection and of its server.
    """
    if "anyio._backends._asyncio" not in sys.modules:  # The program does not use anyio, or not on asyncio.
        return nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)
