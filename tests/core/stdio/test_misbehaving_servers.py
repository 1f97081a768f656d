"""A client whose server misbehaves: every call ends with one typed error in time, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.raw_process import SERVER

from mcp_generated.v2025_06_18 import Client
from mcp_generated.v2025_06_18 import types as t
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidResponseError,
    MCPError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.session.requests import RequestOptions

QUIET: list[str] = []
DEADLINE = 60.0
SOON = 20.0  # Seconds for what needs no more than five: a busy machine takes longer, the timeout of a call is 60.


def within_deadline(conversation: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(conversation, DEADLINE))


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    async with Client.stdio(*SERVER, stderr=QUIET.append) as client:
        yield client


def scripted(*steps: str) -> list[str]:
    """The command of a server that does these steps: each answers what comes, or runs as Python."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"},
        },
    }
    lines = ["import os, sys, json, time", "read = sys.stdin.readline"]
    lines += ["def say(text): os.write(1, text.encode() + b'\\n')"]
    lines += ["read()", f"say({json.dumps(json.dumps(hello))})", "read()", *steps]
    return [sys.executable, "-c", "\n".join(lines)]


@pytest.mark.long
@pytest.mark.parametrize("tool", ["die", "half", "last words"])
@pytest.mark.fault("1.5/10")
def test_a_server_that_dies_in_a_call_fails_the_call_at_once(tool: str) -> None:
    async def conversation() -> None:
        async with connected() as client:
            waiting = [asyncio.create_task(client.call_tool(name="hang")) for _ in range(20)]
            start = time.monotonic()
            with pytest.raises(ConnectionClosedError) as caught:
                await client.call_tool(name=tool)
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(outcome, ConnectionClosedError) for outcome in outcomes)
            assert time.monotonic() - start < SOON
            if tool == "last words":
                assert "ended with exit code 1" in str(caught.value)
                assert "Traceback: the disk is full" in str(caught.value)
        async with connected() as client:
            assert await client.ping()

    within_deadline(conversation())


STEPS = {
    "before it reads": ["exit"],
    "when it has read the opening request": ["read()", "exit"],
    "in the middle of its answer": ["read()", "os.write(1, b'{\"jsonrpc\"')", "exit"],
}


@pytest.mark.parametrize("step", STEPS)
def test_a_server_that_dies_while_opening_is_one_clear_error(step: str) -> None:
    script = "\n".join(["import os, sys", "read = sys.stdin.readline", *STEPS[step]]).replace(
        "exit", "sys.exit('no luck')"
    )

    async def conversation() -> None:
        with pytest.raises(ConnectionClosedError, match="no luck"):
            async with Client.stdio(sys.executable, "-c", script, stderr=QUIET.append):
                pass

    within_deadline(conversation())


@pytest.mark.parametrize("step", ["read()", "read(); os.write(1, b'{')", "read(); say('noise'); say('[]')"])
def test_a_server_that_dies_after_the_opening_fails_what_waits(step: str) -> None:
    async def conversation() -> None:
        async with Client.stdio(*scripted(step), stderr=QUIET.append) as client:
            with pytest.raises(ConnectionClosedError):
                await client.list_tools()

    within_deadline(conversation())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ('{"jsonrpc":"2.0","id":2,"result":{"tools":3}}', InvalidResponseError),
        ('{"jsonrpc":"2.0","id":2,"result":null}', InvalidResponseError),
        ('{"jsonrpc":"2.0","id":2,"error":{"code":"x"}}', InvalidResponseError),
        ('{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"m"}}', InvalidResponseError),
        ('{"jsonrpc":"1.0","id":2,"result":{"tools":[]}}', InvalidResponseError),
        ('{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}', RemoteJSONRPCError),
    ],
)
def test_a_malformed_answer_whose_id_can_be_read_fails_that_call_at_once(answer: str, error: type[MCPError]) -> None:
    async def conversation() -> None:
        steps = ["read()", f"say({answer!r})", "read()", """say('{"jsonrpc":"2.0","id":3,"result":{}}')""", "read()"]
        async with Client.stdio(*scripted(*steps), stderr=QUIET.append) as client:
            start = time.monotonic()
            with pytest.raises(error):
                await client.list_tools()
            assert time.monotonic() - start < SOON
            assert await client.ping() == t.EmptyResult()

    within_deadline(conversation())


@pytest.mark.long
def test_a_call_ends_within_its_timeout_and_a_quarter_of_a_second() -> None:
    async def conversation() -> None:
        async with connected() as client:
            took: list[float] = []
            while len(took) < 3 or (min(took) >= 0.45 and len(took) < 20):  # A busy machine may be late now and then.
                start = time.monotonic()
                with pytest.raises(RequestTimeoutError):
                    await client.call_tool(name="hang", options=RequestOptions(timeout=0.2))
                took.append(time.monotonic() - start)
            assert min(took) < 0.45
            assert await client.ping()

    within_deadline(conversation())


