"""A function of an app may return types of any protocol version: they become those of the session, or are refused."""

from __future__ import annotations

import json
import logging
from importlib import import_module
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from support.clients import connect

from mcp_generated import REVISIONS, App, Message, Tool
from mcp_generated.v2025_11_25 import types as older
from mcp_generated.v2026_07_28 import Client, Server
from mcp_generated.v2026_07_28 import types as newest

HI = [{"type": "text", "text": "hi"}]
NOTE = {"uri": "note://a", "text": "hi"}


class Sum(BaseModel):
    """Structured content."""

    sum: int


def types_of(revision: str) -> Any:
    return import_module(f"mcp_generated.{REVISIONS[revision]}.types")


def text_of(t: Any) -> Any:
    return t.TextContent(text="hi")


async def called(function: Any, client_class: Any = None) -> dict[str, Any]:
    """Call a function as a tool, and return the result as JSON."""
    app = App("versions")
    app.tool(function)
    async with connect(app) if client_class is None else client_class.memory(app) as client:
        result: dict[str, Any] = (await client.call_tool(function.__name__)).to_dict()
    return result


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_result_is_sent_as_the_result(revision: str, is_async: bool) -> None:
    t = types_of(revision)

    def plain():  # type: ignore[no-untyped-def] # Nothing but the value says what it is.
        return t.CallToolResult(content=[text_of(t)], is_error=True)

    async def coroutine():  # type: ignore[no-untyped-def]
        return t.CallToolResult(content=[text_of(t)], is_error=True)

    result = await called(coroutine if is_async else plain)
    assert (result["content"], result["isError"]) == (HI, True)


async def test_a_session_of_any_version_gets_it(revision: str) -> None:
    def old():  # type: ignore[no-untyped-def]
        return older.CallToolResult(content=[text_of(older)], structured_content={"a": 1})

    client_class = import_module(f"mcp_generated.{REVISIONS[revision]}").Client
    assert (await called(old, client_class))["content"][0] == HI[0]


