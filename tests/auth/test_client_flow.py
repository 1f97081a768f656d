"""A client that authorizes itself, against servers of HTTP that are real and, some of them, hostile."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit
from urllib.request import urlopen

import httpx2
import pytest

from mcp_runtime.auth.browser import Browser
from mcp_runtime.auth.grants import AuthorizationCode, ClientCredentials, with_query
from mcp_runtime.auth.oauth import OAuth
from mcp_runtime.auth.store import InFile, Kept, Registered, Token
from mcp_runtime.errors import NotAuthorized

Reply = tuple[int, dict[str, str], Any]
REDIRECT = "http://127.0.0.1:7/callback"


class World(ThreadingHTTPServer):
    """A resource and its authorization server at one origin. `replies` stand in for what it says at a path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.replies: dict[str, Reply] = {}
        self.valid = "none yet"
        self.given = 0
        self.codes: dict[str, str] = {}
        self.lasts = 3600

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

    def reply(self, path: str, said: dict[str, str], bearer: str) -> Reply:
        if path in self.replies:
            return self.replies[path]
        match path:
            case "/mcp":
                return (
                    (200, {}, "in") if bearer == f"Bearer {self.valid}" else (401, {"www-authenticate": "Bearer"}, "")
                )
            case "/.well-known/oauth-protected-resource/mcp":
                return 200, {}, {"resource": f"{self.origin}/mcp", "authorization_servers": [self.origin]}
            case "/.well-known/oauth-authorization-server":
                return 200, {}, self.metadata
            case "/register":
                return 201, {}, {"client_id": "registered"}
            case "/authorize":
                self.codes["code"] = said["code_challenge"]
                return 302, {"location": f"{said['redirect_uri']}?code=code&state={said['state']}"}, ""
            case "/token":
                return self.token(said)
            case _:
                return 404, {}, ""

    def token(self, said: dict[str, str]) -> Reply:
        if said["grant_type"] == "authorization_code":
            digest = sha256(said["code_verifier"].encode()).digest()
            if self.codes.pop(said["code"], "") != urlsafe_b64encode(digest).rstrip(b"=").decode():
                return 400, {}, {"error": "invalid_grant"}
        elif said["grant_type"] == "refresh_token" and said["refresh_token"] != f"refresh-{self.given}":
            return 400, {}, {"error": "invalid_grant"}
        self.given += 1
        self.valid = f"secret-{self.given}"
        more = {"refresh_token": f"refresh-{self.given}", "expires_in": self.lasts}
        return 200, {}, {"access_token": self.valid, "token_type": "bearer", **more}

    def asked(self, path: str) -> list[dict[str, str]]:
        return [said for _, at, said in self.seen if at == path]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        world = self.server
        assert isinstance(world, World)
        at = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        said = json.loads(body) if body.startswith("{") else dict(parse_qsl(f"{at.query}&{body}"))
        world.seen.append((self.command, at.path, said))
        status, headers, answer = world.reply(at.path, said, self.headers.get("authorization", ""))
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def world() -> Iterator[World]:
    server = World()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def visit(url: str) -> str:
    async with httpx2.AsyncClient() as browser:
        return (await browser.get(url, follow_redirects=False)).headers["location"]


def get(world: World, auth: OAuth, times: int = 1, at: str = "") -> list[int]:
    async def run() -> list[int]:
        async with httpx2.AsyncClient(auth=auth) as client:
            return [(await client.get(at or f"{world.origin}/mcp")).status_code for _ in range(times)]

    return asyncio.run(run())


def person(world: World, by: Callable[[str], Awaitable[str]] = visit, **settings: Any) -> OAuth:
    return OAuth(f"{world.origin}/mcp", AuthorizationCode(by, REDIRECT), **settings)


def test_a_person_agrees_once_and_the_token_is_used_from_then_on(world: World) -> None:
    assert get(world, person(world), times=3) == [200, 200, 200]
    assert len(world.asked("/authorize")) == len(world.asked("/token")) == 1
    [asked], [redeemed] = world.asked("/authorize"), world.asked("/token")
    assert asked["resource"] == redeemed["resource"] == f"{world.origin}/mcp"


def test_a_token_that_ends_is_refreshed_and_the_refresh_token_rotates(world: World) -> None:
    world.lasts = 1
    assert get(world, person(world), times=3) == [200, 200, 200]
    used = [each["refresh_token"] for each in world.asked("/token") if each["grant_type"] == "refresh_token"]
    assert used == ["refresh-1", "refresh-2"]
    assert len(world.asked("/authorize")) == 1


