"""What attackers try on an authorization server, each with what it must not come to."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from granting import (
    ISSUER,
    REDIRECT,
    RESOURCE,
    VERIFIER,
    Clock,
    Person,
    Program,
    action_of,
    answer_of,
    challenge_of,
    error_of,
    house,
    ticket_of,
    tokens,
)

from mcp_runtime.authserver import requests
from mcp_runtime.authserver.records import Client
from mcp_runtime.authserver.server import AuthorizationServer, Limits
from mcp_runtime.errors import LocalError
from mcp_runtime.faces import sealing

OTHER = "https://other.example/callback"

Attack = Callable[[AuthorizationServer, Program], Awaitable[None]]


def on_a_server(attack: Attack, **settings: Any) -> None:
    """Run an attack on a server with one client, which nobody has anything against."""

    async def run() -> None:
        server = house(**settings)
        await attack(server, await Program.registered(server))

    asyncio.run(run())


async def code(server: AuthorizationServer, program: Program, **more: str) -> str:
    return (await Person(server).allows(**program.wish(**more)))["code"]


# ---- codes ------------------------------------------------------------------------------------------------------------


@pytest.mark.clause("2025-03-26/authorization/35", "draft/authorization/29")
def test_a_code_that_is_used_twice_ends_what_it_was_used_for() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        got = (await program.redeems(stolen)).json()
        assert error_of(await program.redeems(stolen)) == (400, "invalid_grant")
        assert await server.worth(got["access_token"]) is None
        assert error_of(await program.refreshes(got["refresh_token"])) == (400, "invalid_grant")

    on_a_server(attack)


def test_of_many_who_use_a_code_at_the_same_time_none_keeps_a_token() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        answers = await asyncio.gather(*(program.redeems(stolen) for _ in range(8)))
        given = [each.json()["access_token"] for each in answers if each.status_code == 200]
        assert len(given) <= 1
        assert [await server.worth(each) for each in given] == [None] * len(given)

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
        assert await server.worth(stolen) is None
        assert error_of(await program.refreshes(stolen)) == (400, "invalid_grant")
        got = (await program.redeems(stolen)).json()
        for each in ("access_token", "refresh_token"):
            assert error_of(await program.redeems(got[each])) == (400, "invalid_grant")
        assert await server.worth(got["refresh_token"]) is None
        assert error_of(await program.refreshes(got["access_token"])) == (400, "invalid_grant")

    on_a_server(attack)


# ---- the authorization request ----------------------------------------------------------------------------------------


@pytest.mark.clause("2025-03-26/authorization/36")
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
        answer = await Person(server).asks(**{**program.wish(), **other})
        assert answer.status_code == 400 and "location" not in answer.headers
        assert "ticket" not in answer.text and "error=" in answer.text

    on_a_server(attack)


@pytest.mark.clause("draft/authorization/41")
def test_the_error_of_a_client_that_is_known_goes_back_to_it_with_state_and_issuer() -> None:
    async def run() -> None:
        server = house(clients=[Client.known("known", (REDIRECT,))])
        program = Program(server, "known")
        answer = await Person(server).asks(**program.wish(scope="admin"))
        assert answer.status_code == 303 and answer.headers["location"].startswith(f"{REDIRECT}?")
        said = answer_of(answer)
        assert (said["error"], said["state"], said["iss"]) == ("invalid_scope", "a state", ISSUER)

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
        answer = await person.asks(**program.wish(redirect))
        twice = await person.web.get("/authorize", params=[*program.wish().items(), ("redirect_uri", redirect)])
        for each in (answer, twice):
            assert each.status_code == 400 and "location" not in each.headers
            assert "href" not in each.text and "ticket" not in each.text

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
        answer = await Person(server).asks(**program.wish(redirect))
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
        answer = await Person(server).decides(await Person(server).asks(**program.wish(state=state)))
        assert answer.status_code == 403  # Another browser's page.
        person = Person(server)
        answer = await person.decides(await person.asks(**program.wish(state=state)))
        said = answer_of(answer)
        assert said.keys() == {"code", "state", "iss"} and said["state"] == state and said["iss"] == ISSUER
        assert len(said["code"]) == 43 and "set-cookie" not in answer.headers
        person = Person(server)
        without = {name: value for name, value in program.wish().items() if name != "state"}
        assert "state" not in await person.allows(**without)

    on_a_server(attack)


# ---- consent ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({"ticket": ""}, {}),
        ({"ticket": "mcp1.AAAA"}, {}),
        ({"decision": "allow", "ticket": None}, {}),
        ({}, {"origin": "https://evil.example"}),
        ({}, {"origin": "null"}),
        ({}, {"origin": f"{ISSUER}.evil.example"}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"cookie": "__Host-mcp-consent=another"}),
        ({}, {"x-user": "eve"}),
        ({}, {"content-type": "text/plain"}),
    ],
    ids=str,
)
def test_consent_is_given_from_the_page_of_this_browser_alone(
    form: dict[str, str | None], headers: dict[str, str]
) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.asks(**program.wish())
        whole = {"ticket": ticket_of(page), "decision": "allow", **form}
        answer = await person.web.post("/consent", data=_there(whole), headers={"origin": ISSUER, **headers})
        assert answer.status_code in (400, 403) and "location" not in answer.headers

    on_a_server(attack)


def test_the_ticket_of_an_attacker_is_of_no_use_in_the_browser_of_a_person() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        eve, ada = Person(server, "eve"), Person(server, "ada")
        page = await eve.asks(**program.wish())
        await ada.asks(**program.wish())
        assert (await ada.decides(page)).status_code == 403
        # Not even where the attacker's cookie got into the browser: the page was shown to somebody else.
        ada.web.cookies = eve.web.cookies
        assert (await ada.decides(page)).status_code == 403

    on_a_server(attack)


def test_consent_is_never_given_by_a_link() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.asks(**program.wish())
        said = {"ticket": ticket_of(page), "decision": "allow"}
        assert (await person.web.get(action_of(page), params=said)).status_code == 405
        assert (await person.web.post("/authorize", data=program.wish())).status_code == 405

    on_a_server(attack)


def test_a_page_that_was_open_for_too_long_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.asks(**program.wish())
        real = sealing.time.time
        monkeypatch.setattr(sealing.time, "time", lambda: real() + 601)
        assert (await person.decides(page)).status_code == 403

    on_a_server(attack)


def test_a_client_that_was_allowed_before_is_asked_for_again_and_so_is_a_new_one() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        await person.allows(**program.wish())
        thief = await Program.registered(server, OTHER)
        for each, redirect in ((program, REDIRECT), (thief, OTHER)):
            page = await person.asks(**each.wish(redirect), prompt="none")
            assert page.status_code == 200 and ticket_of(page)

    on_a_server(attack)


def test_no_page_can_be_framed_kept_or_run_anything() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        for page in (await person.asks(**program.wish()), await person.asks(client_id="nobody")):
            policy = page.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy and page.headers["x-frame-options"] == "DENY"
            assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
            assert page.headers["cache-control"] == "no-store" and page.headers["x-content-type-options"] == "nosniff"
        cookie = (await person.asks(**program.wish())).headers["set-cookie"]
        assert cookie.startswith("__Host-") and {"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} <= set(
            cookie.split("; ")
        )

    on_a_server(attack)


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "\"><img src=x onerror='alert(1)'>",
        "</dd></dl><form action=https://evil.example><input name=ticket>",
        "&lt;script&gt;",
        "{{7*7}}",
    ],
)
def test_a_name_is_text_on_the_page_and_nothing_else(name: str) -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server, client_name=name)
        page = await Person(server).asks(**program.wish())
        assert re.findall(r"<(?:script|img|form|input|iframe)\b[^>]*", page.text) == [
            f'<form method="post" action="{ISSUER}/consent"',
            f'<input type="hidden" name="ticket" value="{ticket_of(page)}"',
        ]
        assert "has checked it" in page.text and "client.example" in page.text

    asyncio.run(run())


@pytest.mark.parametrize("name", ["x" * 101, "Good\u202eliveE", "a\u200bb", "a\nb", "\x00", 7], ids=repr)
def test_a_name_that_deceives_the_eye_is_not_registered(name: object) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        answer = await program.registers(redirect_uris=[REDIRECT], client_name=name)
        assert error_of(answer) == (400, "invalid_client_metadata")

    on_a_server(attack)


# ---- clients ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"nonsense",
        b'"text"',
        b"\xff{}",
        b"[" * 20_000,
        b'{"redirect_uris": {}}',
        b'{"redirect_uris": []}',
        b'{"redirect_uris": ["https://client.example/callback"], "grant_types": ["password"]}',
        b'{"redirect_uris": ["https://client.example/callback"], "response_types": ["token"]}',
        b'{"redirect_uris": ["https://client.example/callback"], "token_endpoint_auth_method": "private_key_jwt"}',
        b'{"redirect_uris": ["https://client.example/callback"], "grant_types": "authorization_code"}',
        b'{"redirect_uris": ["https://client.example/callback"], "scope": 7}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_metadata_that_make_no_client_are_refused(body: bytes) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        answer = await program.web.post("/register", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400 and error_of(answer)[1] in ("invalid_client_metadata", "invalid_redirect_uri")

    on_a_server(attack)


def test_metadata_without_end_and_endless_redirects_are_refused() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        huge = {"redirect_uris": [REDIRECT], "client_uri": "x" * 100_000}
        assert (await program.registers(**huge)).status_code == 413
        many = [f"{REDIRECT}/{number}" for number in range(11)]
        assert error_of(await program.registers(redirect_uris=many)) == (400, "invalid_redirect_uri")
        form = await program.web.post("/register", data={"redirect_uris": REDIRECT})
        assert error_of(form) == (400, "invalid_client_metadata")

    on_a_server(attack)


def test_a_flood_of_registrations_is_stopped_by_address_and_altogether() -> None:
    clock = Clock()

    async def attack(server: AuthorizationServer, program: Program) -> None:
        answers = [await program.registers(redirect_uris=[REDIRECT]) for _ in range(5)]
        assert [each.status_code for each in answers] == [201, 201, 429, 429, 429]
        assert error_of(answers[-1])[1] == "temporarily_unavailable"
        # Addresses of one network of version 6 are one flood; those of others go on, until there are too many clients.
        for number, statuses in enumerate(([201, 503, 503, 429], [503, 503, 503, 429])):
            found: list[int] = []
            for last in range(4):
                transport = httpx2.ASGITransport(app=server, client=(f"2001:db8:0:{number}::{last}", 1))
                program.web = httpx2.AsyncClient(transport=transport, base_url=ISSUER)
                found.append((await program.registers(redirect_uris=[REDIRECT])).status_code)
            assert found == statuses
        # Clients that are never used make room for others a day later.
        clock.now += 86_401
        assert (await program.registers(redirect_uris=[REDIRECT])).status_code == 201

    on_a_server(attack, clock=clock, limits=Limits(registrations=3, clients=4))


def test_a_client_shows_itself_as_it_registered_and_in_one_way() -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server, token_endpoint_auth_method="client_secret_basic")
        got = await tokens(server, program)
        id, secret, refresh = program.id, str(program.secret), got["refresh_token"]
        form = {"grant_type": "refresh_token", "refresh_token": refresh}

        def basic(who: str, what: str) -> dict[str, str]:
            return {"authorization": f"Basic {b64encode(f'{who}:{what}'.encode()).decode()}"}

        async def tries(headers: dict[str, str] | None = None, **more: str) -> tuple[int, str]:
            return error_of(await program.web.post("/token", data={**form, **more}, headers=headers))

        denied = (401, "invalid_client")
        assert await tries() == denied
        assert await tries(client_id=id) == denied
        assert await tries(client_id=id, client_secret="wrong") == denied
        assert await tries(basic(id, "wrong")) == denied
        assert await tries(basic("nobody", secret)) == denied
        assert await tries({"authorization": "Basic !!!"}) == denied
        assert await tries({"authorization": f"Bearer {got['access_token']}"}, client_id=id) == denied
        assert await tries(basic(id, secret), client_secret=secret) == (400, "invalid_request")
        assert await tries(basic(id, secret), client_id="another") == (400, "invalid_request")
        public = await Program.registered(server)
        assert await tries(client_id=public.id, client_secret="any") == denied
        assert (await program.web.post("/token", data=form, headers=basic(id, secret))).status_code == 200

    asyncio.run(run())


def test_secrets_are_compared_in_a_time_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    real = requests.hmac.compare_digest

    def compare(first: Any, second: Any) -> bool:
        compared.append((len(first), len(second)))
        return bool(real(first, second))

    monkeypatch.setattr(requests.hmac, "compare_digest", compare)

    async def run() -> None:
        server = house()
        program = await Program.registered(server, token_endpoint_auth_method="client_secret_post")
        await tokens(server, program)

    asyncio.run(run())
    # The digests of the secret, and the challenge: never what was sent itself.
    assert compared == [(64, 64), (43, 43)]


# ---- tokens -----------------------------------------------------------------------------------------------------------


def test_a_refresh_token_that_is_used_twice_ends_its_family() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        first = await tokens(server, program)
        second = (await program.refreshes(first["refresh_token"])).json()
        third = (await program.refreshes(second["refresh_token"])).json()
        unrelated = await tokens(server, program)
        assert error_of(await program.refreshes(first["refresh_token"])) == (400, "invalid_grant")
        for each in (first, second, third):
            assert await server.worth(each["access_token"]) is None
            assert error_of(await program.refreshes(each["refresh_token"])) == (400, "invalid_grant")
        assert await server.worth(unrelated["access_token"]) is not None

    on_a_server(attack)


def test_a_refresh_token_is_of_no_use_to_another_client_for_more_or_elsewhere() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        thief = await Program.registered(server)
        got = await tokens(server, program, scope="read")
        refresh = got["refresh_token"]
        assert error_of(await thief.refreshes(refresh)) == (400, "invalid_grant")
        assert error_of(await program.refreshes(refresh, scope="read write")) == (400, "invalid_scope")
        assert error_of(await program.refreshes(refresh, resource="https://x.example")) == (400, "invalid_target")
        assert (await program.refreshes(refresh)).status_code == 200

    on_a_server(attack)


def test_a_client_cannot_end_the_tokens_of_another() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        thief = await Program.registered(server)
        got = await tokens(server, program)
        for each in ("access_token", "refresh_token"):
            assert error_of(await thief.posts("/revoke", token=got[each])) == (400, "invalid_grant")
        assert await server.worth(got["access_token"]) is not None

    on_a_server(attack)


@pytest.mark.parametrize("grant", ["password", "implicit", "urn:ietf:params:oauth:grant-type:device_code", ""])
def test_grants_that_are_not_safe_are_not_there(grant: str) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        answer = await program.posts("/token", grant_type=grant, username="ada", password="secret")
        assert error_of(answer) == (400, "unsupported_grant_type")

    on_a_server(attack)


def test_a_field_that_is_there_twice_is_taken_for_neither() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        body = f"client_id={program.id}&grant_type=authorization_code&code=x&code={stolen}&code_verifier={VERIFIER}"
        kind = {"content-type": "application/x-www-form-urlencoded"}
        assert error_of(await program.web.post("/token", content=body, headers=kind)) == (400, "invalid_request")
        many = "&".join(f"a{number}=b" for number in range(100))
        assert error_of(await program.web.post("/token", content=many, headers=kind)) == (400, "invalid_request")
        query = f"/token?client_id={program.id}&grant_type=authorization_code&code={stolen}&code_verifier={VERIFIER}"
        assert (await program.web.post(query, headers=kind)).status_code == 401
        assert (await program.web.get(query)).status_code == 405
        assert (await program.redeems(stolen)).status_code == 200

    on_a_server(attack)


def test_an_error_has_nothing_of_what_was_sent_and_nothing_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def who(self, request: object) -> str | None:
            raise RuntimeError("a secret of the house")

        def page(self, back: str) -> str:
            return "/login"

    async def run() -> None:
        server = house(login=Broken())
        program = await Program.registered(server)
        page = await Person(server).asks(**program.wish())
        assert page.status_code == 500 and "secret" not in page.text
        answer = await program.redeems("a-code-<script>")
        assert "a-code" not in answer.text

    asyncio.run(run())
    assert "a secret of the house" in caplog.text and VERIFIER not in caplog.text


def test_nothing_that_is_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)

    async def attack(server: AuthorizationServer, program: Program) -> None:
        stolen = await code(server, program)
        got = (await program.redeems(stolen)).json()
        await program.redeems(stolen)
        for secret in (stolen, got["access_token"], got["refresh_token"], VERIFIER):
            assert secret not in caplog.text
        assert "was used twice" in caplog.text

    on_a_server(attack)


# ---- names and addresses ----------------------------------------------------------------------------------------------


@pytest.mark.clause("2025-03-26/authorization/29", "draft/authorization/34", "draft/authorization/33")
@pytest.mark.parametrize(
    "issuer",
    ["http://auth.example", "https://auth.example/", "https://a@auth.example", "https://auth.example?x", "ftp://a", ""],
)
def test_an_issuer_is_https_or_on_this_machine(issuer: str) -> None:
    with pytest.raises(LocalError):
        house(issuer=issuer)


def test_a_client_that_is_given_with_an_unsafe_redirect_is_an_error_at_once() -> None:
    with pytest.raises(LocalError, match="evil: a redirect URI is https"):
        house(clients=[Client.known("evil", ("http://client.example/callback",))])


def test_a_name_that_was_bent_to_this_machine_is_not_served() -> None:
    async def run() -> None:
        issuer = "http://127.0.0.1:9"
        server = house(issuer=issuer)
        web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server), base_url=issuer)
        path = "/.well-known/oauth-authorization-server"
        assert (await web.get(path)).status_code == 200
        assert (await web.get(path, headers={"host": "evil.example:9"})).status_code == 421

    asyncio.run(run())


def test_pages_of_other_sites_may_ask_for_tokens_and_never_for_consent() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        headers = {"origin": "https://inspector.example", "access-control-request-method": "POST"}
        asked = await program.web.request("OPTIONS", "/token", headers=headers)
        assert asked.status_code == 204 and asked.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in asked.headers
        for path in ("/authorize", "/consent", "/callback"):
            answer = await program.web.request("OPTIONS", path, headers=headers)
            assert answer.status_code == 405 and "access-control-allow-origin" not in answer.headers

    on_a_server(attack)


def _there(form: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in form.items() if value is not None}
