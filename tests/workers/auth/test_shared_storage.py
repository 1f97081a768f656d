"""Two authorization servers that share a store are one: what happens at one holds at the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.auth.authorization_server import RESOURCE, Clock, Person, Program, house, tokens
from support.stores.failing import FailingStore
from support.stores.homes import FEW_HOMES, open_home, place_of

from mcp_generated import KeyRing, LocalError
from mcp_generated.auth import AuthorizationServerLimits, OAuthClient, StoreStorage
from mcp_products.auth.authorization_server.models import ClientOrigin, SecretKind, StoredGrant, StoredSecret


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


class TwoServers:
    """Two servers, and clients that use one of them each time."""

    def __init__(self, place: Any, **settings: Any) -> None:
        keys = (KeyRing.new_key(),)
        self.storages = [StoreStorage(open_home(place)) for _ in range(2)]
        first, second = (house(storage=storage, keys=keys, **settings) for storage in self.storages)
        self.first = first
        self.second = second
        self.last = self.second

    async def in_turn(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request at the server that has not served the one before."""
        self.last = self.second if self.last is self.first else self.first
        await self.last(scope, receive, send)

    def elsewhere(self, program: Program) -> Program:
        """The same client, at the second server."""
        return Program(self.second, program.id, program.secret)

    async def close(self) -> None:
        for storage in self.storages:
            await storage.close()


async def test_a_code_of_one_server_is_redeemed_once_at_another(place: Any) -> None:
    both = TwoServers(place)
    program = await Program.registered(both.first)
    code = (await Person(both.in_turn).allows(**program.authorization_params()))["code"]
    redeemed = await both.elsewhere(program).redeems(code)
    assert redeemed.status_code == 200, redeemed.text
    access, refresh = redeemed.json()["access_token"], redeemed.json()["refresh_token"]
    assert (await program.redeems(code)).json()["error"] == "invalid_grant"
    # A second use of a code ends the grant everywhere.
    assert (await both.elsewhere(program).refreshes(refresh)).json()["error"] == "invalid_grant"
    assert await both.second.verifier(RESOURCE).verify(access) is None
    await both.close()


async def test_a_refresh_token_is_used_once_whichever_servers_get_it(place: Any) -> None:
    both = TwoServers(place)
    program = await Program.registered(both.first)
    refresh = (await tokens(both.first, program))["refresh_token"]
    answers = await asyncio.gather(
        *(client.refreshes(refresh) for client in (program, both.elsewhere(program)) for _ in range(4))
    )
    # At most one: a second use ends the grant, perhaps before the first one is answered.
    assert sum(answer.status_code == 200 for answer in answers) <= 1
    assert {answer.json().get("error", "invalid_grant") for answer in answers} == {"invalid_grant"}
    refresh = (await tokens(both.first, program))["refresh_token"]
    answers = [await client.refreshes(refresh) for client in (both.elsewhere(program), program)]
    assert [answer.status_code for answer in answers] == [200, 400]
    await both.close()


async def test_a_token_is_valid_and_revoked_at_all_servers(place: Any) -> None:
    both = TwoServers(place)
    program = await Program.registered(both.first)
    access = (await tokens(both.first, program))["access_token"]
    verifiers = [server.verifier(RESOURCE) for server in (both.first, both.second)]
    assert [(user := await verifier.verify(access)) and user.subject for verifier in verifiers] == ["ada", "ada"]
    assert (await both.elsewhere(program).posts("/revoke", token=access)).status_code == 200
    assert [await verifier.verify(access) for verifier in verifiers] == [None, None]
    await both.close()


async def test_registrations_are_limited_over_all_servers(place: Any) -> None:
    both = TwoServers(place, limits=AuthorizationServerLimits(max_clients=3))
    answers = [
        await Program(server).registers(redirect_uris=["https://a.example/cb"])
        for _ in range(3)
        for server in (both.first, both.second)
    ]
    assert [answer.status_code for answer in answers] == [201] * 3 + [503] * 3
    await both.close()


# ---- the storage ---------------------------------------------------------------------------------------------------


def a_client() -> OAuthClient:
    return OAuthClient(
        "c", ("https://a.example/cb",), "name", "secret", scopes=("read",), origin=ClientOrigin.REGISTERED
    )


def a_grant(clock: Clock, **other: Any) -> StoredGrant:
    return StoredGrant(**{"id": "g", "client_id": "c", "user": "ada", "scopes": ("read",), "resource": "r"} | other)  # type: ignore[arg-type]


async def test_what_is_stored_is_read_as_it_was(place: Any) -> None:
    clock = Clock()
    one, two = (StoreStorage(open_home(place), clock=clock) for _ in range(2))
    grant = a_grant(clock, expires_at=clock() + 100, upstream="encrypted")
    code = StoredSecret("d1", SecretKind.CODE, "g", clock() + 10, ("read",), "https://a.example/cb", "challenge")
    access = StoredSecret("d2", SecretKind.ACCESS, "g", clock() + 50, ("read",))
    assert await one.add_client(a_client(), 10, clock() - 3600)
    await one.add_grant(grant, code)
    assert await two.add_secrets(access)
    assert await two.client("c") == a_client() and await two.grant("g") == grant
    assert [await two.find_secret(digest) for digest in ("d1", "d2", "d3")] == [code, access, None]
    await two.update_upstream("g", "newer")
    assert (await one.grant("g")) == a_grant(clock, expires_at=clock() + 100, upstream="newer")
    assert [await storage.consume("d1") for storage in (two, one, two)] == [True, False, False]
    assert await one.find_secret("d1") == code  # So that a second use is noticed.
    await one.revoke("g")
    assert await two.grant("g") is None and await two.find_secret("d2") is None
    assert not await two.add_secrets(access) and not await two.consume("d2")
    for storage in (one, two):
        await storage.close()


async def test_an_outage_is_a_503_and_no_code_is_used_twice(tmp_path: Path) -> None:
    store = FailingStore()
    server = house(storage=StoreStorage(store))
    program = await Program.registered(server)
    code = (await Person(server).allows(**program.authorization_params()))["code"]
    store.outage.lost_answers.add("put")  # That of `consume`: the command is run, and nobody knows.
    failed = await program.redeems(code)
    assert failed.status_code == 503 and failed.json()["error"] == "temporarily_unavailable"
    assert (await program.redeems(code)).json()["error"] == "invalid_grant"


def test_a_store_of_one_process_is_refused() -> None:
    with pytest.raises(LocalError, match="is what SQLiteStorage"):
        StoreStorage("memory")
