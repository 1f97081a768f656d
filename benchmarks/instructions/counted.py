"""A server that valgrind runs, and the calls of a client that counts what they cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from socket import create_connection
from types import TracebackType
from typing import Any, Final, Self

from measures.ports import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER: Final = ROOT / "benchmarks" / "servers" / "counted_server.py"
NEWEST: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
CLIENT: Final = {"name": "load", "version": "1"}
COUNTED: Final = re.compile(r"^summary: (\d+)$", re.M)

Message = dict[str, Any]


@dataclass(frozen=True)
class Client:
    """A client: how it reaches the server, and its protocol version."""

    transport: str
    revision: str

    def call(self, tool: str, number: int) -> Message:
        """Return a call that adds 1 to a number."""
        params: Message = {"name": tool, "arguments": {"a": number, "b": 1}}
        if self.revision == NEWEST:
            fields = {"protocolVersion": NEWEST, "clientInfo": CLIENT, "clientCapabilities": {}}
            params["_meta"] = {META + name: value for name, value in fields.items()}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    def opening(self) -> list[Message]:
        """Return what the client sends first: nothing where each request stands alone."""
        if self.revision == NEWEST or self.transport == "HTTP, stateless":
            return []
        params = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": CLIENT}
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        return [opening, {"jsonrpc": "2.0", "method": "notifications/initialized"}]


class CountedServer:
    """A server of a checkout under valgrind, until the end of the block."""

    def __init__(self, checkout: Path, words: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._prefix = f"--vgdb-prefix={self._folder.name}/vgdb"
        paths = os.pathsep.join(str(checkout / name) for name in ("runtime", "products", "generated"))
        unset = ("PYTHONDONTWRITEBYTECODE", "MCP_FAST_PATHS", "MCP_BUSY_POLL", "MCP_STDIO")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        output = f"--callgrind-out-file={self._folder.name}/counted"
        tool = ["--tool=callgrind", "--instr-atstart=no", output, self._prefix]  # Several times faster at the start.
        valgrind = ["setarch", "-R", "valgrind", *tool]  # -R: the same addresses.
        self.process = subprocess.Popen(
            [*valgrind, str(checkout / ".venv" / "bin" / "python"), str(SERVER), *words],
            env=environment | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._errors: list[bytes] = []
        threading.Thread(target=self._read_errors, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self._folder.cleanup()
        if error is not None:
            sys.stderr.buffer.write(b"".join(self._errors)[-2000:])

    def begin(self) -> None:
        """Count instructions from now on."""
        self._command("instrumentation on")

    def counted(self) -> int:
        """Return how many instructions all threads have executed since the last time."""
        self._command("dump")
        found: list[str] = []
        for path in Path(self._folder.name).glob("counted*"):
            found += COUNTED.findall(path.read_text())
            path.unlink()
        if len(found) != 1:
            raise SystemExit(f"valgrind has written {len(found)} counts instead of one")
        return int(found[0])

    def _command(self, words: str) -> None:
        command = ["vgdb", self._prefix, f"--pid={self.process.pid}", *words.split()]
        subprocess.run(command, check=True, capture_output=True, timeout=600)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)


def over_stdio(server: CountedServer) -> Callable[[Sequence[Message]], list[Message]]:
    """Return a function that writes messages at once, and returns the responses."""
    stdin, stdout = server.process.stdin, server.process.stdout
    assert stdin is not None and stdout is not None

    def exchange(messages: Sequence[Message]) -> list[Message]:
        stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        stdin.flush()
        return [_parsed(stdout.readline()) for message in messages if "id" in message]

    return exchange


def over_http(port: int, revision: str) -> Callable[[Sequence[Message]], list[Message]]:
    """Return a function that posts one message after the other on one connection, and returns the responses."""
    connection = create_connection(("127.0.0.1", port))
    stream = connection.makefile("rb")
    session: list[bytes] = []

    def post(message: Message) -> Message | None:
        body = json.dumps(message).encode()
        head = [
            *(b"POST /mcp HTTP/1.1", b"Host: 127.0.0.1:%d" % port, b"Content-Type: application/json"),
            *(b"Accept: application/json, text/event-stream", b"Content-Length: %d" % len(body), *session),
        ]
        if message["method"] != "initialize":
            head.append(b"MCP-Protocol-Version: " + revision.encode())
        if revision == NEWEST:
            head += [b"Mcp-Method: tools/call", b"Mcp-Name: " + message["params"]["name"].encode()]
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        status = stream.readline()
        if not status:
            raise ConnectionError("the server has closed the connection, as it does after some idle seconds")
        headers: dict[bytes, bytes] = {}
        while line := stream.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        size = headers.get(b"content-length")  # None if a first call takes so long that the answer becomes a stream.
        answer = _event(stream) if size is None else stream.read(int(size))
        if status.split()[1] not in (b"200", b"202"):
            raise SystemExit(f"{status!r}: {answer!r}")
        if b"mcp-session-id" in headers and not session:
            session.append(b"Mcp-Session-Id: " + headers[b"mcp-session-id"])
        return _parsed(answer) if "id" in message else None

    return lambda messages: [answer for message in messages if (answer := post(message)) is not None]


def opened(port: int, client: Client, tools: Sequence[str]) -> Callable[[Sequence[Message]], list[Message]]:
    """Return `over_http` for a client whose first calls have been answered.

    These import modules, which may take longer under valgrind than a server gives a client.
    """
    for _ in range(5):
        exchange = over_http(port, client.revision)
        try:
            exchange([*client.opening(), *(client.call(tool, 0) for tool in tools)])
        except (OSError, ValueError):
            continue
        return exchange
    raise SystemExit(f"{client}: the first calls are not answered")


def serving_port(checkout: Path, port: int, seconds: float = 300.0) -> int:
    """Return the port when the server of a checkout accepts connections there."""
    for _ in range(int(seconds * 10)):
        try:
            create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return port
    raise SystemExit(f"{checkout}: the server has not listened within {seconds:.0f} s")


def words_of(transport: str) -> tuple[list[str], int]:
    """Return the words that start a server with a transport, and its port, 0 over stdio."""
    if transport == "stdio":
        return ["stdio"], 0
    port = free_port()
    return ["http", str(port), *(["stateless"] if transport == "HTTP, stateless" else [])], port


def _event(stream: BufferedReader) -> bytes:
    """Return the data of the last event of a stream in chunks."""
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    events = [line.removeprefix(b"data:") for line in body.splitlines() if line.startswith(b"data:")]
    return events[-1]


def _parsed(line: bytes) -> Message:
    if not line:
        raise SystemExit("the server has ended")
    answer: Message = json.loads(line)
    return answer
