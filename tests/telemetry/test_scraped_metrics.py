"""What Prometheus gets of a server with the usual exporter."""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

import pytest
from support.clients import connect
from support.peers import python_peer, started
from support.processes import free_port
from support.project import TESTS

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not there")
PROGRAM = TESTS / "support" / "metrics" / "scraped_program.py"
EXPORTER = "opentelemetry-exporter-prometheus==0.66b2"


def scraped(port: int) -> dict[str, float]:
    """The samples by their name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


@pytest.mark.long
@pytest.mark.deadline(90)
async def test_prometheus_gets_calls_sessions_streams_and_the_store(tmp_path: Path) -> None:
    site = next((python_peer(EXPORTER).parents[1] / "lib").glob("python*/site-packages"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path[1:], str(site)])}
    port, store = free_port(), f"sqlite:///{tmp_path}/store.db"
    server = started([sys.executable, str(PROGRAM), store, str(port)], env, "listening at ")
    try:
        url = server.output.split("listening at ")[1].strip()
        async with connect(url, revisions=["2025-11-25"]) as client:
            for _ in range(3):
                assert (await client.call_tool("price", {"article": "pan"})).structured_content == {"result": 1999}
            samples = scraped(port)
    finally:
        server.process.terminate()
        server.process.wait(30)

    def values(name: str, *labels: str) -> list[float]:
        return [value for key, value in samples.items() if key.startswith(name) and all(one in key for one in labels)]

    calls = 'gen_ai_tool_name="price"', 'mcp_method_name="tools/call"', 'mcp_protocol_version="2025-11-25"'
    assert values("mcp_server_operation_duration_seconds_count", *calls) == [3.0]
    assert values("mcp_server_operation_duration_seconds_bucket", *calls, 'le="0.01"') != []
    assert values("mcp_runtime_sessions") == [1.0]
    assert len(values("mcp_runtime_streams")) == len(values("mcp_runtime_requests")) == 1
    assert values("db_client_operation_duration_seconds_count", 'db_operation_name="put"')[0] > 0
