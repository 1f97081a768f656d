"""The parts of an authorization server and of a protected endpoint, which a program of the official SDK uses itself."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from pydantic import AnyHttpUrl, AnyUrl, ValidationError
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcp_generated.compat import (
    AccessToken,
    AuthContextMiddleware,
    AuthSettings,
    BearerAuthBackend,
    OAuthClientInformationFull,
    RequireAuthMiddleware,
    Server,
    StreamableHTTPSessionManager,
    auth_context_var,
    build_resource_metadata_url,
    create_protected_resource_routes,
    get_access_token,
    validate_issuer_url,
)
from mcp_products.compat.auth import OfficialUser

URL = "http://127.0.0.1:8000"
CALLBACK = "https://client.example/callback"


def client_of(application: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=application), base_url=URL)


def test_an_issuer_is_https_or_this_machine() -> None:
    for good in ("https://auth.example/path", "http://localhost:1/", "http://127.0.0.1:1", "http://[::1]:1"):
        validate_issuer_url(AnyHttpUrl(good))
    for bad, text in (
        ("http://auth.example", "HTTPS"),
        ("http://127.0.0.1.auth.example", "HTTPS"),
        ("https://auth.example/#x", "fragment"),
        ("https://auth.example/?x=1", "query"),
    ):
        with pytest.raises(ValueError, match=text):
            validate_issuer_url(AnyHttpUrl(bad))


def test_settings_that_check_the_resource_name_it() -> None:
    with pytest.raises(ValidationError, match="validate_token_resource requires resource_server_url"):
        AuthSettings(issuer_url=AnyHttpUrl(URL), validate_token_resource=True)


async def test_a_protected_resource_has_metadata_at_its_path() -> None:
    resource = AnyHttpUrl("https://api.example/mcp")
    assert str(build_resource_metadata_url(resource)) == "https://api.example/.well-known/oauth-protected-resource/mcp"
    routes = create_protected_resource_routes(resource, [AnyHttpUrl(URL)], ["read"], "api")
    async with client_of(Starlette(routes=routes)) as http:
        document = (await http.get("/.well-known/oauth-protected-resource/mcp")).json()
        assert document["resource"] == "https://api.example/mcp" and document["resource_name"] == "api"
        assert (await http.get("/.well-known/oauth-protected-resource")).status_code == 404


class Verifier:
    """A verifier of one token."""

    def __init__(self, **more: Any) -> None:
        self.token = AccessToken(token="good", client_id="app", scopes=["read"], **more)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.token if token == "good" else None


def own_application(verifier: Any, scopes: list[str], resource: str | None = None) -> Starlette:
    async def who(request: Request) -> PlainTextResponse:
        token = get_access_token()
        assert isinstance(request.user, OfficialUser) and token is not None
        return PlainTextResponse(f"{request.user.display_name} with {token.token}")

    url = None if resource is None else AnyHttpUrl(resource)
    inner = Starlette(routes=[Route("/", who)])
    protected = RequireAuthMiddleware(inner, scopes, AnyHttpUrl("https://api.example/.well-known/x"))
    backend = BearerAuthBackend(verifier, resource_server_url=url)
    middleware = [Middleware(AuthenticationMiddleware, backend=backend), Middleware(AuthContextMiddleware)]
    return Starlette(routes=[Route("/", protected)], middleware=middleware)


RESOURCE = "https://api.example/mcp"


@pytest.mark.parametrize(
    ("application", "header", "status"),
    [
        (own_application(Verifier(), ["read"]), "bearer good", 200),
        (own_application(Verifier(), []), "Bearer good", 200),
        (own_application(Verifier(resource=f"{RESOURCE}/"), [], RESOURCE), "Bearer good", 200),
        (own_application(Verifier(), ["read"]), "", 401),
        (own_application(Verifier(), ["read"]), "Basic good", 401),
        (own_application(Verifier(), ["read"]), "Bearer bad", 401),
        (own_application(Verifier(expires_at=1), ["read"]), "Bearer good", 401),
        (own_application(Verifier(), [], RESOURCE), "Bearer good", 401),
        (own_application(Verifier(resource=f"{RESOURCE}/x"), [], RESOURCE), "Bearer good", 401),
        (own_application(Verifier(), ["read", "admin"]), "Bearer good", 403),
    ],
)
async def test_an_application_of_its_own_is_protected(application: Starlette, header: str, status: int) -> None:
    async with client_of(application) as http:
        response = await http.get("/", headers={"authorization": header} if header else {})
    assert response.status_code == status
    if status == 200:
        assert response.text == "app with good"
    else:
        code = "invalid_token" if status == 401 else "insufficient_scope"
        challenge = response.headers["www-authenticate"]
        assert f'error="{code}"' in challenge and "resource_metadata=" in challenge
        assert response.json()["error"] == code
    assert auth_context_var.get() is None


class Users:
    async def verify_token(self, token: str) -> AccessToken | None:
        subject, _, issuer = token.partition("@")
        claims = {"iss": issuer} if issuer else None
        return AccessToken(token=token, client_id="app", scopes=[], subject=subject, claims=claims)


async def test_a_session_is_that_of_one_user_of_a_client() -> None:
    manager = StreamableHTTPSessionManager(Server("shop"), json_response=True)
    backend = BearerAuthBackend(Users())
    application = AuthenticationMiddleware(manager, backend=backend)
    headers = {"accept": "application/json, text/event-stream"}
    declared = {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with manager.run(), client_of(application) as http:

        async def post(token: str, message: dict[str, Any], **further: str) -> httpx2.Response:
            return await http.post("/", json=message, headers={"authorization": f"Bearer {token}"} | headers | further)

        opened = await post("ann@one", opening | {"params": {"protocolVersion": "2025-11-25", **declared}})
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        answers = [(await post(who, ping, **session)).status_code for who in ("ann@one", "bob@one", "ann@two", "ann")]
    assert answers == [200, 404, 404, 404]


async def test_users_without_credentials_have_no_scopes() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def unreachable(*_: Any) -> None:
        raise AssertionError("the request has no scopes")

    async def receive() -> Any:
        return {"type": "http.request"}

    user = OfficialUser(Verifier().token)
    scope: dict[str, Any] = {"type": "http", "user": user, "headers": []}
    await RequireAuthMiddleware(unreachable, ["read"])(scope, receive, send)
    await RequireAuthMiddleware(unreachable, ["read"])({**scope, "auth": AuthCredentials([])}, receive, send)
    assert [message["status"] for message in sent if "status" in message] == [403, 403]


def test_a_test_of_a_program_sets_the_user() -> None:
    before = auth_context_var.set(OfficialUser(Verifier().token))
    try:
        token = get_access_token()
        assert token is not None and token.client_id == "app"
    finally:
        auth_context_var.reset(before)
    assert get_access_token() is None


def test_a_client_knows_its_redirect_uris() -> None:
    client = OAuthClientInformationFull(client_id="app", redirect_uris=[AnyUrl(CALLBACK)], scope="read")
    assert client.validate_redirect_uri(None) == AnyUrl(CALLBACK) and client.validate_scope("read") == ["read"]
