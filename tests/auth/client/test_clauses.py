"""A real client, logged in at a real server over HTTP: where it asks, what it sends, and what it never does."""

from __future__ import annotations

import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from support.auth.client_servers import METADATA, RESOURCE, REVISIONS, World, looks, reach, served, town
from support.clients import connect
from support.project import ROOT

from mcp_generated import v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from mcp_products.auth.client.storage import InMemoryTokenStorage
from mcp_products.auth.discovery import DiscoveryMethod
from mcp_runtime.errors import AuthorizationError

FIRST = "2025-03-26"
CLIENTS: dict[str, Any] = {
    FIRST: v2025_03_26.Client,
    "2025-06-18": v2025_06_18.Client,
    "2025-11-25": v2025_11_25.Client,
    "2026-07-28": v2026_07_28.Client,
}
LATER = [revision for revision in CLIENTS if revision != FIRST]
DISCOVERY = (RESOURCE, METADATA)


def requested_paths(world: World, *paths: str) -> list[str]:
    """The paths among these that were asked, in order."""
    return [request.path for request in world.seen if request.path in paths]


@pytest.mark.clause(f"{FIRST}/authorization/05", f"{FIRST}/authorization/07", f"{FIRST}/authorization/11")
@pytest.mark.clause(f"{FIRST}/authorization/14", f"{FIRST}/authorization/15", f"{FIRST}/authorization/16")
@pytest.mark.clause(f"{FIRST}/authorization/18", f"{FIRST}/authorization/19", f"{FIRST}/authorization/36")
async def test_a_client_of_the_first_revision_with_authorization_asks_the_origin_of_the_server() -> None:
    async with town(FIRST) as world:
        async with v2025_03_26.Client.http(world.url, http=reach(world)) as client:
            assert await looks(client) == ["look"]
        assert requested_paths(world, *DISCOVERY, "/register", "/authorize", "/token") == [
            METADATA,
            "/register",
            "/authorize",
            "/token",
        ]
        [discovery] = [request for request in world.seen if request.path == METADATA]
        assert discovery.headers["mcp-protocol-version"] == FIRST
        assert world.params_of("/authorize")[0]["code_challenge_method"] == "S256"
        assert "resource" not in world.params_of("/token")[0]


@pytest.mark.clause(f"{FIRST}/authorization/13", f"{FIRST}/authorization/17", f"{FIRST}/authorization/18")
async def test_where_the_first_such_server_has_no_metadata_the_usual_endpoints_are_used_after_it_was_looked_for() -> (
    None
):
    async with town(FIRST) as world:
        world.replies[METADATA] = (404, {}, "")
        async with v2025_03_26.Client.http(world.url, http=reach(world)) as client:
            assert await looks(client) == ["look"]
        assert requested_paths(world, METADATA, "/register", "/authorize", "/token") == [
            METADATA,
            "/register",
            "/authorize",
            "/token",
        ]


@pytest.mark.clause("draft/authorization/05", "draft/authorization/07", "draft/authorization/09")
@pytest.mark.clause("draft/authorization/13", "draft/authorization/14", "draft/authorization/15")
@pytest.mark.clause("draft/authorization/36", "draft/authorization/37")
@pytest.mark.parametrize("later", LATER)
async def test_a_later_client_asks_the_resource_who_authorizes(later: str) -> None:
    async with town(later) as world:
        challenge = f'Bearer resource_metadata="{world.origin}/who"'
        world.refusal = (401, {"www-authenticate": challenge}, "")
        world.replies["/who"] = (200, {}, {"resource": world.url, "authorization_servers": [world.origin]})
        async with CLIENTS[later].http(world.url, http=reach(world)) as client:
            assert await looks(client) == ["look"]
        assert requested_paths(world, "/who", *DISCOVERY) == ["/who", METADATA]
        assert {request.headers["mcp-protocol-version"] for request in world.seen if request.path == "/who"} == {later}
        [registered], [authorization] = world.params_of("/register"), world.params_of("/authorize")
        assert (
            authorization["redirect_uri"] in registered["redirect_uris"]
            and authorization["code_challenge_method"] == "S256"
        )


@pytest.mark.clause("draft/authorization/09")
@pytest.mark.parametrize("later", LATER)
async def test_a_later_client_guesses_no_endpoints(later: str) -> None:
    async with town(later) as world:
        world.replies[METADATA] = (404, {}, "")
        with pytest.raises(AuthorizationError, match="has no metadata"):
            async with CLIENTS[later].http(world.url, http=reach(world)):
                pass
        world.protects = False
        with pytest.raises(AuthorizationError, match="has no protected resource metadata"):
            async with CLIENTS[later].http(world.url, http=reach(world)):
                pass
        assert not requested_paths(world, "/register", "/authorize", "/token")


async def test_a_client_of_all_revisions_asks_an_older_server_itself_and_no_other() -> None:
    async with town(FIRST, protects=False) as world:
        async with connect(world.url, http=reach(world)) as client:
            assert await looks(client) == ["look"]
        assert requested_paths(world, RESOURCE)[:1] == [RESOURCE] and requested_paths(world, "/authorize") == [
            "/authorize"
        ]
    async with town(protects=False) as world:
        world.refusal = (401, {"www-authenticate": f'Bearer resource_metadata="{world.origin}/gone"'}, "")
        with pytest.raises(AuthorizationError, match="has no protected resource metadata"):
            async with connect(world.url, http=reach(world)):
                pass
        assert not requested_paths(world, METADATA, "/authorize")


