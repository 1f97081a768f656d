"""An authorization server that gives any token one asks it for, and a protected endpoint with a raw client of it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import httpx2
import uvicorn
from joserfc import jwk, jws, jwt
from joserfc.jwk import ECKey, RSAKey
from support.endpoints import ALL_REVISIONS, Rev, server_of, since
from support.http.in_process import asking

from mcp_products.auth.client.token_endpoint import parse_challenges
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.hosting.run import listen

PROTECTED = since("2025-03-26", ALL_REVISIONS)
BOTH = "application/json, text/event-stream"


class Authority(ThreadingHTTPServer):
    """An issuer: metadata, a key set, introspection. `keys` are published; `down` lets all answers be 500."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = f"http://127.0.0.1:{self.server_port}"
        self.key = self.new_key("one")
        self.published: list[dict[str, Any]] = [self.key.as_dict(private=False)]
        self.paths: list[str] = []
        self.scopes: list[str] = []
        self.down = False
        self.active: dict[str, dict[str, Any]] = {}
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        self.other_metadata: dict[str, Any] = {}

    @staticmethod
    def new_key(kid: str) -> ECKey:
        return ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})

    def token(self, audience: Any, *, key: Any = None, head: dict[str, Any] | None = None, **claims: Any) -> str:
        """A good token for an audience, but for what is said; a claim that is None is left out."""
        now = int(time.time())
        defaults = {"iss": self.name, "sub": "alice", "aud": audience, "client_id": "app", "iat": now, "exp": now + 600}
        payload = {name: value for name, value in {**defaults, **claims}.items() if value is not None}
        header = {"alg": "ES256", "kid": "one", "typ": "at+jwt", **(head or {})}
        header = {name: value for name, value in header.items() if value is not None}
        if header["alg"] == "none":
            return unsigned(header, payload)
        return jwt.encode(header, payload, key or self.key, algorithms=[header["alg"]], registry=_any(header["alg"]))

    def close(self) -> None:
        self.shutdown()
        self.server_close()


def _any(alg: str) -> Any:
    from joserfc.jws import JWSRegistry

    return JWSRegistry(algorithms=[alg], strict_check_header=False)


