"""What attackers try as a client of an authorization server, and with its tokens."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import httpx2
import pytest
from support.auth.authorization_server import (
    ISSUER,
    REDIRECT,
    VERIFIER,
    Clock,
    Person,
    Program,
    code,
    error_of,
    house,
    on_a_server,
    tokens,
)

from mcp_products.auth.authorization_server import requests
from mcp_products.auth.authorization_server.app import AuthorizationServer, AuthorizationServerLimits
from mcp_products.auth.authorization_server.models import OAuthClient
from mcp_runtime.errors import LocalError

# ---- clients ---------------------------------------------------------------------------------------------------------


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
        used = Program(server, program.id)
        answers = [await program.registers(redirect_uris=[REDIRECT]) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [201, 201, 429, 429, 429]
        assert error_of(answers[-1])[1] == "temporarily_unavailable"
        # Addresses of one network of version 6 are one flood; those of others go on, until there are too many clients.
        for number, statuses in enumerate(([201, 503, 503, 429], [503, 503, 503, 429])):
            status_codes: list[int] = []
            for last in range(4):
                transport = httpx2.ASGITransport(app=server, client=(f"2001:db8:0:{number}::{last}", 1))
                program.web = httpx2.AsyncClient(transport=transport, base_url=ISSUER)
                status_codes.append((await program.registers(redirect_uris=[REDIRECT])).status_code)
            assert status_codes == statuses
        # An hour later those that nobody agreed to make room; that which somebody uses stays.
        clock.now += 3601
        await tokens(server, used)
        for _ in range(3):
            assert (await program.registers(redirect_uris=[REDIRECT])).status_code == 201
        clock.now += 3601
        for _ in range(3):
            assert (await program.registers(redirect_uris=[REDIRECT])).status_code == 201
        await tokens(server, used)

    on_a_server(attack, clock=clock, limits=AuthorizationServerLimits(max_registrations=3, max_clients=4))


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


# ---- tokens ----------------------------------------------------------------------------------------------------------


def test_a_refresh_token_that_is_used_twice_ends_its_family() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        first = await tokens(server, program)
        second = (await program.refreshes(first["refresh_token"])).json()
        third = (await program.refreshes(second["refresh_token"])).json()
        unrelated = await tokens(server, program)
        assert error_of(await program.refreshes(first["refresh_token"])) == (400, "invalid_grant")
        for response in (first, second, third):
            assert await server.introspect(response["access_token"]) is None
            assert error_of(await program.refreshes(response["refresh_token"])) == (400, "invalid_grant")
        assert await server.introspect(unrelated["access_token"]) is not None

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
        for name in ("access_token", "refresh_token"):
            assert error_of(await thief.posts("/revoke", token=got[name])) == (400, "invalid_grant")
        assert await server.introspect(got["access_token"]) is not None

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
        async def current_user(self, request: object) -> str | None:
            raise RuntimeError("a secret of the house")

        def login_url(self, return_to: str) -> str:
            return "/login"

    async def run() -> None:
        server = house(login=Broken())
        program = await Program.registered(server)
        page = await Person(server).request_authorization(**program.authorization_params())
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


@pytest.mark.clause("draft/authorization/24", "draft/authorization/25")
def test_a_token_is_good_for_the_resource_it_was_asked_for_alone() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        got = await tokens(server, program, resource="https://two.example/mcp")
        one, two = server.verifier("https://one.example/mcp"), server.verifier("https://two.example/mcp")
        user = await two.verify(got["access_token"])
        assert user is not None and (user.subject, user.client_id) == ("ada", program.id)
        assert user.scopes == {"read", "write"} and got["access_token"] not in str(user.claims)
        assert await one.verify(got["access_token"]) is None and await two.verify(got["refresh_token"]) is None

    on_a_server(attack, resources=["https://one.example/mcp", "https://two.example/mcp"])


# ---- names and addresses ---------------------------------------------------------------------------------------------


@pytest.mark.clause("2025-03-26/authorization/29", "draft/authorization/34", "draft/authorization/33")
@pytest.mark.parametrize(
    "issuer",
    [
        "http://auth.example",
        "https://auth.example/",
        "https://a@auth.example",
        "https://auth.example?x",
        "ftp://a",
        "",
        "https://AUTH.example",
        "https://auth.example:443",
    ],
)
def test_an_issuer_is_https_or_on_this_machine(issuer: str) -> None:
    with pytest.raises(LocalError):
        house(issuer=issuer)


def test_a_client_that_is_given_with_an_unsafe_redirect_is_an_error_at_once() -> None:
    with pytest.raises(LocalError, match="evil: a redirect URI must use https"):
        house(clients=[OAuthClient.static("evil", ("http://client.example/callback",))])


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
        preflight = await program.web.request("OPTIONS", "/token", headers=headers)
        assert preflight.status_code == 204 and preflight.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in preflight.headers
        for path in ("/authorize", "/consent", "/callback"):
            answer = await program.web.request("OPTIONS", path, headers=headers)
            assert answer.status_code == 405 and "access-control-allow-origin" not in answer.headers

    on_a_server(attack)
