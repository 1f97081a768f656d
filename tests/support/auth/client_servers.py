"""What a protected server and its authorization server say goes in; they are served, at one origin, over real HTTP, and
those who ask them log in."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
from support.http.sockets import listening

from mcp_generated import v2025_11_25
from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_runtime.transports.http_client.connection import HTTPOptions

Reply = tuple[int, dict[str, str], Any]
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")  # Those that have authorization.
REDIRECT = "http://127.0.0.1:7/callback"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


@dataclass
class Got:
    """A request as it came; `said` is its query with its form, or its JSON."""

    method: str
    path: str
    query: str
    params: dict[str, str]
    headers: dict[str, str]


@dataclass
class World:
    """A resource and its authorization server. `replies` stand in for what it says at a path; `protects` tells whether
    it has metadata of the
    resource, as later revisions have it; `refusal` is what those get who have no token that is `valid`."""

    origin: str = ""
    protects: bool = True
    lasts: float = 3600
    refusal: Reply = (401, {"www-authenticate": "Bearer"}, "")
    replies: dict[str, Reply] = field(default_factory=dict)
    seen: list[Got] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    valid: str = "none yet"
    issued: int = 0

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.origin,
            "token_endpoint": f"{self.origin}/token",
            "authorization_endpoint": f"{self.origin}/authorize",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        }

    def params_of(self, path: str) -> list[dict[str, str]]:
        return [request.params for request in self.seen if request.path == path]

    def respond(self, method: str, target: str, headers: dict[str, str], body: str) -> Reply:
        at = urlsplit(target)
        params = json.loads(body) if body.startswith("{") else dict(parse_qsl(f"{at.query}&{body}"))
        got = Got(method, at.path, at.query, params, headers)
        self.seen.append(got)
        return self.replies.get(at.path) or self._default_reply(got)

    def _default_reply(self, got: Got) -> Reply:
        params = got.params
        match got.path:
            case "/mcp":
                return (200, {}, "in") if got.headers.get("authorization") == f"Bearer {self.valid}" else self.refusal
            case path if path == RESOURCE and self.protects:
                return 200, {}, {"resource": self.url, "authorization_servers": [self.origin]}
            case path if path == METADATA:
                return 200, {}, self.metadata
            case "/register":
                return 201, {}, {"client_id": "registered"}
            case "/authorize":
                self.codes["code"] = params["code_challenge"]
                return 302, {"location": f"{params['redirect_uri']}?code=code&state={params['state']}"}, ""
            case "/token":
                return self._token(params)
            case _:
                return 404, {}, ""

    def _token(self, params: dict[str, str]) -> Reply:
        if params["grant_type"] == "authorization_code":
            digest = sha256(params["code_verifier"].encode()).digest()
            if self.codes.pop(params["code"], "") != urlsafe_b64encode(digest).rstrip(b"=").decode():
                return 400, {}, {"error": "invalid_grant"}
        elif params["grant_type"] == "refresh_token" and params["refresh_token"] != f"refresh-{self.issued}":
            return 400, {}, {"error": "invalid_grant"}
        self.issued += 1
        self.valid = f"secret-{self.issued}"
        more = {"refresh_token": f"refresh-{self.issued}", "expires_in": self.lasts}
        return 200, {}, {"access_token": self.valid, "token_type": "bearer", **more}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, world: World) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world = world


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, more, answer = server.world.respond(self.command, self.path, headers, body)
        content = _bytes(answer)
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(world: World) -> Iterator[World]:
    """The world, where everything is said by itself."""
    server = _Server(world)
    world.origin = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Front:
    """An application that lets those with a token through to another one; all the rest is said by the world."""

    def __init__(self, world: World, app: Any) -> None:
        self._world = world
        self._app = app
        self.close = app.close

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        first = await receive()
        while first.get("more_body"):
            more = await receive()
            first = {**more, "body": first["body"] + more.get("body", b"")}
        target, body = f"{scope['path']}?{scope['query_string'].decode()}", first.get("body", b"").decode()
        status, fields, answer = self._world.respond(scope["method"], target, headers, body)
        if answer != "in":
            content = _bytes(answer)
            raw = [(name.encode(), value.encode()) for name, value in fields.items()]
            await send({"type": "http.response.start", "status": status, "headers": raw})
            await send({"type": "http.response.body", "body": content})
            return
        messages = [first]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)


@asynccontextmanager
async def protecting(world: World, app: Any) -> AsyncIterator[World]:
    """The world around a real MCP server, an ASGI application at /mcp."""
    async with listening(_Front(world, app)) as port:
        world.origin = f"http://127.0.0.1:{port}"
        yield world


def _bytes(answer: Any) -> bytes:
    if isinstance(answer, bytes):
        return answer
    return answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()


async def visit(url: str) -> str:
    """What a browser comes back to, where a person agrees at once."""
    async with httpx2.AsyncClient(verify=False) as browser:
        return (await browser.get(url, follow_redirects=False)).headers["location"]


class Looking(v2025_11_25.Server):
    """Has one tool."""

    async def list_tools(self, ctx: Any, params: Any) -> v2025_11_25.types.ListToolsResult:
        tool = v2025_11_25.types.Tool(name="look", input_schema=v2025_11_25.types.ToolInputSchema())
        return v2025_11_25.types.ListToolsResult(tools=[tool])


@asynccontextmanager
async def town(*revisions: str, **settings: Any) -> AsyncIterator[World]:
    """A world around a server of these revisions."""
    app = Looking(name="looking", version="1").asgi(revisions=revisions or REVISIONS)
    async with protecting(World(**settings), app) as world:
        yield world


def reach(world: World, **settings: Any) -> HTTPOptions:
    return HTTPOptions(auth=OAuthClientProvider(world.url, AuthorizationCode(visit, REDIRECT), **settings))


async def looks(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


def statuses(world: World, times: int = 1, grant: Any = None, **settings: Any) -> list[int]:
    """The answers to so many requests at once."""

    async def run() -> list[int]:
        auth = OAuthClientProvider(world.url, grant or AuthorizationCode(visit, REDIRECT), **settings)
        async with httpx2.AsyncClient(auth=auth, verify=False) as client:
            answers = await asyncio.gather(*(client.get(world.url) for _ in range(times)))
            return [answer.status_code for answer in answers]

    return asyncio.run(run())
