"""A table of functions, by return type and value, and what a client gets for them as tools: of this project, or of the
official SDK in whose environment it runs as a program. It prints JSON."""

from __future__ import annotations

import asyncio
import base64
import datetime
import decimal
import json
import math
import pathlib
import sys
import typing
import uuid
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import Field

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from support.peer_drivers.result_types import (
    Aliased,
    Bag,
    Box,
    Checked,
    Colour,
    Computed,
    Deep,
    Hinted,
    Holder,
    Level,
    Line,
    Money,
    Numbers,
    Odd,
    OldRow,
    Point,
    Row,
    Serialized,
    Size,
    Text,
    Tree,
    TwoFields,
    Unhinted,
    UserId,
    Word,
)

PNG = base64.b64decode("iVBORw0KGgo=")
DAY = datetime.date(2026, 2, 3)
MOMENT = datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC)
NUMBER = uuid.UUID(int=5)
ABSENT = object()  # No return annotation.

Sdk = Any  # `Image`, `Audio` and `types` of one SDK.
Rows = dict[str, tuple[Any, Any]]  # The return annotation and the value of each function.


def text_block(t: Any) -> Any:
    """Return a content block with text."""
    return t.TextContent(type="text", text="block")


def own(t: Any, content: str, structured: Any = None, error: bool = False) -> Any:
    """Return a result that a function makes itself."""
    members = {"content": [{"type": "text", "text": content}], "isError": error, "structuredContent": structured}
    fields = {name: value for name, value in members.items() if value is not None}
    return t.CallToolResult.model_validate({**fields, "resultType": "complete"})


def plain_rows() -> Rows:
    """Text, numbers and nothing."""
    return {
        "str": (str, "plain"),
        "str_empty": (str, ""),
        "str_json": (str, '{"a": 1}'),
        "str_subclass": (str, Text("sub")),
        "str_limited": (Annotated[str, Field(max_length=9)], "short"),
        "str_too_long": (Annotated[str, Field(max_length=2)], "long"),
        "int": (int, 3),
        "int_large": (int, 2**70),
        "float": (float, 1.5),
        "float_whole": (float, 3.0),
        "float_of_int": (float, 3),
        "float_exponent": (float, 1e22),
        "bool": (bool, True),
        "none": (None, None),
        "bytes": (bytes, b"abc"),
        "bytes_binary": (bytes, b"\xff\xfe"),
        "literal": (Literal["a", "b"], "a"),
        "new_type": (UserId, 7),
        "optional_value": (Optional[int], 4),  # noqa: UP045
        "optional_none": (Optional[int], None),  # noqa: UP045
        "union": (int | str, "u"),
        "union_of_models": (Union[Point, Row], {"id": 1}),  # noqa: UP007
        "optional_model": (Point | None, Point(x=1)),
    }


def text_form_rows() -> Rows:
    """Other types with a text form in JSON."""
    return {
        "date": (datetime.date, DAY),
        "datetime": (datetime.datetime, MOMENT),
        "timedelta": (datetime.timedelta, datetime.timedelta(minutes=3)),
        "uuid": (uuid.UUID, NUMBER),
        "decimal": (decimal.Decimal, decimal.Decimal("1.50")),
        "path": (pathlib.PurePosixPath, pathlib.PurePosixPath("/a/b")),
        "enum": (Colour, Colour.RED),
        "int_enum": (Level, Level.LOW),
        "str_enum": (Word, Word.YES),
        "list_of_dates": (list[datetime.date], [DAY]),
        "list_of_enums": (list[Colour], [Colour.RED]),
        "dict_of_uuids": (dict[str, uuid.UUID], {"a": NUMBER}),
        "dict_of_decimals": (dict[str, decimal.Decimal], {"a": decimal.Decimal("1.5")}),
    }


