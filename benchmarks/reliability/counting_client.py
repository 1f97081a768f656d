"""A client with a session that counts what it gets: answers, events of its streams, and what is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2

from mcp_runtime.http.sse import SSEDecoder

VERSION = "2025-11-25"
ANNOUNCED = "notifications/tools/list_changed"
OTHER_LISTS = 2  # Of prompts and of resources.
TIMEOUT = 40.0  # Seconds for a call to be answered or to fail.
PAUSE = 0.05  # Seconds before a refused connection is tried again.
HEADERS = {"accept": "application/json, text/event-stream", "connection": "close"}
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}
HELLO = {"protocolVersion": VERSION, "capabilities": CAPABILITIES, "clientInfo": {"name": "c", "version": "1"}}
UNREACHABLE = "the store of this server cannot be reached"  # In the result of a tool that needs it.
Message = dict[str, Any]


class FailedCallError(Exception):
    """A call that has failed with a reason that the client was given."""


class UnclearFailureError(Exception):
    """A call that has failed without a reason: an HTTP error without a JSON-RPC error."""


@dataclass
class Findings:
    """What was counted, over all clients."""

    counts: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])
    notes: list[str] = field(default_factory=list[str])

    def add(self, problem: str, note: str) -> None:
        """Count a problem, with a note of what it was."""
        self.counts[problem] += 1
        if len(self.notes) < 40:
            self.notes.append(f"{problem}: {note}")


@dataclass
class Call:
    """One call: its request, and what has come on its stream."""

    token: str
    body: Message
    progress: list[str] = field(default_factory=list[str])
    elicited: list[str] = field(default_factory=list[str])
    last_event: str | None = None


class CountingClient:
    """A client with one session, a stream for messages that belong to no request, and one call at a time."""

    def __init__(self, url: str, number: int, random: Random, findings: Findings) -> None:
        """Create a client; `number` begins its tokens."""
        self.url = url
        self.name = f"client{number}"
        self._random = random
        self.findings = findings
        self.session: dict[str, str] = {}
        self.web = httpx2.AsyncClient(timeout=httpx2.Timeout(TIMEOUT, connect=5))
        self._last = 0
        self.answered = 0  # Calls.
        self.stored: set[str] = set()  # The tokens of messages that a worker has stored.
        self.received: Counter[str] = Counter()
        self.changes = 0
        self.told = 0  # Changes of other lists, which nothing announces: the server says so after a loss.
        self.announced = 0
        self.perhaps_announced = 0
        self.is_listening = asyncio.Event()

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the session."""
        opened = await self._post({"id": 0, "method": "initialize", "params": HELLO})
        self.session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": VERSION}
        await self._post({"method": "notifications/initialized"})

    async def _post(self, body: Message) -> httpx2.Response:
        return await self.web.post(self.url, json={"jsonrpc": "2.0", **body}, headers={**HEADERS, **self.session})

    async def call(self, tool: str, **arguments: Any) -> bool:
        """Call a tool; count how that ended. Return True if it was answered."""
        self._last += 1
        token = f"{self.name}-{self._last}"
        params = {"name": tool, "arguments": {"token": token, **arguments}, "_meta": {"progressToken": self._last}}
        call = Call(token, {"id": self._last, "method": "tools/call", "params": params})
        counts = self.findings.counts
        counts["calls"] += 1
        try:
            async with asyncio.timeout(TIMEOUT):
                text = await self._answer_of(call)
        except FailedCallError as error:
            self.findings.reasons[str(error)] += 1
            counts["calls that failed with a reason"] += 1
            return False
        except UnclearFailureError as error:
            self.findings.add("calls that failed without a reason", f"{tool}: {error}")
            return False
        except TimeoutError:
            self.findings.add("calls neither answered nor failed in time", f"{tool} {token} after {call.last_event}")
            return False
        finally:
            self._check_stream(call, tool)
        counts["calls that were answered"] += 1
        self.answered += 1
        if text != token:
            self.findings.add("answers to another call", f"{tool} {token}: {text}")
        if tool == "count" and len(call.progress) != arguments["steps"]:
            self.findings.add("events lost", f"{token}: {call.progress}")
        return True

    def _check_stream(self, call: Call, tool: str) -> None:
        expected = [f"{call.token}:{step}" for step in range(1, len(call.progress) + 1)]
        if call.progress != expected:
            foreign = any(not item.startswith(f"{call.token}:") for item in call.progress)
            doubled = len({*call.progress}) < len(call.progress)
            problem = "events delivered to another" if foreign else "events doubled" if doubled else "events lost"
            self.findings.add(problem, f"{call.token}: {call.progress}")
        if len({*call.elicited}) < len(call.elicited):
            self.findings.add("events doubled", f"{tool} {call.token}: {call.elicited}")

    async def _answer_of(self, call: Call) -> str:
        """Return the text of the result. Raises FailedCallError or UnclearFailureError."""
        body = {"jsonrpc": "2.0", **call.body}
        answer = await self._exchange("POST", call, json=body)
        while answer is None:
            if call.last_event is None:
                raise FailedCallError("the connection was lost before the first event")
            await asyncio.sleep(PAUSE)
            answer = await self._exchange("GET", call)
        if "error" in answer:
            raise FailedCallError(answer["error"]["message"])
        text: str = answer["result"]["content"][0]["text"]
        if answer["result"].get("isError"):
            raise (FailedCallError if UNREACHABLE in text else UnclearFailureError)(text)
        return text

    async def _exchange(self, method: str, call: Call, **more: Any) -> Message | None:
        """Send a request, and read its answer; None if the connection was lost before the response."""
        headers = {**HEADERS, **self.session}
        if method == "GET":
            headers |= {"last-event-id": call.last_event or "", "accept": "text/event-stream"}
        try:
            async with self.web.stream(method, self.url, headers=headers, **more) as answer:
                if answer.status_code != 200:
                    return await self._refused(method, answer)
                if answer.headers["content-type"] == "application/json":
                    body: Message = json.loads(await answer.aread())
                    return body
                return await self._read(answer, call)
        except httpx2.TransportError:
            return None

    async def _refused(self, method: str, answer: httpx2.Response) -> Message | None:
        text = (await answer.aread()).decode(errors="replace")
        if answer.status_code == 404:
            self.findings.add("sessions lost", text)
        if answer.status_code == 503 and method == "GET" and "retry-after" in answer.headers:
            await asyncio.sleep(float(answer.headers["retry-after"]))
            return None
        try:
            raise FailedCallError(json.loads(text)["error"]["message"])
        except (ValueError, KeyError):
            raise UnclearFailureError(f"{answer.status_code}: {text[:80]}") from None

    async def _read(self, answer: httpx2.Response, call: Call) -> Message | None:
        decoder = SSEDecoder()
        async for part in answer.aiter_bytes():
            for event in decoder.feed(part):
                call.last_event = event.id or call.last_event
                if not event.data:
                    continue
                message: Message = json.loads(event.data)
                if message.get("method") == "notifications/progress":
                    call.progress.append(message["params"]["message"])
                elif "method" in message:
                    call.elicited.append(message["id"])
                    await self._respond(message, call)
                elif message["id"] == call.body["id"]:
                    return message
                else:
                    self.findings.add("answers to another call", json.dumps(message))
        return None

    async def _respond(self, request: Message, call: Call) -> None:
        """Answer a request of the server, until a worker has the answer."""
        if request["params"].get("message") != call.token:
            self.findings.add("events delivered to another", json.dumps(request))
        body = {"id": request["id"], "result": {"action": "accept", "content": {"value": call.token}}}
        while True:
            try:
                if (await self._post(body)).status_code == 202:
                    return
            except httpx2.TransportError:
                pass
            await asyncio.sleep(PAUSE)

    # ---- the stream of the session -----------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Read the stream for messages that belong to no request, and connect again when the connection is lost."""
        last: str | None = None
        while True:
            headers = {**HEADERS, **self.session, "accept": "text/event-stream"}
            headers |= {"last-event-id": last} if last is not None else {}
            try:
                async with self.web.stream("GET", self.url, headers=headers) as answer:
                    if answer.status_code == 404:
                        self.findings.add("sessions lost", "GET")
                        return
                    decoder = SSEDecoder()
                    async for part in answer.aiter_bytes():
                        for event in decoder.feed(part):
                            last = event.id or last
                            self.is_listening.set()
                            if event.data:
                                self._take(json.loads(event.data))
            except httpx2.TransportError:
                pass
            await asyncio.sleep(PAUSE)

    def _take(self, message: Message) -> None:
        if message["method"] == ANNOUNCED:
            self.changes += 1
        elif message["method"].endswith("list_changed"):
            self.told += 1
        elif (token := str(message["params"].get("elicitationId"))).startswith(f"{self.name}-"):
            self.received[token] += 1
        else:
            self.findings.add("events delivered to another", json.dumps(message))

    # ---- load --------------------------------------------------------------------------------------------------------

    async def load(self, ended: asyncio.Event) -> None:
        """Call tools until the end."""
        while not ended.is_set():
            tool = self._random.choice(("echo", "count", "count", "order", "say", "announce"))
            arguments = {"steps": self._random.randint(1, 12)} if tool == "count" else {}
            self.perhaps_announced += tool == "announce"
            answered = await self.call(tool, **arguments)
            self.announced += tool == "announce" and answered
            await asyncio.sleep(self._random.random() * 0.02 if answered else PAUSE)

    async def completed(self, announced: int, until: float) -> None:
        """Wait until all has been heard that has to be heard, or until a time."""
        while not self._is_complete(announced) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    def _is_complete(self, announced: int) -> bool:
        return self.changes >= announced and all(self.received[token] for token in self.stored)

    def judge(self, announced: int, perhaps_announced: int, losses: int) -> None:
        """Count what of the session's own stream was lost or doubled, with a store that may have lost what it had."""
        for token in self.stored:
            if not self.received[token] and losses:
                self.findings.counts["events of sessions lost with the store"] += 1
            elif not self.received[token]:
                self.findings.add("events lost", f"say {token}")
        for token, times in self.received.items():
            self.findings.counts["events of sessions"] += times
            if times > 1:
                self.findings.add("events doubled", f"say {token}: {times}")
        self.findings.counts["changes"] += self.changes
        if self.changes < announced:
            self.findings.add("events lost", f"{self.name}: {announced - self.changes} changes")
        if self.changes > perhaps_announced + losses:  # After a loss, clients are told of all lists, once.
            self.findings.add("events doubled", f"{self.name}: {self.changes - perhaps_announced - losses} changes")
        if self.told > losses * OTHER_LISTS:
            self.findings.add("events doubled", f"{self.name}: {self.told} changes of other lists")
