"""A GET takes the stream of a session over, while the store is slow at any one point: all comes, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among, since
from support.http.asgi_client import Answer
from support.stores.held_store import HeldStores
from support.stores.homes import FEW_HOMES, place_of
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context
from mcp_generated.http import HTTPLimits, InMemoryStore

LISTENING = since("2025-03-26", HANDSHAKE)  # The revisions whose sessions have a GET.
POINTS = range(60)  # More than a GET or a delivery passes: the tests see to that.
ANNOUNCER = 2  # The worker that announces the last change of a session, and opens the next one.
LONG = 1000.0  # Seconds between two keep-alive comments, before which workers look again: not within a test.


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


class Talkers:
    """Servers whose tool leaves its context behind: the pings that are sent by it after the result go to the stream of
    the session."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []

    def make(self) -> App:
        app = App("talking")

        @app.tool
        async def meet(ctx: Context) -> str:
            self.contexts.append(ctx)
            return ""

        return app


class Conversation:
    """A session at three workers with slow stores: its streams, and what they have to have together."""

    def __init__(self, client: Workers, stores: HeldStores, talkers: Talkers) -> None:
        self.client = client
        self.stores = stores
        self._talkers = talkers
        self.answers: list[Answer] = []
        self.expected: Counter[str] = Counter()
        self._id = 0
        self._pings: list[asyncio.Task[Any]] = []

    async def begin(self) -> None:
        """Open another session, whose first stream at worker 0 has had a message and a change."""
        self.client.session = None
        await self.client.open(at=ANNOUNCER)  # Another worker may not have read yet what was announced before.
        self.answers = []
        self.expected = Counter()
        await self.listen(at=0)
        await self.announce(at=1)
        await self.complete()
        for store in self.stores:
            await store.idle()

    async def listen(self, at: int, headers: dict[str, str | None] | None = None) -> Answer:
        """Open a stream at a worker."""
        answer = self.start(at, headers)
        await answer.until(lambda started: started.status == 200)
        return answer

    def start(self, at: int, headers: dict[str, str | None] | None = None) -> Answer:
        self.answers.append(self.client.request("GET", at=at, headers=headers))
        return self.answers[-1]

    async def announce(self, at: int) -> None:
        """Send a message of the session, and a change, through a worker."""
        self._id += 1
        await self.client.answered(body=self.client.rev.request(self._id, "tools/call", {"name": "meet"}), at=at)
        self._pings.append(asyncio.create_task(self._talkers.contexts.pop().session.send_ping()))
        await self.client.servers[at].server.notify_tool_list_changed()
        self.expected.update(["ping", "list_changed"])

    async def complete(self) -> None:
        """Wait until the streams have what they have to have, and compare."""
        async with asyncio.timeout(10):
            while sum(received(self.answers).values()) < sum(self.expected.values()):
                counts = [len(answer.events) for answer in self.answers]
                await first_of(*map(grown, self.answers, counts))
        assert received(self.answers) == self.expected

    async def end(self) -> None:
        """End all streams; nothing may have come twice."""
        await self.announce(at=ANNOUNCER)
        await self.complete()
        for answer in self.answers:
            await answer.leave()
        for ping in self._pings:
            ping.cancel()
        await asyncio.wait(self._pings)
        self._pings.clear()
        assert received(self.answers) == self.expected


