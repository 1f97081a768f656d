"""Requests without a session: they share few connections to a server of a gateway, and none gets what is another's."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import listening, with_our_packages
from support.http.sockets import listening as listening_app
from support.processes import kill

from mcp_generated import Gateway, LocalError, RemoteJSONRPCError, RequestOptions
from mcp_generated.auth import AuthenticatedUser, ResourceServer
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_products.relay.upstream import pool as connection_pool
from mcp_products.relay.upstream import suspended

SERVER = """
import asyncio, os, sys
from mcp_generated import App, Context

app = App("work")
ended, running = [], set()

@app.tool
async def work(number: int, ctx: Context, seconds: float = 0.05) -> str:
    await ctx.report_progress(number, 1000)
    running.add(number)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ended.append(number)
        raise
    await ctx.report_progress(number + 0.5, 1000)
    return f"{number}:{os.getpid()}"

@app.tool
def started() -> int:
    return sum(number >= 50 for number in running)

@app.tool
def cancelled() -> list[int]:
    return ended

@app.tool
async def double(number: int, ctx: Context) -> str:
    answer = await ctx.elicit(f"What is {number}?", int)
    return f"{number}:{answer.data}:{os.getpid()}"

@app.tool
async def log(number: int, ctx: Context) -> str:
    await ctx.info(f"log {number}")
    return f"{number}:{os.getpid()}"

with open(os.environ["STARTED"], "a") as file:
    print(sys.argv[1], file=file)
app.run(revisions=sys.argv[1:])
"""
OLD, NEW = "2025-06-18", "2026-07-28"
LIMIT = 3
DIED = re.compile(
    r"the target of the proxy 'old': .*the server (was ended by signal 9|ended with exit code 15|closed its output)"
)
META = "io.modelcontextprotocol/"
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": NEW,
    "mcp-method": "tools/call",
    "mcp-name": "old_double",
}


def question(number: int, name: str = "old_double", **more: Any) -> dict[str, Any]:
    """Return the message of a call, by a client that answers questions if the tool asks one."""
    capabilities = {"elicitation": {}} if name == "old_double" else {}
    meta = {f"{META}protocolVersion": NEW, f"{META}clientCapabilities": capabilities}
    params = {"name": name, "arguments": {"number": number}, "_meta": meta, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def entry(revision: str = OLD, **more: Any) -> dict[str, Any]:
    """Return the table of a server over stdio of one revision."""
    path = ":".join(path for path in sys.path if path)
    env = {"PYTHONPATH": path, "STARTED": os.devnull}
    return {"command": sys.executable, "args": ["-c", SERVER, revision], "env": env, **more}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a line for each process of a server that has started."""
    return tmp_path_factory.mktemp("gateway") / "started"


@pytest.fixture(scope="module")
def url(started: Path) -> str:
    """Return the endpoint of a gateway over HTTP in front of a server with sessions and of one without."""
    file = started.with_name("gateway.toml")
    path = ":".join(path for path in sys.path if path)
    tables = [
        f"[upstreams.{name}]\ncommand = '{sys.executable}'\nargs = ['-c', '''{SERVER}''', '{revision}']\n"
        f"connections = {LIMIT}\nenv = {{ PYTHONPATH = '{path}', STARTED = '{started}' }}\n"
        for name, revision in (("old", OLD), ("new", NEW))
    ]
    file.write_text("\n".join(tables))
    command = [sys.executable, "-m", "mcp_products.relay.gateway", "--http", "127.0.0.1:0", str(file)]
    return listening(with_our_packages(*command)) + "/mcp"


def words(result: Any) -> list[str]:
    """Return what a tool answered, at its colons."""
    text: str = result.content[0].text
    return text.split(":")


