"""What attackers try on an authorization server, each with what it must not come to."""

from __future__ import annotations

import asyncio

import pytest
from support.auth.authorization_server import (
    ISSUER,
    REDIRECT,
    RESOURCE,
    VERIFIER,
    Clock,
    Person,
    Program,
    answer_of,
    challenge_of,
    code,
    error_of,
    house,
    on_a_server,
)

from mcp_products.auth.authorization_server.app import AuthorizationServer
from mcp_products.auth.authorization_server.models import OAuthClient

OTHER = "https://other.example/callback"

# ---- codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.clause("2025-03-26/authorization/35", "draft/authorization/29")
def test_a_code_that_is_used_twice_ends_what_it_was_used_for() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        got = (await program.redeems(stolen)).json()
        assert error_of(await program.redeems(stolen)) == (400, "invalid_grant")
        assert await server.introspect(got["access_token"]) is None
        assert error_of(await program.refreshes(got["refresh_token"])) == (400, "invalid_grant")

    on_a_server(attack)


def test_of_many_who_use_a_code_at_the_same_time_none_keeps_a_token() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        answers = await asyncio.gather(*(program.redeems(stolen) for _ in range(8)))
        access_tokens = [answer.json()["access_token"] for answer in answers if answer.status_code == 200]
        assert len(access_tokens) <= 1
        assert [await server.introspect(token) for token in access_tokens] == [None] * len(access_tokens)

    on_a_server(attack)


def test_a_code_is_of_no_use_to_another_client_and_not_lost_by_its_try() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        thief = await Program.registered(server)
        stolen = await code(server, program)
        assert error_of(await thief.redeems(stolen)) == (400, "invalid_grant")
        assert (await program.redeems(stolen)).status_code == 200

    on_a_server(attack)


@pytest.mark.clause("2025-03-26/authorization/36", "draft/authorization/36")
@pytest.mark.parametrize(
    "other",
    [
        {"code_verifier": "another-verifier-that-is-long-enough-0123456789"},
        {"code_verifier": challenge_of(VERIFIER)},
        {"code_verifier": ""},
        {"code_verifier": VERIFIER[:42]},
        {"code_verifier": f"{VERIFIER} "},
        {"redirect_uri": OTHER},
        {"redirect_uri": f"{REDIRECT}/"},
        {"redirect_uri": f"{REDIRECT}?a=b"},
    ],
    ids=str,
)
def test_a_code_without_what_it_is_bound_to_is_void(other: dict[str, str]) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        assert error_of(await program.redeems(stolen, **other)) == (400, "invalid_grant")
        assert error_of(await program.redeems(stolen)) == (400, "invalid_grant")

    on_a_server(attack)


def test_a_code_is_good_for_a_minute() -> None:
    clock = Clock()

    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        clock.now += 60
        assert error_of(await program.redeems(stolen)) == (400, "invalid_grant")

    on_a_server(attack, clock=clock)


def test_a_code_is_no_token_and_a_token_no_code() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        assert await server.introspect(stolen) is None
        assert error_of(await program.refreshes(stolen)) == (400, "invalid_grant")
        got = (await program.redeems(stolen)).json()
        for name in ("access_token", "refresh_token"):
            assert error_of(await program.redeems(got[name])) == (400, "invalid_grant")
        assert await server.introspect(got["refresh_token"]) is None
        assert error_of(await program.refreshes(got["access_token"])) == (400, "invalid_grant")

    on_a_server(attack)


@pytest.mark.parametrize("late", [0, 1])
def test_a_token_is_valid_until_the_second_in_which_it_expires(late: int) -> None:
    clock = Clock()

    async def attack(server: AuthorizationServer, program: Program) -> None:
        got = (await program.redeems(await code(server, program))).json()
        clock.now += got["expires_in"] - 1
        assert await server.introspect(got["access_token"]) is not None
        clock.now += 1 + late
        assert await server.introspect(got["access_token"]) is None

    on_a_server(attack, clock=clock)


# ---- the authorization request ---------------------------------------------------------------------------------------


@pytest.mark.clause("2025-03-26/authorization/34", "2025-03-26/authorization/36", "draft/authorization/28")
@pytest.mark.parametrize(
    "other",
    [
        {"code_challenge": ""},
        {"code_challenge_method": ""},
        {"code_challenge_method": "plain", "code_challenge": VERIFIER},
        {"code_challenge_method": "s256"},
        {"code_challenge": "short"},
        {"code_challenge": VERIFIER},
        {"response_type": "token"},
        {"response_type": "code token"},
        {"response_type": ""},
        {"scope": "read admin"},
        {"scope": "read  write"},
        {"resource": "https://elsewhere.example/mcp"},
        {"resource": f"{RESOURCE}/"},
        {"request_uri": "https://evil.example/request"},
        {"state": "x" * 5000},
    ],
    ids=str,
)
def test_a_request_that_breaks_a_rule_is_shown_to_the_person_and_to_no_stranger(other: dict[str, str]) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        answer = await Person(server).request_authorization(**{**program.authorization_params(), **other})
        assert answer.status_code == 400 and "location" not in answer.headers
        assert "ticket" not in answer.text and "error=" in answer.text

    on_a_server(attack)


