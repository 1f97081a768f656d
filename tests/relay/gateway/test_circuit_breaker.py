"""A server that fails several times is not asked any more, until a probe has got an answer."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.clients import connect
from support.clock import MovableClock
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.raw_server import Got, Raw, Write, discover, reply, result, serving, text

from mcp_generated import Gateway, LocalError, RemoteJSONRPCError
from mcp_products.relay.gateway.breaker import BreakerSettings, CircuitBreaker, CircuitOpenError
from mcp_products.relay.upstream.opening import NoAnswerError
from mcp_products.relay.upstream.translation import AnsweredError

pytestmark = pytest.mark.deadline(5000)  # Tests set the clock forward.

CALL, LIST = "tools/call", "tools/list"
TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}


async def listed(got: Got, write: Write) -> None:
    """Answer a list."""
    await write(reply(result(got, TOOLS)))


async def cut(got: Got, write: Write) -> None:
    """Close the connection without an answer."""


async def broken(got: Got, write: Write) -> None:
    """Answer with an error of the server, and no JSON-RPC."""
    await write(reply(b"out of order", 500, "text/plain"))


async def silent(got: Got, write: Write) -> None:
    """Answer never."""
    await asyncio.Event().wait()


async def wrong(got: Got, write: Write) -> None:
    """Answer with an error of the tool."""
    error = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no such thing"}}'
    await write(reply(error % got.body["id"]))


async def unknown(got: Got, write: Write) -> None:
    """Answer that there is no such method."""
    await write(reply(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"unknown"}}' % got.body["id"]))


def server(*, is_stateless: bool = True) -> Raw:
    """A server with one tool, of the stateless version or of one with sessions."""
    return Raw({LIST: listed, "server/discover": discover if is_stateless else unknown})


def gateway_of(raw: Raw, **more: Any) -> Gateway:
    """A gateway before one server, with a breaker that opens after three failures, for ten seconds."""
    return Gateway({"upstreams": {"shop": {"url": raw.url, "breaker": {"failures": 3, "delay": 10}, **more}}})


async def error_of(request: Any) -> RemoteJSONRPCError:
    """Return the error of a request."""
    with pytest.raises(RemoteJSONRPCError) as error:
        await request
    return error.value


def circuit(gateway: Gateway) -> str:
    """Return the state of the breaker, from the health of the gateway; metrics say the same."""
    state: str = gateway.health()["circuits"]["shop"]
    number = {"closed": 0, "half open": 1, "open": 2}[state]
    assert f'mcp_gateway_upstream_circuit{{upstream="shop"}} {number}\n' in gateway.metrics()
    return state


@among(ALL_REVISIONS)
@pytest.mark.parametrize("fault", [cut, broken], ids=["cut", "500"])
async def test_it_opens_after_failures_and_closes_after_one_probe(
    rev: Rev, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.0)
    clock = MovableClock(monkeypatch)
    raw = server(is_stateless=rev.stateless)
    async with serving(raw):
        gateway = gateway_of(raw)
        async with connect(gateway.app, client=rev.package.Client, revisions=[rev.id]) as client:
            assert text(await client.call_tool(name="shop_x")) == "usual"
            raw.answers[CALL] = fault
            for _ in range(3):
                assert circuit(gateway) == "closed"
                assert "not asked" not in (await error_of(client.call_tool(name="shop_x"))).message
            assert circuit(gateway) == "open"
            reached = len(raw.seen)
            error = await error_of(client.call_tool(name="shop_x"))
            assert "'shop' is not asked now" in error.message and "circuit open" in error.message
            data: Any = error.data
            assert data["upstream"] == "shop" and data["state"] == "open" and 0 < data["retryAfter"] <= 10
            assert [tool.name for tool in (await client.list_tools()).tools] == []
            assert len(raw.seen) == reached, "nothing reached the server"
            assert gateway.health()["status"] == "degraded"
            clock.forward(10.1)
            assert circuit(gateway) == "half open"
            await error_of(client.call_tool(name="shop_x"))
            assert circuit(gateway) == "open" and len(raw.requests_of(CALL)) == 5
            clock.forward(10.1)
            assert circuit(gateway) == "open", "the second delay is longer"
            clock.forward(10)
            del raw.answers[CALL]
            assert text(await client.call_tool(name="shop_x")) == "usual"
            assert circuit(gateway) == "closed" and gateway.health()["status"] == "ok"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["shop_x"]
        assert 'mcp_gateway_circuit_openings_total{upstream="shop"} 2\n' in gateway.metrics()
        assert 'mcp_gateway_refusals_total{upstream="shop"} 1\n' in gateway.metrics()


async def test_errors_of_tools_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = server()
    raw.answers[CALL] = wrong
    async with serving(raw):
        gateway = gateway_of(raw)
        async with connect(gateway.app) as client:
            for _ in range(10):
                assert "no such thing" in (await error_of(client.call_tool("shop_x"))).message
        assert circuit(gateway) == "closed" and len(raw.requests_of(CALL)) == 10


async def test_a_server_that_is_late_opens_it() -> None:
    raw = server()
    raw.answers[CALL] = silent
    async with serving(raw):
        gateway = gateway_of(raw, timeout=0.01)
        async with connect(gateway.app) as client:
            for _ in range(3):
                assert "has not answered within 0.01 s" in (await error_of(client.call_tool("shop_x"))).message
            assert "circuit open" in (await error_of(client.call_tool("shop_x"))).message


async def test_a_command_that_cannot_be_started_opens_it_by_lists_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovableClock(monkeypatch)
    table = {"command": "no-such-program", "breaker": {"failures": 3, "delay": 10}}
    gateway = Gateway({"upstreams": {"shop": table}})
    async with connect(gateway.app) as client:
        while circuit(gateway) == "closed":
            assert (await client.list_tools()).tools == []
            clock.forward(1)  # A start that has failed is not tried again at once.
        assert "circuit open" in (await error_of(client.call_tool("shop_x"))).message


async def test_a_gateway_without_a_breaker_asks_on() -> None:
    raw = server()
    raw.answers[CALL] = cut
    async with serving(raw):
        gateway = gateway_of(raw, breaker=False)
        async with connect(gateway.app) as client:
            for _ in range(8):
                await error_of(client.call_tool("shop_x"))
        assert circuit(gateway) == "closed" and len(raw.requests_of(CALL)) == 8


async def test_clients_are_told_when_the_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovableClock(monkeypatch)
    raw = server()
    async with serving(raw):
        gateway = gateway_of(raw)
        async with connect(gateway.app) as client, client.listen(tool_list_changed=True) as changes:
            raw.answers[CALL] = cut
            for _ in range(3):
                await error_of(client.call_tool("shop_x"))
            clock.forward(20)
            assert [tool.name for tool in (await client.list_tools()).tools] == ["shop_x"]
            assert (await anext(changes)).method == "notifications/tools/list_changed"


async def test_a_probe_connects_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovableClock(monkeypatch)
    raw = server()
    raw.answers |= {"server/discover": broken, "initialize": broken}
    async with serving(raw):
        gateway = gateway_of(raw, breaker={"failures": 8, "delay": 1})
        async with connect(gateway.app) as client:
            while circuit(gateway) == "closed":
                clock.forward(40)
                await error_of(client.call_tool("shop_x"))
            clock.forward(1.3)
            reached = len(raw.seen)
            async with asyncio.timeout(5):
                await error_of(client.call_tool("shop_x"))
            assert len(raw.seen) > reached and circuit(gateway) == "open"


async def test_a_reload_keeps_an_open_circuit_and_a_new_url_has_a_closed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovableClock(monkeypatch)
    raw, other = server(), server()
    raw.answers[CALL] = cut
    async with serving(raw), serving(other):
        table: dict[str, Any] = {"url": raw.url, "breaker": {"failures": 3, "delay": 10}}
        gateway = Gateway({"upstreams": {"shop": table}})
        async with connect(gateway.app) as client:
            for _ in range(3):
                await error_of(client.call_tool("shop_x"))
            table["deny"] = ["y"]
            gateway.reload()
            assert circuit(gateway) == "open"
            assert "circuit open" in (await error_of(client.call_tool("shop_x"))).message
            table["breaker"] = False
            gateway.reload()
            assert circuit(gateway) == "closed"
            table["breaker"] = {"failures": 1}
            gateway.reload()
            await error_of(client.call_tool("shop_x"))
            assert circuit(gateway) == "open", "the new number holds"
            table["url"] = other.url
            gateway.reload()
            assert circuit(gateway) == "closed" and text(await client.call_tool("shop_x")) == "usual"
            clock.forward(1000)
            assert circuit(gateway) == "closed"


# ---- the breaker itself ----------------------------------------------------------------------------------------------


def died() -> NoAnswerError:
    return NoAnswerError("it has died", is_outage=True)


def use(breaker: CircuitBreaker, client: str, error: BaseException | None = None) -> None:
    """Let a request end with an error, or with an answer."""
    try:
        with breaker.guard(client):
            if error is not None:
                raise error
    except CircuitOpenError:
        raise
    except BaseException as raised:
        assert raised is error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The clock, which an event loop has."""
    monkeypatch.setattr(random, "random", lambda: 0.0)
    return lambda: MovableClock(monkeypatch)


