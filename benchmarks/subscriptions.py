"""Bytes and tasks of an open subscription, and the time of one change to very many of them.

    python benchmarks/subscriptions.py [--number 10000] [--most 50000]

All in one process, without sockets. With ASGI, an `App` and a bare application get the same `subscriptions/listen`,
with the same `receive` and `send`. The bare one sends the head and one event of a stream, and waits for the disconnect
of its client. With `run("http")`, an `App` is served by its connections of uvicorn, whose transport only counts events:
by `subscriptions/listen`, and by the GET of a session of 2025-11-25, whose POSTs had a connection that has closed. A
connection that has sent one request and waits for the next one is what uvicorn and our limits of connections need
themselves. Bytes are those of resident memory between `number` open streams and twice as many, and so are tasks; the
task in which a server runs an application counts. Each kind has a process of its own. Writes
benchmarks/results/subscriptions.md.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

from measures.machine import measured
from measures.rounds import write_results
from stdio_table import markdown

RESULTS: Final = Path(__file__).resolve().parent / "results" / "subscriptions.md"
MEASURES: Final = ("runtime/mcp_runtime/transports/http_server", "runtime/mcp_runtime/server/subscriptions.py")
NEWEST: Final = "2026-07-28"
SESSIONS: Final = "2025-11-25"
META: Final = "io.modelcontextprotocol/"
URI: Final = "note://one"
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
ASGI = Callable[..., Awaitable[None]]
Open = Callable[[int], Awaitable[Any]]


class Wire(asyncio.Transport):
    """The transport of a connection: it counts the events of what is written."""

    __slots__ = ("address", "events", "last")

    def __init__(self, number: int) -> None:
        """Come from an address that some others have as well."""
        self.address = f"10.0.{number // 1_000}.1"
        self.events = 0
        self.last = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the addresses of both ends."""
        return {"peername": (self.address, 5000), "sockname": ("127.0.0.1", 8000)}.get(name, default)

    def write(self, data: Any) -> None:
        """Count the events of a part of the response."""
        self.events += data.count(b"data: ")
        self.last = b"" if self.events else self.last + data

    def is_closing(self) -> bool:
        """Return False: it stays open."""
        return False

    def pause_reading(self) -> None:
        """Do nothing: there is nothing more to read."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Return 0: all is sent."""
        return 0

    def close(self) -> None:
        """Do nothing."""


class Client:
    """The client of one stream: what it has got, and its connection, which stays open."""

    __slots__ = ("body", "events")

    def __init__(self, body: bytes) -> None:
        """Send a body."""
        self.body = body
        self.events = 0

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the body, then wait: the client does not disconnect."""
        if self.body:
            body = self.body
            self.body = b""
            return {"type": "http.request", "body": body, "more_body": False}
        return await asyncio.get_running_loop().create_future()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Count the events of a part of the response."""
        self.events += message.get("body", b"").count(b"data:")