@pytest.mark.clause("draft/authorization/41")
def test_the_error_of_a_client_that_is_known_goes_back_to_it_with_state_and_issuer() -> None:
    async def run() -> None:
        server = house(clients=[OAuthClient.static("known", (REDIRECT,))])
        program = Program(server, "known")
        answer = await Person(server).request_authorization(**program.authorization_params(scope="admin"))
        assert answer.status_code == 303 and answer.headers["location"].startswith(f"{REDIRECT}?")
        params = answer_of(answer)
        assert (params["error"], params["state"], params["iss"]) == ("invalid_scope", "a state", ISSUER)

    asyncio.run(run())


@pytest.mark.clause("2025-03-26/authorization/30", "draft/authorization/38", "draft/authorization/40")
@pytest.mark.parametrize(
    "redirect",
    [
        "",
        "https://evil.example/callback",
        f"{REDIRECT}/",
        f"{REDIRECT}/../elsewhere",
        f"{REDIRECT}?next=https://evil.example",
        f"{REDIRECT}#fragment",
        REDIRECT.replace("https", "http"),
        REDIRECT.replace("client.example", "client.example.evil.example"),
        REDIRECT.replace("client.example", "client.example@evil.example"),
        REDIRECT.replace("client.example", "client.example:8443"),
        REDIRECT.replace("client.example", "CLIENT.example"),
        "javascript:alert(1)//https://client.example/callback",
    ],
)
def test_nothing_goes_to_a_redirect_uri_that_was_not_registered(redirect: str) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        answer = await person.request_authorization(**program.authorization_params(redirect))
        twice = await person.web.get(
            "/authorize", params=[*program.authorization_params().items(), ("redirect_uri", redirect)]
        )
        for response in (answer, twice):
            assert response.status_code == 400 and "location" not in response.headers
            assert "href" not in response.text and "ticket" not in response.text

    on_a_server(attack)


@pytest.mark.parametrize(
    "redirect",
    [
        "http://127.0.0.1.evil.example:1/callback",
        "http://localhost.evil.example/callback",
        "http://127.0.0.1:5000@evil.example/callback",
        "http://127.0.0.1:5000/callback/",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.1:0/callback",
        "http://localhost:5000/callback",
        "http://127.0.0.2:5000/callback",
        "https://127.0.0.1:5000/callback",
        "http://127.0.0.1:5000/callback?a=b",
    ],
)
def test_the_free_port_of_this_machine_is_all_that_is_free(redirect: str) -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server, "http://127.0.0.1/callback")
        answer = await Person(server).request_authorization(**program.authorization_params(redirect))
        assert answer.status_code == 400 and "ticket" not in answer.text and "href" not in answer.text

    asyncio.run(run())


@pytest.mark.clause("2025-03-26/authorization/31", "2025-03-26/authorization/43", "draft/authorization/35")
@pytest.mark.parametrize(
    "redirect",
    [
        "http://client.example/callback",
        "http://localhost.evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://0.0.0.0/callback",
        "http://10.0.0.1/callback",
        "http://127.1/callback",
        "http://2130706433/callback",
        "http://localhost@evil.example/callback",
        "https://user:password@client.example/callback",
        "https://client.example\\@evil.example/callback",
        "https://client.example/callback#fragment",
        "https://client.example/a/../callback",
        "https://client.example/./callback",
        "https://client.example/%2e%2e/callback",
        "https://client.example//evil.example",
        "https://client.example/call\nback",
        "https://client.example/call back",
        "https://client.example/\u202ecallback",
        "https://cliént.example/callback",
        "https://client.example:0/callback",
        "https://client.example:65536/callback",
        "https://*.example/callback",
        "https:///callback",
        "https:client.example",
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "vbscript:x",
        "myapp://callback",
        "com.example.app:/callback",
        "https://client.example/'\"><script>",
        "https://client.example/" + "x" * 3000,
        "",
        None,
        7,
        ["https://client.example/callback"],
    ],
    ids=repr,
)
def test_only_https_and_this_machine_can_be_registered_as_a_redirect_uri(redirect: object) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        good_and_bad = [REDIRECT, redirect]
        assert error_of(await program.registers(redirect_uris=good_and_bad)) == (400, "invalid_redirect_uri")

    on_a_server(attack)


def test_state_comes_back_as_it_was_and_can_add_nothing() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        state = "a&code=stolen&iss=https://evil.example\r\nset-cookie: x=y#\u00e9%26"
        answer = await Person(server).decides(
            await Person(server).request_authorization(**program.authorization_params(state=state))
        )
        assert answer.status_code == 403  # Another browser's page.
        person = Person(server)
        answer = await person.decides(await person.request_authorization(**program.authorization_params(state=state)))
        params = answer_of(answer)
        assert params.keys() == {"code", "state", "iss"} and params["state"] == state and params["iss"] == ISSUER
        assert len(params["code"]) == 43 and "set-cookie" not in answer.headers
        person = Person(server)
        without = {name: value for name, value in program.authorization_params().items() if name != "state"}
        assert "state" not in await person.allows(**without)

    on_a_server(attack)
