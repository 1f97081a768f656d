"""Messages that one worker has to pass to another, each as a conversation: it begins, something happens, and it ends.

`begin` brings a client and the workers to where the message is the next thing to come. `finish` sends it, and fails
unless it arrives. What happens in between is up to the test: time passes, or the store loses what it had.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from support.endpoints import HANDSHAKE, STATELESS, Rev
from support.http.asgi_client import Answer
from support.stores.passing import Passing
from support.stores.shared_workers import Workers

from mcp_generated import App, Context, Progress, TaskOptions

T = TypeVar("T")

NEWEST, OLDEST, STATELESS_REV = HANDSHAKE[-1], HANDSHAKE[0], STATELESS[-1]
ASKS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
TASKS: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {
    "elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}  # fmt: skip
TOOLS, UPDATED = "notifications/tools/list_changed", "notifications/resources/updated"
LISTS = (TOOLS, "notifications/prompts/list_changed", "notifications/resources/list_changed")  # Those of an app.
WITHIN = 60.0  # Seconds in which whatever is waited for has come, or never comes.


class Servers:
    """Servers of one app, and what their functions have noted."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def make(self) -> App:
        app = App("conversing")

        @app.tool
        async def order(ctx: Context) -> str:
            return (await ctx.elicit("What colour?", str, timeout=None)).action

        @app.tool
        async def sample(ctx: Context) -> str:
            def note(progress: Progress) -> None:
                self.noted.append(f"progress {progress.progress}")

            return (await ctx.sample("Write a poem.", timeout=None, on_progress=note)).text or ""

        @app.tool
        async def roots(ctx: Context) -> str:
            result = await ctx.session.list_roots()
            return str(result.roots[0].uri)

        @app.tool
        async def wait(ctx: Context) -> str:
            await ctx.report_progress(1)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.noted.append("cancelled")
                raise
            return "never"

        @app.tool
        async def speak(ctx: Context) -> str:
            await ctx.debug("a detail")
            await ctx.error("a problem")
            return "done"

        @app.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @app.tool(task=TaskOptions(ttl=None))
        async def later(ctx: Context) -> str:
            return (await ctx.elicit("What colour?", str)).action

        @app.tool(task=TaskOptions(ttl=None))
        async def long() -> str:
            await asyncio.Event().wait()
            return "never"

        @app.resource("data://one")
        def one() -> str:
            return "1"

        @app.prompt
        def greet() -> str:
            return "Say hello."

        return app


class Talk:
    """A client of workers, and what the functions of the server have noted."""

    def __init__(self, client: Workers, servers: Servers) -> None:
        self.client = client
        self.servers = servers
        self.on_sent: Callable[[], None] | None = None  # Called once, when a message has been accepted.
        self.passing: Passing | None = None  # The store, if it may lose what it has.
        self._losses_before = 0  # When the last stream was opened.
        self._last = 100

    @property
    def rev(self) -> Rev:
        return self.client.rev

    def call(self, name: str, at: int, **arguments: Any) -> Answer:
        self._last += 1
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": f"p{self._last}"}}
        return self.client.request(body=self.rev.request(self._last, "tools/call", params), at=at)

    @property
    def losses(self) -> int:
        """How often the store has lost what it had, in all."""
        return 0 if self.passing is None else self.passing.losses

    def opened(self) -> None:
        """Count losses from now on."""
        self._losses_before = self.losses

    @property
    def losses_since(self) -> int:
        """How often the store has lost what it had since `opened`."""
        return self.losses - self._losses_before

    async def sent(self, body: dict[str, Any], at: int) -> Answer:
        answer = await self.client.answered(body=body, at=at)
        self.has_sent()
        return answer

    def has_sent(self) -> None:
        """Let happen what shall, before the message can have been read."""
        happen = self.on_sent
        self.on_sent = None
        if happen is not None:
            happen()

    async def ask(self, method: str, at: int, **params: Any) -> Any:
        """The result or the error of a request."""
        self._last += 1
        more: dict[str, Any] = {}
        if self.rev.stateless:
            params |= {"_meta": TASKS}
            more["headers"] = {"mcp-name": params.get("name", params.get("taskId"))}
        answer = await self.client.answered(body=self.rev.request(self._last, method, params), at=at, **more)
        assert answer.status == 200, answer.content
        message = answer.json_messages[-1] if answer.events else answer.json
        return message["result"] if "result" in message else message["error"]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not condition():
                await asyncio.sleep(0.01)


class Kind(NamedTuple):
    """A kind of message, the version of its client, whether a worker waits a while until another has read it before it
    is accepted, and whether other workers are told of it."""

    name: str
    rev: Rev
    begin: Callable[[Talk], Awaitable[Any]]
    finish: Callable[[Talk, Any], Awaitable[None]]
    waits_for_reader: bool = False
    is_told: bool = True


async def asked(talk: Talk, tool: str) -> Answer:
    calling = talk.call(tool, at=0)
    await calling.until(lambda answer: any("method" in message for message in answer.json_messages))
    return calling


