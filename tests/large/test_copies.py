"""What a message has besides what its type defines is parsed once, and not copied: it may be most of the message."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from pydantic_core import from_json
from support.project import ROOT

from mcp_generated import REVISIONS, App

SIZE = 8_000  # Bytes, of which a value of nested arrays takes about thirty times as many as objects.
LIMIT = 1.5  # Times the memory of the objects of a message.


@pytest.fixture(scope="module")
def attacked() -> Iterator[Any]:
    """The module that sends the messages of all kinds to an application."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks" / "attacks")
        yield import_module("attacked_server")


def messages(attacked: Any, id: str) -> Iterator[Any]:
    """Yield each message of a client, filled with nested arrays; of a call, the arguments are filled as well."""
    for attack in attacked.attacks(id):
        if attack.filling == "nested arrays":
            yield attack
        if (attack.filling, attack.name) == ("nested arrays", "tools/call"):
            items = b",".join([b"[[[]]]"] * (SIZE // 7))
            call = attack.make(1).replace(b'"echo"', b'"anything"').replace(b'{"text":"x"}', b'{"value":[%b]}' % items)
            yield replace(attack, tool="anything", filling="nested arguments", make=lambda size, call=call: call)


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Garbage is not collected: a collection visits all objects of all tests."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("id", REVISIONS)
async def test_nested_values_of_a_message_are_not_copied(attacked: Any, id: str) -> None:
    app = App("attacked")
    attacked.add_functions(app)

    @app.tool
    async def anything(value: list[Any]) -> int:
        return len(value)

    copied: dict[tuple[str, str], float] = {}
    async with attacked.Driver(app.asgi()) as driver:
        session = await attacked.session_of(driver, id)
        for attack in messages(attacked, id):
            headers, body = attacked.headers_of(attack, session), attack.make(SIZE)
            status, content, _ = await driver.exchange(headers, body)  # What is loaded once does not count.
            assert (status in (200, 202) and b'"error"' not in content) or attack.name in ("initialize", "no/such")
            tracemalloc.start()
            try:
                parsed = from_json(body)
                objects = tracemalloc.get_traced_memory()[0]
                del parsed
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                await driver.exchange(headers, body)
                used = tracemalloc.get_traced_memory()[1] - before
            finally:
                tracemalloc.stop()
            if used > LIMIT * objects:
                copied[attack.name, attack.filling] = round(used / objects, 1)
    assert copied == {}
