"""HTTP requests to one server, with limits on redirects, on sizes of bodies and events, and on time."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, cast
from urllib.parse import urljoin, urlsplit

from ... import products
from ...errors import ConnectionClosedError, HTTPStatusError, InvalidResponseError, LocalError, NotInstalledError
from ...http.client_rules import REVISION_EXTENSION, NegotiatedRevision, reconnect_delay
from ...http.headers import EVENT_STREAM, LAST_EVENT_ID, media_type
from ...http.outgoing import FIRST_REFUSAL, IS_OURS, MAX_ATTEMPTS, default_tls, seconds_to_wait, without_secrets_in_logs
from ...http.sse import OversizedEventError, ServerSentEvent, SSEDecoder
from ...http.urls import may_follow_redirect, origin, redact_url, without_secrets
from ...protocol.framing import MAX_MESSAGE_BYTES
from ...usage.keywords import checked_fields
from ...usage.rules import COUNT, HEADERS, SECONDS, Rule, is_number

try:
    import httpx2
except ModuleNotFoundError:
    raise NotInstalledError("a client over HTTP needs httpx2: pip install 'mcp-generated[http]'") from None

_log: Final = logging.getLogger(__name__)

_MAX_REDIRECTS: Final = 5
_USUAL_PATH: Final = "/mcp"
_FIRST_DELAY: Final = 0.1  # Half of the seconds after the first refused connection.
_SPREAD: Final = 0.1  # So that clients that were refused at the same time do not come back at the same time.
_ERROR_LIMIT: Final = 64 * 1024  # Bytes of the body of an error response that are read.
_MAX_IDLE_CONNECTIONS: Final = 20
_RAISE: Final = "HTTPOptions(max_bytes=…), --max-bytes of a bridge, or max_bytes of an entry raises it"
_TRANSIENT_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)  # Statuses after which a retry may succeed.
_MAX_FAILURES: Final = 6  # Retries in a row without an event.


@checked_fields(
    rules={
        "headers": HEADERS,
        "proxy": Rule(lambda value: value is None or isinstance(value, str), "a URL, or None", is_secret=True),
        "timeout": SECONDS,
        "max_bytes": COUNT,
        "retry_seconds": Rule(lambda value: is_number(value) and value >= 0, "seconds, or 0 for no retries"),
    }
)
@dataclass(frozen=True, slots=True)
class HTTPOptions:
    """The HTTP options of a client.

    Args:
        headers: Headers of every request. Default: none.
        auth: httpx2 authentication flow, such as `OAuthClientProvider`. Default None: no authentication.
        proxy: URL of a proxy. Default None: the proxy of the environment, if there is one.
        tls: TLS settings. Default None: those of httpx2.
        timeout: Seconds to connect, and until a notification is accepted. Default 30. How long the client waits for
            the result of a request is set by `RequestOptions.timeout`.
        max_bytes: Bytes of one message from the server. Default 8 MiB.
        retry_seconds: Seconds that a request waits in all to be sent again, if the server has refused it before it
            began: with status 429 or 503 and `Retry-After`, or by refusing a connection though it was there before. A
            server that wants more is not waited for, and 0 turns retries off. Default 30. The timeout of the request
            holds as well.
        client: An httpx2 client to use instead of an own one; it is not closed. Default None.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: httpx2.Auth | None = None
    proxy: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    timeout: float = 30.0
    max_bytes: int = MAX_MESSAGE_BYTES
    retry_seconds: float = 30.0
    client: httpx2.AsyncClient | None = None

    @property
    def login_timeout(self) -> float:
        """Seconds that the user has to log in before the first request is answered; 0 without a login."""
        return float(getattr(self.auth, "login_timeout", 0.0))


class ClientRequest(Protocol):
    """The request of a response, as error messages name it."""

    @property
    def method(self) -> str: ...

    @property
    def url(self) -> object: ...


