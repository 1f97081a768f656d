"""Large messages of many kinds, what an app answers to each, and what that costs in CPU time and in memory.

As a program: `python -m support.http.attacks BYTES` writes a JSON object for each kind.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from support.endpoints import Rev
from support.http.asgi_client import Answer, Web

from mcp_generated import App

STATELESS, BATCHES = "2026-07-28", "2025-03-26"
_META = "io.modelcontextprotocol/"


class Person(BaseModel):
    name: str
    marks: list[int] = []


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = ""


def application() -> App:
    app = App("attacked")

    @app.tool
    def numbers(values: list[int]) -> int:
        return len(values)

    @app.tool
    def people(values: list[Person]) -> int:
        return len(values)

    @app.tool
    def choices(values: list[int | Person | list[int]]) -> int:
        return len(values)

    @app.tool
    def marks(person: Person) -> int:
        return len(person.marks)

    @app.tool
    def strict(value: Strict) -> str:
        return value.name

    @app.tool
    def anything(value: dict[str, Any]) -> int:
        return len(value)

    @app.tool
    def text(value: str) -> int:
        return len(value)

    return app


def _call(tool: str, arguments: str, more: str = "") -> bytes:
    meta = f'{{"{_META}protocolVersion":"{STATELESS}","{_META}clientCapabilities":{{}}}}'
    params = f'{{"_meta":{meta},"name":"{tool}","arguments":{{{arguments}}}{more}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()


def _listen(uris: str, more: str = "") -> bytes:
    meta = f'{{"{_META}protocolVersion":"{STATELESS}","{_META}clientCapabilities":{{}}{more}}}'
    params = f'{{"_meta":{meta},"notifications":{{"resourceSubscriptions":[{uris}]}}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{params}}}'.encode()


def _items(item: str, size: int) -> str:
    return ",".join([item] * (size // (len(item) + 1)))


def _members(value: str, size: int) -> str:
    number = size // (len(value) + 11)
    return ",".join(f'"{index:07d}":{value}' for index in range(number))


def _values(tool: str, item: str) -> Callable[[int], bytes]:
    return lambda size: _call(tool, f'"values":[{_items(item, size)}]')


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "input responses that are none": lambda size: _call(
        "text", '"value":"x"', f',"inputResponses":{{{_members("{}", size)}}}'
    ),
    "input responses that are numbers": lambda size: _call("text", "", f',"inputResponses":{{{_members("1", size)}}}'),
    "strings for integers": _values("numbers", '"a"'),
    "null for integers": _values("numbers", "null"),
    "large integral numbers": _values("numbers", "1e308"),
    "objects without properties": _values("people", "{}"),
    "empty arrays for objects": _values("people", "[]"),
    "no branch of a union": _values("choices", '{"a":1}'),
    "strings in a model": lambda size: _call("marks", f'"person":{{"name":"x","marks":[{_items(chr(34) * 2, size)}]}}'),
    "unknown arguments": lambda size: _call("text", _members("1", size)),
    "unknown properties": lambda size: _call("strict", f'"value":{{{_members("1", size)}}}'),
    "an array for an object": lambda size: _call("anything", f'"value":[{_items("1", size)}]'),
    "subscriptions": lambda size: _listen(_items('""', size)),
    "subscriptions that are numbers": lambda size: _listen(_items("1", size)),
    "metadata of a subscription": lambda size: _listen('"test://a"', f',"x":[{_items("[[[]]]", size)}]'),
    "a batch of numbers": lambda size: b"[" + _items("1", size).encode() + b"]",
    "a batch of objects": lambda size: b"[" + _items("{}", size).encode() + b"]",
    "nested arrays": lambda size: _call("anything", f'"value":{{"x":[{_items("[[]]", size)}]}}'),
    "commas without values": lambda size: b"[" + b"," * size,
}
WELL_FORMED: dict[str, Callable[[int], bytes]] = {
    "a text": lambda size: _call("text", f'"value":"{"text, " * (size // 6)}"'),
    "a text of quotation marks": lambda size: _call("text", '"value":"' + '\\",' * (size // 3) + '"'),
    "integers": _values("numbers", "12345678"),
    "people": _values("people", '{"name":"somebody","marks":[1,2,3]}'),
    "free members": lambda size: _call("anything", f'"value":{{{_members("1", size)}}}'),
}


def body_of(kind: str, size: int) -> bytes:
    """A message of a kind with about so many bytes."""
    return (HOSTILE | WELL_FORMED)[kind](size)


async def answered(asgi: Any, body: bytes) -> Answer:
    """What an application answers to a body whose headers are right."""
    if not body.startswith(b"{"):
        return await Web(asgi, Rev(BATCHES)).answered(body=body, headers={"mcp-protocol-version": BATCHES})
    start = body[:400].decode()
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": start.split('"method":"')[1].split('"')[0]}
    if headers["mcp-method"] == "tools/call":
        headers["mcp-name"] = start.split('"name":"')[1].split('"')[0]
    request = Web(asgi, Rev(STATELESS)).request(body=body, headers=dict[str, str | None](headers))
    await request.until(lambda answer: answer.status and (answer.content or answer.status != 200))
    await request.leave()
    return request


def _peak() -> int:
    """The most memory of this process since it was reset, in bytes; it is reset."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


async def _measure(size: int) -> dict[str, dict[str, Any]]:
    asgi = application().asgi()
    for kind in HOSTILE | WELL_FORMED:
        await answered(asgi, body_of(kind, 100))  # What is loaded and compiled once is not a part of the cost.
    results = dict[str, dict[str, Any]]()
    for kind in HOSTILE | WELL_FORMED:
        body = body_of(kind, size)
        _peak()
        before = _peak()
        began = time.process_time()
        answer = await answered(asgi, body)
        spent = time.process_time() - began
        results[kind] = {
            "bytes": len(body),
            "status": answer.status,
            "microseconds_per_byte": round(spent * 1e6 / len(body), 3),
            "memory_per_byte": round((_peak() - before) / len(body), 1),
            "answer": answer.content[:300].decode("utf-8", "replace"),
        }
    await asgi.close()
    return results


if __name__ == "__main__":
    json.dump(asyncio.run(_measure(int(sys.argv[1]))), sys.stdout, indent=1)