class Doubling(Client):
    """A client that answers a question about a number with twice the number, and notes log messages."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.logs: list[Any] = []

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        await asyncio.sleep(0.02)
        number = int(params.message.split()[-1][:-1])
        return t.ElicitResult(action="accept", content={"value": number * 2})

    async def on_logging_message(self, ctx: Any, params: Any) -> None:
        self.logs.append(params.data)


async def call(client: Any, name: str, number: int, **arguments: Any) -> tuple[list[str], list[float]]:
    """Return the answer of a tool and the progress of the call."""
    progress: list[float] = []
    options = RequestOptions(on_progress=lambda item: progress.append(item.progress))
    result = await client.call_tool(name, {"number": number, **arguments}, options=options)
    return words(result), progress


@pytest.mark.deadline(20)
@pytest.mark.parametrize("server", ["old", "new"])
async def test_fifty_requests_at_once_share_a_process_and_each_gets_its_own_progress(
    url: str, server: str, started: Path
) -> None:
    async with connect(url, revisions=[NEW]) as client:
        async with asyncio.timeout(8):
            answers = await asyncio.gather(*(call(client, f"{server}_work", number) for number in range(50)))
    assert [int(number) for (number, _), _ in answers] == list(range(50))
    assert [progress for _, progress in answers] == [[number, number + 0.5] for number in range(50)]
    assert len({pid for (_, pid), _ in answers}) == 1
    processes = started.read_text(encoding="utf-8").split().count({"old": OLD, "new": NEW}[server])
    assert processes == 1


@pytest.mark.deadline(20)
async def test_questions_of_a_server_go_to_the_request_they_belong_to_and_further_requests_wait(url: str) -> None:
    async def double(number: int) -> list[str]:
        async with connect(url, client=Doubling, revisions=[NEW]) as client:
            answer, _ = await call(client, "old_double", number)
            return answer

    async with asyncio.timeout(15):
        answers = await asyncio.gather(*(double(number) for number in range(20)))
    assert [(number, twice) for number, twice, _ in answers] == [(str(n), str(2 * n)) for n in range(20)]
    assert len({pid for _, _, pid in answers}) <= LIMIT


@pytest.mark.deadline(20)
async def test_log_messages_go_to_the_request_that_wants_them(url: str) -> None:
    async def log(number: int) -> list[Any]:
        async with connect(url, client=Doubling, revisions=[NEW]) as client:
            options = RequestOptions(meta={f"{META}logLevel": "info"})
            await client.call_tool("old_log", {"number": number}, options=options)
            return client.logs

    async with asyncio.timeout(15):
        logs = await asyncio.gather(*map(log, range(12)))
    assert logs == [[f"log {number}"] for number in range(12)]


@pytest.mark.deadline(20)
async def test_a_cancelled_request_ends_at_the_server_and_the_others_go_on(url: str) -> None:
    async with connect(url, revisions=[NEW]) as client:
        await call(client, "old_work", 9)
        tasks = [asyncio.create_task(call(client, "old_work", number, seconds=1.0)) for number in range(5)]
        await asyncio.sleep(0.3)
        tasks[2].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        ended = await client.call_tool("old_cancelled", {})
    assert isinstance(answers.pop(2), asyncio.CancelledError)
    assert [answer[0][0] for answer in answers if isinstance(answer, tuple)] == ["0", "1", "3", "4"]
    assert ended.structured_content == {"result": [2]}


@pytest.mark.deadline(20)
async def test_a_killed_process_fails_its_requests_at_once_and_the_next_one_works(url: str) -> None:
    async with connect(url, revisions=[NEW]) as client:
        (_, pid), _ = await call(client, "old_work", 1)
        tasks = [asyncio.create_task(call(client, "old_work", number, seconds=60)) for number in range(50, 100)]
        while int((await client.call_tool("old_started", {})).content[0].text) < 50:
            await asyncio.sleep(0.05)
        kill(int(pid))
        async with asyncio.timeout(5):
            errors = await asyncio.gather(*tasks, return_exceptions=True)
        for error in errors:
            assert isinstance(error, RemoteJSONRPCError) and DIED.search(error.message), error
        (_, other), _ = await call(client, "old_work", 0)
        assert other != pid


@pytest.mark.long
async def test_a_call_whose_client_never_answers_ends_when_others_need_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspended, "_MIN_SECONDS", 0.1)
    monkeypatch.setattr(connection_pool, "_LOOK_SECONDS", 0.1)
    app = Gateway({"upstreams": {"old": entry(connections=1)}}).app
    async with listening_app(app.asgi()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx2.AsyncClient() as web:
            first = (await web.post(url, json=question(1), headers=HEADERS, timeout=20)).json()["result"]
            assert first["resultType"] == "input_required"
            async with connect(url, client=Doubling, revisions=[NEW]) as client:
                assert (await call(client, "old_double", 2))[0][:2] == ["2", "4"]
            responses = {key: {"action": "accept", "content": {"value": 1}} for key in first["inputRequests"]}
            late = question(1, requestState=first["requestState"], inputResponses=responses)
            error = (await web.post(url, json=late, headers=HEADERS, timeout=20)).json()["error"]
    assert "send the request again" in error["message"]


@pytest.mark.long
async def test_a_process_that_may_still_work_for_a_client_that_has_left_asks_no_other_one() -> None:
    app = Gateway({"upstreams": {"old": entry(connections=1)}}).app
    async with listening_app(app.asgi()) as port:
        async with connect(f"http://127.0.0.1:{port}/mcp", client=Doubling, revisions=[NEW]) as client:
            pid, again = [(await call(client, "old_double", number))[0][2] for number in (7, 8)]
            cancelled = asyncio.create_task(call(client, "old_work", 1, seconds=30.0))
            await asyncio.sleep(0.3)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            (number, twice, other), _ = await call(client, "old_double", 9)
    assert again == pid and (number, twice) == ("9", "18") and other != pid


@pytest.mark.long
async def test_a_request_that_gets_no_connection_in_time_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(connection_pool, "_LOOK_SECONDS", 0.1)
    app = Gateway({"upstreams": {"old": entry(connections=1)}}).app
    async with listening_app(app.asgi()) as port, httpx2.AsyncClient() as web:
        url = f"http://127.0.0.1:{port}/mcp"
        assert "result" in (await web.post(url, json=question(1), headers=HEADERS, timeout=20)).json()
        error = (await web.post(url, json=question(2), headers=HEADERS, timeout=20)).json()["error"]
    assert "all 1 connections of 'old' were in use" in error["message"] and "connections" in error["message"]


class Verifier:
    """Knows the tokens of two users: their names."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token."""
        return AuthenticatedUser(token, issuer="https://auth.example")


