"""HTTP requests for OAuth: within the URL policy, without redirects and proxies, and with limits on size and time."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic_core import from_json

from mcp_products.common.shared_works import SharedWorks
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError, LocalError
from mcp_runtime.http.headers import media_type
from mcp_runtime.http.outgoing import MAX_ATTEMPTS, seconds_to_wait, without_secrets_in_logs
from mcp_runtime.http.urls import base_url, redact_url, without_secrets
from mcp_runtime.protocol.json_text import is_finite
from mcp_runtime.protocol.models import is_object
from mcp_runtime.usage.keywords import checked_fields
from mcp_runtime.usage.rules import FLAG, Rule, are_texts, instance

# The URL policy: the rule against server-side request forgery for URLs that another party names.

_LOCAL_NAMES: Final = ("localhost",)
# An IPv6 address outside of the unicast block, or any address in a special block, belongs to no host of the internet,
# or
# leads to another address, which may be private (IANA special-purpose registries). Older Python versions lack some.
_UNICAST: Final = ip_network("2000::/3")
_SPECIAL: Final = tuple(map(ip_network, ("3fff::/20", "192.0.0.0/24", "192.88.99.0/24")))


@checked_fields(
    rules={
        "local": FLAG,
        "private": Rule(
            lambda value: are_texts(value) and all(_is_origin(item) for item in value),
            'a set of origins in lower case without a path, such as {"https://idp.internal:8443"}',
        ),
    }
)
@dataclass(frozen=True, slots=True)
class URLPolicy:
    """The URLs that may be requested for OAuth: `https`, or `http` on this machine, at public internet addresses.

    Args:
        local: True to allow this machine, for example if the MCP server runs on it. Default False.
        private: Origins (`https://host:port`, lower case) that may be at any address; `http` stays limited to this
            machine. Default: none.
    """

    local: bool = False
    private: frozenset[str] = frozenset()

    def check(self, url: str) -> str:
        """Return the URL. Raises AuthorizationError if the URL itself breaks the policy."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise AuthorizationError("an OAuth URL cannot be parsed") from None
        if any(character <= " " or character in '\\"<>^`{|}' or character >= "\x7f" for character in url):
            raise AuthorizationError("an OAuth URL has characters that are not allowed in URLs")
        if not host:
            raise AuthorizationError(f"{without_secrets(url)!r}: an OAuth URL must begin with https:// and a host")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
            raise AuthorizationError(f"{host}: an OAuth URL must use https, or http on this machine")
        if parts.username is not None or parts.password is not None:
            raise AuthorizationError(f"{host}: an OAuth URL must not have user information")
        if "#" in url:
            raise AuthorizationError(f"{host}: an OAuth URL must not have a fragment")
        if is_loopback(host) and not self._may_be_local(url):
            raise AuthorizationError(
                f"{host}: URLs on this machine are not allowed for a remote server; allow them with "
                "URLPolicy(local=True)"
            )
        if _address(host) is not None:
            self.check_addresses(url, [host])
        return url

    def check_addresses(self, url: str, addresses: Sequence[str]) -> None:
        """Raise AuthorizationError unless all addresses of the URL's host are allowed."""
        host = urlsplit(url).hostname or ""
        if not addresses:
            raise AuthorizationError(f"{host} has no address")
        if self._is_private_origin(url):
            return
        for text in addresses:
            address = _address(text)
            if address is None or not ((address.is_loopback and self._may_be_local(url)) or _is_public(address)):
                raise AuthorizationError(
                    f"{host} has an address that is not public; allow its origin with URLPolicy(private=…)"
                )
            if urlsplit(url).scheme == "http" and not address.is_loopback:
                raise AuthorizationError(f"{host}: http is allowed on this machine only; use https")

    def _may_be_local(self, url: str) -> bool:
        return self.local or self._is_private_origin(url)

    def _is_private_origin(self, url: str) -> bool:
        return base_url(url).lower() in self.private


def _is_origin(text: str) -> bool:
    try:
        return base_url(text).lower() == text
    except ValueError:
        return False


def methods(*names: str, expected: str) -> Rule:
    """Return the rule that a value is an object with these methods, and no class."""
    return Rule(
        lambda value: not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in names),
        expected,
    )