def breaker_of(failures: int = 3, delay: float = 10.0) -> CircuitBreaker:
    return CircuitBreaker("shop", BreakerSettings(failures, delay))


async def test_delays_double_up_to_a_limit_and_begin_anew_after_an_answer(clock: Any) -> None:
    time, breaker = clock(), breaker_of(1)
    for seconds in (10, 20, 40, 80, 160, 300, 300):
        use(breaker, "ada", died())
        time.forward(seconds - 1)
        with pytest.raises(CircuitOpenError):
            use(breaker, "ada")
        time.forward(1.1)
        assert breaker.state == "half open"
    use(breaker, "ada")
    assert breaker.state == "closed" and breaker.reason is None
    use(breaker, "ada", died())
    time.forward(10.1)
    assert breaker.state == "half open"


async def test_the_longest_delay_is_longer_by_a_quarter_at_most(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "random", lambda: 1.0)
    time, breaker = clock(), breaker_of(1)
    for _ in range(50):
        use(breaker, "ada", died())
        time.forward(375.1)
        assert breaker.state == "half open"


async def test_one_probe_passes_at_a_time_and_another_one_if_it_takes_long(clock: Any) -> None:
    time, breaker = clock(), breaker_of(1)
    use(breaker, "ada", died())
    time.forward(10.1)
    with breaker.guard("ada"):
        with pytest.raises(CircuitOpenError) as refused:
            use(breaker, "eve")
        data: Any = refused.value.data
        assert data["state"] == "half open"
        time.forward(10.1)
        use(breaker, "eve")
        assert breaker.state == "closed"
    assert breaker.state == "closed"


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), NoAnswerError("a wrong token", is_outage=False), LocalError("no place")],
    ids=["left", "refused", "local"],
)
async def test_a_probe_that_says_nothing_of_the_server_leaves_the_next_one_to_be_the_probe(
    clock: Any, error: BaseException
) -> None:
    time, breaker = clock(), breaker_of(1)
    use(breaker, "ada", died())
    time.forward(10.1)
    use(breaker, "ada", error)
    assert breaker.state == "half open"
    use(breaker, "ada", AnsweredError(-32000, "an answer"))
    assert breaker.state == "closed"