def collection_rows() -> Rows:
    """Lists, tuples, sets and dicts."""
    return {
        "list": (list[str], ["a", "b"]),
        "list_empty": (list[str], []),
        "list_of_numbers": (list[int], [1, 2]),
        "list_nested": (list[list[int]], [[1, 2], [3]]),
        "list_with_none": (list[int | None], [1, None]),
        "list_of_dicts": (list[dict[str, int]], [{"a": 1}, {"b": 2}]),
        "list_of_models": (list[Point], [Point(x=1), Point(x=2, y=3)]),
        "list_of_subclasses": (list[Point], [Deep(x=1)]),
        "list_bare": (list, [1, "a", {"b": 2}]),
        "list_typing": (typing.List[int], [1]),  # noqa: UP006
        "list_mixed": (list[Any], [1, "a", None]),
        "list_of_optional": (list[str] | None, ["a"]),
        "tuple": (tuple[int, str], (1, "a")),
        "tuple_open": (tuple[int, ...], (1, 2, 3)),
        "tuple_bare": (tuple, (1, "a")),
        "set": (set[int], {5}),
        "set_bare": (set, {5}),
        "frozenset": (frozenset[int], frozenset({5})),
        "deque": (deque[int], deque([1, 2])),
        "sequence": (Sequence[int], [1, 2]),
        "iterable_as_tuple": (Iterable[int], (1, 2)),
        "dict": (dict[str, int], {"a": 1}),
        "dict_empty": (dict[str, int], {}),
        "dict_any": (dict[str, Any], {"a": [1, {"b": None}], "é": "ü"}),
        "dict_bare": (dict, {"a": 1}),
        "dict_typing": (typing.Dict[str, int], {"a": 1}),  # noqa: UP006
        "dict_of_models": (dict[str, Point], {"p": Point(x=1)}),
        "dict_int_keys": (dict[int, str], {1: "a"}),
        "mapping": (Mapping[str, int], {"a": 1}),
        "ordered": (OrderedDict[str, int], OrderedDict(a=1)),
    }


def object_rows() -> Rows:
    """Models, dataclasses, typed dicts, named tuples and plain classes."""
    return {
        "model": (Point, Point(x=1)),
        "model_subclass": (Point, Deep(x=1)),
        "model_nested": (Line, Line(ends=[Point(x=1)])),
        "model_recursive": (Tree, Tree(name="a", inner=[Tree(name="b")])),
        "model_alias": (Aliased, Aliased(userId=5)),
        "model_serialized": (Serialized, Serialized(when=DAY)),
        "model_computed": (Computed, Computed(side=3)),
        "model_generic": (Box[int], Box[int](content=1)),
        "model_root": (Numbers, Numbers([1, 2])),
        "model_decimal": (Money, Money(amount=decimal.Decimal("1.10"))),
        "model_from_dict": (Point, {"x": 1}),
        "model_annotated": (Annotated[Point, Field(description="Where.")], Point(x=1)),
        "dataclass": (Size, Size(1.5)),
        "dataclass_nested": (Bag, Bag(["a"], Size(1))),
        "dataclass_pydantic": (Checked, Checked(1)),
        "list_of_dataclasses": (list[Size], [Size(1)]),
        "typed_dict": (Row, {"id": 1}),
        "typed_dict_old": (OldRow, {"inner": {"id": 1, "note": "n"}}),
        "list_of_typed_dicts": (list[Row], [{"id": 1}, {"id": 2, "note": "n"}]),
        "named_tuple": (TwoFields, TwoFields(1)),
        "list_of_named_tuples": (list[TwoFields], [TwoFields(1)]),
        "class_hinted": (Hinted, Hinted("a")),
        "class_holder": (Holder, Holder()),
        "class_unhinted": (Unhinted, Unhinted()),
        "list_of_classes": (list[Hinted], [Hinted("a")]),
    }


def content_rows(sdk: Sdk) -> Rows:
    """Content."""
    t, Image, Audio = sdk.types, sdk.Image, sdk.Audio
    return {
        "content_text": (t.TextContent, text_block(t)),
        "content_list": (list[t.TextContent], [text_block(t), text_block(t)]),
        "content_mixed": (list[str | t.TextContent], ["a", text_block(t)]),
        "image": (Image, Image(data=PNG, format="png")),
        "image_jpeg": (Image, Image(data=PNG, format="JPEG")),
        "audio": (Audio, Audio(data=b"wav")),
        "list_of_images": (list[Image], [Image(data=PNG)]),
        "tuple_with_image": (tuple[str, Image], ("see", Image(data=PNG))),
        "list_bare_with_image": (list, ["see", Image(data=PNG), {"a": 1}]),
        "optional_image": (Optional[Image], None),  # noqa: UP045
        "own_result": (t.CallToolResult, own(t, "made")),
        "own_error": (t.CallToolResult, own(t, "bad", error=True)),
        "own_structured": (Annotated[t.CallToolResult, Point], own(t, "made", {"x": 1, "y": 2})),
        "own_mismatch": (Annotated[t.CallToolResult, Point], own(t, "made", {"x": "a"})),
    }


