"""The limits of one list of a peer: a list that does not end costs a bounded time and a bounded memory."""

from __future__ import annotations

from typing import Any, Final

from ..errors import RemoteError
from ..usage.records import Record
from ..usage.shortened import quoted

LIST_SECONDS: Final = 10.0  # For all pages, with the time until the connection is open.
MAX_PAGES: Final = 1000
MAX_ITEMS: Final = 10_000
MAX_BYTES: Final = 16 * 1024 * 1024  # Of the pages as JSON; a message has a limit of its own.


class ListLimits(Record):
    """How long a list of a peer may take, and how many pages, items and bytes it may have."""

    __slots__ = ("seconds", "pages", "items", "size")

    def __init__(
        self, seconds: float = LIST_SECONDS, pages: int = MAX_PAGES, items: int = MAX_ITEMS, size: int = MAX_BYTES
    ) -> None:
        self.seconds, self.pages, self.items, self.size = seconds, pages, items, size


class ListedPages:
    """The pages of one list, as they come."""

    def __init__(self, limits: ListLimits) -> None:
        """Begin a list."""
        self._limits = limits
        self._cursors: set[str] = set()
        self._pages = 0
        self._items = 0
        self._size = 0

    def add(self, page: Any, items: int) -> str | None:
        """Count a page with its number of items, and return the cursor of the next one; None after the last.

        Raises RemoteError for a page too many, and for a cursor that was seen before.
        """
        limits, cursor = self._limits, page.next_cursor
        self._pages += 1
        self._items += items
        if self._items > limits.items:
            raise RemoteError(f"the list has more than {limits.items:,} items")
        if cursor is None:
            return None
        if cursor in self._cursors:
            raise RemoteError(f"the list repeats the cursor {quoted(cursor)}")
        if self._pages >= limits.pages:
            raise RemoteError(f"the list has more than {limits.pages:,} pages")
        self._size += len(page.model_dump_json())  # Most lists have one page, and nothing to count.
        if self._size > limits.size:
            raise RemoteError(f"the list has more than {limits.size:,} bytes")
        self._cursors.add(cursor)
        return str(cursor)
