"""Messages between a transport and a session, as the official SDK has them, and streams of them in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream

CloseSSEStreamCallback = Callable[[], Awaitable[None]]


@dataclass
class ClientMessageMetadata:
    """What a client tells its transport about a message."""

    resumption_token: str | None = None
    on_resumption_token_update: Callable[[str], Awaitable[None]] | None = None
    headers: dict[str, str] | None = None


@dataclass
class ServerMessageMetadata:
    """What the transport of a server tells about a message."""

    related_request_id: str | int | None = None
    request_context: Any = None
    close_sse_stream: CloseSSEStreamCallback | None = None
    close_standalone_sse_stream: CloseSSEStreamCallback | None = None
    on_request_unanswered: Callable[[], Awaitable[None]] | None = None
    can_send_request: bool = True


MessageMetadata = ClientMessageMetadata | ServerMessageMetadata | None


@dataclass
class SessionMessage:
    """A JSON-RPC message in a type of the SDK, with metadata of its transport."""

    message: Any
    metadata: MessageMetadata = None


ReadStream = ObjectReceiveStream[SessionMessage | Exception]
WriteStream = ObjectSendStream[SessionMessage]
MessageStream = tuple[ReadStream, WriteStream]


@asynccontextmanager
async def create_client_server_memory_streams() -> AsyncGenerator[tuple[MessageStream, MessageStream]]:
    """Yield the two streams of a client and the two of a server, which are connected to each other."""
    to_client, from_server = anyio.create_memory_object_stream[Any](1)
    to_server, from_client = anyio.create_memory_object_stream[Any](1)
    async with to_client, from_server, to_server, from_client:
        yield (from_server, to_server), (from_client, to_client)
