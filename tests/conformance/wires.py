"""Conversations on the bare wire with a server of a revision: over stdio, HTTP, or the older HTTP with SSE.

All that the server says is judged by the official schema of the revision, where that is there.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from support.endpoints import Rev, hello
from support.installation.extras import optional
from support.project import OFFICIAL, official

from mcp_runtime.protocol.revision import Request

if TYPE_CHECKING:
    import httpx2
    import jsonschema
else:
    httpx2, jsonschema = optional("httpx2"), optional("jsonschema")

WAIT: Final = 15.0  # Seconds for one message; a ceiling.

Answers = dict[str, Callable[[Any], Any]]


class Wire:
    """One conversation. `answers` gives the result of what the server asks, by method; `told` is what it has told."""

    def __init__(self, rev: Rev, answers: Answers) -> None:
        self.rev = rev
        self.answers = answers
        self.notifications: list[Any] = []
        self._waiting: dict[Any, tuple[str, asyncio.Future[Any]]] = {}
        self._more = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: dict[Any, asyncio.Task[None]] = {}
        self._ids = 0

    async def post(self, data: Any) -> None:
        """Send a message, or a batch of them."""
        raise NotImplementedError

    async def send_request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request, or its error as `{"error": …}`."""
        request = self.request(method, params)
        waiting = self.expect(request)
        await self.post(request)
        return await self.answer(waiting)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._ids += 1
        return self.rev.request(self._ids, method, params)

    def expect(self, request: dict[str, Any]) -> asyncio.Future[Any]:
        """The answer to a request that is about to be sent."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[request["id"]] = request["method"], waiting
        return waiting

    async def answer(self, waiting: asyncio.Future[Any]) -> Any:
        message = await asyncio.wait_for(waiting, WAIT)
        return message["result"] if "result" in message else {"error": message["error"]}

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.post({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def give_up(self, request: dict[str, Any]) -> None:
        """Cancel a request."""
        await self.notify("notifications/cancelled", {"requestId": request["id"]})

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        return await self.send_request("tools/call", {"name": tool, "arguments": arguments})

    async def until(self, method: str) -> Any:
        """The params of the first notification of a method that was not waited for yet."""
        async with asyncio.timeout(WAIT), self._more:
            await self._more.wait_for(
                lambda: any(notification["method"] == method for notification in self.notifications)
            )
        notification = next(candidate for candidate in self.notifications if candidate["method"] == method)
        self.notifications.remove(notification)
        return notification.get("params", {})

    async def open(self, version: str, capabilities: dict[str, Any]) -> Any:
        """Shake hands; the server's answer."""
        request = hello(version, capabilities, id=0)
        waiting = self.expect(request)
        await self.post(request)
        answer = await self.answer(waiting)
        await self.notify("notifications/initialized")
        return answer

    def take(self, message: Any) -> None:
        """What the server says."""
        for item in message if isinstance(message, list) else [message]:
            if "method" not in item:
                method, waiting = self._waiting.get(item.get("id"), ("", None))
                judge(self.rev, item, method)
                assert waiting is not None, f"nobody asked for {item}"
                del self._waiting[item.get("id")]
                waiting.set_result(item)
                continue
            judge(self.rev, item)
            if "id" in item:
                result = self.answers[item["method"]](item.get("params"))
                self.start(self.post({"jsonrpc": "2.0", "id": item["id"], "result": result}))
            else:
                self.notifications.append(item)
                self.start(self._notify())

    async def _notify(self) -> None:
        async with self._more:
            self._more.notify_all()

    def start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What goes wrong in the background fails whoever waits."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            for _, waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(error)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Lines(Wire):
    """Over stdio."""

    process: asyncio.subprocess.Process

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.take(json.loads(line))

    async def post(self, data: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(data).encode() + b"\n")


