"""A URL of authorization and what to send go in; JSON comes out, within the policy on URLs and a limit on size."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from ..errors import AuthorizationError, AuthorizationServerUnavailableError, LocalError
from ..http.urls import redact_url
from .url_policy import URLPolicy

try:
    import httpx2
except ImportError:
    raise LocalError("authorization needs httpx2: pip install 'mcp-codegen[http,auth]'") from None

_MAX_BYTES: Final = 256 * 1024  # Bytes of an answer; metadata and key sets are a few thousand.
_TIMEOUT: Final = 20.0  # Seconds.


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """An answer: its status, its JSON (None for none), and the nonce it gave for proofs."""

    status: int
    body: Any
    nonce: str | None = None


class AuthHTTPClient:
    """Requests to servers of authorization. Redirects are not followed: what an answer says is of the URL asked."""

    def __init__(self, policy: URLPolicy, tls: ssl.SSLContext | None = None) -> None:
        self.policy = policy
        # Made once: reading the certificates of the system takes long.
        self._tls = tls or httpx2.create_ssl_context(trust_env=False)

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> AuthResponse:
        return await self._send("GET", url, headers or {})

    async def post_json(self, url: str, body: object) -> AuthResponse:
        return await self._send("POST", url, {"content-type": "application/json"}, json.dumps(body))

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> AuthResponse:
        body = str(httpx2.QueryParams(form))
        return await self._send("POST", url, {"content-type": "application/x-www-form-urlencoded", **headers}, body)

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: str | None = None) -> AuthResponse:
        self.policy.check(url)
        every = {"accept": "application/json", "accept-encoding": "identity", **headers}
        # Of the environment no proxy is taken: it would look the name up again, where the policy does not reach.
        async with httpx2.AsyncClient(
            timeout=_TIMEOUT, verify=self._tls, trust_env=False, follow_redirects=False
        ) as client:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    at = httpx2.URL(url)
                    address = await self._resolve(at)
                    # The address that was judged is the one connected to, whatever the name says a moment later.
                    request = client.build_request(
                        method,
                        at.copy_with(host=address),
                        headers={**every, "host": at.netloc.decode()},
                        content=body,
                        extensions={"sni_hostname": at.host},
                    )
                    response = await client.send(request, stream=True)
                    return await self._read(response, url)
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as fault:
                raise AuthorizationServerUnavailableError(
                    f"{method} {redact_url(url)}: {type(fault).__name__}"
                ) from None

    async def _resolve(self, at: httpx2.URL) -> str:
        port = at.port or (443 if at.scheme == "https" else 80)
        found = await asyncio.get_running_loop().getaddrinfo(at.host, port, type=socket.SOCK_STREAM)
        addresses = [str(each[4][0]) for each in found]
        self.policy.check_addresses(str(at), addresses)
        # Programs on this machine often listen at one of its addresses only, and seldom at the newer one.
        return min(addresses, key=lambda each: ":" in each)

    async def _read(self, response: httpx2.Response, url: str) -> AuthResponse:
        body = b""
        try:
            async for part in response.aiter_raw():
                body += part
                if len(body) > _MAX_BYTES:
                    raise AuthorizationError(f"{redact_url(url)}: the answer is longer than {_MAX_BYTES} bytes")
        finally:
            await response.aclose()
        try:
            said = from_json(body, allow_inf_nan=False)
        except ValueError:
            said = None
        return AuthResponse(response.status_code, said, response.headers.get("dpop-nonce"))
