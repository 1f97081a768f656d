"""Generated bindings of a small protocol over HTTP: requests, streams, errors, limits, and what is refused."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from support.http.in_process import served_in_process

from mcp_codegen.cli.main import main
from mcp_products.host.applications import InProcess
from mcp_products.json_rpc import http as over_http
from mcp_runtime.errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    JSONRPCError,
    LocalError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.transports.http_client.connection import HTTPOptions

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
MANIFEST = """
name = "Small"
version = "1"
document = "schema.json"
format = "json-schema"
"""
HTTP = MANIFEST + 'framing = "http"\nstreams = ["count"]\n'
URL = "http://localhost/rpc"


def document(side: str = "server") -> str:
    definitions: dict[str, object] = {}
    for name, is_request in (("Echo", True), ("Count", True), ("Note", False)):
        marks = {"x-method": name.lower(), "x-side": side}
        definitions[f"{name}Params"] = {**TEXT, **marks}
        if is_request:
            definitions[f"{name}Result"] = {**TEXT, **marks}
    return json.dumps({"$defs": definitions})


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The bindings of a small protocol."""
    folder = tmp_path_factory.mktemp("http")
    (folder / "schema.json").write_text(document())
    (folder / "protocol.toml").write_text(HTTP)
    command = ["protocol", str(folder / "protocol.toml"), "--output", str(folder / "small_http")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    sys.path.insert(0, str(folder))
    yield importlib.import_module("small_http")
    sys.path.remove(str(folder))


def server_of(package: ModuleType) -> Any:
    t = package.types

    class Server(package.Server):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            self.notes: list[str] = []
            self.left = asyncio.Event()

        async def on_echo(self, params: Any) -> Any:
            if params.text == "wait":
                try:
                    await asyncio.Event().wait()
                finally:
                    self.left.set()
            if params.text == "refuse":
                raise JSONRPCError(-32001, "refused", {"why": "asked"})
            return t.EchoResult(text=params.text) if params.text != "break" else 1 / 0

        async def on_count(self, params: Any) -> AsyncIterator[Any]:
            try:
                for number in range(3):
                    yield t.CountResult(text=f"{params.text}{number}")
                    if params.text == "fail":
                        raise JSONRPCError(-32002, "no more")
                    if params.text == "wait":
                        await asyncio.Event().wait()
            finally:
                self.left.set()

        async def on_note(self, params: Any) -> None:
            self.notes.append(params.text)

    return Server()


def options(application: Any, **settings: Any) -> HTTPOptions:
    return HTTPOptions(client=httpx2.AsyncClient(transport=InProcess(application)), **settings)


def answering(*answers: httpx2.Response) -> HTTPOptions:
    """Options of a client whose requests get these responses, one after another."""
    left = list(answers)
    return HTTPOptions(client=httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: left.pop(0))))


def stream_of(*data: object, end: str = "\n\n") -> httpx2.Response:
    body = "".join(f"data: {json.dumps(item)}{end}" for item in data)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())


async def test_a_request_a_stream_and_a_notification_arrive(package: ModuleType) -> None:
    server = server_of(package)
    async with package.Client().connect(URL, http=options(server.asgi())) as client:
        await talk(package, client)
    assert server.notes == ["noted"]


async def test_they_arrive_over_connections_of_the_client_too(package: ModuleType) -> None:
    server = server_of(package)
    async with served_in_process(server.asgi()) as port:
        async with package.Client().connect(f"http://127.0.0.1:{port}/rpc") as client:
            await talk(package, client)
    assert server.notes == ["noted"]


async def talk(package: ModuleType, client: Any) -> None:
    t = package.types
    assert (await client.echo(t.EchoParams(text="hi"), timeout=20)).text == "hi"
    results = [result.text async for result in client.count(t.CountParams(text="n"), timeout=20)]
    assert results == ["n0", "n1", "n2"]
    await client.note(t.NoteParams(text="noted"))


async def test_errors_of_handlers_arrive_with_their_code_and_data(package: ModuleType) -> None:
    t, server = package.types, server_of(package)
    async with package.Client().connect(URL, http=options(server.asgi())) as client:
        with pytest.raises(RemoteJSONRPCError, match="refused") as refused:
            await client.echo(t.EchoParams(text="refuse"))
        assert (refused.value.code, refused.value.data) == (-32001, {"why": "asked"})
        with pytest.raises(RemoteJSONRPCError, match="internal error"):
            await client.echo(t.EchoParams(text="break"))
        results: list[str] = []
        with pytest.raises(RemoteJSONRPCError, match="no more"):
            async for result in client.count(t.CountParams(text="fail")):
                results.append(result.text)
        assert results == ["fail0"]
    async with package.Client().connect(URL, http=options(package.Server().asgi())) as client:
        for called in (client.echo(t.EchoParams(text="x")), anext(client.count(t.CountParams(text="x")))):
            with pytest.raises(RemoteJSONRPCError, match="is not handled by this Server") as missing:
                await called
            assert missing.value.code == -32601


