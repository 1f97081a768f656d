"""The progress of a call as a dependency: it counts, and sends progress notifications."""

from __future__ import annotations

from typing import Any

from ...endpoint.unawaited import Watched
from ...errors import LocalError
from ...server.context import ServerContext
from .markers import Dependency


class ProgressCounter(Watched, Dependency):
    """The progress of a call: write `progress: Progress = Progress()` as a parameter.

    Each call gets a counter of its own. A change sends a progress notification, if the client has requested progress.
    """

    def __init__(self, *, ctx: ServerContext | None = None) -> None:
        """Create the marker of a parameter; the runtime creates the counters of calls, with their context."""
        super().__init__(_counter_of)
        self._ctx = ctx
        self._current: float | None = None
        self._total: float | None = None
        self._message: str | None = None

    @property
    def current(self) -> float | None:
        """The progress so far; None before the first step."""
        return self._current

    @property
    def total(self) -> float:
        """The progress at the end; 1 until it is set."""
        return 1 if self._total is None else self._total

    @property
    def message(self) -> str | None:
        """The text for the user; None if there is none."""
        return self._message

    async def set_total(self, total: float) -> None:
        """Set the progress at the end. Raises LocalError if it is not above 0."""
        if total <= 0:
            raise LocalError(f"Progress.set_total({total!r}): the total must be above 0")
        self._total = total

    async def increment(self, amount: float = 1) -> None:
        """Add to the progress. Raises LocalError if the amount is not above 0."""
        if amount <= 0:
            raise LocalError(f"Progress.increment({amount!r}): progress must grow: pass an amount above 0")
        self._current = (self._current or 0) + amount
        await self._report(self._current)

    async def set_message(self, message: str | None) -> None:
        """Set the text for the user; clients get it with the next step."""
        self._message = message

    async def _report(self, progress: float) -> None:
        if self._ctx is None:
            raise LocalError("Progress() is a dependency: write it as the default of a tool's parameter")
        await self._ctx.progress(progress, self._total, self._message)


async def _counter_of(ctx: ServerContext) -> Any:
    return ProgressCounter(ctx=ctx)


Progress = ProgressCounter
