"""A redirect handler of a user's own: its redirect paths, and what it returns."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from support.auth.client_servers import METADATA, REDIRECT, World, served, visit

from mcp_generated import AuthorizationError
from mcp_generated.auth import AuthorizationCode, OAuthClientProvider

SEGMENT = re.compile(re.escape(REDIRECT) + r"/[0-9a-f]{16}")


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


def get(world: World, grant: AuthorizationCode) -> int:
    async def run() -> int:
        async with httpx2.AsyncClient(auth=OAuthClientProvider(world.url, grant), verify=False) as client:
            return (await client.get(world.url)).status_code

    return asyncio.run(run())


def used_redirects(world: World) -> set[str]:
    [registration] = world.params_of("/register")
    redirects: Any = registration["redirect_uris"]
    return {*redirects} | {
        params["redirect_uri"] for path in ("/authorize", "/token") for params in world.params_of(path)
    }


class Handler:
    accepts_segment = True

    async def __call__(self, url: str) -> str:
        return await visit(url)


@pytest.mark.parametrize(
    ("handler", "settings", "has_segment"),
    [
        (visit, {}, False),
        (visit, {"accepts_segment": True}, True),
        (Handler(), {}, True),
        (Handler(), {"accepts_segment": False}, False),
    ],
    ids=["function", "function that accepts one", "object", "object that accepts none"],
)
def test_a_handler_that_accepts_a_segment_gets_one_of_the_authorization_server(
    world: World, handler: Any, settings: dict[str, bool], has_segment: bool
) -> None:
    assert get(world, AuthorizationCode(handler, REDIRECT, **settings)) == 200
    [redirect] = used_redirects(world)
    assert bool(SEGMENT.fullmatch(redirect)) is has_segment and (has_segment or redirect == REDIRECT)


def test_a_server_that_announces_iss_gets_the_redirect_uri_itself(world: World) -> None:
    metadata = {**world.metadata, "authorization_response_iss_parameter_supported": True}
    world.replies[METADATA] = (200, {"content-type": "application/json"}, json.dumps(metadata))

    async def with_issuer(url: str) -> str:
        return f"{await visit(url)}&iss={world.origin}"

    assert get(world, AuthorizationCode(with_issuer, REDIRECT, accepts_segment=True)) == 200
    assert used_redirects(world) == {REDIRECT}


def test_the_response_at_the_path_of_another_server_is_refused(world: World) -> None:
    async def mixed_up(url: str) -> str:
        return re.sub(r"/callback/[0-9a-f]{16}", f"/callback/{'0' * 16}", await visit(url))

    with pytest.raises(AuthorizationError, match="another URL than the redirect URI"):
        get(world, AuthorizationCode(mixed_up, REDIRECT, accepts_segment=True))
    assert world.params_of("/token") == []


@pytest.mark.parametrize("returned", [None, b"http://127.0.0.1:7/callback?code=1", ("code", "state"), 1], ids=repr)
def test_a_handler_that_returns_no_url_is_named_in_the_error(world: World, returned: Any) -> None:
    async def handler(url: str) -> Any:
        await visit(url)
        return returned

    with pytest.raises(AuthorizationError, match="redirect_handler .* not a string: return the URL") as raised:
        get(world, AuthorizationCode(handler, REDIRECT))
    assert "127.0.0.1" not in str(raised.value)


@pytest.mark.parametrize("returned", ["", "not a URL", "http://127.0.0.1:7/callback", "http://[::1/callback?code=1"])
def test_a_url_without_the_state_is_refused(world: World, returned: str) -> None:
    async def handler(url: str) -> str:
        await visit(url)
        return returned

    with pytest.raises(AuthorizationError, match="the authorization response"):
        get(world, AuthorizationCode(handler, REDIRECT))
    assert world.params_of("/token") == []
