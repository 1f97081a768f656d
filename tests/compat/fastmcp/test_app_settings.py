"""`on_duplicate`, `dereference_schemas`, composed lifespans and pings, as FastMCP's users write them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel
from support.clients import connect
from support.endpoints import HANDSHAKE, Rev, among, wire_to

from mcp_generated import App, Context, Lifespan, LocalError, lifespan
from mcp_generated.middleware import PingMiddleware
from mcp_generated.v2025_06_18 import Client as HandshakeClient
from mcp_generated.v2026_07_28 import Client as StatelessClient
from mcp_products.versions.adapters import server_candidates

# ---- duplicates ------------------------------------------------------------------------------------------------------


async def shown(app: App) -> set[str | None]:
    """Return the descriptions of what an app lists."""
    lists = [await app.list_tools(), await app.list_prompts(), await app.list_resources()]
    assert [len(items) for items in lists] == [1, 1, 1]
    return {item.description for items in lists for item in items}


@pytest.mark.parametrize("policy, text", [("ignore", "first"), ("replace", "second"), ("warn", "second")])
async def test_a_name_in_use_is_handled_as_the_app_says(
    policy: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("twice", on_duplicate=policy)

    with caplog.at_level(logging.WARNING):
        app.add_tool(lambda: "first", "item", description="first")
        app.add_tool(lambda: "second", "item", description="second")
        app.add_prompt(lambda: "first", "item", description="first")
        app.add_prompt(lambda: "second", "item", description="second")
        app.add_resource("item://x", lambda: "first", name="item", description="first")
        app.add_resource("item://x", lambda: "second", name="item", description="second")
    assert await shown(app) == {text}
    assert len([record for record in caplog.records if "already" in record.message]) == (3 if policy == "warn" else 0)
    assert (await app.call_tool("item")).content[0].text == text  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", [{}, {"on_duplicate": "error"}])
def test_a_name_in_use_is_refused_by_default(settings: Any) -> None:
    app = App("twice", **settings)
    app.add_tool(lambda: "first", "item")
    with pytest.raises(LocalError, match="already"):
        app.add_tool(lambda: "second", "item")


@pytest.mark.parametrize("value", ["raise", None, True, ["warn"]])
def test_an_unknown_policy_is_refused(value: Any) -> None:
    with pytest.raises(LocalError, match='one of "error", "warn", "replace" and "ignore"'):
        App("twice", on_duplicate=value)


# ---- schemas ---------------------------------------------------------------------------------------------------------


class Point(BaseModel):
    x: int
    y: int


class Line(BaseModel):
    start: Point
    end: Point


class Tree(BaseModel):
    place: Point
    branches: list["Tree"] = []


class Man(BaseModel):
    dog: "Dog | None" = None


class Dog(BaseModel):
    man: Man


def references(schema: Any) -> set[str]:
    """Return all references in a schema."""
    if isinstance(schema, list):
        return {name for item in schema for name in references(item)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*(references(value) for value in schema.values()))


def draw(line: Line, points: list[Point]) -> Line:
    return line


def plant(tree: Tree, near: Point) -> Tree:
    return tree


def walk(man: Man, dog: Dog) -> None: ...


@pytest.mark.parametrize(
    "function, remaining", [(draw, set()), (plant, {"#/$defs/Tree"}), (walk, {"#/$defs/Man", "#/$defs/Dog"})]
)
async def test_only_recursive_definitions_stay(function: Callable[..., Any], remaining: set[str]) -> None:
    plain, app = App("plain"), App("app", dereference_schemas=True)
    plain.add_tool(function)
    app.add_tool(function)
    [original], [tool] = await plain.list_tools(), await app.list_tools()
    before, after = original.model_dump(), tool.model_dump()
    assert references(before) > remaining or references(before) == remaining
    assert references(after) == remaining
    definitions = {name for key in ("inputSchema", "outputSchema") for name in (after.get(key) or {}).get("$defs", {})}
    assert definitions == {name.removeprefix("#/$defs/") for name in remaining}
    assert after["inputSchema"]["required"] == before["inputSchema"]["required"]


async def test_a_call_validates_as_before() -> None:
    app = App("app", dereference_schemas=True)
    app.add_tool(draw)
    point = {"x": 1, "y": 2}
    result = await app.call_tool("draw", {"line": {"start": point, "end": point}, "points": [point]})
    assert result.structured_content == {"start": point, "end": point}
    assert (await app.call_tool("draw", {"line": {"start": point}, "points": []})).is_error


def test_a_schema_that_grows_without_bound_is_refused() -> None:
    from pydantic import create_model

    model: Any = Point
    for number in range(20):
        model = create_model(f"Level{number}", left=(model, ...), right=(model, ...))
    app = App("app", dereference_schemas=True)

    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = model
    with pytest.raises(LocalError, match="dereference_schemas=False"):
        app.add_tool(tool)


# ---- lifespans -------------------------------------------------------------------------------------------------------

EVENTS: list[str] = []


def yields(name: str, value: Any) -> Callable[[Any], AsyncIterator[Any]]:
    """Return a function as it stands below `@lifespan`."""

    async def function(app: App) -> AsyncIterator[Any]:
        EVENTS.append(f"{name} begins")
        yield value
        EVENTS.append(f"{name} ends")

    return function


async def state_in(value: Any) -> Any:
    """Return the state that a tool of an app with a lifespan gets."""
    app, states = App("app", lifespan=value), list[Any]()

    @app.tool
    def tool(ctx: Context) -> None:
        states.append(ctx.lifespan_context)

    async with connect(app) as client:
        await client.call_tool("tool")
    return states[0]


async def test_lifespans_are_composed_from_left_to_right_and_end_in_the_opposite_order() -> None:
    EVENTS.clear()
    one, two, three = (lifespan(yields(name, {name: name, "last": name})) for name in ("one", "two", "three"))
    assert await state_in(one | two | three) == {"one": "one", "two": "two", "three": "three", "last": "three"}
    begins = ["one begins", "two begins", "three begins"]
    assert [*begins, "three ends", "two ends", "one ends"] == EVENTS


async def test_a_lifespan_alone_yields_any_value_and_one_of_several_may_yield_nothing() -> None:
    assert await state_in(lifespan(yields("one", [1]))) == [1]
    assert await state_in(lifespan(yields("one", None)) | lifespan(yields("two", {"two": 2}))) == {"two": 2}


async def test_a_context_manager_is_wrapped() -> None:
    managed: Callable[[Any], AbstractAsyncContextManager[Any]] = asynccontextmanager(yields("old", {"old": 1}))
    assert await state_in(lifespan(managed) | lifespan(yields("new", {"new": 2}))) == {"old": 1, "new": 2}


async def test_one_of_several_that_yields_no_dict_is_named() -> None:
    composed = lifespan(yields("one", [1])) | lifespan(yields("two", {}))
    with pytest.raises(LocalError, match=r"'function': one of several must yield a dict or nothing, not \[1\]"):
        async with composed(App("app")):
            raise AssertionError("it has begun")


def test_what_is_no_lifespan_is_refused() -> None:
    def generator(app: App) -> Iterator[None]:
        yield

    with pytest.raises(TypeError, match=r"write first \| lifespan\(second\)"):
        lifespan(yields("one", {})) | asynccontextmanager(yields("two", {}))  # type: ignore[operator]
    with pytest.raises(LocalError, match="one yield"):
        lifespan(generator)  # type: ignore[arg-type]
    with pytest.raises(LocalError, match="must accept one argument"):

        @lifespan
        async def none() -> AsyncIterator[None]:  # type: ignore[arg-type]
            yield

    assert isinstance(lifespan(yields("one", {})), Lifespan)


# ---- pings -----------------------------------------------------------------------------------------------------------


@among(HANDSHAKE)
async def test_a_client_with_a_session_is_pinged_again_and_again(rev: Rev) -> None:
    app = App("app", middleware=[PingMiddleware(interval_ms=1)])
    async with wire_to(*server_candidates(app.server, [rev.id]), opened=rev) as wire:
        for _ in range(3):
            ping = await asyncio.wait_for(wire.receive(), 20)
            assert ping["method"] == "ping"
            wire.send({"jsonrpc": "2.0", "id": ping["id"], "result": {}})


async def test_a_client_without_a_session_gets_no_ping() -> None:
    app = App("app", middleware=[PingMiddleware(interval_ms=1)])

    @app.tool
    async def tool(ctx: Context) -> int:
        return len(ctx.connection_state.background_tasks)

    async with StatelessClient.memory(app) as client:
        assert (await client.call_tool("tool")).structured_content == {"result": 0}
    async with HandshakeClient.memory(app) as handshake:
        for _ in range(3):
            result = await handshake.call_tool("tool")
            assert result.content[0].text == "1"  # type: ignore[union-attr]


@pytest.mark.parametrize("interval", [0, -5])
def test_an_interval_that_is_none_is_refused(interval: int) -> None:
    with pytest.raises(LocalError, match="interval_ms"):
        PingMiddleware(interval_ms=interval)
