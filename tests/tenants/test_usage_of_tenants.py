"""What each request of a tenant has used is reported once, to a function or to OpenTelemetry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.installation.extras import optional

from mcp_generated import App, JSONRPCError, RateLimit
from mcp_generated.tenants import Limits, Tenants, Usage
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import LocalError, RemoteError


def measured(usage: Any, **limits: Any) -> App:
    app = App("app", tenant=Tenants(by=lambda request: "acme", limits=Limits(**limits), usage=usage))

    @app.tool(meta={"cost": 3})
    async def say(text: str) -> str:
        return text

    @app.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    return app


def connected(rev: Rev, app: App) -> Any:
    return type("Speaking", (rev.package.Client,), {}).memory(*server_candidates(app.server, "all"))


@among(ALL_REVISIONS)
async def test_each_request_is_reported_with_what_it_has_used(rev: Rev) -> None:
    reported: list[Usage] = []
    async with connected(rev, measured(reported.append, cost=RateLimit(0.001, burst=3))) as client:
        reported.clear()
        await client.call_tool(name="say", arguments={"text": "a" * 1000})
        with pytest.raises(RemoteError):
            await client.call_tool(name="say", arguments={"text": "again"})
        await client.list_tools()
    said, refused, listed = reported[:3]
    assert (said.tenant, said.tool, said.cost, said.outcome, said.limit) == ("acme", "say", 3.0, "result", None)
    assert said.bytes_received > 1000
    assert said.bytes_sent > 1000
    assert said.seconds >= 0
    assert (refused.tool, refused.cost, refused.outcome, refused.limit) == ("say", 0.0, "refused", "cost")
    assert (listed.tool, listed.cost, listed.outcome) == (None, 0.0, "result")
    assert len({said.method, listed.method}) == 2


@among(ALL_REVISIONS)
async def test_a_cancelled_request_is_reported(rev: Rev) -> None:
    reported: list[Usage] = []
    ended = asyncio.Event()

    def note(used: Usage) -> None:
        reported.append(used)
        if used.tool == "wait":
            ended.set()

    async with connected(rev, measured(note)) as client:
        waiting = asyncio.ensure_future(client.call_tool(name="wait", arguments={}))
        await client.list_tools()
        waiting.cancel()
        await asyncio.wait([waiting])
        await ended.wait()
    assert [used.outcome for used in reported if used.tool == "wait"] == ["cancelled"]


@among(ALL_REVISIONS)
async def test_an_error_of_a_tool_with_a_limit_in_its_data_is_no_refusal(rev: Rev) -> None:
    reported: list[Usage] = []
    app = measured(reported.append)

    @app.tool(meta={"cost": 3})
    async def fail() -> str:
        raise JSONRPCError(-32000, "the shop is full", {"limit": "of the shop"})

    async with connected(rev, app) as client:
        with pytest.raises(RemoteError, match="the shop is full"):
            await client.call_tool(name="fail", arguments={})
    assert [(used.outcome, used.limit, used.cost) for used in reported if used.tool] == [("error", None, 3.0)]


async def test_a_report_that_fails_harms_no_request(caplog: pytest.LogCaptureFixture) -> None:
    def fail(used: Usage) -> None:
        raise RuntimeError("the bill is lost")

    async with connected(ALL_REVISIONS[-1], measured(fail)) as client:
        result = await client.call_tool(name="say", arguments={"text": "a"})
        assert result.content[0].text == "a"
    assert "the use of the tenant 'acme' was not reported" in caplog.text


def test_a_wrong_word_is_refused_with_the_right_one() -> None:
    with pytest.raises(LocalError, match='a function of a Usage, or "opentelemetry"'):
        Tenants(by="user", limits=Limits(), usage="otel")  # type: ignore[arg-type]


async def test_opentelemetry_gets_metrics_and_a_log_record(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("opentelemetry.sdk")
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from mcp_products.tenants import otel

    exporter, reader, logs = InMemoryLogRecordExporter(), InMemoryMetricReader(), LoggerProvider()
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    meters = MeterProvider([reader])
    monkeypatch.setattr(otel, "get_meter", meters.get_meter)
    monkeypatch.setattr(otel, "get_logger", logs.get_logger)
    vars(otel)["_counter"].cache_clear()
    async with connected(ALL_REVISIONS[-1], measured("opentelemetry")) as client:
        await client.call_tool(name="say", arguments={"text": "a"})
    vars(otel)["_counter"].cache_clear()
    data: Any = reader.get_metrics_data()
    found = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    assert found.keys() == {f"mcp_runtime.tenant.{name}" for name in ("requests", "cost", "received", "sent")}
    assert sum(point.value for point in found["mcp_runtime.tenant.cost"].data.data_points) == 3.0
    records = [item.log_record for item in exporter.get_finished_logs()]
    (record,) = [item for item in records if item.attributes.get("gen_ai.tool.name") == "say"]
    assert (record.event_name, record.attributes["tenant"], record.attributes["cost"]) == (
        "mcp_runtime.tenant.usage",
        "acme",
        3.0,
    )
