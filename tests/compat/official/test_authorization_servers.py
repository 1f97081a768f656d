"""A program of the official SDK that embeds an authorization server: its clients register, log in, and call a tool."""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from mcp_generated import LocalError
from mcp_generated.compat import (
    AccessToken,
    AuthenticationError,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    AuthSettings,
    ClientAuthenticator,
    ClientRegistrationOptions,
    FastMCP,
    MCPServer,
    OAuthAuthorizationServerProvider,
    OAuthClientInformationFull,
    OAuthProvider,
    OAuthToken,
    ProviderTokenVerifier,
    RefreshToken,
    RegistrationError,
    RevocationOptions,
    Server,
    StandaloneFastMCP,
    TokenError,
    auth_context_var,
    construct_redirect_uri,
    create_auth_routes,
    get_access_token,
    types,
)
from mcp_runtime.aio import clock as clocks

URL = "http://127.0.0.1:8000"
CALLBACK = "https://client.example/callback"
NOW = 1_800_000_000.0
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """A provider that keeps all in memory, and whose users agree at once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.raised: Exception | None = None

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        if self.raised is not None:
            raise self.raised
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.raised is not None:
            raise self.raised
        code = AuthorizationCode(
            code=secrets.token_hex(8),
            client_id=client.client_id or "",
            expires_at=NOW + 60,
            subject="ann",
            **params.model_dump(exclude={"state", "scopes"}),
            scopes=params.scopes or ["read"],
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self.raised is not None:
            raise self.raised
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh_tokens[refresh_token.token]
        return self._issue(refresh_token.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)
        self.refresh_tokens.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_hex(8), secrets.token_hex(8)
        fields: dict[str, Any] = {"client_id": client_id, "scopes": scopes, "subject": "ann"}
        self.tokens[access] = AccessToken(token=access, expires_at=int(NOW) + 900, **fields)
        self.refresh_tokens[refresh] = RefreshToken(token=refresh, expires_at=int(NOW) + 3600, **fields)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=900, scope=" ".join(scopes))


class Embedded(Provider, OAuthProvider):
    """The same as a provider of FastMCP, which has the settings as well."""

    def __init__(self, **more: Any) -> None:
        Provider.__init__(self)
        options = settings()
        registration, revocation = options.client_registration_options, options.revocation_options
        given = {"client_registration_options": registration, "revocation_options": revocation}
        OAuthProvider.__init__(self, **{"base_url": URL, "required_scopes": ["read"], **given, **more})


def settings() -> AuthSettings:
    return AuthSettings(
        issuer_url=AnyHttpUrl(URL),
        resource_server_url=AnyHttpUrl(f"{URL}/mcp"),
        required_scopes=["read"],
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["read", "write"], default_scopes=["read"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    )


def high_level(server_class: Any, provider: Provider) -> Any:
    server = server_class("demo", auth_server_provider=provider, auth=settings())

    @server.tool()
    def who() -> str:
        token = get_access_token()
        user = auth_context_var.get()
        return f"{token and token.subject} is {user and user.scopes}"

    return server.streamable_http_app(stateless_http=True)


def low_level(provider: Provider) -> Any:
    server: Any = Server("demo")

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        token = get_access_token()
        return [types.TextContent(type="text", text=f"{token and token.subject} is {token and token.scopes}")]

    return server.streamable_http_app(stateless_http=True, auth=settings(), auth_server_provider=provider)


def standalone(provider: Provider) -> Any:
    """Return the application of a server that gets its provider as `auth=`."""
    server: Any = StandaloneFastMCP("demo", auth=embedded_in(provider))

    @server.tool
    def who() -> str:
        token = get_access_token()
        return f"{token and token.subject} is {token and token.scopes}"

    return server.http_app(stateless_http=True)


def embedded_in(provider: Provider, **more: Any) -> Embedded:
    """Return a provider of FastMCP with the clients and the tokens of another one."""
    made = Embedded(**more)
    vars(made).update(vars(provider))
    return made


SERVERS: dict[str, Callable[[Provider], Any]] = {
    "OAuthProvider": standalone,
    "FastMCP": lambda provider: high_level(FastMCP, provider),
    "MCPServer": lambda provider: high_level(MCPServer, provider),
    "Server": low_level,
}


class WallClock:
    """The time of all checks."""

    now = NOW


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    made = WallClock()
    monkeypatch.setattr(clocks, "wall", lambda: made.now)
    return made


@pytest.fixture
def provider(clock: WallClock) -> Provider:
    return Provider()


@pytest.fixture
def http(provider: Provider) -> httpx2.AsyncClient:
    options = settings()
    routes = create_auth_routes(
        provider, options.issuer_url, None, options.client_registration_options, options.revocation_options
    )
    return client_of(Starlette(routes=routes))


def client_of(application: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=application), base_url=URL)


async def registered(http: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    response = await http.post("/register", json={"redirect_uris": [CALLBACK], **more})
    assert response.status_code == 201 and response.headers["cache-control"] == "no-store"
    made: dict[str, Any] = response.json()
    return made


def asked(client: dict[str, Any], **more: str) -> dict[str, str]:
    fields = {"client_id": client["client_id"], "response_type": "code", "code_challenge": CHALLENGE}
    return {**fields, "code_challenge_method": "S256", "redirect_uri": CALLBACK, "state": "s", **more}


async def code_of(http: httpx2.AsyncClient, client: dict[str, Any], **more: str) -> str:
    response = await http.get("/authorize", params=asked(client, **more))
    assert response.status_code == 302 and response.headers["cache-control"] == "no-store"
    query = parse_qs(urlsplit(response.headers["location"]).query)
    assert response.headers["location"].startswith(f"{CALLBACK}?") and query["state"] == ["s"]
    return query["code"][0]


def of_client(client: dict[str, Any]) -> dict[str, str]:
    return {name: client[name] for name in ("client_id", "client_secret") if name in client}


async def redeemed(http: httpx2.AsyncClient, client: dict[str, Any], code: str, **more: str) -> httpx2.Response:
    fields = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
    response = await http.post("/token", data={**fields, **of_client(client), **more})
    assert response.headers["cache-control"] == "no-store"
    return response


async def tokens_of(http: httpx2.AsyncClient, client: dict[str, Any]) -> dict[str, Any]:
    response = await redeemed(http, client, await code_of(http, client))
    assert response.status_code == 200, response.text
    made: dict[str, Any] = response.json()
    return made


def is_refused(response: httpx2.Response, status: int, code: str, text: str) -> bool:
    body = response.json()
    return (response.status_code, body["error"]) == (status, code) and text in body["error_description"]


# ---- the whole flow -------------------------------------------------------------------------------------------------


async def called(http: httpx2.AsyncClient, token: str) -> httpx2.Response:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "who", "arguments": {}},
    }
    return await http.post("/mcp", json=message, headers={**headers, "authorization": f"Bearer {token}"})


@pytest.mark.parametrize("server", SERVERS)
async def test_a_client_registers_logs_in_and_calls_a_tool(server: str, provider: Provider) -> None:
    application = SERVERS[server](provider)
    async with application.router.lifespan_context(application), client_of(application) as http:
        refused = await called(http, "unknown")
        assert refused.status_code == 401
        document = refused.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
        resource = (await http.get(document)).json()
        scopes = ["read", "write"] if server == "OAuthProvider" else ["read"]
        assert resource["authorization_servers"] == [f"{URL}/"] and resource["scopes_supported"] == scopes
        metadata = (await http.get("/.well-known/oauth-authorization-server")).json()
        assert metadata["issuer"] == f"{URL}/" and metadata["code_challenge_methods_supported"] == ["S256"]
        for name in ("authorization", "token", "registration", "revocation"):
            assert metadata[f"{name}_endpoint"].startswith(f"{URL}/")
        client = await registered(http)
        tokens = await tokens_of(http, client)
        assert "ann is ['read']" in (await called(http, tokens["access_token"])).text

        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **of_client(client)}
        renewed = (await http.post("/token", data=form)).json()
        assert "ann is ['read']" in (await called(http, renewed["access_token"])).text
        revoked = await http.post("/revoke", data={"token": renewed["access_token"], **of_client(client)})
        assert revoked.status_code == 200 and revoked.headers["cache-control"] == "no-store"
        assert (await called(http, renewed["access_token"])).status_code == 401


async def test_a_provider_below_a_path_has_its_metadata_at_the_root(provider: Provider) -> None:
    made = embedded_in(provider, base_url=f"{URL}/api", issuer_url=f"{URL}/login")
    server: Any = StandaloneFastMCP("demo", auth=made)
    inner = server.http_app(path="/tools", stateless_http=True)
    routes = [*made.get_well_known_routes("/tools"), Mount("/api", inner)]
    application = Starlette(routes=routes, lifespan=lambda app: inner.lifespan(app))
    async with application.router.lifespan_context(application), client_of(application) as http:
        refused = await http.post("/api/tools", json={})
        document = refused.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
        resource = (await http.get(document)).json()
        assert resource["resource"] == f"{URL}/api/tools" and resource["authorization_servers"] == [f"{URL}/login"]
        metadata = (await http.get("/.well-known/oauth-authorization-server/login")).json()
        assert metadata["issuer"] == f"{URL}/login" and metadata["token_endpoint"] == f"{URL}/api/token"
        protected = await http.get("/.well-known/oauth-protected-resource/api/tools")
        assert protected.json()["scopes_supported"] == ["read", "write"]
        client = (await http.post("/api/register", json={"redirect_uris": [CALLBACK]})).json()
        assert client["client_id"] in made.clients


async def test_a_token_that_has_expired_is_refused(provider: Provider, clock: WallClock) -> None:
    application = SERVERS["FastMCP"](provider)
    async with application.router.lifespan_context(application), client_of(application) as http:
        tokens = await tokens_of(http, await registered(http))
        assert (await called(http, tokens["access_token"])).status_code == 200
        clock.now = NOW + 901
        assert (await called(http, tokens["access_token"])).status_code == 401


def test_a_server_takes_a_provider_or_a_verifier_and_needs_settings() -> None:
    provider: Any = Provider()
    with pytest.raises(LocalError, match="auth_server_provider verifies its tokens itself"):
        FastMCP("demo", auth_server_provider=provider, token_verifier=ProviderTokenVerifier(provider), auth=settings())
    with pytest.raises(LocalError, match="auth is missing"):
        MCPServer("demo", auth_server_provider=provider)
    with pytest.raises(ValueError, match="HTTPS"):
        FastMCP(
            "demo",
            auth_server_provider=provider,
            auth=AuthSettings(issuer_url=AnyHttpUrl("http://auth.example"), resource_server_url=None),
        )


# ---- registration ---------------------------------------------------------------------------------------------------


async def test_a_client_has_a_secret_unless_it_is_public(http: httpx2.AsyncClient, provider: Provider) -> None:
    client = await registered(http, client_name="app")
    assert client["scope"] == "read" and client["client_secret_expires_at"] == 0 and client["client_name"] == "app"
    assert provider.clients[client["client_id"]].client_secret == client["client_secret"]
    public = await registered(http, token_endpoint_auth_method="none", scope="write")
    assert "client_secret" not in public and public["scope"] == "write"
    assert (await redeemed(http, public, await code_of(http, public))).status_code == 200


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"redirect_uris": []}, "at least 1 item"),
        ({"redirect_uris": ["none"]}, "valid URL"),
        ({"scope": "read admin"}, "not valid: admin"),
        ({"grant_types": ["refresh_token"]}, "grant_types must include"),
        ({"grant_types": ["authorization_code", "refresh_token", JWT_BEARER]}, "pre-registered"),
        ({"response_types": ["token"]}, "response_types must include 'code'"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "is not supported"),
    ],
)
async def test_a_client_that_cannot_be_is_not_registered(
    http: httpx2.AsyncClient, provider: Provider, metadata: dict[str, Any], text: str
) -> None:
    response = await http.post("/register", json={"redirect_uris": [CALLBACK], **metadata})
    assert is_refused(response, 400, "invalid_client_metadata", text) and not provider.clients


async def test_a_registration_is_json_and_a_provider_may_refuse_it(
    http: httpx2.AsyncClient, provider: Provider
) -> None:
    response = await http.post("/register", content=b"[not json")
    assert is_refused(response, 400, "invalid_client_metadata", "JSON object")
    provider.raised = RegistrationError("invalid_redirect_uri", "not this one")
    response = await http.post("/register", json={"redirect_uris": [CALLBACK]})
    assert is_refused(response, 400, "invalid_redirect_uri", "not this one")


# ---- authorization --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "unknown"},
        {"client_id": ""},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": f"{CALLBACK}/"},
        {"redirect_uri": f"{CALLBACK}?x=1"},
        {"redirect_uri": "no url"},
    ],
)
async def test_an_error_is_shown_where_the_redirect_uri_is_not_the_clients(
    http: httpx2.AsyncClient, provider: Provider, change: dict[str, str]
) -> None:
    client = await registered(http)
    for response in (
        await http.get("/authorize", params=asked(client, **change)),
        await http.post("/authorize", data=asked(client, **change)),
    ):
        assert is_refused(response, 400, "invalid_request", "") and "location" not in response.headers
    assert not provider.codes


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"scope": "admin"}, "invalid_scope"),
    ],
)
async def test_other_errors_go_to_the_redirect_uri(
    http: httpx2.AsyncClient, provider: Provider, change: dict[str, str], error: str
) -> None:
    response = await http.get("/authorize", params=asked(await registered(http), **change))
    query = parse_qs(urlsplit(response.headers["location"]).query)
    assert response.status_code == 302 and (query["error"], query["state"]) == ([error], ["s"])
    assert response.headers["location"].startswith(f"{CALLBACK}?") and not provider.codes


@pytest.mark.parametrize(
    ("raised", "error"), [(AuthorizeError("access_denied"), "access_denied"), (RuntimeError("x"), "server_error")]
)
async def test_a_provider_may_refuse_an_authorization(
    http: httpx2.AsyncClient, provider: Provider, raised: Exception, error: str
) -> None:
    client = await registered(http)
    provider.raised = raised
    response = await http.post("/authorize", data=asked(client))
    assert parse_qs(urlsplit(response.headers["location"]).query)["error"] == [error]


async def test_a_parameter_that_is_repeated_is_refused(http: httpx2.AsyncClient) -> None:
    client = await registered(http)
    response = await http.get("/authorize", params=[*asked(client).items(), ("redirect_uri", CALLBACK)])
    assert is_refused(response, 400, "invalid_request", "must not be repeated")


async def test_the_redirect_uri_may_be_left_out_if_there_is_one(http: httpx2.AsyncClient) -> None:
    client = await registered(http)
    code = await code_of(http, client, redirect_uri="")
    assert is_refused(await redeemed(http, client, code), 400, "invalid_request", "redirect_uri did not match")
    assert (await redeemed(http, client, code, redirect_uri="")).status_code == 200
    short = await registered(http, redirect_uris=["http://localhost:3000"])
    response = await http.get("/authorize", params=asked(short, redirect_uri="http://localhost:3000"))
    assert response.status_code == 302 and response.headers["location"].startswith("http://localhost:3000/?code=")
    several = await registered(http, redirect_uris=[CALLBACK, f"{CALLBACK}/other"])
    response = await http.get("/authorize", params=asked(several, redirect_uri=""))
    assert is_refused(response, 400, "invalid_request", "redirect_uri must be specified")


# ---- tokens ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"code": "unknown"}, "invalid_grant", "does not exist"),
        ({"code_verifier": "w" * 43}, "invalid_grant", "incorrect code_verifier"),
        ({"code_verifier": CHALLENGE}, "invalid_grant", "incorrect code_verifier"),
        ({"code_verifier": ""}, "invalid_request", "code_verifier: Field required"),
        ({"redirect_uri": f"{CALLBACK}/other"}, "invalid_request", "redirect_uri did not match"),
        ({"redirect_uri": ""}, "invalid_request", "redirect_uri did not match"),
        ({"grant_type": "password"}, "invalid_request", "grant_type"),
        ({"grant_type": JWT_BEARER, "assertion": "x"}, "unsupported_grant_type", "Unsupported grant type"),
    ],
)
async def test_a_code_is_redeemed_only_as_it_was_issued(
    http: httpx2.AsyncClient, provider: Provider, change: dict[str, str], code: str, text: str
) -> None:
    client = await registered(http)
    issued = await code_of(http, client)
    assert is_refused(await redeemed(http, client, **{"code": issued, **change}), 400, code, text)
    assert not provider.tokens


async def test_a_code_and_a_refresh_token_are_of_their_client_only(
    http: httpx2.AsyncClient, provider: Provider
) -> None:
    client, other = await registered(http), await registered(http)
    stolen = await redeemed(http, other, await code_of(http, client))
    assert is_refused(stolen, 400, "invalid_grant", "authorization code does not exist")
    tokens = await tokens_of(http, client)
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **of_client(other)}
    assert is_refused(await http.post("/token", data=form), 400, "invalid_grant", "refresh token does not exist")
    for token in (tokens["access_token"], tokens["refresh_token"]):
        assert (await http.post("/revoke", data={"token": token, **of_client(other)})).status_code == 200
    assert tokens["access_token"] in provider.tokens and tokens["refresh_token"] in provider.refresh_tokens


async def test_codes_and_refresh_tokens_expire(http: httpx2.AsyncClient, clock: WallClock) -> None:
    client = await registered(http)
    tokens, code = await tokens_of(http, client), await code_of(http, client)
    clock.now = NOW + 61
    assert is_refused(await redeemed(http, client, code), 400, "invalid_grant", "code has expired")
    clock.now = NOW + 3601
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **of_client(client)}
    assert is_refused(await http.post("/token", data=form), 400, "invalid_grant", "refresh token has expired")


async def test_a_refresh_gives_no_more_scopes_and_a_provider_may_refuse(
    http: httpx2.AsyncClient, provider: Provider
) -> None:
    client = await registered(http)
    tokens, code = await tokens_of(http, client), await code_of(http, client)
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **of_client(client)}
    response = await http.post("/token", data={**form, "scope": "read write"})
    assert is_refused(response, 400, "invalid_scope", "cannot request scope `write`")
    provider.raised = TokenError("invalid_grant", "not today")
    assert is_refused(await redeemed(http, client, code), 400, "invalid_grant", "not today")


async def test_assertions_are_taken_only_where_they_are_enabled(provider: Provider) -> None:
    client: dict[str, Any] = {"client_id": "app", "client_secret": "secret"}
    provider.clients["app"] = OAuthClientInformationFull(
        **client, grant_types=[JWT_BEARER], token_endpoint_auth_method="client_secret_post"
    )
    form = {"grant_type": JWT_BEARER, "assertion": "x", **client}
    for enabled, text in ((False, "is not supported"), (True, "takes no identity assertions")):
        routes = create_auth_routes(provider, AnyHttpUrl(URL), identity_assertion_enabled=enabled)
        async with client_of(Starlette(routes=routes)) as http:
            assert is_refused(await http.post("/token", data=form), 400, "unsupported_grant_type", text)
            metadata = (await http.get("/.well-known/oauth-authorization-server")).json()
            assert (JWT_BEARER in metadata["grant_types_supported"]) is enabled


async def test_a_revoked_refresh_token_is_gone(http: httpx2.AsyncClient, provider: Provider) -> None:
    client = await registered(http)
    form = {"token": (await tokens_of(http, client))["refresh_token"], **of_client(client)}
    response = await http.post("/revoke", data={**form, "token_type_hint": "other"})
    assert is_refused(response, 400, "invalid_request", "token_type_hint") and provider.refresh_tokens
    assert (await http.post("/revoke", data={**form, "token_type_hint": "refresh_token"})).status_code == 200
    assert not provider.refresh_tokens


# ---- who asks -------------------------------------------------------------------------------------------------------


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}"}


@pytest.mark.parametrize(
    ("method", "headers", "form", "text"),
    [
        ("client_secret_post", {}, {"client_id": ""}, "Missing client_id"),
        ("client_secret_post", {}, {"client_id": "unknown"}, "Invalid client_id"),
        ("client_secret_post", {}, {"client_secret": ""}, "Client secret is required"),
        ("client_secret_post", {}, {"client_secret": "wrong"}, "Invalid client_secret"),
        ("client_secret_post", basic("app", "secret"), {"client_secret": ""}, "Client secret is required"),
        ("client_secret_basic", {}, {}, "Missing or invalid Basic"),
        ("client_secret_basic", {"authorization": "Basic !"}, {}, "Invalid Basic"),
        ("client_secret_basic", basic("other", "secret"), {}, "Client ID mismatch"),
        ("client_secret_basic", basic("app", "wrong"), {}, "Invalid client_secret"),
        ("private_key_jwt", {}, {}, "Unsupported auth method"),
    ],
)
async def test_a_client_that_does_not_show_its_secret_gets_401(
    http: httpx2.AsyncClient,
    provider: Provider,
    caplog: pytest.LogCaptureFixture,
    method: str,
    headers: dict[str, str],
    form: dict[str, str],
    text: str,
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_runtime.compat.auth_server")
    provider.clients["app"] = OAuthClientInformationFull(
        client_id="app", client_secret="secret", token_endpoint_auth_method=method
    )
    fields = {"client_id": "app", "client_secret": "secret", "token": "x", **form}
    for path in ("/token", "/revoke"):
        response = await http.post(path, data=fields, headers=headers)
        expected = "invalid_client" if path == "/token" else "unauthorized_client"
        assert is_refused(response, 401, expected, text) and response.headers["cache-control"] == "no-store"
    assert "secret" not in " ".join(record.getMessage() for record in caplog.records if record.name.startswith("mcp"))


async def test_a_secret_in_the_header_is_accepted_until_it_expires(
    http: httpx2.AsyncClient, provider: Provider, clock: WallClock
) -> None:
    provider.clients["app"] = OAuthClientInformationFull(
        client_id="app",
        client_secret="s:cret",
        client_secret_expires_at=int(NOW) + 10,
        token_endpoint_auth_method="client_secret_basic",
    )
    form, headers = {"client_id": "app", "token": "x"}, basic("app", "s%3Acret")
    assert (await http.post("/revoke", data=form, headers=headers)).status_code == 200
    clock.now = NOW + 11
    response = await http.post("/revoke", data=form, headers=headers)
    assert is_refused(response, 401, "unauthorized_client", "Client secret has expired")


async def test_a_client_without_the_secret_of_its_method_is_refused(provider: Provider) -> None:
    provider.clients["app"] = OAuthClientInformationFull(
        client_id="app", token_endpoint_auth_method="client_secret_post"
    )

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"client_id=app&client_secret=x"}

    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/token",
        "query_string": b"",
        "headers": headers,
    }
    scope["server"] = ("127.0.0.1", 80)
    with pytest.raises(AuthenticationError, match="no stored secret"):
        await ClientAuthenticator(provider).authenticate_request(Request(scope, receive))


async def test_bodies_are_forms_of_at_most_4_mib(http: httpx2.AsyncClient) -> None:
    origin = {"origin": "https://page.example"}
    for path in ("/token", "/revoke", "/register"):
        response = await http.post(path, content=b"x" * (4 * 1024 * 1024 + 1), headers=origin)
        assert response.status_code == 413 and response.headers["access-control-allow-origin"] == "*"
    response = await http.post("/token", json={"client_id": "app"}, headers=origin)
    assert is_refused(response, 400, "invalid_request", "Content-Type")
    assert "access-control-allow-origin" not in (await http.get("/authorize", headers=origin)).headers
