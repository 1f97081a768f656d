"""Parameters of every type: the schema says what may be sent, and the function gets a value of its type."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import typing
import uuid
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel, Field
from support.installation.extras import optional

from mcp_generated import App
from mcp_runtime.errors import LocalError

jsonschema = optional("jsonschema")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Plain:
    """A class with type hints."""

    name: str
    count: int = 2

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain and vars(self) == vars(other)


class WithInit:
    """A class whose initializer has type hints."""

    def __init__(self, title: str, inner: Plain | None = None) -> None:
        self.title = title.upper()
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return type(other) is WithInit and vars(self) == vars(other)


@dataclasses.dataclass
class Size:
    a0: float  # Named like nothing of ours.
    height: float = 1.0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Crate:
    """A dataclass with what pydantic cannot read."""

    row: Row
    plain: Plain
    count: int = 1


class Row(TypedDict, total=False):
    a1: typing_extensions.Required[int]
    note: str


class Deep(typing_extensions.TypedDict):
    rows: list[Row]
    size: Size


class TwoFields(NamedTuple):
    first: int
    second: Row


class Model(BaseModel):
    user_id: int = Field(alias="userId")
    sizes: list[Size] = []


class Tree(BaseModel):
    name: str
    inner: list[Tree] = []


def plain(name: str, count: int = 2) -> Plain:
    value = Plain()
    value.name = name
    value.count = count
    return value


MOMENT = datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC)
NUMBER = uuid.UUID(int=5)
VALUES: dict[str, tuple[Any, Any, Any]] = {
    # The type, what is sent, and what the function gets.
    "dataclass": (Size, {"a0": 1.5}, Size(1.5)),
    "dataclass_nested": (Crate, {"row": {"a1": 1}, "plain": {"name": "p"}}, Crate({"a1": 1}, plain("p"))),
    "typed_dict": (Row, {"a1": 1}, {"a1": 1}),
    "typed_dict_nested": (Deep, {"rows": [{"a1": 1, "note": "n"}], "size": {"a0": 1}}, None),
    "named_tuple": (TwoFields, [1, {"a1": 2}], TwoFields(1, {"a1": 2})),
    "enum": (Colour, "red", Colour.RED),
    "int_enum": (Level, 1, Level.LOW),
    "literal": (Literal["a", 1], "a", "a"),
    "class": (Plain, {"name": "p", "count": 5}, plain("p", 5)),
    "class_default": (Plain, {"name": "p"}, plain("p")),
    "class_made": (WithInit, {"title": "t", "inner": {"name": "p"}}, WithInit("t", plain("p"))),
    "model": (Model, {"userId": 5, "sizes": [{"a0": 1}]}, Model(userId=5, sizes=[Size(1)])),
    "model_recursive": (Tree, {"name": "a", "inner": [{"name": "b"}]}, Tree(name="a", inner=[Tree(name="b")])),
    "list_of_dataclasses": (list[Size], [{"a0": 1}], [Size(1)]),
    "list_of_classes": (list[Plain], [{"name": "p"}], [plain("p")]),
    "list_of_enums": (list[Colour], ["blue"], [Colour.BLUE]),
    "list_of_named_tuples": (list[TwoFields], [[1, {"a1": 2}]], [TwoFields(1, {"a1": 2})]),
    "dict_of_models": (dict[str, Tree], {"t": {"name": "a"}}, {"t": Tree(name="a")}),
    "dict_of_typed_dicts": (dict[str, Row], {"t": {"a1": 1}}, {"t": {"a1": 1}}),
    "dict_of_classes": (dict[str, Plain], {"t": {"name": "p"}}, {"t": plain("p")}),
    "optional": (Size | None, {"a0": 1}, Size(1)),
    "optional_null": (Plain | None, None, None),
    "optional_class": (Plain | None, {"name": "p"}, plain("p")),
    "union_model": (Tree | int, {"name": "a"}, Tree(name="a")),
    "union_class": (Plain | int, {"name": "p"}, plain("p")),
    "union_number": (Plain | int, 4, 4),
    "annotated": (Annotated[Size, Field(description="How big.")], {"a0": 1}, Size(1)),
    "annotated_class": (Annotated[Plain, Field(description="Which.")], {"name": "p"}, plain("p")),
    "decimal": (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    "decimal_number": (decimal.Decimal, 2, decimal.Decimal(2)),
    "datetime": (datetime.datetime, "2026-02-03T04:05:00Z", MOMENT),
    "date": (datetime.date, "2026-02-03", MOMENT.date()),
    "timedelta": (datetime.timedelta, "PT3M", datetime.timedelta(minutes=3)),
    "uuid": (uuid.UUID, str(NUMBER), NUMBER),
    "path": (pathlib.Path, "/a/b", pathlib.Path("/a/b")),
    "bytes": (bytes, "abc", b"abc"),
    "set": (set[int], [1, 2], {1, 2}),
    "frozenset": (frozenset[str], ["a"], frozenset({"a"})),
    "tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "tuple_open": (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    "tuple_of_dates": (tuple[datetime.date, ...], ["2026-02-03"], (MOMENT.date(),)),
    "list_bare": (list, [1, "a"], [1, "a"]),
    "dict_bare": (dict, {"a": 1}, {"a": 1}),
    "any": (Any, {"a": [1]}, {"a": [1]}),
    "whole_number": (int, 5.0, 5),
    "number": (float, 5, 5.0),
}
VALUES["typed_dict_nested"] = (
    Deep,
    VALUES["typed_dict_nested"][1],
    {"rows": [{"a1": 1, "note": "n"}], "size": Size(1)},
)


def taking(annotation: Any, default: Any = ...) -> tuple[App, list[Any]]:
    """An app with a tool `take` whose parameter `value` has a type, and the list of the values that it gets."""
    app, received = App("typed"), list[Any]()

    def take(value: Any) -> str:
        received.append(value)
        return "taken"

    take.__annotations__["value"] = annotation
    take.__annotations__["return"] = str
    if default is not ...:
        take.__defaults__ = (default,)
    app.add_tool(take)
    return app, received


async def schema_of(app: App) -> dict[str, Any]:
    [tool] = await app.list_tools()
    return json.loads(tool.model_dump_json(exclude_none=True))["inputSchema"]


@pytest.mark.parametrize("name", VALUES)
async def test_the_schema_allows_what_is_sent_and_the_value_has_its_type(name: str) -> None:
    annotation, sent, expected = VALUES[name]
    app, received = taking(annotation)
    schema = await schema_of(app)
    assert schema["required"] == ["value"] and [*schema["properties"]] == ["value"]
    result = await app.call_tool(name="take", arguments={"value": sent})
    assert result.is_error is None, result
    assert received == [expected] and type(received[0]) is type(expected)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"value": sent}, schema)


STRUCTURED = ["dataclass", "dataclass_nested", "typed_dict", "named_tuple", "class_made", "model", "list_of_classes"]


@pytest.mark.parametrize(
    "name", [*STRUCTURED, "dict_of_models", "set", "tuple", "optional", "optional_null", "dict_bare"]
)
@pytest.mark.parametrize("coerce", [False, True])
async def test_json_text_is_read_where_an_object_or_an_array_belongs(name: str, coerce: bool) -> None:
    annotation, sent, expected = VALUES[name]
    app, received = taking(annotation)
    app._coerce = coerce
    assert (await app.call_tool(name="take", arguments={"value": json.dumps(sent)})).is_error is None
    assert received == [expected]


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", "null", "5", "true"])
@pytest.mark.parametrize("annotation", [str, str | None, Annotated[str, Field(min_length=1)], Any])
async def test_json_text_stays_text_where_text_belongs(annotation: Any, text: str) -> None:
    app, received = taking(annotation)
    assert (await app.call_tool(name="take", arguments={"value": text})).is_error is None
    assert received == [text]


@pytest.mark.parametrize(
    ("annotation", "sent", "path"),
    [
        (Size, {"a0": "wide"}, "value.a0"),
        (Crate, {"row": {"a1": "x"}, "plain": {"name": "p"}}, "value.row.a1"),
        (Crate, {"row": {"a1": 1}, "plain": {}}, "value.plain.name"),
        (Row, {"note": "n"}, "value.a1"),
        (Colour, "green", "value"),
        (Colour, "RED", "value"),
        (list[Plain], [{"name": 1}], "value.0.name"),
        (tuple[int, ...], [1, "2"], "value.1"),
        (Model, {"user_id": 5}, "value.userId"),
        (list[int], "[1, 2", "value"),
        (int, "5", "value"),
    ],
)
async def test_a_value_that_does_not_fit_is_refused_with_its_path(annotation: Any, sent: Any, path: str) -> None:
    app, received = taking(annotation)
    result = await app.call_tool(name="take", arguments={"value": sent})
    assert result.is_error is True and received == []
    assert f"invalid arguments: {path}: " in result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (Size, Size(2, tags=["t"]), {"a0": 2, "height": 1.0, "tags": ["t"]}),
        (Plain, plain("p"), {"name": "p", "count": 2}),
        (TwoFields, TwoFields(1, {"a1": 2}), [1, {"a1": 2}]),
        (Colour, Colour.BLUE, "blue"),
        (Tree, Tree(name="a"), {"name": "a", "inner": []}),
        (set[int], {1}, [1]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (decimal.Decimal, decimal.Decimal("1.5"), "1.5"),
        (datetime.date, MOMENT.date(), "2026-02-03"),
        (uuid.UUID, NUMBER, str(NUMBER)),
        (pathlib.Path, pathlib.Path("/a"), str(pathlib.Path("/a"))),
        (Plain | None, None, None),
    ],
)
async def test_a_default_is_in_the_schema_and_is_what_the_function_gets(
    annotation: Any, default: Any, shown: Any
) -> None:
    app, received = taking(annotation, default)
    [tool] = await app.list_tools()
    field = tool.model_dump()["inputSchema"]["properties"]["value"]
    assert field["default"] == shown and "required" not in tool.model_dump(exclude_none=True)["inputSchema"]
    await app.call_tool(name="take")
    assert received == [default] and type(received[0]) is type(default)


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (float, math.inf),
        (float, math.nan),
        (list[float], [1.0, -math.inf]),
        (bytes, b"\xff"),
        (Size, Size(1, math.inf)),
    ],
)
async def test_a_default_without_a_json_form_is_left_out_of_the_schema(annotation: Any, default: Any) -> None:
    app, received = taking(annotation, default)
    schema = await schema_of(app)
    assert "default" not in schema["properties"]["value"] and "required" not in schema
    assert (await app.call_tool(name="take")).is_error is None
    assert received == [default] or default != default


async def test_an_alias_is_the_name_of_the_argument_and_other_names_stay() -> None:
    app, received = App("named"), list[Any]()

    @app.tool()
    def named(
        user_id: Annotated[int, Field(alias="userId", description="Who.")],
        model_dump: str = "m",
        a0: int = 0,
        schema: bool = False,
        page: int = Field(default=1, ge=1, alias="pageNumber"),
    ) -> str:
        received.extend([user_id, model_dump, a0, schema, page])
        return ""

    assert [*(await schema_of(app))["properties"]] == ["userId", "model_dump", "a0", "schema", "pageNumber"]
    assert (await schema_of(app))["required"] == ["userId"]
    arguments = {"userId": 5, "model_dump": "x", "a0": 3, "schema": True, "pageNumber": 2}
    assert (await app.call_tool(name="named", arguments=arguments)).is_error is None
    assert received == [5, "x", 3, True, 2]
    assert (await app.call_tool(name="named", arguments={"user_id": 5})).is_error is True


async def test_only_the_arguments_themselves_are_limited_to_known_names() -> None:
    app, received = taking(Size)
    assert (await app.call_tool(name="take", arguments={"value": {"a0": 1, "more": 2}})).is_error is None
    assert received == [Size(1)]
    result = await app.call_tool(name="take", arguments={"value": {"a0": 1}, "more": 2})
    assert "more: Extra inputs are not permitted" in result.content[0].text  # type: ignore[union-attr]


class Opaque:
    def __init__(self, anything, *rest) -> None: ...  # type: ignore[no-untyped-def]


class Knot:
    """A class that contains itself."""

    inner: Knot | None = None


@pytest.mark.parametrize("annotation", [Opaque, list[Opaque], Knot, typing.IO[str], Crate | Opaque])
def test_a_type_without_a_schema_is_refused_where_it_is_declared(annotation: Any) -> None:
    with pytest.raises(LocalError, match="the tool 'take': ") as caught:
        taking(annotation)
    assert len(str(caught.value).splitlines()) <= 2


async def test_arguments_of_prompts_and_resources_are_read_from_text() -> None:
    app = App("text")

    @app.prompt()
    def review(sizes: list[Size], colour: Colour = Colour.RED) -> str:
        return f"{sizes[0].a0} {colour.name}"

    @app.resource("note://{day}/{colour}")
    def note(day: datetime.date, colour: Colour) -> bytes:
        return f"{day:%d.%m.} {colour.name}".encode()

    prompt = await app.get_prompt(name="review", arguments={"sizes": '[{"a0": 4}]', "colour": "blue"})
    assert prompt.messages[0].content.text == "4.0 BLUE"  # type: ignore[union-attr]
    [content] = (await app.read_resource(uri="note://2026-02-03/red")).contents
    assert base64.b64decode(content.blob) == b"03.02. RED"  # type: ignore[union-attr]
