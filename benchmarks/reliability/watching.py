"""Clients of soak.py that hear of changes, and count what is lost or doubled of what they have to hear."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any, Final

import httpx2

from mcp_runtime.http.sse import SSEDecoder

ACCEPT: Final = "application/json, text/event-stream"
SESSIONS, STATELESS = "2025-11-25", "2026-07-28"
PREFIX: Final = "io.modelcontextprotocol/"
CLIENT: Final = {"name": "watcher", "version": "1"}
TASKS: Final = {"extensions": {f"{PREFIX}tasks": {}}}
PROBLEMS: Final = (
    "changes lost",
    "changes doubled",
    "progress lost or doubled",
    "tasks without an end",
    "ends doubled",
)
AGAIN: Final = 0.05  # Seconds before a stream is opened again.
LATE: Final = 20.0  # Seconds for what was announced to arrive.
TWICE: Final = 1.0  # Seconds in which what is doubled would come again.
STEPS: Final = 5


class Watcher:
    """A client of one revision: with a session and its stream, or with `subscriptions/listen`."""

    def __init__(self, url: str, number: int, counts: Counter[str]) -> None:
        """Create a client; those with an odd number have sessions."""
        self.url = url
        self.uri = f"note://{number}"
        self.has_session = bool(number % 2)
        self.heard = Counter[str]()  # By the method, or the resource.
        self.counts = counts
        self.listens = asyncio.Event()
        self._web = httpx2.AsyncClient(timeout=httpx2.Timeout(60, connect=5), headers={"connection": "close"})
        self._session: dict[str, str] = {}
        self._last = 0

    async def open(self) -> None:
        """Open the session, if there is one, and subscribe to a resource."""
        if self.has_session:
            hello = {"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": CLIENT}
            opened = await self._web.post(self.url, **self._sent("initialize", hello))
            self._session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": SESSIONS}
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._web.post(self.url, json=initialized, headers={"accept": ACCEPT, **self._session})
            await self.call("resources/subscribe", uri=self.uri)

    def _sent(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the body and the headers of a request."""
        headers = {"accept": ACCEPT, **self._session}
        if not self.has_session:
            meta = {"protocolVersion": STATELESS, "clientInfo": CLIENT, "clientCapabilities": TASKS}
            own = {f"{PREFIX}{name}": value for name, value in meta.items()}
            params = {**params, "_meta": {**own, **params.get("_meta", {})}}
            named = str(params.get("name", params.get("taskId")))
            headers |= {"mcp-protocol-version": STATELESS, "mcp-method": method, "mcp-name": named}
        self._last += 1
        return {"json": {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}, "headers": headers}

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the response to a request, after the notifications that belong to it. Raises OSError without one."""
        answer = await self._web.post(self.url, **self._sent(method, params))
        if answer.headers.get("content-type") != "text/event-stream":
            return answer.json() | {"notifications": []}  # type: ignore[no-any-return]
        messages = [json.loads(event.data) for event in SSEDecoder().feed(answer.content) if event.data]
        response: dict[str, Any] = messages[-1]
        return response | {"notifications": messages[:-1]}

    async def tool(self, name: str, **arguments: Any) -> bool:
        """Call a tool; return whether it was answered with a result."""
        with suppress(httpx2.TransportError, ValueError):
            answer = await self.call("tools/call", name=name, arguments={"token": name, **arguments})
            return "result" in answer and not answer["result"].get("isError")
        return False

    # ---- what is heard -----------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Read the stream of changes, and open it again when it ends."""
        last: str | None = None
        while True:
            opened = self._opening(last)
            with suppress(httpx2.TransportError):
                async with self._web.stream(**opened, url=self.url) as answer:
                    decoder = SSEDecoder()
                    async for part in answer.aiter_bytes():
                        for event in decoder.feed(part):
                            last = event.id or last
                            self.listens.set()
                            self._hear(json.loads(event.data) if event.data else {})
            self.counts["streams of changes that were opened again"] += 1
            await asyncio.sleep(AGAIN)

    def _opening(self, last: str | None) -> dict[str, Any]:
        if self.has_session:
            headers = {**self._session, "accept": "text/event-stream"}
            return {"method": "GET", "headers": headers | ({} if last is None else {"last-event-id": last})}
        wanted = {"toolsListChanged": True, "resourceSubscriptions": [self.uri]}
        return {"method": "POST", **self._sent("subscriptions/listen", {"notifications": wanted})}

    def _hear(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self.heard[params.get("uri", method)] += 1

    # ---- what belongs to one request ---------------------------------------------------------------------------------

    async def follow_progress(self) -> None:
        """Make a call that reports progress, and count it if that is not all there, once and in order."""
        params = {"name": "count", "arguments": {"token": "p", "steps": STEPS}, "_meta": {"progressToken": self._last}}
        try:
            answer = await self.call("tools/call", **params)
        except (httpx2.TransportError, ValueError):
            return
        if "result" in answer:
            self.counts["calls with progress"] += 1
            seen = [item["params"]["progress"] for item in answer["notifications"]]
            self.counts["progress lost or doubled"] += seen != list(range(1, STEPS + 1))

    async def follow_task(self) -> None:
        """Begin a task, and hear of its end by `subscriptions/listen`."""
        try:
            begun = await self.call("tools/call", name="work", arguments={"token": "t"})
            task = begun["result"]["taskId"]
        except (httpx2.TransportError, ValueError, KeyError):
            return
        self.counts["tasks"] += 1
        ends = list[str]()
        with suppress(TimeoutError, httpx2.TransportError):
            async with asyncio.timeout(LATE) as limit:
                await self._hear_of(task, ends, limit)
        is_known = await self._is_completed(task)
        self.counts["tasks without an end"] += is_known and not ends
        self.counts["ends doubled"] += len(ends) > 1
        self.counts["tasks that were lost with the store"] += not is_known

    async def _is_completed(self, task: str) -> bool:
        """Return True if the server knows a task, and that it has ended; asked until there is an answer."""
        while True:
            with suppress(httpx2.TransportError, ValueError):
                answer = await self.call("tasks/get", taskId=task)
                return bool(answer.get("result", {}).get("status") == "completed")
            await asyncio.sleep(AGAIN)

    async def _hear_of(self, task: str, ends: list[str], limit: asyncio.Timeout) -> None:
        """Read what comes of a task, for a moment longer than its end."""
        sent = self._sent("subscriptions/listen", {"notifications": {"taskIds": [task]}})
        async with self._web.stream("POST", self.url, **sent) as answer:
            decoder = SSEDecoder()
            async for part in answer.aiter_bytes():
                for event in decoder.feed(part):
                    message = json.loads(event.data) if event.data else {}
                    if message.get("params", {}).get("status") == "completed":
                        ends.append(task)
                        limit.reschedule(asyncio.get_running_loop().time() + TWICE)

    async def close(self) -> None:
        """End the connections."""
        await self._web.aclose()


class Watch:
    """Some watchers, and what was announced to them."""

    def __init__(self, url: str, number: int, random: Random, counts: Counter[str]) -> None:
        """Create so many watchers."""
        self.watchers = [Watcher(url, index, counts) for index in range(number)]
        self.announcer = Watcher(url, 0, counts)
        self.counts = counts
        self.random = random
        self.announced = Counter[str]()
        self.perhaps = Counter[str]()
        self._listening: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Let all listen."""
        for watcher in self.watchers:
            await watcher.open()
            self._listening.append(asyncio.create_task(watcher.listen()))
            await watcher.listens.wait()

    async def tell(self, ended: asyncio.Event) -> None:
        """Announce changes, and make calls with progress and tasks, until the end."""
        while not ended.is_set():
            watcher = self.random.choice(self.watchers)
            stateless = self.random.choice([one for one in self.watchers if not one.has_session])
            await self._announce("announce", "notifications/tools/list_changed")
            await self._announce("touch", watcher.uri, uri=watcher.uri)
            await asyncio.gather(watcher.follow_progress(), stateless.follow_task())

    async def _announce(self, tool: str, what: str, **arguments: Any) -> None:
        is_told = await self.announcer.tool(tool, **arguments)
        self.announced[what] += is_told
        self.perhaps[what] += 1

    async def judge(self, losses: int) -> None:
        """Wait for what has to arrive, and count what was lost or doubled: after a loss of the store, and after a sleep
        that looks like one, clients are told once of all that they may have missed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LATE):
                while any(self._missing(watcher) for watcher in self.watchers):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        await asyncio.sleep(TWICE)
        for watcher in self.watchers:
            self.counts["changes lost"] += self._missing(watcher)
            for what in self._due(watcher):
                self.counts["changes"] += watcher.heard[what]
                self.counts["changes doubled"] += max(watcher.heard[what] - self.perhaps[what] - losses, 0)

    def _due(self, watcher: Watcher) -> tuple[str, str]:
        return "notifications/tools/list_changed", watcher.uri

    def _missing(self, watcher: Watcher) -> int:
        return sum(max(self.announced[what] - watcher.heard[what], 0) for what in self._due(watcher))

    async def end(self) -> None:
        """Listen no more."""
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        for watcher in (*self.watchers, self.announcer):
            await watcher.close()
