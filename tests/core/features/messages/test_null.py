"""Null is as absent: libraries of several languages write it for what they do not have."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Rev,
    among,
    hello,
    raw_server,
    server_of,
    wire_to,
)
from support.http.asgi_client import Web
from support.project import ROOT
from support.schemas.samples import sample

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.model.ir import Object, Ref
from mcp_generated import App, InvalidResponseError
from mcp_products.fast.app_answers import read_params
from mcp_runtime.protocol.connection import (
    Connection,
    MessageRejected,
    NotificationReceived,
    RequestReceived,
    ResponseReceived,
)
from mcp_runtime.protocol.jsonrpc import ErrorMessage, MalformedMessage, ResultMessage, decode
from mcp_runtime.protocol.lifecycle import Phase
from mcp_runtime.protocol.models import read_as_model
from mcp_runtime.protocol.revision import Notification, Request

SERVER = """
from mcp_generated import App

app = App("a")


@app.tool
def add(a: int) -> int:
    return a


if __name__ == "__main__":
    app.run()
"""
READERS = [read_as_model, read_params]


class Everything(Connection):
    """A connection whose sides have declared everything."""

    def _is_declared(self, capability: str) -> bool:
        return True


def receiver_of(rev: Rev, row: Any, reader: Any) -> Connection:
    connection = Everything(rev.revision, "server" if row.direction == "client_to_server" else "client", {})
    connection.read_params = reader
    lifecycle = rev.revision.lifecycle
    if not rev.stateless and row.method not in (lifecycle.initialize_request.method, lifecycle.initialized.method):
        connection.enter_phase(Phase.OPEN)
    elif not rev.stateless and row.method == lifecycle.initialized.method:
        connection.enter_phase(Phase.OPENING)
    return connection


def fields_of(params: Any) -> Any:
    return None if params is None else (type(params), vars(params))


def received(connection: Connection, message: dict[str, Any]) -> Any:
    return connection.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())


@pytest.mark.parametrize("reader", READERS)
@among(ALL_REVISIONS)
def test_null_params_are_absent_params_in_every_message_of_either_side(rev: Rev, reader: Any) -> None:
    accepted = 0
    for row in rev.revision.rows:
        if not isinstance(row, Request | Notification):
            continue
        id = {"id": 1} if isinstance(row, Request) else {}
        absent = received(receiver_of(rev, row, reader), {**id, "method": row.method})
        null = received(receiver_of(rev, row, reader), {**id, "method": row.method, "params": None})
        assert type(null) is type(absent), row.method
        if row.params_required:
            assert isinstance(null, MessageRejected) and null.code in (0, INVALID_PARAMS), row.method
        else:
            assert isinstance(null, RequestReceived | NotificationReceived)
            assert fields_of(null.params) == fields_of(absent.params)
            accepted += 1
    assert accepted


@pytest.mark.parametrize("reader", READERS)
@among(ALL_REVISIONS)
def test_null_is_absent_for_every_optional_property_of_params_and_results(rev: Rev, reader: Any) -> None:
    revision, checked = SchemaCatalog(ROOT / "schema").revision(rev.id), set[str]()
    for row in rev.revision.rows:
        if not isinstance(row, Request | Notification) or not isinstance(row.params, type):
            continue
        read, type_of_params = reader(row), revision.types[row.params.__name__]
        assert isinstance(type_of_params, Object)
        least = sample(Ref(row.params.__name__), revision)
        for field in type_of_params.fields:
            if not field.required:
                params = read({**least, field.wire: None})
                assert getattr(params, field.name) is None, (row.method, field.wire)
                checked.add(field.wire)
        if isinstance(row, Request) and isinstance(revision.types.get(row.result.__name__), Object):
            least = sample(Ref(row.result.__name__), revision)
            for field in revision.types[row.result.__name__].fields:  # type: ignore[union-attr]
                if not field.required or field.default is not None:
                    result = row.read_result({**least, field.wire: None})
                    assert getattr(result, field.name) in (None, field.default), (row.method, field.wire)
    assert {"_meta", "cursor", "arguments"} - ({"_meta"} if rev.stateless else set()) <= checked


@among(HANDSHAKE)
def test_a_null_result_is_an_empty_one_where_nothing_is_required(rev: Rev) -> None:
    empty = 0
    for row in rev.revision.rows:
        if isinstance(row, Request):
            connection = Everything(rev.revision, "client" if row.direction == "client_to_server" else "server", {})
            connection.pending = {1: (row, {})}
            event = received(connection, {"id": 1, "result": None})
            assert isinstance(event, ResponseReceived)
            try:
                nothing = row.read_result({})
            except ValueError:
                assert isinstance(event.outcome, InvalidResponseError), row.method
            else:
                assert event.outcome == nothing, row.method
                empty += 1
    assert empty


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"id": 1, "result": {}, "error": None}, ResultMessage),
        ({"id": 1, "result": None, "error": {"code": 1, "message": ""}}, ErrorMessage),
        ({"id": 1, "result": {}, "method": None, "params": None}, ResultMessage),
        ({"id": 1, "result": {}, "error": {"code": 1, "message": ""}}, MalformedMessage),
        ({"id": 1, "error": None}, MalformedMessage),
        ({"id": None, "method": "m"}, MalformedMessage),
        ({"id": None, "result": {}}, MalformedMessage),
    ],
    ids=str,
)
def test_what_a_message_does_not_have_may_be_null_but_for_the_id_of_a_request(message: Any, kind: type[Any]) -> None:
    assert type(decode(json.dumps({"jsonrpc": "2.0", **message}).encode())) is kind


# ---- over the transports --------------------------------------------------------------------------------------------


def opening(rev: Rev) -> list[dict[str, Any]]:
    return [hello(rev.id), {"jsonrpc": "2.0", "method": "notifications/initialized", "params": None}]


def listing(rev: Rev) -> dict[str, Any]:
    params = {"cursor": None, **({"_meta": rev.meta()} if rev.stateless else {"_meta": None})}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params}


@among(ALL_REVISIONS)
async def test_a_session_in_memory_opens_with_null_params(rev: Rev) -> None:
    async with wire_to(server_of(rev, list_tools=lambda ctx, params: rev.t.ListToolsResult(tools=[]))) as wire:
        if not rev.stateless:
            first, second = opening(rev)
            await wire.request(first)
            wire.send(second)
        assert (await wire.request(listing(rev)))["result"]["tools"] == []


@among(ALL_REVISIONS)
async def test_a_session_over_stdio_opens_with_null_params(rev: Rev, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / "server.py"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    messages = [*([] if rev.stateless else opening(rev)), listing(rev)]
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    async with asyncio.timeout(60):
        while (answer := json.loads(await process.stdout.readline())).get("id") != 2:
            pass
        process.stdin.close()
        await process.wait()
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["add"]


@among(HANDSHAKE)
@pytest.mark.parametrize("stateless", [False, True], ids=["session", "no session"])
async def test_a_session_over_http_opens_with_null_params(rev: Rev, stateless: bool) -> None:
    app = App("a")
    app.add_tool(lambda: 1, name="add")
    client = Web(app.asgi(revisions=[rev.id], stateless_http=stateless), rev)
    try:
        first, second = opening(rev)
        client.session = (await client.answered(body=first)).headers.get("mcp-session-id")
        assert (await client.answered(body=second)).status == 202
        answer = await client.answered(body=listing(rev))
        assert answer.status == 200 and b'"name":"add"' in answer.content
    finally:
        await client.app.close()


@among(HANDSHAKE)
async def test_a_server_that_writes_null_for_nothing_is_understood(rev: Rev) -> None:
    wire, connect = raw_server()

    async def serve() -> None:
        request = await wire.receive()
        result = {
            "_meta": None,
            "instructions": None,
            "protocolVersion": rev.id,
            "capabilities": {"tools": {"listChanged": None}, "logging": None, "experimental": None},
            "serverInfo": {"name": "raw", "version": "1"},
        }
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result, "error": None})
        assert (await wire.receive())["method"] == "notifications/initialized"
        wire.send({"jsonrpc": "2.0", "id": "p", "method": "ping", "params": None})
        wire.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": None})
        for _ in range(3):
            message = await wire.receive()
            if "method" in message:
                result = None if message["method"] == "ping" else {"tools": [], "nextCursor": None}
                wire.send({"jsonrpc": "2.0", "id": message["id"], "result": result, "error": None})
            else:
                assert message == {"jsonrpc": "2.0", "id": "p", "result": {}}

    serving = asyncio.create_task(serve())
    async with rev.package.Client(connect) as client:
        await client.ping()
        assert (await client.list_tools()).tools == []
    await serving


def test_null_ids_stay_what_json_rpc_says() -> None:
    event = Connection(ALL_REVISIONS[0].revision, "server", {}).receive(
        b'{"jsonrpc":"2.0","id":null,"method":"ping","params":null}'
    )
    assert isinstance(event, MessageRejected) and event.code == INVALID_REQUEST
