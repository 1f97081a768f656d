"""Bridges, gateways, servers over HTTP and stores without what Windows lacks; what cannot work there is refused."""

from __future__ import annotations

import json
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.stores.homes import redis_url
from support.windows import emulated

SERVER = """
from mcp_generated import App

app = App("math")

@app.tool
def add(a: int, b: int) -> int:
    return a + b

app.run()
"""

CLIENT = """
    import asyncio, json, sys, threading
    from mcp_generated import connect

    async def main():
        async with connect(json.loads(sys.argv[1])) as client:
            (tool,) = [tool.name for tool in await client.list_tools()]
            # A gateway over HTTP starts the server anew for a request without a session.
            results = [await client.call_tool(tool, {"a": n, "b": 1}) for n in range(3)]
            return {"tool": tool, "sum": sum(result.structured_content["result"] for result in results)}

    seen = asyncio.run(main())
    print(json.dumps({**seen, "platform": sys.platform, "threads": threading.active_count()}))
"""


# Modules that uvicorn imports, and that import those of Windows there.
UVICORN = "click multiprocessing.connection"


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """Run a server over HTTP, and yield its URL; Ctrl-Break ends it at the end, with all that it has started."""
    mark = f":{uuid.uuid4().hex}"
    with emulated.start(*words, EMULATED_TREE=mark, EMULATED_IMPORTS=UVICORN) as server:
        assert server.stderr is not None
        seen = b""
        try:
            for line in server.stderr:
                seen += line
                if b"listening at " in line:
                    break
            assert b"listening at " in seen, seen.decode()
            yield seen.decode().rpartition("listening at ")[2].strip()
            server.send_signal(signal.SIGUSR2)  # Stands for the SIGBREAK of Windows.
            server.stderr.read()
            assert server.wait(emulated.DEADLINE) in (-signal.SIGUSR2, 128 + signal.SIGUSR2)
            assert emulated.all_end(mark)
        finally:
            server.kill()


@pytest.fixture
def server(tmp_path: Path) -> str:
    """The path of a server over stdio."""
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    return str(tmp_path / "server.py")


def gateway(folder: Path, **upstream: Any) -> list[str]:
    """Return the words of a gateway in front of a server."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in upstream.items()]
    audit = f"[gateway]\naudit = {json.dumps(str(folder / 'audit.jsonl'))}\n"
    (folder / "gateway.toml").write_text(audit + "\n".join(["[upstreams.math]", *lines]), encoding="utf-8")
    return ["-m", "mcp_products.relay.gateway", str(folder / "gateway.toml")]


def used(target: str | list[str]) -> dict[str, Any]:
    """Return what a client sees of a server; all processes that it has started have ended."""
    mark = f":{uuid.uuid4().hex}"
    seen: dict[str, Any] = emulated.run(CLIENT, json.dumps(target), EMULATED_TREE=mark)
    assert emulated.all_end(mark)
    return seen


RESULT = {"tool": "math_add", "sum": 6, "platform": "win32", "threads": 1}


@pytest.mark.long  # Four processes, one after another.
def test_a_bridge_over_stdio_passes_calls_to_a_gateway_over_http(server: str, tmp_path: Path) -> None:
    words = gateway(tmp_path, command=sys.executable, args=[server])
    with serving(*words, "--http", "127.0.0.1:0") as url:
        assert used([sys.executable, "-m", "mcp_products.relay.bridge", url]) == RESULT
    calls = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(call["upstream"], call["name"]) for call in calls] == [("math", "add")] * 3


@pytest.mark.long  # Four processes, one after another.
def test_a_gateway_over_stdio_passes_calls_to_a_bridge_over_http(server: str, tmp_path: Path) -> None:
    with serving("-m", "mcp_products.relay.bridge", "--http", "127.0.0.1:0", "--", sys.executable, server) as url:
        assert used([sys.executable, *gateway(tmp_path, url=url)]) == RESULT


RELOADED = """
    import asyncio, json, sys
    from mcp_generated import Gateway, connect

    async def main():
        settings = {"upstreams": {"math": {"command": sys.executable, "args": [sys.argv[1]]}}}
        gateway = Gateway(settings)
        async with connect(gateway.app) as client:
            before = [tool.name for tool in await client.list_tools()]
            settings["upstreams"]["math"]["prefix"] = "sums"
            gateway.reload()
            return [before, [tool.name for tool in await client.list_tools()]]

    print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.long
def test_a_gateway_reads_its_settings_again_without_a_signal(server: str) -> None:
    assert emulated.run(RELOADED, server) == [["math_add"], ["sums_add"]]


# Linux has no icacls; tests/core/stdio/test_child_processes.py proves how it is called.
ICACLS = """
import os, subprocess
run = subprocess.run
def icacls(command, **settings):
    assert command[0].endswith("icacls.exe"), command
    return subprocess.CompletedProcess(command, 0)
subprocess.run = icacls
"""

SHARED = """
import sys
from mcp_generated import App

app = App("shared")

@app.tool
def add(a: int, b: int) -> int:
    return a + b

app.run("http", port=0, store=sys.argv[1])
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.mark.long  # Two servers over HTTP.
@pytest.mark.parametrize("home", ["sqlite", "redis"])
def test_processes_share_sessions_as_the_message_about_workers_says(home: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db" if home == "sqlite" else redis_url()
    with serving("-c", ICACLS + SHARED, store) as one, serving("-c", ICACLS + SHARED, store) as other:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        opened = httpx2.post(one, json=hello, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert httpx2.post(one, json=ready, headers=session).status_code == 202
        params = {"name": "add", "arguments": {"a": 1, "b": 2}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        answer = httpx2.post(other, json=call, headers=session)
    assert answer.json()["result"]["structuredContent"] == {"result": 3}


REFUSED = {
    "App('several').run('http', port=0, workers=2)": (
        "run(): workers= needs POSIX; on Windows, start several processes behind a proxy, with the same store="
    ),
    "App('shared').run('http', port=0, store='unix:///run/redis.sock')": (
        'run(): store="unix://…" needs Unix sockets; on Windows, write store="redis://host"'
    ),
    "SkillDirectory('.')": (
        "skills cannot be served on this platform: it cannot open files relative to a directory (openat); run the "
        "server on Linux or macOS, or on Windows in WSL"
    ),
}


def test_what_cannot_work_is_refused_in_one_line_that_names_what_to_use() -> None:
    source = """
        import json, sys
        from mcp_generated import App, LocalError
        from mcp_generated.skills import SkillDirectory

        messages = []
        for statement in json.loads(sys.argv[1]):
            try:
                exec(statement)
            except LocalError as error:
                messages.append(str(error))
        print(json.dumps(messages))
    """
    assert emulated.run(source, json.dumps(list(REFUSED))) == list(REFUSED.values())
