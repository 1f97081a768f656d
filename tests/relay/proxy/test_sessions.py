"""The connections of a proxy: those of sessions are separate, a failure harms no other app, and all end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.http.sockets import listening

from mcp_generated import App, Context, RemoteJSONRPCError
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

COMBINATIONS = [("2025-11-25", "2025-11-25"), ("2025-11-25", "2026-07-28"), ("2026-07-28", "2025-11-25")]
COMBINATIONS += [("2026-07-28", "2026-07-28"), ("2025-06-18", "2025-06-18")]


class Person(Client):
    """A client that answers with the name of its user."""

    def __init__(self, *arguments: Any, user: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.user = user

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"value": self.user})


def person(target: Any, revision: str, user: str) -> Person:
    client = connect(target, client=Person, revisions=[revision])
    client.user = user
    return client


def rendezvous_app(count: int) -> App:
    """An app whose calls begin their elicitation when all have begun, so that they overlap."""
    app = App("target")
    waiting: list[asyncio.Event] = []

    @app.tool
    async def who(ctx: Context) -> str:
        async def wait() -> bool:
            waiting.append(asyncio.Event())
            if len(waiting) == count:
                for event in waiting:
                    event.set()
            await waiting[-1].wait()
            return True

        await ctx.once("wait", wait)
        answer = await ctx.elicit("Who?", str)
        return str(getattr(answer, "data", answer.action))

    return app


@pytest.mark.parametrize(("front", "target"), COMBINATIONS)
async def test_clients_of_one_endpoint_get_only_what_is_for_them(front: str, target: str) -> None:
    users = [f"user {number}" for number in range(4)]
    proxy = App.proxy(rendezvous_app(len(users)), revisions=[target])
    async with listening(proxy.asgi()) as port:

        async def call(user: str) -> str:
            async with person(f"http://127.0.0.1:{port}/mcp", front, user) as client:
                return str((await client.call_tool("who")).content[0].text)

        assert await asyncio.gather(*map(call, users)) == users


async def test_an_elicitation_of_a_stateless_client_does_not_call_the_tool_again() -> None:
    app, calls = App("target"), []

    @app.tool
    async def once(ctx: Context) -> str:
        calls.append(1)
        first = await ctx.elicit("a", str)
        second = await ctx.elicit("b", str)
        return f"{first.action} {second.action}"

    async with person(App.proxy(app, revisions=["2025-11-25"]), "2026-07-28", "x") as client:
        assert (await client.call_tool("once")).content[0].text == "accept accept"
    assert calls == [1]


async def test_the_state_of_a_session_of_the_target_belongs_to_one_client() -> None:
    app = App("target")

    @app.tool
    async def count(ctx: Context) -> int:
        number = (await ctx.get_state("n") or 0) + 1
        await ctx.set_state("n", number)
        return number

    proxy = App.proxy(app, revisions=["2025-11-25"])
    async with listening(proxy.asgi()) as port:
        async with connect(f"http://127.0.0.1:{port}/mcp", revisions=["2025-11-25"]) as one:
            async with connect(f"http://127.0.0.1:{port}/mcp", revisions=["2025-11-25"]) as other:
                texts = [(await client.call_tool("count")).content[0].text for client in (one, one, other)]
    assert texts == ["1", "2", "1"]


SERVER = """
import os, pathlib, sys
from mcp_generated import App

app = App("file")
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))


@app.tool
def pid() -> int:
    return os.getpid()


@app.tool
def end() -> None:
    os._exit(3)


