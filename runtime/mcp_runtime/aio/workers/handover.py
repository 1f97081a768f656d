"""What a thread that reads and its event loop agree on; programs without such a thread import no more than this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

IDLE_SECONDS: Final = 0.002  # Seconds without a message after which the event loop goes on.

# What the event loop has to do before it goes on.
Handover = Callable[[], object]


def nothing() -> None:
    """Do nothing: the event loop just goes on."""
