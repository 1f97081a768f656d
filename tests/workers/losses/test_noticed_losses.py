"""What a worker says of a loss, what it makes ready again, and what ends with its reason."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
from support.clock import MovableClock, settle
from support.http.asgi_client import Answer
from support.stores.conversations import NEWEST, Servers, Talk, asked, listening, open_session, within
from support.stores.held_store import HeldStore
from support.stores.homes import FEW_HOMES, place_of
from support.stores.passing import Passing
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context
from mcp_generated.http import HTTPLimits, StoreUnavailableError
from mcp_products.workers.sessions.changes import ChangeLog
from mcp_products.workers.sessions.worker import Worker
from mcp_products.workers.stores.memory import InMemoryStore
from mcp_runtime.stores import ANYTHING, Expected

pytestmark = pytest.mark.deadline(10**9)  # It is on the clock that the tests set forward.


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


class Steps:
    """Servers with a call that reports progress, waits, and ends."""

    def __init__(self) -> None:
        self.next = asyncio.Event()
        self.go = asyncio.Event()
        self.last = asyncio.Event()

    def make(self) -> App:
        app = App("steps")

        @app.tool
        async def count(ctx: Context) -> str:
            await ctx.report_progress(1)
            await ctx.report_progress(2)
            await self.go.wait()
            return "done"

        @app.tool
        async def pace(ctx: Context) -> str:
            for number, event in enumerate((self.next, self.go, self.last), 1):
                await ctx.report_progress(number)
                await event.wait()
            return "done"

        return app


def call(id: int, name: str = "count") -> dict[str, Any]:
    return NEWEST.request(id, "tools/call", {"name": name, "_meta": {"progressToken": f"t{id}"}})


def last_id(answer: Answer) -> dict[str, str | None]:
    return {"last-event-id": answer.events[-1].id}


async def probe(client: Workers, at: int) -> int:
    return (await client.answered("GET", path="/readyz", at=at)).status


async def test_a_worker_is_ready_again_when_it_has_stored_what_it_knows(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = Passing(place, MovableClock(monkeypatch))
    async with workers(NEWEST, Steps().make, place, 2, ready_path="/readyz") as client:
        assert [await probe(client, at) for at in (0, 1)] == [200, 200]

        async def fail() -> None:
            raise StoreUnavailableError("nothing is stored again yet")

        for application in client.applications:
            application._shared.worker.on_loss(fail)
        passing.lose()
        await passing.turns()  # A deleted file is seen within 20 ms.
        assert [await probe(client, at) for at in (0, 1)] == [503, 503], "a probe looks itself"
        await passing.quiet(4.0)
        assert [await probe(client, at) for at in (0, 1)] == [503, 503]
        for application in client.applications:
            application._shared.worker._restorers.remove(fail)
        async with asyncio.timeout(10):  # An attempt that has begun before still fails.
            while [await probe(client, at) for at in (0, 1)] != [200, 200]:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("ending", ["attached", "left"])
async def test_a_call_whose_messages_are_lost_ends_with_the_reason(
    ending: str, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has got everything goes on; one that is away learns that messages are lost."""
    passing, server = Passing(place, MovableClock(monkeypatch)), Steps()
    async with workers(NEWEST, server.make, place, 2) as client:
        answer = client.request(body=call(7), at=0)
        await answer.messages(2)
        if ending == "left":
            await answer.leave()
        passing.lose()
        await passing.quiet(4.0)
        server.go.set()
        if ending == "left":
            answer = client.request("GET", at=1, headers=last_id(answer))
        await within(answer.whole())
        last = answer.json_messages[-1]
        assert last["id"] == 7
        if ending == "left":
            assert "the store of this server has lost messages of this call" in last["error"]["message"]
        else:
            assert last["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("ending", ["attached", "left", "resumed before"])
async def test_a_message_that_is_lost_before_the_next_one_ends_a_call_unless_its_client_has_it(
    ending: str, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has lost a message in the middle: the worker has written another one before it notices."""
    passing, server = Passing(place, MovableClock(monkeypatch)), Steps()
    async with workers(NEWEST, server.make, place, 2) as client:
        answer = client.request(body=call(7, "pace"), at=0)
        await answer.messages(1)
        passing.keep()
        server.next.set()
        await answer.messages(2)
        before = {"last-event-id": answer.events[-2].id}
        await passing.quiet(4.0)  # Workers show that they run, which the store loses as well.
        if ending != "attached":
            await answer.leave()
        passing.go_back()
        server.go.set()
        await passing.turns()
        if ending == "attached":
            await answer.messages(3)
        elif ending == "resumed before":
            answer = client.request("GET", at=1, headers=before)
            await answer.until(lambda started: started.status == 200)
        await passing.quiet(4.0)
        server.last.set()
        if ending == "left":
            answer = client.request("GET", at=1, headers=before)
        await within(answer.whole())
        last = answer.json_messages[-1]
        assert last["id"] == 7
        if ending == "attached":
            assert last["result"]["content"][0]["text"] == "done"
            assert [message["params"]["progress"] for message in answer.json_messages[:-1]] == [1, 2, 3]
        else:
            assert "the store of this server has lost messages of this call" in last["error"]["message"]


async def test_a_resumed_call_whose_end_is_lost_ends_with_the_reason(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has an older state of the stream, and the worker that wrote it has finished it."""
    passing, server = Passing(place, MovableClock(monkeypatch)), Steps()
    async with workers(NEWEST, server.make, place, 2) as client:
        answer = client.request(body=call(7), at=0)
        await answer.messages(2)
        passing.keep()
        await passing.quiet(4.0)
        server.go.set()
        await answer.whole()
        assert "result" in answer.json_messages[-1]
        passing.go_back()
        resumed = client.request("GET", at=1, headers={"last-event-id": answer.events[1].id})
        await resumed.until(lambda started: started.status == 200)
        await passing.quiet(25.0)
        await within(resumed.whole())
        [error] = [message for message in resumed.json_messages if "id" in message]
        assert (
            error["id"] == 7 and "the store of this server has lost the end of this call" in error["error"]["message"]
        )


async def test_a_resumed_stream_of_a_lost_store_does_not_wait_for_ever(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing, server = Passing(place, MovableClock(monkeypatch)), Steps()
    async with workers(NEWEST, server.make, place, 2) as client:
        answer = client.request(body=call(7), at=0)
        await answer.messages(2)
        await answer.leave()
        resumed = client.request("GET", at=1, headers=last_id(answer))
        await resumed.until(lambda started: started.status == 200)
        await passing.turns()
        passing.lose()
        await passing.quiet(25.0)
        await within(resumed.whole())
        assert [message["id"] for message in resumed.json_messages] == [7]
        assert "has lost messages of this call" in resumed.json_messages[0]["error"]["message"]


async def test_a_call_of_a_session_that_has_expired_ends_with_the_reason(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has slept for longer than sessions live; the client gets 404 for its answer."""
    passing, servers = Passing(place, MovableClock(monkeypatch)), Servers()
    limits = HTTPLimits(session_idle_timeout=1800.0)
    async with workers(NEWEST, servers.make, place, 2, limits=limits) as client:
        await open_session(client)
        talk = Talk(client, servers)
        calling = await asked(talk, "order")
        passing.sleep(1801.0)
        [request] = [message for message in calling.json_messages if "id" in message]
        body = {"jsonrpc": "2.0", "id": request["id"], "result": {"action": "decline"}}
        assert {(await talk.sent(body, at)).status for at in (1, 0)} == {404}
        await within(calling.whole())
        assert "the session has expired" in calling.json_messages[-1]["error"]["message"]


async def test_a_call_that_takes_longer_than_sessions_live_can_be_resumed(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing, server = Passing(place, MovableClock(monkeypatch)), Steps()
    limits = HTTPLimits(session_idle_timeout=100.0)
    async with workers(NEWEST, server.make, place, 2, limits=limits) as client:
        answer = client.request(body=call(7), at=0)
        await answer.messages(2)
        await answer.leave()
        await passing.quiet(150.0)
        resumed = client.request("GET", at=1, headers=last_id(answer))
        await resumed.until(lambda started: started.status == 200)
        server.go.set()
        await passing.quiet(20.0)
        await within(resumed.whole())
        assert resumed.json_messages[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("seconds", [6.0, 15.0])
async def test_a_session_goes_on_though_the_machine_sleeps_just_after_a_loss(
    place: Any, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that is asked has seen the loss, and the one that has the session has not stored it again yet."""
    passing = Passing(place, MovableClock(monkeypatch))
    async with workers(NEWEST, Steps().make, place, 2) as client:
        hello = {"protocolVersion": NEWEST.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        client.session = None
        opened = await client.answered(body=NEWEST.request(0, "initialize", hello), at=0)
        client.session = opened.headers["mcp-session-id"]
        await client.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"}, at=0)
        await passing.turns()
        owner, goes_on = client.applications[0]._shared.worker, asyncio.Event()
        look = owner.look

        async def look_late() -> bool:
            await goes_on.wait()
            return bool(await look())

        with monkeypatch.context() as late:
            late.setattr(owner, "look", look_late)
            passing.lose()
            if "sqlite" in str(place):
                await passing.turns()  # The deleted file is seen within 20 ms.
            await client.applications[1]._shared.worker.look()
            passing.sleep(seconds)
            asking = asyncio.ensure_future(client.answered(body=NEWEST.request(5, "tools/list", {}), at=1))
            await passing.turns()
            goes_on.set()
            answer = await within(asking)
        assert answer.status == 200, answer.content


async def test_keys_that_are_in_use_are_stored_again(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    passing = Passing(place, MovableClock(monkeypatch))
    async with workers(NEWEST, Steps().make, place, 2) as client:
        key = client.applications[0]._shared.worker.key("keys")
        store = client.applications[0]._shared.worker.store
        before = await store.get(key)
        passing.lose()
        await passing.quiet(4.0)
        assert await store.get(key) == before is not None


async def test_a_file_of_sqlite_that_was_deleted_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = place_of("sqlite", tmp_path)
    passing = Passing(place, MovableClock(monkeypatch))
    async with workers(NEWEST, Steps().make, place, 2, ready_path="/readyz") as client:
        stream = await listening(Talk(client, Servers()))
        passing.lose()
        while not (tmp_path / "store.db").exists():
            await passing.quiet(1.0)
        await passing.quiet(4.0)
        assert [await probe(client, at) for at in (0, 1)] == [200, 200]
        await client.servers[0].server.notify_tool_list_changed()
        await stream.messages(1)
        await stream.leave()
    said = [record.message for record in caplog.records if "was deleted or replaced" in record.message]
    assert len(said) == 2 and all(str(tmp_path / "store.db") in text for text in said), "one for each worker"


async def test_a_loss_is_noticed_though_the_request_that_has_seen_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At any command of the store, before it is run and before its answer is there."""
    clock = MovableClock(monkeypatch)
    for point in range(40):
        held = HeldStore(InMemoryStore())
        passing = Passing(held.store, clock)
        worker = Worker(held, "test")
        restored: list[int] = []

        async def restore(restored: list[int] = restored, point: int = point) -> None:
            restored.append(point)

        worker.on_loss(restore)
        await worker.look()
        passing.lose()
        held.hold(point)
        looking = asyncio.ensure_future(worker.look())
        await settle(20)
        is_over = looking.done()
        looking.cancel()
        held.go.set()
        await settle(20)
        await worker.look()
        assert restored and worker.is_restored, point
        await worker.close()
        if is_over:
            break
    assert 5 < point < 39


async def test_a_store_that_goes_back_in_the_middle_of_a_look_is_noticed() -> None:
    """At any command of the store, before it is run and before its answer is there."""
    for point in range(20):
        store = InMemoryStore()
        held = HeldStore(store)
        worker = Worker(held, "test")
        await worker.look()
        older = copy.deepcopy(vars(store))
        await worker.look()
        held.hold(point)
        looking = asyncio.ensure_future(worker.look())
        await settle(20)
        is_over = looking.done()
        vars(store).update(older)
        held.go.set()
        await looking
        await worker.look()
        assert worker.losses == 1, point
        await worker.close()
        if is_over:
            break
    assert 2 < point < 19


class Unanswered(InMemoryStore):
    """A store that loses some answers to signs of life, and remembers its state after each of them."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.lost = lost
        self.states: list[dict[str, Any]] = []

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        done = await super().put(key, value, ttl, expected)
        if "alive" in key and done and len(self.states) < self.lost:
            self.states.append(copy.deepcopy({name: kept for name, kept in vars(self).items() if name != "states"}))
            raise StoreUnavailableError("the answer is lost")
        return done


@pytest.mark.parametrize(("lost", "state"), [(1, 0), (2, 0), (2, 1), (3, 1)])
async def test_a_store_that_goes_back_between_two_attempts_to_show_life_is_noticed(lost: int, state: int) -> None:
    """The first attempt was stored as well, so that a sign is there after the loss too: an older one."""
    store = Unanswered(0)
    worker = Worker(store, "test")
    await worker.look()
    store.lost = lost
    await worker.look()
    assert len(store.states) == lost and worker.losses == 0
    vars(store).update(store.states[state])
    store.lost = 0
    await worker.look()
    assert worker.losses == 1
    await worker.close()


class FailingEpoch(InMemoryStore):
    """A store that can be reached to show a sign of life, and not any more to look at the epoch."""

    fails = False

    async def touch(self, key: str, ttl: float) -> bytes | None:
        if self.fails:
            raise StoreUnavailableError("the store cannot be reached")
        return await super().touch(key, ttl)


async def test_a_sign_that_is_lost_in_the_outage_that_follows_it_is_noticed() -> None:
    store = FailingEpoch()
    worker = Worker(store, "test")
    await worker.look()
    kept = copy.deepcopy(vars(store))
    store.fails = True
    with pytest.raises(StoreUnavailableError):
        await worker.look()
    vars(store).update(kept)
    store.fails = False
    await worker.look()
    assert worker.losses == 1
    await worker.look()
    assert worker.losses == 1
    await worker.close()


async def test_a_store_that_goes_back_by_two_losses_has_an_epoch_that_it_never_had() -> None:
    """Clients are told of each epoch once."""
    store = InMemoryStore()
    worker, states, epochs = Worker(store, "test"), [copy.deepcopy(vars(store))], []
    for state in (0, 0, 1):
        await worker.look()
        epochs.append(worker.epoch)
        states.append(copy.deepcopy(vars(store)))
        vars(store).update(copy.deepcopy(states[state]))
    await worker.look()
    epochs.append(worker.epoch)
    assert worker.losses == 3 and len({*epochs}) == 4
    await worker.close()


async def test_workers_that_begin_together_wait_for_each_other_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests with the ids of sessions that ended with the last deployment are refused soon."""
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    workers = [Worker(store, "test") for _ in range(2)]
    for worker in workers:
        await worker.subscribe()
    await settle()
    assert [await worker.may_restore(0) for worker in workers] == [True, True]
    clock.forward(1.5)
    assert [await worker.may_restore(0) for worker in workers] == [False, False]
    for worker in workers:
        await worker.close()


# ---- the time of the store goes back ---------------------------------------------------------------------------------


class Sharing:
    """The announcements of a server, of which there are none."""

    def relay(self, send: Any) -> bool:
        return False


class Reader:
    """A stream with the params of the changes that it has got."""

    def __init__(self) -> None:
        self.seen = 0
        self.got: list[Any] = []

    def put_change(self, change: Any) -> None:
        if change[0] > self.seen:
            self.seen = change[0]
            self.got.append(change[2])

    def begin_before(self, number: int) -> None:
        self.seen = number - 1


async def logs_and_reader(store: InMemoryStore) -> tuple[list[ChangeLog], Reader]:
    """Return the logs of two workers, and a reader at the second one."""
    logs = [ChangeLog(Worker(store, "test"), Sharing()) for _ in range(2)]  # type: ignore[arg-type]
    reader = Reader()
    for log in logs:
        await log.open()
    await logs[1].attach(reader, 0)
    return logs, reader


def lose_with_the_time(passing: Passing, store: InMemoryStore, clock: MovableClock) -> None:
    """Empty a store whose clock goes back by an hour."""
    passing.lose()
    store._highest = 0
    clock.set_wall(-3600.0)


async def restore(*logs: ChangeLog) -> None:
    """Let workers store again what they know of changes, one after the other."""
    for log in logs:
        await log._restore()


async def test_changes_arrive_once_when_the_time_goes_back_with_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a store on another machine, whose clock is an hour behind."""
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    logs, reader = await logs_and_reader(store)
    for number in range(3):
        await logs[0].announce("changed", number)
    await logs[1].read()
    lose_with_the_time(passing, store, clock)
    late = ChangeLog(Worker(store, "test"), Sharing())  # type: ignore[arg-type]
    await late.open()  # A worker that knows nothing of the numbers before.
    for number in range(3, 6):
        await late.announce("changed", number)
    await logs[1].look()
    assert reader.got == [0, 1, 2, 3, 4, 5]
    await logs[0].announce("changed", 6)
    await logs[1].read()
    assert reader.got == [0, 1, 2, 3, 4, 5, 6]


async def test_a_change_that_was_not_read_arrives_when_the_time_goes_back_with_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker of the change announces it again, and then that anything may have changed."""
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    logs, reader = await logs_and_reader(store)
    await logs[0].announce("changed", 0)
    await logs[1].read()
    await logs[0].announce("changed", 1)  # The hint does not arrive.
    lose_with_the_time(passing, store, clock)
    await restore(logs[0])
    await logs[1].look()
    assert reader.got == [0, 1, None]


async def test_a_client_that_is_further_than_a_worker_is_told_of_a_loss_with_which_the_time_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker that has read nothing tells of the loss with a lower number than the client has."""
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    logs, _ = await logs_and_reader(store)
    await logs[0].announce("changed", 0)  # The hint for the other does not arrive.
    position = logs[0].last
    lose_with_the_time(passing, store, clock)
    await restore(logs[1], logs[0])
    assert logs[1].last < position
    client = Reader()
    client.seen = position
    await logs[1].attach(client, position)
    assert client.got == [None]


async def test_a_change_that_gets_the_number_of_one_that_is_lost_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker has neither read the one that is lost, nor noticed the loss."""
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    logs, reader = await logs_and_reader(store)
    await logs[0].announce("changed", 0)
    await logs[1].read()
    clock.set_wall(-3600.0)  # From now on, each number is the next one.
    await logs[1].announce("changed", 1)  # The hint for the other does not arrive.
    lost = logs[1].last
    lose_with_the_time(passing, store, clock)
    await logs[0].announce("changed", 2)
    assert logs[0].last == lost
    await restore(logs[1], logs[0])
    await logs[1].read()
    assert reader.got == [0, 1, 2, None]


async def two_workers(store: InMemoryStore) -> tuple[Worker, Worker, list[int]]:
    """Return two workers, and the numbers of the letters that the second one gets."""
    one, other = Worker(store, "test"), Worker(store, "test")
    got: list[int] = []
    other.on("letter", lambda fields: got.append(fields["number"]))
    await one.subscribe()
    await other.subscribe()
    return one, other, got


async def test_mail_arrives_once_when_the_time_goes_back_with_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    one, other, got = await two_workers(store)
    for number in range(3):
        await one.deliver(other.id, "letter", number=number)
    await settle()
    lose_with_the_time(passing, store, clock)
    for number in range(3, 6):
        await one.deliver(other.id, "letter", number=number)
    await passing.quiet(4.0)
    assert got == [0, 1, 2, 3, 4, 5]
    for worker in (one, other):
        await worker.close()


async def test_mail_that_nobody_has_read_before_a_long_sleep_arrives_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has expired, and so has the sign of life of the worker that it is for, which still lives."""
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    one, other, got = await two_workers(store)
    await one.deliver(other.id, "letter", number=1)
    clock.forward(4000.0)
    await passing.quiet(30.0)
    assert got == [1]
    for worker in (one, other):
        await worker.close()


async def test_a_worker_shows_life_though_something_that_it_does_besides_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The others took it for one that had ended, and it did not end the streams of those that had."""
    clock = MovableClock(monkeypatch)
    store = InMemoryStore()
    one, other = Worker(store, "test"), Worker(store, "test")
    renewed: list[float] = []

    async def renew() -> None:
        renewed.append(0.0)
        raise ValueError("of what is renewed")

    one.keep(renew)
    await one.subscribe()
    await other.subscribe()
    for _ in range(200):
        clock.forward(2.0)
        await settle()
    assert len(renewed) > 2, "it is tried again"
    assert await other.is_alive(one.id)
    assert {record.exc_info[1].args for record in caplog.records if record.exc_info} == {("of what is renewed",)}
    await one.close()
    await other.close()
