"""The route for Prometheus: what all processes of an endpoint have measured."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not there")
pytest.importorskip("prometheus_client", reason="prometheus-client is not there")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from support.clients import connect
from support.peers import started
from support.project import TESTS

from mcp_generated import App, LocalError
from mcp_products.metrics.families import Exemplar, Family, Histogram, content_type, merged, text_of
from mcp_products.metrics.process import ProcessMetrics, note_end, read, write

PROGRAM = TESTS / "support" / "metrics" / "workers_program.py"
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
COUNT = "mcp_server_operation_duration_seconds_count"


def families(seconds: Histogram | None = None) -> list[Family]:
    found = [
        Family("calls", "counter", "Calls.", "sum", {(("tool", 'a "b"\\\n'),): 2.0}),
        Family("running", "gauge", "Running.", "sum", {(): 1.0}),
        Family("up", "gauge", "Up.", "lowest", {(): 1.0}),
        Family("changed", "gauge", "Changed.", "highest", {(): 1.0}),
        Family("heat", "gauge", "Heat.", "each", {(): 20.5}),
    ]
    return found if seconds is None else [*found, Family("seconds", "histogram", "Seconds.", "sum", {(): seconds})]


def histogram(time: float) -> Histogram:
    return Histogram([0.1, 1.0], [1, 0, 2], 7.5, {2: Exemplar("a" * 32, f"{int(time):016x}", 3.5, time)})


def values(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {tuple(sorted(one.labels.items())): one.value for one in samples if one.name == name}


def test_families_of_processes_are_added_and_both_formats_are_read_by_the_parsers_of_prometheus() -> None:
    text = text_of(merged([("1", families(histogram(5.0))), ("2", families(histogram(9.0)))]))
    assert values(text, "calls_total") == {(("tool", 'a "b"\\\n'),): 4.0}
    assert [values(text, name) for name in ("running", "up", "changed")] == [{(): 2.0}, {(): 1.0}, {(): 1.0}]
    assert values(text, "heat") == {(("worker", "1"),): 20.5, (("worker", "2"),): 20.5}
    buckets = {(("le", "0.1"),): 2.0, (("le", "1.0"),): 2.0, (("le", "+Inf"),): 6.0}
    assert values(text, "seconds_bucket") == buckets and values(text, "seconds_sum") == {(): 15.0}
    assert "trace_id" not in text

    text = text_of(merged([("1", families(histogram(9.0))), ("2", families(histogram(5.0)))]), openmetrics=True)
    (seconds,) = [one for one in openmetrics_families(text) if one.name == "seconds"]
    (exemplar,) = [sample.exemplar for sample in seconds.samples if sample.exemplar is not None]
    assert exemplar.labels == {"trace_id": "a" * 32, "span_id": f"{9:016x}"} and exemplar.value == 3.5


def test_histograms_with_other_buckets_keep_their_counts() -> None:
    other = Histogram([5.0], [3, 1], 9.0)
    family, *_ = merged(
        [("1", families(histogram(1.0))[-1:]), ("2", [Family("seconds", "histogram", "", "sum", {(): other})])]
    )
    assert values(text_of([family]), "seconds_count") == {(): 7.0}


@pytest.mark.parametrize(
    ("accept", "expected"), [(OPENMETRICS, True), ("text/plain", False), ("", False), ("*/*", False)]
)
def test_openmetrics_is_for_those_who_ask_for_it(accept: str, expected: bool) -> None:
    openmetrics, content = content_type(accept)
    assert openmetrics is expected and ("openmetrics" in content) is expected


def total(folder: Path) -> dict[str, float]:
    text = text_of(merged(read(folder)))
    return {name: sum(values(text, name).values()) for name in ("calls_total", "running", "seconds_count")}


def test_a_process_that_has_ended_leaves_its_counters_and_no_gauges(tmp_path: Path) -> None:
    for process in (1, 2, 3):
        write(tmp_path, process, families(histogram(1.0)))
    assert total(tmp_path) == {"calls_total": 6.0, "running": 3.0, "seconds_count": 9.0}
    for ended in (1, 2):
        note_end(tmp_path, ended)
        assert total(tmp_path) == {"calls_total": 6.0, "running": 3.0 - ended, "seconds_count": 9.0}
    note_end(tmp_path, 2)  # It is gone already.
    write(tmp_path, 4, families())
    assert total(tmp_path) == {"calls_total": 8.0, "running": 2.0, "seconds_count": 9.0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.json", "4.json", "ended.json"]


def test_a_process_whose_file_is_left_is_not_counted_twice(tmp_path: Path) -> None:
    write(tmp_path, 1, families())
    content = (tmp_path / "1.json").read_bytes()
    note_end(tmp_path, 1)
    (tmp_path / "1.json").write_bytes(content)  # As between the two steps of `note_end`.
    assert total(tmp_path)["calls_total"] == 2.0


def test_without_the_sdk_the_line_that_installs_it_is_named_and_a_gateway_shows_its_own_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    monkeypatch.delitem(sys.modules, "mcp_products.metrics.otel", raising=False)
    process = ProcessMetrics()
    with pytest.raises(
        LocalError, match=r"metrics_path= needs opentelemetry-sdk: pip install 'mcp-generated\[metrics\]'"
    ):
        process.begin()
    process.add(families)
    process.begin()
    assert values(text_of(process.all()), "running") == {(): 1.0}


@pytest.mark.parametrize("path", ["metrics", "/a b", 1])
def test_a_wrong_path_is_refused_where_it_is_written(path: object) -> None:
    with pytest.raises(LocalError, match=r"run\(\): metrics_path must be a path"):
        App("wrong").run("http", metrics_path=path)  # type: ignore[arg-type]


ASGI = """
import asyncio, httpx2, sys
from mcp_generated import App
import mcp_products.hosting.run
App("plain").asgi()
print("mcp_products.metrics.process" in sys.modules)