def unannotated_rows(sdk: Sdk) -> Rows:
    """Without an annotation, or with one that says nothing."""
    Image = sdk.Image
    return {
        "absent_str": (ABSENT, "a"),
        "absent_int": (ABSENT, 3),
        "absent_none": (ABSENT, None),
        "absent_list": (ABSENT, [1, "a"]),
        "absent_dict": (ABSENT, {"a": 1}),
        "absent_model": (ABSENT, Line(ends=[Point(x=1)])),
        "absent_dataclass": (ABSENT, Size(1)),
        "absent_image": (ABSENT, Image(data=PNG)),
        "absent_object": (ABSENT, Unhinted()),
        "absent_nan": (ABSENT, math.nan),
        "any": (Any, {"a": 1}),
        "object": (object, [1]),
    }


def wrong_rows() -> Rows:
    """What does not fit, and numbers that JSON does not have."""
    return {
        "wrong_int": (int, "three"),
        "wrong_lax": (int, "3"),
        "wrong_str": (str, 3),
        "wrong_none": (int, None),
        "wrong_list": (list[int], ["a"]),
        "wrong_model": (Point, {"x": "much"}),
        "wrong_typed_dict": (Row, {"note": "n"}),
        "wrong_dataclass": (Size, {"height": 1}),
        "nan": (float, math.nan),
        "infinity": (float, -math.inf),
        "nan_in_list": (list[float], [1.0, math.nan]),
        "nan_in_dict": (dict[str, float], {"a": math.inf}),
        "nan_in_model": (Odd, Odd(value=math.nan)),
        "nan_as_text": (str, "NaN"),
        "nan_as_text_in_dict": (dict[str, str], {"a": "NaN and Infinity"}),
    }


def table(sdk: Sdk) -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Return the return annotation and the function of each row, by its name."""
    rows = {
        **plain_rows(),
        **text_form_rows(),
        **collection_rows(),
        **object_rows(),
        **content_rows(sdk),
        **unannotated_rows(sdk),
        **wrong_rows(),
    }
    return {name: (annotation, returning(value)) for name, (annotation, value) in rows.items()}


def returning(value: Any) -> Callable[[], Any]:
    """Return a new function without parameters that returns a value."""

    def function() -> Any:
        return value

    return function


def add_tools(app: Any, sdk: Sdk) -> None:
    """Add the functions of the table to an app, without those that it refuses."""
    for name, (annotation, value) in table(sdk).items():
        function: Any = value
        function.__name__ = name
        function.__annotations__ = {} if annotation is ABSENT else {"return": annotation}
        with suppress(Exception):
            app.tool()(function)


def shown(result: Any) -> dict[str, Any]:
    """The parts of a result that are compared, as JSON."""
    blocks = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
    whole = result.model_dump(by_alias=True, mode="json")
    return {"content": blocks, "structured": whole.get("structuredContent"), "error": bool(whole.get("isError"))}


async def outcomes(client: Any, names: Iterable[str]) -> dict[str, Any]:
    """What a client gets for all functions: its output schema, and the result of a call."""
    tools = (await client.list_tools()).tools
    schemas = {tool.name: getattr(tool, "output_schema", getattr(tool, "outputSchema", None)) for tool in tools}
    reports: dict[str, Any] = {}
    for name in names:
        if name not in schemas:
            reports[name] = {"refused": True}
            continue
        schema = schemas[name]
        reports[name] = {"schema": schema.model_dump() if hasattr(schema, "model_dump") else schema}
        try:
            reports[name] |= shown(await client.call_tool(name=name, arguments={}))
        except Exception as error:  # Of many kinds: a client refuses a result, or the server answers with an error.
            reports[name]["raised"] = type(error).__name__
    return reports


@asynccontextmanager
async def official_client(app: Any) -> AsyncIterator[Any]:
    """A client of the official SDK, of version 1 or 2, in the same process."""
    import mcp

    if hasattr(mcp, "Client"):
        async with mcp.Client(app) as client:
            yield client
    else:
        from mcp.shared.memory import create_connected_server_and_client_session

        async with create_connected_server_and_client_session(app._mcp_server) as client:
            yield client


async def main() -> None:
    """Print what the official SDK gives."""
    import mcp.types

    try:
        from mcp.server.mcpserver import Audio, Image, MCPServer
    except ImportError:
        from mcp.server.fastmcp import FastMCP as MCPServer
        from mcp.server.fastmcp import Image
        from mcp.server.fastmcp.utilities.types import Audio

    class OfficialSdk:
        types = mcp.types

    OfficialSdk.Image = Image  # type: ignore[attr-defined]
    OfficialSdk.Audio = Audio  # type: ignore[attr-defined]
    app = MCPServer("table")
    add_tools(app, OfficialSdk)
    async with official_client(app) as client:
        json.dump(await outcomes(client, table(OfficialSdk)), sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