class Posts(Wire):
    """Over HTTP, in a session if the revision has them."""

    http: httpx2.AsyncClient
    url: str
    session: str | None = None

    async def post(self, data: Any) -> None:
        task = self.start(self._post(data))
        if "id" in data:
            self._posts[data["id"]] = task

    async def give_up(self, request: dict[str, Any]) -> None:
        """Cancel a request: without a session, who asked leaves."""
        if self.rev.stateless:
            self._posts[request["id"]].cancel()
        else:
            await super().give_up(request)

    async def _post(self, data: Any) -> None:
        headers = {"accept": "application/json, text/event-stream"}
        if self.rev.stateless:
            first = data[0] if isinstance(data, list) else data
            params = first.get("params") or {}
            headers |= {"mcp-protocol-version": self.rev.id, "mcp-method": first["method"]}
            headers |= {"mcp-name": params[key] for key in ("name", "uri") if key in params}  # noqa: B035
        elif self.session is not None:
            headers |= {"mcp-session-id": self.session, "mcp-protocol-version": self.rev.id}
        async with self.http.stream("POST", self.url, json=data, headers=headers) as response:
            self.session = response.headers.get("mcp-session-id", self.session)
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                async for _, text in events(response):
                    self.take(json.loads(text))
            elif body := await response.aread():
                self.take(json.loads(body))
            assert response.status_code < 500, response.status_code

    async def open(self, version: str, capabilities: dict[str, Any]) -> Any:
        answer = await super().open(version, capabilities)
        self.start(self._listen())
        return answer

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Sends it before anything that comes after."""
        await self._post({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def _listen(self) -> None:
        headers = {"accept": "text/event-stream", "mcp-session-id": self.session or ""}
        async with self.http.stream(
            "GET", self.url, headers={**headers, "mcp-protocol-version": self.rev.id}
        ) as response:
            async for _, text in events(response):
                self.take(json.loads(text))


class LegacySSEWire(Wire):
    """Over HTTP with Server-Sent Events, as before: one stream, and an address to post to."""

    http: httpx2.AsyncClient
    url: str

    async def read(self, address: asyncio.Future[str]) -> None:
        async with self.http.stream("GET", self.url, headers={"accept": "text/event-stream"}) as response:
            async for kind, text in events(response):
                if kind == "endpoint":
                    address.set_result(urljoin(self.url, text))
                else:
                    self.take(json.loads(text))

    async def post(self, data: Any) -> None:
        response = await self.http.post(self.address, json=data)
        assert response.status_code == 202, response.status_code

    address: str


async def events(response: httpx2.Response) -> AsyncIterator[tuple[str, str]]:
    """The kind and the text of each event that has one."""
    kind, data = "message", ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        if line == "":
            if data:
                yield kind, data
            kind, data = "message", ""
        elif name == "data":
            data += value.removeprefix(" ")
        elif name == "event":
            kind = value.strip()


@asynccontextmanager
async def conversation(transport: str, rev: Rev, command: list[str], url: str, answers: Answers) -> AsyncIterator[Wire]:
    """A wire that is not open yet: to a server of its own over stdio, else to the one at the URL."""
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            wire = Lines(rev, answers)
            wire.process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdin=-1, stdout=-1, limit=2**20
            )
            stack.push_async_callback(_end, wire.process)
            wire.start(wire.read())
        else:
            http = await stack.enter_async_context(httpx2.AsyncClient(timeout=WAIT))
            wire = Posts(rev, answers) if transport == "http" else LegacySSEWire(rev, answers)
            wire.http = http
            wire.url = url
            if isinstance(wire, LegacySSEWire):
                address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                wire.start(wire.read(address))
                wire.address = await asyncio.wait_for(address, WAIT)
        try:
            yield wire
        finally:
            await wire.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), WAIT)
    except TimeoutError:
        process.kill()
        raise


# ---- the judge ------------------------------------------------------------------------------------------------------


def judge(rev: Rev, message: dict[str, Any], method: str = "") -> None:
    """Raise AssertionError for a message of a server that the official schema does not allow."""
    if not OFFICIAL.is_dir():
        return
    if "method" in message:
        name, value = ("ServerRequest" if "id" in message else "ServerNotification"), message
    elif "result" in message:
        row = rev.revision.table("client_to_server").get(method)
        name, value = (_answer(row, message["result"]) if isinstance(row, Request) else "Result"), message["result"]
    else:
        names = definitions(rev.id)
        name = next(candidate for candidate in ("JSONRPCErrorResponse", "JSONRPCError") if candidate in names)
        # The schemas do not say it, but JSON-RPC 2.0 does: where the id could not be read, it is null.
        value = message if message.get("id", 0) is not None else {**message, "id": 0}
    error = next(iter(validator(rev.id, name).iter_errors(value)), None)
    assert error is None, f"{name} of {rev.id}: {error.message}: {value}"


def _answer(row: Request[Any], result: Any) -> str:
    """The type that a result claims to be of."""
    if "task" in result and any(type_.__name__ == "CreateTaskResult" for type_ in row.result_types):
        return "CreateTaskResult"
    return "InputRequiredResult" if result.get("resultType") == "input_required" else row.result.__name__


def definitions(revision: str) -> dict[str, Any]:
    schema = official(revision)
    types: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    return types


@cache
def validator(revision: str, name: str) -> Any:
    schema = official(revision)
    key, draft = ("$defs", "Draft202012Validator") if "$defs" in schema else ("definitions", "Draft7Validator")
    return getattr(jsonschema, draft)({"$ref": f"#/{key}/{name}", key: schema[key]})


@cache
def served(command: tuple[str, ...], for_what: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server over HTTP that serves for as long as this process runs, and its origin."""
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE)
    assert process.stderr is not None
    output = b""
    for line in process.stderr:
        output += line
        if b"listening at " in line:
            url = line.decode().partition("listening at ")[2].strip()
            return process, url.removesuffix("/mcp")
    raise AssertionError(f"{command[0]} ended with {process.wait()}:\n{output.decode(errors='replace')[-4000:]}")
