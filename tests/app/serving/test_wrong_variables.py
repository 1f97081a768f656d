"""An environment variable that is empty is as one that is not set; a wrong value is one error that names it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli.commands import mcp_codegen
from support.clients import connect
from support.endpoints import Rev

from mcp_generated import App, LocalError
from mcp_products.workers.supervisor import WorkerPlace

ROOT = Path(__file__).parents[3]
NUMBERS = ["abc", "-1", "1.5", "0x4", "٤", "4 5", "9" * 5000]
SWITCHES = ["off", "false", "2", "-0"]


def applications() -> list[Any]:
    return [App("a"), type("Served", (Rev("2026-07-28").package.Server,), {})(name="a", version="1")]


@pytest.mark.parametrize("value", NUMBERS)
def test_a_wrong_number_of_processes_is_an_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", value)
    message = "the environment variable WEB_CONCURRENCY must be a whole number from 0, such as 4; "
    for served in applications():
        for serve in (served.asgi, lambda served=served: served.run("http", port=0)):
            with pytest.raises(LocalError, match=f"^{message}'{re.escape(value[:50])}"):
                serve()


@pytest.mark.parametrize("value", ["", " ", "1", " 4 ", "0"])
def test_an_empty_number_of_processes_is_as_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn itself reads the variable, and cannot read an empty one."""
    monkeypatch.setenv("WEB_CONCURRENCY", value)
    served: list[Any] = []

    def serve(server: Any, sockets: list[Any]) -> None:
        served.append(server.config.workers)

    monkeypatch.setattr("uvicorn.Server.run", serve)
    monkeypatch.setattr("mcp_products.hosting.run.exit_without_threads", lambda: None)
    for application in applications():
        application.asgi()
        application.run("http", port=0)
    assert served == [1, 1]


@pytest.mark.parametrize("name", ["MCP_FAST_PATHS", "MCP_BUSY_POLL"])
@pytest.mark.parametrize("value", ["", " ", "0", "1"])
def test_switches_are_zero_or_one(name: str, value: str) -> None:
    switch = "ENABLED" if name == "MCP_FAST_PATHS" else "BUSY_POLL"
    script = f"from mcp_products import fast; print(fast.{switch})"
    done = run(sys.executable, "-c", script, variables={"MCP_FAST_PATHS": "", "MCP_BUSY_POLL": "", name: value})
    assert (done.stdout.strip(), done.stderr) == (str(value != "0"), "")


@pytest.mark.parametrize("name", ["MCP_FAST_PATHS", "MCP_BUSY_POLL"])
@pytest.mark.parametrize("value", SWITCHES)
def test_another_value_of_a_switch_is_an_error(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    app = App("a")
    begin: list[Callable[[], object]] = [
        app.asgi,
        lambda: app.run("http", port=0),
        lambda: app.run("stdio"),
        lambda: connect("http://127.0.0.1:1/mcp"),
        lambda: connect(["server"]),
    ]
    for function in begin:
        with pytest.raises(LocalError, match=f"^the environment variable {name} must be 0 or 1; {value!r} is not"):
            function()


@pytest.mark.parametrize("command", [("bridge", "--", "x"), ("gateway", "x.toml")])
def test_a_relay_shows_one_line(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_FAST_PATHS", "off")
    done = mcp_codegen(*command)
    assert "error: the environment variable MCP_FAST_PATHS must be 0 or 1; 'off' is not" in done.stderr
    assert done.returncode != 0 and "Traceback" not in done.stderr


@pytest.mark.parametrize("value", ["2", "a b c", "1 2", "-1 -1 x", "99999 99998 x"])
def test_a_place_of_a_worker_that_is_none_is_an_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_HTTP_WORKER", value)
    with pytest.raises(LocalError, match="MCP_HTTP_WORKER=.* remove it"):
        WorkerPlace.of_environment()


def test_an_empty_place_of_a_worker_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_HTTP_WORKER", "")
    assert WorkerPlace.of_environment() is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["MCP_PORT", "MCP_WORKERS"])
def test_the_server_of_the_deployment_says_which_variable_is_wrong(name: str) -> None:
    done = run(sys.executable, str(ROOT / "examples/deployment/server.py"), variables={name: "abc"})
    assert done.returncode != 0 and f"{name} must be a whole number; 'abc' is not" in done.stderr
    assert "Traceback" not in done.stderr


def run(*command: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what a process prints that has these variables."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
