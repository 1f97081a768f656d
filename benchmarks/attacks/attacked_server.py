"""The attacked server: ours, or `MCPServer` of the official SDK, as an ASGI application with the same functions.

As a program, `attacked_server.py ours|sdk REVISION SIZE …` writes what each message costs it as JSON, and
`attacked_server.py ours PORT` serves.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from attack_messages import LARGE, LARGE_ONES, STATELESS, Attack, attacks, headers_of, opening
from pydantic import BaseModel

MAX_BODY = 8 * 2**20
GARBAGE = 100_000  # Bytes of a message above which what is left of the last one would count.
CHUNK = 64 * 1024  # Bytes, as uvicorn delivers a body.
MAX_SECONDS = 30.0  # Seconds for one message.


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
        started, self._ended = asyncio.Event(), asyncio.Event()
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
        Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def give_back_memory() -> None:
    """Return free memory to the system: what an earlier message has left would hide what the next one takes."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


async def session_of(driver: Driver, revision: str) -> str | None:
    if revision in STATELESS:
        return None
    headers = headers_of(Attack(revision, "", "", "initialize", "", lambda size: b""), None)
    _, _, fields = await driver.exchange(headers, opening(revision))
    session = fields.get("mcp-session-id")
    done = Attack(revision, "", "", "notifications/initialized", "", lambda size: b"")
    await driver.exchange(headers_of(done, session), b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return session


async def measure(kind: str, revision: str, sizes: list[int]) -> list[dict[str, Any]]:
    """Return the cost of each message of a version, in each size."""
    rows: list[dict[str, Any]] = []
    async with Driver(application(kind)) as driver:
        session = await session_of(driver, revision)
        for attack in attacks(revision):
            await driver.exchange(headers_of(attack, session), attack.make(100))
            for size in sizes if attack.name in LARGE_ONES else (size for size in sizes if size < LARGE):
                body, headers = attack.make(size), headers_of(attack, session)
                if size > GARBAGE:
                    give_back_memory()
                costs: list[float] = []
                peak(reset=True)
                memory = peak()
                for _ in range(1 if size > GARBAGE else 3):  # A small message may pay for a collection of all garbage.
                    began = time.process_time()
                    status, content, _ = await driver.exchange(headers, body)
                    await asyncio.sleep(0)
                    costs.append(time.process_time() - began)
                spent, memory = min(costs), peak() - memory
                rows.append(
                    {
                        **{"revision": revision, "name": attack.name, "filling": attack.filling, "size": size},
                        **{"hostile": attack.is_hostile, "status": status, "content": content[:80].decode("latin-1")},
                        **{"cpu": spent * 1e6 / len(body), "memory": memory / len(body), "bytes": len(body)},
                    }
                )
                if status == 404 and session is not None and attack.name != "no/such":
                    session = await session_of(driver, revision)
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
        json.dump(asyncio.run(measure(sys.argv[1], sys.argv[2], [int(size) for size in sys.argv[3:]])), sys.stdout)
