"""Traces of OpenTelemetry that go on from a client to its server, over all revisions and both forms of requests."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not there")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import TraceState
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, Tap, among, client_of, server_of, wire_to

from mcp_runtime.session.requests import RequestOptions

TRACER = TracerProvider().get_tracer("tests")  # Not the global one: other tests are not traced.
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def where() -> str:
    """The trace, the span and the baggage that are current."""
    now = trace.get_current_span().get_span_context()
    return f"{now.trace_id:032x} {now.span_id:016x} {dict(baggage.get_all())}"


def telling(rev: Rev, **more: Any) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(where())

    return server_of(rev, call_tool=call_tool, **more)


async def text(client: Any, **settings: Any) -> str:
    answer: str = (await client.call_tool(name="x", **settings)).content[0].text
    return answer


@among(ALL_REVISIONS)
async def test_the_span_of_a_client_is_the_parent_of_what_the_handler_does(rev: Rev) -> None:
    async with client_of(rev, telling(rev)) as client:
        with TRACER.start_as_current_span("asking"):
            token = context.attach(baggage.set_baggage("user", "ann b"))
            try:
                here = where()
                assert await text(client) == here
            finally:
                context.detach(token)
        assert "user" in here and here != where()
        assert await text(client) == where()


@among(ALL_REVISIONS)
async def test_a_handler_in_a_thread_is_in_the_trace_and_leaves_none_behind(rev: Rev) -> None:
    def call_tool(ctx: Any, params: Any) -> Any:
        with TRACER.start_as_current_span("inside") as span:
            parent = span.parent  # type: ignore[attr-defined]
            return rev.text(f"{parent and parent.span_id:x}")

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        for _ in range(2):
            with TRACER.start_as_current_span("asking") as span:
                assert await text(client) == f"{span.get_span_context().span_id:x}"


@among(ALL_REVISIONS)
async def test_the_newest_client_takes_its_trace_to_servers_of_every_revision(rev: Rev) -> None:
    async with connect(telling(rev)) as client:
        with TRACER.start_as_current_span("asking"):
            assert await text(client) == where()


@among(HANDSHAKE)
async def test_a_handler_that_asks_its_client_takes_the_trace_with_it(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        with TRACER.start_as_current_span("inside"):
            await ctx.list_roots()
            return rev.text(where())

    spans: list[str] = []

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        spans.append(where())
        return rev.t.ListRootsResult(roots=[])

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        assert [await text(client)] == spans


@among(STATELESS)
async def test_rounds_of_questions_go_on_inside_a_trace(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        with TRACER.start_as_current_span("inside"):
            await ctx.list_roots()
            await ctx.list_roots()
        return rev.text(where())

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[])

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        with TRACER.start_as_current_span("asking"):
            assert await text(client) == where()


@among(ALL_REVISIONS)
async def test_it_is_on_the_wire_as_w3c_has_it_and_what_a_caller_gives_goes_first(rev: Rev) -> None:
    tap = Tap(telling(rev))
    state = TraceState([("vendor", "1")])
    span = trace.SpanContext(int(TRACE, 16), int(SPAN, 16), True, trace.TraceFlags(1), state)
    async with client_of(rev, tap) as client:
        await text(client)
        token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))
        try:
            await text(client)
            await text(client, options=RequestOptions(meta={"traceparent": f"00-{TRACE}-{SPAN[::-1]}-00"}))
        finally:
            context.detach(token)
    metas = [message["params"].get("_meta", {}) for message in tap.sent if message.get("method") == "tools/call"]
    assert "traceparent" not in metas[0]
    assert metas[1]["traceparent"] == f"00-{TRACE}-{SPAN}-01" and metas[1]["tracestate"] == "vendor=1"
    assert metas[2]["traceparent"] == f"00-{TRACE}-{SPAN[::-1]}-00"


@among(ALL_REVISIONS)
async def test_what_is_no_trace_is_none(rev: Rev) -> None:
    async with wire_to(telling(rev), opened=rev) as wire:
        wrong: list[Any] = ["", "00", f"00-{'0' * 32}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01", 7, None, {}, "x" * 10_000]
        for id, traceparent in enumerate(wrong):
            meta = {"traceparent": traceparent, "baggage": "a" * 10_000}
            answer = await wire.request(rev.request(id, "tools/call", {"name": "x", "_meta": meta}))
            assert answer["result"]["content"][0]["text"] == where()
        meta = {"traceparent": f"00-{TRACE}-{SPAN}-01", "baggage": "a=1"}
        answer = await wire.request(rev.request("right", "tools/call", {"name": "x", "_meta": meta}))
        assert answer["result"]["content"][0]["text"] == f"{TRACE} {SPAN} {{'a': '1'}}"


USES = """
import asyncio, sys
from mcp_generated.v2026_07_28 import Client, Server, types as t
class S(Server):
    async def list_tools(self, ctx, params): return t.ListToolsResult(tools=[])
async def main():
    async with Client.memory(S(name="s", version="1")) as client: await client.list_tools()
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry") or name == "mcp_products.telemetry.spans"])
"""


def loaded(code: str) -> str:
    """What of tracing a program has loaded."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    return done.stdout.strip()


def test_where_nobody_traces_opentelemetry_is_never_loaded() -> None:
    assert loaded(USES) == "[]"


@pytest.mark.long
def test_what_a_library_imports_of_opentelemetry_makes_no_spans() -> None:
    assert "spans" not in loaded(f"import opentelemetry.trace, opentelemetry.baggage{USES}")
    provider = "from opentelemetry import trace as o; from opentelemetry.sdk.trace import TracerProvider as P"
    assert "spans" in loaded(f"{provider}; o.set_tracer_provider(P()){USES}")
