"""Tenants: which of them a request is for, and what it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final, Literal, NamedTuple

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.http.clients import address_of
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.protocol.models import is_object
from mcp_runtime.server.limits import client_name
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.session.interfaces import AuthenticatedUser, Channel, Dispatcher
from mcp_runtime.usage.keywords import checked, checked_fields
from mcp_runtime.usage.rules import NAME, Rule, are_texts, is_number

from .accounts import Accounts, Tenant
from .dispatcher import TenantDispatcher
from .limits import Limits
from .usage import OnUsage

_COST: Final = "cost"


# How a request names its tenant: by its user, a claim of its token, a header of a trusted proxy, or a function.


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

        Raises LocalError for what is not a network, and without any.
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
        raise LocalError(f'Header(): proxies: {text!r} is not a network ({error}): write "10.0.0.0/8"') from None


def _user(request: TenantRequest) -> str | None:
    return request.owner or None


def _client(request: TenantRequest) -> str | None:
    return None if request.user is None else request.user.client_id


# The words for `by=`.
_BY_WORD: Final[Mapping[str, TenantOf]] = {"user": _user, "client": _client}
_EXPECTED: Final = (
    '"user", "client" (the OAuth client), Claim("org_id"), Header("X-Tenant", proxies=[…]) or a function of the request'
)
_BY: Final = Rule(lambda value: value in _BY_WORD if isinstance(value, str) else callable(value), _EXPECTED)


# ---- what a tenant may use -------------------------------------------------------------------------------------------


class _Where(NamedTuple):
    """What `client_name` looks at."""

    channel: Channel
    connection_state: ServerDispatcher


def _are_costs(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    costs: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
    return all(isinstance(name, str) and is_number(cost) and cost >= 0 for name, cost in costs.items())


class Tenants:
    """Whom requests are for, and what each tenant may use: the value of `tenant=` of an app, a server or a gateway.

    A request above a limit gets an error whose data has the limit and the seconds to wait, `limit` and `retryAfter`;
    over HTTP it has the header `Retry-After`. Limits hold for all workers that share a store.
    """

    @checked(
        rules={
            "by": _BY,
            "limits": Rule(
                lambda value: isinstance(value, Limits) or callable(value),
                "Limits(calls=RateLimit(10, burst=50), at_once=20), or a function from the name of a tenant to Limits",
            ),
            "costs": Rule(_are_costs, 'a dict from names of tools to numbers, such as {"render": 5}').or_none(),
            "usage": Rule(
                lambda value: callable(value) or value == "opentelemetry", 'a function of a Usage, or "opentelemetry"'
            ).or_none(),
        },
        example='Tenants(by="user", limits=Limits(calls=RateLimit(10, burst=50)))',
    )
    def __init__(
        self,
        *,
        by: str | TenantOf,
        limits: Limits | Callable[[str], Limits],
        costs: Mapping[str, float] | None = None,
        usage: OnUsage | Literal["opentelemetry"] | None = None,
    ) -> None:
        """Create the tenants of a server.

        Args:
            by: Returns the tenant of a request as text: "user", "client", `Claim`, `Header`, or a function of the
                `TenantRequest`. Where it returns None, the client is a tenant of its own: its user, or else its
                address, or else its connection.
            limits: What each tenant may use, or a function from its name to that.
            costs: What calls of tools cost, by name. By default the `cost` in the `meta=` of the tool of an app, or 1.
            usage: A function that gets the `Usage` of each request when it has ended; or "opentelemetry", which counts
                them as metrics and emits a log record for each. Default None: nobody counts.

        Raises LocalError for a wrong value.
        """
        self._of: TenantOf = _BY_WORD[by] if isinstance(by, str) else by
        self._limits = limits
        self._costs = costs or {}
        self._accounts = Accounts()
        self._on_usage: OnUsage | None = usage if callable(usage) else None
        if usage == "opentelemetry":
            self._on_usage = load("mcp_products.tenants.otel").report

    def around_dispatch(self, dispatcher: Dispatcher) -> Dispatcher:
        """Return a dispatcher around another one that limits what each tenant uses. The runtime calls this."""
        assert isinstance(dispatcher, ServerDispatcher), "the runtime puts this around the dispatcher of a server"
        tasks: Any = dispatcher.origin.parts.tasks
        if tasks is not None:
            tasks.admit = self._admit_task
        return TenantDispatcher(self._accounts, dispatcher, self.tenant_of, self.cost_of, self._on_usage)

    def tenant_of(
        self, connection: ServerDispatcher, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> Tenant:
        """Return the tenant of a message."""
        name = self._of(TenantRequest(channel, message))
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LocalError(f"Tenants(): by= must return a string or None for a request; it has returned {name!r}")
        key = f"tenant {name}" if name is not None else f"client {client_name(_Where(channel, connection))}"
        limits = self._limits if isinstance(self._limits, Limits) else self._limits(name or key)
        if not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LocalError(f"Tenants(): the function limits= must return Limits(…); {limits!r} is not")
        origin = connection.origin
        return Tenant(name or key, limits, f"{origin.name}:{key}", origin.parts.store)

    def cost_of(self, connection: ServerDispatcher, tool: str) -> float:
        """Return the cost units of a call of a tool."""
        cost = self._costs.get(tool)
        if cost is not None:
            return cost
        app: Any = getattr(connection.origin, "app", None)
        try:
            meta: Any = None if app is None else app.registry.find_tool(tool)[1].definition.meta
        except LocalError:
            meta = None
        declared: Any = meta.get(_COST) if is_object(meta) else getattr(meta, _COST, None)
        return float(declared) if is_number(declared) and declared >= 0 else 1.0

    async def _admit_task(self, ctx: Any, id: str) -> None:
        """Count a task before it begins. Raises JSONRPCError if the tenant has too many that have not ended."""
        connection: ServerDispatcher = ctx.connection_state
        tenant = self.tenant_of(connection, ctx.channel, ctx.received)
        await self._accounts.admit_task(tenant, id, connection.origin.parts.tasks)
