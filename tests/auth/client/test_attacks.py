"""Servers that want a client to ask somewhere else, to say more than it should, to wait, or to ask without end."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from support.auth.client_servers import (
    METADATA,
    REDIRECT,
    RESOURCE,
    Reply,
    World,
    looks,
    reach,
    served,
    statuses,
    town,
    visit,
)
from support.clients import connect

from mcp_products.auth import http as asking
from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.http import AuthHTTPClient, URLPolicy
from mcp_runtime.errors import AuthorizationError, MCPError


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


@pytest.fixture
def other() -> Iterator[World]:
    """Somebody else, who is not to be asked anything."""
    with served(World()) as running:
        yield running


# ---- where a client is sent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "①②⑦.⓪.⓪.①", "0"])
@pytest.mark.parametrize("method", ["get", "post_json"])
async def test_an_address_in_disguise_is_the_address_it_is(host: str, method: str) -> None:
    call = getattr(AuthHTTPClient(URLPolicy()), method)
    with pytest.raises(AuthorizationError):
        await (call(f"https://{host}/token") if method == "get" else call(f"https://{host}/token", {"code": "s3cret"}))


async def test_a_name_is_looked_up_once_and_what_was_judged_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is judged, and leads to this machine when it is connected to."""
    looked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as inner:
        port = inner.getsockname()[1]

        async def look_up(self: object, host: str, *rest: Any, **more: Any) -> Any:
            looked.append(host)
            address = "127.0.0.1" if len(looked) > 1 else "192.0.2.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", look_up)
        monkeypatch.setattr(asking, "_TIMEOUT", 0.5)
        for policy in (URLPolicy(), URLPolicy(private=frozenset({f"https://rebind.example:{port}"}))):
            looked.clear()
            with pytest.raises(AuthorizationError):
                await AuthHTTPClient(policy).get(f"https://rebind.example:{port}/")
            assert [host for host in looked if host == "rebind.example"] == ["rebind.example"]
        inner.settimeout(0)
        with pytest.raises(BlockingIOError):
            inner.accept()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["/token", "/register", METADATA, RESOURCE])
def test_no_redirect_takes_a_code_or_a_secret_elsewhere(path: str, status: int, world: World, other: World) -> None:
    world.replies[path] = (status, {"location": f"{other.origin}{path}"}, "")
    with pytest.raises(AuthorizationError):
        statuses(world)
    assert not other.seen


async def test_a_token_does_not_follow_the_endpoint_to_another_origin(other: World) -> None:
    async with town() as world:
        async with connect(world.url, http=reach(world)) as client:
            await looks(client)
            for status in (301, 302, 303, 307, 308):
                world.replies["/mcp"] = (status, {"location": other.url}, "")
                with pytest.raises(MCPError):
                    await looks(client)
            world.replies["/mcp"] = (307, {"location": world.url}, "")  # A redirect to itself ends.
            with pytest.raises(MCPError, match="more than 5 redirects"):
                await looks(client)
            del world.replies["/mcp"]
    assert not other.seen


INNER = ["http://169.254.169.254/token", "https://169.254.169.254/token", "https://[::ffff:169.254.169.254]/token"]
INNER += ["http://evil.example/token", "https://10.0.0.1/token", "file:///etc/passwd", "javascript:alert(1)"]


@pytest.mark.parametrize("endpoint", ["token_endpoint", "authorization_endpoint", "registration_endpoint"])
@pytest.mark.parametrize("url", INNER)
def test_metadata_that_names_an_unsafe_endpoint_is_not_used_at_all(endpoint: str, url: str, world: World) -> None:
    world.replies[METADATA] = (200, {}, {**world.metadata, endpoint: url})
    with pytest.raises(AuthorizationError):
        statuses(world)
    assert not world.params_of("/register") and not world.params_of("/authorize") and not world.params_of("/token")


@pytest.mark.parametrize(
    "change",
    [
        {"code_challenge_methods_supported": None},
        {"code_challenge_methods_supported": []},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": ["s256", "S-256"]},
        {"authorization_response_iss_parameter_supported": True},
        {"authorization_endpoint": None},
        {"token_endpoint": None},
        {"issuer": "https://evil.example"},
        {"registration_endpoint": None},
    ],
)
def test_nothing_is_redeemed_at_a_server_that_could_not_keep_it_safe(change: dict[str, Any], world: World) -> None:
    world.replies[METADATA] = (200, {}, {**world.metadata, **change})
    with pytest.raises(AuthorizationError):
        statuses(world)
    assert not world.params_of("/token")


@pytest.mark.parametrize("iss", ["https://evil.example", "{origin}/", "{origin}:443", "", "{ORIGIN}"])
def test_a_code_that_another_issuer_sent_is_not_redeemed(iss: str, world: World) -> None:
    issuer = iss.format(origin=world.origin, ORIGIN=world.origin.upper())

    async def mixed_up(url: str) -> str:
        state = httpx2.URL(url).params["state"]
        return f"{REDIRECT}?code=code&state={state}&iss={issuer}"

    with pytest.raises(AuthorizationError):
        statuses(world, grant=AuthorizationCode(mixed_up, REDIRECT))
    assert not world.params_of("/token")


