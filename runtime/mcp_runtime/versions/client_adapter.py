"""A client that was written for one protocol version, as one of another. Loaded when a connection first needs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from pydantic import BaseModel

from ..client.core import ClientContext, ClientCore
from ..protocol.capabilities import merge
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.revision import META, Handshake, Revision, Stateless
from ..server.dispatcher import NO_CACHE
from ..session.options import RequestOptions
from ..session.session import Session
from .converter import ConvertingChannel, MessageConverter


class ClientAdapter(ClientCore):
    """A client object as one of another revision; once a conversation has opened, the client goes on with it."""

    def __init__(self, inner: ClientCore) -> None:
        self._inner = inner
        self._converter = MessageConverter(inner.revision, self.revision, self._receives)
        super().__init__(
            inner._connect,  # pyright: ignore[reportPrivateUsage]
            name=inner.name,
            version=inner.version,
            connect_options=inner._connect_options,  # pyright: ignore[reportPrivateUsage]
            ping_interval=inner._ping_interval,  # pyright: ignore[reportPrivateUsage]
            cache=inner._cache or False,  # pyright: ignore[reportPrivateUsage]
        )
        self._file_roots = inner._file_roots  # pyright: ignore[reportPrivateUsage]
        self.subscriptions.to_handler = self._converter.convert_incoming

    def attach_to_client(self) -> None:
        """Let the client have the conversation: what it says is converted on the way out."""
        inner, session = self._inner, self._require_channel()
        inner._session = cast(
            Any, AdaptedSession(self._converter, session, self)
        )  # pyright: ignore[reportPrivateUsage]
        inner._runner, inner._background = self._runner, self._background  # pyright: ignore[reportPrivateUsage]
        inner.subscriptions = self.subscriptions
        self._runner, self._background = None, []
        if isinstance(inner.revision.lifecycle, Stateless):
            inner._request_meta = {  # pyright: ignore[reportPrivateUsage]
                f"{META}protocolVersion": inner.revision.id,
                f"{META}clientCapabilities": inner.capabilities,
            }
        assert self.server is not None
        inner.server = convert_server_info(self._converter, self.server)

    def _overridden_handlers(self) -> Any:
        def context(
            session: ConvertingChannel, message: RequestReceived | NotificationReceived, outer: Any
        ) -> ClientContext:
            return ClientContext(session, message, self._inner)

        return self._converter.handlers(self._inner._handlers, context)  # pyright: ignore[reportPrivateUsage]

    def _declared_capabilities(self, message: Any, name: str) -> Any:
        declared = self._converter.wire_capabilities(self._inner.capabilities)
        if (folders := self._inner._file_roots) is not None:  # pyright: ignore[reportPrivateUsage]
            merge(declared, folders.capabilities(self.revision))
        return declared


class AdaptedSession(ConvertingChannel):
    """The session of a conversation, as a client of another revision has it: what it asks is asked by its face, which
    also answers the questions that come instead of a result."""

    def __init__(self, converter: MessageConverter, session: Session, adapter: ClientAdapter) -> None:
        super().__init__(converter, session)
        self._session = session
        self._adapter = adapter

    async def _send_converted(self, wire_row: Any, params: Any, options: RequestOptions) -> Any:
        return await self._adapter._send_request(wire_row, params, options)  # pyright: ignore[reportPrivateUsage]

    async def close(self) -> None:
        """End the conversation."""
        await self._session.close()


def convert_server_info(converter: MessageConverter, server: BaseModel) -> BaseModel:
    """What a server said of itself when the conversation opened, as a client of the inner revision expects it."""
    said = server.model_dump()
    inner, outer = converter.handler_revision.lifecycle, converter.wire_revision.lifecycle
    if isinstance(inner, Handshake) and isinstance(outer, Handshake):
        row = inner.initialize_request
        said = converter.to_handler.result(row.direction, row.method, said)
        return row.read_result({**said, "protocolVersion": converter.handler_revision.id})
    told = {
        "capabilities": converter.handler_capabilities(said["capabilities"]),
        "instructions": said.get("instructions"),
    }
    known = {name: value for name, value in told.items() if value is not None}
    if isinstance(inner, Handshake):
        who = said.get("_meta", {}).get(f"{META}serverInfo", {"name": "", "version": ""})
        return inner.initialize_request.read_result(
            {**known, "protocolVersion": converter.handler_revision.id, "serverInfo": who}
        )
    who = {f"{META}serverInfo": said["serverInfo"]}
    more = {**NO_CACHE, "supportedVersions": [converter.wire_revision.id], "_meta": who}
    return inner.discover.read_result({**known, **more})


@cache
def client_adapter_class(revision: Revision) -> Callable[[ClientCore], ClientCore]:
    """What makes a client object one of this revision."""
    return type("ClientAdapter", (ClientAdapter,), {"revision": revision})
