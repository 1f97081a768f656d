"""The target of a proxy as its provider sees it: requests and results are models, read once, here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from pydantic import ValidationError

from mcp_products.telemetry import relayed, trace_meta
from mcp_runtime.bindings.client import BaseClient
from mcp_runtime.endpoint.checks import RESULT_CHECKS, is_within_resource
from mcp_runtime.endpoint.requests import send_request
from mcp_runtime.errors import ConnectionClosedError, InvalidMessageError, JSONRPCError, MCPError, RemoteJSONRPCError
from mcp_runtime.protocol.connection import Connection
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from mcp_runtime.protocol.lifecycle import is_declared, parse_capability_path
from mcp_runtime.protocol.models import format_validation_error
from mcp_runtime.protocol.revision import LOG_LEVEL, META, Notification, Request, Revision, Sent
from mcp_runtime.protocol.uris import uri_key
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.service import NO_CACHE
from mcp_runtime.session.instruments import report_left_out
from mcp_runtime.session.interfaces import channel_of_connection
from mcp_runtime.session.requests import Progress, RequestOptions

from ..upstream.connection import UpstreamConnection
from ..upstream.raw import FROM_CLIENT
from ..upstream.subscriptions import WantedResources
from ..upstream.translation import LIFECYCLE_META, AnsweredError, without_reserved_meta
from .calls import ForwardedCall
from .client_side import client_capabilities, log_level

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.target")

_CAPABILITIES: Final = f"{META}clientCapabilities"
_OWN_META: Final = (META, "progressToken")
# The list of a result whose items are checked, and whether the result may lose all of them.
_LISTS: Final = {
    "list_resources": ("resources", True),
    "read_resource": ("contents", False),
    "get_prompt": ("messages", False),
}


class RelayedTarget:
    """The target at the other end of an upstream connection."""

    def __init__(self, connection: UpstreamConnection, revision: Revision, name: str, wants_logs: bool = True) -> None:
        """Create the target of an open connection, for an app of this protocol version; `wants_logs` is False if it is
        asked for no log messages, whatever the level of the client."""
        self.connection = connection
        self._wants_logs = wants_logs
        self._name = name
        self._reader = Connection(revision, "client", {})
        self._reader.report_left_out = report_left_out

    @property
    def is_stateless(self) -> bool:
        """True if the target uses a stateless protocol version."""
        return self.connection.translation.up_is_stateless

    async def forward(self, row: Request[Any], params: Any, call: ForwardedCall) -> Any:
        """Return the target's result of a request. Raises JSONRPCError."""
        connection, translation = self.connection, self.connection.translation
        if row.capability and not is_declared(connection.capabilities, parse_capability_path(row.capability)[1]):
            return empty_result(row, self._name)
        translation.require(FROM_CLIENT, row.method)
        fields: dict[str, Any] = params.model_dump()
        result = translation.result(FROM_CLIENT, row.method, await self._send(row.method, fields, call))
        try:
            return without_wrong_parts(row.name, self._reader.read_result(row, result, fields), self._name)
        except ValidationError as error:
            reason = f"{row.method!r}: invalid response: {format_validation_error(error)}"
            raise JSONRPCError(INTERNAL_ERROR, f"{connection.upstream.names.failed}: {reason}") from error

    async def send_own(self, kind: type[Sent], params: dict[str, Any], call: ForwardedCall) -> dict[str, Any]:
        """Return the target's result of a method that the protocol does not have; of a notification, nothing.

        Raises JSONRPCError.
        """
        if kind is Notification:
            fields = without_reserved_meta(params, LIFECYCLE_META)
            await self.connection.notify_upstream(call.method, fields)
            return {}
        result: dict[str, Any] = await self._send(call.method, params, call)
        return result

    async def _send(self, method: str, fields: dict[str, Any], call: ForwardedCall) -> Any:
        """Return the result of a request as the target has sent it."""
        connection, ctx = self.connection, call.ctx
        translation, upstream = connection.translation, connection.upstream
        meta: dict[str, Any] = fields.get("_meta") or {}
        own = {key: value for key, value in meta.items() if not key.startswith(META)}
        level = log_level(ctx) if self._wants_logs and "logging" in connection.capabilities else None
        if self.is_stateless:
            own |= {**upstream.request_meta, _CAPABILITIES: client_capabilities(ctx)}
            own |= {} if level is None else {LOG_LEVEL: level}
        else:
            await connection.level.use(level)
        provided = {"client_capabilities": upstream.client_capabilities}

        async def send() -> Any:
            meta = own | trace_meta()  # The server's span is below that of this request, not beside it.
            sent = (
                {**fields, "_meta": meta} if meta else {key: value for key, value in fields.items() if key != "_meta"}
            )
            return await connection.send(call, translation.params(FROM_CLIENT, method, sent, provided))

        return await relayed(method, fields, translation.up.id, send)

    async def set_level(self, level: str) -> None:
        """Set the minimum level of log messages."""
        await self.connection.level.set(level)

    async def roots_changed(self) -> None:
        """Notify the target that the roots of the client have changed."""
        rows = self.connection.translation.up.table(FROM_CLIENT).values()
        row = next((row for row in rows if row.name == "on_roots_list_changed"), None)
        if isinstance(row, Notification):
            await self.connection.notify_upstream(row.method, {})


