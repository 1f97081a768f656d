"""Documents with a malformed `required`: the operation is a tool, and requires what can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.servers.apis import app_of, document

STRING = {"type": "string"}
# Values of `required` in a schema, and the names that can be read in them. `true` is from the older drafts 3.
VALUES: list[tuple[Any, list[str]]] = [
    (["a"], ["a"]),
    (["a", 5, None], ["a"]),
    (True, []),
    ("a", []),
    (5, []),
    ({"a": True}, []),
    (None, []),
]


@pytest.mark.parametrize(("required", "names"), VALUES)
@pytest.mark.parametrize("form", ["plain", "allOf", "nested"])
async def test_the_operation_is_a_tool_that_can_be_called(form: str, required: Any, names: list[str]) -> None:
    schema: Any = {"type": "object", "properties": {"a": STRING, "b": STRING}, "required": required}
    if form == "allOf":
        schema = {"allOf": [schema, {"type": "object", "properties": {"c": STRING}, "required": required}]}
    if form == "nested":
        schema = {"type": "object", "properties": {"outer": schema}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    app, requests = app_of(document({"POST /notes": {"operationId": "run", "requestBody": body}}))
    [tool] = await app.list_tools()
    written: dict[str, Any] = tool.input_schema.model_dump()
    if form != "nested":
        assert sorted(set(written.get("required") or [])) == names
    arguments = {"outer": {"a": "x"}} if form == "nested" else {"a": "x"}
    result = await app.call_tool("run", arguments)
    assert not result.is_error, result.content
    assert json.loads(requests[0].content) == arguments