POLICY: Final = instance(URLPolicy, "a URLPolicy")
TEXTS: Final = Rule(are_texts, "a list of strings")


def is_loopback(host: str) -> bool:
    """Return True if a host name or address means this machine."""
    address = _address(host)
    return host.lower() in _LOCAL_NAMES if address is None else address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (address.sixtofour or address.teredo or address not in _UNICAST):
        return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _SPECIAL)


try:
    import httpx2
except ModuleNotFoundError:
    raise LocalError("authorization needs httpx2: pip install 'mcp-generated[http,auth]'") from None

_MAX_BYTES: Final = 256 * 1024  # Bytes of a response body; metadata and key sets have a few thousand.
_TIMEOUT: Final = 20.0  # Seconds.
_MAX_WAIT: Final = 10.0  # Seconds that a request waits in all for a server that is busy.
_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """A response to an OAuth request.

    Args:
        status: HTTP status code.
        body: The JSON value of the body; None if the body is not JSON.
        dpop_nonce: Value of the `DPoP-Nonce` header (https://www.rfc-editor.org/rfc/rfc9449#section-8). Default None:
            the response has none.
        form: The fields of a body that is a form, as some token endpoints send it. Default None: it is none.
        retry_after: Seconds after which the request may be sent again, if the server has not begun with it. Default
            None: it may not.
    """

    status: int
    body: Any
    dpop_nonce: str | None = None
    form: Mapping[str, str] | None = None
    retry_after: float | None = None


class ResponseTooLargeError(AuthorizationError):
    """A response that is too large to be one of OAuth."""


class AuthHTTPClient:
    """An HTTP client for authorization servers. It does not follow redirects: a response counts for the requested URL
    only."""

    def __init__(self, policy: URLPolicy, tls: ssl.SSLContext | None = None) -> None:
        """Create a client.

        Args:
            policy: URLs and addresses that may be requested.
            tls: Certificates that servers may have. Default: the system's certificate authorities.
        """
        self.policy = policy
        # Created once per client: loading the certificates of the system is slow.
        self._tls = tls or httpx2.create_ssl_context(trust_env=False)

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> AuthResponse:
        """Send a GET request. Raises AuthorizationError, or AuthorizationServerUnavailableError without a response."""
        return await self._send("GET", url, headers or {})

    async def first_document(
        self, urls: Sequence[str], members: Collection[str], headers: Mapping[str, str] | None = None
    ) -> tuple[Mapping[str, Any] | None, str]:
        """Return the first metadata document at some URLs, and what was found at those before it.

        Metadata is a JSON object with one of the members. Anything else is as a status 404: many servers answer every
        path with a page, or with a redirect to their login.

        Raises AuthorizationError for a status of a server that has failed, and as `get` does.
        """
        found: list[str] = []
        for url in urls:
            try:
                response = await self.get(url, headers)
            except ResponseTooLargeError as error:
                found.append(str(error))
                continue
            if response.status >= 500:
                raise AuthorizationError(f"{redact_url(url)}: status {response.status}")
            body = response.body
            if response.status == 200 and is_object(body) and not body.keys().isdisjoint(members):
                return body, "; ".join(found)
            kind = "a page that is not JSON" if body is None else "JSON that is not metadata"
            what = kind if response.status == 200 else f"status {response.status}"
            found.append(f"{redact_url(url)}: {what}")
        return None, "; ".join(found)

    async def post_json(self, url: str, body: object, headers: Mapping[str, str] | None = None) -> AuthResponse:
        """Send a POST request with a JSON body. Raises as `get` does."""
        return await self._send("POST", url, {"content-type": "application/json", **(headers or {})}, json.dumps(body))

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> AuthResponse:
        """Send a POST request with a form as its body. Raises as `get` does."""
        body = str(httpx2.QueryParams(form))
        return await self._send("POST", url, {"content-type": _FORM, **headers}, body)

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: str | None = None) -> AuthResponse:
        """Send a request, again if the server has refused it before it began."""
        left = _MAX_WAIT
        for attempt in range(1, MAX_ATTEMPTS + 1):
            response = await self._send_once(method, url, headers, body)
            wait = response.retry_after
            if wait is None or wait > left or attempt == MAX_ATTEMPTS:
                return response
            left -= wait
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns")

    async def _send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: str | None = None
    ) -> AuthResponse:
        self.policy.check(url)
        all_headers = {"accept": "application/json", "accept-encoding": "identity", **headers}
        # Proxies of the environment are ignored: a proxy would resolve the name again, outside of the URL policy.
        async with httpx2.AsyncClient(
            timeout=_TIMEOUT, verify=self._tls, trust_env=False, follow_redirects=False
        ) as client:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    target = httpx2.URL(url)
                    host = target.raw_host.decode()  # `host` is Unicode, which others encode by other rules.
                    address = await self._resolve(target, host)
                    # Connect to the address that was checked, even if the name resolves to another one a moment later.
                    request = client.build_request(
                        method,
                        target.copy_with(host=address),
                        headers={**all_headers, "host": target.netloc.decode()},
                        content=body,
                        extensions={"sni_hostname": host},
                    )
                    with without_secrets_in_logs():
                        response = await client.send(request, stream=True)
                    return await self._read(response, url)
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                raise AuthorizationServerUnavailableError(
                    f"{method} {redact_url(url)}: {type(error).__name__}"
                ) from None

    async def _resolve(self, url: httpx2.URL, host: str) -> str:
        port = url.port or (443 if url.scheme == "https" else 80)
        results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(result[4][0]) for result in results]
        self.policy.check_addresses(str(url), addresses)
        # Prefer IPv4: programs on this machine often listen on one loopback address only, seldom on the IPv6 one.
        return min(addresses, key=lambda address: ":" in address)

    async def _read(self, response: httpx2.Response, url: str) -> AuthResponse:
        body = b""
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise ResponseTooLargeError(f"{redact_url(url)}: the response is larger than {_MAX_BYTES} bytes")
        finally:
            await response.aclose()
        try:
            # RFC 8259 lets readers ignore a byte order mark, which programs for Windows write.
            value = from_json(body.removeprefix(BOM_UTF8), allow_inf_nan=False)
        except ValueError:
            value = None
        if not is_finite(value):
            value = None
        is_form = media_type(response.headers.get("content-type", "")) == _FORM
        form = dict(parse_qsl(body.decode("utf-8", "replace"))) if is_form else None
        wait = seconds_to_wait(response.status_code, response.headers)
        return AuthResponse(response.status_code, value, response.headers.get("dpop-nonce"), form, wait)


