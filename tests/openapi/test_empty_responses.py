"""A call that the API has carried out is a success, whatever its response has: a model would do it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.servers.apis import app_of, document

from mcp_generated import App, compile_schema

PET: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
JSON = {"content-type": "application/json"}


Reply = Callable[[httpx2.Request], httpx2.Response]


def described(schema: Any) -> dict[str, Any]:
    return {"description": "", "content": {"application/json": {"schema": schema}}}


EMPTY = {"description": "Nothing."}
DOCUMENTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "204 beside 200": ({"200": described(PET), "204": EMPTY}, {}),
    "200 alone": ({"200": described(PET)}, {}),
    "a reference": ({"200": described({"$ref": "#/components/schemas/Pet"}), "205": EMPTY}, {"schemas": {"Pet": PET}}),
    "composed": ({"201": described({"allOf": [PET]})}, {}),
    "a list": ({"200": described({"type": "array", "items": PET}), "202": EMPTY}, {}),
    "a scalar": ({"200": described({"type": "string"})}, {}),
    "two schemas": ({"200": described(PET), "201": described({**PET, "required": ["id"], "title": "New"})}, {}),
    "a range": ({"2XX": described(PET)}, {}),
    "anyOf": ({"200": described({"anyOf": [PET, {**PET, "minProperties": 1}]})}, {}),
    "minProperties": ({"200": described({"type": "object", "minProperties": 1})}, {}),
}
NOTHING = [
    httpx2.Response(204),
    httpx2.Response(205),
    httpx2.Response(202),
    httpx2.Response(200),
    httpx2.Response(200, headers={**JSON, "content-length": "0"}),
    httpx2.Response(201, headers=JSON, content=b" \n"),
    httpx2.Response(200, headers=JSON, content=b"null"),
]


def served(
    responses: dict[str, Any], reply: Callable[[httpx2.Request], httpx2.Response], method: str, **more: Any
) -> App:
    spec = document({f"{method} /pets": {"operationId": "run", "responses": responses}}, components=more)
    return app_of(spec, reply)[0]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "PATCH"])
@pytest.mark.parametrize("name", DOCUMENTED)
async def test_no_content_is_a_success_without_content_for_every_client(name: str, method: str) -> None:
    responses, components = DOCUMENTED[name]
    for response in NOTHING:
        if response.content == b"null" and name in ("a list", "a scalar"):
            continue  # JSON's null is content there.
        app = served(responses, lambda request, response=response: response, method, **components)  # type: ignore[misc]
        async with connect(app) as client:  # Which checks results against output schemas.
            result = await client.call_tool("run", {})
            [tool] = (await client.list_tools()).tools
        assert not result.is_error and result.content == [] and result.structured_content == {}, response
        assert tool.output_schema is not None
        assert compile_schema(tool.output_schema.model_dump()).first_error({}) is None


@pytest.mark.parametrize("name", DOCUMENTED)
async def test_what_the_document_describes_is_still_checked(name: str) -> None:
    responses, components = DOCUMENTED[name]
    wrong = httpx2.Response(int(min(responses).replace("XX", "00")), json={"idea": 1, "id": "x"})
    app = served(responses, lambda request: wrong, "POST", **components)
    result = await app.call_tool("run", {})
    if name == "minProperties":
        assert result.structured_content == {"idea": 1, "id": "x"}
        return
    assert result.is_error and "the API has carried out the request" in result.content[0].text


async def test_a_status_that_the_document_does_not_describe_is_a_success_as_text() -> None:
    app = served({"200": described(PET)}, lambda request: httpx2.Response(202, json={"state": "queued"}), "POST")
    result = await app.call_tool("run", {})
    assert not result.is_error and result.structured_content == {} and result.content[0].text == '{"state": "queued"}'
    app = served({"200": described(PET)}, lambda request: httpx2.Response(201, json={"id": 1}), "POST")
    assert (await app.call_tool("run", {})).structured_content == {"id": 1}


async def test_each_described_status_has_its_schema() -> None:
    other = {"type": "object", "properties": {"job": {"type": "string"}}, "required": ["job"]}
    responses = {"200": described(PET), "201": described(other), "204": EMPTY}
    for value in ({"id": 1}, {"job": "x"}):
        app = served(responses, lambda request, value=value: httpx2.Response(201, json=value), "POST")  # type: ignore[misc]
        result = await app.call_tool("run", {})
        assert not result.is_error and result.structured_content == value


async def test_another_media_type_is_a_success() -> None:
    responses = {"200": {"description": "", "content": {"application/json": {"schema": PET}, "text/csv": {}}}}
    for body, kind in ((b"id\n1\n", "text/csv"), (b"{", "application/json"), (b"\x89PNG", "image/png")):
        reply = httpx2.Response(200, content=body, headers={"content-type": kind})
        async with connect(served(responses, lambda request, reply=reply: reply, "POST")) as client:  # type: ignore[misc]
            result = await client.call_tool("run", {})
        assert not result.is_error and result.structured_content == {} and len(result.content) == 1, kind


async def test_the_response_to_head_has_no_content_whatever_the_document_says() -> None:
    app = served({"200": described(PET)}, lambda request: httpx2.Response(200, headers=JSON), "HEAD")
    [tool] = await app.list_tools()
    result = await app.call_tool("run", {})
    assert tool.output_schema is None and not result.is_error and result.content == []


async def test_the_properties_of_an_output_stay_where_readers_look_for_them() -> None:
    [tool] = await served({"200": described(PET)}, lambda request: httpx2.Response(200), "GET").list_tools()
    assert tool.output_schema is not None
    schema = tool.output_schema.model_dump()
    assert schema["properties"] == PET["properties"] and schema["type"] == "object"
    check = compile_schema(schema)
    assert [check.first_error(value) is None for value in ({}, {"id": 1}, {"other": 1})] == [True, True, False]


async def test_a_response_that_cannot_be_read_is_an_error_result() -> None:
    def broken(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.DecodingError("incorrect data")

    result = await served({}, broken, "GET").call_tool("run", {})
    assert result.is_error and "DecodingError" in result.content[0].text


# JSON that Python cannot read, and JSON that no message can have: what the API has sent, as text.
UNSENDABLE = {
    "too deep to read": b"[" * 50_000 + b"]" * 50_000,
    "too deep to send": b'{"id": 1, "x": ' + b"[" * 300 + b"]" * 300 + b"}",
    "half of a surrogate pair": b'{"id": 1, "text": "\\ud800"}',
}


@pytest.mark.parametrize("name", ["200 alone", "a list", "204 beside 200"])
@pytest.mark.parametrize("unsendable", UNSENDABLE)
async def test_json_that_cannot_be_sent_is_a_success_with_its_text(unsendable: str, name: str) -> None:
    body = UNSENDABLE[unsendable]
    responses, components = DOCUMENTED[name]
    app = served(responses, lambda request: httpx2.Response(200, headers=JSON, content=body), "POST", **components)
    async with connect(app) as client:
        result: Any = await client.call_tool("run", {})
    assert not result.is_error and result.structured_content == {}
    assert [block.text for block in result.content] == [body.decode()]