class _Handler(BaseHTTPRequestHandler):
    server: Authority  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        name = self.server.name
        match self.path:
            case "/.well-known/oauth-authorization-server":
                document: Any = {"issuer": name, "token_endpoint": f"{name}/token", "jwks_uri": f"{name}/keys"}
                document |= self.server.other_metadata
            case "/keys":
                document = {"keys": self.server.published}
            case _:
                return self._say(404, {})
        self._say(200, document)

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        who = b64decode(self.headers.get("authorization", "Basic ").removeprefix("Basic ")).decode()
        if who != "resource:s%26cret":
            return self._say(401, {})
        if self.path == "/token":
            return self._say(200, self._token({name: value for name, [value] in form.items()}))
        self._say(200, self.server.active.get(form["token"][0], {"active": False}))

    def _token(self, form: dict[str, str]) -> dict[str, Any]:
        """A token for the resource and with the scopes that a program asks for, bound to its key if it shows one."""
        self.server.scopes.append(form.get("scope", ""))
        shown = self.headers.get("dpop")
        key = None if shown is None else jwk.import_key(jws.extract_compact(shown.encode()).headers()["jwk"])
        claims = {"sub": None, "scope": form.get("scope"), "cnf": key and {"jkt": key.thumbprint()}}
        kind = "Bearer" if key is None else "DPoP"
        return {"access_token": self.server.token(form["resource"], **claims), "token_type": kind, "expires_in": 600}

    def _say(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(500 if self.server.down else status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@dataclass
class Endpoint:
    """A protected endpoint, and raw requests to it."""

    url: str
    rev: Rev
    http: httpx2.AsyncClient
    ran: list[Any] = field(default_factory=list[Any])
    session: dict[str, str] = field(default_factory=dict[str, str])

    async def post(self, message: dict[str, Any], token: str | None, **headers: str) -> httpx2.Response:
        shown = {} if token is None else {"authorization": f"Bearer {token}"}
        fields = {"accept": BOTH, "content-type": "application/json", **self._named(message), **self.session, **shown}
        return await self.http.post(self.url, json=message, headers={**fields, **headers})

    def _named(self, message: dict[str, Any]) -> dict[str, str]:
        if not self.rev.stateless:
            return {}
        name = (message.get("params") or {}).get("name")
        named = {"mcp-method": message["method"], "mcp-protocol-version": self.rev.id}
        return named if name is None else {**named, "mcp-name": name}

    async def open(self, token: str | None, **headers: str) -> httpx2.Response | None:
        """Open a session, where there are sessions."""
        if self.rev.stateless:
            return None
        hello = {"protocolVersion": self.rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        answer = await self.post(self.rev.request(0, "initialize", hello), token, **headers)
        if answer.status_code == 200:
            self.session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            if self.rev.id >= "2025-06-18":
                self.session["mcp-protocol-version"] = self.rev.id
            notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await self.post(notification, token, **headers)).status_code == 202
        return answer

    async def call(self, token: str | None, name: str = "read", **headers: str) -> httpx2.Response:
        """Call a tool, in the session if one is open."""
        return await self.post(self.rev.request(1, "tools/call", {"name": name, "arguments": {}}), token, **headers)

    async def first(self, token: str | None, **headers: str) -> httpx2.Response:
        """The first request of a client: the one that opens a session, or calls a tool where there are none."""
        if self.rev.stateless:
            return await self.call(token, **headers)
        opened = await self.open(token, **headers)
        assert opened is not None
        return opened


ResourceServerFactory = Callable[[str], ResourceServer]


@asynccontextmanager
async def endpoint(
    rev: Rev, resource_server_for: ResourceServerFactory, server: Any = None, real: bool = True, **settings: Any
) -> AsyncIterator[Endpoint]:
    """A server of one revision behind uvicorn, or in process, protected by what is made for its URL; handlers leave
    their contexts in `ran`. The tool `write` needs the scope `write`."""
    ran: list[Any] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        ran.append(ctx)
        return rev.text("nobody" if ctx.user is None else str(ctx.user.subject))

    def needed(self: Any, name: str, params: Any) -> list[str]:
        return ["write"] if name == "call_tool" and params.name == "write" else []

    mcp_server = server or server_of(rev, call_tool=call_tool)
    if server is None:
        type(mcp_server).scopes = needed
        mcp_server = type(mcp_server)(name="served", version="1")
    if not real:
        app = mcp_server.asgi(
            revisions=[rev.id], path="/mcp", auth=resource_server_for("http://localhost/mcp"), **settings
        )
        async with asking(app) as http:
            yield Endpoint("http://localhost/mcp", rev, http, ran)
        await app.close()
        return
    with listen("127.0.0.1", 0) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        app = mcp_server.asgi(revisions=[rev.id], path="/mcp", auth=resource_server_for(url), **settings)
        running = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        serving = asyncio.create_task(running.serve([bound]))
        try:
            async with httpx2.AsyncClient(timeout=20, trust_env=False) as http:
                yield Endpoint(url, rev, http, ran)
        finally:
            await app.close()
            running.should_exit = True
            await serving


def challenge(answer: httpx2.Response, scheme: str = "bearer") -> dict[str, str]:
    """The challenge of an answer, as a client reads it."""
    return dict(parse_challenges(", ".join(answer.headers.get_list("www-authenticate")))[scheme])


def proof(
    key: ECKey | RSAKey, method: str, url: str, token: str, head: dict[str, Any] | None = None, **claims: Any
) -> str:
    """A good proof, but for what is said; a claim that is None is left out."""
    payload = {
        "jti": str(time.monotonic_ns()),
        "htm": method,
        "htu": url,
        "iat": int(time.time()),
        "ath": urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode(),
        **claims,
    }
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False), **(head or {})}
    claims_set = {name: value for name, value in payload.items() if value is not None}
    if header["alg"] == "none":
        return unsigned(header, claims_set)
    return jwt.encode(header, claims_set, key, algorithms=[header["alg"]], registry=_any(header["alg"]))


def others(issuer: Authority, url: str) -> dict[str, tuple[str | None, int]]:
    """Who shows the id of a session of alice's, and what they get."""
    return {
        "another user": (issuer.token(url, sub="bob"), 404),
        "alice with another program": (issuer.token(url, client_id="other"), 404),
        "a program of its own": (issuer.token(url, sub=None), 404),
        "nobody": (None, 401),
        "alice, whose token has ended": (issuer.token(url, exp=1), 401),
        "alice, with a new token": (issuer.token(url, scope="more", jti="2"), 200),
    }
