"""A folder for the time of a command, which is deleted at its end, also if that is SIGTERM."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Yield a new folder, and delete it at the end."""
    with _ended_in_order(), tempfile.TemporaryDirectory(prefix="mcp-codegen-") as name:
        yield Path(name)


@contextmanager
def _ended_in_order() -> Generator[None]:
    """Let SIGTERM, which otherwise ends a process at once, first end what the caller has begun."""
    if threading.current_thread() is not threading.main_thread():  # Others cannot handle signals.
        yield
        return
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if received:
            signal.raise_signal(received[0])
