"""Metrics by OpenTelemetry's semantic conventions for MCP, in an application that has a provider of metrics."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not there")

from opentelemetry.metrics import _internal
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from support.clients import connect
from support.clock import MovableClock
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, client_of, server_of
from support.http.asgi_client import Web, web
from support.stores.failing import FailingStore
from support.stores.homes import place_of
from support.stores.passing import Passing
from support.stores.shared_workers import workers

from mcp_generated import App, Context, JSONLogFormatter, JSONRPCError, LocalError, MCPError, RateLimit, ToolError
from mcp_generated.http import HTTPLimits, StoreUnavailableError
from mcp_generated.tenants import Limits, Tenants
from mcp_products import telemetry as tracing
from mcp_products.metrics import stores as measured_stores
from mcp_products.telemetry import metrics as endpoint_gauges
from mcp_products.telemetry import metrics as happenings
from mcp_products.telemetry import metrics as timed_operations
from mcp_products.tenants.limits import KINDS
from mcp_products.workers.sessions.worker import Worker
from mcp_products.workers.stores.memory import InMemoryStore
from mcp_products.workers.stores.retries import RetryingStore
from mcp_runtime.stores import Store

Point = tuple[dict[str, Any], Any]
OPERATIONS, COMMANDS = "mcp.server.operation.duration", "db.client.operation.duration"
CACHED = (
    timed_operations._histogram,
    endpoint_gauges._create_counters,
    happenings._counter,
    measured_stores.counter,
    measured_stores.create_gauges,
)
METHODS_OF_STORES = [name for name in vars(Store) if not name.startswith("_")]


class Metrics:
    """What the application has measured."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def points(self, name: str) -> list[Point]:
        """The attributes of the points of a metric, and their count or value."""
        data = self.reader.get_metrics_data()
        points: list[Point] = []
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                assert scope.scope.name == "mcp_runtime"
                for metric in scope.metrics:
                    if metric.name == name:
                        points += [
                            (dict(point.attributes or {}), getattr(point, "count", getattr(point, "value", None)))
                            for point in metric.data.data_points
                        ]
        return points

    def of(self, name: str, **attributes: Any) -> list[Point]:
        """The points that have these attributes, whose dots are two underscores."""
        items = {key.replace("__", "."): value for key, value in attributes.items()}.items()
        return [point for point in self.points(name) if items <= point[0].items()]


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metrics]:
    measured = Metrics()
    monkeypatch.setattr(_internal, "_METER_PROVIDER", measured.provider)
    monkeypatch.setattr(timed_operations, "_names", set())
    monkeypatch.setattr(measured_stores, "observed_workers", WeakSet())
    for cached in CACHED:
        cached.cache_clear()
    yield measured
    measured.provider.shutdown()
    for cached in CACHED:
        cached.cache_clear()


def price(article: str) -> int:
    """Return the price of an article."""
    return 1999


def shop() -> App:
    app = App("shop")

    @app.tool
    async def price(article: str, ctx: Context) -> int:
        if article == "broken":
            raise ToolError("there is no such article")
        if article == "refused":
            raise JSONRPCError(-32011, "not for you")
        await ctx.report_progress(1, 1)
        return 1999

    return app


@among(ALL_REVISIONS)
async def test_calls_are_measured_on_either_side(rev: Rev, metrics: Metrics) -> None:
    async with connect(shop(), revisions=[rev.id]) as client:
        for _ in range(3):
            await client.call_tool("price", {"article": "pan"})
    for kind in ("client", "server"):
        ((attributes, count),) = metrics.of(f"mcp.{kind}.operation.duration", mcp__method__name="tools/call")
        assert count == 3 and attributes == {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": rev.id,
            **({"network.transport": "pipe"} if kind == "server" else {}),
            "gen_ai.tool.name": "price",
            "gen_ai.operation.name": "execute_tool",
        }
    sessions = metrics.points("mcp.server.session.duration")
    assert sessions == [({"mcp.protocol.version": rev.id}, 1)]


@among(ALL_REVISIONS)
async def test_failed_calls_name_their_error_and_no_tool_that_there_is_not(rev: Rev, metrics: Metrics) -> None:
    async with connect(shop(), revisions=[rev.id]) as client:
        await client.call_tool("price", {"article": "pan"})
        result = await client.call_tool("price", {"article": "broken"})
        assert result.is_error
        for name, article in (("price", "refused"), ("invented by a client", "pan")):
            with pytest.raises(MCPError):
                await client.call_tool(name, {"article": article})
    failed = {
        attributes["error.type"]: attributes
        for attributes, _ in metrics.of(OPERATIONS, mcp__method__name="tools/call")
        if "error.type" in attributes
    }
    assert failed.keys() == {"tool_error", "-32011", "-32602"}
    assert failed["-32011"]["rpc.response.status_code"] == "-32011"
    assert failed["tool_error"]["gen_ai.tool.name"] == failed["-32011"]["gen_ai.tool.name"] == "price"
    assert "gen_ai.tool.name" not in failed["-32602"]