async def test_who_leaves_or_waits_too_long_ends_the_handler(package: ModuleType) -> None:
    t = package.types
    server = server_of(package)
    async with package.Client().connect(URL, http=options(server.asgi())) as client:
        with pytest.raises(RequestTimeoutError, match=r"echo: no response within 0\.01 s"):
            await client.echo(t.EchoParams(text="wait"), timeout=0.01)
        await server.left.wait()
        server.left.clear()
        with pytest.raises(RequestTimeoutError, match=r"count: no response within 0\.01 s"):
            [result async for result in client.count(t.CountParams(text="wait"), timeout=0.01)]
        await server.left.wait()
        server.left.clear()
        async with aclosing(client.count(t.CountParams(text="wait"))) as results:
            assert (await anext(results)).text == "wait0"
        await server.left.wait()


async def test_a_silent_stream_is_kept_alive(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "KEEP_ALIVE_SECONDS", 0.01)
    sent: list[dict[str, Any]] = []
    enough = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if sum(item.get("body") == b": \n\n" for item in sent) == 2:
            enough.set()

    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"text": "wait"}}).encode()
    head = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    server = server_of(package)
    received = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict[str, Any]:
        if (message := next(received, None)) is not None:
            return message
        await enough.wait()
        return {"type": "http.disconnect"}

    await server.asgi()({"type": "http", "method": "POST", "path": "/", "headers": head}, receive, send)
    assert server.left.is_set()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"method": "GET"}, 405),
        ({"headers": {"content-type": "text/plain"}}, 415),
        ({"headers": {"content-type": "application/json", "origin": "https://other.example"}}, 403),
        ({"headers": {"content-type": "application/json", "host": "other.example"}}, 421),
        ({"content": b"x" * 2000}, 413),
        ({"content": b"{"}, 400),
        ({"content": b"[]"}, 400),
        ({"content": b'{"jsonrpc": "2.0", "id": 1, "method": "none"}'}, 200),
        ({"content": b'{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {}}'}, 200),
    ],
    ids=["method", "type", "origin", "host", "long", "no JSON", "batch", "unknown", "params"],
)
async def test_what_is_no_request_is_refused_with_a_response_of_json_rpc(
    package: ModuleType, change: dict[str, Any], status: int
) -> None:
    application = server_of(package).asgi(max_bytes=1000)
    async with httpx2.AsyncClient(transport=InProcess(application)) as client:
        request: dict[str, Any] = {
            "method": "POST",
            "headers": {"content-type": "application/json"},
            "content": b"{}",
            **change,
        }
        response = await client.request(request.pop("method"), URL, **request)
    assert response.status_code == status
    assert response.json()["error"]["code"] in (-32600, -32601, -32602, -32700)


async def test_too_many_requests_at_once_are_refused(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "MAX_RUNNING", 1)
    t, server = package.types, server_of(package)
    async with package.Client().connect(URL, http=options(server.asgi(), retry_seconds=0)) as client:
        async with aclosing(client.count(t.CountParams(text="wait"))) as results:
            await anext(results)
            with pytest.raises(RemoteJSONRPCError, match="more than 1 requests are handled"):
                await client.echo(t.EchoParams(text="x"))


