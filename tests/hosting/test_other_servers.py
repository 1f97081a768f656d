"""`asgi()` in servers of other projects: limits of bodies and of work hold, those of connections are of the server."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import pytest
from support.http.plain_asgi import MAX_BODY, MAX_PARTS
from support.http.slow_connections import call, echo, incomplete
from support.peers import READY, python_peer, started

pytestmark = pytest.mark.long
APPLICATION = "support.http.plain_asgi:application"


def uvicorn() -> tuple[list[str], str]:
    return [sys.executable, "-m", "uvicorn", APPLICATION, "--port", "0"], ""


def hypercorn() -> tuple[list[str], str]:
    packages = next((python_peer("hypercorn==0.18.0").parents[1] / "lib").glob("python3.*/site-packages"))
    return [sys.executable, "-m", "hypercorn", APPLICATION, "--bind", "127.0.0.1:0"], str(packages)


@pytest.fixture(scope="module", params=[uvicorn, hypercorn], ids=lambda server: server.__name__)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    command, packages = request.param()
    places = [*sys.path, *([packages] if packages else [])]  # The last: what it needs of ours is ours.
    server = started(command, {**os.environ, "PYTHONPATH": os.pathsep.join(places)}, "unning on http")
    try:
        line = re.search(r"http://127\.0\.0\.1:(\d+)", server.output)
        assert line is not None
        yield int(line[1])
    finally:
        server.process.terminate()
        assert server.process.wait(READY) in (0, -signal.SIGTERM)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=READY)


def answered(port: int, request: bytes, until: bytes = b"\r\n\r\n") -> bytes:
    """Return what comes after a request, until a text or the end of the connection comes."""
    received = b""
    with connected(port) as client:
        client.sendall(request)
        while until not in received and (part := client.recv(65_536)):
            received += part
    return received


def is_served(port: int) -> bool:
    return b'"hi"' in answered(port, echo(), b'"hi"')


def with_body(body: bytes, chunked: bool = False) -> bytes:
    head, _ = call("echo")
    start = head[: head.index(b"content-length")]
    if chunked:
        return start + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return start + b"content-length: %d\r\n\r\n%b" % (len(body), body)


# What is refused, and with which status.
REFUSED: dict[str, tuple[Callable[[], bytes], bytes]] = {
    "a long body": (lambda: with_body(b" " * (MAX_BODY + 1)), b"413"),
    "a long body in chunks": (lambda: with_body(b" " * (MAX_BODY + 1), chunked=True), b"413"),
    "many values": (lambda: with_body(b"[" + b"1," * MAX_PARTS + b"1]"), b"413"),
    "a head with a doubled line": (lambda: echo().replace(b"accept:", b"host: a\r\naccept:"), b"400"),
    "another host": (lambda: echo().replace(b"host: 127.0.0.1", b"host: example.com"), b"421"),
    "half a body": (incomplete, b"408"),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_what_an_application_limits_is_limited_in_any_server(port: int, attack: str) -> None:
    make, status = REFUSED[attack]
    assert answered(port, make())[9:12] == status
    assert is_served(port)


def test_a_client_that_leaves_ends_its_call_in_any_server(port: int) -> None:
    clients = [connected(port) for _ in range(20)]
    for client in clients:
        client.sendall(b"".join(call("wait")))
    while b'"running":20' not in answered(port, b"".join(call("calls")), b"cancelled").replace(b" ", b""):
        pass
    for client in clients:
        client.close()
    while b'"cancelled":20' not in answered(port, b"".join(call("calls")), b"cancelled").replace(b" ", b""):
        pass
    assert is_served(port)
