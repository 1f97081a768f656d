"""Clients that know what they were promised, and say so when it is not held."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from mcp_runtime.http.sse import ServerSentEvent
from simulation.world import Exchange, Process

if TYPE_CHECKING:
    from simulation.schedules import Simulation

REVISION = "2025-11-25"
BOTH = "application/json, text/event-stream"
CHANGED = "notifications/tools/list_changed"
AGAIN = 0.5  # Seconds after which a client tries again.
SOON = 6.0  # Seconds in which an outcome comes, though its messages could not be stored before.
SLOW = 3.0  # Seconds after which a client mostly answers.
SLOWEST = 30.0  # And at most.
GIVEN = 0.2  # Seconds after the head of its answer in which a GET gets changes: what is sent before may have to wait.
WAITED = 1.5  # Seconds for which a request waits for a store that cannot be reached, at least.


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
        self.forgot_at: list[float] = []
        self.told_at: list[float] = []  # When the client was told of changes.
        self.away_until = 0.0
        self.last_event = ""  # The last one of the stream of the session.
        self._listening: Exchange | None = None
        self.open_calls: dict[str, float] = {}
        self._connections: dict[str, Exchange] = {}  # The last one of each call.
        self._last = 0

    # ---- requests ----------------------------------------------------------------------------------------------------

    def exchange(self, method: str, body: Any = None, **headers: str) -> Exchange:
        """Send a request to any worker that lives, as a balancer does."""
        fields = {"host": "localhost", "accept": BOTH, "content-type": "application/json"}
        if self.session:
            fields |= {"mcp-session-id": self.session, "mcp-protocol-version": REVISION}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        process = self.world.chance.choice(self._living() or self.world.processes)
        exchange = Exchange(process, method, fields, b"" if body is None else to_json(body))
        self.exchanges = [one for one in self.exchanges if not one.is_over] + [exchange]
        return exchange

    def _living(self) -> list[Process]:
        return [process for process in self.world.processes if process.is_alive]

    async def accepted(self, body: Any) -> Exchange:
        """Send a request without events until a worker has taken it: one that is cut is sent again."""
        while True:
            exchange = self.exchange("POST", body)
            await exchange.whole()
            self.refused(exchange)
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

    def lost(self, exchange: Exchange, details: str, since: float = math.inf) -> None:
        """A request was refused: only a worker that is killed when the store loses its past takes sessions along, and
        one that is killed since a call began may not have stored it."""
        may_be_lost = self.is_gone or (exchange.status in (400, 404) and self.world.may_lose_sessions)
        if exchange.status == 400 and (self.world.may_lose_newest or max(self.world.kills, default=0.0) > since):
            may_be_lost = True
        if not may_be_lost:
            self.world.violated("requests are accepted", f"{self.name}: {details}")
        self.is_gone = self.is_gone or exchange.status == 404

    def refused(self, exchange: Exchange) -> None:
        """A request is not refused before it has waited for the store."""
        if exchange.status == 503 and exchange.was_ready and exchange.seconds < WAITED:
            self.world.violated("requests wait for the store", f"{self.name} got 503 after {exchange.seconds:.3f} s")

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
        self._check_time(token)
        if outcome is None:
            return  # Its connection was lost before there was an id: the client knows nothing.
        expected = f"{token} blue" if tool == "order" else token
        if "result" in outcome:
            text = outcome["result"]["content"][0]["text"]
            if text != expected:
                self.failed(token, began, f"its result is {text!r}")
            elif progress != list(range(1, arguments.get("steps", 0) + 1)) and not self.world.may_lack_progress(token):
                self.world.violated("streams resume without gap", f"{token} has the progress {progress}")
        else:
            self.failed(token, began, str(outcome["error"]))

    def _check_time(self, token: str) -> None:
        """An outcome comes soon after the function has returned, and the store can be reached."""
        world, connection = self.world, self._connections.pop(token)
        since = max(world.returned.get(token, float("inf")), world.reachable_since, connection.began)
        if world.is_prompt and world.loop.now - since > SOON:
            world.violated("outcomes come soon", f"{token} came {world.loop.now - since:.3f} s later")

    def failed(self, token: str, began: float, details: str) -> None:
        """A call fails only if a fault can have ended it."""
        if not self.world.has_faults_since(began):
            self.world.violated("calls succeed without faults", f"{token}: {details}")

    async def _outcome(self, body: Any, token: str, progress: list[int]) -> dict[str, Any] | None:
        exchange, last_event = self.exchange("POST", body), ""
        self._connections[token] = exchange
        while True:
            while (event := await exchange.next()) is not None:
                last_event = self._last_id(event, last_event)
                if event.data and (answer := self._read(from_json(event.data), body["id"], token, progress)):
                    return answer
            if exchange.status == 200 and exchange.content and exchange.headers["content-type"] == "application/json":
                answer = from_json(exchange.content)
                if answer.get("id") == body["id"]:
                    return dict(answer)
            if exchange.status == 503:
                self.refused(exchange)
                await asyncio.sleep(AGAIN)
                again = self.exchange("POST", body) if not last_event else self._resumed(last_event)
                exchange = self._connections[token] = again
            elif exchange.status == 400 and self.world.may_be_forgotten(token):
                return None
            elif exchange.status not in (0, 200):
                details = f"{token} got {exchange.status} {exchange.content!r}"
                self.lost(exchange, details, self.open_calls[token])
                return None
            elif not last_event:
                if not exchange.was_cut:
                    self.world.violated("requests have an outcome", f"{token} ended with {exchange.content!r}")
                return None
            else:
                await asyncio.sleep(self.world.seconds(0.001, 5.0))
                exchange = self._connections[token] = self._resumed(last_event)

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
        slowest = SLOWEST if self.world.chance.random() < 0.2 else SLOW
        await asyncio.sleep(self.world.seconds(0.001, slowest))
        await self.accepted(body)

    # ---- the stream of the session -----------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Listen to the stream of the session, for ever."""
        while not self.is_gone:
            named = {"last_event_id": self.last_event} if self.last_event else {}
            exchange = self._listening = self.exchange("GET", **named)
            while (event := await exchange.next()) is not None:
                self.last_event = event.id or self.last_event
                if event.data:
                    self._hear(from_json(event.data))
            if exchange.was_cut and not self.last_event:
                self.may_have_missed = True  # What was on its way: it cannot say that it has got nothing.
            self.refused(exchange)
            if exchange.status not in (0, 200, 503):
                self.lost(exchange, f"the stream of the session got {exchange.status} {exchange.content!r}")
            await asyncio.sleep(max(self.world.seconds(0.01, 2.0), self.away_until - self.world.loop.now))

    def _hear(self, message: Any) -> None:
        what = message.get("params", {}).get("elicitationId", message["method"])
        self.heard[what] += 1
        if what == CHANGED:
            self.told_at.append(self.world.loop.now)
        self.world.note(f"{self.name} hears {what}")

    @property
    def is_heard(self) -> bool:
        """True if a worker has answered the last GET."""
        return self._listening is not None and self._listening.status == 200

    @property
    def listens_since(self) -> float:
        """When the worker gave changes to the last GET for sure; infinity if there is none."""
        return float("inf") if self._listening is None else self._listening.answered_at + GIVEN

    def leave(self, seconds: float) -> None:
        """End the stream of the session, and come back later."""
        self.away_until = self.world.loop.now + seconds
        if self._listening is not None:
            self._listening.cut()

    def forget(self) -> None:
        """End the stream of the session, and do not know any more where to go on."""
        self.last_event = ""
        self.may_have_missed = True
        self.forgot_at.append(self.world.loop.now)
        self.leave(0.0)
