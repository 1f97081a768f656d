"""Keywords of OpenAPI that JSON Schema lacks, or reads otherwise, are left out; properties of their names stay."""

from __future__ import annotations

from typing import Any

import pytest
from support.servers.apis import app_of, document

KEYWORDS: dict[str, Any] = {
    "discriminator": {"propertyName": "kind"},
    "xml": {"name": "x"},
    "externalDocs": {"url": "https://example.com"},
    "example": "x",
    "examples": ["x"],
    "id": "https://example.com/schema",
    "$id": "https://example.com/schema",
    "x-internal": True,
}


@pytest.mark.parametrize("keyword", KEYWORDS)
async def test_a_keyword_is_left_out_and_a_property_of_its_name_stays(keyword: str) -> None:
    text = {"type": "string", keyword: KEYWORDS[keyword]}
    schema = {"type": "object", "properties": {"a": text, keyword: {"type": "integer"}}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    app, _ = app_of(document({"POST /notes": {"operationId": "run", "requestBody": body}}))
    [tool] = await app.list_tools()
    written: dict[str, Any] = tool.input_schema.model_dump()
    argument = keyword.replace("$", "_")  # Models refuse arguments with other characters.
    assert written["properties"] == {"a": {"type": "string"}, argument: {"type": "integer"}}
