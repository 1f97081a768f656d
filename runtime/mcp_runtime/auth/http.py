"""HTTP requests for OAuth: within the URL policy, without redirects and proxies, and with limits on size and time."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from pydantic_core import from_json

from ..errors import AuthorizationError, AuthorizationServerUnavailableError, LocalError
from ..http.headers import media_type
from ..http.request_logs import without_secrets_in_logs
from ..http.retries import MAX_ATTEMPTS, seconds_to_wait
from ..http.urls import redact_url
from ..protocol.finite_numbers import is_finite
from ..protocol.models import is_object
from .url_policy import URLPolicy

try:
    import httpx2
except ImportError:
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
            kind = "a page that is no JSON" if body is None else "JSON that is no metadata"
            what = kind if response.status == 200 else f"status {response.status}"
            found.append(f"{redact_url(url)}: {what}")
        return None, "; ".join(found)

    async def post_json(self, url: str, body: object) -> AuthResponse:
        """Send a POST request with a JSON body. Raises as `get` does."""
        return await self._send("POST", url, {"content-type": "application/json"}, json.dumps(body))

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
            value = from_json(body, allow_inf_nan=False)
        except ValueError:
            value = None
        if not is_finite(value):
            value = None
        is_form = media_type(response.headers.get("content-type", "")) == _FORM
        form = dict(parse_qsl(body.decode("utf-8", "replace"))) if is_form else None
        wait = seconds_to_wait(response.status_code, response.headers)
        return AuthResponse(response.status_code, value, response.headers.get("dpop-nonce"), form, wait)
