"""A FastAPI application goes in; an app whose tools call it in this process comes out."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from mcp_generated import App, LocalError


class Note(BaseModel):
    text: str
    tags: list[str] = []


def application() -> FastAPI:
    web = FastAPI(title="Notes")
    notes: dict[int, Note] = {}

    @web.post("/notes/{id}", operation_id="add_note")
    def add_note(id: int, note: Note) -> Note:
        notes[id] = note
        return note

    @web.get("/notes/{id}", operation_id="get_note")
    def get_note(id: int) -> Note:
        if id not in notes:
            raise HTTPException(404, "there is no such note")
        return notes[id]

    @web.get("/names/{name}", operation_id="by_name")
    def by_name(name: str) -> dict[str, str]:
        return {"name": name}

    @web.get("/names/{name}/secret", include_in_schema=False)
    def secret(name: str) -> dict[str, str]:
        raise AssertionError("no argument of another operation leads here")

    @web.get("/files/{path:path}", operation_id="file")
    def file(path: str) -> dict[str, str]:
        return {"path": path}

    @web.get("/tags", operation_id="tags")
    def tags(tag: list[str] | None = None) -> list[str]:
        return tag or []

    return web


async def call(tool: str, /, **arguments: Any) -> Any:
    return await App.from_fastapi(application()).call_tool(tool, arguments)


async def test_the_operations_of_an_application_are_tools() -> None:
    app = App.from_fastapi(application())
    assert app.name == "Notes"
    assert [tool.name for tool in await app.list_tools()] == ["add_note", "get_note", "by_name", "file", "tags"]
    result = await app.call_tool("add_note", {"id": 1, "text": "hi"})
    assert result.structured_content == {"text": "hi", "tags": []}
    assert (await app.call_tool("get_note", {"id": 1})).structured_content == {"text": "hi", "tags": []}


async def test_an_exception_of_the_application_is_an_error_result() -> None:
    result = await call("get_note", id=9)
    assert result.is_error and "HTTP 404 Not Found" in result.content[0].text
    assert "there is no such note" in result.content[0].text


@pytest.mark.parametrize("name", ["a/secret", "a%2Fsecret", "../notes/1", "a/../b"])
async def test_no_argument_reaches_another_route(name: str) -> None:
    assert (await call("by_name", name=name)).is_error


@pytest.mark.parametrize("name", ["ä b", "a?b", "a#b", "100%", "a;b"])
async def test_other_values_arrive_as_they_are(name: str) -> None:
    assert (await call("by_name", name=name)).structured_content == {"name": name}


async def test_a_parameter_of_several_segments_may_have_slashes() -> None:
    assert (await call("file", path="a/b.txt")).structured_content == {"path": "a/b.txt"}
    assert (await call("file", path="../b.txt")).is_error


def test_another_object_is_refused() -> None:
    with pytest.raises(LocalError, match=r"is not a FastAPI application; pass FastAPI\(\)"):
        App.from_fastapi(object())