async def test_each_kind_of_content_is_content(revision: str) -> None:
    t = types_of(revision)
    note = t.TextResourceContents(uri="note://a", text="hi")

    class Own(t.TextContent):  # type: ignore[misc, name-defined]
        """A class of the program that inherits from the type."""

    def blocks():  # type: ignore[no-untyped-def]
        image = t.ImageContent(data=b"hi", mime_type="image/png")
        return [text_of(t), image, [t.EmbeddedResource(resource=note)], note, "text", Own(text="own")]

    content = (await called(blocks))["content"]
    assert content[0] == HI[0]
    assert content[1] == {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    assert content[2] == content[3] == {"type": "resource", "resource": NOTE}
    assert content[4:] == [{"type": "text", "text": "text"}, {"type": "text", "text": "own"}]

    def link():  # type: ignore[no-untyped-def]
        return t.Resource(uri="note://a", name="a")

    assert (await called(link))["content"] == [{"type": "resource_link", "uri": "note://a", "name": "a"}]


async def test_other_types_of_an_older_version_are_data() -> None:
    task = {"taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "a", "ttl": None}
    tool = {"name": "a", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}

    def data():  # type: ignore[no-untyped-def]
        return {"task": older.Task.model_validate(task)}

    def one():  # type: ignore[no-untyped-def]
        return older.Tool.model_validate(tool)

    assert json.loads((await called(data))["content"][0]["text"]) == {"task": task}
    assert json.loads((await called(one))["content"][0]["text"]) == tool


async def test_the_annotation_of_an_older_result_declares_its_structured_content() -> None:
    app = App("versions")

    @app.tool
    def annotated() -> Annotated[older.CallToolResult, Sum]:
        return older.CallToolResult(content=[], structured_content={"sum": 3})

    @app.tool
    def wrong() -> Annotated[older.CallToolResult, Sum]:
        return older.CallToolResult(content=[], structured_content={"sum": "x"})

    @app.tool
    def whole() -> older.CallToolResult:
        return older.CallToolResult(content=[])

    async with connect(app) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        assert schemas["annotated"] is not None and schemas["annotated"].to_dict()["required"] == ["sum"]
        assert schemas["whole"] is None
        assert (await client.call_tool("annotated")).structured_content == {"sum": 3}
        assert (await client.call_tool("wrong")).is_error


async def test_a_result_that_only_an_older_version_has_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    def later():  # type: ignore[no-untyped-def]
        fields = {"taskId": "1", "status": "working", "createdAt": "a", "lastUpdatedAt": "a", "ttl": None}
        return older.CreateTaskResult.model_validate({"task": fields})

    result = await called(later)
    assert result["isError"]
    assert result["content"][0]["text"] == (
        "the tool 'later' returned a value that cannot be sent: 2026-07-28 has no CreateTaskResult as 2025-11-25 has"
        " it: return CallToolResult or InputRequiredResult"
    )
    assert "Traceback" not in caplog.text


async def test_messages_of_prompts_keep_their_roles(revision: str) -> None:
    t = types_of(revision)
    app = App("versions")
    message = t.PromptMessage(role="assistant", content=text_of(t))
    values = {
        "message": message,
        "result": t.GetPromptResult(messages=[message]),
        "several": [message],
        "own": Message(text_of(t), "assistant"),
        "dict": {"role": "assistant", "content": text_of(t)},
    }
    for name, value in values.items():
        _add_prompt(app, name, value)
    async with connect(app) as client:
        for name in values:
            result = (await client.get_prompt(name)).to_dict()
            assert result["messages"] == [{"role": "assistant", "content": HI[0]}], name


def _add_prompt(app: App, name: str, value: Any) -> None:
    @app.prompt(name=name)
    def prompt() -> Any:
        return value


async def test_contents_of_resources_keep_their_uris(revision: str) -> None:
    t = types_of(revision)
    app = App("versions")
    note = t.TextResourceContents(uri="note://a", text="hi")

    @app.resource("test://one")
    def one() -> Any:
        return note

    @app.resource("test://several")
    def several() -> Any:
        return [note, note]

    @app.resource("test://result")
    def result() -> Any:
        return t.ReadResourceResult(contents=[note])

    @app.completion
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return t.Completion(values=["a", "b"], total=7)

    @app.prompt
    def prompt(name: str) -> str:
        return name

    async with connect(app) as client:
        for uri, count in (("test://one", 1), ("test://several", 2), ("test://result", 1)):
            assert (await client.read_resource(uri)).to_dict()["contents"] == [NOTE] * count
        ref = newest.PromptReference(name="prompt")
        completion = (await client.complete(ref=ref, argument={"name": "name", "value": ""})).completion  # type: ignore[arg-type]
        assert (completion.values, completion.total) == (["a", "b"], 7)


async def test_a_function_around_a_tool_may_return_an_older_result() -> None:
    app = App("versions")

    @app.tool
    def inner() -> str:
        return "inner"

    async def around() -> Any:
        return older.CallToolResult(content=[text_of(older)])

    app.add_tool(Tool.from_tool(inner, "outer", transform_fn=around))
    async with connect(app) as client:
        assert (await client.call_tool("outer")).to_dict()["content"] == HI


async def test_a_server_of_one_version_names_the_type_that_it_refuses(caplog: pytest.LogCaptureFixture) -> None:
    class Typed(Server):
        async def call_tool(self, ctx: Any, params: Any) -> Any:
            return older.CallToolResult(content=[])

        async def list_tools(self, ctx: Any, params: Any) -> Any:
            return newest.ListToolsResult(tools=[])

    with caplog.at_level(logging.ERROR):
        async with Client.memory(Typed(name="typed", version="1")) as client:
            with pytest.raises(Exception, match="internal error"):
                await client.call_tool("a")
    assert "must be CallToolResult or InputRequiredResult, not mcp_generated.v2025_11_25.types" in caplog.text
