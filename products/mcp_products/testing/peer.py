"""A scripted peer, for tests of clients and servers.

peer = ScriptedPeer()
async with asyncio.TaskGroup() as both:
    both.create_task(use(Client(peer.connect)))
    await peer.accept_initialize(REVISION, {"tools": {}})             # as a server: respond to `initialize`
    request = await peer.expect({"method": LIST_TOOLS.method})
    await peer.send({"id": request["id"], "result": {"tools": []}})
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.revision import Handshake, Revision
from mcp_runtime.session.interfaces import Transport
from mcp_runtime.transports.memory import MemoryTransport, linked_transports

_TIMEOUT: Final = 5.0  # Seconds to wait for an expected message.


class ScriptedPeer:
    """A peer that sends and expects single messages; `transport` is the transport for the side under test."""

    def __init__(self) -> None:
        transport, peer_transport = linked_transports(MemoryTransport)
        self.transport = transport
        self._peer_transport = peer_transport

    async def connect(self) -> Transport:
        """Return the transport; pass this method as the `connect` argument of the client under test."""
        return self.transport

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; `jsonrpc` is added."""
        self._peer_transport.send(to_json({"jsonrpc": "2.0", **message}))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes, which need not be a valid message."""
        self._peer_transport.send(data)

    async def expect(self, expected: Mapping[str, Any], timeout: float = _TIMEOUT) -> dict[str, Any]:
        """Return the next message. Raises AssertionError if it does not contain `expected`, or after `timeout`
        seconds."""
        try:
            async with asyncio.timeout(timeout):
                data = await self._peer_transport.receive()
        except TimeoutError:
            raise AssertionError(f"no message within {timeout:g} s; expected {dict(expected)}") from None
        message = None if data is None else from_json(data)
        if not is_object(message) or not _contains(message, dict(expected)):
            raise AssertionError(f"received {message}, expected {dict(expected)}")
        return message

    async def accept_initialize(self, revision: Revision, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """As a server: respond to the initialize request, expect the initialized notification, return the request."""
        lifecycle = revision.lifecycle
        assert isinstance(lifecycle, Handshake), f"{revision.id} has no handshake"
        request = await self.expect({"method": lifecycle.initialize_request.method})
        info = {"name": "scripted", "version": "1"}
        result = {"protocolVersion": revision.id, "capabilities": dict(capabilities), "serverInfo": info}
        await self.send({"id": request["id"], "result": result})
        await self.expect({"method": lifecycle.initialized.method})
        return request

    async def initialize(self, revision: Revision, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """As a client: send the initialize request and the initialized notification, return the response."""
        lifecycle = revision.lifecycle
        assert isinstance(lifecycle, Handshake), f"{revision.id} has no handshake"
        info = {"name": "scripted", "version": "1"}
        params = {"protocolVersion": revision.id, "capabilities": dict(capabilities), "clientInfo": info}
        await self.send({"id": "open", "method": lifecycle.initialize_request.method, "params": params})
        response = await self.expect({"id": "open"})
        await self.send({"method": lifecycle.initialized.method})
        return response

    async def close(self) -> None:
        """Close the connection."""
        await self._peer_transport.close()


def _contains(value: Any, expected: Any) -> bool:
    """Return True if a value contains the expected one: objects may have more properties, other values must be
    equal."""
    if is_object(expected):
        return is_object(value) and all(key in value and _contains(value[key], item) for key, item in expected.items())
    if is_list(expected):
        return is_list(value) and len(value) == len(expected) and all(map(_contains, value, expected))
    return type(value) is type(expected) and bool(value == expected)
