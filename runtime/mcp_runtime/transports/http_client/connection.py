"""An HTTP request goes in; its answer comes out, within limits: redirects, body and event sizes, deadlines."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin

from ...errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    LocalError,
)
from ...http.client_rules import REVISION_EXTENSION, NegotiatedRevision
from ...http.headers import EVENT_STREAM, media_type
from ...http.urls import may_follow_redirect, origin, redact_url
from ...protocol.framing import MAX_MESSAGE_BYTES
from ...protocol.sse import OversizedEventError, ServerSentEvent, SSEDecoder

try:
    import httpx2
except ImportError:
    raise LocalError("a client over HTTP needs httpx2: pip install 'mcp-codegen[http]'") from None

_MAX_REDIRECTS: Final = 5
_ERROR_LIMIT: Final = 64 * 1024  # Bytes of an error's body that are read.
_FORWARDED_HEADERS: Final = 20  # Idle connections kept for the next request.


@dataclass(frozen=True, slots=True)
class HTTPOptions:
    """How a server is reached. `timeout`: seconds to connect, and to be told that a notification was accepted; the
    answer to a request is waited for as its call says. `limit`: bytes of one message. `client`: used as it is, instead
    of one of our own, and not closed."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    auth: httpx2.Auth | None = None
    proxy: str | None = None
    tls: ssl.SSLContext | None = None
    timeout: float = 30.0
    max_bytes: int = MAX_MESSAGE_BYTES
    client: httpx2.AsyncClient | None = None

    @property
    def login_timeout(self) -> float:
        """Seconds that a person may take to log in, before the first request is answered."""
        return float(getattr(self.auth, "login_timeout", 0.0))


