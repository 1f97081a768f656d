"""The responses of an API become results of tools, and errors become error results."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from support.servers.apis import app_of, document

RESPONSES: list[tuple[httpx2.Response, Any, str]] = [
    (httpx2.Response(200, json={"a": 1}), {"a": 1}, '{"a": 1}'),
    (httpx2.Response(200, json=[1]), {"result": [1]}, "[1]"),
    (httpx2.Response(200, text="hi"), None, "hi"),
    (httpx2.Response(204), None, ""),
    (httpx2.Response(200, content=b"{", headers={"content-type": "application/json"}), None, "{"),
]


@pytest.mark.parametrize(("response", "structured", "text"), RESPONSES)
async def test_a_response_becomes_a_result(response: httpx2.Response, structured: Any, text: str) -> None:
    app, _ = app_of(document({"GET /a": {"operationId": "run"}}), lambda request: response)
    result = await app.call_tool("run", {})
    assert (result.model_dump().get("structuredContent"), "".join(block.text for block in result.content)) == (
        structured,
        text,
    )
    assert not result.is_error


async def test_an_image_becomes_an_image() -> None:
    app, _ = app_of(
        document({"GET /a": {"operationId": "run"}}),
        lambda request: httpx2.Response(200, content=b"x", headers={"content-type": "image/png"}),
    )
    [block] = (await app.call_tool("run", {})).content
    assert (block.type, block.mime_type, block.data) == ("image", "image/png", "eA==")


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_a_status_without_success_is_an_error_result(status: int) -> None:
    app, _ = app_of(
        document({"GET /a": {"operationId": "run"}}), lambda request: httpx2.Response(status, text="because")
    )
    result = await app.call_tool("run", {})
    assert result.is_error and result.content[0].text.startswith(f"GET /a: HTTP {status} ")
    assert result.content[0].text.endswith(": because")


async def test_an_api_that_does_not_respond_is_an_error_result() -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    app, _ = app_of(document({"GET /a": {"operationId": "run"}}), fail)
    result = await app.call_tool("run", {})
    assert result.is_error and "ConnectError" in result.content[0].text


@pytest.mark.parametrize("validate", [True, False])
async def test_a_response_is_validated_unless_that_is_turned_off(validate: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    operation = {
        "operationId": "run",
        "responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}},
    }
    app, _ = app_of(
        document({"GET /a": operation}), lambda request: httpx2.Response(200, json={"n": "x"}), validate_output=validate
    )
    [tool] = await app.list_tools()
    assert (tool.output_schema is not None) is validate
    if not validate:
        assert (await app.call_tool("run", {})).structured_content == {"n": "x"}
