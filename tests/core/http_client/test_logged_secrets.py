"""What leaves by logs and errors: no password and no key of a URL, and nothing that steers a terminal."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.http.sockets import listening

from mcp_generated import App, ConnectionClosedError, HttpResource, LocalError
from mcp_products.auth.http import AuthHTTPClient, URLPolicy
from mcp_products.platforms.error_output import write_line
from mcp_products.relay.bridge.__main__ import main as bridge
from mcp_runtime.usage.texts import coloured, plain

SECRETS = ("s3cret-user", "s3cret-password", "s3cret-key")
LIBRARIES = ("httpx2", "httpcore2")
OPERATION = {"get": {"operationId": "read", "responses": {"200": {"description": ""}}}}
DOCUMENT = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/x": OPERATION}}


def with_secrets(port: int, path: str) -> str:
    return f"http://s3cret-user:s3cret-password@127.0.0.1:{port}{path}?key=s3cret-key"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """All records, also those of libraries on DEBUG."""
    caplog.set_level(logging.DEBUG)
    for name in LIBRARIES:
        caplog.set_level(logging.DEBUG, name)
    return caplog


def check(logged: pytest.LogCaptureFixture, *texts: str) -> None:
    """Check that the library has logged the request, and that no secret is in its records or in these texts."""
    written = [record.getMessage() for record in logged.records]
    assert any("HTTP Request" in text and "http://127.0.0.1" in text for text in written)
    for text in (*written, *texts):
        assert not any(secret in text for secret in SECRETS), text


@contextmanager
def web(status: int = 200) -> Iterator[int]:
    """A web server that answers each request with a document of OpenAPI and a cookie; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("set-cookie", "session=s3cret-key")
            self.end_headers()
            self.wfile.write(json.dumps(DOCUMENT).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_client_over_http_leaves_no_secret_in_the_logs_of_its_library(
    logged: pytest.LogCaptureFixture,
) -> None:
    app = App("x")
    app.add_tool(lambda: "y", name="y")
    asgi: Any = app.asgi()
    async with listening(asgi) as port, connect(with_secrets(port, "/mcp")) as client:
        await client.call_tool("y")
    await asgi.close()
    check(logged)


async def test_requests_of_oauth_leave_no_secret(logged: pytest.LogCaptureFixture) -> None:
    client = AuthHTTPClient(URLPolicy(local=True))
    with web() as port:
        await client.get(f"http://127.0.0.1:{port}/metadata?key=s3cret-key")
    check(logged)


async def test_operations_and_documents_of_an_api_leave_no_secret(logged: pytest.LogCaptureFixture) -> None:
    with web() as port:
        base = with_secrets(port, "")
        client = httpx2.AsyncClient(base_url=base.partition("?")[0], params={"key": "s3cret-key"})
        app = App.from_openapi(with_secrets(port, "/openapi.json"), client=client)
        async with connect(app) as caller:
            result: Any = await caller.call_tool("read")
        await client.aclose()
    check(logged, str(result))


@pytest.mark.parametrize("status", [404, 500, None])
def test_the_error_of_a_document_that_cannot_be_fetched_has_no_secret(status: int | None) -> None:
    with web(status or 200) as port:
        url = with_secrets(port, "/openapi.json")
        if status is not None:
            with pytest.raises(LocalError, match=f"cannot be fetched: status {status}") as caught:
                App.from_openapi(url)
    if status is None:  # Nobody listens any more.
        with pytest.raises(LocalError, match="cannot be fetched: ConnectError") as caught:
            App.from_openapi(url)
    assert f"http://127.0.0.1:{port}/openapi.json" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in SECRETS)


async def test_a_resource_over_http_leaves_no_secret(logged: pytest.LogCaptureFixture) -> None:
    app = App("x")
    with web() as port, web(404) as missing:
        app.add_resource(HttpResource(uri="a://found", url=with_secrets(port, "/")))
        app.add_resource(HttpResource(uri="a://missing", url=with_secrets(missing, "/")))
        async with connect(app) as client:
            found: Any = await client.read_resource("a://found")
            assert json.loads(found.contents[0].text) == DOCUMENT
            with pytest.raises(Exception, match="answered 404") as caught:
                await client.read_resource("a://missing")
    check(logged, str(caught.value))


async def test_requests_of_the_program_itself_are_logged_as_before(logged: pytest.LogCaptureFixture) -> None:
    app = App("x")
    asgi: Any = app.asgi()
    async with listening(asgi) as port:
        async with connect(f"http://127.0.0.1:{port}/mcp"):
            pass
        async with httpx2.AsyncClient() as own:
            await own.get(f"http://127.0.0.1:{port}/own?key=mine")
    await asgi.close()
    assert any("/own?key=mine" in record.getMessage() for record in logged.records)


def test_a_url_that_is_none_is_named_without_its_secrets() -> None:
    with pytest.raises(LocalError, match="'htp://host/mcp' is not a URL") as caught:
        connect("htp://s3cret-user:s3cret-password@host/mcp?key=s3cret-key")
    assert not any(secret in str(caught.value) for secret in SECRETS)


# ---- terminals -------------------------------------------------------------------------------------------------------

STEERING = "\x1b]0;title\x07 \x1b[2J \x9b31m \u202e \x1b]8;;http://evil\x07link"
CHILD = f"""
import sys
print({STEERING!r}, file=sys.stderr, flush=True)
from mcp_generated import App
if "fails" not in sys.argv:
    App("x").run("stdio")
"""


class Terminal(io.StringIO):
    """A terminal that stores what is written to it."""

    def isatty(self) -> bool:
        return True


def test_text_of_others_has_nothing_that_steers_a_terminal() -> None:
    assert plain("a\tb\x1b[31mé") == "a\\tb\\x1b[31mé"
    assert coloured("a\tb\x1b[31mé") == "a\tb\x1b[31mé\x1b[0m"
    assert coloured(STEERING).isprintable() and plain(STEERING).isprintable()


def test_a_line_of_a_child_cannot_steer_the_terminal_that_it_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    write_line(STEERING)
    assert terminal.getvalue() == f"{plain(STEERING)}\n"
    monkeypatch.setattr(sys, "stderr", pipe)
    write_line(STEERING)
    assert pipe.getvalue() == f"{STEERING}\n"


def test_the_report_of_a_bridge_escapes_what_its_server_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = tmp_path / "server.py"
    server.write_text(CHILD, encoding="utf-8")
    assert bridge(["--report", "--revision", "2025-11-25", "--", sys.executable, str(server)]) == 0
    written = capsys.readouterr()
    assert plain(STEERING) in written.err and "everything passes" not in written.err
    assert all(char.isprintable() or char == "\n" for char in written.err + written.out)


@pytest.mark.long
async def test_the_error_of_a_server_that_ended_has_its_last_lines_escaped(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(CHILD, encoding="utf-8")
    with pytest.raises(ConnectionClosedError) as caught:
        async with connect([sys.executable, str(server), "fails"], stderr=lambda line: None):
            pass
    assert plain(STEERING) in str(caught.value)
    assert all(char.isprintable() or char == "\n" for char in str(caught.value))