async def grown(answer: Answer, count: int) -> None:
    await answer.until(lambda answer: len(answer.events) > count or answer.task.done())
    if len(answer.events) == count:
        await asyncio.Event().wait()  # It has ended: the others have the rest.


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Wait for one of several things."""
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def received(answers: list[Answer]) -> Counter[str]:
    messages = [message for answer in answers for message in answer.json_messages]
    pings = [message["id"] for message in messages if message["method"] == "ping"]
    assert len({*pings}) == len(pings)
    return Counter(message["method"].rpartition("/")[2] for message in messages)


@asynccontextmanager
async def conversation(rev: Rev, place: Any) -> AsyncIterator[Conversation]:
    stores, talkers = HeldStores(), Talkers()
    async with workers(rev, talkers.make, place, opened=stores.open, limits=HTTPLimits(keep_alive=LONG)) as client:
        yield Conversation(client, stores, talkers)


@among(LISTENING)
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
@pytest.mark.parametrize("at", [0, 1], ids=["same worker", "other worker"])
async def test_the_store_is_slow_for_the_stream_that_takes_over(rev: Rev, place: Any, at: int, leaves: bool) -> None:
    async with conversation(rev, place) as talk:
        for point in POINTS:
            await talk.begin()
            store = talk.stores[at]
            store.hold(point)
            second = talk.start(at)
            await first_of(store.reached.wait(), second.until(lambda answer: answer.status == 200))
            if leaves:
                await talk.answers[0].leave()
            await talk.announce(at=2)
            is_held = store.reached.is_set()
            store.go.set()
            await talk.complete()
            await talk.end()
            if not is_held:
                break
        assert 8 < point < POINTS[-1]


@among(LISTENING)
@pytest.mark.parametrize("ending", ["stays", "resumes"])
@pytest.mark.parametrize("at", [0, 1], ids=["same worker", "other worker"])
async def test_the_store_is_slow_for_the_stream_that_is_replaced(rev: Rev, place: Any, at: int, ending: str) -> None:
    await replace_while_the_store_is_slow(rev, place, at, ending)


@among(LISTENING)
@pytest.mark.parametrize("at", [0, 1], ids=["same worker", "other worker"])
async def test_what_was_not_sent_to_a_client_that_is_gone_comes_with_its_next_stream(rev: Rev, at: int) -> None:
    await replace_while_the_store_is_slow(rev, InMemoryStore(), at, "leaves")


async def replace_while_the_store_is_slow(rev: Rev, place: Any, at: int, ending: str) -> None:
    """Replace a stream whose delivery is held: its client stays, resumes it with an id, or leaves before."""
    async with conversation(rev, place) as talk:
        for point in POINTS:
            await talk.begin()
            [first], store = talk.answers, talk.stores[0]
            store.hold(point)
            announcing = asyncio.create_task(talk.announce(at=2))
            await first_of(store.reached.wait(), announced(talk, announcing))
            is_held = store.reached.is_set()
            leaving = None if ending == "stays" else asyncio.create_task(first.leave())
            if leaving is not None:
                await turns()
            if ending == "leaves" or not is_held:
                store.go.set()
            if ending == "leaves":
                await first.whole()
            await talk.listen(at, {"last-event-id": first.events[-1].id} if ending == "resumes" else None)
            store.go.set()
            await announcing
            await talk.complete()
            await talk.end()
            if not is_held:
                break
        assert 3 < point < POINTS[-1]


async def announced(talk: Conversation, announcing: asyncio.Task[None]) -> None:
    await asyncio.shield(announcing)
    await talk.complete()


async def turns(number: int = 5) -> None:
    """Let others go on. An application waits for the end of a client in a task, whose end has a callback."""
    for _ in range(number):
        await asyncio.sleep(0)


async def served(answer: Answer, posting: asyncio.Task[None]) -> None:
    await asyncio.shield(posting)
    await answer.until(lambda started: started.status == 200)


@among(LISTENING[-1:])
async def test_two_first_requests_at_a_worker_leave_one_stream(rev: Rev, place: Any) -> None:
    async with conversation(rev, place) as talk:
        for point in POINTS:
            await talk.begin()
            store = talk.stores[1]
            store.hold(point)
            second = talk.start(at=1)
            posting = asyncio.create_task(talk.announce(at=1))
            await first_of(store.reached.wait(), served(second, posting))
            await turns(100)  # The request that is not held goes on.
            is_held = store.reached.is_set()
            store.go.set()
            await served(second, posting)
            await talk.announce(at=2)
            await talk.complete()
            await talk.end()
            if not is_held:
                break
        assert 8 < point < POINTS[-1]
