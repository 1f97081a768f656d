"""Tools and results in the form of the APIs of models; nothing of a result is lost in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among, since

from mcp_generated import App, Audio, Client, File, Image, LocalError, ToolOutput, to_gemini
from mcp_generated.v2026_07_28 import types as t

PNG, WAV, OGG, PDF = "aW1n", "d2F2", "b2dn", "cGRm"


def output(*content: Any, structured: Any = None, is_error: bool = False) -> ToolOutput[Any]:
    return ToolOutput(None, content, structured, is_error, {}, None)


def everything() -> ToolOutput[Any]:
    return output(
        t.TextContent(text="hello"),
        t.ImageContent(data=PNG, mime_type="image/png"),
        t.AudioContent(data=WAV, mime_type="audio/wav"),
        t.AudioContent(data=OGG, mime_type="audio/ogg"),
        t.ResourceLink(name="notes", uri="file:///notes.txt", description="My notes."),
        t.EmbeddedResource(resource=t.TextResourceContents(uri="file:///a.txt", text="inside")),
        t.EmbeddedResource(resource=t.BlobResourceContents(uri="file:///b.pdf", blob=PDF, mime_type="application/pdf")),
        t.EmbeddedResource(resource=t.BlobResourceContents(uri="file:///c.png", blob=PNG, mime_type="image/png")),
        t.EmbeddedResource(resource=t.BlobResourceContents(uri="file:///d.bin", blob=PDF)),
        structured={"a": 1},
    )


# What each of them has, whatever the API: as itself or in a text that names it.
TRACES = ("hello", PNG, WAV, "audio/ogg", "file:///notes.txt", "My notes.", "inside", PDF, "file:///d.bin", '"a"')


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "gemini"])
def test_nothing_of_a_result_is_lost_in_silence(api: str) -> None:
    made: Any = {
        "chat": lambda: everything().to_openai("1"),
        "responses": lambda: everything().to_openai("1", "responses"),
        "anthropic": lambda: everything().to_anthropic("1"),
        "gemini": lambda: everything().to_gemini("find", "1"),
    }[api]()
    text = json.dumps(made).replace('\\"', '"')
    sounds = ("audio/wav",) if api in ("responses", "anthropic") else (WAV,)
    for trace in (*(trace for trace in TRACES if trace != WAV), *sounds):
        assert trace in text, trace


def test_openai_gets_a_message_of_the_tool_and_what_it_cannot_have_from_the_user() -> None:
    tool, user = everything().to_openai("call-1")
    assert (tool["role"], tool["tool_call_id"]) == ("tool", "call-1")
    assert tool["content"].startswith(
        "hello\n[image/png image 1 follows]\n[audio/wav audio 2 follows]\n[audio/ogg audio of 3"
    )
    assert user["role"] == "user"
    assert [part["type"] for part in user["content"]] == ["image_url", "input_audio", "file", "image_url"]
    assert user["content"][0]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert user["content"][1]["input_audio"] == {"data": WAV, "format": "wav"}
    assert output(t.TextContent(text="x")).to_openai("1") == [{"role": "tool", "tool_call_id": "1", "content": "x"}]
    [item] = everything().to_openai("1", "responses")
    assert (item["type"], item["call_id"]) == ("function_call_output", "1")
    assert {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"} in item["output"]
    anything: Any = output()
    with pytest.raises(LocalError, match="endpoint"):
        anything.to_openai("1", "completions")


def test_anthropic_gets_a_block() -> None:
    block = everything().to_anthropic("use-1")
    assert (block["type"], block["tool_use_id"], "is_error" in block) == ("tool_result", "use-1", False)
    kinds = [part["type"] for part in block["content"]]
    assert kinds == ["text", "image", "text", "text", "text", "text", "document", "image", "text", "text"]
    assert block["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}


def test_gemini_gets_parts() -> None:
    response, *parts = everything().to_gemini("find", "call-1")
    assert response["function_response"]["name"] == "find" and response["function_response"]["id"] == "call-1"
    assert response["function_response"]["response"]["result"] == {"a": 1}
    assert [part["inline_data"]["data"] for part in parts] == [PNG, WAV, OGG, PDF, PNG]
    assert output(t.TextContent(text="x")).to_gemini("f") == [
        {"function_response": {"name": "f", "response": {"result": "x"}}}
    ]


def test_a_failure_is_one_for_each_model() -> None:
    failed = output(t.TextContent(text="no"), is_error=True)
    assert failed.to_openai("1")[0]["content"] == "The tool failed:\nno"
    assert failed.to_openai("1", "responses")[0]["output"][0]["text"] == "The tool failed:"
    assert failed.to_anthropic("1")["is_error"] is True
    assert failed.to_gemini("f")[0]["function_response"]["response"] == {"error": "no"}


@among(since("2025-06-18"))
async def test_structured_data_stands_there_once(rev: Rev) -> None:
    app = App("data")

    @app.tool()
    def number() -> int:
        """Return a number."""
        return 3

    @app.tool()
    def fields() -> dict[str, int]:
        """Return fields."""
        return {"a": 1}

    async with Client(app, revisions=rev.id) as client:
        assert (await client.call_tool("number")).to_openai("1")[0]["content"] == "3"
        assert json.loads((await client.call_tool("fields")).to_openai("1")[0]["content"]) == {"a": 1}
    assert output(structured={"a": 1}).to_openai("1")[0]["content"] == '{"a": 1}'


@among(ALL_REVISIONS)
async def test_media_of_functions_arrive(rev: Rev) -> None:
    app = App("media")

    @app.tool()
    def show() -> list[Any]:
        """Return media."""
        return [
            "see",
            Image(data=b"img", format="png"),
            Audio(data=b"wav", format="wav"),
            File(data=b"pdf", format="pdf"),
        ]

    async with Client(app, revisions=rev.id) as client:
        block = (await client.call_tool("show")).to_anthropic("1")
    assert [part["type"] for part in block["content"]][:2] == ["text", "image"]
    assert "document" in [part["type"] for part in block["content"]]


@among(ALL_REVISIONS)
async def test_tools_are_functions_of_gemini(rev: Rev) -> None:
    app = App("tools")

    @app.tool()
    def find(text: str) -> str:
        """Find a text."""
        return text

    async with Client(app, revisions=rev.id) as client:
        tools = await client.list_tools()
        [declared] = to_gemini(tools)
        [function] = declared["function_declarations"]
        assert (function["name"], function["description"]) == ("find", "Find a text.")
        assert function["parameters_json_schema"]["properties"]["text"]["type"] == "string"
        assert (await client.generated.list_tools()).to_gemini() == [declared]
    with pytest.raises(LocalError, match="to_gemini.*rejects the tool name"):
        to_gemini([tools[0].model_copy(update={"name": "a" * 65})])


def test_media_types_are_known_in_other_spellings() -> None:
    for mime_type in ("IMAGE/PNG", "image/png; q=1"):
        made: Any = output(t.ImageContent(data=PNG, mime_type=mime_type)).to_anthropic("1")["content"]
        assert made == [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]
    [_, user] = output(t.ImageContent(data=PNG, mime_type="image/jpg")).to_openai("1")
    assert user["content"][0]["image_url"]["url"] == f"data:image/jpeg;base64,{PNG}"


def test_anthropic_gets_no_blank_text_which_it_refuses() -> None:
    made = output(t.TextContent(text=""), t.TextContent(text=" \n"), t.TextContent(text="x")).to_anthropic("1")
    assert made["content"] == [{"type": "text", "text": "x"}]