async def test_a_server_that_had_metadata_of_the_resource_cannot_turn_to_older_ways() -> None:
    async with town() as world:
        async with connect(world.url, http=reach(world)) as client:
            assert await looks(client) == ["look"]
            world.protects = False
            world.valid = "another"
            world.replies["/token"] = (400, {}, {"error": "invalid_grant"})
            with pytest.raises(AuthorizationError, match="has no protected resource metadata"):
                await looks(client)


@pytest.mark.parametrize("has_metadata", [True, False])
@pytest.mark.parametrize("negotiated", REVISIONS)
@pytest.mark.parametrize("opened", ["at once", "before the login", "with a token that expires"])
async def test_a_client_of_all_revisions_logs_in_at_the_server_itself_whatever_is_negotiated(
    opened: str, negotiated: str, has_metadata: bool
) -> None:
    async with town(negotiated, protects=False) as world:
        if not has_metadata:
            world.replies[METADATA] = (404, {}, "")
        if opened == "before the login":
            world.replies["/mcp"] = (200, {}, "in")
        async with connect(world.url, http=reach(world)) as client:
            world.replies.pop("/mcp", None)
            assert await looks(client) == ["look"]
            last = [request for request in world.seen if request.path == "/mcp" and request.method == "POST"][-1]
            assert last.headers.get("mcp-protocol-version", FIRST) == negotiated
            if opened == "with a token that expires":
                world.valid = "another"
                world.replies["/token"] = (400, {}, {"error": "invalid_grant"})
                with pytest.raises(AuthorizationError, match="invalid_grant"):
                    await looks(client)
                del world.replies["/token"]
                assert await looks(client) == ["look"]
        assert METADATA in requested_paths(world, METADATA) and requested_paths(world, "/authorize")
        assert "resource" not in world.params_of("/token")[0]


async def test_a_way_that_was_chosen_by_hand_is_the_only_one() -> None:
    async with town(FIRST, protects=False) as world:
        with pytest.raises(AuthorizationError, match="has no protected resource metadata"):
            async with connect(world.url, http=reach(world, discovery=DiscoveryMethod.PROTECTED_RESOURCE_METADATA)):
                pass
    async with town() as world:
        async with connect(world.url, http=reach(world, discovery=DiscoveryMethod.SERVER_ORIGIN)) as client:
            assert await looks(client) == ["look"]
        assert not requested_paths(world, RESOURCE)


@pytest.mark.clause(f"{FIRST}/authorization/21", f"{FIRST}/authorization/22", f"{FIRST}/authorization/23")
@pytest.mark.clause("draft/authorization/17", "draft/authorization/18", "draft/authorization/19")
@pytest.mark.parametrize("version", CLIENTS)
async def test_every_request_has_the_token_in_its_header_and_none_in_its_query(version: str) -> None:
    async with town(version) as world:
        async with CLIENTS[version].http(world.url, http=reach(world)) as client:
            await looks(client)
        later = [request for request in world.seen if request.path == "/mcp"][1:]
        assert len(later) >= 2 and {request.headers["authorization"] for request in later} == {f"Bearer {world.valid}"}
        assert not any(world.valid in f"{request.path}?{request.query}" for request in world.seen)
        if version != "2026-07-28":  # There are sessions, with a stream of their own, and an end.
            assert {request.method for request in later} >= {"POST", "DELETE"}


@pytest.mark.clause("draft/authorization/23")
async def test_a_token_of_one_server_is_not_sent_to_another_that_shares_the_storage() -> None:
    storage = InMemoryTokenStorage()
    async with town() as one, town() as other:
        one.issued = 10
        other.issued = 20
        for world in (one, other):
            async with connect(world.url, http=reach(world, storage=storage)) as client:
                await looks(client)
        for world, strange in ((one, other.valid), (other, one.valid)):
            assert not any(strange in str(request) for request in world.seen)


@pytest.mark.clause("draft/authorization/23")
async def test_a_token_of_an_issuer_that_the_server_left_is_not_sent_to_its_new_one() -> None:
    with served(World()) as new:
        async with town() as world:
            async with connect(world.url, http=reach(world)) as client:
                await looks(client)
                old = world.valid
                world.valid = "nothing"
                world.replies[RESOURCE] = (200, {}, {"resource": world.url, "authorization_servers": [new.origin]})
                new.issued = 40
                with pytest.raises(Exception, match="401"):  # The world goes on to want tokens of its own.
                    await looks(client)
        used = [request.headers.get("authorization") for request in world.seen if request.path == "/mcp"]
        assert used[-1] == f"Bearer {new.valid}" and not any(old in str(request) for request in new.seen)
        assert [request["grant_type"] for request in new.params_of("/token")] == ["authorization_code"]


@pytest.mark.clause(f"{FIRST}/authorization/02", "draft/authorization/02")
async def test_over_stdio_there_is_no_login_and_credentials_come_from_the_environment(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import os\n"
        "from mcp_generated.v2025_11_25 import Server, types as t\n"
        "class Told(Server):\n"
        "    async def call_tool(self, ctx, params):\n"
        "        return t.CallToolResult(content=[t.TextContent(text=os.environ['API_KEY'])])\n"
        "Told(name='told', version='1').run('stdio')\n"
    )
    kind = v2025_11_25.Client
    assert not {"reach", "auth"} & signature(kind.stdio).parameters.keys()
    async with kind.stdio(sys.executable, str(script), env={"API_KEY": "key"}, cwd=str(ROOT)) as client:
        [block] = (await client.call_tool(name="any")).content
        assert getattr(block, "text", "") == "key"
