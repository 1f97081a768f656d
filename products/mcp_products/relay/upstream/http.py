"""The HTTP transport to an upstream: the bytes of results that nothing reads pass as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_runtime.protocol.framing import LARGE
from mcp_runtime.protocol.jsonrpc import Message, RequestMessage, ResultMessage, decode
from mcp_runtime.transports.http_client.streamable import StreamableHTTPClient
from mcp_runtime.transports.http_client.transport import HTTPClientTransport

from .raw import is_for_bytes, split_result


class UpstreamStreamableClient(StreamableHTTPClient):
    """The requests to an upstream, whose results pass as bytes where they are not read."""

    waits_for_bytes: Callable[[RequestMessage], bool]

    large = -1  # All messages are read below.

    async def _decode_large(self, data: bytes, request: RequestMessage) -> Message | list[Message]:
        row = self.revision.http.tool_schemas  # Lists of tools are read: they declare headers of requests.
        if (row is None or request.method != row.method) and self.waits_for_bytes(request):
            split = split_result(data)
            if split is not None and split[0] == request.id:
                return ResultMessage(request.id, split[1])
        return await super()._decode_large(data, request) if len(data) > LARGE else decode(data)


class UpstreamHTTPTransport(HTTPClientTransport):
    """The transport of a connection to an upstream over HTTP."""

    streamable_class = UpstreamStreamableClient

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Create a connection, with the arguments of `HTTPClientTransport`."""
        super().__init__(*arguments, **named)
        assert isinstance(self._streamable, UpstreamStreamableClient), "the class says so"
        self._streamable.waits_for_bytes = self._waits_for_bytes

    def _waits_for_bytes(self, request: RequestMessage) -> bool:
        """Return True if the result of a request need not be parsed."""
        return self._sink is not None and is_for_bytes(self._sink.connection, request.id)
