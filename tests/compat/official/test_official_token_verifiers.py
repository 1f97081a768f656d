"""A server with a `TokenVerifier` and `AuthSettings` of the official SDK is protected; its functions see the token."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from pydantic import AnyHttpUrl

from mcp_generated import LocalError
from mcp_generated.compat import (
    AccessToken,
    AuthSettings,
    FastMCP,
    MCPServer,
    ProviderTokenVerifier,
    Server,
    TokenVerifier,
    get_access_token,
    types,
)

URL = "http://127.0.0.1:8000/mcp"
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
TOKENS = {
    "good": AccessToken(token="good", client_id="app", scopes=["user"], resource=URL, subject="ann"),
    "expired": AccessToken(token="expired", client_id="app", scopes=["user"], resource=URL, expires_at=1),
    "other": AccessToken(token="other", client_id="app", scopes=["user"], resource="https://other.example/mcp"),
    "poor": AccessToken(token="poor", client_id="app", scopes=[], resource=URL, expires_at=int(time.time()) + 86_400),
}


class Verifier(TokenVerifier):
    """A verifier as the tutorials of the official SDK write it."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return TOKENS.get(token)


def settings(**more: Any) -> AuthSettings:
    return AuthSettings(
        issuer_url=AnyHttpUrl("https://auth.example.com"),
        resource_server_url=AnyHttpUrl(URL),
        required_scopes=["user"],
        validate_token_resource=True,
        **more,
    )


def described() -> str:
    token = get_access_token()
    return "nobody" if token is None else f"{token.subject} by {token.client_id} with {token.token}"


def high_level(server_class: Any) -> Any:
    server = server_class("demo", token_verifier=Verifier(), auth=settings())

    @server.tool()
    def plain() -> str:
        return described()

    @server.tool()
    async def asynchronous() -> str:
        return described()

    return server.streamable_http_app(stateless_http=True)


def low_level() -> Any:
    server: Any = Server("demo")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return []

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        return [types.TextContent(type="text", text=described())]

    return server.streamable_http_app(stateless_http=True, auth=settings(), token_verifier=Verifier())


SERVERS: dict[str, Callable[[], Any]] = {
    "FastMCP": lambda: high_level(FastMCP),
    "MCPServer": lambda: high_level(MCPServer),
    "Server": low_level,
}


async def call(application: Any, token: str | None, name: str = "plain") -> httpx2.Response:
    headers = HEADERS if token is None else {**HEADERS, "authorization": f"Bearer {token}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
    async with application.router.lifespan_context(application):
        transport = httpx2.ASGITransport(app=application)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.post("/mcp", json=message, headers=headers)


@pytest.mark.parametrize("server", SERVERS)
async def test_a_function_sees_the_token_of_its_request(server: str) -> None:
    for name in ("plain", "asynchronous"):
        response = await call(SERVERS[server](), "good", name)
        assert response.status_code == 200 and "ann by app with good" in response.text


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("token", [None, "unknown", "expired", "other"])
async def test_a_request_without_a_valid_token_is_refused(server: str, token: str | None) -> None:
    response = await call(SERVERS[server](), token)
    assert response.status_code == 401 and "resource_metadata" in response.headers["www-authenticate"]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_token_without_the_required_scopes_is_refused(server: str) -> None:
    assert (await call(SERVERS[server](), "poor")).status_code == 403


async def test_without_authentication_there_is_no_token() -> None:
    assert get_access_token() is None


async def test_a_provider_verifies_its_own_tokens() -> None:
    class Provider:
        async def load_access_token(self, token: str) -> AccessToken | None:
            return TOKENS.get(token)

    provider: Any = Provider()
    verifier = ProviderTokenVerifier(provider)
    assert await verifier.verify_token("good") == TOKENS["good"]
    assert await verifier.verify_token("unknown") is None


def test_settings_without_a_verifier_and_the_reverse_are_refused() -> None:
    with pytest.raises(LocalError, match="FastMCP: token_verifier is missing"):
        FastMCP("demo", auth=settings())
    with pytest.raises(LocalError, match="MCPServer: auth is missing"):
        MCPServer("demo", token_verifier=Verifier())
    with pytest.raises(LocalError, match="streamable_http_app: auth is missing"):
        Server("demo").streamable_http_app(token_verifier=Verifier())
