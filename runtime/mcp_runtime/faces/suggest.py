"""What a user types goes in; suggestions come out, asked for when the user pauses, and once for the same text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = 256  # Answers.


class Suggestions:
    """Completions for one field of a client's user interface. `pause` is in seconds."""

    def __init__(self, client: Any, pause: float = 0.15) -> None:
        self._client = client
        self._pause = pause
        self._latest = 0
        self._known: dict[tuple[str, ...], Any] = {}

    async def ask(self, ref: Any, argument: Any, context: Any = None) -> Any:
        """The server's completion; None where the user has gone on typing meanwhile. Raises McpError."""
        key = tuple(each.model_dump_json() for each in (ref, argument, context) if each is not None)
        self._latest += 1
        mine = self._latest
        if key in self._known:
            return self._known[key]
        await asyncio.sleep(self._pause)
        if mine != self._latest:
            return None
        more: Mapping[str, Any] = {} if context is None else {"context": context}
        found = (await self._client.complete(ref=ref, argument=argument, **more)).completion
        if len(self._known) >= _KEPT:
            del self._known[next(iter(self._known))]
        self._known[key] = found
        return found
