"""Identity providers of the table: each is played by a server on this machine, at which our client logs in to ours."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from support.auth.identity_providers import REDIRECT, ROLE, SECRET, SUBJECT, Account, account
from support.auth.resource_server import PROTECTED, Endpoint, endpoint
from support.clients import connect

from mcp_generated import App, Context, HTTPOptions
from mcp_generated.auth import AuthorizationCode, IdentityProvider, OAuthClientInformation, OAuthClientProvider
from mcp_products.auth.providers.provider import providers
from mcp_runtime.errors import AuthorizationError, LocalError

NAMES = sorted(providers())
NEWEST = PROTECTED[-1]


def example() -> App:
    app = App("notes")

    @app.tool
    def who(ctx: Context) -> str:
        assert ctx.user is not None
        return f"{ctx.user.subject} {sorted(ctx.user.scopes)}"

    @app.tool(scopes=["role:admin"])
    def erase() -> str:
        return "erased"

    return app


@asynccontextmanager
async def protected(at_provider: Account, **settings: Any) -> AsyncGenerator[Endpoint]:
    """Yield a server whose users log in at a provider."""
    row = at_provider.row
    roles = {"admin": ROLE if "roles" in row else {"claim": "sub", "value": SUBJECT}}

    def auth(url: str) -> Any:
        at_provider.resource = url
        known: dict[str, Any] = {"only_resource": not row.get("bound", True), "roles": roles, **settings}
        return at_provider.provider.resource_server(url, **known)

    async with endpoint(NEWEST, auth, example().server) as at:
        yield at


def person(url: str, at_provider: Account, **settings: Any) -> OAuthClientProvider:
    """A client whose user agrees; where clients do not register themselves, it is registered."""

    async def visit(address: str) -> str:
        async with httpx2.AsyncClient(trust_env=False) as http:
            return str((await http.get(address)).headers["location"])

    registered = at_provider.row.get("registration", "no") == "no"
    client = OAuthClientInformation(at_provider.client, SECRET, "client_secret_post") if registered else None
    return OAuthClientProvider(url, AuthorizationCode(visit, REDIRECT, client_information=client), **settings)


@pytest.mark.parametrize("name", NAMES)
async def test_a_user_logs_in_at_each_provider_and_has_its_roles(name: str) -> None:
    with account(name) as at_provider:
        async with protected(at_provider) as at:
            auth = person(at.url, at_provider, **at_provider.provider.client_settings())
            async with connect(at.url, http=HTTPOptions(auth=auth)) as client:
                said: Any = await client.call_tool("who", {})
                scopes = ["more", "notes.read"] if "scope_claims" in at_provider.row else ["notes.read"]
                assert said.content[0].text == f"{SUBJECT} {[*scopes, 'role:admin']}"
                erased: Any = await client.call_tool("erase", {})
                assert erased.content[0].text == "erased"
            asked = dict(at_provider.requests)["/authorize"]
            assert asked["code_challenge_method"] == "S256"
            assert ("resource" in asked) == (at_provider.row.get("resource") != "refused")
            found = [path for path, _ in at_provider.requests]
            assert ("/register" in found) == (at_provider.row.get("registration", "no") != "no")


@pytest.mark.parametrize("name", [name for name in NAMES if "lookup" not in providers()[name]])
async def test_tokens_of_each_provider_for_others_are_refused(name: str) -> None:
    with account(name) as at_provider:
        async with protected(at_provider) as at:
            row = at_provider.row
            claim = row.get("audience_claim", "aud")
            wrong: list[dict[str, Any]] = [{claim: "https://other.example"}, {claim: None}, {"exp": 1}]
            wrong += [{"iss": "https://other.example"}, {"iss": None}]
            wrong += [{needed: None} for needed in row.get("claims", {})]
            wrong += [{needed: "other"} for needed, value in row.get("claims", {}).items() if value]
            assert (await at.call(at_provider.token(), "who")).status_code == 200
            for claims in wrong:
                answer = await at.call(at_provider.token(**claims), "who")
                assert answer.status_code == 401, claims
            if "roles" in row:
                few = at_provider.token(None, **{row["roles"].split(".")[0]: ["others"]})
                error = json.loads((await at.call(few, "erase")).content)["error"]
                assert "role:admin" in error["message"]


@pytest.mark.parametrize("name", [name for name in NAMES if "also" in providers()[name]])
async def test_tokens_of_another_form_are_accepted(name: str) -> None:
    with account(name) as at_provider:
        async with protected(at_provider) as at:
            for form in at_provider.row["also"]:
                assert (await at.call(at_provider.token(form), "who")).status_code == 200
                other = at_provider.token(form, aud="https://other.example")
                assert (await at.call(other, "who")).status_code == 401
            if name == "entra":
                crossed = at_provider.token(at_provider.row["also"][0], aud=at_provider.client)
                assert (await at.call(crossed, "who")).status_code == 401, "the audience is that of its issuer"


@pytest.mark.parametrize("name", [name for name in NAMES if "lookup" in providers()[name]])
async def test_opaque_tokens_are_looked_up(name: str) -> None:
    with account(name) as at_provider:
        async with protected(at_provider) as at:
            token = at_provider.token()
            assert (await at.call(token, "who")).status_code == 200
            assert (await at.call("unknown", "who")).status_code == 401
        async with protected(at_provider, audience="another-client") as at:
            assert (await at.call(token, "who")).status_code == 401, "it is for another client"
    async with protected(at_provider) as at:
        assert (await at.call(token, "who")).status_code == 503, "nobody can say"


async def test_github_is_asked_as_the_app_and_a_wrong_secret_is_no_wrong_token() -> None:
    with account("github") as at_provider:
        at_provider.provider = IdentityProvider(
            {**providers()["github"], "lookup": at_provider.row["lookup"], "issuer": at_provider.origin},
            **{**at_provider.values, "client_secret": "wrong"},
        )
        async with protected(at_provider) as at:
            assert (await at.call(at_provider.token(), "who")).status_code == 503


async def test_a_client_that_does_not_know_its_provider_says_what_to_write() -> None:
    with account("entra") as at_provider:
        async with protected(at_provider) as at:
            issuer = at_provider.provider.issuer
            for settings, text in (
                ({}, f"write pkce=[{issuer!r}]"),
                ({"pkce": [issuer]}, "resource_indicator=False"),
            ):
                with pytest.raises(AuthorizationError) as raised:
                    async with connect(at.url, http=HTTPOptions(auth=person(at.url, at_provider, **settings))):
                        pass
                assert text in str(raised.value)


async def test_pkce_is_not_assumed_of_an_issuer_that_names_other_methods() -> None:
    with account("cognito") as at_provider:
        at_provider.row["pkce"] = "listed"
        at_provider.metadata = lambda path, own=at_provider.metadata: {  # type: ignore[method-assign, misc]
            **own(path),
            "code_challenge_methods_supported": ["plain"],
        }
        async with protected(at_provider) as at:
            auth = person(at.url, at_provider, **at_provider.provider.client_settings())
            with pytest.raises(AuthorizationError, match="does not advertise PKCE"):
                async with connect(at.url, http=HTTPOptions(auth=auth)):
                    pass


# ---- what is written wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "values", "text"),
    [
        ("auth1", {}, "there is no provider 'auth1'; did you mean"),
        ("auth0", {}, "domain is missing, a text such as 'example.us.auth0.com': write IdentityProvider(\"auth0\", do"),
        ("auth0", {"domain": "https://a.auth0.com/"}, "domain is a host without https:// and without a path"),
        ("auth0", {"domain": "a.auth0.com/x"}, "domain is a host without https:// and without a path"),
        ("auth0", {"domain": "a@b.auth0.com"}, "domain is a host without"),
        ("auth0", {"domain": "a.auth0.com", "tenant": "b"}, "'auth0' has no value 'tenant'"),
        ("entra", {"tenant": "a/b", "client_id": "c"}, "tenant stands in addresses, so that 'a/b' cannot be one"),
        ("entra", {"tenant": "{client_id}", "client_id": "c"}, "tenant stands in addresses"),
        ("github", {"client_id": "a"}, "client_secret is missing"),
    ],
)
def test_wrong_values_are_refused_with_the_line_to_write(provider: str, values: dict[str, str], text: str) -> None:
    with pytest.raises(LocalError) as raised:
        IdentityProvider(provider, **values)
    assert text in str(raised.value)


def test_tokens_that_name_no_server_need_a_word_of_the_owner() -> None:
    for name in ("clerk", "supabase"):
        provider = IdentityProvider(name, **providers()[name]["needs"])
        with pytest.raises(LocalError, match="write only_resource=True"):
            provider.resource_server("https://notes.example/mcp")
        assert provider.resource_server("https://notes.example/mcp", only_resource=True).issuers == (provider.issuer,)


def test_a_role_without_a_claim_needs_a_provider_with_roles() -> None:
    google = IdentityProvider("google", client_id="a.apps.googleusercontent.com")
    with pytest.raises(LocalError, match="tokens of Google have no claim for roles: write the claim of 'admin'"):
        google.resource_server("https://notes.example/mcp", roles={"admin": "ada"})
    auth0 = IdentityProvider("auth0", domain="a.auth0.com")
    with pytest.raises(LocalError, match="the value of 'admin'"):
        auth0.resource_server("https://notes.example/mcp", roles={"admin": ""})
    assert auth0.resource_server("https://notes.example/mcp", roles={"admin": "x"}).roles


def test_secrets_are_not_shown() -> None:
    provider = IdentityProvider("github", client_id="a", client_secret="hidden text")
    assert "hidden" not in repr(provider) and provider.name == "github"