class ConnectedTarget:
    """A client that its program has connected: it has its own handlers, cache and subscriptions, and all share it."""

    is_stateless = True
    """Its requests interrupt no call: the client answers them itself."""

    def __init__(self, client: BaseClient, name: str) -> None:
        """Create the target of an open client."""
        self.client = client
        self._name = name

    @property
    def is_open(self) -> bool:
        """True while the client is connected."""
        session = self.client.parts.session
        channel: Any = None if session is None else channel_of_connection(session)
        return channel is not None and not channel.ended

    async def forward(self, row: Request[Any], params: Any, call: ForwardedCall) -> Any:
        """Return the target's result of a request. Raises JSONRPCError."""
        capabilities = self.client.server.model_dump().get("capabilities", {})
        if row.capability and not is_declared(capabilities, parse_capability_path(row.capability)[1]):
            return empty_result(row, self._name)
        fields: dict[str, Any] = params.model_dump()
        meta: dict[str, Any] = fields.get("_meta") or {}
        current = trace_meta()  # The client adds it, with its own span.
        kept = {name: value for name, value in meta.items() if not name.startswith(_OWN_META)}
        fields["_meta"] = {name: value for name, value in kept.items() if name not in current}
        try:
            result = await send_request(self.client, row, fields, _options(call))
        except MCPError as error:
            raise failure(self._name, error) from error
        return without_wrong_parts(row.name, result, self._name)

    async def send_own(self, kind: type[Sent], params: dict[str, Any], call: ForwardedCall) -> dict[str, Any]:
        """Return the target's result of a method that the protocol does not have; of a notification, nothing.

        Raises JSONRPCError.
        """
        fields = without_reserved_meta(params, (*LIFECYCLE_META, "progressToken"))
        try:
            if kind is Notification:
                await self.client.notify_own(call.method, fields)
                return {}
            return await self.client.request_own(call.method, fields, _options(call))
        except MCPError as error:
            raise failure(self._name, error) from error


def _options(call: ForwardedCall) -> RequestOptions:
    """Return the options of a request of a connected client: its progress goes to the client that asked for it."""

    async def on_progress(progress: Progress) -> None:
        await call.ctx.progress(progress.progress, progress.total, progress.message)

    return RequestOptions(timeout=None, on_progress=on_progress if "progressToken" in call.ctx.meta else None)


def failure(proxy: str, error: MCPError) -> JSONRPCError:
    """Return the error of a request for that of a connected client."""
    if isinstance(error, RemoteJSONRPCError):
        return AnsweredError(error.code, error.message, error.data)
    reason = error.reason if isinstance(error, ConnectionClosedError) else str(error)
    return JSONRPCError(INTERNAL_ERROR, f"the target of the proxy {proxy!r}: {reason}")


TargetConnection = RelayedTarget | ConnectedTarget


def empty_result(row: Request[Any], proxy: str) -> Any:
    """Return a result without items for a target that does not have this kind. Raises JSONRPCError for other
    requests."""
    name = row.name.partition("list_")[2]
    if name:
        wire_name = "resourceTemplates" if name == "resource_templates" else name
        return row.read_result({**NO_CACHE, wire_name: []})
    if row.name == "complete":
        return row.read_result({"resultType": NO_CACHE["resultType"], "completion": {"values": []}})
    kind = row.capability.rpartition(".")[2]
    raise JSONRPCError(INVALID_REQUEST, f"the target of the proxy {proxy!r} has no {kind}")


# ---- results of which a part cannot be sent on -----------------------------------------------------------------------

# That part is left out, with a warning, and the rest arrives. A server checks what its own functions return, and
# refuses a result as a whole, so that its author sees the mistake. A proxy has only the results of others.


def without_wrong_parts(name: str, result: Any, target: str) -> Any:
    """Return a result of a target without the items that cannot be sent.

    Args:
        name: The name of the handler, such as "read_resource".
        result: The result, which is changed.
        target: The name of the target, for messages.

    Raises JSONRPCError if none of the content can be sent.
    """
    items_name, may_be_empty = _LISTS.get(name, ("", True))
    items: list[Any] = getattr(result, items_name, None) or []
    kept, reason = list[Any](), ""
    for number, item in enumerate(items):
        _name_type_of_embedded(item)
        try:
            RESULT_CHECKS[name](None, SimpleNamespace(**{items_name: [item]}))
        except InvalidMessageError as error:
            reason = f"{items_name}[{number}]: {error}"
            _log.warning("%r of %r: left out, because it cannot be sent: %s", name, target, reason)
        else:
            kept.append(item)
    if items and not kept and not may_be_empty:
        raise JSONRPCError(INTERNAL_ERROR, f"the result of the target {target!r} cannot be sent: {reason}")
    if len(kept) < len(items):
        setattr(result, items_name, kept)
    return result


