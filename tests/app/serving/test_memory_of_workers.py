"""The store of one process is refused for several, with the line to write."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cli.commands import mcp_codegen
from support.endpoints import Rev

from mcp_generated import App, LocalError

MEMORY = r'workers=4 need a store that they share.*store="sqlite:///FILE"'


def server() -> Any:
    return type("Served", (Rev("2026-07-28").package.Server,), {})(name="a", version="1")


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_workers_with_the_store_memory_are_refused(transport: Any) -> None:
    with pytest.raises(LocalError, match=MEMORY):
        App("a").run(transport, port=0, workers=4, store="memory")
    with pytest.raises(LocalError, match=MEMORY):
        App("a", store="memory").run(transport, port=0, workers=4)
    with pytest.raises(LocalError, match=MEMORY):
        server().run(transport, port=0, workers=4, store="memory")


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite://:memory:", "sqlite:///file::memory:?cache=shared"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    for served in (App("a"), server()):
        with pytest.raises(
            LocalError, match=r'another database in each process; write store="sqlite:///folder/store.db"'
        ):
            served.run("http", port=0, workers=4, store=url)


def test_processes_of_uvicorn_are_refused() -> None:
    for served in (App("a"), server()):
        with pytest.raises(LocalError, match=r"starts no processes: write run\(.http., workers=4\)"):
            served.run("http", port=0, uvicorn={"workers": 4})


@pytest.mark.parametrize("make", ["app", "class"])
def test_the_environment_of_an_application_tells_of_processes(
    make: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    served: Any = App("a") if make == "app" else server()
    with pytest.raises(
        LocalError, match='WEB_CONCURRENCY=4 starts several processes, and "memory" is the store of one'
    ):
        served.asgi(store="memory")
    with caplog.at_level(logging.WARNING):
        served.asgi()
    assert "WEB_CONCURRENCY=4: if several processes serve this application" in caplog.text
    caplog.clear()
    monkeypatch.setenv("WEB_CONCURRENCY", "1")
    served.asgi(store="memory")
    assert not caplog.text


def test_the_constructor_of_an_app_names_the_store_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "2")
    with pytest.raises(LocalError, match="is the store of one"):
        App("a", store="memory").asgi()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")
def test_the_command_of_a_gateway_refuses_it_before_a_worker_starts(tmp_path: Path) -> None:
    rules = tmp_path / "gateway.toml"
    rules.write_text(f"[upstreams.up]\ncommand = {json.dumps(sys.executable)}\n")
    done = mcp_codegen("gateway", rules, "--http", "127.0.0.1:0", "--workers", "2", "--store", "memory")
    assert done.returncode != 0 and done.stdout == ""
    assert re.search(r'^error: .*workers=2 need a store.*"memory".*store="sqlite:///FILE"', done.stderr)
    assert "Traceback" not in done.stderr and "listening" not in done.stderr
