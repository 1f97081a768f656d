"""`run("http", server=…)`: hypercorn and granian serve and end as uvicorn does, and what they cannot do is refused."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.peers import driven, python_peer
from support.project import TESTS

from mcp_generated import App, LocalError, MCPError
from mcp_generated.http import HTTPLimits
from mcp_products.hosting import other_servers as other_server

PROGRAM = TESTS / "support" / "other_servers" / "other_server_program.py"
PACKAGES = "hypercorn==0.18.0 granian==2.8.7"
OTHERS = ("hypercorn", "granian")
ENDS = 30.0  # Seconds for a process to end.
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM and shared sockets need POSIX")


def packages() -> list[str]:
    """The folder of the servers' packages, where this environment has not all of them."""
    if all(find_spec(name) for name in OTHERS):
        return []
    return [str(next((python_peer(PACKAGES).parents[1] / "lib").glob("python*/site-packages")))]


class Served:
    """A server as a process of its own."""

    def __init__(self, server: str, store: str, workers: int) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path[1:], *packages()])}
        command = [sys.executable, str(PROGRAM), server, store, str(workers)]
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        self.url = self.line("listening at ")

    def line(self, begin: str) -> str:
        """What follows these words in the next line that begins with them."""
        assert self.process.stderr is not None
        timer = threading.Timer(ENDS, self.process.kill)
        timer.start()
        lines: list[str] = []
        for line in self.process.stderr:
            lines.append(line)
            if line.startswith(begin):
                timer.cancel()
                return line.removeprefix(begin).strip()
        raise AssertionError("".join(lines))

    def end(self) -> int:
        """The exit code after SIGTERM."""
        self.process.terminate()
        return self.process.wait(ENDS)


@contextmanager
def served(server: str, store: str = "memory", workers: int = 1) -> Iterator[Served]:
    running = Served(server, store, workers)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(ENDS)


# ---- serving -------------------------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.long
@pytest.mark.deadline(90)
@pytest.mark.parametrize("server", OTHERS)
async def test_another_server_serves_both_kinds_of_versions_and_lets_a_call_complete(
    server: str, tmp_path: Path
) -> None:
    with served(server, f"sqlite:///{tmp_path}/store.db") as running:
        for revision in ("2025-11-25", "2026-07-28"):
            steps: list[float] = []
            async with connect(running.url, revisions=[revision]) as client:
                result = await client.call_tool(
                    "count", {"steps": 3}, on_progress=lambda update, steps=steps: steps.append(update.progress)
                )
                assert result.structured_content == {"result": running.process.pid} and steps == [1, 2, 3]
        async with connect(running.url, revisions=["2025-11-25"]) as client:
            call = asyncio.create_task(client.call_tool("wait", {"seconds": 0.8}))
            await asyncio.to_thread(running.line, "waiting")
            running.process.send_signal(signal.SIGTERM)
            assert (await call).structured_content == {"result": "waited"}
            assert await asyncio.to_thread(running.process.wait, ENDS) == -signal.SIGTERM


@needs_posix
@pytest.mark.long
@pytest.mark.deadline(90)
@pytest.mark.parametrize("server", OTHERS)
async def test_another_server_without_a_store_ends_although_a_call_runs(server: str) -> None:
    with served(server) as running:
        async with connect(running.url, revisions=["2025-11-25"], on_error=lambda error: None) as client:
            call = asyncio.create_task(client.call_tool("wait", {"seconds": 60}))
            await asyncio.to_thread(running.line, "waiting")
            assert await asyncio.to_thread(running.end) in (-signal.SIGTERM, 128 + signal.SIGTERM)
            with pytest.raises(MCPError):
                await call


@pytest.mark.edges("hypercorn")
@needs_posix
@pytest.mark.long
@pytest.mark.deadline(90)
@pytest.mark.parametrize("server", OTHERS)
async def test_another_server_with_a_store_cancels_a_call_that_takes_too_long(server: str, tmp_path: Path) -> None:
    with served(server, f"sqlite:///{tmp_path}/store.db") as running:
        async with connect(running.url, revisions=["2025-11-25"], on_error=lambda error: None) as client:
            call = asyncio.create_task(client.call_tool("wait", {"seconds": 60}))
            await asyncio.to_thread(running.line, "waiting")
            assert await asyncio.to_thread(running.end) == -signal.SIGTERM
            call.cancel()


@needs_posix
@pytest.mark.long
@pytest.mark.deadline(120)
async def test_several_workers_of_hypercorn_are_used_as_one_by_the_official_client(tmp_path: Path) -> None:
    with served("hypercorn", f"sqlite:///{tmp_path}/store.db", workers=2) as running:
        command = (python_peer("mcp==2.3.0"), "python_workers.py", running.url, "legacy")
        seen = await asyncio.to_thread(driven, *command, limit=90.0)
        assert seen["workers"] == 2 and seen["ordered"] == ["accept blue"] * 16
        assert seen["progress"] == [float(step) for step in range(1, 21)]
        assert await asyncio.to_thread(running.end) == -signal.SIGTERM


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_server, "find_spec", lambda name: object())


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"server": "gunicorn"}, 'server must be "uvicorn", "hypercorn" or "granian"'),
        ({"server": "hypercorn", "uvicorn": {"log_level": "info"}}, "uvicorn= has settings of uvicorn: leave it out"),
        ({"server": "granian", "workers": 2}, "which server='granian' cannot use: leave out server="),
        (
            {"server": "hypercorn", "limits": HTTPLimits(head_timeout=5)},
            "HTTPLimits(head_timeout=…) holds with uvicorn",
        ),
        ({"server": "granian", "limits": HTTPLimits(max_connections=5)}, "HTTPLimits(max_connections=…) holds with"),
    ],
)
def test_what_another_server_cannot_do_is_refused_where_it_is_written(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalError, match=re.escape(message)) as caught:
        App("others").run("http", port=0, **settings)
    assert len(str(caught.value).splitlines()) == 1 and "run()" in str(caught.value)


@pytest.mark.parametrize("server", OTHERS)
def test_a_server_that_is_not_installed_names_its_extra(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_server, "find_spec", lambda name: None)
    with pytest.raises(LocalError, match=re.escape(f"pip install 'mcp-generated[{server}]'")):
        App("others").run("http", port=0, server=server)  # type: ignore[arg-type]


async def test_a_server_in_a_running_loop_is_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_server, "find_spec", lambda name: None)
    with pytest.raises(LocalError, match="needs hypercorn"):
        await App("others").run_async("http", port=0, server="hypercorn")


def test_stdio_has_no_server() -> None:
    with pytest.raises(TypeError, match=re.escape('write run("http", server=…)')):
        App("others").run("stdio", server="hypercorn")  # type: ignore[call-overload]