def _name_type_of_embedded(message: Any) -> None:
    """Set the MIME type of a resource in a prompt: prompts need it, and servers of others leave it out."""
    resource = getattr(getattr(message, "content", None), "resource", None)
    if resource is not None and resource.mime_type is None:
        resource.mime_type = "text/plain" if getattr(resource, "text", None) is not None else "application/octet-stream"


# ---- subscriptions ---------------------------------------------------------------------------------------------------


class Watches:
    """The resources of a target that the clients of one session, or all without one, have subscribed to.

    The target has its own URIs; clients have them with the prefixes of the proxy.
    """

    def __init__(self, add: Callable[[str], Any], remove: Callable[[str], Any]) -> None:
        """Create watches of nothing; `add` and `remove` subscribe at the target, by its URIs."""
        self._add = add
        self._remove = remove
        # Of each URI of clients: it, that of the target, and who watches it.
        self._inside: dict[str, tuple[str, str, list[ServerContext]]] = {}

    async def add(self, inside: str, outside: str, ctx: ServerContext) -> None:
        """Watch a resource once more, for a request. Raises JSONRPCError if the target refuses that."""
        await self._add(inside)
        self._inside.setdefault(uri_key(outside), (outside, inside, []))[2].append(ctx)

    async def remove(self, outside: str) -> None:
        """Watch a resource once less."""
        key = uri_key(outside)
        if (entry := self._inside.get(key)) is None:
            return
        entry[2].pop()
        if not entry[2]:
            del self._inside[key]
        await self._remove(entry[1])

    @property
    def is_any(self) -> bool:
        """True while a resource is watched."""
        return bool(self._inside)

    def all(self) -> list[tuple[ServerContext, str, str]]:
        """Return who watches what: by the URI of the target, and by the one that clients have for it."""
        return [(ctx, inside, outside) for outside, inside, contexts in self._inside.values() for ctx in contexts]

    def forget(self, outside: str) -> None:
        """Watch a resource no more, which the target refuses."""
        self._inside.pop(uri_key(outside), None)

    def clear(self) -> None:
        """Watch nothing any more."""
        self._inside.clear()

    def outside_of(self, changed: str) -> list[str]:
        """Return the URIs that clients have for what has changed: a watched resource, or a part of one."""
        found = (
            _changed_outside(changed, inside, outside)
            for outside, inside, _ in self._inside.values()
            if is_within_resource(changed, inside)
        )
        return list(dict.fromkeys(found))  # A client may watch a resource and a part of it.


def _changed_outside(changed: str, uri: str, outside: str) -> str:
    """Return the URI that a client has for what has changed: the resource, or a part of it, which has its own URI."""
    if changed.startswith(uri):
        return outside + changed.removeprefix(uri)
    changed_key, key = uri_key(changed), uri_key(uri)
    return outside + changed_key.removeprefix(key) if changed_key.startswith(key) else changed


class ListenedResources:
    """The subscriptions of a client that its program has connected."""

    def __init__(self, client: BaseClient, name: str, changed: Callable[[str], Any]) -> None:
        """Create subscriptions to nothing; `changed` is called with the URI of what has changed."""
        self._client: Any = client
        self._name = name
        self._changed = changed
        self._open: dict[str, asyncio.Task[None]] = {}
        self.resources = WantedResources(self._begin, self._end)

    async def close(self) -> None:
        """End all subscriptions."""
        await self.resources.close()
        for uri in list(self._open):
            await self._end(uri)

    async def _begin(self, uri: str) -> None:
        try:
            subscription = await self._client.listen(resource_updated=[uri]).__aenter__()
        except MCPError as error:
            raise failure(self._name, error) from error
        self._open[uri_key(uri)] = asyncio.create_task(self._pass_changes(subscription))
        if not subscription.acknowledged.get("resource_updated"):
            await self._end(uri)
            message = f"the target of the proxy {self._name!r} does not allow to subscribe to {uri!r}"
            raise JSONRPCError(INVALID_REQUEST, message)

    async def _end(self, uri: str) -> None:
        if (task := self._open.pop(uri_key(uri), None)) is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _pass_changes(self, subscription: Any) -> None:
        try:
            async for change in subscription:
                await self._changed(change.params.uri)
        finally:
            await subscription.close()
