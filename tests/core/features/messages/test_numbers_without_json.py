"""NaN and infinity: refused where they are sent, in each place of a value, and never null or NaN on the wire."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel
from support.endpoints import ALL_REVISIONS, Rev, Tap, among

from mcp_generated import App, Context, InvalidMessageError, RemoteJSONRPCError
from mcp_generated.v2026_07_28 import types as t

REASON = "JSON has no number NaN or infinity"


class Item(BaseModel):
    x: Any
    y: float | None = None


class Box(BaseModel):
    items: list[Item]
    by_name: dict[str, Any] = {}


@dataclass
class Point:
    x: Any


class Row(NamedTuple):
    x: Any


VALUES: dict[str, tuple[Any, Any]] = {
    "model": (Item, Item(x=math.nan)),
    "model_without_hint": (None, Item(x=math.inf)),
    "float": (Item, Item(x=1, y=math.nan)),
    "nested": (Box, Box(items=[Item(x=[{"a": -math.inf}])])),
    "dict_in_model": (Box, Box(items=[], by_name={"a": {"b": (1, math.nan)}})),
    "list_of_models": (list[Item], [Item(x=1), Item(x=math.nan)]),
    "dict": (dict[str, Any], {"a": math.nan}),
    "dict_of_models": (dict[str, Item], {"a": Item(x=math.nan)}),
    "dataclass": (Point, Point(math.nan)),
    "model_in_dataclass": (Point, Point(Item(x=math.nan))),
    "named_tuple": (Row, Row(math.nan)),
    "any": (Any, [Item(x=math.nan)]),
    "result": (None, t.CallToolResult(content=[], structured_content={"a": Item(x=math.nan)})),
    "meta": (None, t.CallToolResult(content=[t.TextContent(text="x", meta={"a": math.nan})])),
}
HARMLESS: dict[str, tuple[Any, Any]] = {
    "null": (Item, Item(x=None)),
    "text": (Item, Item(x=["NaN", "Infinity", "null"])),
    "null_and_text": (None, {"NaN": None}),
}


def returning(value: Any) -> Any:
    def function() -> Any:
        return value

    del function.__annotations__["return"]
    return function


def app_of(values: dict[str, tuple[Any, Any]]) -> App:
    app = App("numbers")
    for name, (annotation, value) in values.items():
        function = returning(value)
        if annotation is not None:
            function.__annotations__["return"] = annotation
        app.add_tool(function, name)
        if not name.startswith(("result", "meta")):
            app.add_resource(f"number://{name}", function)
    return app


@among(ALL_REVISIONS)
async def test_a_tool_and_a_resource_with_one_fail_and_the_wire_has_neither_null_nor_nan(rev: Rev) -> None:
    app = app_of(VALUES)
    tap = Tap(app)
    async with rev.package.Client(tap) as client:
        for name in VALUES:
            result = await client.call_tool(name)
            assert result.is_error and REASON in result.content[0].text, name
            if not name.startswith(("result", "meta")):
                with pytest.raises(RemoteJSONRPCError, match="internal error"):
                    await client.read_resource(f"number://{name}")
    results = [message["result"] for message in tap.received if "content" in message.get("result", {})]
    assert len(results) == len(VALUES) and "null" not in str(results) and "None" not in str(results)


@among(ALL_REVISIONS)
async def test_null_and_texts_are_values_like_others(rev: Rev) -> None:
    async with rev.package.Client.memory(app_of(HARMLESS)) as client:
        for name in HARMLESS:
            result = await client.call_tool(name)
            assert not result.is_error, result.content
            assert (await client.read_resource(f"number://{name}")).contents[0].text == result.content[0].text


@among(ALL_REVISIONS)
async def test_one_in_an_argument_or_a_log_message_is_refused_where_it_is_written(rev: Rev) -> None:
    app, refused = App("numbers"), list[str]()

    @app.tool
    async def log(ctx: Context, x: Any = None) -> str:
        for data in (math.nan, {"a": math.inf}, Item(x=math.nan)):
            with pytest.raises(InvalidMessageError) as caught:
                await ctx.info(data)
            refused.append(str(caught.value))
        return "refused"

    meta = {"io.modelcontextprotocol/logLevel": "debug"} if rev.stateless else {}
    async with rev.package.Client.memory(app) as client:
        with pytest.raises(InvalidMessageError, match=REASON):
            await client.call_tool("log", {"x": [math.nan]})
        result = await client.call_tool("log", meta=meta)
    assert not result.is_error, result.content
    assert len(refused) == 3 and all(REASON in text for text in refused)
