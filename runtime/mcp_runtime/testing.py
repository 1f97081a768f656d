"""A script goes in, and plays the other side of a conversation: for tests of clients and servers.

peer = ScriptedPeer()
async with asyncio.TaskGroup() as both:
    both.create_task(use(Client(peer.connect)))
    await peer.accept_initialize(REVISION, {"tools": {}})             # as a server: answer the opening of a client
    asked = await peer.expect({"method": LIST_TOOLS.method})
    await peer.send({"id": asked["id"], "result": {"tools": []}})
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json, to_json

from .protocol.models import is_list, is_object
from .protocol.revision import Handshake, Revision
from .session.interfaces import Transport
from .transports.memory import MemoryTransport, linked_transports

__all__ = ["ScriptedPeer"]

_TIMEOUT: Final = 5.0  # Seconds to wait for what should be heard.


class ScriptedPeer:
    """One side of a conversation, said and heard message by message; `transport` is for the side that is tested."""

    def __init__(self) -> None:
        self.transport, self._own = linked_transports(MemoryTransport)

    async def connect(self) -> Transport:
        """What a client under test connects with."""
        return self.transport

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; `jsonrpc` is filled in."""
        self._own.send(to_json({"jsonrpc": "2.0", **message}))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes that may be no message at all."""
        self._own.send(data)

    async def expect(self, expected: Mapping[str, Any], timeout: float = _TIMEOUT) -> dict[str, Any]:
        """The next message, which has to contain what is expected. Raises AssertionError otherwise, or where none comes."""
        try:
            async with asyncio.timeout(timeout):
                data = await self._own.receive()
        except TimeoutError:
            raise AssertionError(f"nothing was heard within {timeout:g} s; expected {dict(expected)}") from None
        message = None if data is None else from_json(data)
        if not is_object(message) or not _contains(message, dict(expected)):
            raise AssertionError(f"heard {message}, expected {dict(expected)}")
        return message

    async def accept_initialize(self, revision: Revision, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """As a server: answer the opening request of a client, and hear that it is content. Gives that request."""
        lifecycle = revision.lifecycle
        assert isinstance(lifecycle, Handshake), f"{revision.id} has no handshake"
        asked = await self.expect({"method": lifecycle.initialize_request.method})
        info = {"name": "scripted", "version": "1"}
        answer = {"protocolVersion": revision.id, "capabilities": dict(capabilities), "serverInfo": info}
        await self.send({"id": asked["id"], "result": answer})
        await self.expect({"method": lifecycle.initialized.method})
        return asked

    async def initialize(self, revision: Revision, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """As a client: open the conversation with a server. Gives its answer."""
        lifecycle = revision.lifecycle
        assert isinstance(lifecycle, Handshake), f"{revision.id} has no handshake"
        info = {"name": "scripted", "version": "1"}
        offer = {"protocolVersion": revision.id, "capabilities": dict(capabilities), "clientInfo": info}
        await self.send({"id": "open", "method": lifecycle.initialize_request.method, "params": offer})
        answer = await self.expect({"id": "open"})
        await self.send({"method": lifecycle.initialized.method})
        return answer

    async def close(self) -> None:
        """End the conversation."""
        await self._own.close()


def _contains(value: Any, expected: Any) -> bool:
    """Objects may hold more than is expected; everything else is equal, with its type."""
    if is_object(expected):
        return is_object(value) and all(key in value and _contains(value[key], each) for key, each in expected.items())
    if is_list(expected):
        return is_list(value) and len(value) == len(expected) and all(map(_contains, value, expected))
    return type(value) is type(expected) and bool(value == expected)
