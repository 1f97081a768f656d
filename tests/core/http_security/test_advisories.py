"""The published advisories of MCP SDKs, one after the other: what was done to those does not work here."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import socket
from collections import Counter
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, among, server_of, since
from support.http.asgi_client import BOTH, Web, web
from support.http.sockets import Caller, listening

from mcp_generated import App
from mcp_products.host.tools import ApprovedTools
from mcp_runtime.bindings.server import asgi_app
from mcp_runtime.errors import InvalidSchemaError, LocalError

REBOUND = ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.example", "169.254.169.254"]


def echo(rev: Rev) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await asyncio.sleep(0)
        return rev.text(params.name)

    return server_of(rev, call_tool=call_tool)


def call(rev: Rev, name: str = "echo", id: Any = 1) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name})


# ---- DNS rebinding: CVE-2025-66416, CVE-2025-66414, CVE-2026-34742 --------------------------------------------------


@among(ALL_REVISIONS)
@pytest.mark.clause("2024-11-05/transports/05", "2025-03-26/transports/07", "draft/transports/07")
@pytest.mark.parametrize("headers", [*({"host": host} for host in REBOUND), {"origin": "http://evil.example"}], ids=str)
@pytest.mark.advisory(
    "CVE-2025-66416",
    "CVE-2025-66414",
    "GHSA-9h52-p55h-vw2f",
    "GHSA-w48q-cv73-mx4w",
    "CVE-2026-34742",
    "GHSA-xw59-hvm2-8pj6",
    "CVE-2026-42559",
    "GHSA-89vp-x53w-74fx",
)
@pytest.mark.transport_rule("2026-07-28/02")
async def test_a_name_that_was_rebound_to_the_loopback_reaches_nothing_by_default(rev: Rev, headers: Any) -> None:
    """With no setting at all, and for every way in: the endpoint, its sessions, and the older pair."""
    async with web(rev, echo(rev), legacy_sse=True) as client:
        targets = [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages")]
        for method, path in targets:
            answer = await client.answered(method, call(rev) if method == "POST" else b"", headers, path=path)
            assert answer.status in (403, 421), (method, path)
        assert (await client.answered(body=call(rev))).status == 200


# ---- a request that ends the server: CVE-2025-53365, CVE-2025-53366 -------------------------------------------------

KILLING = [
    b"",
    b"null",
    b"[]",
    b"[[]]",
    b"{}",
    b'"text"',
    b"\xff\xfe",
    b'{"jsonrpc":"2.0"',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
    b'{"jsonrpc":"2.0","id":{},"method":"tools/call"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":null}',
    b'{"jsonrpc":"2.0","id":99,"error":"no object"}',
    b'{"jsonrpc":"2.0","id":99,"result":[]}',
    b"[" * 100_000,
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
]


@among(ALL_REVISIONS)
@pytest.mark.advisory("CVE-2025-53366", "GHSA-3qhf-m339-9g5v")
async def test_no_request_ends_the_server_or_another_session(rev: Rev) -> None:
    async with web(rev, echo(rev)) as bystander:
        attacker = Web(bystander.app, rev)
        if not rev.stateless:
            await attacker.open()
        for session in (attacker.session, None, "none"):
            attacker.session = session
            for body in KILLING:
                answer = await attacker.answered(body=body)
                assert 200 <= answer.status < 500 and b"Traceback" not in answer.content, body[:80]
        assert (await bystander.answered(body=call(rev))).json["result"]["content"][0]["text"] == "echo"


@pytest.mark.parametrize("http", ["h11", "httptools"])
@pytest.mark.advisory("CVE-2025-53365")
async def test_a_client_that_resets_its_connection_in_its_request_does_not_end_the_server(http: str) -> None:
    rev = STATELESS[-1]
    async with listening(echo(rev).asgi(path="/mcp"), http=http) as port, httpx2.AsyncClient() as client:
        body = json.dumps(call(rev)).encode()
        head = f"POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: {BOTH}\r\ncontent-type: application/json\r\n"
        whole = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        for length in range(1, len(whole) + 1, 7):
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                rude.sendall(whole[:length])
            await asyncio.sleep(0)
        headers = Caller(rev, "", client).headers | {"mcp-method": "tools/call", "mcp-name": "echo"}
        answer = await client.post(f"http://127.0.0.1:{port}/mcp", json=call(rev), headers=headers)
        assert answer.status_code == 200


# ---- answers that leak between the clients of one server object: CVE-2026-25536 -------------------------------------


@pytest.mark.advisory("CVE-2026-25536", "GHSA-345p-7cg4-v4c7")
async def test_the_clients_of_one_server_object_never_hear_each_other() -> None:
    """All use the same ids at the same time, over one application and over two, of one server object."""
    server = echo(ALL_REVISIONS[-1])
    apps = [server.asgi(), server.asgi()]
    clients = [Web(app, rev) for app in apps for rev in ALL_REVISIONS for _ in range(5)]
    for client in clients:
        if not client.rev.stateless:
            await client.open()

    async def request(number: int, client: Web, id: Any) -> None:
        name = f"{number}-{id!r}"
        answer = await client.answered(body=call(client.rev, name, id))
        assert answer.json["id"] == id and answer.json["result"]["content"][0]["text"] == name

    await asyncio.gather(*(request(n, client, id) for n, client in enumerate(clients) for id in (1, "1", 2)))
    for app in apps:
        await app.close()


# ---- catastrophic patterns in a URI template: CVE-2026-0621 ---------------------------------------------------------


@pytest.mark.advisory("CVE-2026-0621")
async def test_no_uri_keeps_a_server_busy() -> None:
    """tests/json_schema/test_uri_templates.py shows that matching is linear; here such URIs come over HTTP."""
    app = App("templates")

    @app.resource("x://{a}/{b}-{c}.{d}")
    def read(a: str, b: str, c: str, d: str) -> str:
        return a

    rev = STATELESS[-1]
    client = Web(app.asgi(), rev)
    for uri in ("x://" + "a" * 500_000, "x://" + "/" * 500_000, "x://a/" + "-." * 250_000 + "/"):
        body = rev.request(1, "resources/read", {"uri": uri})
        answer = await client.answered(body=body, headers={"mcp-name": None})
        assert answer.status == 400
        answer = await client.answered(body=rev.request(1, "resources/read", {"uri": uri[:8000] + "/"}))
        assert "error" in answer.json
    good = await client.answered(body=rev.request(1, "resources/read", {"uri": "x://one/b-c.d"}))
    assert good.json["result"]["contents"][0]["text"] == "one"
    await client.app.close()


# ---- a schema that refers to somewhere else: CVE-2026-116686 -------------------------------------------------------


@among(since("2025-06-18"))
@pytest.mark.parametrize("place", ["http://127.0.0.1:{port}/schema.json", "file:///etc/passwd", "//127.0.0.1:{port}/x"])
@pytest.mark.advisory("CVE-2026-116686")
async def test_no_schema_of_a_server_makes_a_client_fetch_anything(rev: Rev, place: str) -> None:
    pytest.importorskip("jsonschema_rs")
    connections = 0

    async def canary(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(canary, "127.0.0.1", 0) as elsewhere:
        reference = place.format(port=elsewhere.sockets[0].getsockname()[1])
        schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
        listed = {"name": "x", "inputSchema": schema, "outputSchema": schema}
        more = {"ttlMs": 0, "cacheScope": "private"} if rev.stateless else {}
        done = {"resultType": "complete"} if rev.stateless else {}

        async def list_tools(ctx: Any, params: Any) -> Any:
            return rev.t.ListToolsResult.model_validate({"tools": [listed], **more, **done})

        async def call_tool(ctx: Any, params: Any) -> Any:
            return rev.t.CallToolResult.model_validate({"content": [], "structuredContent": {"a": 1}, **done})

        server = server_of(rev, list_tools=list_tools, call_tool=call_tool)
        async with listening(server.asgi(path="/mcp")) as port:
            async with rev.package.Client.http(f"http://127.0.0.1:{port}/mcp") as client:
                with pytest.raises(InvalidSchemaError):
                    await ApprovedTools(client).call("x", {"a": 1})
                assert (await client.call_tool(name="x", arguments={"a": 1})).structured_content == {"a": 1}
        with pytest.raises(LocalError):
            App("refers").tool(input_schema=schema)(lambda a: a)
    assert connections == 0


# ---- keys in another case: CVE-2026-27896 ---------------------------------------------------------------------------


@among(ALL_REVISIONS)
@pytest.mark.advisory("CVE-2026-27896")
async def test_a_key_in_another_case_is_not_taken_for_the_key(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        for old, new in (("method", "Method"), ("jsonrpc", "JSONRPC"), ("params", "Params"), ("name", "NAME")):
            body = json.dumps(call(rev)).replace(f'"{old}":', f'"{new}":', 1).encode()
            named = {"mcp-method": "tools/call", "mcp-name": "echo"} if rev.stateless else {}
            answer = await client.answered(body=body, headers={**named, "mcp-protocol-version": rev.id})
            assert answer.status >= 400 or "error" in answer.json, new
        both = json.dumps(call(rev)).replace('"name": "echo"', '"name": "echo", "Name": "other", "ſame": 1').encode()
        named = {"mcp-method": "tools/call", "mcp-name": "echo"} if rev.stateless else {}
        answer = await client.answered(body=both, headers={**named, "mcp-protocol-version": rev.id})
        assert answer.json["result"]["content"][0]["text"] == "echo"


# ---- sessions and streams of somebody else --------------------------------------------------------------------------


@among(HANDSHAKE)
@pytest.mark.advisory("GHSA-jpw9-pfvf-9f58", "CVE-2026-33946", "GHSA-qvqr-5cv7-wh35", "GHSA-84j6-jc92-77jm")
async def test_neither_session_nor_stream_of_a_user_serves_another(rev: Rev) -> None:
    alice, bob = (SimpleNamespace(is_authenticated=True, identity=name, display_name="Al") for name in ("alice", "bob"))
    app = asgi_app(echo(rev))
    hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    client, other = Web(app, rev), Web(app, rev)
    for user_web, user in ((client, alice), (other, bob)):
        opened = await user_web.answered(body=rev.request(0, "initialize", hello), user=user)
        user_web.session = opened.headers["mcp-session-id"]
    streamed = await client.answered(body=call(rev), headers={"accept": "text/event-stream"}, user=alice)
    last = {"last-event-id": streamed.events[-1].id}
    stolen = {**last, "mcp-session-id": client.session}
    assert (await other.answered("GET", headers=stolen, user=bob)).status == 404
    assert (await other.answered("GET", headers=last, user=bob)).status == 400
    for method in ("POST", "GET", "DELETE"):
        answer = await other.answered(method, call(rev), {"mcp-session-id": client.session}, user=bob)
        assert answer.status == 404
    assert (await client.answered(body=call(rev), user=alice)).status == 200
    await app.close()


@pytest.mark.clause(
    "2025-03-26/transports/33", "2025-03-26/transports/34", "draft/transports/33", "draft/transports/34"
)
@pytest.mark.clause("2025-03-26/transports/30", "draft/transports/30")
@pytest.mark.advisory("guessable session and stream ids")
async def test_ids_of_sessions_and_streams_cannot_be_guessed() -> None:
    rev = HANDSHAKE[-1]
    app = echo(rev).asgi()
    sessions, streams = list[str](), list[str]()
    for _ in range(200):
        client = Web(app, rev)
        await client.open()
        answer = await client.answered(body=call(rev), headers={"accept": "text/event-stream"})
        sessions.append(str(client.session))
        streams += {event.id.rsplit("-", 1)[0] for event in answer.events}
    for ids, bits in ((sessions, 128), (streams, 96)):
        assert len(set(ids)) == len(ids) and all(re.fullmatch("[!-~]+", id) for id in ids)
        counted = Counter("".join(ids))
        entropy = -sum(n / counted.total() * math.log2(n / counted.total()) for n in counted.values())
        assert entropy * len(ids[0]) >= bits
        # Neighbours share no more of their characters, place by place, than chance lets them.
        same = sum(a == b for one, two in itertools.pairwise(ids) for a, b in zip(one, two, strict=False))
        assert same < len(ids) * len(ids[0]) * 0.06
    await app.close()
