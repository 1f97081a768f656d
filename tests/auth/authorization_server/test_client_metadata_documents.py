"""Clients whose id is where their metadata is: what is asked for, what is believed, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.auth.authorization_server import REDIRECT, Clock, Person, Program, house, tokens

from mcp_products.auth.authorization_server.clients import ClientRegistry
from mcp_products.auth.authorization_server.storage import SQLiteStorage
from mcp_products.auth.http import AuthHTTPClient, AuthResponse, URLPolicy
from mcp_runtime.errors import AuthorizationServerUnavailableError

ID = "https://client.example/metadata.json"
DOCUMENT = {"client_id": ID, "client_name": "A program", "redirect_uris": [REDIRECT]}


class Web(AuthHTTPClient):
    """What the web says, where it is asked for: certificates for names of tests are not to be had."""

    def __init__(self, response: AuthResponse) -> None:
        super().__init__(URLPolicy())
        self.response = response
        self.urls: list[str] = []

    async def get(self, url: str) -> AuthResponse:
        self.urls.append(self.policy.check(url))
        if self.response.status == 0:
            raise AuthorizationServerUnavailableError("nobody is there")
        return self.response


def find_client(response: AuthResponse, id: str = ID, times: int = 1, clock: Clock | None = None) -> tuple[Any, Web]:
    web = Web(response)

    async def run() -> Any:
        clients = ClientRegistry(SQLiteStorage(), (), ("read",), web, 10, clock or Clock())
        for _ in range(times):
            client = await clients.find(id)
        return client

    return asyncio.run(run()), web


def test_a_document_that_is_about_itself_is_a_client_and_is_asked_for_once_in_a_while() -> None:
    client, web = find_client(AuthResponse(200, DOCUMENT), times=3)
    assert client is not None and (client.client_id, client.redirect_uris, client.secret_digest) == (
        ID,
        (REDIRECT,),
        None,
    )
    assert web.urls == [ID]


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "https://other.example/metadata.json"},
        {"client_id": f"{ID}/"},
        {"client_id": None},
        {"client_secret": "shared by all who read it"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"redirect_uris": ["http://client.example/callback"]},
        {"redirect_uris": []},
        {"client_name": "x" * 1000},
    ],
    ids=str,
)
def test_a_document_that_breaks_a_rule_is_no_client(change: dict[str, Any]) -> None:
    assert find_client(AuthResponse(200, {**DOCUMENT, **change}))[0] is None


@pytest.mark.parametrize(
    "response",
    [
        AuthResponse(404, DOCUMENT),
        AuthResponse(302, None),
        AuthResponse(200, None),
        AuthResponse(200, [DOCUMENT]),
        AuthResponse(0, None),
    ],
)
def test_where_there_is_no_document_there_is_no_client_and_nobody_asks_again_at_once(response: AuthResponse) -> None:
    client, web = find_client(response, times=3)
    assert client is None and len(web.urls) == 1


@pytest.mark.parametrize(
    "id",
    [
        "http://client.example/metadata.json",
        "https://client.example",
        "https://client.example/",
        "https://client.example/a/../metadata.json",
        "https://client.example/metadata.json?a=b",
        "https://client.example/metadata.json#a",
        "https://user@client.example/metadata.json",
        "https://CLIENT.example/metadata.json",
        "file:///etc/passwd",
        "gopher://client.example/x",
        "https://client.example/" + "x" * 600,
        "https://127.0.0.1/metadata.json",
        "https://localhost/metadata.json",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/metadata.json",
        "https://[::1]/metadata.json",
    ],
)
def test_nothing_is_asked_for_that_may_be_inside_or_is_not_plain(id: str) -> None:
    client, web = find_client(AuthResponse(200, {**DOCUMENT, "client_id": id}), id)
    assert client is None and web.urls == []


def test_a_server_does_not_connect_to_itself_for_a_stranger() -> None:
    async def run() -> None:
        connections: list[Any] = []
        inside = await asyncio.start_server(lambda reader, writer: connections.append(writer), "127.0.0.1", 0)
        port = inside.sockets[0].getsockname()[1]
        async with inside:
            for host in ("127.0.0.1", "localhost"):
                server = house(client_id_metadata_documents=True)
                program = Program(server, f"https://{host}:{port}/metadata.json")
                assert (await Person(server).request_authorization(**program.authorization_params())).status_code == 400
        assert connections == []

    asyncio.run(run())


def test_a_client_of_a_document_gets_tokens_and_the_person_sees_where_it_is_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def get(self: AuthHTTPClient, url: str) -> AuthResponse:
        return AuthResponse(200, DOCUMENT)

    monkeypatch.setattr(AuthHTTPClient, "get", get)

    async def run() -> None:
        server = house(client_id_metadata_documents=True)
        program = Program(server, ID)
        page = await Person(server).request_authorization(**program.authorization_params())
        assert ID in page.text and "nobody else has checked its name" in page.text
        introspection = await server.introspect((await tokens(server, program))["access_token"])
        assert introspection is not None and introspection.grant.client_id == ID

    asyncio.run(run())
