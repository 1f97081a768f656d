"""What results look like by option: `structured_output`, `json_indent`; resources and prompts of every value."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_generated import App, AssistantMessage, Audio, Image, Message, UserMessage
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.errors import LocalError, RemoteJSONRPCError

INTERNAL_ERROR = -32603


class Point(BaseModel):
    x: int


@dataclasses.dataclass
class Size:
    width: float


def returning(value: Any, annotation: Any = ...) -> Callable[[], Any]:
    def function() -> Any:
        return value

    function.__annotations__ = {} if annotation is ... else {"return": annotation}
    return function


async def test_structured_output_is_left_out_or_required() -> None:
    app = App("options")
    app.add_tool(returning(Point(x=1), Point), "never", structured_output=False)
    app.add_tool(returning(Point(x=1), Point), "auto", structured_output=None)
    app.add_tool(returning(Point(x=1), Point), "always", structured_output=True)
    app.add_tool(returning(t.TextContent(text="a"), t.TextContent), "block", structured_output=True)
    schemas = {tool.name: tool.output_schema for tool in await app.list_tools()}
    assert schemas["never"] is None and all(schemas[name] for name in ("auto", "always", "block"))
    results = {name: await app.call_tool(name=name) for name in schemas}
    assert results["auto"].structured_content == results["always"].structured_content == {"x": 1}
    assert "structured_content" not in results["never"].model_fields_set
    assert results["never"].content == results["auto"].content == [t.TextContent(text='{\n  "x": 1\n}')]


@pytest.mark.parametrize("annotation", [..., Any, Image, list[Audio], dict, t.CallToolResult, Callable[[], int]])
def test_structured_output_of_a_type_that_cannot_have_it_is_refused(annotation: Any) -> None:
    with pytest.raises(LocalError, match="the tool 'f' cannot have `structured_output=True`: ") as caught:
        App("options").add_tool(returning(None, annotation), "f", structured_output=True)
    assert len(str(caught.value).splitlines()) == 1


def test_the_former_name_is_refused_with_the_new_one() -> None:
    app: Any = App("options")
    with pytest.raises(TypeError, match="'structured'.*structured_output"):
        app.tool(structured=False)


async def test_json_text_is_in_one_line_if_the_app_says_so() -> None:
    value, uri = {"a": [1, {"b": "é"}]}, "a://b"
    for indent, text in ((None, '{"a":[1,{"b":"é"}]}'), (1, '{\n "a": [\n  1,\n  {\n   "b": "é"\n  }\n ]\n}')):
        app = App("options", json_indent=indent)
        app.add_tool(returning(value, dict[str, Any]), "f")
        app.add_resource(uri, returning(value))
        app.add_prompt(returning(Message(value)), "p")
        assert (await app.call_tool(name="f")).content == [t.TextContent(text=text)]
        assert (await app.read_resource(uri=uri)).contents[0].text == text  # type: ignore[union-attr]
        assert (await app.get_prompt(name="p")).messages[0].content == t.TextContent(text=text)


async def test_a_result_of_its_own_is_checked_against_its_declaration() -> None:
    app = App("own")
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    for name, structured in {"right": {"x": 1}, "wrong": {"x": "a"}, "nan": {"x": 1, "y": math.nan}}.items():
        result = t.CallToolResult(content=[], structured_content=structured)
        app.add_tool(returning(result), name, output_schema=schema)
        app.add_tool(returning(result), f"{name}_undeclared")
    errors = {tool.name for tool in await app.list_tools() if (await app.call_tool(name=tool.name)).is_error}
    assert errors == {"wrong", "nan", "nan_undeclared"}


RESOURCES: dict[str, tuple[Any, Any, str | None, str]] = {
    # The value, the return type, the MIME type in the list, and that of the contents.
    "text": ("a", str, "text/plain", "text/plain"),
    "bytes": (b"a", bytes, "application/octet-stream", "application/octet-stream"),
    "dict": ({"a": 1}, dict[str, int], "application/json", "application/json"),
    "dict_bare": ({"a": 1}, dict, "application/json", "application/json"),
    "list": ([1], list[int], "application/json", "application/json"),
    "model": (Point(x=1), Point, "application/json", "application/json"),
    "dataclass": (Size(1), Size, "application/json", "application/json"),
    "optional": ("a", str | None, None, "text/plain"),
    "union": ("a", str | bytes, None, "text/plain"),
    "image": (Image(data=b"a"), Image, None, "image/png"),
    "absent": ({"a": 1}, ..., None, "application/json"),
    "any": ("a", Any, None, "text/plain"),
}


@pytest.mark.parametrize("name", RESOURCES)
async def test_a_resource_lists_the_mime_type_of_its_return_type(name: str) -> None:
    value, annotation, listed, sent = RESOURCES[name]
    app = App("resources")
    app.add_resource("a://b", returning(value, annotation))
    app.add_resource("a://own", returning(value, annotation), mime_type="text/x-own")
    kinds = {resource.uri: resource.mime_type for resource in await app.list_resources()}
    assert kinds == {"a://b": listed, "a://own": "text/x-own"}
    assert (await app.read_resource(uri="a://b")).contents[0].mime_type == sent
    assert (await app.read_resource(uri="a://own")).contents[0].mime_type == "text/x-own"


async def test_a_template_lists_it_as_well() -> None:
    app = App("resources")

    @app.resource("a://{name}")
    def template(name: str) -> dict[str, str]:
        return {"name": name}

    [listed] = await app.list_resource_templates()
    assert listed.mime_type == "application/json"


async def test_a_number_that_json_does_not_have_is_no_resource_and_no_prompt() -> None:
    app = App("numbers")
    app.add_resource("a://b", returning({"a": math.nan}))
    app.add_prompt(returning(Message([math.inf])), "p")
    for request in (app.read_resource(uri="a://b"), app.get_prompt(name="p")):
        with pytest.raises(RemoteJSONRPCError) as caught:
            await request
        assert caught.value.code == INTERNAL_ERROR


TEXT, PNG = t.TextContent(text="a"), b"png"
PICTURE = t.ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")
PROMPTS: dict[str, tuple[Any, list[tuple[str, Any]]]] = {
    "text": ("a", [("user", TEXT)]),
    "user": (UserMessage("a"), [("user", TEXT)]),
    "user_keyword": (UserMessage(content="a"), [("user", TEXT)]),
    "assistant": (AssistantMessage("a"), [("assistant", TEXT)]),
    "message": (Message("a"), [("user", TEXT)]),
    "message_role": (Message("a", role="assistant"), [("assistant", TEXT)]),
    "block": (TEXT, [("user", TEXT)]),
    "block_in_message": (AssistantMessage(TEXT), [("assistant", TEXT)]),
    "image": (Image(data=PNG), [("user", PICTURE)]),
    "image_in_message": (AssistantMessage(Image(data=PNG)), [("assistant", PICTURE)]),
    "dict": ({"role": "assistant", "content": "a"}, [("assistant", TEXT)]),
    "dict_without_role": ({"content": "a"}, [("user", TEXT)]),
    "dict_with_block": ({"role": "user", "content": {"type": "text", "text": "a"}}, [("user", TEXT)]),
    "message_with_dict": (UserMessage({"type": "text", "text": "a"}), [("user", TEXT)]),
    "prompt_message": (t.PromptMessage(role="user", content=TEXT), [("user", TEXT)]),
    "list": (["a", AssistantMessage("a"), {"role": "user", "content": "a"}], [("user", TEXT), ("assistant", TEXT)] * 2),
    "tuple": (("a", "a"), [("user", TEXT), ("user", TEXT)]),
    "number": (UserMessage(5), [("user", t.TextContent(text="5"))]),
    "empty": ([], []),
}
PROMPTS["list"] = (PROMPTS["list"][0], [("user", TEXT), ("assistant", TEXT), ("user", TEXT)])


@pytest.mark.parametrize("name", PROMPTS)
async def test_a_prompt_is_what_the_official_sdk_accepts(name: str) -> None:
    value, expected = PROMPTS[name]
    app = App("prompts")
    app.add_prompt(returning(value), "p")
    assert [(message.role, message.content) for message in (await app.get_prompt(name="p")).messages] == expected


async def test_a_dict_that_is_no_message_is_no_prompt(caplog: pytest.LogCaptureFixture) -> None:
    app = App("prompts")
    app.add_prompt(returning({"a": 1}), "p")
    with pytest.raises(RemoteJSONRPCError):
        await app.get_prompt(name="p")
    assert "the prompt 'p' returned a dict without 'content'" in caplog.text


@pytest.mark.parametrize(
    ("media", "kind"),
    [
        (Image("a.PNG"), "image/png"),
        (Image(path=Path("a.webp")), "image/webp"),
        (Image("a.unknown"), "application/octet-stream"),
        (Image(data=b"", format="JPEG"), "image/jpeg"),
        (Image(b"", format="image/avif"), "image/avif"),
        (Audio("a.wav"), "audio/wav"),
        (Audio("a.mp3"), "audio/mpeg"),
        (Audio(b""), "audio/wav"),
    ],
)
def test_media_have_the_mime_type_of_their_format_or_file(media: Image | Audio, kind: str) -> None:
    assert media.mime_type == kind
