"""The dispatcher of a connection whose requests count for tenants: the one place that every message passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived
from mcp_runtime.protocol.lifecycle import is_control_request
from mcp_runtime.protocol.revision import Handshake, Notification
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.session.interfaces import Channel, ChannelProxy
from mcp_runtime.session.requests import RequestOptions

from .accounts import Accounts, Tenant
from .usage import OnUsage, metered, size_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_runtime.protocol.revision import Request

TenantOfMessage = Callable[[ServerDispatcher, Channel, RequestReceived | NotificationReceived], Tenant]
CostOf = Callable[[ServerDispatcher, str], float]


class TenantDispatcher:
    """A dispatcher around another one, which admits each request for its tenant."""

    def __init__(
        self,
        accounts: Accounts,
        dispatcher: ServerDispatcher,
        tenant_of: TenantOfMessage,
        cost_of: CostOf,
        on_usage: OnUsage | None = None,
    ) -> None:
        """Count the requests of a connection.

        Args:
            accounts: What tenants use.
            dispatcher: The dispatcher of the server.
            tenant_of: Returns the tenant of a message.
            cost_of: Returns the cost units of a call of a tool.
            on_usage: Gets what each request has used. Default None: nobody does.
        """
        self._accounts = accounts
        self._tenant_of = tenant_of
        self._cost_of = cost_of
        self._on_usage = on_usage
        self._dispatcher = self.wrapped = dispatcher
        self._opening: Any = None  # The result of `initialize`, until its tenant has room for the session.
        self._session: Tenant | None = None  # Whose session this is.
        self._is_refused = False  # Whether there was no room for the session: its client may send more all the same.
        self._number = 0  # Of the last stream of a subscription.
        self.identify = dispatcher.identify
        self.attach = dispatcher.attach
        self.stamp_server_info = dispatcher.stamp_server_info

    @property
    def background_tasks(self) -> BackgroundTasks:
        """The asyncio tasks that outlive the request that started them."""
        return self._dispatcher.background_tasks

    def initialize(self, connection: Connection, request: RequestReceived) -> None:
        """Negotiate the protocol version; `handle` returns the result if there is room for a session."""
        self._opening = self._dispatcher.initialize(connection, request)

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message. Raises JSONRPCError if its tenant is at a limit."""
        if channel.scope is None and self._dispatcher.is_shared:
            return await self._dispatcher.handle(channel, message)  # The endpoint itself asks, such as for the tools.
        tenant = self._tenant_of(self._dispatcher, channel, message)
        if isinstance(message, NotificationReceived):
            if tenant.limits.bytes is not None:  # It gets no answer: the next request is refused for it.
                await self._accounts.end(tenant, {"bytes": size_of(message.params)}, False)
            return await self._dispatcher.handle(channel, message)
        if self._on_usage is None:
            return await self._admit(tenant, channel, message)
        cost = self._cost_of(self._dispatcher, message.params.name) if message.row.name == "call_tool" else 0.0
        handle = partial(self._admit, tenant, channel, message)
        return await metered(self._on_usage, tenant.name, message, cost, handle)

    async def _admit(self, tenant: Tenant, channel: Channel, message: RequestReceived) -> Any:
        """Return the result of a request. Raises JSONRPCError if its tenant is at a limit."""
        row, revision = message.row, self._dispatcher.parts.revision
        lifecycle = revision.lifecycle
        if isinstance(lifecycle, Handshake):
            if row.method == lifecycle.initialize_request.method:
                return await self._open(tenant, channel, message)
            await self._goes_on(tenant)
        if is_control_request(revision, row):
            return await self._dispatcher.handle(channel, message)
        rates = {"calls": 1.0}
        if tenant.limits.bytes is not None:
            rates["bytes"] = float(size_of(message.params))
            channel = CountedChannel(channel, self._accounts, tenant)
        if tenant.limits.cost is not None and row.name == "call_tool":
            rates["cost"] = self._cost_of(self._dispatcher, message.params.name)
        listens = not isinstance(lifecycle, Handshake) and row.method == lifecycle.listen.method
        await self._accounts.begin(tenant, rates, not listens)
        sent = 0
        try:
            if listens:
                result = await self._listen(tenant, channel, message)
            elif isinstance(lifecycle, Handshake) and lifecycle.subscribe and row.method == lifecycle.subscribe.method:
                result = await self._subscribe(tenant, channel, message)
            else:
                result = await self._dispatcher.handle(channel, message)
                if isinstance(lifecycle, Handshake) and self._dispatcher.subscribed is not None:
                    await self._subscribed(tenant)
            if tenant.limits.bytes is not None:
                sent = size_of(result)
            return result
        finally:
            await self._accounts.end(tenant, {"bytes": sent} if sent else {}, not listens)

    def detach(self) -> None:
        """End the client's subscriptions, and give back the session."""
        self._dispatcher.detach()
        if self._session is not None:
            tenant = self._session
            self._session = None
            for limit in ("sessions", "subscriptions"):
                self._accounts.drop_later(tenant, limit, self._holder)

    @property
    def _holder(self) -> str:
        return self._dispatcher.session_id or ""

    # ---- what is held for long --------------------------------------------------------------------------------------

    async def _open(self, tenant: Tenant, channel: Channel, message: RequestReceived) -> Any:
        """Return the result of `initialize`, for a session that the tenant has room for."""
        result = self._opening
        self._opening = None
        if not self._dispatcher.is_shared:
            await self._hold_session(tenant)
        return await self._dispatcher.handle(channel, message) if result is None else result

    async def _hold_session(self, tenant: Tenant) -> None:
        self._is_refused = True
        await self._accounts.hold(tenant, "sessions", self._holder)
        self._is_refused = False
        self._session = tenant

    async def _goes_on(self, tenant: Tenant) -> None:
        """Note whose session this is, where another worker has opened it. Raises JSONRPCError if it was refused."""
        if self._is_refused:
            await self._hold_session(tenant)
        elif self._session is None and not self._dispatcher.is_shared:
            self._session = tenant
            self._accounts.goes_on(tenant, "sessions", self._holder)

    async def _listen(self, tenant: Tenant, channel: Channel, message: RequestReceived) -> Any:
        """Return the result of a stream of subscriptions, which the tenant holds until its end."""
        self._number += 1
        holder = f"{self._accounts.worker}:{id(self._dispatcher)}:{self._number}"
        await self._accounts.hold(tenant, "subscriptions", holder)
        try:
            return await self._dispatcher.handle(channel, message)
        finally:
            await self._accounts.set_held(tenant, "subscriptions", holder, 0)

    async def _subscribe(self, tenant: Tenant, channel: Channel, message: RequestReceived) -> Any:
        """Return the result of a subscription to a resource, which the tenant holds until the session ends it."""
        subscribed = self._dispatcher.subscribed
        if subscribed is None or message.params.uri not in subscribed:
            await self._accounts.hold(tenant, "subscriptions", self._holder)
        try:
            return await self._dispatcher.handle(channel, message)
        finally:
            await self._subscribed(tenant)

    async def _subscribed(self, tenant: Tenant) -> None:
        """Let the session hold what it has subscribed to."""
        subscribed = self._dispatcher.subscribed
        number = 0 if subscribed is None else len([*subscribed.uris])
        await self._accounts.set_held(tenant, "subscriptions", self._holder, number)


class CountedChannel(ChannelProxy):
    """The channel of a request whose messages to the client count for its tenant."""

    __slots__ = ("_accounts", "_tenant")

    def __init__(self, channel: Channel, accounts: Accounts, tenant: Tenant) -> None:
        super().__init__(channel)
        self._accounts = accounts
        self._tenant = tenant

    async def send_request(
        self, row: Request[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel:
        """Send a request to the client, and count its params."""
        await self._accounts.end(self._tenant, {"bytes": size_of(params)}, False)
        return await self._channel.send_request(row, params, options)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification to the client, and count its params."""
        await self._accounts.end(self._tenant, {"bytes": size_of(params)}, False)
        await self._channel.send_notification(row, params)
