"""A forked process uses no store of its parent: SQLite forbids it, and of Redis its parent gets the answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.stores.homes import place_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")

PROGRAM = """
import asyncio, json, os, sys
from mcp_runtime.stores import StoreClosedError
from mcp_products.workers.stores.urls import open_store


def uses(store):
    return {
        "get": lambda: store.get("k"),
        "put": lambda: store.put("k", b"child", 60),
        "put if": lambda: store.put("k", b"child", 60, b"parent"),
        "touch": lambda: store.touch("k", 60),
        "delete": lambda: store.delete("k"),
        "count": lambda: store.count("n", 1, 60),
        "append": lambda: store.append("s", [b"child"], 60),
        "large": lambda: store.append("s", [b"x" * 1_000_000], 60),
        "read": lambda: store.read("s", 0),
        "last": lambda: store.last("s"),
        "drop": lambda: store.drop("s"),
        "publish": lambda: store.publish("c", b"child"),
        "subscribe": lambda: store.subscribe("other", print),
    }


async def told_of(store):
    told = {}
    for name, use in uses(store).items():
        try:
            async with asyncio.timeout(20):
                await use()
            told[name] = "no error"
        except StoreClosedError as error:
            told[name] = str(error)
        except BaseException as error:
            told[name] = repr(error)
    await store.close()
    return told


async def main():
    used, unused = (open_store("test()", sys.argv[1]) for _ in range(2))
    await used.subscribe("c", lambda *message: None)
    await used.put("k", b"parent", 60)
    reading, writing = os.pipe()
    if not os.fork():
        told = [asyncio.run(told_of(store)) for store in (used, unused)]  # A forked process has no running event loop.
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    told = json.loads(os.read(reading, 100_000))
    values = [str(await used.get("k"))]
    await used.put("k", b"again", 60)
    values.append((await used.get("k")).decode())
    await used.close()
    print(json.dumps([told, values]))


asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_store_that_the_parent_has_used_is_refused_and_another_is_not(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place_of(kind, tmp_path))], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    (used, unused), values = json.loads(done.stdout)
    assert {name: text for name, text in used.items() if "another process" not in text} == {}
    assert {name: text for name, text in unused.items() if text != "no error"} == {}, "no connection was open"
    assert values == ["None", "again"], "the other store of the child has deleted the record"


MEMORY = """
import asyncio, json, os
from mcp_products.workers.stores.memory import InMemoryStore


async def changed(store, value):
    told = [str(await store.get("k"))]
    await store.put("k", value, 60)
    await store.append("s", [value], 60)
    return [*told, str(await store.get("k")), len(await store.read("s", 0))]


async def main():
    store = InMemoryStore()
    told = [await changed(store, b"before")]
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, json.dumps(asyncio.run(changed(store, b"child"))).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    print(json.dumps([*told, json.loads(os.read(reading, 10_000)), await changed(store, b"after")]))


asyncio.run(main())
"""


def test_a_store_in_memory_becomes_two() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        ["None", "b'before'", 1],
        ["b'before'", "b'child'", 2],
        ["b'before'", "b'after'", 2],
    ]