async def test_responses_that_are_none_are_errors_that_say_so(package: ModuleType) -> None:
    t = package.types
    result = {"jsonrpc": "2.0", "id": 1, "result": {"text": "x"}}
    cases: list[tuple[httpx2.Response, type[Exception], str]] = [
        (httpx2.Response(502, content=b"<html>"), HTTPStatusError, "status 502, without a response of JSON-RPC"),
        (httpx2.Response(200, content=b"<html>"), InvalidResponseError, "not JSON"),
        (httpx2.Response(200, json={**result, "id": 7}), InvalidResponseError, "not a response to this request"),
        (httpx2.Response(200, json={**result, "result": {"text": 3}}), InvalidResponseError, "the result of echo"),
        (httpx2.Response(200, json={"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "no"}}),
         RemoteJSONRPCError, "no"),
        (httpx2.Response(500, json={"jsonrpc": "2.0", "id": 1, "error": {"code": -2, "message": "at all"}}),
         RemoteJSONRPCError, "at all"),
    ]  # fmt: skip
    for response, kind, text in cases:
        async with package.Client().connect(URL, http=answering(response)) as client:
            with pytest.raises(kind, match=text):
                await client.echo(t.EchoParams(text="x"))
    async with package.Client().connect(URL, http=answering(httpx2.Response(404))) as client:
        with pytest.raises(HTTPStatusError, match="status 404"):
            await client.note(t.NoteParams(text="x"))


async def test_a_stream_may_be_one_response_and_its_events_are_checked(package: ModuleType) -> None:
    t = package.types
    result = {"jsonrpc": "2.0", "id": 1, "result": {"text": "x"}}
    async with package.Client().connect(URL, http=answering(httpx2.Response(200, json=result))) as client:
        assert [found.text async for found in client.count(t.CountParams(text="x"))] == ["x"]
    async with package.Client().connect(URL, http=answering(stream_of(result, {**result, "id": 2}))) as client:
        stream = client.count(t.CountParams(text="x"))
        assert (await anext(stream)).text == "x"
        with pytest.raises(InvalidResponseError, match="not a response to this request"):
            await anext(stream)


async def test_a_long_event_or_response_names_the_limit(package: ModuleType) -> None:
    t, server = package.types, server_of(package)
    async with package.Client().connect(URL, http=options(server.asgi(), max_bytes=200)) as client:
        with pytest.raises(InvalidResponseError, match=r"longer than 200 bytes; HTTPOptions\(max_bytes=…\)"):
            await client.echo(t.EchoParams(text="x" * 300))
        with pytest.raises(InvalidResponseError, match=r"200 bytes; HTTPOptions\(max_bytes=…\)"):
            [result async for result in client.count(t.CountParams(text="x" * 300))]


async def test_a_stream_that_is_cut_off_is_an_error(package: ModuleType) -> None:
    t = package.types

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        event = b'data: {"jsonrpc": "2.0", "id": 1, "result": {"text": "x"}}\n\n'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(cut, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    async with listening, package.Client().connect(f"http://{host}:{port}/") as client:
        stream = client.count(t.CountParams(text="x"), timeout=20)
        assert (await anext(stream)).text == "x"
        with pytest.raises(ConnectionClosedError, match="the stream of count was cut off"):
            await anext(stream)


async def test_a_stream_with_a_content_coding_is_refused(package: ModuleType) -> None:
    answer = stream_of({})
    answer.headers["content-encoding"] = "br"
    async with package.Client().connect(URL, http=answering(answer)) as client:
        with pytest.raises(InvalidResponseError, match="the content coding 'br' was not requested"):
            await anext(client.count(package.types.CountParams(text="x")))


async def test_a_client_is_used_inside_of_its_block_and_once(package: ModuleType) -> None:
    t, client = package.types, package.Client()
    with pytest.raises(ConnectionClosedError, match=r"send inside of `async with Client\(\)\.connect\(url\)`"):
        await client.echo(t.EchoParams(text="x"))
    with pytest.raises(LocalError, match="'stdio' is not a URL of HTTP: write http://HOST"):
        async with client.connect("stdio"):
            pass
    async with client.connect(URL):
        with pytest.raises(LocalError, match="is connected already"):
            async with client.connect(URL):
                pass
        with pytest.raises(LocalError, match="serves http, not websocket"):
            await package.Server().asgi()({"type": "websocket"}, None, None)


@pytest.mark.parametrize(
    ("manifest", "side", "text"),
    [
        (MANIFEST + 'streams = ["count"]\n', "server", "must be a list of methods, with framing = 'http'"),
        (HTTP.replace('["count"]', '"count"'), "server", "streams = 'count' must be a list of methods"),
        (HTTP.replace("count", "other"), "server", "`streams` names 'other', which is not a request of the document"),
        (HTTP.replace("count", "note"), "server", "`streams` names 'note', which is not a request of the document"),
        (HTTP + '[cancel]\nmethod = "a"\nproperty = "b"\n', "server", "without \\[cancel\\]"),
        (HTTP.replace('["count"]', "[]"), "client", "the server sends 'echo', which framing = 'http' cannot carry"),
        (HTTP + '[results]\necho = "EchoParams"\n', "server", "'echo', which is not a request without a result"),
        (HTTP + "[results]\necho = 1\n", "server", "needs the name of a definition"),
    ],
    ids=["lines", "text", "unknown", "notification", "cancel", "server", "result", "no name"],
)
def test_a_manifest_that_http_cannot_serve_is_refused(manifest: str, side: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(document(side))
    (tmp_path / "protocol.toml").write_text(manifest)
    result = CliRunner().invoke(main, ["protocol", str(tmp_path / "protocol.toml"), "--output", str(tmp_path / "out")])
    assert result.exit_code != 0
    assert text.replace("\\", "") in " ".join(result.output.split())
