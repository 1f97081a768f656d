"""Tenants: which of them a request is for, and what it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.protocol.models import is_object
from mcp_runtime.server.limits import client_name
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.session.interfaces import Channel, Dispatcher
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import Rule, is_number

from .accounts import Accounts, Tenant
from .dispatcher import TenantDispatcher
from .limits import Limits, check_limits
from .names import BY, BY_WORD, TenantOf, TenantRequest
from .usage import OnUsage

_COST: Final = "cost"


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
            "by": BY,
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
        self._of: TenantOf = BY_WORD[by] if isinstance(by, str) else by
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
        limits = self._limits if isinstance(self._limits, Limits) else check_limits(self._limits(name or key))
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
