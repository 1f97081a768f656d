"""The targets of `Client`: files, modules, commands, URLs, server objects, transports and configurations."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cancelled_steps import steps
from support.endpoints import ALL_REVISIONS, Rev, Tap, among
from support.http.in_process import served_in_process
from support.matrices import long_after

from mcp_generated import (
    App,
    Client,
    ConnectionClosedError,
    Context,
    HTTPOptions,
    LocalError,
    MultiClient,
    SyncClient,
    connect,
)
from mcp_generated.v2025_03_26 import Server as OldServer
from mcp_generated.v2026_07_28 import types as t
from mcp_products.versions.adapters import server_candidates

SERVER = '''
from mcp_generated import App

app = App("of a file")


@app.tool()
def python() -> str:
    """Say which Python runs."""
    import sys

    return sys.executable


if __name__ == "__main__":
    app.run("stdio")
'''


@dataclass
class Parameters:
    command: str
    args: list[str]
    env: dict[str, str] | None = None
    cwd: str | None = None
    extra: list[str] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own_server.py"
    path.write_text(SERVER)
    return path


@pytest.mark.parametrize(
    "kind", long_after(2, ["file", "module", "path", "command", "words with a path", "parameters", "dict", "json"])
)
async def test_a_server_is_started_by_what_names_it(server: Path, kind: str) -> None:
    entry = {"command": sys.executable, "args": [str(server)]}
    configuration = server.parent / "mcp.json"
    configuration.write_text(json.dumps({"mcpServers": {"own": entry}}))
    target: Any = {
        "file": "own_server.py",
        "path": server,
        "module": "own_server",
        "command": ["python", "own_server.py"],
        "words with a path": ["python3", server],
        "parameters": Parameters("python", [str(server)]),
        "dict": {"mcpServers": {"own": entry}},
        "json": configuration,
    }[kind]
    client = Client(target)
    several = isinstance(client.generated, MultiClient)
    assert several == (kind in ("dict", "json"))
    async with client:
        output = await client.call_tool("own_python" if several else "python")
        assert [tool.name for tool in await client.list_tools()] == ["own_python" if several else "python"]
        await client.ping()
        await client.set_log_level("info")
    assert output.data == sys.executable


@among(ALL_REVISIONS)
async def test_a_file_is_reached_in_each_version(server: Path, rev: Rev) -> None:
    async with Client(server, revisions=rev.id) as client:
        assert (await client.call_tool("python")).text == sys.executable


@asynccontextmanager
async def calculator() -> AsyncIterator[int]:
    app = App("of a URL")

    @app.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with served_in_process(app.asgi()) as port:
        yield port


@among(ALL_REVISIONS[1:])
async def test_a_url_is_reached_in_each_version(rev: Rev) -> None:
    async with calculator() as port, Client(f"http://127.0.0.1:{port}/mcp", revisions=rev.id) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


async def test_an_app_a_server_and_a_transport_are_targets() -> None:
    app = App("here")
    for target in (app, app.as_server(), OldServer(name="here", version="1")):
        async with Client(target) as client:
            assert client.server.name == "here"
            assert await client.list_tools() == []

    tap = Tap(app.as_server())
    async with Client(tap) as client:
        assert client.server.name == "here"
    async with Client(await Tap(app.as_server())()) as client:
        assert client.server.name == "here"


@among(ALL_REVISIONS[1:])
async def test_an_asgi_application_is_reached_with_its_lifespan(rev: Rev) -> None:
    app = App("in HTTP")
    happened: list[str] = []

    @app.tool()
    async def ask(ctx: Context) -> str:
        """Ask the model, while the response is a stream."""
        return (await ctx.sample("Tell a joke.")).text or ""

    inner = app.asgi()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def heard() -> Any:
            message = await receive()
            if scope["type"] == "lifespan":
                happened.append(message["type"])
            return message

        await inner(scope, heard, send)

    async with Client(application, revisions=rev.id, sampling=lambda: "A joke.") as client:
        assert (await client.call_tool("ask")).text == "A joke."
        assert happened == ["lifespan.startup"]
    assert happened == ["lifespan.startup", "lifespan.shutdown"]


async def test_an_application_without_a_lifespan_is_reached_and_one_that_fails_to_start_is_not() -> None:
    inner = App("in HTTP").asgi()

    async def without(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await inner(scope, receive, send)

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "lifespan.startup.failed", "message": "no such database"})

    async with Client(without) as client:
        assert client.server.name == "in HTTP"
    with pytest.raises(LocalError, match="no such database"):
        async with Client(failing):
            raise AssertionError("it must not connect")


async def test_a_token_is_sent_as_a_bearer_token() -> None:
    seen: list[str] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        seen.append(headers.get("authorization", ""))
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with served_in_process(answer) as port:
        for http in (None, HTTPOptions(headers={"x-id": "5"})):
            with pytest.raises(Exception, match="401"):
                async with Client(f"http://127.0.0.1:{port}/mcp", auth="secret", http=http):
                    raise AssertionError("it must not connect")
    assert {*seen} == {"Bearer secret"}


@pytest.mark.parametrize("revisions", ["handshake", "modern"])
async def test_a_kind_of_lifecycle_is_chosen(revisions: str) -> None:
    for id, expected in (("2025-11-25", "handshake"), ("2026-07-28", "modern")):
        [candidate] = server_candidates(App("here").as_server(), [id])
        client = Client(Tap(candidate.get()), revisions=revisions)
        if revisions == expected:
            async with client:
                assert client.server.name == "here"
        else:
            with pytest.raises(Exception, match="2026-07-28|2025-11-25"):
                async with client:
                    raise AssertionError("it must not connect")


async def test_a_child_that_fails_to_start_shows_its_last_lines(server: Path) -> None:
    server.write_text("import sys\nsys.exit('no such database')", encoding="utf-8")
    with pytest.raises(ConnectionClosedError, match="no such database"):
        async with Client(server):
            raise AssertionError("it must not connect")


@pytest.mark.parametrize(
    ("target", "settings", "text"),
    [
        ("absent.py", {}, "there is no file 'absent.py'"),
        (Path("absent"), {}, "there is no file 'absent'"),
        ("localhost:8000/mcp", {}, "http://localhost:8000/mcp"),
        ("node server", {}, "list of its words"),
        ("server.py --fast", {}, "list of its words: ['python', 'server.py', '--fast']"),
        (["python -m server"], {}, "needs separate words, not 'python -m server': ['python', '-m', 'server']"),
        (Path("."), {}, "there is no file '.'"),
        ("ws://localhost/mcp", {}, "'ws://localhost/mcp' is not a URL with http:// or https:// first"),
        (" http://localhost/mcp", {}, "is not a URL with http:// or https:// first"),
        ("http://localhost:99999/mcp", {}, "'http://localhost:99999/mcp' is not a URL of HTTP"),
        (5, {}, "5 is none of them"),
        ([], {}, "none of them"),
        ({}, {}, "mcpServers"),
    ],
)
async def test_something_else_is_refused(target: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalError) as raised:
        async with Client(target, **settings):
            raise AssertionError("it must not connect")
    assert text in str(raised.value)


def test_another_program_is_a_path_and_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server.sh").write_text("exec cat", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocalError, match=r"'server.sh' is a program of another language: write Path\('server.sh'\)"):
        Client("server.sh")


async def test_a_plain_function_is_no_transport() -> None:
    make: Any = lambda: App("here")
    with pytest.raises(LocalError, match="a function that opens a transport is `async def`; <function"):
        async with Client(make):
            raise AssertionError("it must not connect")


async def test_a_program_that_ends_without_serving_hears_what_it_lacks(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text("print('ready')", encoding="utf-8")
    with pytest.raises(ConnectionClosedError, match=r'exit code 0, as a program does that lacks app.run\("stdio"\)'):
        async with Client(program):
            raise AssertionError("it must not connect")


@pytest.mark.parametrize(
    ("target", "settings", "text"),
    [
        (App("x"), {"auth": "token"}, "'auth'"),
        (["python", "x.py"], {"http": HTTPOptions()}, "'http'"),
        ("http://localhost/mcp", {"env": {"A": "1"}}, "'env'"),
        ({"mcpServers": {}}, {"cwd": "."}, "'cwd'"),
    ],
)
def test_a_keyword_of_another_kind_of_target_is_refused(target: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Client(target, **settings)


async def test_a_misspelt_method_names_the_right_one() -> None:
    client: Any = Client(App("x"))
    with pytest.raises(AttributeError, match="did you mean 'list_tools'"):
        client.list_tols
    with pytest.raises(AttributeError, match="write .generated.discover"):
        client.discover


async def test_a_request_that_ends_before_its_response_begins_does_not_fail_the_application() -> None:
    httpx2 = pytest.importorskip("httpx2")
    from mcp_products.host.applications import InProcess

    asked, ended = asyncio.Event(), asyncio.Event()
    failures: list[BaseException] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        asked.set()
        await receive()  # The disconnect.
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"late"})
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            ended.set()

    async with httpx2.AsyncClient(transport=InProcess(application), base_url="http://localhost") as client:
        request = asyncio.create_task(client.get("/"))
        await asked.wait()
        request.cancel()
        await asyncio.wait([request])
        await ended.wait()
    assert failures == []


@pytest.mark.long
async def test_a_command_of_several_servers_runs_by_this_python_as_well(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(server.parent))  # Without a "python".
    entry = {"command": "python", "args": [str(server)]}
    async with Client({"mcpServers": {"own": entry}}) as client:
        assert (await client.call_tool("own_python")).data == sys.executable
    async with MultiClient({"words": ["python", server], "file": server, "module": "own_server"}) as several:
        results = [await several.call_tool(f"{name}_python") for name in ("words", "file", "module")]
        assert [result.structured_content for result in results] == [{"result": sys.executable}] * 3


async def test_a_configuration_says_why_a_server_is_left_out(server: Path) -> None:
    async with Client({"mcpServers": {"gone": {"command": "no-such-program"}}}) as client:
        with pytest.raises(LocalError, match=r"left out: gone \('no-such-program' cannot be started"):
            await client.call_tool("gone_x")
        with pytest.raises(LocalError, match=r"has several; write \.generated\.clients\[name\]\.server"):
            assert client.server
        with pytest.raises(LocalError, match=r"complete\(\): this client has several servers"):
            await client.complete(t.PromptReference(name="gone_x"), t.CompletionArgument(name="a", value=""))


async def test_a_client_of_several_servers_takes_clients_as_they_are_made() -> None:
    heard: list[Any] = []
    app = App("app")

    @app.tool
    async def say(ctx: Context) -> str:
        await ctx.info("said")
        return "done"

    clients = {"made": Client(app, on_log=heard.append, log_level="info"), "connected": connect(app)}
    async with MultiClient(clients) as several:
        assert [tool.name for tool in await several.list_tools()] == ["made_say", "connected_say"]
        result = await several.call_tool("made_say")
        assert result.structured_content == {"result": "done"}
    assert [message.data for message in heard] == ["said"]


def test_a_client_of_several_servers_names_what_is_misspelt() -> None:
    several: Any = MultiClient({"here": App("here")})
    with pytest.raises(AttributeError, match="did you mean 'list_tools'"):
        several.list_tols()


async def test_a_client_is_entered_again_and_from_several_tasks() -> None:
    closed: list[object] = []
    client = Client(App("here"), on_close=closed.append)
    async with client:
        async with client:
            await client.ping()
        await client.ping()
        assert closed == []
    assert closed == [None]

    together, left = asyncio.Barrier(3), asyncio.Barrier(3)

    async def use() -> str:
        async with client:
            await together.wait()
            name = client.server.name
            await left.wait()
        return name

    assert await asyncio.gather(use(), use(), use()) == ["here"] * 3
    assert closed == [None, None]
    with pytest.raises(ConnectionClosedError):
        await client.ping()


@pytest.mark.long
async def test_a_copy_of_a_client_has_a_connection_of_its_own(server: Path) -> None:
    client = Client(server, name="the program")
    async with client, client.new() as other:
        assert type(other) is Client and other.generated is not client.generated
        assert other.generated.name == "the program"
        await client.close()
        assert (await other.call_tool("python")).data == sys.executable
    with SyncClient(server).new() as blocking:
        assert blocking.call_tool("python").data == sys.executable
    with pytest.raises(LocalError, match="make Client"):
        Client(SimpleNamespace(send=print, receive=print, close=print)).new()


async def test_a_root_that_does_not_exist_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Client(App("here"), roots=[tmp_path, tmp_path / "gone"])
    assert [record.args for record in caplog.records] == [(tmp_path / "gone",)]


async def test_a_server_without_prompts_has_none_of_this_name() -> None:
    async with Client(App("here")) as client:
        for call in (client.get_prompt("x"), client.read_resource("note://x")):
            with pytest.raises(LocalError, match=r"the server has no (prompt|resource) '.*x'; it has none"):
                await call


async def test_who_enters_while_the_last_user_closes_connects_after_that() -> None:
    seen: list[str] = []

    class Slow:
        async def __aenter__(self) -> None:
            seen.append("connects")

        async def close(self) -> None:
            seen.append("closes")
            await steps(3)
            seen.append("is closed")

    client: Any = Client(App("here"))
    client.generated = Slow()

    async def use() -> None:
        async with client:
            pass

    first = asyncio.create_task(use())
    await steps(1)
    assert seen == ["connects", "closes"]
    await asyncio.gather(first, use())
    assert seen == ["connects", "closes", "is closed"] * 2


@among(ALL_REVISIONS)
async def test_an_app_keeps_nothing_of_the_clients_that_have_left(rev: Rev) -> None:
    app = App("app")
    left = list[weakref.ref[Any]]()
    for _ in range(3):
        [candidate] = server_candidates(app.as_server(), [rev.id])
        async with Client(Tap(candidate.get()), revisions=rev.id) as client:
            assert await client.list_tools() == []
        if candidate.get() is not app.as_server():
            left.append(weakref.ref(candidate.get()))
        del candidate, client
    gc.collect()
    assert [reference() for reference in left] == [None] * len(left)