class ClientResponse(Protocol):
    """A response, whose body arrives after it: what is used of a response of httpx2, and all that another has."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case names."""
        ...

    @property
    def request(self) -> ClientRequest: ...

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body. Raises httpx2.ReadError if it is cut off."""
        ...

    async def aclose(self) -> None:
        """Drop the rest of the body."""


def _new_client(url: str, options: HTTPOptions) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_MAX_IDLE_CONNECTIONS)
    client = httpx2.AsyncClient(verify=options.tls or default_tls(), proxy=options.proxy, limits=limits)
    product = products.find("http_client")
    return client if product is None else cast(httpx2.AsyncClient, product.PlainHTTPClient(client, url, options))


class HTTPConnection:
    """Requests to one server."""

    def __init__(self, url: str, options: HTTPOptions) -> None:
        try:
            scheme, host, _ = origin(url)
        except ValueError:
            scheme = host = ""
        if scheme not in ("http", "https") or not host:
            raise LocalError(f"{without_secrets(url)!r} is not a URL of HTTP: write http://HOST:PORT/mcp")
        self.url = url
        self.options = options
        self.negotiated: NegotiatedRevision | None = None
        self._was_reached = False  # Until then, a refused connection means that no server is there.
        self._client = options.client or _new_client(url, options)

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: str = "",
        wait_for_response: bool = True,
    ) -> ClientResponse:
        """Send a request and return the response, whose body is not read yet; the caller closes it.

        Args:
            method: HTTP method.
            headers: Headers in addition to those of the options.
            body: Body of the request. Default None: no body.
            url: URL to send to. Default: that of the server.
            wait_for_response: Wait without limit for the response. False fails after `timeout` of the options.

        Raises ConnectionClosedError, or HTTPStatusError for a redirect that is not followed.
        """
        at, limit = url or self.url, self.options.timeout
        timeout = httpx2.Timeout(limit, read=None if wait_for_response else limit)
        # Content codings are not accepted: a few compressed bytes could expand to very many.
        all_headers = {"accept-encoding": "identity"}
        for name, value in self.options.headers.items():
            all_headers[name.lower()] = value
        all_headers.update(headers)
        for _ in range(_MAX_REDIRECTS):
            response = await self._send_until_begun(method, at, all_headers, body, timeout)
            target = response.headers.get("location")
            if not 300 <= response.status_code < 400 or target is None:
                return response
            await response.aclose()
            target = urljoin(at, target)
            if not may_follow_redirect(response.status_code, method, at, target):
                raise HTTPStatusError(
                    f"{method} {redact_url(at)}: status {response.status_code} to {redact_url(target)} is not followed:"
                    " a redirect has to stay at its origin and keep the method",
                    response.status_code,
                )
            at = target
        raise HTTPStatusError(f"{method} {redact_url(at)}: more than {_MAX_REDIRECTS} redirects", 310)

    async def _send_until_begun(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: httpx2.Timeout
    ) -> ClientResponse:
        """Send a request, again while the server refuses to begin with it: what may have run is not sent again.

        Raises ConnectionClosedError.
        """
        left = self.options.retry_seconds
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                request = self._client.build_request(method, url, headers=headers, content=body, timeout=timeout)
                response = await self._send_once(request)
            except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, RuntimeError) as error:
                # RuntimeError: the client was closed.
                wait = _FIRST_DELAY * 2**attempt
                is_refused = isinstance(error, httpx2.ConnectError) and self._was_reached
                if not is_refused or wait > left or attempt == MAX_ATTEMPTS:
                    raise ConnectionClosedError(f"{method} {redact_url(url)}: {_reason(error)}") from None
            else:
                self._was_reached = True
                if response.status_code < FIRST_REFUSAL:
                    return response
                seconds = seconds_to_wait(response.status_code, response.headers)
                if seconds is None or seconds > left or attempt == MAX_ATTEMPTS:
                    return response
                wait = seconds
                await response.aclose()
            left -= wait
            _log.debug("%s %s is sent again after %g s: the server has not begun", method, redact_url(url), wait)
            await asyncio.sleep(wait * (1 + _SPREAD * random.random()))
        raise AssertionError("the last attempt returns or raises")

    async def _send_once(self, request: httpx2.Request) -> ClientResponse:
        request.extensions[REVISION_EXTENSION] = self.negotiated
        if self.options.auth is not None:
            return await self._send_authorized(request, self.options.auth)
        ours = IS_OURS.set(True)  # As `without_secrets_in_logs`, for each call.
        try:
            return await self._client.send(request, stream=True, follow_redirects=False)
        finally:
            IS_OURS.reset(ours)

    async def _send_authorized(self, request: httpx2.Request, auth: httpx2.Auth) -> httpx2.Response:
        """Send a request through the authentication flow, which may repeat it, and return the last response."""
        async with aclosing(auth.async_auth_flow(request)) as flow:
            request = await anext(flow)
            while True:
                with without_secrets_in_logs():
                    response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
                try:
                    request = await flow.asend(response)
                except StopAsyncIteration:
                    return response
                except BaseException:
                    await response.aclose()
                    raise
                await self.read_error(response)

    async def read(self, response: ClientResponse) -> bytes:
        """Return the body. Raises InvalidResponseError if it is too long, ConnectionClosedError if it is cut off."""
        self._check_coding(response)
        limit = self.options.max_bytes
        parts: list[bytes] = []
        size = 0
        try:
            async for part in parts_of(response):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise InvalidResponseError(
                        f"{self.describe(response)}: the response is longer than {limit} bytes; {_RAISE}"
                    )
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ConnectionClosedError(
                f"{self.describe(response)}: the response was cut off: {type(error).__name__}"
            ) from None
        finally:
            await response.aclose()
        return b"".join(parts)

    async def read_error(self, response: ClientResponse) -> bytes:
        """Return the body of an error response; empty if it is too long or has a content coding."""
        body = b""
        try:
            with suppress(httpx2.HTTPError, httpx2.StreamError):
                async for part in parts_of(response):
                    body += part
                    if len(body) > _ERROR_LIMIT:
                        return b""
        finally:
            await response.aclose()
        return b"" if response.headers.get("content-encoding", "identity") != "identity" else body

    async def events(self, response: ClientResponse, events: SSEDecoder) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield the events of a stream until it ends or is cut off. Raises InvalidResponseError if one is too long."""
        self._check_coding(response)
        try:
            async for part in parts_of(response):
                for event in events.feed(part):
                    yield event
        except (httpx2.HTTPError, httpx2.StreamError):
            return
        except OversizedEventError as error:
            raise InvalidResponseError(f"{self.describe(response)}: {error}; {_RAISE}") from None

    def decoder(self, previous: SSEDecoder | None = None) -> SSEDecoder:
        """Return a decoder for a new stream, or for the continuation of the stream of another decoder."""
        events = SSEDecoder(self.options.max_bytes)
        if previous is not None:
            events.last_id = previous.last_id
            events.retry = previous.retry
        return events

    def check_stream(self, response: ClientResponse) -> None:
        """Raise HTTPStatusError for an error status, and InvalidResponseError if the body is not an SSE stream."""
        if response.status_code != 200:
            raise self.status_error(response)
        kind = response.headers.get("content-type", "")
        if media_type(kind) != EVENT_STREAM:
            raise InvalidResponseError(
                f"{self.describe(response)}: the content type has to be {EVENT_STREAM}, not {kind[:100]!r}"
            )

    def status_error(self, response: ClientResponse) -> HTTPStatusError:
        """Return the error for a response with an error status."""
        message = f"{self.describe(response)}: status {response.status_code}"
        if (seconds := seconds_to_wait(response.status_code, response.headers)) is not None:
            limit = "a program waits longer with HTTPOptions(retry_seconds=…)"
            message += f": the server is busy, and can be tried again after {seconds:g} s ({limit})"
        if response.status_code == 404:
            message += f": no endpoint is at this path; if it is that of the server, try {_other_form(self.url)}"
        if response.status_code == 401:
            has_token = self.options.auth is not None or "authorization" in map(str.lower, self.options.headers)
            message += " Unauthorized: " + (
                "the server does not accept the token"
                if has_token
                else "the server requires a token; set auth= of Client() or HTTPOptions(), or headers of its entry"
            )
        return HTTPStatusError(message, response.status_code)

    def describe(self, response: ClientResponse) -> str:
        """Return the method and URL of the request, for error messages."""
        return f"{response.request.method} {redact_url(str(response.request.url))}"

    def _check_coding(self, response: ClientResponse) -> None:
        coding = response.headers.get("content-encoding", "identity").lower()
        if coding not in ("identity", ""):
            raise InvalidResponseError(
                f"{self.describe(response)}: the content coding {coding[:40]!r} was not requested"
            )

    async def close(self) -> None:
        """Close all HTTP connections, unless they belong to `HTTPOptions.client`."""
        if self.options.client is None:
            await self._client.aclose()