async def test_names_are_attributes_up_to_a_number(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_operations, "_MAX_NAMES", 2)
    app = App("many")
    for number in range(4):
        app.add_tool(lambda: 1, name=f"tool{number}")
    async with connect(app) as client:
        for number in range(4):
            await client.call_tool(f"tool{number}")
    points = metrics.of(OPERATIONS, mcp__method__name="tools/call")
    assert sorted(attributes.get("gen_ai.tool.name", "") for attributes, _ in points) == ["", "tool0", "tool1"]
    assert sum(count for _, count in points) == 4


# ---- HTTP ----------------------------------------------------------------------------------------------------------


def call(rev: Rev, article: str = "pan") -> Any:
    return rev.request(1, "tools/call", {"name": "price", "arguments": {"article": article}})


@among(ALL_REVISIONS)
async def test_calls_over_http_name_their_transport(rev: Rev, metrics: Metrics) -> None:
    async with web(rev, shop()) as client:
        answer = await client.answered(body=call(rev))
        assert b"1999" in answer.content
    ((attributes, count),) = metrics.of(OPERATIONS, mcp__method__name="tools/call")
    assert count == 1 and attributes["mcp.protocol.version"] == rev.id
    assert (attributes["network.transport"], attributes["network.protocol.name"]) == ("tcp", "http")


@among(ALL_REVISIONS)
async def test_all_that_comes_over_http_names_it(rev: Rev, metrics: Metrics) -> None:
    """Notifications of a session have no request of HTTP of their own, nor has the list that an endpoint reads itself
    for the headers of calls: they were said to come through a pipe."""
    async with web(rev, shop()) as client:
        await client.answered(body=call(rev))
    points = metrics.points(OPERATIONS)
    methods = {attributes["mcp.method.name"] for attributes, _ in points}
    assert methods >= ({"notifications/initialized"} if rev in HANDSHAKE else {"tools/list"})
    assert {attributes["network.transport"] for attributes, _ in points} == {"tcp"}


@among(HANDSHAKE[1:])
async def test_sessions_and_streams_are_counted_and_sessions_are_measured(rev: Rev, metrics: Metrics) -> None:
    application = shop().asgi(revisions=[rev.id])
    await application.open()
    client = Web(application, rev)
    await client.open()
    stream = client.request("GET", headers={"accept": "text/event-stream"})
    while metrics.points("mcp_runtime.streams") != [({}, 1)]:
        await asyncio.sleep(0)
    assert metrics.points("mcp_runtime.sessions") == [({}, 1)] and metrics.points("mcp_runtime.requests") == [({}, 0)]
    assert metrics.points("mcp.server.session.duration") == []
    assert (await client.answered("DELETE")).status == 204
    assert metrics.points("mcp.server.session.duration") == [({"mcp.protocol.version": rev.id}, 1)]
    await stream.whole()
    assert metrics.points("mcp_runtime.sessions") == metrics.points("mcp_runtime.streams") == [({}, 0)]
    await application.close()


@among(HANDSHAKE[-1:])
async def test_commands_to_the_store_and_the_sessions_of_workers_are_measured(
    rev: Rev, metrics: Metrics, tmp_path: Any
) -> None:
    async with workers(rev, shop, place_of("sqlite", tmp_path), count=2) as client:
        answer = await client.answered(body=call(rev))
        assert b"1999" in answer.content
        assert [value for _, value in metrics.points("mcp_runtime.sessions")] == [2]  # One at either worker.
        commands = {attributes["db.operation.name"]: attributes for attributes, _ in metrics.points(COMMANDS)}
        assert {"get", "put", "subscribe"} <= commands.keys()
        assert commands["put"] == {"db.system.name": "sqlite", "db.operation.name": "put"}
    assert metrics.points("mcp.server.session.duration") == []  # It goes on at other workers.


@pytest.mark.parametrize("wrapper", [RetryingStore, measured_stores.MeteredStore])
@pytest.mark.parametrize("method", METHODS_OF_STORES)
def test_a_store_around_another_takes_the_same_arguments(wrapper: type, method: str) -> None:
    expected = inspect.signature(getattr(Store, method)).parameters
    assert inspect.signature(getattr(wrapper, method)).parameters == expected