def request(number: int) -> tuple[dict[str, Any], Client]:
    """Return the scope and the client of one subscription."""
    meta = {f"{META}protocolVersion": NEWEST, f"{META}clientInfo": {"name": "many", "version": "1"}}
    meta[f"{META}clientCapabilities"] = {}
    params = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [URI]}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": number, "method": "subscriptions/listen", "params": params}
    body = json.dumps(message).encode()
    headers = {"host": "127.0.0.1:8000", "content-type": "application/json", "content-length": str(len(body))}
    headers |= {"accept": "application/json, text/event-stream", "mcp-protocol-version": NEWEST}
    headers["mcp-method"] = "subscriptions/listen"
    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": "POST", "root_path": ""}
    scope |= {"path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "server": ("127.0.0.1", 8000)}
    address = f"10.0.{number // 1_000}.1"  # One address may have 8,192 requests that run.
    scope |= {"client": (address, 5000), "state": {}, "asgi": {"version": "3.0"}}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    return scope, Client(body)


def raw(method: str, body: bytes, *lines: str) -> bytes:
    """Return a request as a client writes it."""
    accept = "Accept: application/json, text/event-stream"
    content = ("Content-Type: application/json", f"Content-Length: {len(body)}") if body else ()
    head = [f"{method} /mcp HTTP/1.1", "Host: 127.0.0.1:8000", accept, *content, *lines, "", ""]
    return "\r\n".join(head).encode() + body


def listening(number: int) -> bytes:
    """Return a request to listen, as a client writes it."""
    body = request(number)[1].body
    return raw("POST", body, f"Mcp-Protocol-Version: {NEWEST}", "Mcp-Method: subscriptions/listen")


def message(id: int | None, method: str, params: dict[str, Any]) -> bytes:
    """Return the body of a request, or of a notification without an id."""
    numbered = {} if id is None else {"id": id}
    return json.dumps({"jsonrpc": "2.0", **numbered, "method": method, "params": params}).encode()


class Endpoint:
    """The connections of `run("http")` to an application."""

    def __init__(self, application: ASGI, most: int) -> None:
        """Serve an application, and so many connections."""
        from uvicorn import Config
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
        from uvicorn.server import ServerState

        from mcp_generated.http import HTTPLimits
        from mcp_products.fast.http import observed
        from mcp_products.hosting.limits import ServerConnections

        self.config = Config(application, log_level="warning", timeout_keep_alive=3600)
        self.config.load()
        limits = HTTPLimits(max_connections=most)
        self.connections = ServerConnections(limits)
        self.kind: Any = observed(HttpToolsProtocol, self.connections)
        self.state = ServerState()

    def connect(self, number: int) -> tuple[Any, Wire]:
        """Open a connection."""
        wire = Wire(number)
        connection = self.kind(config=self.config, server_state=self.state, app_state={})
        connection.connection_made(wire)
        return connection, wire

    async def listen(self, number: int) -> Wire:
        """Open a stream of the newest version."""
        connection, wire = self.connect(number)
        connection.data_received(listening(number))
        return wire

    async def get(self, number: int) -> Wire:
        """Open a session, subscribe to the resource, and open the stream of the session."""
        opening, answers = self.connect(number)
        hello = {"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": {"name": "many", "version": "1"}}
        opening.data_received(raw("POST", message(1, "initialize", hello)))
        await until(lambda: b"mcp-session-id: " in answers.last)
        id = answers.last.partition(b"mcp-session-id: ")[2].partition(b"\r")[0].decode()
        names = (f"Mcp-Session-Id: {id}", f"Mcp-Protocol-Version: {SESSIONS}")
        for body in (
            message(None, "notifications/initialized", {}),
            message(2, "resources/subscribe", {"uri": URI}),
        ):
            answers.last = b""
            opening.data_received(raw("POST", body, *names))
            await until(lambda: bool(answers.last))
        opening.connection_lost(None)
        connection, wire = self.connect(number)
        connection.data_received(raw("GET", b"", *names))
        return wire

    async def idle(self, number: int) -> Wire:
        """Open a connection, send a request, and wait for the next one."""
        connection, wire = self.connect(number)
        connection.data_received(raw("GET", b"", "Mcp-Session-Id: none", f"Mcp-Protocol-Version: {SESSIONS}"))
        await until(lambda: bool(wire.last))
        wire.last = b""
        wire.events = 1
        return wire


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    while not is_true():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Send the head and one event, and wait for the disconnect."""
    message = await receive()
    id = json.loads(message["body"])["id"]
    head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    event = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"id": id}}
    await send({"type": "http.response.body", "body": b"data: %b\n\n" % json.dumps(event).encode(), "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def ours(most: int) -> tuple[ASGI, Callable[[], Awaitable[None]]]:
    """Return the application of an `App`, and what announces a change of the resource to all."""
    from mcp_generated import App
    from mcp_generated.http import HTTPLimits

    app = App("notes")

    @app.resource(URI)
    def note() -> str:
        return "text"

    limits = HTTPLimits(max_subscriptions=most, max_subscriptions_per_address=most, max_sessions=most)
    return app.asgi(limits=limits), lambda: app.server.notify_resource_updated(URI)


def memory() -> int:
    """Return the resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * PAGE


async def opened(open_one: Open, open_streams: list[Any], number: int) -> None:
    """Open so many streams in all, and wait until each is acknowledged."""
    while len(open_streams) < number:
        open_streams.append(await open_one(len(open_streams)))
    await until(lambda: all(each.events for each in open_streams))
    await asyncio.sleep(0.1)


def opener(kind: str, application: ASGI, most: int) -> Open:
    """Return what opens a stream."""
    tasks: set[asyncio.Task[None]] = set()

    async def open_one(number: int) -> Client:
        scope, client = request(number)
        serving: Any = application(scope, client.receive, client.send)
        tasks.add(asyncio.get_running_loop().create_task(serving))
        return client

    return open_one if kind in {"bare", "ours"} else getattr(Endpoint(application, most), kind)


async def figures(kind: str, number: int, most: int) -> dict[str, float]:
    """Return the figures of a kind: of one stream, and of a change to `most` of them."""
    application, announce = (bare, None) if kind == "bare" else ours(2 * most)
    open_one, open_streams = opener(kind, application, 2 * most), list[Any]()
    await opened(open_one, open_streams, number)
    before, before_tasks = memory(), len(asyncio.all_tasks())
    await opened(open_one, open_streams, 2 * number)
    found: dict[str, float] = {
        "bytes": (memory() - before) / number,
        "tasks": (len(asyncio.all_tasks()) - before_tasks) / number,
    }
    if announce is not None and kind != "idle":
        await opened(open_one, open_streams, most)
        counts = [each.events for each in open_streams]
        began, cpu = time.perf_counter(), time.process_time()
        await announce()
        await until(lambda: open_streams[-1].events > counts[-1])
        await until(lambda: all(each.events > count for each, count in zip(open_streams, counts, strict=True)))
        found["seconds"] = time.perf_counter() - began
        found["cpu"] = time.process_time() - cpu
    return found


async def show_figures(kind: str, number: int, most: int) -> None:
    """Print the figures as JSON, and end: very many open streams need not be ended one by one."""
    print(json.dumps(await figures(kind, number, most)), flush=True)
    os._exit(0)


KINDS: Final = {
    "listen": '`run("http")`: `subscriptions/listen`',
    "get": '`run("http")`: a session with a GET stream',
    "idle": '`run("http")`: a connection that waits for a request',
    "ours": "ASGI: `subscriptions/listen`",
    "bare": "ASGI: one event of a bare application",
}


def cells(kind: str, found: Mapping[str, float]) -> tuple[str, ...]:
    """Return the cells of one row."""
    changes = [f"{found[name]:.2f}" if name in found else "" for name in ("seconds", "cpu")]
    return KINDS[kind], f"{found['bytes']:,.0f}", f"{found['tasks']:.1f}", *changes


def main() -> None:
    """Measure each kind in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=10_000, help="streams before those that are measured")
    parser.add_argument("--most", type=int, default=50_000, help="streams that a change goes to")
    parser.add_argument("--kind", choices=KINDS, help="print the figures of one, in this process")
    options = parser.parse_args()
    if options.kind:
        asyncio.run(show_figures(options.kind, options.number, options.most))
    found: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        words = [sys.executable, __file__, "--kind", kind, f"--number={options.number}", f"--most={options.most}"]
        found[kind] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    head = ("of one", "bytes", "tasks", f"seconds until a change is sent to {options.most:,}", "CPU seconds of that")
    text = f"""# An open subscription

Bytes of memory and tasks of one stream, between {options.number:,} and {2 * options.number:,} of them in one process,
without sockets; and how long one change takes to all of {options.most:,}. With `run("http")`, this includes the objects
of its connection. A bare application sends one event and waits. Versions {NEWEST} and {SESSIONS}, Python
{sys.version.split()[0]}.
{measured()}

{markdown(head, [cells(kind, each) for kind, each in found.items()])}
"""
    print(text)
    write_results(RESULTS, text, MEASURES)


if __name__ == "__main__":
    main()
