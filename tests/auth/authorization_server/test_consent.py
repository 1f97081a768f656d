"""What attackers try on the page of consent, and where a person would give it without knowing."""

from __future__ import annotations

import asyncio
import re

import pytest
from support.auth.authorization_server import (
    ISSUER,
    REDIRECT,
    Person,
    Program,
    action_of,
    answer_of,
    error_of,
    house,
    on_a_server,
    ticket_of,
)

from mcp_products.auth.authorization_server.app import AuthorizationServer
from mcp_products.auth.authorization_server.storage import SQLiteStorage
from mcp_products.common import keys as sealing
from mcp_products.common.keys import KeyRing

KEY = KeyRing.new_key()
OTHER = "https://other.example/callback"

# ---- consent ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({"ticket": ""}, {}),
        ({"ticket": "mcp1.AAAA"}, {}),
        ({"decision": "allow", "ticket": None}, {}),
        ({}, {"origin": "https://evil.example"}),
        ({}, {"origin": "null"}),
        ({}, {"origin": ISSUER.replace("https", "http")}),
        ({}, {"origin": f"{ISSUER}.evil.example"}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"cookie": "__Host-mcp-consent=another"}),
        ({}, {"x-user": "eve"}),
        ({}, {"content-type": "text/plain"}),
    ],
    ids=str,
)
@pytest.mark.advisory("CVE-2026-27124")
def test_consent_is_given_from_the_page_of_this_browser_alone(
    form: dict[str, str | None], headers: dict[str, str]
) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.request_authorization(**program.authorization_params())
        whole = {"ticket": ticket_of(page), "decision": "allow", **form}
        answer = await person.web.post("/consent", data=_present(whole), headers={"origin": ISSUER, **headers})
        assert answer.status_code in (400, 403) and "location" not in answer.headers

    on_a_server(attack)


def test_the_ticket_of_an_attacker_is_of_no_use_in_the_browser_of_a_person() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        eve, ada = Person(server, "eve"), Person(server, "ada")
        page = await eve.request_authorization(**program.authorization_params())
        await ada.request_authorization(**program.authorization_params())
        assert (await ada.decides(page)).status_code == 403
        # Not even where the attacker's cookie got into the browser: the page was shown to somebody else.
        ada.web.cookies = eve.web.cookies
        assert (await ada.decides(page)).status_code == 403

    on_a_server(attack)


@pytest.mark.parametrize(
    "decisions",
    [["allow", "allow"], ["deny", "allow"], ["allow", "deny", "allow"], ["allow"] * 9],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("place", ["one after the other", "at once", "at two servers", "after the grant is revoked"])
def test_a_page_decides_once(decisions: list[str], place: str) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        replica = Person(house(storage=storage, keys=[KEY]) if place == "at two servers" else server)
        page = await person.request_authorization(**program.authorization_params())
        replica.web.cookies = person.web.cookies
        if place == "at once":
            answers = await asyncio.gather(*(person.decides(page, decision) for decision in decisions))
        else:
            answers = [await person.decides(page, decisions[0])]
            if place == "after the grant is revoked" and decisions[0] == "allow":
                issued = await program.redeems(answer_of(answers[0])["code"])
                assert (await program.posts("/revoke", token=issued.json()["access_token"])).status_code == 200
            answers += [await replica.decides(page, decision) for decision in decisions[1:]]
        codes = [answer for answer in answers if answer.status_code == 200 and "code" in answer_of(answer)]
        assert len(codes) <= 1
        if place != "at two servers":
            assert [answer.status_code for answer in answers].count(403) == len(decisions) - 1

    storage = SQLiteStorage()
    on_a_server(attack, storage=storage, keys=[KEY])


def test_consent_is_never_given_by_a_link() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.request_authorization(**program.authorization_params())
        form = {"ticket": ticket_of(page), "decision": "allow"}
        assert (await person.web.get(action_of(page), params=form)).status_code == 405
        assert (await person.web.post("/authorize", data=program.authorization_params())).status_code == 405

    on_a_server(attack)


def test_a_page_that_was_open_for_too_long_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.request_authorization(**program.authorization_params())
        real = sealing.clocks.wall
        monkeypatch.setattr(sealing.clocks, "wall", lambda: real() + 601)
        assert (await person.decides(page)).status_code == 403

    on_a_server(attack)


@pytest.mark.advisory("GHSA-c2jp-c369-7pvx")
def test_a_client_that_was_allowed_before_is_asked_for_again_and_so_is_a_new_one() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        await person.allows(**program.authorization_params())
        thief = await Program.registered(server, OTHER)
        for client, redirect in ((program, REDIRECT), (thief, OTHER)):
            page = await person.request_authorization(**client.authorization_params(redirect), prompt="none")
            assert page.status_code == 200 and ticket_of(page)

    on_a_server(attack)


def test_no_page_can_be_framed_kept_or_run_anything() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        for page in (
            await person.request_authorization(**program.authorization_params()),
            await person.request_authorization(client_id="nobody"),
        ):
            policy = page.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy and page.headers["x-frame-options"] == "DENY"
            assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
            assert page.headers["cache-control"] == "no-store" and page.headers["x-content-type-options"] == "nosniff"
        cookie = (await person.request_authorization(**program.authorization_params())).headers["set-cookie"]
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
        page = await Person(server).request_authorization(**program.authorization_params())
        assert re.findall(r"<(?:script|img|form|input|iframe)\b[^>]*", page.text) == [
            f'<form method="post" action="{ISSUER}/consent"',
            f'<input type="hidden" name="ticket" value="{ticket_of(page)}"',
        ]
        assert "has checked it" in page.text and "client.example" in page.text

    asyncio.run(run())


@pytest.mark.parametrize(
    "name",
    [
        *("x" * 101, "Good\u202eliveE", "a\u200bb", "a\nb", "\x00", 7),
        *(
            " ",
            "\u2800",
            "\u3164" * 3,
            "\u115f\u1160",
            "\uffa0",
            "\u3000",
            "\xa0 ",
            "\u0301",
            "\u034f",
            "\ufe0f",
            "Good\u2800",
        ),
    ],
    ids=repr,
)
def test_a_name_that_deceives_the_eye_is_not_registered(name: object) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        answer = await program.registers(redirect_uris=[REDIRECT], client_name=name)
        assert error_of(answer) == (400, "invalid_client_metadata")

    on_a_server(attack)


def _present(form: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in form.items() if value is not None}


@pytest.mark.parametrize(
    "value", ['"a\\015\\012set-cookie: session=stolen"', "short", "x" * 9000, '"', "a;b"], ids=repr
)
def test_a_cookie_that_was_not_given_here_is_replaced_and_never_repeated(value: str) -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        url = f"{ISSUER}/authorize"
        page = await person.web.get(
            url, params=program.authorization_params(), headers={"cookie": f"__Host-mcp-consent={value}"}
        )
        [cookie] = page.headers.get_list("set-cookie")
        assert re.fullmatch(r"__Host-mcp-consent=[A-Za-z0-9_-]{43}; [ -~]+", cookie)

    on_a_server(attack)


def test_cookies_of_others_are_in_nobodys_way() -> None:
    async def attack(server: AuthorizationServer, program: Program) -> None:
        person = Person(server)
        page = await person.request_authorization(**program.authorization_params())
        own = page.headers["set-cookie"].partition(";")[0]
        person.web.cookies.clear()
        answer = await person.decides(page, cookie=f'a[b]={{"x": "y"}}; =; ; {own}; c="')
        assert "code" in answer_of(answer)

    on_a_server(attack)
