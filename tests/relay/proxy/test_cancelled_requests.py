"""What clients share of one connection to a target: whoever begins it may be cancelled at any wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from support.cancelled_steps import each_wait, steps

from mcp_generated.v2025_11_25.methods import REVISION
from mcp_products.relay.upstream.subscriptions import LogLevel, WantedResources


class Target:
    """A connection to a target that takes a while to agree to each subscription and to each level."""

    def __init__(self) -> None:
        self.levels: list[str] = []
        self.open = 0
        self.upstream: Any = SimpleNamespace(capabilities={"logging": {}})
        self.translation: Any = SimpleNamespace(up=REVISION)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        assert method == "logging/setLevel"
        await steps(3)
        self.levels.append(params["level"])

    async def listen(self, method: str, params: dict[str, Any], notify: Any) -> Any:
        raise AssertionError(method)

    async def subscribe(self, uri: str) -> None:
        await steps(3)
        self.open += 1

    async def unsubscribe(self, uri: str) -> None:
        self.open -= 1


async def test_a_level_is_set_for_all_although_the_first_request_was_reset() -> None:
    def world() -> Any:
        target = Target()
        level = LogLevel(target)

        async def ask() -> list[str]:
            await level.set("debug")
            return target.levels

        return ask

    assert await each_wait(world, ["debug"]) == 1


async def test_the_levels_of_two_clients_are_sent_one_after_the_other_although_one_was_reset() -> None:
    """The last one that was asked for is the one that the target has."""

    def world() -> Any:
        target = Target()
        level, wanted = LogLevel(target), iter(range(100))

        async def ask() -> bool:
            name = ("debug", "error")[next(wanted) % 2]
            await level.set(name)
            return name in target.levels

        return ask

    assert await each_wait(world, True, others=4) == 1


async def test_a_resource_is_watched_once_for_all_although_the_first_request_was_reset() -> None:
    def world() -> Any:
        @asynccontextmanager
        async def watching() -> AsyncIterator[Any]:
            target = Target()
            resources, asked = WantedResources(target.subscribe, target.unsubscribe), 0

            async def ask() -> int:
                nonlocal asked
                await resources.add("note://a")
                asked += 1
                return target.open

            yield ask
            for _ in range(asked):
                await resources.remove("note://a")
            assert target.open == 0
            await resources.close()

        return watching()

    assert await each_wait(world, 1) == 1
