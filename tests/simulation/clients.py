"""Clients that know what they were promised, and say so when it is not held."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from mcp_runtime.http.sse import ServerSentEvent
from simulation.world import Exchange, Process

if TYPE_CHECKING:
    from simulation.schedules import Simulation

REVISION = "2025-11-25"
BOTH = "application/json, text/event-stream"
CHANGED = "notifications/tools/list_changed"
AGAIN = 0.5  # Seconds after which a client tries again.


class Client:
    """One client with one session, which calls tools and listens."""

    def __init__(self, world: Simulation, name: str) -> None:
        self.world = world
        self.name = name
        self.session = ""
        self.is_gone = False  # True once the session was lost by a fault that may lose it.
        self.exchanges: list[Exchange] = []
        self.heard: Counter[str] = Counter()  # What the stream of the session has brought.
        self.asked: set[object] = set()  # The ids of requests of the server.
        self.seen: set[str] = set()  # The ids of events.
        self.may_have_missed = False
        self.open_calls: dict[str, float] = {}
        self._last = 0

    # ---- requests ----------------------------------------------------------------------------------------------------

    def exchange(self, method: str, body: Any = None, **headers: str) -> Exchange:
        """Send a request to any worker that lives, as a balancer does."""
        fields = {"host": "localhost", "accept": BOTH, "content-type": "application/json"}
        if self.session:
            fields |= {"mcp-session-id": self.session, "mcp-protocol-version": REVISION}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        process = self.world.chance.choice(self._living() or self.world.processes)
        exchange = Exchange(process, method, fields, b"" if body is None else json.dumps(body).encode())
        self.exchanges = [one for one in self.exchanges if not one.is_over] + [exchange]
        return exchange

    def _living(self) -> list[Process]:
        return [process for process in self.world.processes if process.is_alive]

    async def accepted(self, body: Any) -> Exchange:
        """Send a request without events until a worker has taken it: one that is cut is sent again."""
        while True:
            exchange = self.exchange("POST", body)
            await exchange.whole()
            if exchange.status in (200, 202):
                return exchange
            if not exchange.was_cut and exchange.status != 503:
                self.lost(exchange, f"a message was refused with {exchange.status} {exchange.content!r}")
                return exchange
            await asyncio.sleep(AGAIN)

    async def open(self) -> None:
        hello = {
            "protocolVersion": REVISION,
            "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": self.name, "version": "1"},
        }
        opened = await self.accepted({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.session = opened.headers["mcp-session-id"]
        await self.accepted({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def lost(self, exchange: Exchange, details: str) -> None:
        """A request was refused: only a worker that is killed when the store loses its past takes sessions along."""
        if exchange.status in (400, 404) and self.world.may_lose_sessions:
            self.is_gone = self.is_gone or exchange.status == 404
        else:
            self.world.violated("requests are accepted", f"{self.name}: {details}")

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def call(self, tool: str, **arguments: Any) -> None:
        """Call a tool, and check that there is one outcome."""
        self._last += 1
        id, token = self._last, f"{self.name}-{self._last}"
        params = {"name": tool, "arguments": {"call": token, **arguments}, "_meta": {"progressToken": token}}
        body = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        began = self.open_calls[token] = self.world.loop.now
        progress: list[int] = []
        outcome = await self._outcome(body, token, progress)
        del self.open_calls[token]
        self.world.note(f"{token} {tool} ends: {outcome}")
        if outcome is None:
            return  # Its connection was lost before there was an id: the client knows nothing.
        expected = f"{token} blue" if tool == "order" else token
        if "result" in outcome:
            text = outcome["result"]["content"][0]["text"]
            if text != expected:
                self.failed(token, began, f"its result is {text!r}")
            elif progress != list(range(1, arguments.get("steps", 0) + 1)):
                self.world.violated("streams resume without gap", f"{token} has the progress {progress}")
        else:
            self.failed(token, began, str(outcome["error"]))

    def failed(self, token: str, began: float, details: str) -> None:
        """A call fails only if a fault can have ended it."""
        if not self.world.has_faults_since(began):
            self.world.violated("calls succeed without faults", f"{token}: {details}")

    async def _outcome(self, body: Any, token: str, progress: list[int]) -> dict[str, Any] | None:
        exchange, last_event = self.exchange("POST", body), ""
        while True:
            while (event := await exchange.next()) is not None:
                last_event = self._last_id(event, last_event)
                if event.data and (answer := self._read(json.loads(event.data), body["id"], token, progress)):
                    return answer
            if exchange.status == 200 and exchange.content and exchange.headers["content-type"] == "application/json":
                answer = json.loads(exchange.content)
                if answer.get("id") == body["id"]:
                    return dict(answer)
            if exchange.status == 503:
                await asyncio.sleep(AGAIN)
                exchange = self.exchange("POST", body) if not last_event else self._resumed(last_event)
            elif exchange.status not in (0, 200):
                self.lost(exchange, f"{token} got {exchange.status} {exchange.content!r}")
                return None
            elif not last_event:
                if not exchange.was_cut:
                    self.world.violated("requests have an outcome", f"{token} ended with {exchange.content!r}")
                return None
            else:
                await asyncio.sleep(self.world.seconds(0.001, 5.0))
                exchange = self._resumed(last_event)

    def _resumed(self, last_event: str) -> Exchange:
        return self.exchange("GET", last_event_id=last_event)

    def _last_id(self, event: ServerSentEvent, before: str) -> str:
        if event.data and event.id in self.seen:
            self.world.violated("no message twice", f"{self.name} got the event {event.id} again")
        if event.data:
            self.seen.add(event.id)
        return event.id or before

    def _read(self, message: Any, id: object, token: str, progress: list[int]) -> dict[str, Any] | None:
        """Read a message on the stream of a call; return it if it is the answer."""
        params = message.get("params", {})
        if "method" not in message:
            if message["id"] != id:
                self.world.violated("none at another client", f"{token} got the answer to {message['id']}")
            return dict(message)
        if message["method"] == "notifications/progress":
            if params["progressToken"] != token:
                self.world.violated("none at another client", f"{token} got {params}")
            if int(params["progress"]) in progress:
                self.world.violated("no message twice", f"{token} got {params}")
            progress.append(int(params["progress"]))
        elif message["method"] == "elicitation/create":
            if params["message"] != token:
                self.world.violated("none at another client", f"{token} got {params}")
            if message["id"] in self.asked:
                self.world.violated("no message twice", f"{token} got {message}")
            self.asked.add(message["id"])
            answer = {"action": "accept", "content": {"value": "blue"}}
            self.world.start(self._answer({"jsonrpc": "2.0", "id": message["id"], "result": answer}))
        return None

    async def _answer(self, body: Any) -> None:
        await asyncio.sleep(self.world.seconds(0.001, 100.0))
        await self.accepted(body)

    # ---- the stream of the session -----------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Listen to the stream of the session, for ever."""
        last_event = ""
        while not self.is_gone:
            named = {"last_event_id": last_event} if last_event else {}
            exchange = self.exchange("GET", **named)
            while (event := await exchange.next()) is not None:
                last_event = event.id or last_event
                if event.data:
                    message = json.loads(event.data)
                    what = message["params"]["elicitationId"] if "elicitationId" in message.get("params", {}) else ""
                    self.heard[what or message["method"]] += 1
                    self.world.note(f"{self.name} hears {what or message['method']}")
            if exchange.was_cut and not last_event:
                self.may_have_missed = True  # What was on its way: it cannot say that it has got nothing.
            if exchange.status not in (0, 200, 503):
                self.lost(exchange, f"the stream of the session got {exchange.status} {exchange.content!r}")
            await asyncio.sleep(self.world.seconds(0.01, 2.0))