async def scraped():
    transport = httpx2.ASGITransport(App("measured").asgi(path="/mcp", metrics_path="/metrics"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/metrics")
        print(answer.status_code, answer.headers["content-type"].split(";")[0])

asyncio.run(scraped())
"""


def test_an_asgi_application_has_the_route_and_only_who_asks_for_it_imports_what_measures() -> None:
    done = subprocess.run([sys.executable, "-c", ASGI], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False", "200 text/plain"], done.stderr


# ---- real processes --------------------------------------------------------------------------------------------------


@contextmanager
def served(workers: int, store: str) -> Iterator[tuple[str, int]]:
    """The URL of a server, and the id of its first process."""
    server = started([sys.executable, str(PROGRAM), str(workers), store], dict(os.environ), "listening at ")
    try:
        yield server.output.split("listening at ")[1].strip(), server.process.pid
    finally:
        server.process.terminate()
        server.process.wait(30)


def scraped(url: str, accept: str = "") -> str:
    request = urllib.request.Request(url.removesuffix("/mcp") + "/metrics", headers={"accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        assert ("openmetrics" in answer.headers["content-type"]) is (accept == OPENMETRICS)
        return text


def calls(text: str, tool: str = "process") -> float:
    found = values(text, COUNT)
    return sum(value for labels, value in found.items() if ("gen_ai_tool_name", tool) in labels)


@pytest.mark.deadline(90)
async def test_one_process_shows_what_it_has_measured_with_exemplars() -> None:
    with served(1, "default") as (url, _):
        async with connect(url) as client:
            for number in range(3):
                await client.call_tool("process", {"number": number})
            await client.call_tool("fail")
            text = scraped(url, OPENMETRICS)
            assert calls(scraped(url)) == 3
    operations = [one for one in openmetrics_families(text) if one.name == "mcp_server_operation_duration_seconds"]
    exemplars = [sample.exemplar for sample in operations[0].samples if sample.exemplar is not None]
    assert exemplars and all(len(one.labels["trace_id"]) == 32 for one in exemplars)
    assert {"mcp_runtime_sessions", "mcp_runtime_streams", "mcp_runtime_requests"} <= {
        one.name for one in openmetrics_families(text)
    }


@pytest.mark.long
@pytest.mark.deadline(120)
@pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")
@pytest.mark.edges("default")
@pytest.mark.parametrize("store", ["default", "sqlite"])
async def test_every_worker_shows_the_sum_of_all_which_never_goes_back(store: str, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/store.db" if store == "sqlite" else store
    with served(3, place) as (url, supervisor):
        processes: set[int] = set()
        called = 0.0
        while len(processes) < 3:  # Connections are accepted by whichever worker is first.
            async with connect(url) as client:
                result = await client.call_tool("process", {"number": 1})
            called += 1
            processes.add(result.structured_content["result"])
        await reaches(url, called)

        os.kill(min(processes), signal.SIGKILL)
        assert calls(scraped(url)) >= called
        os.kill(supervisor, signal.SIGHUP)  # Each worker is replaced.
        seen = called
        while True:
            async with connect(url) as client:
                result = await client.call_tool("process", {"number": 1})
            called += 1
            assert seen <= (seen := calls(scraped(url))) <= called
            if result.structured_content["result"] not in processes:
                break
        await reaches(url, called)


async def reaches(url: str, count: float) -> None:
    """Wait until a route has so many calls, and never more; a worker shows the others what is at most a second old."""
    while (seen := calls(scraped(url))) != count:
        assert seen < count
        await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.deadline(120)
@pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")
async def test_a_gateway_of_several_workers_shows_what_all_have_asked_of_its_upstreams(tmp_path: Path) -> None:
    settings = tmp_path / "gateway.toml"
    with served(1, "default") as (upstream, _):
        settings.write_text(f'[gateway]\nmetrics = "/metrics"\n[upstreams.one]\nurl = "{upstream}"\n')
        words = ["-m", "mcp_products.relay.gateway", str(settings), "--http", "127.0.0.1:0", "--workers", "2"]
        gateway = started([sys.executable, *words], dict(os.environ), "listening at ")
        try:
            url = gateway.output.split("listening at ")[1].strip()
            for number in range(6):
                async with connect(url) as client:
                    await client.call_tool("one_process", {"number": number})
            while (seen := calls(scraped(url), "one_process")) != 6:
                assert seen < 6
                await asyncio.sleep(0.05)
            text = scraped(url)
        finally:
            gateway.process.terminate()
            gateway.process.wait(30)
    assert values(text, "mcp_gateway_upstream_up") == {(("upstream", "one"),): 1.0}
    assert values(text, "mcp_gateway_requests_total")[(("upstream", "one"),)] >= 6
    assert len(values(text, "mcp_runtime_store_lag_seconds")) == 2
