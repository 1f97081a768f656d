"""The limits of one list of a server: a list that does not end costs a bounded time and a bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mcp_runtime.errors import RemoteError
from mcp_runtime.protocol.result_types import FollowedPages

LIST_SECONDS: Final = 10.0  # For all pages, with the time until the connection is open.
MAX_PAGES: Final = 1000
MAX_ITEMS: Final = 10_000
MAX_BYTES: Final = 16 * 1024 * 1024  # Of the pages as JSON; a message has a limit of its own.


@dataclass(slots=True)
class ListLimits:
    """How long a list of a peer may take, and how many pages, items and bytes it may have."""

    seconds: float = LIST_SECONDS
    pages: int = MAX_PAGES
    items: int = MAX_ITEMS
    size: int = MAX_BYTES


class ListedPages(FollowedPages):
    """The pages of one list, as they come, with a limit of their bytes as well."""

    def __init__(self, method: str, limits: ListLimits) -> None:
        """Begin a list."""
        super().__init__(method, limits.pages, limits.items)
        self._max_size = limits.size
        self._size = 0

    def add_page(self, page: Any, items: int) -> str | None:
        """Count a page with its number of items, and return the cursor of the next one; None after the last.

        Raises RemoteError as `add` does, and for more bytes than the limit.
        """
        cursor = self.add(items, page.next_cursor)
        if cursor is not None:  # Most lists have one page, and nothing to count.
            self._size += len(page.model_dump_json())
            if self._size > self._max_size:
                raise RemoteError(f"{self._method!r}: the list has more than {self._max_size:,} bytes")
        return cursor
