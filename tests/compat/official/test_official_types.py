"""What programs of the official SDK do with its types, in the forms of both its versions."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from mcp_generated.compat import types as newest
from mcp_generated.compat import types_v1, types_v2

both = pytest.mark.parametrize("types", [types_v1, types_v2], ids=["v1", "v2"])


@both
def test_the_schema_of_a_tool_is_a_dict_of_any_keys(types: ModuleType) -> None:
    tool = types.Tool.model_validate({"name": "add", "inputSchema": {}})
    schema = tool.inputSchema if types is types_v1 else tool.input_schema
    schema["x"] = [1]
    assert tool.model_dump(by_alias=True, exclude_none=True) == {"name": "add", "inputSchema": {"x": [1]}}


@both
def test_nothing_but_what_a_program_knows_is_needed_to_create_a_type(types: ModuleType) -> None:
    assert types.PaginatedRequestParams(cursor="2").meta is None
    assert types.ReadResourceRequestParams(uri="note://one").model_dump(mode="json", exclude_none=True) == {
        "uri": "note://one"
    }
    result = types.CallToolResult.model_validate({"content": []})
    assert (result.isError if types is types_v1 else result.is_error) is False
    assert (result.structuredContent if types is types_v1 else result.structured_content) is None


@both
def test_types_of_one_form_go_together(types: ModuleType) -> None:
    info = types.Implementation(name="a", version="1")
    told = {"protocolVersion": "2025-11-25", "capabilities": types.ServerCapabilities(), "serverInfo": info}
    assert types.InitializeResult(**told).capabilities == types.ServerCapabilities()
    asked = {"protocolVersion": "2025-11-25", "capabilities": types.ClientCapabilities(), "clientInfo": info}
    request = types.InitializeRequest(params=types.InitializeRequestParams(**asked))
    assert request.method == "initialize"


def test_a_program_can_name_messages_of_its_own() -> None:
    class SearchParams(types_v2.RequestParams):
        query: str

    class Search(types_v2.Request[SearchParams, Literal["acme/search"]]):
        method: Literal["acme/search"] = "acme/search"

    search = Search(params=SearchParams(query="x"))
    assert search.model_dump(by_alias=True, exclude_none=True) == {"method": "acme/search", "params": {"query": "x"}}
    untyped = types_v1.Request[dict[str, Any], str](method="acme/search", params={"query": "x"})
    assert untyped.params == {"query": "x"}


def test_unions_of_the_first_form_have_a_root() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    request = types_v1.JSONRPCMessage.model_validate(message).root
    assert isinstance(request, types_v1.JSONRPCRequest)
    notification = types_v1.InitializedNotification()
    assert types_v1.ClientNotification(notification).root is notification


def test_unions_of_the_second_form_have_adapters() -> None:
    raw = {"method": "tools/call", "params": {"name": "add", "_meta": {"progressToken": 1, "acme/x": 2}}}
    request = types_v2.client_request_adapter.validate_python(raw)
    assert isinstance(request, types_v2.CallToolRequest) and request.params.meta == {"progress_token": 1, "acme/x": 2}
    assert types_v2.client_request_adapter.dump_python(request, by_alias=True, exclude_none=True) == raw
    assert isinstance(
        types_v2.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", "id": 1, "result": {}}),
        types_v2.JSONRPCResponse,
    )


def test_unknown_properties_are_kept_in_the_first_form_and_forgotten_in_the_second() -> None:
    raw = {"type": "text", "text": "a", "acme": 1}
    assert types_v1.TextContent.model_validate(raw).model_dump(exclude_none=True) == raw
    assert types_v2.TextContent.model_validate(raw).model_dump(exclude_none=True) == {"type": "text", "text": "a"}


def test_an_interim_result_asks_for_something() -> None:
    with pytest.raises(ValidationError, match="input_requests or request_state"):
        types_v2.InputRequiredResult()
    assert types_v2.InputRequiredResult(request_state="s").result_type == "input_required"


def test_a_name_that_is_deprecated_warns() -> None:
    with pytest.warns(DeprecationWarning, match="ResourceTemplateReference"):
        types_v1.ResourceReference(type="ref/resource", uri="note://{x}")  # pyright: ignore[reportDeprecated]


@pytest.mark.parametrize(
    "name",
    [
        "StopReason",
        "IncludeContext",
        "ElicitRequestedSchema",
        "CONNECTION_CLOSED",
        "TASK_OPTIONAL",
        "TASK_STATUS_FAILED",
    ],
)
def test_the_newest_types_have_the_constants_and_plain_aliases_too(name: str) -> None:
    found = getattr(newest, name)
    assert found in [getattr(types, name) for types in (types_v2, types_v1) if hasattr(types, name)]


@pytest.mark.parametrize("name", ["ClientRequestType", "Request2", "TaskExecution", "ResourceReference"])
def test_no_class_of_another_form_is_among_the_newest_types(name: str) -> None:
    assert not hasattr(newest, name)
