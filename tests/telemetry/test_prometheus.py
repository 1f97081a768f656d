"""The files for Prometheus and Grafana in docs/deployment, loaded by a real Prometheus that scrapes real servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not there")

from support.clients import connect
from support.peers import started
from support.processes import free_port
from support.project import ROOT, TESTS

FOLDER = ROOT / "docs" / "deployment"
PROGRAM = TESTS / "support" / "metrics" / "workers_program.py"
SCRAPE, ALERTS, DASHBOARD = (FOLDER / name for name in ("prometheus.yml", "mcp-alerts.yml", "grafana.json"))
TARGETS = {"mcp": "127.0.0.1:8000", "mcp-gateway": "127.0.0.1:8100"}
RANGE = {"$__rate_interval": "1m", "$instance": ".*"}  # What Grafana puts in their places.
# What has no samples before it happens, or is above a limit: the losses of a store, for example.
HAPPENS = ("mcp_runtime_resumed_total", "mcp_runtime_store_losses_total", "mcp_runtime_messages_lost_total")
SECONDS = 60.0  # In which all metrics have come twice.


def expressions() -> dict[str, str]:
    """The expressions of the dashboard, by their panels."""
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    for name, value in RANGE.items():
        found = {panel: expression.replace(name, value) for panel, expression in found.items()}
    return found


def rules() -> dict[str, str]:
    """The expressions of the alerts, by their names."""
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:mcp|db)_[a-z_]+(?=[{\[ )]|$)", re.sub(r"by \([^)]*\)", "", expression)))


def test_each_metric_of_the_files_is_on_the_page_of_metrics() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    documented = re.sub(r"[.]", "_", " ".join(re.findall(r"`((?:mcp|db)[\w.]+)`", page))).split()
    for expression in (*expressions().values(), *rules().values()):
        names = names_in(expression)
        assert names or expression.startswith("up{"), expression
        for name in names:
            plain = re.sub(r"_(total|bucket|count|sum)$", "", name)
            assert {name, plain, plain.removesuffix("_seconds")} & {*documented}, name


def test_the_panels_of_the_dashboard_have_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24


class Prometheus:
    """A Prometheus that has loaded our files."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **arguments: str) -> Any:
        """The data of an answer of its API. Fails with its error."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from None

    def samples(self, expression: str) -> list[Any]:
        result: list[Any] = self.get("query", query=expression)["result"]
        return [item for item in result if item["value"][1] != "NaN"]


def required() -> None:
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt-get install prometheus)")


@contextmanager
def prometheus(folder: Path, addresses: dict[str, str]) -> Iterator[Prometheus]:
    """Prometheus with our files: only the addresses and the times between two scrapes are others."""
    text = SCRAPE.read_text("utf-8")
    for job, address in TARGETS.items():
        assert text.count(address) == 1, f"{SCRAPE.name} has no target {address}"
        text = text.replace(address, addresses[job])
    text, times = re.subn(r"(scrape_interval|evaluation_interval): 15s", r"\1: 500ms", text)
    assert times == 2
    (folder / SCRAPE.name).write_text(text)
    shutil.copy(ALERTS, folder)
    port = free_port()
    words = ["prometheus", f"--config.file={folder / SCRAPE.name}", f"--storage.tsdb.path={folder / 'data'}"]
    words += [f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage", "--log.level=warn"]
    process = subprocess.Popen(words)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def served(words: list[str]) -> Iterator[str]:
    server = started([sys.executable, *words], dict(os.environ), "listening at ")
    try:
        yield server.output.split("listening at ")[1].strip()
    finally:
        server.process.terminate()
        server.process.wait(30)


async def traffic(server: str, gateway: str) -> None:
    async with connect(server, revisions=["2025-11-25"]) as client:
        await client.call_tool("process", {"number": 1})
        await client.call_tool("fail")
    async with connect(gateway) as client:
        await client.call_tool("one_process", {"number": 1})
    request = urllib.request.Request(server, b"x" * (9 << 20), {"content-type": "application/json"})
    with pytest.raises((urllib.error.HTTPError, OSError)):  # It is above `max_body`.
        urllib.request.urlopen(request, timeout=10)


@pytest.mark.long
@pytest.mark.deadline(180)
@pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")
async def test_prometheus_loads_the_files_and_each_expression_has_what_the_servers_measure(tmp_path: Path) -> None:
    required()
    for kind, file in (("rules", ALERTS), ("config", SCRAPE)):
        checked = subprocess.run(["promtool", "check", kind, file], capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    settings = tmp_path / "gateway.toml"
    with served([str(PROGRAM), "2", "default"]) as server:
        settings.write_text(f'[gateway]\nmetrics = "/metrics"\n[upstreams.one]\nurl = "{server}"\n')
        gateway_words = ["-m", "mcp_products.relay.gateway", str(settings), "--http", "127.0.0.1:0"]
        with served(gateway_words) as gateway:
            addresses = {
                "mcp": urllib.parse.urlsplit(server).netloc,
                "mcp-gateway": urllib.parse.urlsplit(gateway).netloc,
            }
            with prometheus(tmp_path, addresses) as watching:
                await all_have_data(watching, server, gateway)
                loaded = [rule for group in watching.get("rules")["groups"] for rule in group["rules"]]
                assert {rule["name"]: rule["health"] for rule in loaded} == dict.fromkeys(rules(), "ok")
                exemplars = watching.get(
                    "query_exemplars", query="mcp_server_operation_duration_seconds_bucket", start="0", end="4000000000"
                )
    ids = [exemplar["labels"]["trace_id"] for series in exemplars for exemplar in series["exemplars"]]
    assert ids and all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)


async def all_have_data(watching: Prometheus, server: str, gateway: str) -> None:
    """Use the servers until each expression has a sample, which takes two scrapes of each metric. An alert that is not
    above its limit has none, but each of its metrics has."""
    missing = {name: text for name, text in expressions().items() if not names_in(text) & {*HAPPENS}}
    metrics = set().union(*map(names_in, (*expressions().values(), *rules().values()))) - {*HAPPENS}
    missing |= {name: name for name in metrics}
    everything = {**expressions(), **rules()}
    loop = asyncio.get_running_loop()
    until = loop.time() + SECONDS
    while missing:
        assert loop.time() < until, missing
        await traffic(server, gateway)
        try:
            missing = {name: text for name, text in missing.items() if not watching.samples(text)}
        except (urllib.error.URLError, ConnectionError):  # Prometheus is not ready.
            await asyncio.sleep(0.2)
    for expression in everything.values():
        watching.samples(expression)
    health = {target["labels"]["job"]: target["health"] for target in watching.get("targets")["activeTargets"]}
    assert health == dict.fromkeys(TARGETS, "up")
