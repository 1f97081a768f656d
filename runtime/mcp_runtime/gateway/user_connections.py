"""The connections to one server of a gateway: those of all users, or with a token exchange those of each user."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ..app.context.request_details import received_request
from ..app.proxy.connections import Connections
from ..app.proxy.targets import ClientFactory
from ..errors import JSONRPCError
from ..http.session_places import SessionPlaces
from ..protocol.jsonrpc import INVALID_REQUEST
from ..server.context import ServerContext

if TYPE_CHECKING:
    from .token_exchange import TokenExchange, UserToken

_MAX_USERS: Final = 1000  # Tokens with connections of their own; those of the one that was silent longest are closed.


class UserConnections:
    """The connections to one server. With a token exchange, only tokens that allow the same have the same connections.

    What a token allows is told by its claims; of tokens without claims, each has its own connections.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Any], ClientFactory],
        exchange: TokenExchange | None,
        limit: int,
        places: SessionPlaces,
    ) -> None:
        """Create the connections; none is open.

        Args:
            name: The name of the server, for messages.
            make: Returns what makes clients, with an authorization of httpx2 or None.
            exchange: Gets tokens for the users; None if the credentials of the settings are those of all users.
            limit: The number of connections of requests without a session: of all users, or with an exchange of each.
            places: Those that the sessions of all users have.
        """
        self._name = name
        self._make = make
        self._exchange = exchange
        self._limit = limit
        self._places = places
        self._shared = Connections(name, make(None), limit, places)
        self._users: OrderedDict[str, tuple[UserToken, Connections]] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def key(self, ctx: ServerContext) -> str:
        """Return the key of the connections of a request: what its token allows; empty if all users have the same."""
        token = None if self._exchange is None else self._token(ctx)
        return "" if token is None else _key_of(ctx.user, token)

    def _token(self, ctx: ServerContext) -> str | None:
        """Return the access token of the user of a request; None if it has no user or no token."""
        request = received_request(ctx)
        return None if ctx.user is None or request is None else bearer_token(request.headers)

    def may_serve(self, ctx: ServerContext) -> bool:
        """Return True unless a request has no user, and the server needs one."""
        return self._exchange is None or ctx.user is not None

    def of(self, ctx: ServerContext) -> Connections:
        """Return the connections for a request. Raises JSONRPCError if it has no token to exchange."""
        if self._exchange is None:
            return self._shared
        from .token_exchange import UserToken

        user, token = ctx.user, self._token(ctx)
        if user is None or token is None:
            raise JSONRPCError(INVALID_REQUEST, f"{self._name!r} needs the access token of a user")
        key = _key_of(user, token)
        entry = self._users.get(key)
        if entry is None:
            own = UserToken(self._exchange)
            entry = self._users[key] = own, Connections(self._name, self._make(own), self._limit, self._places)
        self._users.move_to_end(key)
        entry[0].use(token, user.expires_at)  # It was verified: only then a request has a user.
        if len(self._users) > _MAX_USERS:
            task = asyncio.ensure_future(self._users.popitem(last=False)[1][1].close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return entry[1]

    def is_opening(self, ctx: ServerContext) -> bool:
        """Return True while the connection for a request opens."""
        return self.may_serve(ctx) and self.of(ctx).is_opening(ctx)

    def unwatch(self) -> None:
        """End the subscriptions to resources of all connections."""
        for connections in (self._shared, *(own for _, own in self._users.values())):
            connections.unwatch()

    async def close(self) -> None:
        """Close all connections."""
        connections = [self._shared, *(own for _, own in self._users.values())]
        self._users.clear()
        await asyncio.gather(*(item.close() for item in connections), *self._closing)


def bearer_token(headers: Any) -> str | None:
    """Return the access token of the headers of a request; None without one."""
    scheme, _, token = (headers.get("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "dpop") and token.strip() else None


def _key_of(user: Any, token: str) -> str:
    rights: str = user.rights_key
    return rights if user.claims else f"{rights} {sha256(token.encode()).hexdigest()}"