class HTTPConnection:
    """Requests to one server."""

    def __init__(self, url: str, options: HTTPOptions) -> None:
        try:
            scheme, host, _ = origin(url)
        except ValueError:
            scheme = host = ""
        if scheme not in ("http", "https") or not host:
            raise LocalError("the URL of a server begins with http:// or https:// and has a host")
        self.url = url
        self.options = options
        self.negotiated: NegotiatedRevision | None = None
        self._client = options.client or httpx2.AsyncClient(
            verify=options.tls or True,
            proxy=options.proxy,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_FORWARDED_HEADERS),
        )

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: str = "",
        wait_for_response: bool = True,
    ) -> httpx2.Response:
        """Send a request; its answer has a head, and a body that is still to be read, and is closed by whoever got it.
        Who is `patient` waits for it without end. Raises ConnectionClosedError, or Rejected for a redirect not followed.
        """
        at = url or self.url
        limit = self.options.timeout
        timeout = httpx2.Timeout(limit, read=None if wait_for_response else limit)
        # Content codings are not asked for, so that no few bytes become many.
        own = {name.lower(): value for name, value in self.options.headers.items()}
        every = {"accept-encoding": "identity", **own, **headers}
        for _ in range(_MAX_REDIRECTS):
            try:
                request = self._client.build_request(method, at, headers=every, content=body, timeout=timeout)
                request.extensions[REVISION_EXTENSION] = self.negotiated
                response = await self._authorize(request)
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, RuntimeError) as fault:
                # RuntimeError: the client was closed.
                raise ConnectionClosedError(f"{method} {redact_url(at)}: {type(fault).__name__}: {fault}") from None
            target = response.headers.get("location")
            if not 300 <= response.status_code < 400 or target is None:
                return response
            await response.aclose()
            target = urljoin(at, target)
            if not may_follow_redirect(response.status_code, method, at, target):
                raise HTTPStatusError(
                    f"{method} {redact_url(at)}: status {response.status_code} to {redact_url(target)} is not followed: a redirect"
                    " has to stay at its origin and keep the method",
                    response.status_code,
                )
            at = target
        raise HTTPStatusError(f"{method} {redact_url(at)}: more than {_MAX_REDIRECTS} redirects", 310)

    async def _authorize(self, request: httpx2.Request) -> httpx2.Response:
        """The answer to a request, sent as often as its authorization wants; what is not the last is read in part."""
        if self.options.auth is None:
            return await self._client.send(request, stream=True, follow_redirects=False)
        async with aclosing(self.options.auth.async_auth_flow(request)) as flow:
            request = await anext(flow)
            while True:
                response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
                try:
                    request = await flow.asend(response)
                except StopAsyncIteration:
                    return response
                except BaseException:
                    await response.aclose()
                    raise
                await self.read_error(response)

    async def read(self, response: httpx2.Response) -> bytes:
        """The whole body. Raises InvalidResponseError where it is too long, ConnectionClosedError where it breaks off."""
        self._check_coding(response)
        limit = self.options.max_bytes
        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.aiter_raw():
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise InvalidResponseError(f"{self.describe(response)}: the answer is longer than {limit} bytes")
        except (httpx2.HTTPError, httpx2.StreamError) as fault:
            raise ConnectionClosedError(
                f"{self.describe(response)}: the answer broke off: {type(fault).__name__}"
            ) from None
        finally:
            await response.aclose()
        return b"".join(parts)

    async def read_error(self, response: httpx2.Response) -> bytes:
        """The beginning of the body of an error, as far as it can be read."""
        body = b""
        try:
            with suppress(httpx2.HTTPError, httpx2.StreamError):
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > _ERROR_LIMIT:
                        return b""
        finally:
            await response.aclose()
        return b"" if response.headers.get("content-encoding", "identity") != "identity" else body

    async def events(self, response: httpx2.Response, events: SSEDecoder) -> AsyncGenerator[ServerSentEvent, None]:
        """The events of a stream until it ends, or breaks off. Raises InvalidResponseError for one that is too long."""
        self._check_coding(response)
        try:
            async for part in response.aiter_raw():
                for event in events.feed(part):
                    yield event
        except (httpx2.HTTPError, httpx2.StreamError):
            return
        except OversizedEventError as fault:
            raise InvalidResponseError(f"{self.describe(response)}: {fault}") from None

    def decoder(self, previous: SSEDecoder | None = None) -> SSEDecoder:
        """A decoder for a new stream, or for one that goes on where another broke off."""
        events = SSEDecoder(self.options.max_bytes)
        if previous is not None:
            events.last_id, events.retry = previous.last_id, previous.retry
        return events

    def check_stream(self, response: httpx2.Response) -> None:
        """Raise Rejected for an error, and InvalidResponseError for what is no stream of events."""
        if response.status_code != 200:
            raise self.status_error(response)
        kind = response.headers.get("content-type", "")
        if media_type(kind) != EVENT_STREAM:
            raise InvalidResponseError(f"{self.describe(response)}: a stream is {EVENT_STREAM}, not {kind[:100]!r}")

    def status_error(self, response: httpx2.Response) -> HTTPStatusError:
        """The error that a status is which stands for no answer."""
        said = f"{self.describe(response)}: status {response.status_code}"
        if response.status_code == 401:
            tokenless = self.options.auth is None and "authorization" not in map(str.lower, self.options.headers)
            said += ": it wants to know who asks: give Reach(auth=…)" if tokenless else ": it does not take this login"
        return HTTPStatusError(said, response.status_code)

    def describe(self, response: httpx2.Response) -> str:
        """What was attempted, for errors."""
        return f"{response.request.method} {redact_url(str(response.request.url))}"

    def _check_coding(self, response: httpx2.Response) -> None:
        coding = response.headers.get("content-encoding", "identity").lower()
        if coding not in ("identity", ""):
            raise InvalidResponseError(
                f"{self.describe(response)}: the content coding {coding[:40]!r} was not asked for"
            )

    async def close(self) -> None:
        if self.options.client is None:
            await self._client.aclose()
