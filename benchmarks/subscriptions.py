"""Bytes and tasks of an open `subscriptions/listen`, and the time of one change to very many of them.

    python benchmarks/subscriptions.py [--number 10000] [--most 50000]

All in one process, without sockets: an `App` and a bare ASGI application get the same requests, with the same `receive`
and `send`. The bare one sends the head and one event of a stream, and waits for the disconnect of its client. Bytes are
those of resident memory between `number` open streams and twice as many, and so are tasks; the task in which a server
runs an application counts in both. Each application has a process of its own. Writes
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
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

from measures.machine import measured
from measures.rounds import write_results
from stdio_table import markdown

RESULTS: Final = Path(__file__).resolve().parent / "results" / "subscriptions.md"
MEASURES: Final = ("runtime/mcp_runtime/transports/http_server", "runtime/mcp_runtime/server/subscriptions.py")
NEWEST: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
URI: Final = "note://one"
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
ASGI = Callable[..., Awaitable[None]]


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

    limits = HTTPLimits(max_subscriptions=most, max_subscriptions_per_address=most)
    return app.asgi(limits=limits), lambda: app.server.notify_resource_updated(URI)


def memory() -> int:
    """Return the resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * PAGE


async def opened(application: ASGI, clients: list[Client], tasks: set[asyncio.Task[None]], number: int) -> None:
    """Open so many streams in all, and wait until each is acknowledged."""
    for _ in range(number - len(clients)):
        scope, client = request(len(clients))
        clients.append(client)
        serving: Any = application(scope, client.receive, client.send)
        tasks.add(asyncio.get_running_loop().create_task(serving))
    while not all(client.events for client in clients):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)


async def figures(kind: str, number: int, most: int) -> dict[str, float]:
    """Return the figures of an application: of one stream, and of a change to `most` of them."""
    application, announce = (bare, None) if kind == "bare" else ours(2 * most)
    clients: list[Client] = []
    tasks: set[asyncio.Task[None]] = set()
    await opened(application, clients, tasks, number)
    before, before_tasks = memory(), len(asyncio.all_tasks())
    await opened(application, clients, tasks, 2 * number)
    found: dict[str, float] = {
        "bytes": (memory() - before) / number,
        "tasks": (len(asyncio.all_tasks()) - before_tasks) / number,
    }
    if announce is not None:
        await opened(application, clients, tasks, most)
        counts = [client.events for client in clients]
        began, cpu = time.perf_counter(), time.process_time()
        await announce()
        while any(client.events == count for client, count in zip(clients, counts, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0)
        found["seconds"] = time.perf_counter() - began
        found["cpu"] = time.process_time() - cpu
    return found


async def show_figures(kind: str, number: int, most: int) -> None:
    """Print the figures as JSON, and end: very many open streams need not be ended one by one."""
    print(json.dumps(await figures(kind, number, most)), flush=True)
    os._exit(0)


def main() -> None:
    """Measure each application in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=10_000, help="streams before those that are measured")
    parser.add_argument("--most", type=int, default=50_000, help="streams that a change goes to")
    parser.add_argument("--kind", choices=("bare", "ours"), help="print the figures of one, in this process")
    options = parser.parse_args()
    if options.kind:
        asyncio.run(show_figures(options.kind, options.number, options.most))
    found: dict[str, dict[str, float]] = {}
    for kind in ("bare", "ours"):
        words = [sys.executable, __file__, "--kind", kind, f"--number={options.number}", f"--most={options.most}"]
        found[kind] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    own, base = found["ours"], found["bare"]
    cells = [
        ("bytes", f"{own['bytes']:,.0f}", f"{base['bytes']:,.0f}", f"{own['bytes'] - base['bytes']:,.0f}"),
        ("tasks", f"{own['tasks']:.1f}", f"{base['tasks']:.1f}", f"{own['tasks'] - base['tasks']:.1f}"),
        (f"seconds until a change is sent to {options.most:,}", f"{own['seconds']:.2f}", "", ""),
        ("CPU seconds of that", f"{own['cpu']:.2f}", "", ""),
    ]
    text = f"""# An open subscription

Bytes of memory and tasks of one `subscriptions/listen` of {NEWEST}, between {options.number:,} and
{2 * options.number:,} of them in one process, without sockets; and how long one change takes to all of
{options.most:,}. Bare is an ASGI application that sends one event and waits. Python {sys.version.split()[0]}.
{measured()}

{markdown(("of a subscription", "ours", "bare", "more than bare"), cells)}
"""
    print(text)
    write_results(RESULTS, text, MEASURES)


if __name__ == "__main__":
    main()
