"""A gateway that exchanges the tokens of its users (RFC 8693): each server gets a token of its own for each user."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs

import httpx2
import pytest
from support.clients import connect
from support.feature_cells.bridge.recording_server import VERSION, Recording, recording_servers

from mcp_generated import Gateway, LocalError
from mcp_generated.auth import AuthenticatedUser, ResourceServer
from mcp_products.relay.gateway.token_exchange import UserToken

pytestmark = pytest.mark.deadline(120)

META = "io.modelcontextprotocol/"
WITH_SESSIONS = "2025-06-18"
RESOURCE, ISSUER = "http://127.0.0.1/mcp", "https://auth.example"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


class TokenEndpoint(BaseHTTPRequestHandler):
    """The token endpoint of a small authorization server, which notes what it is sent."""

    forms: list[dict[str, str]]
    clients: list[str]
    answer: dict[str, Any]
    url = ""

    def do_POST(self) -> None:
        """Answer with a token that names its user."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.forms.append(form)
        self.clients.append(self.headers.get("authorization", ""))
        token = f"{form['subject_token']}-for-crm-{len(self.forms)}"
        answer = {"access_token": token, "issued_token_type": ACCESS_TOKEN, "token_type": "Bearer", "expires_in": 60}
        answer = {name: value for name, value in {**answer, **self.answer}.items() if value is not None}
        if answer.get("access_token") == "the same":
            answer["access_token"] = form["subject_token"]
        data = json.dumps(answer).encode()
        self.send_response(400 if "error" in answer else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def endpoint() -> Iterator[type[TokenEndpoint]]:
    """A token endpoint."""
    handler = type("Endpoint", (TokenEndpoint,), {"forms": [], "clients": [], "answer": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"http://127.0.0.1:{server.server_address[1]}/token"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler
    server.shutdown()


@pytest.fixture
def crm() -> Iterator[type[Recording]]:
    """The server behind the gateway."""
    with recording_servers() as (handler, _):
        handler.tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        yield handler


# Tokens of one user, and what they allow. Those that begin alike allow the same: one was renewed.
RIGHTS: dict[str, dict[str, Any]] = {
    "wide": {"scopes": frozenset({"read", "write"}), "claims": {"scope": "read write", "jti": "1", "exp": 1}},
    "wide-renewed": {"scopes": frozenset({"read", "write"}), "claims": {"scope": "read write", "jti": "2", "exp": 2}},
    "narrow": {"scopes": frozenset({"read"}), "claims": {"scope": "read", "jti": "3"}},
    "scopes-of-no-claim": {"scopes": frozenset({"read"}), "claims": {"scope": "read write"}},
    "audience": {"scopes": frozenset({"read", "write"}), "claims": {"scope": "read write", "aud": ["other"]}},
    "actor": {"scopes": frozenset({"read", "write"}), "claims": {"scope": "read write", "act": {"sub": "robot"}}},
    "strength": {"scopes": frozenset({"read", "write"}), "claims": {"scope": "read write", "acr": "1"}},
    "client": {"client_id": "other", "scopes": frozenset({"read", "write"}), "claims": {"scope": "read write"}},
    "opaque-1": {"scopes": frozenset({"read"})},
    "opaque-2": {"scopes": frozenset({"read"})},
}


class Verifier:
    """Knows the tokens of two users, and one that has expired soon."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token."""
        if token in RIGHTS:
            return AuthenticatedUser("ada", issuer=ISSUER, **RIGHTS[token])
        subject = {"token-of-ada": "ada", "newer-token-of-ada": "ada", "token-of-eve": "eve"}.get(token)
        return None if subject is None else AuthenticatedUser(subject, issuer=ISSUER)


def settings(endpoint: type[TokenEndpoint], crm: type[Recording], **more: str) -> dict[str, Any]:
    """Return the settings of a gateway that exchanges tokens."""
    exchange = {"token_endpoint": endpoint.url, "client_id": "gateway", "client_secret": "s3cret", **more}
    return {"upstreams": {"crm": {"url": crm.url, "exchange": exchange}}}


class Users:
    """HTTP requests of users to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        auth = ResourceServer(RESOURCE, [ISSUER], verifier=Verifier())
        transport = httpx2.ASGITransport(app=gateway.app.asgi(path="/mcp", auth=auth))
        self.web = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def call(self, token: str | None, session: str | None = None) -> Any:
        """Call a tool with an access token, and return the response."""
        params = {
            "name": "crm_t",
            "arguments": {},
            "_meta": {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}},
        }
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
        headers |= {"mcp-method": "tools/call", "mcp-name": "crm_t"}
        headers |= {} if token is None else {"authorization": f"Bearer {token}"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        if session is not None:
            headers |= {"mcp-session-id": session, "mcp-protocol-version": WITH_SESSIONS}
        return await self.web.post("/mcp", json=message, headers=headers)

    async def open(self, token: str) -> str:
        """Open a session, and return its id."""
        params = {"protocolVersion": WITH_SESSIONS, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
        answer = await self.web.post("/mcp", json=message, headers=headers)
        id = answer.headers["mcp-session-id"]
        headers |= {"mcp-session-id": id}
        await self.web.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        return str(id)


@asynccontextmanager
async def users(gateway: Gateway) -> AsyncIterator[Users]:
    """Yield the users of a gateway, whose connections are closed at the end."""
    try:
        yield Users(gateway)
    finally:
        for upstream in gateway._provider.upstreams.values():
            await upstream.close()


def tokens(crm: type[Recording]) -> list[str]:
    """Return the tokens that the server behind the gateway got."""
    return [head.get("authorization", "none") for head in crm.heads]


async def test_each_user_has_a_token_of_the_exchange_and_never_the_own_one(endpoint: Any, crm: Any) -> None:
    async with users(Gateway(settings(endpoint, crm, scope="crm:read"))) as people:
        for token in ("token-of-ada", "token-of-eve", "token-of-ada"):
            assert "result" in (await people.call(token)).json()
        assert (await people.call(None)).status_code == 401
        assert (await people.call("unknown")).status_code == 401
    assert set(tokens(crm)) == {"Bearer token-of-ada-for-crm-1", "Bearer token-of-eve-for-crm-2"}
    assert len(endpoint.forms) == 2, "a token is exchanged once, and kept until it expires"
    form = {"subject_token_type": ACCESS_TOKEN, "requested_token_type": ACCESS_TOKEN, "resource": crm.url}
    grant = "urn:ietf:params:oauth:grant-type:token-exchange"
    assert endpoint.forms[0] == {**form, "grant_type": grant, "scope": "crm:read", "subject_token": "token-of-ada"}
    assert endpoint.clients == ["Basic " + b64encode(b"gateway:s3cret").decode()] * 2


async def test_a_token_that_expires_is_exchanged_anew_with_the_last_token_of_the_user(endpoint: Any, crm: Any) -> None:
    endpoint.answer = {"expires_in": 5}  # Less than the time before which a token is renewed.
    async with users(Gateway(settings(endpoint, crm, audience="crm"))) as people:
        assert "result" in (await people.call("token-of-ada")).json()
        count = len(endpoint.forms)
        assert "result" in (await people.call("newer-token-of-ada")).json()
    assert len(endpoint.forms) > count
    assert endpoint.forms[-1]["subject_token"] == "newer-token-of-ada"
    assert endpoint.forms[0]["audience"] == "crm" and "resource" not in endpoint.forms[0]
    assert tokens(crm)[-1].startswith("Bearer newer-token-of-ada-for-crm-")


async def test_tokens_of_one_user_share_an_exchanged_token_only_if_they_allow_the_same(endpoint: Any, crm: Any) -> None:
    async with users(Gateway(settings(endpoint, crm))) as people:
        for token in [*RIGHTS, *reversed(RIGHTS)]:
            crm.heads.clear()
            assert "result" in (await people.call(token)).json()
            own = "wide" if token == "wide-renewed" else token
            assert all(head.startswith(f"Bearer {own}-for-crm-") for head in tokens(crm)), (token, tokens(crm))
    assert sorted(form["subject_token"] for form in endpoint.forms) == sorted({*RIGHTS} - {"wide-renewed"})


async def test_a_narrower_token_in_the_session_of_a_wider_one_has_a_token_of_its_own(endpoint: Any, crm: Any) -> None:
    async with users(Gateway(settings(endpoint, crm))) as people:
        session = await people.open("wide")
        for token in ("wide", "narrow", "wide", "narrow"):
            crm.heads.clear()
            assert "result" in (await people.call(token, session)).text
            assert tokens(crm) and all(head.startswith(f"Bearer {token}-for-crm-") for head in tokens(crm))
    assert sorted(form["subject_token"] for form in endpoint.forms) == ["narrow", "wide"]


async def test_an_exchanged_token_is_not_used_after_the_token_that_it_was_exchanged_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, exchanged = [1000.0], list[str]()
    monkeypatch.setattr("mcp_runtime.aio.clock.wall", lambda: now[0])

    class Exchange:
        server = "https://crm.example/mcp"

        async def exchanged(self, subject_token: str) -> tuple[str, float]:
            exchanged.append(subject_token)
            return f"for-{subject_token}", now[0] + 3600

    token = UserToken(cast("Any", Exchange()))
    token.use("first", 1060.0)
    assert await token._current() == ("for-first", True)
    token.use("second", 5000.0)
    assert await token._current() == ("for-first", False), "both allow the same"
    now[0] = 1061.0
    assert await token._current() == ("for-second", True)
    assert exchanged == ["first", "second"]


WRONG: dict[str, dict[str, Any]] = {
    "an error": {"error": "invalid_grant"},
    "no token": {"access_token": None},
    "a token with a line end": {"access_token": "a\r\nX-Injected: 1"},
    "another type": {"token_type": "N_A"},
    "another kind of token": {"issued_token_type": "urn:ietf:params:oauth:token-type:id_token"},
    "the token of the user": {"access_token": "the same"},
}


@pytest.mark.parametrize("kind", WRONG)
async def test_without_an_exchanged_token_nothing_is_sent_to_the_server(kind: str, endpoint: Any, crm: Any) -> None:
    endpoint.answer = WRONG[kind]
    async with users(Gateway(settings(endpoint, crm))) as people:
        answer = (await people.call("token-of-ada")).json()
    assert "error" in answer and crm.heads == []
    assert not {"token-of-ada", "s3cret", "X-Injected"} & set(str(answer).replace("'", " ").split())


async def test_a_request_without_a_user_is_refused(endpoint: Any, crm: Any) -> None:
    gateway = Gateway(settings(endpoint, crm))
    async with connect(gateway.app) as client:
        assert [tool async for tool in client.iter_tools()] == []
        with pytest.raises(Exception, match="'crm' needs the access token of a user"):
            await client.call_tool("crm_t", {})
    assert crm.heads == endpoint.forms == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"exchange": {"client_id": "a"}}, 'has no token_endpoint: write token_endpoint = "…"'),
    ({"exchange": {"token_endpoint": "https://a/t"}}, "has no client_id"),
    ({"exchange": {"token_endpoint": "https://a/t", "client_id": "a", "secret": "x"}}, "did you mean 'client_secret'"),
    ({"exchange": {"token_endpoint": "https://a/t", "client_id": 7}}, "client_id is a text"),
    ({"exchange": {"token_endpoint": "http://a/t", "client_id": "a"}}, "must use https"),
    (
        {"exchange": {"token_endpoint": "https://a/t", "client_id": "a"}, "headers": {"authorization": "x"}},
        "no Authorization in headers",
    ),
    ({"exchange": {"token_endpoint": "https://a/t", "client_id": "a", "client_secret": "${NONE_SET}"}}, "NONE_SET"),
]


@pytest.mark.parametrize(("more", "message"), REFUSED, ids=range(len(REFUSED)))
def test_settings_that_cannot_work_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=message.replace("…", ".")) as error:
        Gateway({"upstreams": {"crm": {"url": "https://crm.example/mcp", **more}}})
    assert len(str(error.value).splitlines()) <= 2


async def test_a_command_has_no_exchange_and_its_lock_is_written_with_headers(tmp_path: Any) -> None:
    exchange = {"token_endpoint": "https://a/t", "client_id": "a", "client_secret": "s3cret"}
    with pytest.raises(LocalError, match="exchange needs a url"):
        Gateway({"upstreams": {"crm": {"command": "x", "exchange": exchange}}})
    upstreams = {"crm": {"url": "https://crm.example/mcp", "exchange": exchange}}
    with pytest.raises(LocalError, match="headers instead of exchange") as error:
        await Gateway.write_lock({"gateway": {"lock": str(tmp_path / "l")}, "upstreams": upstreams})
    assert "s3cret" not in str(error.value)
    assert "s3cret" not in repr(Gateway({"upstreams": upstreams})._settings)
