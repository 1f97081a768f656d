"""Each kind of message between workers arrives after any pause, and after any loss of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.clock import MovableClock
from support.matrices import long_after
from support.stores.conversations import KINDS, Kind, Servers, Talk, open_session
from support.stores.homes import FEW_HOMES, place_of
from support.stores.passing import Passing
from support.stores.shared_workers import workers

from mcp_generated.http import HTTPLimits
from mcp_products.workers.sessions.mail import EPOCH_SECONDS
from mcp_products.workers.stores.retries import RetryingStore

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
FOREVER = 400 * DAY  # Longer than any pause here.
# Longer than each time to live that the store has for messages between workers: see test_times_to_live.py.
PAUSES = (11.0, 61.0, 75.0, 301.0, 601.0, 3601.0, DAY + 1, 7 * DAY + 1, 30 * DAY + 1, 31 * DAY)
QUIET = (75.0, 130.0)  # Those in which workers go on: each of their steps takes as long as any other.
LONG_QUIET = (301.0, 601.0, 3700.0)

pytestmark = pytest.mark.deadline(100 * FOREVER)  # It is on the clock that the tests set forward.
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture(params=FEW_HOMES)
def home(request: pytest.FixtureRequest) -> Any:
    return request.param


@asynccontextmanager
async def talking(
    kind: Kind, home: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Talk, Passing]]:
    """Two workers whose sessions do not expire, and a client."""
    clock = MovableClock(monkeypatch)
    passing = Passing(place_of(home, folder), clock)
    servers = Servers()
    limits = HTTPLimits(session_idle_timeout=FOREVER, handshake_timeout=FOREVER)
    settings: dict[str, Any] = {"legacy_sse": True} if kind.name == "post of HTTP+SSE" else {}
    async with workers(kind.rev, servers.make, passing.place, 2, limits=limits, **settings) as client:
        await open_session(client)
        talk = Talk(client, servers)
        talk.passing = passing
        yield talk, passing


async def conversed(talk: Talk, passing: Passing, kind: Kind, event: Any) -> None:
    """Begin a conversation, let something happen, and end it."""
    state = await begun(kind, talk, passing)
    await event()
    await kind.finish(talk, state)


@pytest.mark.parametrize("kind", long_after(4, [(kind,) for kind in KINDS]), ids=[kind.name for kind in KINDS])
async def test_a_message_arrives_after_a_pause_of_everything(
    kind: Kind, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has slept, longer than each time to live."""
    async with talking(kind, home, tmp_path, monkeypatch) as (talk, passing):
        for seconds in PAUSES:

            async def pause(seconds: float = seconds) -> None:
                passing.sleep(seconds)
                if seconds > EPOCH_SECONDS:
                    passing.losses += 1  # All that was stored has expired: nobody can tell what was announced.

            await conversed(talk, passing, kind, pause)


@pytest.mark.long
@each_kind
async def test_a_message_arrives_after_a_quiet_time(
    kind: Kind, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers go on meanwhile."""
    async with talking(kind, home, tmp_path, monkeypatch) as (talk, passing):
        for seconds in QUIET + (LONG_QUIET if home == "memory" else ()):

            async def pause(seconds: float = seconds) -> None:
                await passing.quiet(seconds)

            await conversed(talk, passing, kind, pause)


@each_kind
@pytest.mark.parametrize("loss", long_after(1, ["all", "the last"]))
async def test_a_message_arrives_after_a_loss(
    kind: Kind, loss: str, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The store was emptied, or is a replica that lags: what was open goes on, and each loss is one warning."""
    async with talking(kind, home, tmp_path, monkeypatch) as (talk, passing):
        for round in range(3):
            passing.keep()
            await passing.quiet(4.0)  # Both workers have shown a sign of life since.

            async def lose() -> None:
                passing.lose() if loss == "all" else passing.go_back()

            await conversed(talk, passing, kind, lose)
            await passing.quiet(4.0)
            count = 2 * (round + 1)  # One for each worker.
            await talk.until(partial(has_warned, caplog, count))
            await passing.turns()
            assert warnings_of(caplog) == ["mcp_runtime.workers.sessions.worker"] * count


@each_kind
async def test_a_message_arrives_with_a_loss_when_it_is_accepted(
    kind: Kind, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers hear of it at once: whether the message is read before the loss, is left to chance."""
    async with talking(kind, home, tmp_path, monkeypatch) as (talk, passing):
        for round in range(3):
            state = await begun(kind, talk, passing)
            talk.on_sent = passing.lose
            await kind.finish(talk, state)
            assert passing.losses == round + 1


class Post:
    """What workers tell one another over the store: hints, which can be lost, and messages that were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look on at all workers of this process."""
        self.loses_hints = False
        self.lost_hints = 0
        self.read: list[bytes] = []
        publish, read = RetryingStore.publish, RetryingStore.read

        async def publish_unless_lost(store: RetryingStore, channel: str, message: bytes) -> None:
            if self.loses_hints:
                self.lost_hints += 1
            else:
                await publish(store, channel, message)

        async def read_and_note(store: RetryingStore, stream: str, *arguments: Any) -> list[tuple[int, bytes]]:
            entries = await read(store, stream, *arguments)
            if ":mail:" in stream:
                self.read += (message for _, message in entries)
            return entries

        monkeypatch.setattr(RetryingStore, "publish", publish_unless_lost)
        monkeypatch.setattr(RetryingStore, "read", read_and_note)

    def lose_hints(self) -> None:
        """Lose hints from now on, and forget what was."""
        self.loses_hints = True
        self.lost_hints = 0
        self.read.clear()


@each_kind
async def test_a_message_arrives_that_is_lost_before_it_is_read(
    kind: Kind, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has been told that it was accepted; it is stored, no worker has heard of it, and time stands still."""
    post = Post(monkeypatch)
    async with talking(kind, home, tmp_path, monkeypatch) as (talk, passing):

        def lose_what_is_stored() -> None:
            if post.lost_hints or kind.waits_for_reader or not kind.is_told:
                assert kind.waits_for_reader or not post.read, post.read
                passing.lose()

        for round in range(3):
            state = await begun(kind, talk, passing)
            talk.on_sent = lose_what_is_stored
            post.lose_hints()
            finishing = asyncio.ensure_future(kind.finish(talk, state))
            while not finishing.done():
                if talk.on_sent is None and passing.losses == round:  # It was accepted a moment before it is stored.
                    lose_what_is_stored()
                if passing.losses > round or kind.waits_for_reader:
                    await passing.quiet(1.0)
                await asyncio.sleep(0.01)
            await finishing
            assert passing.losses == round + 1
            post.loses_hints = False


async def begun(kind: Kind, talk: Talk, passing: Passing) -> Any:
    if kind.name == "DELETE":
        await open_session(talk.client)
    state = await kind.begin(talk)
    await passing.turns()
    return state


def has_warned(caplog: pytest.LogCaptureFixture, count: int) -> bool:
    return len(warnings_of(caplog)) >= count


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The loggers that have said that the store has lost its past."""
    return [record.name for record in caplog.records if "has lost its past" in record.message]
