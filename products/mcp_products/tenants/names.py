"""How a request names its tenant: by its user, a claim of its token, a header of a trusted proxy, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final

from mcp_runtime.errors import LocalError
from mcp_runtime.http.clients import address_of
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.session.interfaces import AuthenticatedUser, Channel
from mcp_runtime.usage.keywords import checked, checked_fields
from mcp_runtime.usage.rules import NAME, Rule, are_texts


class TenantRequest:
    """The request that a function `by=` gets."""

    def __init__(self, channel: Channel, message: RequestReceived | NotificationReceived) -> None:
        """Show a message; the runtime does this."""
        self._channel = channel
        self._message = message

    @property
    def user(self) -> AuthenticatedUser | None:
        """The user of the access token; None over stdio, and without authentication."""
        auth = self._channel.auth
        return None if auth is None else auth.user

    @property
    def owner(self) -> str:
        """The user, or else what `owner=` of `asgi` returns, as text; empty without one."""
        auth = self._channel.auth
        return "" if auth is None else auth.owner_key

    @property
    def claims(self) -> Mapping[str, Any]:
        """The claims of the access token; empty without one."""
        return {} if self.user is None else self.user.claims

    @property
    def address(self) -> str | None:
        """The IP address of the client, or of the last proxy; None over stdio and in memory."""
        return address_of(self._channel.scope)

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, by names in lower case; empty over stdio. A client can send any of them."""
        scope = self._channel.scope or {}
        pairs: list[tuple[bytes, bytes]] = scope.get("headers", [])
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}

    @property
    def method(self) -> str:
        """The method of the message."""
        return self._message.row.method


TenantOf = Callable[[TenantRequest], str | None]


@checked_fields(rules={"name": NAME})
@dataclass(frozen=True, slots=True)
class Claim:
    """The tenant is what a claim of the access token has, such as "org_id". Raises LocalError for an empty name."""

    name: str

    def __call__(self, request: TenantRequest) -> str | None:
        """Return the tenant of a request; None without the claim."""
        value = request.claims.get(self.name)
        return None if value is None or value == "" else str(value)


class Header:
    """The tenant is what a header has that a trusted proxy sets, such as "X-Tenant"."""

    @checked(
        rules={"name": NAME, "proxies": Rule(are_texts, 'a list of networks, such as ["10.0.0.0/8"]')},
        example='Header("X-Tenant", proxies=["10.0.0.0/8"])',
    )
    def __init__(self, name: str, *, proxies: Sequence[str]) -> None:
        """Read a header of requests that come from these addresses; requests from others have no such header.

        Args:
            name: The name of the header, which the proxy removes from what clients send.
            proxies: The addresses or networks of the proxies, such as "10.0.0.0/8".

        Raises LocalError for what is no network, and without any.
        """
        self._name = name.lower()
        self._networks = [_network(text) for text in proxies]
        if not self._networks:
            raise LocalError('Header(): any client can send the header: write proxies=["10.0.0.0/8"], your proxies')

    def __call__(self, request: TenantRequest) -> str | None:
        """Return the tenant of a request; None without the header, and from another address."""
        value, address = request.headers.get(self._name), request.address
        if not value or address is None:
            return None
        try:
            host = ip_address(address.partition("%")[0])
        except ValueError:  # Such as that of a Unix socket.
            return None
        return value if any(host in network for network in self._networks) else None


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise LocalError(f'Header(): proxies has {text!r}, which is no network ({error}): write "10.0.0.0/8"') from None


def _user(request: TenantRequest) -> str | None:
    return request.owner or None


def _client(request: TenantRequest) -> str | None:
    return None if request.user is None else request.user.client_id


# The words for `by=`.
BY_WORD: Final[Mapping[str, TenantOf]] = {"user": _user, "client": _client}
_EXPECTED: Final = (
    '"user", "client" (the OAuth client), Claim("org_id"), Header("X-Tenant", proxies=[…]) or a function of the request'
)
BY: Final = Rule(lambda value: value in BY_WORD if isinstance(value, str) else callable(value), _EXPECTED)
