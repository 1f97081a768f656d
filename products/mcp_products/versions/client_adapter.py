"""Adapt a client that was written for one protocol version to another. Imported when a connection first needs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import BaseModel

from mcp_runtime.client.core import ClientContext, ClientCore
from mcp_runtime.endpoint.requests import send_request
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.protocol.revision import META, Handshake, Revision, Stateless
from mcp_runtime.server.service import NO_CACHE
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.session.session import Session

from .messages import ConvertingChannel, MessageConverter, convert_handlers


class ClientAdapter(ClientCore):
    """A client object in another protocol version than its own."""

    def __init__(self, client: ClientCore) -> None:
        """Adapt this client to the protocol version of the class."""
        self._client = client
        self._converter = MessageConverter(client.revision, self.revision, self._receives)
        self._adapt(client)
        self._subscriptions.to_handler = self._converter.convert_incoming

    def attach_to_client(self) -> None:
        """Give the open session to the client, which sends its messages through this adapter from then on."""
        client, session = self._client, self._require_channel()
        assert self._server is not None, "an open client has a server"
        adapted = AdaptedSession(self._converter, session, self)
        self._give_connection(client, adapted, convert_server_info(self._converter, self._server))

    def _prepare_handlers(self) -> None:
        """Do nothing: the handlers of the client are prepared."""

    def _overridden_handlers(self) -> Any:
        def make_context(
            channel: ConvertingChannel, message: RequestReceived | NotificationReceived, wire_context: Any
        ) -> ClientContext:
            return ClientContext(channel, message, self._client)

        return convert_handlers(self._converter, self._client.parts.handlers, make_context)

    def _declared_capabilities(self, message: Any, name: str) -> Any:
        return self._converter.wire_capabilities(self._client.capabilities)


class AdaptedSession(ConvertingChannel):
    """The session of a client in another protocol version: requests go through the adapter, which also answers the
    input requests of their results.

    Attributes:
        adapter: The adapter.
    """

    def __init__(self, converter: MessageConverter, session: Session, adapter: ClientAdapter) -> None:
        """Create the session of a client from that of its adapter."""
        super().__init__(converter, session)
        self._session = session
        self.adapter = adapter
        self.forks = session.forks

    async def _send_converted(self, wire_row: Any, params: Any, options: RequestOptions) -> Any:
        return await send_request(self.adapter, wire_row, params, options)

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()


def convert_server_info(converter: MessageConverter, server: BaseModel) -> BaseModel:
    """Return the server's result of `initialize` or of discovery as the client's protocol version has it."""
    fields = server.model_dump()
    handler_lifecycle, wire_lifecycle = converter.handler_revision.lifecycle, converter.wire_revision.lifecycle
    if isinstance(handler_lifecycle, Handshake) and isinstance(wire_lifecycle, Handshake):
        row = handler_lifecycle.initialize_request
        method = wire_lifecycle.initialize_request.method
        fields = converter.to_handler.result(row.direction, method, fields)
        return row.read_result({**fields, "protocolVersion": converter.handler_revision.id})
    if isinstance(handler_lifecycle, Stateless) and isinstance(wire_lifecycle, Stateless):
        discover = wire_lifecycle.discover
        return handler_lifecycle.discover.read_result(
            converter.to_handler.result(discover.direction, discover.method, fields)
        )
    shared: dict[str, Any] = {"capabilities": converter.handler_capabilities(fields["capabilities"])}
    if fields.get("instructions") is not None:
        shared["instructions"] = fields["instructions"]
    if isinstance(handler_lifecycle, Handshake):
        own_meta: dict[str, Any] = fields.get("_meta") or {}
        server_info = own_meta.get(f"{META}serverInfo", {"name": "", "version": ""})
        return handler_lifecycle.initialize_request.read_result(
            {**shared, "protocolVersion": converter.handler_revision.id, "serverInfo": server_info}
        )
    meta = {f"{META}serverInfo": fields["serverInfo"]}
    return handler_lifecycle.discover.read_result(
        {**shared, **NO_CACHE, "supportedVersions": [converter.wire_revision.id], "_meta": meta}
    )


@cache
def client_adapter_class(revision: Revision) -> Callable[[ClientCore], ClientCore]:
    """Return the class that adapts clients to this protocol version."""
    return type("ClientAdapter", (ClientAdapter,), {"revision": revision})
