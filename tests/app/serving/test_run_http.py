"""`app.run("http")` in a process of its own: what it writes, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from support.auth.certificates import self_signed
from support.processes import exit_code_within

PROGRAM = """
from mcp_generated import App
app = App("counter")
@app.tool()
def add(a: int, b: int) -> int:
    return a + b
"""
STREAMABLE = """
import asyncio
asyncio.run(app.run_streamable_http_async(port=0))
"""
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
HEADERS = {"accept": "application/json, text/event-stream"}


@contextmanager
def running(tmp_path: Path, lines: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that runs a program, and the first line of its standard error."""
    program = tmp_path / "server.py"
    program.write_text(PROGRAM + lines)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stderr is not None
        yield process, process.stderr.readline()
    finally:
        process.kill()
        process.communicate()


def url_in(line: str) -> str:
    match = re.fullmatch(r"listening at (https?://\S+)( .*)?\n", line)
    assert match is not None, line
    return match[1]


@pytest.mark.parametrize("lines", ["app.run('http', port=0)", "app.run('sse', port=0)", STREAMABLE])
def test_the_url_is_written_and_serves(tmp_path: Path, lines: str) -> None:
    with running(tmp_path, lines) as (_, line):
        response = httpx2.post(url_in(line), json=PING, headers=HEADERS)
        assert response.json()["result"]["serverInfo"]["name"] == "counter"


FILES = "{'ssl_certfile': folder + '/cert.pem', 'ssl_keyfile': folder + '/key.pem'}"
FACTORY = """
import ssl

def context(config, default):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
    return made
"""
TLS = {
    "files": f"app.run('http', port=0, uvicorn={FILES})",
    "files and workers": f"if __name__ == '__main__': app.run('http', port=0, workers=2, uvicorn={FILES})",
    "a context": f"{FACTORY}\napp.run('http', port=0, uvicorn={{'ssl_context_factory': context}})",
}


@pytest.mark.parametrize("kind", TLS)
def test_the_url_of_a_server_with_a_certificate_is_https(tmp_path: Path, kind: str) -> None:
    certificate, _ = self_signed(tmp_path)
    with running(tmp_path, f"folder = {str(tmp_path)!r}\n{TLS[kind]}") as (_, line):
        url = url_in(line)
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        trusted.check_hostname = False
        assert httpx2.post(url, json=PING, headers=HEADERS, verify=trusted).status_code == 200


@pytest.mark.long
def test_settings_of_the_app_say_where_it_listens(tmp_path: Path) -> None:
    with running(
        tmp_path, "app.settings.streamable_http_path = '/x/mcp'\napp.settings.port = 0\napp.run('streamable-http')"
    ) as (_, line):
        assert url_in(line).endswith("/x/mcp")
        assert httpx2.post(url_in(line), json=PING, headers=HEADERS).status_code == 200


@pytest.mark.long
def test_ctrl_c_ends_without_a_traceback(tmp_path: Path) -> None:
    with running(tmp_path, "app.run('http', port=0)\nprint('after run')") as (process, line):
        assert httpx2.post(url_in(line), json=PING, headers=HEADERS).status_code == 200
        process.send_signal(signal.SIGINT)
        assert exit_code_within(process, 10) == 0
        assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.long
def test_ctrl_c_interrupts_the_event_loop_of_the_caller(tmp_path: Path) -> None:
    serving = "import asyncio\ntry:\n    asyncio.run(app.run_async('http', port=0))"
    lines = f"{serving}\nexcept KeyboardInterrupt:\n    raise SystemExit(7)"
    with running(tmp_path, lines) as (process, _):
        process.send_signal(signal.SIGINT)
        assert exit_code_within(process, 10) == 7


@pytest.mark.long
def test_a_used_port_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with running(tmp_path, f"app.run('http', port={port})") as (process, line):
            remedy = "end the other program, or pass another port to run(), or port=0 for a free one"
            assert line == f"run(): port {port} of 127.0.0.1 is in use; {remedy}\n"
            assert exit_code_within(process, 10) == 1
            assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.long
def test_a_host_that_is_not_of_this_machine_is_one_line(tmp_path: Path) -> None:
    with running(tmp_path, "app.run('http', host='192.0.2.1', hosts=['*'], port=0)") as (process, line):
        assert line.startswith("run(): port 0 of 192.0.2.1 cannot be listened on (") and line.endswith(
            "pass another host to run()\n"
        )
        assert exit_code_within(process, 10) == 1


@pytest.mark.long
def test_another_host_is_refused_with_the_setting_to_write(tmp_path: Path) -> None:
    with running(tmp_path, "app.run('http', port=0)") as (_, line):
        response = httpx2.post(url_in(line), json=PING, headers={**HEADERS, "host": "api.example.com"})
        assert response.status_code == 421
        assert "pass hosts=['api.example.com'] to run() or asgi()" in response.json()["error"]["message"]


@pytest.mark.long
def test_stdio_runs_in_the_event_loop_of_the_caller(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        PROGRAM + "import asyncio, sys\nasyncio.run(app.run_stdio_async())\nprint('the end', file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    import json

    done = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(PING) + "\n",
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "counter"
    assert (done.returncode, done.stderr) == (0, "the end\n")


@pytest.mark.long
@pytest.mark.parametrize(("level", "expected"), [("INFO", True), ("WARNING", False)])
def test_the_log_level_of_an_app_is_that_of_the_process_that_runs_it(level: str, expected: bool) -> None:
    serving = f"import logging\nfrom mcp_generated import App\nApp('x', log_level={level!r}).run('stdio')\n"
    command = [sys.executable, "-c", serving + "logging.getLogger('mine').info('a record')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert ("a record" in done.stderr) is expected
