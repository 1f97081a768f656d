"""What a server was seen to list, by the client that listed it: only such names are passed to the server."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..server.context import ConnectionState

_MAX_USERS: Final = 10_000  # Users whose lists are kept; those of the one that was silent longest are dropped.
_MAX_LISTS: Final = 100  # Lists of one session, which may have many tokens after another.

_Key = tuple[str, str]  # What the credentials of a request are known by, and the kind.


class Listing(NamedTuple):
    """The ids of one kind that a server has listed, and when, by `time.monotonic`."""

    ids: frozenset[str]
    time: float


class Listings:
    """The last list of each kind for each session, and for each user without one. Equal ones are kept once."""

    def __init__(self) -> None:
        """Create listings; nothing was listed."""
        self._of_sessions: WeakKeyDictionary[ConnectionState, dict[_Key, Listing]] = WeakKeyDictionary()
        self._of_users: OrderedDict[str, dict[_Key, Listing]] = OrderedDict()
        self._same: WeakValueDictionary[int, frozenset[str]] = WeakValueDictionary()

    def get(self, ctx: Any, user: str, kind: str) -> Listing | None:
        """Return the last list of a kind for the client of a request; `user` is what its credentials are known by."""
        return self._lists(ctx, user).get((user, kind))

    def put(self, ctx: Any, user: str, kind: str, ids: frozenset[str]) -> Listing:
        """Keep a list."""
        same = self._same.get(hash(ids))
        if same is not None and same == ids:
            ids = same
        else:
            self._same[hash(ids)] = ids
        lists = self._lists(ctx, user)
        if len(lists) > _MAX_LISTS:
            lists.clear()
        listing = lists[user, kind] = Listing(ids, time.monotonic())
        return listing

    def _lists(self, ctx: Any, user: str) -> dict[_Key, Listing]:
        state: ConnectionState = ctx.connection_state
        if not state.is_shared:
            return self._of_sessions.setdefault(state, {})
        lists = self._of_users.setdefault(user, {})
        self._of_users.move_to_end(user)
        if len(self._of_users) > _MAX_USERS:
            self._of_users.popitem(last=False)
        return lists

    def all(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield all lists with their kinds."""
        for lists in (*self._of_sessions.values(), *self._of_users.values()):
            yield from ((kind, listing.ids) for (_, kind), listing in lists.items())

    def clear(self) -> None:
        """Forget all lists."""
        self._of_sessions.clear()
        self._of_users.clear()