async def test_answers_between_failures_keep_it_closed(clock: Any) -> None:
    clock()
    breaker = breaker_of()
    for _ in range(10):
        use(breaker, "ada", died())
        use(breaker, "ada", died())
        use(breaker, "ada", AnsweredError(-32000, "an answer"))
    assert breaker.state == "closed"


async def test_one_client_alone_opens_it_only_if_no_other_one_uses_the_server(clock: Any) -> None:
    time, breaker = clock(), breaker_of()
    use(breaker, "eve")
    for _ in range(20):
        use(breaker, "ada", died())
    assert breaker.state == "closed", "a call of ada may be what ends the server"
    use(breaker, "eve", died())
    assert breaker.state == "open"

    alone = breaker_of()
    for _ in range(3):
        use(alone, "ada", died())
    assert alone.state == "open"

    later = breaker_of()
    use(later, "eve")
    time.forward(601)
    for _ in range(3):
        use(later, "ada", died())
    assert later.state == "open"


async def test_a_connection_that_cannot_be_opened_counts_whoever_wanted_it(clock: Any) -> None:
    clock()
    breaker = breaker_of()
    use(breaker, "eve")
    for _ in range(3):
        breaker.failed("no such program")
    assert breaker.state == "open"


async def test_a_request_that_began_before_it_opened_says_nothing_of_the_probe(clock: Any) -> None:
    time, breaker = clock(), breaker_of(1)
    slow = breaker.guard("ada")
    slow.__enter__()
    use(breaker, "eve", died())
    time.forward(10.1)
    probe = breaker.guard("eve")
    probe.__enter__()
    error = died()
    assert not slow.__exit__(NoAnswerError, error, None)
    assert breaker.state == "half open", "the failure of an old request is not that of the probe"
    probe.__exit__(None, None, None)
    assert breaker.state == "closed"


WRONG: list[tuple[Any, str]] = [
    ({"failure": 3}, r"\[upstreams.shop.breaker\] has no key 'failure'; did you mean 'failures'"),
    ({"failures": 0}, "failures is a whole number above 0"),
    ({"failures": 1.5}, "failures is a whole number above 0"),
    ({"delay": -1}, "delay is a number above 0"),
    ({"delay": float("inf")}, "delay is a number above 0"),
    (3, r"write breaker = \{ failures = 5, delay = 30 \}"),
]


@pytest.mark.parametrize(("value", "message"), WRONG, ids=range(len(WRONG)))
def test_settings_that_cannot_work_are_refused_with_what_to_write(value: Any, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        Gateway({"upstreams": {"shop": {"command": "x", "breaker": value}}})
