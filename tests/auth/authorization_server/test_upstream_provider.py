"""People sign in with a third party: who agreed here, who came back from there, and how long both hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from support.auth.authorization_server import (
    ISSUER,
    REDIRECT,
    RESOURCE,
    Clock,
    Header,
    Person,
    Program,
    answer_of,
    error_of,
    house,
    onward,
    serving,
    ticket_of,
)

from mcp_products.auth.authorization_server.app import AuthorizationServer
from mcp_products.auth.authorization_server.models import OAuthClient
from mcp_products.auth.authorization_server.storage import SQLiteStorage
from mcp_products.auth.authorization_server.tokens import TokenLifetimes
from mcp_products.auth.authorization_server.upstream import UpstreamProvider
from mcp_products.auth.client.storage import OAuthClientInformation, OAuthToken
from mcp_products.auth.http import URLPolicy
from mcp_products.common.keys import KeyRing
from mcp_runtime.errors import AuthorizationError

SECRET = "the secret of the proxy at the third party"
API = "https://api.third.example"


class Counting(SQLiteStorage):
    """Counts how often what a third party gave was renewed."""

    renewals = 0

    async def update_upstream(self, id: str, upstream: str) -> None:
        self.renewals += 1
        await super().update_upstream(id, upstream)


class World:
    """A server whose people sign in with a third party, which knows it by one static id."""

    def __init__(self, third: AuthorizationServer, clock: Clock, keys: bytes) -> None:
        self.third = third
        self.clock = clock
        self.identify_calls = 0
        self.users: dict[str, str] = {}
        self.storage = Counting()
        party = UpstreamProvider(
            issuer=third.issuer,
            client=OAuthClientInformation("proxy", SECRET),
            identify=self.who,
            name="Third & Co",
            scopes=("profile",),
            policy=URLPolicy(local=True),
        )
        self.server = house(login=None, upstream=party, clock=clock, storage=self.storage, keys=[keys])
        self.browser = httpx2.AsyncClient(headers={"x-user": "ada"})

    async def who(self, token: OAuthToken) -> str:
        self.identify_calls += 1
        introspection = await self.third.introspect(token.access_token)
        if introspection is None:
            raise AuthorizationError("the third party does not know the token any more")
        return self.users.get(introspection.grant.user, f"third:{introspection.grant.user}")

    async def onward(self, person: Person, program: Program, redirect: str = REDIRECT) -> str:
        """Agree here, and be sent to the third party: its URL."""
        return onward(
            await person.decides(await person.request_authorization(**program.authorization_params(redirect)))
        )

    async def agrees_upstream(self, url: str, decision: str = "allow") -> str:
        """Agree at the third party: the URL by which the browser comes back."""
        page = await self.browser.get(url)
        form = {"ticket": ticket_of(page), "decision": decision}
        back = await self.browser.post(f"{self.third.issuer}/consent", data=form)
        return onward(back)

    async def signs_in(self, program: Program) -> dict[str, Any]:
        """All of it: the tokens of a client."""
        person = Person(self.server)
        back = await self.agrees_upstream(await self.onward(person, program))
        code = answer_of(await person.web.get(back))["code"]
        return dict((await program.redeems(code)).json())


@asynccontextmanager
async def worlds(**third_party: Any) -> AsyncIterator[World]:
    clock = Clock()
    proxy = OAuthClient.static("proxy", (f"{ISSUER}/callback",), secret=SECRET)
    servers: list[AuthorizationServer] = []

    def third(origin: str) -> AuthorizationServer:
        defaults: dict[str, Any] = {"scopes": ("profile",), "resources": [API], "clock": clock, "clients": [proxy]}
        servers.append(house(issuer=origin, login=Header(), **{**defaults, **third_party}))
        return servers[0]

    async with serving(third):
        yield World(servers[0], clock, KeyRing.new_key())


Story = Callable[[World, Program], Awaitable[None]]


def run_story(story: Story, **third_party: Any) -> None:
    async def run() -> None:
        async with worlds(**third_party) as world:
            await story(world, await Program.registered(world.server))

    asyncio.run(run())


@pytest.mark.clause("2025-03-26/authorization/39", "2025-03-26/authorization/44")
def test_a_token_of_ours_stands_for_one_of_the_third_partys_which_nobody_sees() -> None:
    async def story(world: World, program: Program) -> None:
        got = await world.signs_in(program)
        introspection = await world.server.introspect(got["access_token"])
        assert (
            introspection is not None
            and introspection.grant.user == "third:ada"
            and introspection.grant.resource == RESOURCE
        )
        theirs = await world.server.upstream_token(introspection.grant.id)
        assert theirs is not None and theirs.access_token not in str(got)
        assert await world.third.introspect(theirs.access_token) is not None
        # Neither is good where the other is.
        assert await world.third.introspect(got["access_token"]) is None
        assert await world.server.introspect(theirs.access_token) is None
        assert introspection.grant.upstream is not None and theirs.access_token not in introspection.grant.upstream

    run_story(story)


@pytest.mark.clause("2025-03-26/authorization/40", "2025-03-26/authorization/41")
def test_a_token_of_ours_ends_when_the_third_party_takes_its_own_back() -> None:
    async def story(world: World, program: Program) -> None:
        got = await world.signs_in(program)
        introspection = await world.server.introspect(got["access_token"])
        assert introspection is not None and world.identify_calls == 2
        assert await world.server.introspect(got["access_token"]) is not None
        assert world.identify_calls == 2  # Not for every request, but every minute.
        theirs = await world.server.upstream_token(introspection.grant.id)
        assert theirs is not None
        form = {"client_id": "proxy", "client_secret": SECRET, "token": theirs.access_token}
        await world.browser.post(f"{world.third.issuer}/revoke", data=form)
        world.clock.now += 60
        assert await world.server.introspect(got["access_token"]) is None
        assert error_of(await program.refreshes(got["refresh_token"])) == (400, "invalid_grant")

    run_story(story)


@pytest.mark.clause("2025-03-26/authorization/42", "2025-03-26/authorization/45")
def test_what_the_third_party_gave_is_renewed_before_it_expires_once_for_all_who_wait() -> None:
    async def story(world: World, program: Program) -> None:
        got = await world.signs_in(program)
        introspection = await world.server.introspect(got["access_token"])
        assert introspection is not None
        before = await world.server.upstream_token(introspection.grant.id)
        world.clock.now += 80
        many = await asyncio.gather(*(world.server.introspect(got["access_token"]) for _ in range(5)))
        after = await world.server.upstream_token(introspection.grant.id)
        assert all(many) and before is not None and after is not None and before.access_token != after.access_token
        # Had two renewed it with the same, the third party would have ended the family.
        assert world.storage.renewals == 1

    run_story(story, lifetimes=TokenLifetimes(access_token=100.0))


def test_a_third_party_that_renews_nothing_ends_the_grant() -> None:
    async def story(world: World, program: Program) -> None:
        got = await world.signs_in(program)
        world.clock.now += 80
        assert await world.server.introspect(got["access_token"]) is None
        assert error_of(await program.refreshes(got["refresh_token"])) == (400, "invalid_grant")

    proxy = OAuthClient.static("proxy", (f"{ISSUER}/callback",), secret=SECRET, grant_types=("authorization_code",))
    run_story(story, lifetimes=TokenLifetimes(access_token=100.0), clients=[proxy])


def test_a_third_party_that_says_another_person_ends_the_grant() -> None:
    async def story(world: World, program: Program) -> None:
        got = await world.signs_in(program)
        world.users["ada"] = "third:eve"
        world.clock.now += 60
        assert await world.server.introspect(got["access_token"]) is None

    run_story(story)


@pytest.mark.clause("draft/authorization/42", "draft/security/01")
@pytest.mark.advisory("CVE-2026-27124")
def test_a_deputy_is_not_confused_each_client_is_agreed_to_here_although_the_third_party_knows_one_alone() -> None:
    async def story(world: World, program: Program) -> None:
        await world.signs_in(program)
        thief = await Program.registered(world.server, "https://evil.example/callback", client_name="Not what it seems")
        page = await Person(world.server).request_authorization(
            **thief.authorization_params("https://evil.example/callback")
        )
        # Nothing goes to the third party, where the person would not be asked again, before they have seen the client.
        assert page.status_code == 200 and "location" not in page.headers and 'id="continue"' not in page.text
        assert "evil.example" in page.text and "Not what it seems" in page.text
        assert world.third.issuer not in page.headers["content-security-policy"]

    run_story(story)


def test_who_agreed_there_without_having_agreed_here_gives_the_client_nothing() -> None:
    async def story(world: World, program: Program) -> None:
        # An attacker agrees here, and has somebody else go to the third party.
        eve, ada = Person(world.server, "eve"), Person(world.server, "ada")
        back = await world.agrees_upstream(await world.onward(eve, program))
        for browser in (ada, Person(world.server)):
            answer = await browser.web.get(back)
            assert answer.status_code == 403 and "location" not in answer.headers
            await browser.request_authorization(
                **program.authorization_params()
            )  # With a cookie of its own, it is no better.
            assert (await browser.web.get(back)).status_code == 403

    run_story(story)


@pytest.mark.clause("2025-03-26/authorization/47")
@pytest.mark.parametrize("change", ["denied", "iss", "no iss", "state", "twice", "code"])
def test_what_comes_back_otherwise_than_it_should_ends_in_a_refusal(change: str) -> None:
    async def story(world: World, program: Program) -> None:
        person = Person(world.server)
        url = await world.onward(person, program)
        back = await world.agrees_upstream(url, "deny" if change == "denied" else "allow")
        at, params = f"{ISSUER}/callback", answer_of(httpx2.Response(303, headers={"location": back}))
        match change:
            case "iss":
                params["iss"] = "https://evil.example"
            case "no iss":
                del params["iss"]
            case "state":
                params["state"] = params["state"][:-4] + "AAAA"
            case "code":
                params["code"] = "a code of another sign-in"
            case _:
                pass
        query = [*params.items(), ("code", "another")] if change == "twice" else list(params.items())
        answer = await person.web.get(at, params=query)
        if change in ("state", "twice"):
            assert answer.status_code in (400, 403) and "location" not in answer.headers
        else:
            client_params = answer_of(answer)
            assert client_params["error"] == "access_denied" and client_params["state"] == "a state"
            assert "code" not in client_params and "third" not in client_params["error_description"].replace(
                "third party", ""
            )

    run_story(story)


def test_a_code_of_the_third_partys_is_used_once_however_often_it_comes_back() -> None:
    async def story(world: World, program: Program) -> None:
        person = Person(world.server)
        back = await world.agrees_upstream(await world.onward(person, program))
        first, second = await person.web.get(back), await person.web.get(back)
        assert "code" in answer_of(first) and answer_of(second)["error"] == "access_denied"

    run_story(story)


def test_a_third_party_that_is_away_is_no_reason_to_forget_and_none_to_trust() -> None:
    async def run() -> None:
        async with worlds(lifetimes=TokenLifetimes(access_token=100.0)) as world:
            program = await Program.registered(world.server)
            got = await world.signs_in(program)
            introspection = await world.server.introspect(got["access_token"])
        world.clock.now += 80
        with pytest.raises(AuthorizationError, match="ConnectError"):
            await world.server.introspect(got["access_token"])
        assert introspection is not None and await world.storage.grant(introspection.grant.id) is not None
        person = Person(world.server)
        answer = await person.decides(await person.request_authorization(**program.authorization_params()))
        assert (
            answer.status_code == 200
        )  # Its metadata are known, and it may be back by the time the browser goes there.

    asyncio.run(run())


def test_a_third_party_that_was_never_there_is_said_to_be_away() -> None:
    async def run() -> None:
        async with serving(house()) as origin:
            pass
        clock = Clock()
        world = World(house(issuer=origin), clock, KeyRing.new_key())
        program, person = await Program.registered(world.server), Person(world.server)
        params = answer_of(await person.decides(await person.request_authorization(**program.authorization_params())))
        assert params["error"] == "temporarily_unavailable" and params["state"] == "a state" and params["iss"] == ISSUER

    asyncio.run(run())


def test_with_other_keys_nothing_of_the_third_partys_can_be_read() -> None:
    async def story(world: World, program: Program) -> None:
        got = await world.signs_in(program)
        again = World(world.third, world.clock, KeyRing.new_key())
        other = house(
            login=None,
            upstream=UpstreamProvider(
                issuer=world.third.issuer, client=OAuthClientInformation("proxy", SECRET), identify=again.who
            ),
            clock=world.clock,
            storage=world.storage,
        )
        assert await other.introspect(got["access_token"]) is None

    run_story(story)


async def test_one_consent_makes_one_grant_however_often_the_pages_are_used() -> None:
    async with worlds() as world:
        program = await Program.registered(world.server)
        person = Person(world.server)
        page = await person.request_authorization(**program.authorization_params())
        url = onward(await person.decides(page))
        assert (await person.decides(page)).status_code == 403
        back = await world.agrees_upstream(url)
        again = await world.agrees_upstream(url)  # A second code of the third party, for the same state.
        assert "code" in answer_of(await person.web.get(back))
        assert (await person.web.get(again)).status_code == 403
        assert answer_of(await person.web.get(back))["error"] == "access_denied"
