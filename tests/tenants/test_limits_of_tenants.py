"""Each limit of a tenant counts what it says, in every version and over every transport, and a refusal says which."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, Wire, among, server_of
from support.http.asgi_client import web
from support.http.in_process import connecting, served_in_process
from support.task_clients import by_hand, start_task, wait_for_status

from mcp_generated import App, Gateway, HTTPOptions, RateLimit, connect
from mcp_generated.tenants import Limits, TenantRequest, Tenants
from mcp_products.tenants.dispatcher import TenantDispatcher
from mcp_products.tenants.limits import KINDS
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.bindings.server import services_of
from mcp_runtime.errors import RemoteError, RemoteJSONRPCError
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.transports.memory import connect_in_memory

FEW = RateLimit(per_second=0.001, burst=2)
REQUESTS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "call": lambda client: client.call_tool(name="add", arguments={"a": 1, "b": 2}),
    "read": lambda client: client.read_resource(uri="note://one"),
    "prompt": lambda client: client.get_prompt(name="ask"),
    "complete": lambda client: client.complete(
        ref={"type": "ref/prompt", "name": "ask"}, argument={"name": "who", "value": "a"}
    ),
    "list": lambda client: client.list_tools(),
}


def limited(**limits: Any) -> App:
    """An app of one tenant with these limits."""
    app = App("app", tenant=Tenants(by=lambda request: "acme", limits=Limits(**limits)))
    app.going = asyncio.Event()  # type: ignore[attr-defined]
    app.goes_on = asyncio.Event()  # type: ignore[attr-defined]

    @app.tool(meta={"cost": 3})
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def wait() -> str:
        app.going.set()  # type: ignore[attr-defined]
        await app.goes_on.wait()  # type: ignore[attr-defined]
        return "done"

    @app.tool
    async def repeat(number: int) -> str:
        return "a" * number

    @app.resource("note://one")
    async def one() -> str:
        return "one"

    @app.prompt
    async def ask(who: str = "") -> str:
        return "?"

    @app.completion
    async def names(ref: Any, argument: Any) -> list[str]:
        return ["anna"]

    return app


def connected(rev: Rev, server: Any, over: str = "memory") -> Any:
    kind = type("Speaking", (rev.package.Client,), {})
    core = server.as_server() if isinstance(server, App) else server
    if over == "memory":
        return kind.memory(*server_candidates(core, "all"))
    return kind(connecting(core, rev.revision))


def check(error: Exception, limit: str) -> None:
    """The refusal names the limit, and when to come back."""
    assert isinstance(error, RemoteJSONRPCError), error
    data = cast("dict[str, Any]", error.data)
    assert data["limit"] == limit, error
    assert data["retryAfter"] > 0, error
    assert repr(limit) in error.message, error


async def outcome(request: Awaitable[Any], limit: str) -> bool:
    try:
        await request
    except RemoteError as error:
        check(error, limit)
        return False
    return True


@pytest.mark.parametrize("over", ["memory", "http"])
@pytest.mark.parametrize("name", REQUESTS)
@among(ALL_REVISIONS)
async def test_every_request_is_a_call(rev: Rev, name: str, over: str) -> None:
    async with connected(rev, limited(calls=FEW), over) as client:
        assert [await outcome(REQUESTS[name](client), "calls") for _ in range(3)] == [True, True, False]


@among(ALL_REVISIONS)
async def test_a_connection_is_alive_at_the_limit(rev: Rev) -> None:
    async with connected(rev, limited(calls=FEW)) as client:
        assert [await outcome(client.list_tools(), "calls") for _ in range(3)] == [True, True, False]
        if rev in HANDSHAKE:
            await client.ping()
        else:
            await client.discover()


@among(ALL_REVISIONS)
async def test_tenants_do_not_share_a_limit(rev: Rev) -> None:
    names = iter(["one", "one", "two", "one", "two", "two"])

    def by(request: TenantRequest) -> str:
        return next(names) if request.method == "tools/list" else "other"

    app = App("app", declare=["tools"], tenant=Tenants(by=by, limits=Limits(calls=FEW)))
    async with connected(rev, app) as client:
        outcomes = [await outcome(client.list_tools(), "calls") for _ in range(6)]
    assert outcomes == [True, True, True, False, True, False]


@among(ALL_REVISIONS)
async def test_each_tenant_may_have_its_own_limits(rev: Rev) -> None:
    names = iter(["free", "free", "free", "gold", "gold", "gold"])
    app = App(
        "app",
        declare=["tools"],
        tenant=Tenants(
            by=lambda request: next(names) if request.method == "tools/list" else "other",
            limits=lambda name: Limits(calls=FEW) if name == "free" else Limits(),
        ),
    )
    async with connected(rev, app) as client:
        outcomes = [await outcome(client.list_tools(), "calls") for _ in range(6)]
    assert outcomes == [True, True, False, True, True, True]


@among(ALL_REVISIONS)
async def test_a_tool_costs_what_it_declares(rev: Rev) -> None:
    async with connected(rev, limited(cost=RateLimit(0.001, burst=7))) as client:
        calls = [await outcome(REQUESTS["call"](client), "cost") for _ in range(3)]
        assert calls == [True, True, False], "3 units each"
        assert await outcome(REQUESTS["read"](client), "cost"), "a read costs nothing"
        assert await outcome(client.call_tool(name="repeat", arguments={"number": 1}), "cost"), "one unit"
        assert not await outcome(client.call_tool(name="repeat", arguments={"number": 1}), "cost")


@among(ALL_REVISIONS)
async def test_a_tool_that_costs_more_than_the_burst_can_be_called(rev: Rev) -> None:
    async with connected(rev, limited(cost=RateLimit(0.001, burst=2))) as client:
        assert [await outcome(REQUESTS["call"](client), "cost") for _ in range(2)] == [True, False]


@among(ALL_REVISIONS)
async def test_a_large_result_is_paid_by_the_next_request(rev: Rev) -> None:
    async with connected(rev, limited(bytes=RateLimit(0.001, burst=5000))) as client:
        long = {"name": "repeat", "arguments": {"number": 10_000}}
        assert [await outcome(client.call_tool(**long), "bytes") for _ in range(2)] == [True, False]


@pytest.mark.parametrize("over", ["memory", "http"])
@among(ALL_REVISIONS)
async def test_calls_at_once_have_a_limit_and_end(rev: Rev, over: str) -> None:
    app: Any = limited(at_once=1)
    async with connected(rev, app, over) as client:
        running = asyncio.ensure_future(client.call_tool(name="wait", arguments={}))
        await app.going.wait()
        assert not await outcome(client.list_tools(), "at_once")
        app.goes_on.set()
        await running
        assert await outcome(client.list_tools(), "at_once")


@among(ALL_REVISIONS)
async def test_a_cancelled_call_gives_back_its_place(rev: Rev) -> None:
    app: Any = limited(at_once=1)
    async with connected(rev, app) as client:
        running = asyncio.ensure_future(client.call_tool(name="wait", arguments={}))
        await app.going.wait()
        running.cancel()
        await asyncio.wait([running])
        async with asyncio.timeout(10):
            while not await outcome(client.list_tools(), "at_once"):
                await asyncio.sleep(0)


@among(HANDSHAKE)
async def test_sessions_have_a_limit_and_end(rev: Rev) -> None:
    app = limited(sessions=1)
    async with connected(rev, app) as client:
        await client.list_tools()
        with pytest.raises(RemoteError) as refused:
            async with connected(rev, app):
                raise AssertionError("there is room for one session only")
        check(refused.value, "sessions")
    async with connected(rev, app) as client:
        await client.list_tools()


@among(HANDSHAKE)
async def test_a_client_that_goes_on_after_a_refusal_is_refused_again(rev: Rev) -> None:
    app = limited(sessions=1)
    async with connected(rev, app) as client:
        await client.list_tools()
        wire = Wire(await connect_in_memory(services_of(server_candidates(app.as_server(), "all")))())
        opened = await wire.shake_hands(rev)
        listed = await wire.request(rev.request(1, "tools/list"))
        assert [answer["error"]["data"]["limit"] for answer in (opened, listed)] == ["sessions", "sessions"]
        await wire.transport.close()


@among(HANDSHAKE)
async def test_subscribed_resources_have_a_limit(rev: Rev) -> None:
    app = limited(subscriptions=1)

    @app.resource("note://two")
    async def two() -> str:
        return "two"

    async with connected(rev, app) as client:
        assert await outcome(client.subscribe(uri="note://one"), "subscriptions")
        assert await outcome(client.subscribe(uri="note://one"), "subscriptions"), "it is subscribed already"
        assert not await outcome(client.subscribe(uri="note://two"), "subscriptions")
        await client.unsubscribe(uri="note://one")
        assert await outcome(client.subscribe(uri="note://two"), "subscriptions")
    async with connected(rev, app) as client:
        assert await outcome(client.subscribe(uri="note://one"), "subscriptions"), "the session has ended"


@among(STATELESS)
async def test_streams_of_subscriptions_have_a_limit_and_end(rev: Rev) -> None:
    async with connected(rev, limited(subscriptions=1)) as client:
        async with client.listen(resource_updated=["note://one"]):
            with pytest.raises(RemoteError) as refused:
                async with client.listen(resource_updated=["note://one"]):
                    raise AssertionError("there is room for one stream only")
            check(refused.value, "subscriptions")
        async with asyncio.timeout(10):
            while True:
                try:
                    async with client.listen(resource_updated=["note://one"]):
                        break
                except RemoteError as error:
                    check(error, "subscriptions")


async def test_tasks_have_a_limit_and_end() -> None:
    app: Any = limited(tasks=1)

    @app.tool(task=True)
    async def work() -> str:
        await app.goes_on.wait()
        return "done"

    async with by_hand(app.server) as client:
        id = await start_task(client, "work")
        with pytest.raises(RemoteError) as refused:
            await start_task(client, "work")
        check(refused.value, "tasks")
        app.goes_on.set()
        await wait_for_status(client, id, "completed")
        for made in held_since_before(app):
            made[2] -= 10
        await start_task(client, "work")


def held_since_before(app: Any) -> list[list[float]]:
    """The tasks that the limits know of, as if they had begun long ago."""
    accounts = vars(app.server.parts.tenant)["_accounts"]
    records = vars(vars(accounts)["_records"])["_local"]
    return [own for record in records.values() for own in record.get("tasks", {}).values()]


@among(ALL_REVISIONS)
async def test_a_server_class_has_tenants(rev: Rev) -> None:
    async def list_tools(ctx: Any, params: Any) -> Any:
        return rev.t.ListToolsResult(tools=[]) if not rev.stateless else {"tools": []}

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text("done")

    kind = type(server_of(rev, call_tool=call_tool))
    tenants = Tenants(by="user", limits=Limits(cost=RateLimit(0.001, burst=6)), costs={"render": 4})
    server = kind(name="served", version="1", tenant=tenants)
    async with connected(rev, server) as client:
        assert [await outcome(client.call_tool(name="render", arguments={}), "cost") for _ in range(2)] == [True, False]
        assert await outcome(client.call_tool(name="other", arguments={}), "cost")


@among(ALL_REVISIONS)
async def test_a_gateway_has_tenants(rev: Rev) -> None:
    tenants = Tenants(by="user", limits=Limits(calls=FEW))
    gateway = Gateway({"upstreams": {"one": {"url": "http://127.0.0.1:9/mcp"}}}, tenant=tenants)
    async with connected(rev, gateway.app) as client:
        assert [await outcome(client.list_tools(), "calls") for _ in range(3)] == [True, True, False]


# ---- over HTTP -------------------------------------------------------------------------------------------------------


def answer_of(answer: Any) -> Any:
    return answer.json if answer.content[:1] in (b"{", b"[") else answer.json_messages[-1]


@among([*HANDSHAKE[1:], *STATELESS])
async def test_a_refusal_over_http_has_retry_after(rev: Rev) -> None:
    async with web(rev, limited(calls=RateLimit(0.1, burst=1))) as client:
        for id in range(2):
            body = rev.request(id, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            answer = await client.answered(body=body)
        error = answer_of(answer)["error"]
        assert error["data"]["limit"] == "calls"
        assert answer.headers["retry-after"] == str(math.ceil(error["data"]["retryAfter"])) == "10"


@among([*HANDSHAKE[1:], *STATELESS])
async def test_what_asks_for_nothing_counts_for_nothing(rev: Rev) -> None:
    """It is refused where it is read, and never reaches what counts and what costs."""
    async with web(rev, limited(calls=RateLimit(0.1, burst=1))) as client:
        for method, params, code in [("acme/none", {}, -32601), ("tools/list", {"cursor": 5}, -32602)] * 3:
            answer = await client.answered(body=rev.request(1, method, params))
            assert answer_of(answer)["error"]["code"] == code
        listed = [answer_of(await client.answered(body=rev.request(1, "tools/list"))) for _ in range(2)]
        assert ["error" in answer for answer in listed] == [False, True]
        assert listed[1]["error"]["data"]["limit"] == "calls"


@among(HANDSHAKE[1:])
async def test_a_session_that_is_refused_over_http_is_none(rev: Rev) -> None:
    async with web(rev, limited(sessions=1)) as client:
        first = client.session
        client.session = None
        refused = await client.open()
        assert answer_of(refused)["error"]["data"] == {"limit": "sessions", "retryAfter": 10.0}
        assert refused.headers["retry-after"] == "10"
        assert "mcp-session-id" not in refused.headers
        client.session = first
        await client.answered("DELETE")
        client.session = None
        assert "result" in answer_of(await client.open())


@among(STATELESS)
async def test_a_stream_that_its_client_has_left_is_free(rev: Rev) -> None:
    async with web(rev, limited(subscriptions=1)) as client:
        listen = rev.request(1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["note://one"]}})
        first = client.request(body=listen)
        await first.messages(1)
        refused = await client.answered(body=listen)
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        await first.leave()
        again = client.request(body=listen)
        assert (await again.messages(1))[0]["method"] == "notifications/subscriptions/acknowledged"
        await again.leave()


@among([rev for rev in HANDSHAKE if rev.id == "2025-03-26"])
async def test_each_request_of_a_batch_counts(rev: Rev) -> None:
    async with web(rev, limited(calls=FEW)) as client:
        batch = [rev.request(id, "tools/list") for id in range(4)]
        answers = answer_of(await client.answered(body=batch))
        assert ["result" in answer for answer in answers] == [True, True, False, False]


async def test_http_sse_of_2024_has_the_same_limits() -> None:
    async with served_in_process(limited(calls=FEW).asgi(legacy_sse=True)) as port:
        async with connect(f"http://127.0.0.1:{port}/sse", http=HTTPOptions()) as client:
            assert [await outcome(client.list_tools(), "calls") for _ in range(3)] == [True, True, False]


# ---- without tenants -------------------------------------------------------------------------------------------------


def test_every_limit_is_a_row_of_the_table() -> None:
    assert [*KINDS] == [*Limits.__dataclass_fields__]


@among(ALL_REVISIONS)
async def test_without_tenants_there_is_nothing_around_the_dispatcher(rev: Rev) -> None:
    for service in services_of((App("app"),)):
        each: Any = service.get().dispatcher(SimpleNamespace())
        while hasattr(each, "wrapped"):  # What logs and measures, where another test has turned that on.
            assert not isinstance(each, TenantDispatcher)
            each = each.wrapped
        assert type(each) is ServerDispatcher
