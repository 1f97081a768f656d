"""`mcp-generated top`: what it reads of the metrics of a server, and what it shows of that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from support.clients import connect
from support.peers import started
from support.project import TESTS

from mcp_products.metrics.families import Family, Histogram, Labels, text_of
from mcp_products.metrics.top import main, page, parsed, quantile

PROGRAM = TESTS / "support" / "metrics" / "workers_program.py"


def calls(counts: dict[str, list[int]], **more: str) -> Family:
    points: dict[Labels, float | Histogram] = {
        (("gen_ai_tool_name", name), ("mcp_method_name", "tools/call"), *more.items()): Histogram(
            [0.01, 0.1], found, 1.0
        )
        for name, found in counts.items()
    }
    return Family("mcp_server_operation_duration_seconds", "histogram", "", "sum", points)


def gauge(name: str, value: float, *labels: tuple[str, str]) -> Family:
    return Family(name, "gauge", "", "sum", {labels: value})


def cells(lines: list[str], name: str) -> list[str]:
    (line,) = [line for line in lines if line.startswith(f"{name} ")]
    return line.removeprefix(name).split()


def test_rates_errors_and_times_of_a_tool_are_those_between_two_looks() -> None:
    before = parsed(text_of([calls({"price": [10, 0, 0], "order": [0, 5, 0]})]), 100.0)
    failed = calls({"order": [0, 1, 0]}, error_type="tool_error")
    now = parsed(text_of([calls({"price": [10, 20, 0], "order": [0, 5, 0]}), failed]), 104.0)
    lines = page("http://h/metrics", now, before)
    assert lines[0] == "http://h/metrics   in 4.0 s"
    assert cells(lines, "price") == ["30", "5.0", "0", "55.0", "99.1"]
    assert cells(lines, "order")[:3] == ["6", "0.2", "1"]
    assert "calls/s 5.2" in lines[1]
    assert cells(page("http://h/metrics", now, None), "price")[:3] == ["30", "-", "0"]


def test_a_server_that_has_begun_anew_has_no_negative_rates() -> None:
    before, now = (parsed(text_of([calls({"price": [count, 0, 0]})]), float(count)) for count in (50, 10))
    now.time = before.time + 10.0
    assert cells(page("u", now, before), "price")[:2] == ["10", "1.0"]


def test_upstreams_workers_and_refusals_are_shown() -> None:
    upstream = (("upstream", "files"),)
    counters = {"requests": 4.0, "failures": 1.0, "seconds": 2.0}
    families = [
        *(Family(f"mcp_gateway_{name}", "counter", "", "sum", {upstream: value}) for name, value in counters.items()),
        gauge("mcp_gateway_upstream_up", 0, *upstream),
        gauge("mcp_gateway_upstream_circuit", 2, *upstream),
        Family("mcp_runtime_refused", "counter", "", "sum", {(("limit", "max_body"),): 3.0}),
        gauge("mcp_runtime_store_lag_seconds", 1.5, ("worker", "7")),
        gauge("mcp_runtime_sessions", 12),
    ]
    lines = page("u", parsed(text_of(families), 0.0), None)
    assert cells(lines, "files") == ["failed", "open", "4", "-", "1", "500.0"]
    assert cells(lines, "max_body") == ["3"]
    assert "sessions 12" in lines[1] and "workers 1   store lag 1.5 s" in lines[1]


def test_names_of_clients_cannot_write_to_the_terminal() -> None:
    text = text_of([calls({'\x1b[2Jx"y\\': [1, 0, 0]})])
    lines = page("u", parsed(text, 0.0), None)
    assert not any("\x1b" in line for line in lines)
    assert any(line.startswith('\\x1b[2Jx"y\\') for line in lines)


@pytest.mark.parametrize(
    ("buckets", "part", "expected"),
    [
        ({}, 0.5, None),
        ({0.1: 0.0, float("inf"): 0.0}, 0.5, None),
        ({0.1: 10.0, float("inf"): 10.0}, 0.5, 0.05),
        ({0.1: 1.0, float("inf"): 10.0}, 0.99, 0.1),
    ],
)
def test_quantiles_are_those_of_prometheus(buckets: dict[float, float], part: float, expected: float | None) -> None:
    assert quantile(buckets, part) == expected


class NoMetrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Metrics(NoMetrics):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text_of([gauge("mcp_runtime_sessions", 12)]).encode())


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler] = NoMetrics) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with serving(Metrics) as url, os.fdopen(writing, "wb") as output:
        command = [sys.executable, "-m", "mcp_products.metrics.top", "--once", url]
        ended = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_server_without_metrics_is_an_error_that_names_the_line_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as url:
        assert main([f"{url}/mcp"]) == 2
    error = capsys.readouterr().err
    assert error == (
        f'error: {url}/metrics has no metrics: write app.run("http", metrics_path="/metrics") into the server, or '
        'metrics = "/metrics" into [gateway] of a gateway\'s file (404)\n'
    )
    assert main([url]) == 2
    assert f"error: {url}/metrics cannot be reached: " in capsys.readouterr().err
    assert main(["127.0.0.1:8000"]) == 2
    assert "is not a URL: write http://127.0.0.1:8000" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.deadline(90)
@pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")
async def test_the_command_shows_a_server_with_workers() -> None:
    server = started([sys.executable, str(PROGRAM), "2", "default"], dict(os.environ), "listening at ")
    try:
        url = server.output.split("listening at ")[1].strip()
        async with connect(url) as client:
            await client.call_tool("process", {"number": 1})
        while True:  # What another worker has measured is at most a second old.
            words = [sys.executable, "-m", "mcp_codegen", "top", url]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, "")
            if "workers 2" in done.stdout and any(line.startswith("process ") for line in done.stdout.splitlines()):
                break
    finally:
        server.process.terminate()
        server.process.wait(30)
    assert cells(done.stdout.splitlines(), "process")[:3] == ["1", "-", "0"]
    assert url.removesuffix("mcp") + "metrics" in done.stdout