async def parts_of(response: ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body of a response as it arrives; whole, if the client of the program has read it, as a mock does."""
    if isinstance(response, httpx2.Response) and response.is_stream_consumed:
        yield await response.aread()
        return
    async for part in response.aiter_raw():
        yield part


def _reason(error: Exception) -> str:
    """Return why a request failed, without the text of errors that repeat a header or a URL: it may be secret."""
    name = type(error).__name__
    return name if isinstance(error, httpx2.LocalProtocolError | httpx2.InvalidURL) else f"{name}: {error}"


def _other_form(url: str) -> str:
    """Return the URL with the other of two forms of its path that are often confused: with a slash at the end and
    without, or the usual path instead of none."""
    shown = redact_url(url)
    path = urlsplit(shown).path
    if path in ("", "/"):
        return f"{shown.rstrip('/')}{_USUAL_PATH}"
    return shown.removesuffix("/") if path.endswith("/") else f"{shown}/"


# An SSE stream that is resumed after its connection was cut off.
#
# MCP specification, Transports, Streamable HTTP, "Resumability and Redelivery".


class ResumableEventStream:
    """One stream. If its connection ends before `ended` is set, it is opened again with `Last-Event-ID`."""

    def __init__(
        self, http: HTTPConnection, headers: Callable[[], dict[str, str]], reconnect_without_ids: bool
    ) -> None:
        """Create a stream; `reconnect_without_ids` reconnects also if no event had an id."""
        self.ended = False
        self._http = http
        self._headers = headers
        self._reconnect_without_ids = reconnect_without_ids
        self.on_open: Callable[[], None] | None = None  # Called when the server has answered.
        self.on_close: Callable[[], None] | None = None  # Called when the server closes the stream with a time to wait.
        self._failures = 0

    async def events(self, response: ClientResponse | None = None) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield the events. Raises MCPError if the stream cannot be opened or resumed."""
        events = self._http.decoder()
        try:
            while True:
                if response is None:
                    response = await self._open(events)
                    if self.on_open is not None:
                        self.on_open()
                if response is not None:
                    async for event in self._http.events(response, events):
                        self._failures = 0
                        yield event
                    await response.aclose()
                    response = None
                if self.ended or not (self._reconnect_without_ids or events.last_id):
                    return
                if self.on_close is not None and events.retry is not None:
                    self.on_close()
                await asyncio.sleep(reconnect_delay(self._failures, events.retry, random.random()))
                self._failures += 1
                events = self._http.decoder(events)
        finally:
            if response is not None:
                await response.aclose()

    async def _open(self, events: SSEDecoder) -> ClientResponse | None:
        """Open the stream by GET; return None after a failure that a retry may solve."""
        last = {LAST_EVENT_ID: events.last_id} if events.last_id else {}
        try:
            response = await self._http.send("GET", {**self._headers(), **last})
        except ConnectionClosedError:
            if self._failures >= _MAX_FAILURES and not self._reconnect_without_ids:
                raise
            return None
        try:
            self._http.check_stream(response)
        except BaseException as error:
            await response.aclose()
            is_transient = isinstance(error, HTTPStatusError) and error.status in _TRANSIENT_STATUSES
            if is_transient and (self._reconnect_without_ids or self._failures < _MAX_FAILURES):
                return None
            raise
        return response
