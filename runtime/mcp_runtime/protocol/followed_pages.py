"""The pages of a list that are read one after another: each cursor once, and not without end."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from ..errors import RemoteError

MAX_PAGES: Final = 1000
MAX_ITEMS: Final = 100_000
_MAX_SHOWN: Final = 100  # Characters of a cursor in an error.


class FollowedPages:
    """The pages of one list that have been read."""

    def __init__(self, method: str, max_pages: int = MAX_PAGES, max_items: int = MAX_ITEMS, remedy: str = "") -> None:
        """Begin a list.

        Args:
            method: The method of the requests, for errors.
            max_pages: The pages that are read.
            max_items: The items that are read.
            remedy: What the errors of the limits end with.
        """
        self._method = method
        self._max_pages = max_pages
        self._max_items = max_items
        self._remedy = remedy
        self._seen: set[bytes] = set()  # Digests, as a server chooses the length of cursors.
        self._pages = 0
        self._items = 0

    def add(self, items: int, next_cursor: str | None) -> str | None:
        """Count a page, and return the cursor of the next one; None after the last.

        Args:
            items: The number of items of the page.
            next_cursor: The cursor that the page names.

        Raises RemoteError for a cursor that was seen before, and for more pages or items than the limits.
        """
        self._pages += 1
        self._items += items
        if self._items > self._max_items:
            raise RemoteError(f"{self._method!r}: the list has more than {self._max_items:,} items{self._remedy}")
        if next_cursor is None:
            return None
        digest = sha256(next_cursor.encode("utf-8", "surrogatepass")).digest()
        if digest in self._seen:
            shown = f"{next_cursor[:_MAX_SHOWN]!r}{'…' if len(next_cursor) > _MAX_SHOWN else ''}"
            raise RemoteError(f"{self._method!r}: the server repeats the cursor {shown}, so that the list never ends")
        if self._pages >= self._max_pages:
            raise RemoteError(f"{self._method!r}: the list has more than {self._max_pages:,} pages{self._remedy}")
        self._seen.add(digest)
        return next_cursor
