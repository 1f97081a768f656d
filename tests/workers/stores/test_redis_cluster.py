"""A store in a Redis Cluster whose slots move, whose nodes fail, and of which one primary loses what it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import pytest
from support.clock import LoopClock
from support.endpoints import HANDSHAKE
from support.processes import free_port
from support.stores.clusters import Cluster, redis_cluster
from support.stores.homes import open_home
from support.stores.shared_workers import workers
from support.systems import PATIENCE

from mcp_generated import App, Context, LocalError
from mcp_generated.http import RedisStore
from mcp_products.workers.stores.redis_cluster import ClusterPipes
from mcp_products.workers.stores.retries import RetryingStore
from mcp_products.workers.stores.urls import open_store
from mcp_runtime.stores import StoreUnavailableError

redis = pytest.importorskip("redis", reason="redis-py is not installed (pip install redis)")

pytestmark = [pytest.mark.long, pytest.mark.deadline(120)]
LONG = 60.0
NEWEST = HANDSHAKE[-1]


@pytest.fixture
def cluster() -> Cluster:
    cluster = redis_cluster()
    cluster.wait_until_well()
    cluster.flush()
    return cluster


@asynccontextmanager
async def opened(cluster: Cluster, count: int = 2) -> AsyncGenerator[list[Any]]:
    stores = [open_store("asgi", cluster.url) for _ in range(count)]
    try:
        yield stores
    finally:
        for store in stores:
            assert store is not None
            await store.close()


def slot_of(key: str) -> int:
    return key_slot(f"mcp:{key}")


def key_slot(key: str) -> int:
    """Return the slot of a key as it is stored."""
    from redis.crc import key_slot

    return key_slot(key.encode())


async def moved(cluster: Cluster, keys: list[str], rounds: int = 1) -> None:
    """Move the slots of keys from primary to primary."""
    ports = cycle(cluster.primaries())
    for _ in range(rounds):
        for key in keys:
            await asyncio.to_thread(cluster.move, slot_of(key), next(ports))


async def test_nothing_is_lost_or_doubled_while_slots_move(cluster: Cluster) -> None:
    async with opened(cluster) as (one, other):
        streams = [f"s{number}" for number in range(12)]
        ended = asyncio.Event()
        written: dict[str, list[int]] = {stream: [] for stream in streams}

        async def write(stream: str) -> None:
            last = 0
            while not ended.is_set():
                last = await one.append(stream, [b"%d" % (last + 1)], LONG, after=last)
                assert await other.count(f"c{stream}", 1, LONG) == last
                assert await one.put(f"r{stream}", b"%d" % last, LONG)
                assert await other.get(f"r{stream}") == b"%d" % last
                written[stream].append(last)

        writing = [asyncio.create_task(write(stream)) for stream in streams]
        await moved(cluster, [name for stream in streams for name in (stream, f"c{stream}", f"r{stream}")], 3)
        ended.set()
        await asyncio.gather(*writing)
        for stream in streams:
            assert len(written[stream]) > 3 and written[stream] == [*range(1, len(written[stream]) + 1)]
            entries = await other.read(stream, 0)
            numbers = written[stream][-len(entries) :]
            assert entries == [(number, b"%d" % number) for number in numbers]


async def test_a_message_arrives_wherever_the_slot_of_its_channel_is(cluster: Cluster) -> None:
    async with opened(cluster) as (one, other):
        got: dict[str, list[bytes]] = {f"ch{number}": [] for number in range(6)}
        for channel, messages in got.items():
            await other.subscribe(channel, messages.append)
        for round in range(3):
            for channel, messages in got.items():
                messages.clear()
                await moved(cluster, [channel])
                async with asyncio.timeout(20 * PATIENCE):
                    while b"%d" % round not in messages:  # One that comes while the slot moves may be lost.
                        await one.publish(channel, b"%d" % round)
                        await asyncio.sleep(0.02)
        await one.publish("ch0", b"last")
        async with asyncio.timeout(20 * PATIENCE):
            while b"last" not in got["ch0"]:
                await asyncio.sleep(0.01)


async def test_who_receives_is_told_that_messages_may_be_lost(cluster: Cluster) -> None:
    async with opened(cluster) as (one, other):
        got: list[bytes] = []
        await other.subscribe("told", got.append)
        ports = cluster.primaries()
        for to in [*ports, ports[0]]:
            await asyncio.to_thread(cluster.move, slot_of("told"), to)
        async with asyncio.timeout(20 * PATIENCE):
            while b"" not in got:
                await asyncio.sleep(0.01)
        await one.publish("told", b"again")
        async with asyncio.timeout(20 * PATIENCE):
            while got[-1:] != [b"again"]:
                await asyncio.sleep(0.01)


async def test_messages_arrive_after_primary_and_replica_have_changed_places(cluster: Cluster) -> None:
    """The former primary goes on, as a replica: its connection is closed by the store and not by the node."""
    async with opened(cluster) as (one, other):
        names = [f"n{number}" for number in range(30)]
        got: dict[str, list[bytes]] = {name: [] for name in names}
        for name in names:
            await other.subscribe(name, got[name].append)
        before = cluster.primaries()
        for replica in cluster.ports:
            if replica not in before:
                cluster.run(replica, "CLUSTER FAILOVER")
        async with asyncio.timeout(60 * PATIENCE):
            while {*before} & {*cluster.primaries()}:
                await asyncio.sleep(0.05)
        retrying = RetryingStore(one, 30 * PATIENCE)
        async with asyncio.timeout(60 * PATIENCE):
            while not all(b"m" in messages for messages in got.values()):
                for name in names:
                    await retrying.put(name, b"1", LONG)
                    await RetryingStore(other, 30 * PATIENCE).get(name)  # It learns where the slots are.
                    await retrying.publish(name, b"m")
        assert all(b"" in messages for messages in got.values()), "nobody was told that messages may be lost"
        await asyncio.to_thread(cluster.wait_until_well)


async def test_a_replica_takes_over_and_the_other_nodes_go_on_meanwhile(cluster: Cluster) -> None:
    async with opened(cluster) as (one, other):
        retrying = RetryingStore(one, 60 * PATIENCE)
        names = [f"k{number}" for number in range(60)]
        await asyncio.gather(*(retrying.put(name, b"before", LONG) for name in names))
        got: list[bytes] = []
        for name in names:
            await other.subscribe(name, got.append)
        victim = cluster.primaries()[0]
        there = {name for name in names if cluster.has(victim, slot_of(name))}
        assert 0 < len(there) < len(names)
        await asyncio.sleep(0.2)  # The replicas have what was written.
        cluster.kill(victim)
        try:
            elsewhere = await asyncio.gather(*(one.get(name) for name in names if name not in there))
            assert {*elsewhere} == {b"before"}, "a node that is well does not answer"
            failed = await asyncio.gather(*(one.get(name) for name in there), return_exceptions=True)
            assert all(value == b"before" or isinstance(value, StoreUnavailableError) for value in failed)
            values = await asyncio.gather(*(retrying.get(name) for name in names))
            assert values == [b"before"] * len(names)
            assert await retrying.put(next(iter(there)), b"after", LONG)
            async with asyncio.timeout(60 * PATIENCE):
                while got.count(b"") < len(there):
                    await asyncio.sleep(0.02)
            for name in names:
                await retrying.publish(name, name.encode())
            async with asyncio.timeout(60 * PATIENCE):
                while not {name.encode() for name in names} <= {*got}:
                    await asyncio.sleep(0.02)
        finally:
            cluster.start(victim)
            await asyncio.to_thread(cluster.wait_until_well)


def make_app() -> App:
    app = App("clustered")

    @app.tool
    async def remember(ctx: Context, value: str) -> str:
        await ctx.set_state("value", value)
        return value

    @app.tool
    async def recall(ctx: Context) -> str:
        return str(await ctx.get_state("value"))

    return app


async def test_a_session_goes_on_when_its_node_fails(cluster: Cluster) -> None:
    async with workers(NEWEST, make_app, cluster.url, 2) as client:
        for value, victim in enumerate(cluster.primaries()):  # One of them has the record of the session.
            call = {"name": "remember", "arguments": {"value": str(value)}}
            assert (await client.answered(body=NEWEST.request(1, "tools/call", call))).status == 200
            await asyncio.sleep(0.5)
            cluster.kill(victim)
            try:
                async with asyncio.timeout(60 * PATIENCE):
                    while True:
                        answer = await client.answered(
                            body=NEWEST.request(2, "tools/call", {"name": "recall", "arguments": {}})
                        )
                        assert answer.status in (200, 503)
                        if answer.status == 200 and not answer.json["result"].get("isError"):
                            break
                assert answer.json["result"]["content"][0]["text"] == str(value)
            finally:
                cluster.start(victim)
                await asyncio.to_thread(cluster.wait_until_well)


async def test_the_loss_of_one_primary_is_noticed(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    for port in cluster.primaries():
        async with workers(NEWEST, make_app, cluster.url, 2) as client:
            call = {"name": "remember", "arguments": {"value": "v"}}
            await client.answered(body=NEWEST.request(1, "tools/call", call))
            async with asyncio.timeout(60 * PATIENCE):
                while cluster.run(port, "DBSIZE") < 2:  # Signs of life are in each primary.
                    await asyncio.sleep(0.05)
            caplog.clear()
            cluster.run(port, "FLUSHALL")
            async with asyncio.timeout(60 * PATIENCE):
                while "the store of the workers has lost its past" not in caplog.text:
                    await asyncio.sleep(0.05)
            answer = await client.answered(body=NEWEST.request(2, "tools/call", {"name": "recall", "arguments": {}}))
            assert answer.json["result"]["content"][0]["text"] in (
                "v",
                "None",
            )  # The session goes on; its state is lost.


@pytest.mark.parametrize("moves", [1, 2])  # One of the signs of a worker at this primary, or all of them.
async def test_a_primary_loses_its_past_just_after_the_slot_of_a_sign_has_moved(cluster: Cluster, moves: int) -> None:
    async with workers(NEWEST, make_app, cluster.url, 2) as client:
        recall = NEWEST.request(1, "tools/call", {"name": "recall", "arguments": {}})
        assert (await client.answered(body=recall)).status == 200
        await asyncio.sleep(2.5)  # Each worker has shown a sign of life at each primary.
        port = next(port for port in cluster.primaries() if cluster.run(port, "KEYS", "*:session:*"))
        to = next(other for other in cluster.primaries() if other != port)
        (record,) = cluster.run(port, "KEYS", "*:session:*")
        signs = sorted(cluster.run(port, "KEYS", "*:alive:*{*}"))
        slots = [key_slot(sign) for sign in signs]
        assert len({*slots}) == len(signs) == 4, signs  # Sorted by their workers.
        for slot in {*slots[:moves]} - {key_slot(record)}:
            await asyncio.to_thread(cluster.move, slot, to)
        cluster.run(port, "FLUSHALL")
        for at in (0, 1, 0, 1):
            assert (await client.answered(body=recall, at=at)).status == 200


async def test_a_worker_that_begins_just_after_a_primary_has_lost_its_past_asks_the_others(cluster: Cluster) -> None:
    async with workers(NEWEST, make_app, cluster.url, 2) as client:
        with_epoch = next(port for port in cluster.primaries() if cluster.run(port, "KEYS", "*:epoch:"))
        while not any(cluster.run(port, "KEYS", "*:session:*") for port in {*cluster.primaries()} - {with_epoch}):
            await client.open()
        recall = NEWEST.request(1, "tools/call", {"name": "recall", "arguments": {}})
        assert (await client.answered(body=recall)).status == 200
        for port in {*cluster.primaries()} - {with_epoch}:
            cluster.run(port, "FLUSHALL")
        begun = make_app().asgi(revisions=[NEWEST.id], store=open_home(cluster.url))
        await begun.open()
        client.applications.append(begun)
        try:
            assert (await client.answered(body=recall, at=2)).status == 200
        finally:
            await begun.close()


async def test_each_primary_has_a_name_wherever_slots_move(cluster: Cluster) -> None:
    async with opened(cluster, 1) as (store,):
        await store.get("a")
        for name in store.parts:
            key = f"sign{{{name}}}"
            owner = next(port for port in cluster.primaries() if cluster.has(port, slot_of(key)))
            await asyncio.to_thread(cluster.move, slot_of(key), next(p for p in cluster.primaries() if p != owner))
            await store.get(key)  # The worker learns that the slot has moved.
            signs = [f"sign{{{name}}}" for name in store.parts]
            assert all(any(cluster.has(port, slot_of(sign)) for sign in signs) for port in cluster.primaries())


async def test_a_client_of_redis_py_is_taken(cluster: Cluster) -> None:
    from redis.asyncio.cluster import RedisCluster

    store = RedisStore(RedisCluster(host="127.0.0.1", port=cluster.ports[0]), prefix="own:")
    assert await store.put("a", b"1", LONG) and await store.get("a") == b"1"
    await store.drop("a", "b", "c")
    await store.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.get("a")


async def test_the_url_of_one_node_says_what_to_write(cluster: Cluster) -> None:
    store: Any = open_store("asgi", f"redis://127.0.0.1:{cluster.ports[0]}")
    with pytest.raises(LocalError, match=r'a Redis Cluster: write "redis\+cluster://host", or RedisStore'):
        await store.get("a")
    await store.close()


async def test_a_cluster_that_is_not_there_is_unavailable_with_its_reason() -> None:
    store: Any = open_store("asgi", f"redis+cluster://127.0.0.1:{free_port()}")
    results = await asyncio.gather(*(store.get("a") for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailableError] * 3
    assert "Redis" in str(results[0])
    await store.close()


class Node:
    """A node as a version of redis-py has it whose connections give nothing away."""

    host = "127.0.0.1"
    connection_kwargs: dict[str, Any] = {}

    def __init__(self, port: int) -> None:
        self.port = port

    class connection_class:
        def __init__(self, **settings: Any) -> None:
            pass

        async def connect(self) -> None:
            pass

        async def disconnect(self, nowait: bool) -> None:
            pass


class Client:
    """A client of a cluster whose slots are all at one node."""

    nodes_manager: Any

    def __init__(self) -> None:
        self.nodes_manager = self
        self.learned = 0
        self.move(1)

    def move(self, port: int) -> None:
        self.slots_cache = {slot: [Node(port)] for slot in range(16_384)}

    async def aclose(self) -> None:
        pass

    async def initialize(self) -> None:
        self.learned += 1


async def test_a_version_of_redis_py_without_connections_is_refused() -> None:
    pipes = ClusterPipes(Client(), [])
    with pytest.raises(LocalError, match=r"a cluster needs redis-py 5\.2 to 8\.1"):
        await pipes.add(("GET", "a"))
    await pipes.close()


async def test_subscriptions_at_a_node_without_slots_are_lost_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its connection has ended, it refuses commands: who pings it would end with it."""
    lost: list[Any] = []

    class Listener:
        def pushed(self, pipe: Any, message: Any) -> None:
            raise AssertionError("no node sends anything")

        def lost(self, pipe: Any) -> None:
            lost.append(pipe)

    clock, client = LoopClock(), Client()
    pipes = ClusterPipes(client, [])
    pipes.listener = Listener()
    for port, times in ((1, 1), (2, 2)):
        client.move(port)
        clock.forward(10)  # The slots may be asked for again.
        while client.learned < times:
            with pytest.raises(LocalError):
                await pipes.add(("GET", "a"))
    assert len(lost) == 1
    await pipes.close()
