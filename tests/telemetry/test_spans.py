"""Spans of OpenTelemetry for requests, as its semantic conventions for MCP have them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.clients import connect
from support.traces.exporters import exporter as exporter

from mcp_generated import App, Context, RemoteJSONRPCError
from mcp_generated.v2025_06_18 import Client as HandshakeClient
from mcp_generated.v2026_07_28 import Client as StatelessClient

CLIENTS = [HandshakeClient, StatelessClient]
app = App("traced")


@app.tool
def add(a: int, b: int) -> int:
    with trace.get_tracer("tool").start_as_current_span("adding"):
        return a + b


@app.tool
def fail() -> None:
    raise ValueError("no")


@app.tool
async def research(ctx: Context) -> str:
    return str((await ctx.sample("x")).text)


@app.resource("traced://here")
def resource() -> str:
    return "text"


@app.prompt
def greet() -> str:
    return "hello"


def spans(exporter: InMemorySpanExporter, method: str) -> dict[SpanKind, ReadableSpan]:
    """Return the spans of one request of this method, by kind."""
    seen = [span for span in exporter.get_finished_spans() if (span.attributes or {}).get("mcp.method.name") == method]
    assert len(seen) == 2, [span.name for span in seen]
    return {span.kind: span for span in seen}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_call_has_a_span_on_either_side_in_one_trace(kind: Any, exporter: InMemorySpanExporter) -> None:
    async with kind.memory(app) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    both = spans(exporter, "tools/call")
    client_span, server_span = both[SpanKind.CLIENT], both[SpanKind.SERVER]
    assert [span.name for span in both.values()] == ["tools/call add"] * 2
    assert server_span.parent is not None and client_span.context is not None and server_span.context is not None
    assert server_span.parent.span_id == client_span.context.span_id
    [inside] = [span for span in exporter.get_finished_spans() if span.name == "adding"]
    assert inside.parent is not None and inside.parent.span_id == server_span.context.span_id
    expected = {"gen_ai.tool.name": "add", "gen_ai.operation.name": "execute_tool"}
    for span in both.values():
        assert expected.items() <= dict(span.attributes or {}).items()
        assert span.status.status_code is StatusCode.UNSET
    attributes = dict(server_span.attributes or {})
    assert attributes["mcp.protocol.version"] == kind.revision.id
    assert attributes["jsonrpc.request.id"]


@pytest.mark.parametrize("kind", CLIENTS)
async def test_resources_prompts_and_lists_have_names_without_many_values(
    kind: Any, exporter: InMemorySpanExporter
) -> None:
    async with kind.memory(app) as client:
        await client.read_resource("traced://here")
        await client.get_prompt("greet")
        await client.list_tools()
    read, prompt, listed = (spans(exporter, name) for name in ("resources/read", "prompts/get", "tools/list"))
    assert {span.name for span in read.values()} == {"resources/read"}
    assert all((span.attributes or {})["mcp.resource.uri"] == "traced://here" for span in read.values())
    assert {span.name for span in prompt.values()} == {"prompts/get greet"}
    assert all((span.attributes or {})["gen_ai.prompt.name"] == "greet" for span in prompt.values())
    assert {span.name for span in listed.values()} == {"tools/list"}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_failures_are_errors_with_their_type(kind: Any, exporter: InMemorySpanExporter) -> None:
    async with kind.memory(app) as client:
        await client.call_tool("fail")
        both = spans(exporter, "tools/call")
        exporter.clear()
        with pytest.raises(RemoteJSONRPCError):
            await client.get_prompt("missing")
    for span in both.values():
        assert (span.attributes or {})["error.type"] == "tool_error"
        assert span.status.status_code is StatusCode.ERROR
    for span in spans(exporter, "prompts/get").values():
        assert (span.attributes or {})["rpc.response.status_code"] == "-32602"
        assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("kind", CLIENTS)
async def test_input_requests_are_no_errors(kind: Any, exporter: InMemorySpanExporter) -> None:
    class Sampling(kind):  # type: ignore[misc]
        async def on_create_message(self, ctx: Any, params: Any) -> Any:
            types = sys.modules[type(params).__module__]
            content = types.TextContent(text="fine")
            return types.CreateMessageResult(role="assistant", content=content, model="m")

    async with Sampling.memory(app) as client:
        assert (await client.call_tool("research")).content[0].text == "fine"
    calls = [span for span in exporter.get_finished_spans() if span.name == "tools/call research"]
    assert calls
    assert {span.status.status_code for span in calls} == {StatusCode.UNSET}


@pytest.mark.long
def test_a_program_without_opentelemetry_never_loads_it() -> None:
    program = """
import asyncio, sys
from mcp_generated import App, connect
app = App("app")
@app.tool
def tool() -> str:
    return "done"
async def main():
    async with connect(app) as client:
        await client.call_tool("tool")
asyncio.run(main())
print([name for name in sys.modules if "opentelemetry" in name or name.endswith("session.spans")])
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout.strip()) == (0, "[]")


@pytest.mark.parametrize("provider", ["", "sdk_tracer_provider"])
@pytest.mark.parametrize("version", ["this one", "one without the attribute"])
def test_a_provider_may_be_chosen_by_the_environment(provider: str, version: str) -> None:
    program = """
import sys
from opentelemetry import trace
from mcp_products.telemetry import is_recorded
if sys.argv[1] != "this one":
    module = type(trace)(trace.__name__)
    vars(module).update({name: value for name, value in vars(trace).items() if name != "_TRACER_PROVIDER"})
    sys.modules[trace.__name__] = module
print(is_recorded(), is_recorded())
"""
    environment = {**os.environ, **({"OTEL_PYTHON_TRACER_PROVIDER": provider} if provider else {})}
    process = subprocess.run(
        [sys.executable, "-c", program, version], capture_output=True, text=True, timeout=60, env=environment
    )
    assert process.stdout.strip() == f"{bool(provider)} {bool(provider)}", process.stderr


async def test_without_a_provider_nothing_is_recorded() -> None:
    async with connect(app) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}