def test_a_token_is_kept_for_a_later_process_and_only_its_owner_reads_it(world: World, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    assert get(world, person(world, storage=InFile(path))) == [200]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert get(world, person(world, storage=InFile(path))) == [200]
    assert len(world.asked("/authorize")) == len(world.asked("/register")) == 1
    assert os.listdir(tmp_path) == ["tokens.json"]


def test_a_browser_comes_back_to_this_machine(world: World) -> None:
    browser = Browser(patience=60, open_url=lambda url: urlopen(url, timeout=30).read())
    try:
        assert get(world, OAuth(f"{world.origin}/mcp", AuthorizationCode(browser, browser.redirect))) == [200]
    finally:
        browser.close()


def test_a_token_goes_to_no_other_origin(world: World) -> None:
    auth = person(world)
    assert get(world, auth) == [200]
    assert get(world, auth, at=f"http://localhost:{world.server_port}/mcp") == [401]


OTHER = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
HOSTILE: dict[str, tuple[str, Reply]] = {
    "metadata is a redirect": (OTHER, (302, {"location": "http://127.0.0.1:9/"}, "")),
    "metadata is no JSON": (OTHER, (200, {}, "<html>")),
    "metadata is a list": (OTHER, (200, {}, [1])),
    "metadata is nested without end": (OTHER, (200, {}, "[" * 100_000)),
    "metadata is too long": (OTHER, (200, {}, " " * 300_000)),
    "metadata breaks": (OTHER, (500, {}, "")),
    "there is no metadata": (OTHER, (404, {}, "")),
    "the resource is a redirect": (RESOURCE, (307, {"location": "http://169.254.169.254/"}, "")),
    "the resource is another": (
        RESOURCE,
        (200, {}, {"resource": "https://evil.example", "authorization_servers": ["https://a.example"]}),
    ),
    "the 401 names an inner address": (
        "/mcp",
        (401, {"www-authenticate": 'Bearer resource_metadata="http://169.254.169.254/x"'}, ""),
    ),
    "the 401 names a file": ("/mcp", (401, {"www-authenticate": 'Bearer resource_metadata="file:///etc/passwd"'}, "")),
    "registration says no": ("/register", (400, {}, {"error": "invalid_redirect_uri"})),
    "registration gives no id": ("/register", (201, {}, {"client_id": 7})),
}


@pytest.mark.parametrize(("path", "reply"), HOSTILE.values(), ids=HOSTILE)
def test_nobody_is_sent_anywhere_by_what_a_hostile_server_says(world: World, path: str, reply: Reply) -> None:
    world.replies[path] = reply
    with pytest.raises(NotAuthorized):
        get(world, person(world))
    assert not world.asked("/authorize") and not world.asked("/token")


@pytest.mark.parametrize(
    "token",
    [
        {"access_token": "secret\r\nx: y", "token_type": "bearer"},
        {"access_token": "secret", "token_type": "mac"},
        {"access_token": "secret"},
        {"token_type": "bearer"},
        {"access_token": ["secret"], "token_type": "bearer"},
        ["secret"],
    ],
)
def test_a_token_that_is_none_is_not_used_nor_told(world: World, token: Any) -> None:
    world.replies["/token"] = (200, {}, token)
    with pytest.raises(NotAuthorized) as caught:
        get(world, person(world))
    assert "secret" not in str(caught.value)


def test_a_server_that_wants_a_bound_token_gets_no_other(world: World) -> None:
    with pytest.raises(NotAuthorized, match="another type"):
        get(world, person(world, bound=True))


def test_an_answer_to_another_request_is_not_redeemed(world: World) -> None:
    async def injected(url: str) -> str:
        return f"{REDIRECT}?code=stolen&state=guessed"

    with pytest.raises(NotAuthorized, match="state"):
        get(world, person(world, injected))
    assert not world.asked("/token")


def test_a_client_that_is_known_elsewhere_is_not_shown_to_another_issuer(world: World) -> None:
    known = Registered("id", "secret", issuer="https://as.example")
    with pytest.raises(NotAuthorized, match="another issuer"):
        get(world, OAuth(f"{world.origin}/mcp", ClientCredentials(known)))
    assert not world.asked("/token")


def test_an_issuer_that_is_not_in_the_list_is_not_asked(world: World) -> None:
    with pytest.raises(NotAuthorized, match="trusted"):
        get(world, person(world, issuers=["https://as.example"]))
    assert not world.asked(OTHER)


def test_a_token_that_is_never_taken_is_not_asked_for_without_end(world: World) -> None:
    world.replies["/mcp"] = (401, {"www-authenticate": "Bearer"}, "")
    assert get(world, person(world)) == [401]
    assert len(world.asked("/authorize")) == 1


def test_an_endpoint_does_not_say_what_is_the_client_s_to_say() -> None:
    assert parse_qs(urlsplit(with_query("https://a.example/x?tenant=1", {"state": "s"})).query)["tenant"] == ["1"]
    with pytest.raises(NotAuthorized):
        with_query("https://a.example/x?redirect_uri=https://evil.example", {"redirect_uri": "mine"})


def test_a_repr_has_no_secret() -> None:
    kept = Kept("https://as.example", Registered("id", "secret", key="secret"), Token("secret", refresh="secret"))
    assert "'secret'" not in repr(kept)
    with pytest.raises(NotAuthorized):
        OAuth("http://mcp.example/mcp", ClientCredentials(Registered("id", "secret")))
