"""The attacked server: ours, or `MCPServer` of the official SDK, as an ASGI application with the same functions.

As a program, `attacked_server.py ours|sdk REVISION TEXT SIZE …` writes as JSON what each message costs whose name and
filling contain the text, and `attacked_server.py ours PORT` serves.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from attack_messages import LARGE, LARGE_ONES, STATELESS, Attack, attacks, headers_of, opening
from pydantic import BaseModel

MAX_BODY = 8 * 2**20
TIMES = 3  # A process is interrupted at times, and pays for a collection of all garbage: the least counts.
SMALL_TIMES, SMALL = 10, 100_000  # The same for a message below so many bytes.
ENOUGH = 1.0  # Seconds after which a message is not measured again.
USED = 16 * 2**20  # Bytes of free memory that are used before a message is measured.
MAX_SMALL = 480  # Bytes of the largest object that the interpreter makes in its own memory.
CHUNK = 64 * 1024  # Bytes, as uvicorn delivers a body.
MAX_SECONDS = 30.0  # Seconds for one message.

Row = dict[str, Any]


class Person(BaseModel):
    name: str
    marks: list[int] = []


def add_functions(app: Any) -> None:
    """Add the same tools, prompt and resource to an app of either kind."""

    async def echo(text: str) -> str:
        return text

    async def numbers(values: list[int]) -> int:
        return len(values)

    async def people(values: list[Person]) -> int:
        return len(values)

    async def choices(values: list[int | Person | list[int]]) -> int:
        return len(values)

    async def greet(who: str) -> str:
        return who

    async def resource() -> str:
        return "x"

    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return None

    for tool in (echo, numbers, people, choices):
        app.tool()(tool)
    app.completion()(complete)
    app.prompt()(greet)
    app.resource("test://a")(resource)


def application(kind: str) -> Any:
    """Return the ASGI application: ours, or that of the official SDK."""
    if kind == "ours":
        from mcp_generated import App

        app = App("attacked")
        add_functions(app)
        return app.asgi()
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("attacked")
    add_functions(server)
    return server.streamable_http_app(max_request_body_size=MAX_BODY)


class Driver:
    """Sends requests to an application in this process."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __aenter__(self) -> Driver:
        started = asyncio.Event()
        self._ended = asyncio.Event()
        messages = iter([{"type": "lifespan.startup"}])

        async def receive() -> Any:
            if (message := next(messages, None)) is not None:
                return message
            await self._ended.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: Any) -> None:
            started.set()

        scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
        self._lifespan = asyncio.ensure_future(self.app(scope, receive, send))
        await asyncio.wait([self._lifespan, asyncio.ensure_future(started.wait())], return_when="FIRST_COMPLETED")
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._ended.set()
        await asyncio.wait([self._lifespan], timeout=5)

    async def exchange(self, headers: Any, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        """Send a request; return the status, the first part of the body, and the headers."""
        parts = [body[start : start + CHUNK] for start in range(0, len(body), CHUNK)] or [b""]
        pending = iter([(part, number < len(parts)) for number, part in enumerate(parts, 1)])
        disconnected, answered = asyncio.Event(), asyncio.Event()
        status, content, fields = 0, b"", dict[str, str]()

        async def receive() -> Any:
            if (part := next(pending, None)) is not None:
                return {"type": "http.request", "body": part[0], "more_body": part[1]}
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status, content
            if message["type"] == "http.response.start":
                status = message["status"]
                fields.update((name.decode().lower(), value.decode()) for name, value in message["headers"])
            elif data := message.get("body"):
                content = content or data
                if data.strip(b": \r\n"):
                    answered.set()

        scope = {
            **{"type": "http", "http_version": "1.1", "method": "POST", "path": "/mcp", "raw_path": b"/mcp"},
            **{"query_string": b"", "root_path": "", "scheme": "http", "headers": headers},
            **{"server": ("127.0.0.1", 80), "client": ("127.0.0.1", 5), "asgi": {"version": "3.0"}},
        }
        task = asyncio.ensure_future(self.app(scope, receive, send))
        waiting = asyncio.ensure_future(answered.wait())
        await asyncio.wait([task, waiting], timeout=MAX_SECONDS, return_when="FIRST_COMPLETED")
        await asyncio.wait(
            [task], timeout=0 if fields.get("content-type", "").startswith("text/event") else MAX_SECONDS
        )
        disconnected.set()
        waiting.cancel()
        await asyncio.wait([task], timeout=MAX_SECONDS)
        return status, content, fields


def peak(reset: bool = False) -> int:
    """Return the most memory that this process has had since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return int(Path("/proc/self/status").read_text(encoding="utf-8").split("VmHWM:")[1].split()[0]) * 1024


def used_memory() -> list[bytes]:
    """Return objects that use the free memory of the interpreter, and return that of the C library to the system: what
    has been used before would hide what a message takes."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return [bytes(size) for size in range(1, MAX_SMALL, 16) for _ in range(USED // MAX_SMALL * 16 // size)]


async def session_of(driver: Driver, revision: str) -> str | None:
    if revision in STATELESS:
        return None
    headers = headers_of(Attack(revision, "", "", "initialize", "", lambda size: b""), None)
    _, _, fields = await driver.exchange(headers, opening(revision))
    session = fields.get("mcp-session-id")
    done = Attack(revision, "", "", "notifications/initialized", "", lambda size: b"")
    await driver.exchange(headers_of(done, session), b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return session


def measure(kind: str, revision: str, text: str, sizes: list[int]) -> list[Row]:
    """Return the cost of each message of a version whose name and filling contain a text, in each size.

    Each kind of message is measured in a process of its own, which is a copy of this one: what a message before has
    left in the memory would hide what the next one takes, on either side.
    """
    asyncio.run(load_all(kind, revision))
    gc.collect()
    gc.freeze()
    rows: list[Row] = []
    for attack in (attack for attack in attacks(revision) if text in f"{attack.name} {attack.filling}"):
        chosen = [size for size in sizes if size < LARGE or attack.name in LARGE_ONES]
        rows += in_a_copy(partial(costs_of, kind, attack, chosen))
    return rows


async def load_all(kind: str, revision: str) -> None:
    """Send each message once: what is loaded and compiled for it is not a part of its cost."""
    async with Driver(application(kind)) as driver:
        for attack in attacks(revision):
            session = await session_of(driver, revision)
            await driver.exchange(headers_of(attack, session), attack.make(100))


def in_a_copy(work: Callable[[], Coroutine[Any, Any, list[Row]]]) -> list[Row]:
    """Run a coroutine in a copy of this process, and return its result."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with open(writing, "w", encoding="utf-8") as stream:
                json.dump(asyncio.run(work()), stream)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        text = stream.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the copy of the server ended without its figures")
    rows: list[Row] = json.loads(text)
    return rows


async def costs_of(kind: str, attack: Attack, sizes: list[int]) -> list[Row]:
    """Return the cost of a message in each size: the least CPU time of some times, and the memory of the first."""
    rows: list[Row] = []
    async with Driver(application(kind)) as driver:
        session = await session_of(driver, attack.revision)
        await driver.exchange(headers_of(attack, session), attack.make(100))
        for size in sizes:
            body, headers = attack.make(size), headers_of(attack, session)
            used = used_memory()
            costs: list[float] = []
            growths: list[int] = []
            times = TIMES if size > SMALL else SMALL_TIMES
            while len(costs) < times and sum(costs) < ENOUGH:
                peak(reset=True)
                before = peak()
                began = time.process_time()
                status, content, _ = await driver.exchange(headers, body)
                await asyncio.sleep(0)
                costs.append(time.process_time() - began)
                growths.append(peak() - before)
            del used
            rows.append(
                {
                    **{"revision": attack.revision, "name": attack.name, "filling": attack.filling, "size": size},
                    **{"hostile": attack.is_hostile, "status": status, "content": content[:80].decode("latin-1")},
                    **{"cpu": min(costs) * 1e6 / len(body), "memory": growths[0] / len(body), "bytes": len(body)},
                }
            )
            if status == 404 and session is not None and attack.name != "no/such":
                session = await session_of(driver, attack.revision)
    return rows


def serve(port: int) -> None:
    """Serve over HTTP until this process is ended."""
    import uvicorn

    uvicorn.run(application("ours"), port=port, loop="uvloop", http="httptools", log_level="warning", backlog=4096)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[2].isdigit():
        serve(int(sys.argv[2]))
    else:
        json.dump(measure(*sys.argv[1:4], [int(size) for size in sys.argv[4:]]), sys.stdout)