# Requests to another server: one at a time for each key, few at once, and none for longer than a deadline.

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedRequests(Generic[K, V]):
    """Runs requests whose result depends only on their key: those with the same key at the same time share one."""

    def __init__(self, at_once: int, *, seconds: float, at_once_of_group: int | None = None) -> None:
        """Create an empty set of requests.

        Args:
            at_once: Requests that run at the same time; further ones wait.
            seconds: Seconds for a request, the time that it waits included.
            at_once_of_group: The same for those of one group, such as a host. Default None: no further limit.
        """
        self._slots = asyncio.Semaphore(at_once)
        self._at_once_of_group = at_once_of_group
        self._groups: dict[Hashable, _Group] = {}
        self._running: SharedWorks[K, V] = SharedWorks("a request to another server", seconds)

    async def run(self, key: K, request: Callable[[], Coroutine[Any, Any, V]], group: Hashable = None) -> V:
        """Return the result of the running request with this key, or else of a new one. Raises TimeoutError."""
        return await self._running.run(key, lambda: self._run(request, group))

    async def _run(self, request: Callable[[], Awaitable[V]], group: Hashable) -> V:
        async with AsyncExitStack() as slots:
            if self._at_once_of_group is not None:
                members = self._groups.setdefault(group, _Group(self._at_once_of_group))
                members.count += 1
                slots.callback(self._leave, group, members)
                await slots.enter_async_context(members.slots)
            await slots.enter_async_context(self._slots)
            return await request()

    def _leave(self, group: Hashable, members: _Group) -> None:
        members.count -= 1
        if not members.count:
            del self._groups[group]


class _Group:
    """The slots of one group, and the number of requests that have one or wait for one."""

    def __init__(self, slots: int) -> None:
        self.slots = asyncio.Semaphore(slots)
        self.count = 0
