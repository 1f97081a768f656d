"""A client that authorizes itself, against servers of HTTP that are real and, some of them, hostile."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import httpx2
import pytest
from support.auth.client_servers import METADATA, REDIRECT, RESOURCE, Reply, World, served, visit

from mcp_products.auth.client.browser import LoopbackBrowser
from mcp_products.auth.client.grants import AuthorizationCode, ClientCredentials, with_query
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import (
    FileTokenStorage,
    InMemoryTokenStorage,
    OAuthClientInformation,
    OAuthToken,
    StoredCredentials,
)
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


def get(world: World, auth: OAuthClientProvider, times: int = 1, at: str = "") -> list[int]:
    async def run() -> list[int]:
        async with httpx2.AsyncClient(auth=auth, verify=False) as client:
            return [(await client.get(at or world.url)).status_code for _ in range(times)]

    return asyncio.run(run())


def person(world: World, by: Callable[[str], Awaitable[str]] = visit, **settings: Any) -> OAuthClientProvider:
    return OAuthClientProvider(world.url, AuthorizationCode(by, REDIRECT), **settings)


def test_a_person_agrees_once_and_the_token_is_used_from_then_on(world: World) -> None:
    assert get(world, person(world), times=3) == [200, 200, 200]
    assert len(world.params_of("/authorize")) == len(world.params_of("/token")) == 1
    [authorization], [redeemed] = world.params_of("/authorize"), world.params_of("/token")
    assert authorization["resource"] == redeemed["resource"] == world.url


def test_a_token_that_ends_is_refreshed_and_the_refresh_token_rotates(world: World) -> None:
    world.lasts = 0.000_001
    assert get(world, person(world), times=3) == [200, 200, 200]
    used = [
        request["refresh_token"] for request in world.params_of("/token") if request["grant_type"] == "refresh_token"
    ]
    assert used == ["refresh-1", "refresh-2"]
    assert len(world.params_of("/authorize")) == 1


def test_a_token_is_kept_for_a_later_process_and_only_its_owner_reads_it(world: World, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    assert get(world, person(world, storage=FileTokenStorage(path))) == [200]
    assert sys.platform == "win32" or stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert get(world, person(world, storage=FileTokenStorage(path))) == [200]
    assert len(world.params_of("/authorize")) == len(world.params_of("/register")) == 1
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".lock")] == ["tokens.json"]


def test_a_browser_comes_back_to_this_machine(world: World) -> None:
    browser = LoopbackBrowser(open_url=lambda url: urlopen(url, timeout=30).read())
    try:
        assert get(world, OAuthClientProvider(world.url, AuthorizationCode(browser, browser.redirect_uri))) == [200]
    finally:
        browser.close()


def test_responses_without_an_issuer_come_back_at_a_path_of_their_own(world: World) -> None:
    def registered() -> tuple[str, str]:
        with closing(LoopbackBrowser(open_url=lambda url: urlopen(url, timeout=30).read())) as browser:
            auth = OAuthClientProvider(world.url, AuthorizationCode(browser, browser.redirect_uri))
            with suppress(AuthorizationError):  # With `iss` announced, the world's response without one is refused.
                assert get(world, auth) == [200]
            return browser.redirect_uri, world.params_of("/register")[-1]["redirect_uris"][0]

    base, used = registered()
    assert used.startswith(f"{base}/") and len(used.removeprefix(f"{base}/")) == 16
    assert {params["redirect_uri"] for path in ("/authorize", "/token") for params in world.params_of(path)} == {used}
    world.replies[METADATA] = (200, {}, {**world.metadata, "authorization_response_iss_parameter_supported": True})
    base, used = registered()
    assert used == base


@pytest.mark.clause("draft/authorization/23")
def test_a_token_goes_to_no_other_origin(world: World) -> None:
    auth = person(world)
    assert get(world, auth) == [200]
    assert get(world, auth, at=world.url.replace("127.0.0.1", "localhost")) == [401]


HOSTILE: dict[str, tuple[str, Reply]] = {
    "metadata is a redirect": (METADATA, (302, {"location": "http://127.0.0.1:9/"}, "")),
    "metadata is not JSON": (METADATA, (200, {}, "<html>")),
    "metadata is a list": (METADATA, (200, {}, [1])),
    "metadata is nested without end": (METADATA, (200, {}, "[" * 100_000)),
    "metadata is too long": (METADATA, (200, {}, " " * 300_000)),
    "metadata breaks": (METADATA, (500, {}, "")),
    "there is no metadata": (METADATA, (404, {}, "")),
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
@pytest.mark.advisory("CVE-2025-6514")
def test_nobody_is_sent_anywhere_by_what_a_hostile_server_says(world: World, path: str, reply: Reply) -> None:
    world.replies[path] = reply
    with pytest.raises(AuthorizationError):
        get(world, person(world))
    assert not world.params_of("/authorize") and not world.params_of("/token")


@pytest.mark.parametrize(
    "token",
    [
        {"access_token": "secret\r\nx: y", "token_type": "bearer"},
        {"access_token": "secret", "token_type": "mac"},
        {"token_type": "bearer"},
        {"access_token": ["secret"], "token_type": "bearer"},
        ["secret"],
    ],
)
def test_a_token_that_is_none_is_not_used_nor_told(world: World, token: Any) -> None:
    world.replies["/token"] = (200, {}, token)
    with pytest.raises(AuthorizationError) as caught:
        get(world, person(world))
    assert "secret" not in str(caught.value)


def test_a_server_that_wants_a_bound_token_gets_no_other(world: World) -> None:
    with pytest.raises(AuthorizationError, match="another type"):
        get(world, person(world, dpop=True))


@pytest.mark.clause("draft/authorization/39")
def test_an_answer_to_another_request_is_not_redeemed(world: World) -> None:
    async def injected(url: str) -> str:
        return f"{REDIRECT}?code=stolen&state=guessed"

    with pytest.raises(AuthorizationError, match="state"):
        get(world, person(world, injected))
    assert not world.params_of("/token")


def test_a_client_that_is_known_elsewhere_is_not_shown_to_another_issuer(world: World) -> None:
    information = OAuthClientInformation("id", "secret", issuer="https://as.example")
    with pytest.raises(AuthorizationError, match="another issuer"):
        get(world, OAuthClientProvider(world.url, ClientCredentials(information)))
    assert not world.params_of("/token")


def test_an_issuer_that_is_not_in_the_list_is_not_asked(world: World) -> None:
    with pytest.raises(AuthorizationError, match="trusted"):
        get(world, person(world, issuers=["https://as.example"]))
    assert not world.params_of(METADATA)


def test_a_token_that_is_never_taken_is_not_asked_for_without_end(world: World) -> None:
    world.replies["/mcp"] = (401, {"www-authenticate": "Bearer"}, "")
    assert get(world, person(world)) == [401]
    assert len(world.params_of("/authorize")) == 1


def test_an_endpoint_does_not_say_what_is_the_client_s_to_say() -> None:
    assert parse_qs(urlsplit(with_query("https://a.example/x?tenant=1", {"state": "s"})).query)["tenant"] == ["1"]
    with pytest.raises(AuthorizationError):
        with_query("https://a.example/x?redirect_uri=https://evil.example", {"redirect_uri": "mine"})


def test_a_repr_has_no_secret() -> None:
    credentials = StoredCredentials(
        "https://as.example",
        OAuthClientInformation("id", "secret", private_key="secret"),
        OAuthToken("secret", refresh_token="secret"),
    )
    assert "'secret'" not in repr(credentials)
    with pytest.raises(AuthorizationError):
        OAuthClientProvider("http://mcp.example/mcp", ClientCredentials(OAuthClientInformation("id", "secret")))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refresh_token_and_a_client_outlive_an_authorization_server_that_is_down(status: int, world: World) -> None:
    storage = InMemoryTokenStorage()
    world.lasts = 0.000_001
    assert get(world, person(world, storage=storage)) == [200]
    world.replies["/token"] = (status, {}, "")
    with pytest.raises(AuthorizationServerUnavailableError, match=f"status {status}"):
        get(world, person(world, storage=storage))
    del world.replies["/token"]
    assert get(world, person(world, storage=storage)) == [200]
    assert len(world.params_of("/authorize")) == len(world.params_of("/register")) == 1
