"""Clients of httpx, which programs of the last 1.x make, for the HTTP transport of this package, which has httpx2."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2

# Headers that the client of the program adds by itself, and that would stand twice.
_ADDED: Final = frozenset({"accept-encoding", "connection", "host", "user-agent", "content-length"})


class ForeignStream(httpx2.AsyncByteStream):
    """The body of a response of another library."""

    def __init__(self, response: Any) -> None:
        """Create the body."""
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._response.aiter_bytes():
                yield part
        except Exception as error:
            raise _as_httpx2(error) from error

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()


class ForeignTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of httpx2 with a client of httpx, so that its headers, hooks and authentication hold."""

    def __init__(self, client: Any) -> None:
        """Create the transport. The client is not closed with it."""
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the response with its body unread."""
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in _ADDED]
        try:
            built = self._client.build_request(
                request.method, str(request.url), headers=headers, content=await request.aread() or None
            )
            response = await self._client.send(built, stream=True)
        except Exception as error:
            raise _as_httpx2(error) from error
        kept = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        return httpx2.Response(response.status_code, headers=kept, stream=ForeignStream(response), request=request)


def _as_httpx2(error: Exception) -> Exception:
    """Return an error of httpx as that of httpx2 with the same name, and another error itself."""
    kind = getattr(httpx2, type(error).__name__, None)
    if type(error).__module__.partition(".")[0] != "httpx" or not isinstance(kind, type):
        return error
    return kind(str(error)) if issubclass(kind, httpx2.TransportError) else httpx2.TransportError(str(error))


def to_httpx2(client: Any) -> httpx2.AsyncClient:
    """Return a client of httpx2 that sends with a client of httpx, or the client itself if it is one of httpx2."""
    if isinstance(client, httpx2.AsyncClient):
        return client
    return httpx2.AsyncClient(transport=ForeignTransport(client))
