"""A request without a session is served in the task that brought it: what ends the task, the handler, or the client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clock import LoopClock, settle
from support.endpoints import STATELESS, Rev, among, server_of
from support.http.asgi_client import Answer, Web, web

from mcp_runtime.errors import ConnectionClosedError, JSONRPCError
from mcp_runtime.transports.http_server import stateless
from mcp_runtime.transports.http_server.limits import HTTPLimits


def call(client: Web, name: str) -> Answer:
    return client.request(body=client.rev.request(1, "tools/call", {"name": name}))


class Handler:
    """A tool that waits, and does as its name says when it is cancelled."""

    def __init__(self, rev: Rev) -> None:
        self.rev = rev
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.outcomes: list[str] = []
        self.tasks: list[asyncio.Task[Any] | None] = []

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        if not params.name:
            return self.rev.text("at once")
        self.tasks.append(asyncio.current_task())
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.outcomes.append("cancelled")
            if params.name == "answers":
                return self.rev.text("so far")
            if params.name == "stubborn":
                await self.go.wait()
                self.outcomes.append("went on")
                return self.rev.text("too late")
            raise
        self.tasks.append(asyncio.current_task())
        return self.rev.text("done")


@among(STATELESS)
async def test_a_handler_runs_in_the_task_that_brought_its_request(rev: Rev) -> None:
    handler = Handler(rev)
    async with web(rev, server_of(rev, call_tool=handler.call_tool)) as client:
        answer = call(client, "waits")
        await handler.started.wait()
        handler.go.set()
        assert (await answer.whole()).json["result"]["content"][0]["text"] == "done"
    assert handler.tasks == [answer.task, answer.task]


@among(STATELESS)
@pytest.mark.parametrize("name", ["waits", "answers"])
async def test_who_cancels_the_task_of_a_request_cancels_its_handler(rev: Rev, name: str) -> None:
    handler = Handler(rev)
    async with web(rev, server_of(rev, call_tool=handler.call_tool)) as client:
        await call(client, "").whole()  # The server has begun what lasts longer than a request.
        others = asyncio.all_tasks()
        answer = call(client, name)
        await handler.started.wait()
        answer.task.cancel()
        await asyncio.wait([answer.task])
        assert handler.outcomes == ["cancelled"]
        assert answer.task.cancelled() == (name == "waits")
        await settle()
        assert asyncio.all_tasks() <= others, "nothing goes on behind the request"


@among(STATELESS)
async def test_a_body_that_its_client_reads_slowly_does_not_become_a_stream_besides(rev: Rev) -> None:
    clock, handler = LoopClock(), Handler(rev)
    reads, started = asyncio.Event(), list[Any]()
    async with web(rev, server_of(rev, call_tool=handler.call_tool), limits=HTTPLimits(keep_alive=5)) as client:

        async def slowly(scope: Any, receive: Any, send: Any) -> None:
            async def send_when_read(message: Any) -> None:
                started.append(message["type"])
                await reads.wait()
                await send(message)

            await client.app(scope, receive, send_when_read)

        answer = Web(slowly, rev).request(body=rev.request(1, "tools/call", {"name": "waits"}))
        await handler.started.wait()
        handler.go.set()
        await settle()
        clock.forward(6)
        await settle()
        assert started == ["http.response.start"]
        reads.set()
        assert (await answer.whole()).json["result"]["content"][0]["text"] == "done"
    assert started == ["http.response.start", "http.response.body"]


@among(STATELESS)
@pytest.mark.parametrize("name", ["waits", "answers", "stubborn"])
async def test_a_client_that_leaves_cancels_the_handler_and_not_the_task(rev: Rev, name: str) -> None:
    handler = Handler(rev)
    async with web(rev, server_of(rev, call_tool=handler.call_tool)) as client:
        answer = call(client, name)
        await handler.started.wait()
        leaving = asyncio.create_task(answer.leave())
        await settle()
        assert handler.outcomes == ["cancelled"] and leaving.done() == (name != "stubborn")
        handler.go.set()
        await leaving
        assert not answer.task.cancelled() and answer.task.cancelling() == 0
        assert answer.status == 0, "nothing is said to who is not there"
    assert handler.outcomes == ["cancelled", "went on"][: 1 + (name == "stubborn")]


@among(STATELESS)
async def test_a_handler_that_only_lets_others_run_is_cancelled_as_well(rev: Rev) -> None:
    ended = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        try:
            while True:
                await asyncio.sleep(0)
        finally:
            ended.set()

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = call(client, "busy")
        await settle()
        await answer.leave()
        assert ended.is_set()


@among(STATELESS)
@pytest.mark.parametrize(("name", "status"), [("waits", 503), ("answers", 200), ("stubborn", 503)])
async def test_a_server_that_ends_lets_a_handler_say_what_it_has(rev: Rev, name: str, status: int) -> None:
    handler = Handler(rev)
    async with web(rev, server_of(rev, call_tool=handler.call_tool)) as client:
        answer = call(client, name)
        await handler.started.wait()
        await client.app.close()
        await answer.until(lambda answer: answer.content)
        assert answer.status == status and handler.outcomes == ["cancelled"]
        handler.go.set()
        await answer.whole()


@among(STATELESS)
async def test_a_handler_whose_answer_cannot_be_sent_is_cancelled(rev: Rev) -> None:
    ended = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        try:
            await asyncio.sleep(0)
            await ctx.progress(1)
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        async def broken(message: Any) -> None:
            raise RuntimeError("it cannot be sent")

        await client.app(scope, receive, broken)

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        request = rev.request(1, "tools/call", {"name": "x", "_meta": {"progressToken": 1}})
        with pytest.raises(RuntimeError, match="cannot be sent"):
            await Web(failing, rev).answered(body=request)
        assert ended.is_set()


@among(STATELESS)
async def test_a_notification_is_handled_behind_its_answer_and_nothing_can_be_said_of_it(rev: Rev) -> None:
    ids: list[Any] = []
    go, done = asyncio.Event(), asyncio.Event()

    async def on_cancelled(ctx: Any, params: Any) -> None:
        await go.wait()
        with pytest.raises(ConnectionClosedError):
            await ctx.notify_tool_list_changed()
        ids.append(params.request_id)
        done.set()

    row = rev.revision.lifecycle.cancelled
    async with web(rev, server_of(rev, **{row.name: on_cancelled})) as client:
        notification = {"jsonrpc": "2.0", "method": row.method, "params": {"requestId": 7, "_meta": rev.meta()}}
        assert (await client.answered(body=notification)).status == 202 and not ids
        go.set()
        await asyncio.wait_for(done.wait(), 10)
    assert ids == [7]


@among(STATELESS)
async def test_calls_at_the_same_time_read_the_tools_once_and_as_the_same_client(rev: Rev) -> None:
    states: dict[str, list[Any]] = {"list": [], "call": []}

    async def list_tools(ctx: Any, params: Any) -> Any:
        states["list"].append(ctx.connection_state)
        await asyncio.sleep(0)
        return rev.t.ListToolsResult(tools=[])

    async def call_tool(ctx: Any, params: Any) -> Any:
        states["call"].append(ctx.connection_state)
        return rev.text("done")

    async with web(rev, server_of(rev, list_tools=list_tools, call_tool=call_tool)) as client:
        for answer in [call(client, "x") for _ in range(20)]:
            assert (await answer.whole()).status == 200
    assert len(states["list"]) == 1 and len(states["call"]) == 20
    assert {*map(id, states["list"])} == {*map(id, states["call"])}, "whoever reads them needs no further connection"


@among(STATELESS)
async def test_arguments_have_to_agree_with_headers_even_while_the_tools_cannot_be_listed(
    rev: Rev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stateless, "_HEADERS_FRESH_SECONDS", 0.05)
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    listed: list[bool] = []

    async def list_tools(ctx: Any, params: Any) -> Any:
        listed.append(not listed)
        if not listed[-1]:
            raise JSONRPCError(-32603, "not now")
        return rev.t.ListToolsResult(tools=[rev.t.Tool.model_validate({"name": "x", "inputSchema": schema})])

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text("done")

    body = rev.request(1, "tools/call", {"name": "x", "arguments": {"region": "here"}})
    async with web(rev, server_of(rev, list_tools=list_tools, call_tool=call_tool)) as client:
        for _ in range(3):
            wrong = await client.answered(body=body, headers={"mcp-param-region": "there"})
            right = await client.answered(body=body, headers={"mcp-param-region": "here"})
            assert (wrong.status, right.status) == (400, 200)
            await asyncio.sleep(0.06)
    assert listed[:2] == [True, False], "the list was read again, and failed"
