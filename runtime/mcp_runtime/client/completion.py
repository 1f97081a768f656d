"""Completions for a text field of a client's user interface: debounced requests with a cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

_MAX_CACHED: Final = 256  # Completions.


class CompletionSession:
    """Completions for one text field of a user interface.

    See https://modelcontextprotocol.io/specification/draft/server/utilities/completion
    """

    def __init__(self, client: Any, debounce: float = 0.15) -> None:
        """Create a session for one text field.

        Args:
            client: A connected client of a protocol version that has completions.
            debounce: The seconds to wait for further input before a request is sent.
        """
        self._client = client
        self._debounce = debounce
        self._latest = 0
        self._cache: dict[tuple[str, ...], Any] = {}

    async def complete(self, ref: Any, argument: Any, context: Any = None) -> Any:
        """Return the completion of the server, or None if `complete` was called again meanwhile.

        The same arguments are requested once. Raises MCPError if the request fails.

        Args:
            ref: The reference to the prompt or the resource template.
            argument: The argument, with the text that the user has typed.
            context: The values of other arguments, in protocol versions that have them.
        """
        key = tuple(model.model_dump_json() for model in (ref, argument, context) if model is not None)
        self._latest += 1
        number = self._latest
        if key in self._cache:
            return self._cache[key]
        await asyncio.sleep(self._debounce)
        if number != self._latest:
            return None
        optional: Mapping[str, Any] = {} if context is None else {"context": context}
        completion = (await self._client.complete(ref=ref, argument=argument, **optional)).completion
        if len(self._cache) >= _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = completion
        return completion
