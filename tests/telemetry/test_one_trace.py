"""One trace from a program through a proxy, a gateway and its servers to the tool, with the right parents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not there")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among
from support.http.asgi_client import web
from support.peers import started
from support.processes import free_port
from support.project import TESTS
from support.stores.balancers import NGINX, required, wait_until_ready
from support.traces.exporters import exporter as exporter
from support.traces.traced_program import line_of

from mcp_generated import App, Client

PROGRAM = TESTS / "support" / "traces" / "traced_program.py"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]  # 2024-11-05 has no Streamable HTTP.
PROXY = """
server {{
    listen 127.0.0.1:{port};
    location / {{
        proxy_pass {target};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_buffering off;
    }}
}}
"""


def lines_of(exporter: InMemorySpanExporter) -> list[dict[str, Any]]:
    return [line_of(span, "client") for span in exporter.get_finished_spans()]


def traced() -> App:
    app = App("traced")

    @app.tool
    def work() -> str:
        return str(dict(baggage.get_all()))

    return app


# ---- headers of HTTP -------------------------------------------------------------------------------------------------


def call(rev: Rev, **meta: str) -> Any:
    return rev.request(1, "tools/call", {"name": "work", "arguments": {}, **({"_meta": meta} if meta else {})})


@among(ALL_REVISIONS)
async def test_a_trace_in_the_headers_is_that_of_the_call(rev: Rev, exporter: InMemorySpanExporter) -> None:
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1", "baggage": "user=ann"}
    async with web(rev, traced()) as client:
        answer = await client.answered(body=call(rev), headers=headers)
        assert b"ann" in answer.content
        inner = await client.answered(body=call(rev, traceparent=f"00-{TRACE[::-1]}-{SPAN[::-1]}-01"), headers=headers)
        assert b"ann" not in inner.content
    by_headers, by_meta = (line for line in lines_of(exporter) if line["name"] == "tools/call work")
    assert (by_headers["trace"], by_headers["parent"], by_headers["state"]) == (TRACE, SPAN, "vendor=1")
    assert (by_meta["trace"], by_meta["parent"]) == (TRACE[::-1], SPAN[::-1])  # What the client says goes first.


@among(ALL_REVISIONS)
async def test_a_span_of_a_middleware_is_the_parent_in_the_trace_of_the_headers(
    rev: Rev, exporter: InMemorySpanExporter
) -> None:
    async with web(rev, traced()) as client:
        application = client.app

        async def middleware(scope: Any, receive: Any, send: Any) -> None:
            parent = trace.SpanContext(int(TRACE, 16), int(SPAN, 16), True, trace.TraceFlags(1))
            around = trace.set_span_in_context(trace.NonRecordingSpan(parent))
            with trace.get_tracer("web").start_as_current_span("POST /mcp", around):
                await application(scope, receive, send)

        client.app = middleware
        await client.answered(body=call(rev), headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
        client.app = application
    spans = {line["name"]: line for line in lines_of(exporter)}
    assert spans["tools/call work"]["trace"] == TRACE
    expected = {SPAN, spans["POST /mcp"]["span"]}
    assert spans["tools/call work"]["parent"] in expected


@among(ALL_REVISIONS)
@pytest.mark.parametrize("wrong", ["", "00", f"00-{'0' * 32}-{SPAN}-01", "x" * 9000])
async def test_headers_without_a_trace_begin_none(rev: Rev, wrong: str, exporter: InMemorySpanExporter) -> None:
    async with web(rev, traced()) as client:
        assert b"{}" in (await client.answered(body=call(rev), headers={"traceparent": wrong})).content
    (line,) = [line for line in lines_of(exporter) if line["name"] == "tools/call work"]
    assert line["parent"] is None


# ---- clients ---------------------------------------------------------------------------------------------------------


@among(HANDSHAKE)
async def test_a_call_that_is_converted_for_its_server_has_one_span(rev: Rev, exporter: InMemorySpanExporter) -> None:
    async with connect(traced(), revisions=[rev.id]) as client:
        await client.call_tool("work")
    client_span, server_span = sorted(
        (line for line in lines_of(exporter) if line["name"] == "tools/call work"), key=lambda line: str(line["kind"])
    )
    assert (client_span["kind"], server_span["kind"]) == ("CLIENT", "SERVER")
    assert server_span["parent"] == client_span["span"] and client_span["parent"] is None
    assert client_span["attributes"]["mcp.protocol.version"] == rev.id


@among([rev for rev in ALL_REVISIONS if rev.id in REVISIONS])
async def test_proxies_see_the_trace_of_a_call_in_its_headers(rev: Rev, exporter: InMemorySpanExporter) -> None:
    application = traced().asgi()
    seen: list[dict[str, str]] = []

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        seen.append({name.decode(): value.decode() for name, value in scope.get("headers", ())})
        await application(scope, receive, send)

    async with Client(proxy, revisions=[rev.id]) as client:
        token = context.attach(baggage.set_baggage("user", "ann"))
        await client.call_tool("work")
        context.detach(token)
        await client.call_tool("work", meta={"traceparent": "not\r\na header", "baggage": "no ASCII: \xe9"})
    first, _ = (line for line in lines_of(exporter) if (line["kind"], line["name"]) == ("CLIENT", "tools/call work"))
    parents = [headers["traceparent"].split("-")[1:3] for headers in seen if "traceparent" in headers]
    assert [first["trace"], first["span"]] in parents
    assert {headers["baggage"] for headers in seen if "baggage" in headers} == {"user=ann"}
    assert not [headers for headers in seen if "not" in headers.get("traceparent", "")]


# ---- processes -------------------------------------------------------------------------------------------------------


@contextmanager
def process(spans: Path, *arguments: str) -> Iterator[str]:
    """The URL of a process that writes its spans to a file."""
    server = started([sys.executable, str(PROGRAM), str(spans), *arguments], dict(os.environ), "listening at ")
    try:
        yield server.output.split("listening at ")[1].strip()
    finally:
        server.process.terminate()
        server.process.wait(30)


@contextmanager
def nginx(folder: Path, target: str) -> Iterator[str]:
    """The URL of the endpoint behind a proxy."""
    port = free_port()
    (folder / "mcp.conf").write_text(PROXY.format(port=port, target=target.removesuffix("/mcp")))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    proxy = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")])
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        proxy.terminate()
        proxy.wait(30)


SETTINGS = """
[gateway]
name = "traced"
health = "/health"
[upstreams.web]
url = {url}
[upstreams.pipe]
command = {python}
args = [{program}, {spans}, "stdio"]
"""


@pytest.mark.long
@pytest.mark.deadline(120)
@pytest.mark.skipif(sys.platform == "win32", reason="nginx is a proxy of POSIX here")
@pytest.mark.parametrize("version", REVISIONS)
async def test_one_trace_through_nginx_a_gateway_and_its_servers(
    version: str, tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    required("nginx")
    spans, settings = tmp_path / "spans.jsonl", tmp_path / "gateway.toml"
    with process(spans, "http") as url:
        texts = {"url": url, "python": sys.executable, "program": str(PROGRAM), "spans": str(spans)}
        settings.write_text(SETTINGS.format(**{name: json.dumps(text) for name, text in texts.items()}))
        with process(spans, "gateway", str(settings)) as gateway, nginx(tmp_path, gateway) as front:
            async with connect(front, revisions=[version]) as client:
                with trace.get_tracer("chat").start_as_current_span("the chat"):
                    token = context.attach(baggage.set_baggage("user", "ann"))
                    results = [await client.call_tool(name, {"text": "x"}) for name in ("web_work", "pipe_work")]
                    context.detach(token)
    assert [result.content[0].text for result in results] == ["x {'user': 'ann'}"] * 2
    own = lines_of(exporter)
    found = [*own, *map(json.loads, spans.read_text("utf-8").splitlines())]
    ids = {line["span"]: line for line in found}
    (chat,) = [line for line in own if line["name"] == "the chat"]
    works = [line for line in found if line["name"] == "working"]
    assert {line["process"] for line in works} == {"http", "stdio"} and len(works) == 2
    for line in works:
        chain, at = [], line
        while at is not None:
            assert at["trace"] == chat["trace"]
            chain.append((at["process"], at["kind"], at["name"]))
            at = ids.get(at["parent"] or "")
        name = {"http": "web_work", "stdio": "pipe_work"}[line["process"]]
        assert chain == [
            (line["process"], "INTERNAL", "working"),
            (line["process"], "SERVER", "tools/call work"),
            ("gateway", "CLIENT", "tools/call work"),
            ("gateway", "SERVER", f"tools/call {name}"),
            ("client", "CLIENT", f"tools/call {name}"),
            ("client", "INTERNAL", "the chat"),
        ]
    served = [line for line in found if line["kind"] == "SERVER" and line["name"].startswith("tools/call")]
    for line in served:
        assert line["attributes"]["gen_ai.operation.name"] == "execute_tool"
        assert line["attributes"]["mcp.method.name"] == "tools/call"
        assert line["attributes"]["network.transport"] == ("pipe" if line["process"] == "stdio" else "tcp")
    asked, *_ = [line for line in served if line["process"] == "gateway"]
    assert asked["attributes"]["mcp.protocol.version"] == version