async def test_commands_that_fail_name_their_error(metrics: Metrics) -> None:
    store = FailingStore()
    store.outage.is_down = True
    with pytest.raises(StoreUnavailableError):
        await measured_stores.MeteredStore(store).get("key")
    ((attributes, count),) = metrics.points(COMMANDS)
    assert count == 1 and attributes["error.type"] == "StoreUnavailableError"


@among(ALL_REVISIONS)
async def test_without_a_provider_nothing_is_measured(rev: Rev, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("something is measured")

    monkeypatch.setattr(timed_operations, "_record", refuse)
    monkeypatch.setattr(endpoint_gauges, "observe", refuse)
    async with web(rev, shop()) as client:
        assert b"1999" in (await client.answered(body=call(rev))).content


def test_an_application_that_measures_without_the_extra_is_warned_once(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str) -> Any:
        raise LocalError("metrics of OpenTelemetry needs mcp-generated-extras: pip install 'mcp-generated[otel]'")

    monkeypatch.setattr(tracing, "load", missing)
    tracing._metrics_module.cache_clear()
    try:
        assert tracing.metrics_module() is tracing.metrics_module() is None
    finally:
        tracing._metrics_module.cache_clear()
    (record,) = caplog.records
    assert "pip install 'mcp-generated[otel]'" in record.getMessage()


# ---- logs ----------------------------------------------------------------------------------------------------------


async def test_a_line_of_json_has_the_trace_of_the_call() -> None:
    app, log = App("logs"), logging.getLogger("shop")

    @app.tool
    def buy(article: str) -> str:
        log.warning("%s was bought\nby someone", article, extra={"article": article})
        return "done"

    tracer = TracerProvider().get_tracer("tests")
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(handler.format(record))  # type: ignore[method-assign]
    handler.setFormatter(JSONLogFormatter())
    log.addHandler(handler)
    try:
        async with connect(app) as client:
            with tracer.start_as_current_span("the chat") as span:
                await client.call_tool("buy", {"article": "pan"})
    finally:
        log.removeHandler(handler)
    (line,) = seen
    members = json.loads(line)
    assert "\n" not in line and members["message"] == "pan was bought\nby someone"
    assert (members["level"], members["logger"], members["article"]) == ("WARNING", "shop", "pan")
    assert members["time"].endswith("+00:00")
    assert members["trace_id"] == f"{span.get_span_context().trace_id:032x}" and len(members["span_id"]) == 16


def test_a_line_of_json_has_the_exception_and_no_trace_without_one() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        record = logging.LogRecord("shop", logging.ERROR, "shop.py", 1, "failed: %s", ("x",), sys.exc_info())
    members = json.loads(JSONLogFormatter().format(record))
    assert members["exception"].endswith("ValueError: wrong") and members["message"] == "failed: x"
    assert "trace_id" not in members


@among(ALL_REVISIONS)
async def test_parts_of_messages_that_are_left_out_are_counted(rev: Rev, metrics: Metrics) -> None:
    tools = [{"name": "bad"}, {"inputSchema": {"type": "object"}}]

    async def list_tools(ctx: Any, params: Any) -> Any:
        return rev.t.ListToolsResult(tools=[]).model_copy(update={"tools": tools})

    async with client_of(rev, server_of(rev, list_tools=list_tools)) as client:
        assert (await client.list_tools()).tools == []
    attributes = {"mcp.method.name": "tools/list", "mcp.protocol.version": rev.id}
    assert metrics.points("mcp_runtime.left_out") == [(attributes, 2)]


async def test_losses_of_the_store_are_counted_by_each_worker(metrics: Metrics) -> None:
    store = InMemoryStore()
    async with workers(HANDSHAKE[-1], shop, store, 2) as client:
        for lost in range(1, 3):
            for records in (store._records, store._streams, store._counters):
                records.clear()
            for at in (0, 1):
                client.applications[at]._shared.worker._handle({"kind": "lost", "sender": "another"})
            async with asyncio.timeout(15):
                while metrics.points("mcp_runtime.store.losses") != [({}, 2 * lost)]:
                    await asyncio.sleep(0.01)


# ---- refused, resumed, undelivered ---------------------------------------------------------------------------------


def refused(metrics: Metrics) -> dict[str, int]:
    """How many requests each limit has refused."""
    return {attributes["limit"]: count for attributes, count in metrics.points("mcp_runtime.refused")}


@among(ALL_REVISIONS)
async def test_requests_that_a_limit_refuses_are_counted_by_the_limit(rev: Rev, metrics: Metrics) -> None:
    rates = {"call_tool": RateLimit(1e-6, burst=1)}
    app = App("limited", rate_limits=rates)
    app.tool(price)
    async with web(rev, app, limits=HTTPLimits(max_body=1000)) as client:
        for _ in range(2):
            await client.answered(body=call(rev))
        assert (await client.answered(body=b"x" * 2000)).status == 413
    assert refused(metrics) == {"rate_limits": 1, "max_body": 1}


@among(ALL_REVISIONS)
async def test_what_is_refused_to_a_tenant_is_counted_by_its_limit(rev: Rev, metrics: Metrics) -> None:
    tenants = Tenants(by=lambda request: "acme", limits=Limits(cost=RateLimit(1e-6, burst=1)))
    app = App("limited", tenant=tenants)
    app.tool(price)
    async with web(rev, app) as client:
        for _ in range(2):
            await client.answered(body=call(rev))
    assert refused(metrics) == {"cost": 1}


@among(ALL_REVISIONS)
async def test_errors_of_tools_that_name_a_limit_are_no_refusals(rev: Rev, metrics: Metrics) -> None:
    app = App("limited")
    found = iter([{"limit": "of the shop", "retryAfter": 1}, {"retryAfter": 1, "state": "open"}])

    @app.tool(name="price")
    def full(article: str) -> None:
        raise JSONRPCError(-32000, "full", next(found))

    async with web(rev, app) as client:
        for _ in range(2):
            await client.answered(body=call(rev))
    assert next(found, None) is None and refused(metrics) == {}


def test_each_limit_of_a_tenant_is_counted_by_its_name() -> None:
    assert set(KINDS) < {*happenings.LIMITS}


@among(HANDSHAKE[1:])
async def test_sessions_above_the_limit_and_streams_that_are_resumed_are_counted(rev: Rev, metrics: Metrics) -> None:
    async with web(rev, shop(), limits=HTTPLimits(max_sessions=1)) as client:
        body = rev.request(2, "tools/call", {"name": "price", "arguments": {"article": "pan"}})
        body["params"]["_meta"] = {"progressToken": "token"}
        answer = await client.answered(body=body)
        assert metrics.points("mcp_runtime.resumed") == []
        position = answer.events[0].id
        assert b"1999" in (await client.answered("GET", headers={"last-event-id": position})).content
        assert metrics.points("mcp_runtime.resumed") == [({}, 1)]
        session = client.session
        client.session = None
        assert (await client.open()).status == 503
        client.session = session
    assert refused(metrics) == {"max_sessions": 1}


@pytest.mark.deadline(10**9)  # It is on the clock that the test sets forward.
async def test_messages_that_other_workers_do_not_read_are_counted(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    passing = Passing(store, clock)
    one, other = Worker(store, "test"), Worker(store, "test")
    await one.subscribe()
    await other.subscribe()
    measured_stores.observe(one)
    ended = Worker(store, "test").id
    await one.deliver(other.id, "letter", number=1)
    await one.deliver(ended, "letter", number=1)
    assert metrics.points("mcp_runtime.messages.undelivered") == [({}, 2)]
    await passing.quiet(20.0)
    assert metrics.points("mcp_runtime.messages.undelivered") == [({}, 1)]
    assert metrics.points("mcp_runtime.messages.lost") == []
    await passing.quiet(700.0)
    assert metrics.points("mcp_runtime.messages.undelivered") == [({}, 0)]
    assert metrics.points("mcp_runtime.messages.lost") == [({}, 1)]
    for worker in (one, other):
        await worker.close()
    measured_stores.forget(one)
    assert metrics.points("mcp_runtime.messages.undelivered") == [({}, 0)]


@pytest.mark.deadline(10**9)  # It is on the clock that the test sets forward.
async def test_the_lag_of_the_store_grows_while_it_does_not_answer(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, store = MovableClock(monkeypatch), FailingStore()
    passing, worker = Passing(store, clock), Worker(store, "test")
    await worker.subscribe()
    measured_stores.observe(worker)
    await passing.quiet(20.0)
    ((_, lag),) = metrics.points("mcp_runtime.store.lag")
    assert lag <= 2.5
    store.outage.is_down = True
    await passing.quiet(20.0)
    ((_, lag),) = metrics.points("mcp_runtime.store.lag")
    assert lag >= 15.0
    store.outage.is_down = False
    await passing.quiet(5.0)
    ((_, lag),) = metrics.points("mcp_runtime.store.lag")
    assert lag <= 5.0
    measured_stores.forget(worker)
    await worker.close()


def test_the_parts_of_a_store_that_is_measured_are_known(metrics: Metrics) -> None:
    """Losses of a part of a cluster were not noticed where metrics were on."""
    store = InMemoryStore()
    assert RetryingStore(measured_stores.MeteredStore(store), 1.0).parts == ()
    store.parts = ["a", "b"]  # type: ignore[attr-defined]
    assert RetryingStore(measured_stores.MeteredStore(store), 1.0).parts == ["a", "b"]
