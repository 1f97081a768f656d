"""What a user types goes in; suggestions come out: asked for when the user pauses, and once for the same text; and, on
the side of the server, ranked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

_MAX_CACHED: Final = 256  # Answers.


class CompletionSession:
    """Completions for one field of a client's user interface. `pause` is in seconds."""

    def __init__(self, client: Any, debounce: float = 0.15) -> None:
        self._client = client
        self._debounce = debounce
        self._latest = 0
        self._cache: dict[tuple[str, ...], Any] = {}

    async def complete(self, ref: Any, argument: Any, context: Any = None) -> Any:
        """The server's completion; None where the user has gone on typing meanwhile. Raises MCPError."""
        key = tuple(each.model_dump_json() for each in (ref, argument, context) if each is not None)
        self._latest += 1
        mine = self._latest
        if key in self._cache:
            return self._cache[key]
        await asyncio.sleep(self._debounce)
        if mine != self._latest:
            return None
        more: Mapping[str, Any] = {} if context is None else {"context": context}
        found = (await self._client.complete(ref=ref, argument=argument, **more)).completion
        if len(self._cache) >= _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = found
        return found