async def replied(talk: Talk, calling: Answer, result: dict[str, Any], expected: str) -> None:
    """Answer what was asked at another worker, and wait for the result of the call."""
    [request] = [message for message in calling.json_messages if "id" in message and "method" in message]
    answer = await talk.sent({"jsonrpc": "2.0", "id": request["id"], "result": result}, at=1)
    assert answer.status == 202, answer.content
    await within(calling.whole())
    assert calling.json_messages[-1]["result"]["content"][0]["text"] == expected


async def within(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(WITHIN):
        return await work


async def answer_elicitation(talk: Talk, calling: Answer) -> None:
    await replied(talk, calling, {"action": "accept", "content": {"value": "blue"}}, "accept")


async def answer_sampling(talk: Talk, calling: Answer) -> None:
    result = {"role": "assistant", "content": {"type": "text", "text": "a poem"}, "model": "m"}
    await replied(talk, calling, result, "a poem")


async def answer_roots(talk: Talk, calling: Answer) -> None:
    await replied(talk, calling, {"roots": [{"uri": "file:///home"}]}, "file:///home")


async def report_progress(talk: Talk, calling: Answer) -> None:
    [request] = [message for message in calling.json_messages if "id" in message and "method" in message]
    talk.servers.noted.clear()
    token = request["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": 3}
    await talk.sent({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, at=1)
    await talk.until(lambda: "progress 3.0" in talk.servers.noted or "progress 3" in talk.servers.noted)
    await answer_sampling(talk, calling)


async def cancel(talk: Talk, calling: Answer) -> None:
    talk.servers.noted.clear()
    id = json.loads(calling.body)["id"]
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}
    assert (await talk.sent(body, at=1)).status == 202
    await talk.until(lambda: "cancelled" in talk.servers.noted)
    await calling.leave()


async def listening(talk: Talk) -> Answer:
    talk.opened()
    stream = talk.client.request("GET", at=1)
    await stream.until(lambda answer: answer.status == 200)
    return stream


async def subscribed(talk: Talk) -> Answer:
    stream = await listening(talk)
    assert await talk.ask("resources/subscribe", at=0, uri="data://one") == {}
    return stream


async def gets_changes(talk: Talk, stream: Answer) -> None:
    """The changes of both workers arrive, each once."""
    for at in (0, 1):
        await talk.client.servers[at].server.notify_tool_list_changed()
        talk.has_sent()
    await told(talk, stream, TOOLS, () if talk.rev.stateless else LISTS)


async def told(talk: Talk, stream: Answer, announced: str, lists: Iterable[str]) -> None:
    """The two changes that were announced arrive once, and after each loss what else may have been missed.

    On a slow machine, time is set forward while a worker still reads the store. It may then tell twice what may have
    been missed, which costs a client another look.
    """
    lost = talk.losses_since
    missed = Counter({method: lost for method in (*lists, announced) if lost})
    expected = Counter(missed)
    expected[announced] += 2
    for _ in range(20):
        if talk.passing is not None and lost and not told_of(stream) >= expected:
            await talk.passing.quiet(1.0)
            await asyncio.sleep(0.01)
    await within(stream.until(lambda _: told_of(stream) >= expected))
    await asyncio.sleep(0.05)
    assert expected <= told_of(stream) <= expected + missed, (told_of(stream), expected)
    await stream.leave()


def told_of(stream: Answer) -> Counter[str]:
    methods = [message["method"] for message in stream.json_messages if "method" in message]
    return Counter(method for method in methods if "acknowledged" not in method)


async def gets_updates(talk: Talk, stream: Answer) -> None:
    for at in (0, 1):
        await talk.client.servers[at].server.notify_resource_updated("data://one")
        talk.has_sent()
    await told(talk, stream, UPDATED, LISTS)
    uris = {message["params"]["uri"] for message in stream.json_messages if message.get("method") == UPDATED}
    assert uris == {"data://one"}


async def subscription(talk: Talk) -> Answer:
    talk.opened()
    body = talk.rev.request(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    stream = talk.client.request(body=body, at=1)
    await stream.messages(1)
    return stream


async def quiet_level(talk: Talk) -> None:
    assert await talk.ask("logging/setLevel", at=0, level="error") == {}


async def speaks_quietly(talk: Talk, _: None) -> None:
    talk.has_sent()
    speaking = talk.call("speak", at=1)
    await within(speaking.whole())
    assert [message["params"]["data"] for message in speaking.json_messages[:-1]] == ["a problem"]


async def both_workers_have_it(talk: Talk) -> Answer:
    assert (await talk.ask("tools/call", at=0, name="add", arguments={"a": 1, "b": 2}))["content"]
    return await listening(talk)


async def delete(talk: Talk, stream: Answer) -> None:
    assert (await talk.client.answered("DELETE", at=0)).status == 204
    is_lost = talk.on_sent is not None or talk.losses_since > 0
    talk.has_sent()
    await in_quiet(talk, within(stream.whole()))
    body = talk.rev.request(9, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    async with asyncio.timeout(WITHIN):
        while [(await in_quiet(talk, talk.sent(body, at))).status for at in (0, 1)] != [404, 404]:
            assert is_lost, "a session goes on that was deleted"  # Otherwise it was stored again, but not for long.
            await asyncio.sleep(0.01)


async def in_quiet(talk: Talk, waited: Awaitable[T]) -> T:
    """Return what comes. Workers wait up to five seconds for what others store again: let them pass."""
    waiting = asyncio.ensure_future(waited)
    for _ in range(12):
        if talk.passing is not None and not waiting.done():
            await talk.passing.quiet(0.5)
    return await waiting


async def task(talk: Talk, tool: str) -> str:
    id: str = (await talk.ask("tools/call", at=0, name=tool, arguments={}))["taskId"]
    return id


async def with_status(talk: Talk, id: str, status: str) -> Any:
    async with asyncio.timeout(WITHIN):
        while (seen := await talk.ask("tasks/get", at=1, taskId=id)).get("status") != status:
            assert "code" not in seen, seen
            await asyncio.sleep(0.01)
    return seen


async def task_that_asks(talk: Talk) -> str:
    id = await task(talk, "later")
    await with_status(talk, id, "input_required")
    return id


async def answer_task(talk: Talk, id: str) -> None:
    [key] = (await with_status(talk, id, "input_required"))["inputRequests"]
    responses = {key: {"action": "accept", "content": {"value": "blue"}}}
    await talk.ask("tasks/update", at=1, taskId=id, inputResponses=responses)
    talk.has_sent()
    assert (await with_status(talk, id, "completed"))["result"]["content"][0]["text"] == "accept"


async def cancel_task(talk: Talk, id: str) -> None:
    await talk.ask("tasks/cancel", at=1, taskId=id)
    talk.has_sent()
    await with_status(talk, id, "cancelled")


async def legacy_stream(talk: Talk) -> Answer:
    talk.client.session = None
    stream = talk.client.request("GET", at=0, path="/sse")
    await stream.until(lambda answer: answer.events)
    hello = {"protocolVersion": OLDEST.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    await legacy_post(talk, stream, OLDEST.request(0, "initialize", hello))
    await stream.until(lambda answer: len(answer.events) == 2)
    await legacy_post(talk, stream, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return stream


async def legacy_post(talk: Talk, stream: Answer, body: dict[str, Any]) -> None:
    path, _, query = stream.events[0].data.decode().partition("?")
    posted = await talk.client.answered(body=body, at=1, path=path, query_string=query.encode())
    assert posted.status == 202, posted.content
    talk.has_sent()


async def legacy_call(talk: Talk, stream: Answer) -> None:
    await legacy_post(talk, stream, OLDEST.request(5, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))

    def answers() -> list[Any]:  # The first event is an address, and there may be changes after a loss.
        messages = [json.loads(event.data) for event in stream.events[1:] if event.data]
        return [message for message in messages if message.get("id") == 5]

    await within(stream.until(lambda _: answers()))
    [answer] = answers()
    assert answer["result"]["content"][0]["text"] == "3"
    await stream.leave()


KINDS = (
    Kind("elicitation", NEWEST, lambda talk: asked(talk, "order"), answer_elicitation),
    Kind("sampling", NEWEST, lambda talk: asked(talk, "sample"), answer_sampling),
    Kind("roots", NEWEST, lambda talk: asked(talk, "roots"), answer_roots),
    Kind("progress of the client", NEWEST, lambda talk: asked(talk, "sample"), report_progress),
    Kind("cancellation", NEWEST, lambda talk: asked(talk, "wait"), cancel),
    Kind("list_changed", NEWEST, listening, gets_changes),
    Kind("updated", NEWEST, subscribed, gets_updates),
    Kind("subscriptions/listen", STATELESS_REV, subscription, gets_changes),
    Kind("log level", NEWEST, quiet_level, speaks_quietly, is_told=False),
    Kind("DELETE", NEWEST, both_workers_have_it, delete),
    Kind("input response of a task", STATELESS_REV, task_that_asks, answer_task, waits_for_reader=True),
    Kind("cancellation of a task", STATELESS_REV, lambda talk: task(talk, "long"), cancel_task),
    Kind("post of HTTP+SSE", OLDEST, legacy_stream, legacy_call, waits_for_reader=True),
)


async def open_session(client: Workers) -> None:
    """Open a session of a client that answers what servers ask."""
    rev = client.rev
    if rev.stateless:
        return
    hello = {"protocolVersion": rev.id, "capabilities": ASKS, "clientInfo": {"name": "raw", "version": "1"}}
    client.session = None
    opened = await client.answered(body=rev.request(0, "initialize", hello), at=0)
    client.session = opened.headers["mcp-session-id"]
    await client.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"}, at=1)
