"""Users of an authorization server: a person at a browser, and a client that knows the protocol."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import uvicorn

from mcp_products.auth.authorization_server.app import AuthorizationServer
from mcp_products.auth.authorization_server.http import HTTPRequest
from mcp_products.hosting.run import listen

ISSUER = "https://auth.example"
RESOURCE = "https://mcp.example/mcp"
REDIRECT = "https://client.example/callback"
VERIFIER = "a-verifier-of-some-length-that-nobody-else-knows-0123"


def challenge_of(verifier: str) -> str:
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class Header:
    """A sign-in by which a browser is whoever its header says."""

    async def current_user(self, request: HTTPRequest) -> str | None:
        return request.headers.get("x-user")

    def login_url(self, return_to: str) -> str:
        return f"/login?{urlencode({'back': return_to})}"


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


def house(**settings: Any) -> AuthorizationServer:
    """An authorization server with usual settings."""
    defaults: dict[str, Any] = {
        "resources": [RESOURCE],
        "scopes": ("read", "write"),
        "login": Header(),
        "client_id_metadata_documents": False,
    }
    return AuthorizationServer(settings.pop("issuer", ISSUER), **{**defaults, **settings})


class Person:
    """A person's browser, with cookies of its own, signed in as `user`."""

    def __init__(self, server: Any, user: str = "ada", issuer: str = ISSUER) -> None:
        transport = httpx2.ASGITransport(app=server)
        self.issuer = issuer
        self.web = httpx2.AsyncClient(transport=transport, base_url=issuer, headers={"x-user": user} if user else {})

    async def request_authorization(self, **params: str) -> httpx2.Response:
        """Open the authorization endpoint."""
        return await self.web.get(f"{self.issuer}/authorize", params=params)

    async def decides(self, page: httpx2.Response, decision: str = "allow", **headers: str) -> httpx2.Response:
        """Press a button on the page of consent."""
        form = {"ticket": ticket_of(page), "decision": decision}
        return await self.web.post(action_of(page), data=form, headers={"origin": self.issuer, **headers})

    async def allows(self, **params: str) -> dict[str, str]:
        """Ask, allow, and say with what the browser was sent back."""
        return answer_of(await self.decides(await self.request_authorization(**params)))


class Program:
    """A client that registered itself, or is known."""

    def __init__(self, server: Any, id: str = "", secret: str | None = None, issuer: str = ISSUER) -> None:
        self.web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server), base_url=issuer)
        self.id = id
        self.secret = secret

    @classmethod
    async def registered(cls, server: Any, redirect: str = REDIRECT, **metadata: Any) -> Program:
        program = cls(server)
        answer = await program.registers(redirect_uris=[redirect], **metadata)
        assert answer.status_code == 201, answer.text
        registration = answer.json()
        program.id = registration["client_id"]
        program.secret = registration.get("client_secret")
        return program

    async def registers(self, **metadata: Any) -> httpx2.Response:
        defaults = {"token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"]}
        return await self.web.post("/register", json={**defaults, **metadata})

    def authorization_params(self, redirect: str = REDIRECT, **more: str) -> dict[str, str]:
        """The parameters of an authorization request."""
        return {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": redirect,
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "state": "a state",
            **more,
        }

    async def posts(self, path: str, headers: Mapping[str, str] | None = None, **form: str) -> httpx2.Response:
        shown = {"client_id": self.id} if self.secret is None else {"client_id": self.id, "client_secret": self.secret}
        data = {name: value for name, value in {**shown, **form}.items() if value}
        return await self.web.post(path, data=data, headers=headers)

    async def redeems(self, code: str, **other: str) -> httpx2.Response:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "code_verifier": VERIFIER}
        return await self.posts("/token", **{**form, **other})

    async def refreshes(self, token: str, **other: str) -> httpx2.Response:
        return await self.posts("/token", **{"grant_type": "refresh_token", "refresh_token": token, **other})


async def tokens(server: Any, program: Program, person: Person | None = None, **more: str) -> dict[str, Any]:
    """What a client has once the person agreed."""
    redirect_params = await (person or Person(server)).allows(**program.authorization_params(**more))
    answer = await program.redeems(redirect_params["code"])
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ticket_of(page: httpx2.Response) -> str:
    match = re.search(r'name="ticket" value="([^"]*)"', page.text)
    assert match, page.text
    return unescape(match[1])


def action_of(page: httpx2.Response) -> str:
    match = re.search(r'action="([^"]*)"', page.text)
    assert match, page.text
    return unescape(match[1])


def onward(response: httpx2.Response) -> str:
    """Where the browser goes next: by a redirect, or by a page that goes on by itself."""
    if response.status_code == 303:
        return str(response.headers["location"])
    match = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', response.text)
    assert match and response.status_code == 200, response.text
    return unescape(match[1])


def answer_of(response: httpx2.Response) -> dict[str, str]:
    """What the query of the URL says, to which the browser goes next."""
    return dict(parse_qsl(urlsplit(onward(response)).query, keep_blank_values=True))


def error_of(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, str(json.loads(response.content)["error"])


@asynccontextmanager
async def serving(app: Any, port: int = 0) -> AsyncIterator[str]:
    """The origin at which uvicorn serves an application, or one that is made for its origin."""
    with listen("127.0.0.1", port) as bound:
        origin = f"http://127.0.0.1:{bound.getsockname()[1]}"
        application = app(origin) if inspect.isfunction(app) else app
        server = uvicorn.Server(uvicorn.Config(application, log_level="error", lifespan="off"))
        task = asyncio.create_task(server.serve([bound]))
        try:
            yield origin
        finally:
            server.should_exit = True
            await task


Attack = Callable[[AuthorizationServer, Program], Awaitable[None]]


def on_a_server(attack: Attack, **settings: Any) -> None:
    """Run an attack on a server with one client, which nobody has anything against."""

    async def run() -> None:
        server = house(**settings)
        await attack(server, await Program.registered(server))

    asyncio.run(run())


async def code(server: AuthorizationServer, program: Program, **more: str) -> str:
    return (await Person(server).allows(**program.authorization_params(**more)))["code"]
