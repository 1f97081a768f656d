"""A connection that was refused: its client gets to read the refusal."""

from __future__ import annotations

import asyncio
from typing import Final

_SECONDS: Final = 1.0  # For the request of the client to come.
_MAX_WAITING: Final = 100  # Connections that are closed later at the same time; others are closed at once.


class RefusedConnection(asyncio.Protocol):
    """Takes the place of the protocol of a connection that is refused, and closes it after what its client has sent.

    A connection that is closed with unread bytes is reset, and then the client may not get to read the response.
    """

    waiting = 0  # Refused connections of this process that are open.

    def __init__(self, transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        """Wait for bytes on a transport, on which the refusal was written, in place of its protocol."""
        self._transport = transport
        self._protocol = protocol
        type(self).waiting += 1
        transport.set_protocol(self)
        if transport.can_write_eof():
            transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, transport.close)

    @classmethod
    def close(cls, transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        """Close a connection on which a refusal was written."""
        if cls.waiting < _MAX_WAITING:
            cls(transport, protocol)
        else:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Close the connection: the client has sent its request."""
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol before, which counts its connections."""
        self._timer.cancel()
        type(self).waiting -= 1
        self._protocol.connection_lost(exc)
