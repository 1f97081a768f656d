"""A process that starts while its store cannot be reached says so at once, is alive, and serves when it can."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.auth.certificates import self_signed
from support.endpoints import HANDSHAKE
from support.processes import free_port
from support.stores.failing import FailingStore
from support.stores.shared_workers import Workers

from mcp_generated import App

NEWEST = HANDSHAKE[-1]
PROGRAM = Path(__file__).parents[2] / "support" / "stores" / "worker_server.py"


async def status(client: Workers, path: str) -> int:
    return (await client.answered("GET", path=path)).status


async def test_a_process_is_alive_while_its_store_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    store.outage.is_down = True
    application = App("late").asgi(revisions=[NEWEST.id], store=store, health_path="/healthz", ready_path="/readyz")
    client = Workers([application], [], NEWEST)
    await application.open()  # As the lifespan of its ASGI server does.
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["the store cannot be reached yet, and requests get 503 until it can: the store is down"]
    assert (await status(client, "/healthz"), await status(client, "/readyz")) == (200, 503)
    store.outage.is_down = False
    async with asyncio.timeout(10):
        while await status(client, "/readyz") != 200:
            await asyncio.sleep(0.01)
    await client.open()
    assert client.session is not None
    await application.close()


async def test_the_reason_is_that_of_redis(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed (pip install redis)")
    application = App("late").asgi(store=f"redis://127.0.0.1:{free_port()}", health_path="/healthz")
    await application.open()
    [said] = [record.message for record in caplog.records if "cannot be reached yet" in record.message]
    assert re.search("Redis: .*(Connect call failed|Connection refused)", said)
    assert await status(Workers([application], [], NEWEST), "/healthz") == 200
    await application.close()


@contextmanager
def redis_with_tls(folder: Path) -> Iterator[int]:
    """A Redis with a certificate that nobody trusts; its port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server here (apt-get install redis-server)")
    certificate, key = self_signed(folder)
    options = {"port": 0, "tls-port": (port := free_port()), "tls-auth-clients": "no", "bind": "127.0.0.1", "save": ""}
    files = {"tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": certificate, "dir": folder}
    words = [word for name, value in {**options, **files}.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ready to accept connections" in line:
                break
        else:
            if "unknown" in said.lower() or "Bad directive" in said:
                pytest.skip("this redis-server has no TLS")
            raise AssertionError(f"redis-server does not start: {said}")
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=10)


async def test_an_untrusted_certificate_is_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed (pip install redis)")
    with redis_with_tls(tmp_path) as port:
        url = f"rediss://user:secret-word@localhost:{port}"
        application = App("late").asgi(store=url, health_path="/healthz", ready_path="/readyz")
        await application.open()
        [said] = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
        assert "cannot be reached yet" in said and "certificate verify failed" in said
        assert "secret-word" not in caplog.text
        client = Workers([application], [], NEWEST)
        assert (await status(client, "/healthz"), await status(client, "/readyz")) == (200, 503)
        await application.close()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")
@pytest.mark.parametrize("reason", ["no Redis", "an untrusted certificate"])
def test_workers_without_a_store_say_why_and_answer_probes(reason: str, tmp_path: Path) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed (pip install redis)")
    if reason == "no Redis":
        check_workers(f"redis://127.0.0.1:{free_port()}", "connecting to 127.0.0.1:")
    else:
        with redis_with_tls(tmp_path) as port:
            check_workers(f"rediss://localhost:{port}", "certificate verify failed")


def check_workers(store: str, reason: str) -> None:
    """Two workers say the reason, each once, and the endpoint is alive and not ready."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), store, "2"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if "http://" in line:
                break
        said = [line for line in lines if "cannot be reached yet" in line]
        assert len(said) == 2 and all(reason in line for line in said), lines
        assert "Traceback" not in "".join(lines)
        port = int(lines[-1].split("http://127.0.0.1:")[1].split("/")[0])
        assert [answered(port, path) for path in ("/healthz", "/readyz")] == [200, 503]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def answered(port: int, path: str) -> int:
    """The status of a GET."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
        return int(connection.makefile("rb").readline().split()[1])