@pytest.mark.long
async def test_users_share_no_process_and_further_users_take_those_that_are_idle() -> None:
    gateway = Gateway({"upstreams": {"old": entry(connections=2)}})
    auth = ResourceServer("http://127.0.0.1/mcp", ["https://auth.example"], verifier=Verifier())
    pids: dict[str, set[str]] = {}
    async with listening_app(gateway.app.asgi(auth=auth)) as port, httpx2.AsyncClient() as web:

        async def work(user: str) -> None:
            headers = {**HEADERS, "mcp-name": "old_work", "authorization": f"Bearer {user}"}
            message = question(1, name="old_work")
            response = await web.post(f"http://127.0.0.1:{port}/mcp", json=message, headers=headers, timeout=20)
            pids.setdefault(user, set()).add(response.json()["result"]["content"][0]["text"].split(":")[1])

        await asyncio.gather(*(work(user) for user in ("ada", "eve", "ada", "bob", "eve", "ada")))
    assert {user: len(own) for user, own in pids.items()} == {"ada": 1, "eve": 1, "bob": 1}
    assert len(set.union(*pids.values())) == 3


@pytest.mark.long
async def test_a_start_that_takes_longer_than_a_call_may_is_not_in_vain() -> None:
    app = Gateway({"upstreams": {"old": entry(timeout=0.2)}}).app
    async with listening_app(app.asgi()) as port:
        async with connect(f"http://127.0.0.1:{port}/mcp", revisions=[NEW]) as client, asyncio.timeout(10):
            with pytest.raises(RemoteJSONRPCError, match=r"within 0\.2 s"):
                await call(client, "old_work", 0, seconds=1.0)
            answer = None
            while answer is None:  # Not the start of another process for each call.
                with suppress(RemoteJSONRPCError):
                    (answer, _), _ = await call(client, "old_work", 1, seconds=0.0)
    assert answer == "1"


@pytest.mark.long
async def test_requests_of_old_versions_without_sessions_share_a_process(tmp_path: Path) -> None:
    table = entry()
    table["env"]["STARTED"] = str(tmp_path / "started")
    app = Gateway({"upstreams": {"old": table}}).app
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": OLD}
    async with listening_app(app.asgi(stateless_http=True)) as port, httpx2.AsyncClient(timeout=20) as web:

        async def work(number: int) -> list[str]:
            params = {"name": "old_work", "arguments": {"number": number}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            response = await web.post(f"http://127.0.0.1:{port}/mcp", json=message, headers=headers)
            return str(response.json()["result"]["content"][0]["text"]).split(":")

        answers = await asyncio.gather(*map(work, range(30)))
    assert [int(number) for number, _ in answers] == list(range(30))
    assert len({pid for _, pid in answers}) == 1
    assert len((tmp_path / "started").read_text().split()) == 1


@pytest.mark.parametrize("number", [0, -1, 1.5, "4", True])
def test_a_number_of_connections_that_is_none_is_refused(number: Any) -> None:
    with pytest.raises(LocalError, match=r"\[upstreams.old\] connections is a whole number above 0: write connections"):
        Gateway({"upstreams": {"old": entry(connections=number)}})