def test_every_login_has_a_state_and_a_verifier_of_its_own_and_names_the_resource_as_it_names_itself(
    world: World,
) -> None:
    name = f"{world.origin}/"
    world.replies[RESOURCE] = (200, {}, {"resource": name, "authorization_servers": [world.origin]})
    for _ in range(3):
        assert statuses(world) == [200]
    authorizations, redeemed = world.params_of("/authorize"), world.params_of("/token")
    for field, requests in (("state", authorizations), ("code_challenge", authorizations), ("code_verifier", redeemed)):
        assert (
            len({request[field] for request in requests}) == 3
            and min(len(request[field]) for request in requests) >= 43
        )
    assert {request["resource"] for request in (*authorizations, *redeemed)} == {name}


# ---- what takes too long or is too much ------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"])
async def test_a_server_that_never_finishes_is_waited_for_no_longer_than_allowed(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_TIMEOUT", 0.2)
    over = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        with suppress(OSError):
            await writer.drain()
        await over.wait()
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(AuthorizationError, match=f"GET {origin}/: .*(Timeout|TimeoutError)"):
            await AuthHTTPClient(URLPolicy(local=True)).get(f"{origin}/")
        over.set()


def body_of(kind: str) -> tuple[dict[str, str], bytes]:
    match kind:
        case "a packed one":
            return {"content-encoding": "gzip"}, gzip.compress(b'{"issuer": "' + b"x" * 10_000_000 + b'"}')
        case "UTF-16":
            return {}, '{"issuer": "x"}'.encode("utf-16")
        case "NaN":
            return {}, b'{"issuer": NaN}'
        case "half a character":
            return {}, b'{"issuer": "\xff"}'
        case "a number without end":
            return {}, b'{"issuer": ' + b"9" * 200_000 + b"}"
        case _:
            return {}, b'{"a":' * 50_000


KINDS = ["a packed one", "UTF-16", "NaN", "half a character", "a number without end", "a depth without end"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", [RESOURCE, METADATA, "/token", "/register"])
def test_what_is_no_plain_json_is_refused(kind: str, path: str, world: World) -> None:
    headers, body = body_of(kind)
    world.replies[path] = (200, headers, body)
    with pytest.raises(AuthorizationError):
        statuses(world)


@pytest.mark.parametrize("lasts", [-1, 10**30, 1e300, True, "3600", [], None])
def test_a_strange_lifetime_of_a_token_is_none(lasts: Any, world: World) -> None:
    world.valid = "t"
    world.replies["/token"] = (200, {}, {"access_token": "t", "token_type": "bearer", "expires_in": lasts})
    assert statuses(world) == [200]


# ---- without end -----------------------------------------------------------------------------------------------------


def test_a_server_that_wants_ever_more_scopes_gets_a_few_logins_and_no_more() -> None:
    class Greedy(World):
        def respond(self, method: str, target: str, headers: dict[str, str], body: str) -> Reply:
            reply = super().respond(method, target, headers, body)
            if reply[2] != "in":
                return reply
            scope = f"more-{len(self.seen)}"
            return 403, {"www-authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}, ""

    with served(Greedy()) as greedy:
        assert statuses(greedy) == [403]
        assert 2 <= len(greedy.params_of("/authorize")) <= 5
        held = [set(request.get("scope", "").split()) for request in greedy.params_of("/authorize")]
        assert all(before <= after for before, after in itertools.pairwise(held))


def test_a_server_that_asks_again_for_what_it_was_given_gets_one_login(world: World) -> None:
    async def run() -> list[int]:
        auth = OAuthClientProvider(world.url, AuthorizationCode(visit, REDIRECT))
        async with httpx2.AsyncClient(auth=auth, verify=False) as web:
            answers = [await web.get(world.url)]
            world.replies["/mcp"] = (403, {"www-authenticate": 'Bearer error="insufficient_scope", scope="a"'}, "")
            return [answer.status_code for answer in (*answers, await web.get(world.url), await web.get(world.url))]

    assert asyncio.run(run()) == [200, 403, 403]
    assert [request.get("scope") for request in world.params_of("/authorize")] == [None, "a"]


@pytest.mark.parametrize("where", ["/token", "/mcp"])
def test_a_server_that_wants_ever_new_nonces_is_asked_a_few_times(where: str) -> None:
    class Nonces(World):
        def respond(self, method: str, target: str, headers: dict[str, str], body: str) -> Reply:
            status, more, answer = super().respond(method, target, headers, body)
            nonce = {"dpop-nonce": f"nonce-{len(self.seen)}"}
            if target == "/token" and where == "/token":
                return 400, nonce, {"error": "use_dpop_nonce"}
            if target == "/token":
                return 200, nonce, {"access_token": "t", "token_type": "DPoP"}
            if target == "/mcp":
                return 401, {**nonce, "www-authenticate": 'DPoP error="use_dpop_nonce"'}, ""
            return status, more, answer

    with served(Nonces()) as nonces:
        if where == "/token":
            with pytest.raises(AuthorizationError, match="use_dpop_nonce"):
                statuses(nonces)
        else:
            assert statuses(nonces) == [401]
        assert len(nonces.params_of("/token")) <= 4 and len(nonces.params_of("/mcp")) <= 4