app.run()
"""


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.long
async def test_a_child_process_ends_with_its_session(tmp_path: Path) -> None:
    script, mark = tmp_path / "server.py", tmp_path / "pid"
    script.write_text(SERVER)
    proxy = App.proxy([sys.executable, str(script), str(mark)])
    async with connect(proxy) as client:
        pid = int((await client.call_tool("pid")).content[0].text)
        assert pid == int(mark.read_text()) and is_running(pid)
    assert not is_running(pid)


@pytest.mark.long
@pytest.mark.parametrize("front", ["2025-11-25", "2026-07-28"])
async def test_a_child_process_ends_with_the_endpoint(tmp_path: Path, front: str) -> None:
    script, mark = tmp_path / "server.py", tmp_path / "pid"
    script.write_text(SERVER)
    proxy = App.proxy([sys.executable, str(script), str(mark)])
    async with listening(proxy.asgi()) as port, connect(f"http://127.0.0.1:{port}/mcp", revisions=[front]) as client:
        pid = int((await client.call_tool("pid")).content[0].text)
        assert is_running(pid)
    assert not is_running(pid)


@pytest.mark.long
async def test_a_target_that_has_ended_is_an_error_and_is_started_again(tmp_path: Path) -> None:
    script, mark = tmp_path / "server.py", tmp_path / "pid"
    script.write_text(SERVER)
    async with connect(App.proxy([sys.executable, str(script), str(mark)])) as client:
        before = (await client.call_tool("pid")).content[0].text
        with pytest.raises(RemoteJSONRPCError, match="the target of the proxy 'proxy'"):
            await client.call_tool("end")
        assert (await client.call_tool("pid")).content[0].text != before


async def test_a_target_that_is_not_there_harms_no_other_app() -> None:
    app, other = App("gate"), App("other")
    other.tool(lambda: "here", name="where")
    app.mount(other, "other")
    app.mount(App.proxy("http://127.0.0.1:1/mcp", "gone"), "gone")
    async with connect(app) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["other_where"]
        assert (await client.call_tool("other_where")).content[0].text == "here"
        with pytest.raises(RemoteJSONRPCError, match="the target of the proxy 'gone' cannot be reached"):
            await client.call_tool("gone_where")
    async with connect(App.proxy("http://127.0.0.1:1/mcp", "gone")) as client:
        with pytest.raises(RemoteJSONRPCError, match="the target of the proxy 'gone' cannot be reached"):
            await client.list_tools()


async def test_nothing_runs_when_the_proxy_has_ended() -> None:
    before = asyncio.all_tasks()
    app = rendezvous_app(1)
    async with person(App.proxy(app, revisions=["2025-11-25"]), "2026-07-28", "x") as client:
        await client.call_tool("who")
        raw = connect(App.proxy(app), revisions=["2026-07-28"])
        async with raw:
            await raw.list_tools()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("target", ["2025-11-25", "2026-07-28"])
async def test_a_tool_can_read_the_resource_of_a_proxy_and_elicit_after_that(target: str) -> None:
    inner, app = App("inner"), App("gate")
    inner.add_resource("note://a", lambda: "a note")
    app.mount(App.proxy(inner, revisions=[target]), "in")

    @app.tool
    async def both(ctx: Context) -> str:
        [first] = await ctx.read_resource("note://in/a")
        answer = await ctx.elicit("Name?", str)
        [second] = await ctx.read_resource("note://in/a")
        return f"{first.content} {getattr(answer, 'data', answer.action)} {second.content}"

    for front in ("2025-11-25", "2026-07-28"):
        async with person(app, front, "Ann") as client:
            assert (await client.call_tool("both")).content[0].text == "a note Ann a note"


async def test_input_responses_of_a_call_that_has_ended_are_an_error() -> None:
    app = App("target")

    @app.tool
    async def question(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).action

    proxy = App.proxy(app, revisions=["2025-11-25"])
    capabilities = {"elicitation": {"form": {}}}
    async with connect(proxy, revisions=["2026-07-28"], capabilities=capabilities) as client:
        first: Any = await client.call_tool("question")
        answers = {key: {"action": "decline"} for key in first.input_requests}
        again = {"input_responses": answers, "request_state": first.request_state}
        assert (await client.call_tool("question", **again)).content[0].text == "decline"
        with pytest.raises(RemoteJSONRPCError, match="the call ended before its input responses arrived"):
            await client.call_tool("question", **again)