@pytest.mark.long
def test_a_thousand_calls_in_flight_are_cancelled_at_once() -> None:
    async def conversation() -> None:
        async with connected() as client:
            calls = [asyncio.create_task(client.call_tool(name="hang")) for _ in range(1000)]
            await client.ping()
            for call in calls:
                call.cancel()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            assert await client.ping()
            result = await client.call_tool(name="large", arguments={"size": 3})
            assert result.content == [t.TextContent(text="xxx")]

    within_deadline(conversation())


@pytest.mark.long
@pytest.mark.fault("1.5/08")
@pytest.mark.transport_rule("2025-11-25/09")
def test_a_flood_on_standard_error_disturbs_nothing() -> None:
    received = 0

    def receive(line: str) -> None:
        nonlocal received
        received += len(line) + 1

    async def conversation() -> None:
        async with Client.stdio(*SERVER, stderr=receive) as client:
            result = await client.call_tool(name="flood")
            assert result.content == [t.TextContent(text="flood")]
            assert await client.ping()

    within_deadline(conversation())
    assert received >= 100 << 20


@pytest.mark.long
def test_nothing_is_left_of_a_server_and_what_it_started() -> None:
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    children: list[int] = []

    async def conversation() -> None:
        for tool in ("hang", "deaf"):
            async with connected() as client:
                result = await client.call_tool(name="child")
                assert isinstance(result.content[0], t.TextContent)
                children.append(int(result.content[0].text))
                hanging = asyncio.create_task(client.call_tool(name=tool))
                await client.ping()
            with pytest.raises(ConnectionClosedError):
                await hanging

    within_deadline(conversation())
    for child in children:
        deadline = time.monotonic() + 5.0
        while is_running(child) and time.monotonic() < deadline:
            os.sched_yield()
        assert not is_running(child)
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def is_running(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.fault("1.5/10")
def test_a_server_that_ignores_the_end_of_its_input_and_sigterm_is_killed() -> None:
    stubborn = ["import signal", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "time.sleep(120)"]

    async def conversation() -> None:
        client = Client.stdio(*scripted(*stubborn), stderr=QUIET.append)
        await client.__aenter__()
        start = time.monotonic()
        await client.close()
        assert time.monotonic() - start < SOON

    within_deadline(conversation())


def test_only_a_small_environment_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_TOKEN", "x")
    result = "{'tools': [], 'env': dict(os.environ), 'cwd': os.getcwd()}"
    step = f"read(); say(json.dumps({{'jsonrpc': '2.0', 'id': 2, 'result': {result}}})); read()"

    async def conversation() -> None:
        async with Client.stdio(*scripted(step), env={"GIVEN": "1"}, cwd="/", stderr=QUIET.append) as client:
            extra = (await client.list_tools()).model_extra or {}
        assert extra["env"]["GIVEN"] == "1" and extra["cwd"] == os.path.abspath("/") and "PATH" in extra["env"]
        assert "A_SECRET_TOKEN" not in extra["env"]

    within_deadline(conversation())


def test_with_keep_alive_a_server_that_falls_silent_ends_the_conversation() -> None:
    async def conversation() -> None:
        silent = scripted("while read(): pass")  # It ends with its input, so that it is never left behind.
        async with Client.stdio(*silent, stderr=QUIET.append, ping_interval=0.1) as client:
            start = time.monotonic()
            with pytest.raises(ConnectionClosedError):
                await client.list_tools(options=RequestOptions(timeout=None))
            assert time.monotonic() - start < SOON

    within_deadline(conversation())


@pytest.mark.fault("1.5/10")
def test_a_silent_server_has_ended_when_the_client_is_closed_although_a_ping_began_to_close_it() -> None:
    steps = ["import signal", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"]
    steps += ["print(os.getpid(), file=sys.stderr, flush=True)", "time.sleep(120)"]
    lines: list[str] = []

    async def scenario() -> None:
        async with Client.stdio(*scripted(*steps), stderr=lines.append, ping_interval=0.2) as client:
            with pytest.raises(ConnectionClosedError):
                await client.list_tools(options=RequestOptions(timeout=None))
        assert not is_running(int(lines[0]))

    within_deadline(scenario())


@pytest.mark.long
def test_with_keep_alive_a_server_that_answers_is_left_alone() -> None:
    async def conversation() -> None:
        async with Client.stdio(*SERVER, stderr=QUIET.append, ping_interval=0.05) as client:
            for _ in range(50):
                assert await client.ping()

    within_deadline(conversation())
