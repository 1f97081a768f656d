"""An API's document goes in; an app whose tools and resources call the API comes out."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from support.clients import connect
from support.servers.apis import app_of, document

from mcp_generated import MCPType, RouteMap

STRING = {"type": "string"}


def path_parameter(name: str = "id", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": STRING, **more}


def query(name: str, schema: Any = STRING, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **more}


async def sent(operation: dict[str, Any], arguments: dict[str, Any], line: str = "GET /notes/{id}") -> httpx2.Request:
    app, requests = app_of(document({line: {"operationId": "run", **operation}}))
    result = await app.call_tool("run", arguments)
    assert not result.is_error, result.content
    [request] = requests
    return request


async def test_operations_become_tools_with_the_names_and_texts_of_the_document() -> None:
    app, _ = app_of(
        document(
            {
                "GET /notes": {"operationId": "list_notes", "summary": "List.", "description": "All of them."},
                "DELETE /notes/{id}": {"parameters": [path_parameter(description="Which note.")]},
            }
        )
    )
    listed, deleted = await app.list_tools()
    assert (app.name, listed.name, listed.description) == ("Notes", "list_notes", "List.\n\nAll of them.")
    assert (listed.annotations.read_only_hint, deleted.annotations.read_only_hint) == (True, False)
    assert deleted.name == "delete_notes_id"
    assert deleted.input_schema.model_dump() == {
        "type": "object",
        "properties": {"id": {"type": "string", "description": "Which note."}},
        "required": ["id"],
        "additionalProperties": False,
    }


async def test_arguments_of_all_locations_make_one_request() -> None:
    body = {"type": "object", "properties": {"text": STRING, "id": {"type": "integer"}}, "required": ["text"]}
    operation = {
        "parameters": [
            path_parameter(),
            query("tag"),
            {"name": "X-Trace", "in": "header", "schema": STRING},
            {"name": "theme", "in": "cookie", "schema": STRING},
            {"name": "Authorization", "in": "header", "schema": STRING},
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
    }
    arguments = {"id__path": "n 1", "tag": "a&b=c#d", "X-Trace": "t", "theme": "dark;x", "text": "hä", "id": 7}
    request = await sent(operation, arguments, "PUT /notes/{id}")
    assert request.url.raw_path == b"/v1/notes/n%201?tag=a%26b%3Dc%23d"
    assert (request.headers["x-trace"], request.headers["cookie"]) == ("t", "theme=dark%3Bx")
    assert json.loads(request.content) == {"text": "hä", "id": 7}
    assert "authorization" not in request.headers


STYLES: list[tuple[dict[str, Any], Any, str]] = [
    ({}, ["a", "b"], "q=a&q=b"),
    ({"explode": False}, ["a,b", "c"], "q=a%2Cb,c"),
    ({"style": "spaceDelimited", "explode": False}, ["a", "b"], "q=a%20b"),
    ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "q=a%7Cb"),
    ({}, {"x": 1, "y": "&"}, "x=1&y=%26"),
    ({"explode": False}, {"x": 1, "y": 2}, "q=x,1,y,2"),
    ({"style": "deepObject"}, {"x": {"y": [1, 2]}}, "q[x][y][0]=1&q[x][y][1]=2"),
    ({"allowReserved": True}, "a/b?c&d", "q=a/b?c%26d"),
    ({}, True, "q=true"),
    ({"content": {"application/json": {"schema": {}}}}, {"a": 1}, "q=%7B%22a%22%3A1%7D"),
]


@pytest.mark.parametrize(("style", "value", "expected"), STYLES)
async def test_query_parameters_have_the_style_of_the_document(style: Any, value: Any, expected: str) -> None:
    request = await sent({"parameters": [query("q", {}, **style)]}, {"q": value}, "GET /notes")
    assert request.url.query.decode() == expected


PATH_STYLES: list[tuple[dict[str, Any], Any, str]] = [
    ({}, ["a", "b"], "a,b"),
    ({"explode": True}, {"x": 1}, "x=1"),
    ({"style": "label"}, ["a", "b"], ".a,b"),
    ({"style": "matrix"}, "a", ";id=a"),
    ({"style": "matrix", "explode": True}, ["a", "b"], ";id=a;id=b"),
    ({}, "50% off?#", "50%25%20off%3F%23"),
    ({"x-multi-segment": True}, "docs/a b.md", "docs/a%20b.md"),
]


@pytest.mark.parametrize(("style", "value", "expected"), PATH_STYLES)
async def test_path_parameters_have_the_style_of_the_document(style: Any, value: Any, expected: str) -> None:
    request = await sent({"parameters": [path_parameter(**{**style, "schema": {}})]}, {"id": value})
    assert request.url.raw_path.decode() == f"/v1/notes/{expected}"


HOSTILE = [
    "", ".", "..", "../admin", "a/b", "a\\b", "/etc", "//evil.test/x", "..%2fadmin", "%2e%2e", "%252e%252e%252f",
    "a\0", "a\nb",
    "..;/admin/..", "1/../../admin", "a%2fb", "a%5cb",
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("multi_segment", [False, True])
async def test_no_path_argument_leaves_its_place(value: str, multi_segment: bool) -> None:
    spec = document(
        {
            "GET /notes/{id}/text": {
                "operationId": "run",
                "parameters": [path_parameter(**{"x-multi-segment": multi_segment})],
            }
        }
    )
    app, requests = app_of(spec)
    result = await app.call_tool("run", {"id": value})
    if multi_segment and value == "a/b":
        assert [request.url.raw_path for request in requests] == [b"/v1/notes/a/b/text"]
    else:
        assert result.is_error and "path" in result.content[0].text
        assert requests == []


@pytest.mark.parametrize("value", ["@evil.test", "?x=1", "#x", "http://evil.test", ":80", "[::1]", "{id}", "…", "&a=b"])
async def test_every_other_value_reaches_the_server_as_it_is(value: str) -> None:
    operation = {"parameters": [path_parameter(), query("q")]}
    if "/" in value:
        request = await sent({"parameters": [query("q")]}, {"q": value}, "GET /notes")
    else:
        request = await sent(operation, {"id": value, "q": value})
        assert request.url.path == f"/v1/notes/{value}"
    assert (request.url.host, request.url.params["q"]) == ("api.test", value)
    assert len(request.url.params) == 1


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "ä", "\0"])
async def test_a_header_argument_adds_no_header(value: str) -> None:
    spec = document(
        {"GET /a": {"operationId": "run", "parameters": [{"name": "X-A", "in": "header", "schema": STRING}]}}
    )
    app, requests = app_of(spec)
    assert (await app.call_tool("run", {"X-A": value})).is_error
    assert requests == []


async def test_unknown_and_missing_arguments_send_no_request() -> None:
    app, requests = app_of(document({"GET /notes/{id}": {"operationId": "run", "parameters": [path_parameter()]}}))
    for arguments in ({}, {"id": "a", "other": 1}, {"id": 1}):
        assert (await app.call_tool("run", arguments)).is_error
    assert requests == []


FORM = {
    "type": "object",
    "properties": {"name": STRING, "tags": {"type": "array", "items": STRING}, "deep": {"type": "object"}},
}


async def test_a_form_is_encoded_by_the_rules_of_the_document() -> None:
    media = {"schema": FORM, "encoding": {"deep": {"style": "deepObject"}}}
    body = {"requestBody": {"content": {"application/x-www-form-urlencoded": media}}}
    request = await sent(body, {"name": "a&b", "tags": ["x", "y"], "deep": {"k": {"l": 1}}}, "POST /notes")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.content == b"name=a%26b&tags=x&tags=y&deep[k][l]=1"


async def test_a_multipart_form_has_a_part_for_each_property() -> None:
    request = await sent(
        {"requestBody": {"content": {"multipart/form-data": {"schema": FORM}}}}, {"name": "a"}, "POST /notes"
    )
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="name"' in request.read() and b"\r\n\r\na\r\n" in request.content


@pytest.mark.parametrize(
    ("schema", "value"), [({"type": "array", "items": STRING}, ["a"]), ({"oneOf": [{}, {}]}, {"a": 1})]
)
async def test_a_body_without_named_properties_is_one_argument(schema: Any, value: Any) -> None:
    if "oneOf" in schema:
        schema = {"anyOf": [{"type": "object"}, STRING]}
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    request = await sent(body, {"body": value}, "POST /notes")
    assert json.loads(request.content) == value


async def test_references_are_resolved_also_in_a_circle() -> None:
    tree = {
        "type": "object",
        "properties": {"name": STRING, "inner": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    operation = {
        "operationId": "run",
        "parameters": [{"$ref": "#/components/parameters/id"}],
        "requestBody": {"$ref": "#/components/requestBodies/tree"},
        "responses": {"200": {"$ref": "#/components/responses/tree"}},
    }
    media = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}
    components = {
        "schemas": {"Tree": tree},
        "parameters": {"id": path_parameter()},
        "requestBodies": {"tree": media},
        "responses": {"tree": {"description": "", **media}},
    }
    value = {"name": "a", "inner": [{"name": "b", "inner": []}]}
    app, requests = app_of(
        document({"POST /trees/{id}": operation}, components=components),
        lambda request: httpx2.Response(200, json=value),
    )
    result = await app.call_tool("run", {"id": "1", **value})
    assert (result.structured_content, json.loads(requests[0].content)) == (value, value)
    assert (await app.call_tool("run", {"id": "1", "inner": [{"name": 5}]})).is_error
    assert len(requests) == 1


async def test_keywords_of_openapi_3_0_become_json_schema() -> None:
    schema = {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "nullable": True, "example": 3, "x-order": 1}
    spec = {**document({"GET /a": {"operationId": "run", "parameters": [query("q", schema)]}}), "openapi": "3.0.3"}
    [tool] = await app_of(spec)[0].list_tools()
    assert tool.input_schema.model_dump()["properties"]["q"] == {"type": ["integer", "null"], "exclusiveMinimum": 1}


async def test_route_maps_decide_what_an_operation_becomes() -> None:
    spec = document(
        {
            "GET /notes": {"operationId": "all_notes"},
            "GET /notes/{note-id}": {"operationId": "one_note", "parameters": [path_parameter("note-id")]},
            "POST /notes": {"operationId": "add_note"},
            "GET /internal": {"operationId": "secrets", "tags": ["admin"]},
        }
    )
    maps = [
        RouteMap(tags={"admin"}, mcp_type=MCPType.EXCLUDE),
        RouteMap(methods=["GET"], pattern=r"\{", mcp_type=MCPType.RESOURCE_TEMPLATE),
        RouteMap(methods=["GET"], mcp_type=MCPType.RESOURCE),
    ]
    app, requests = app_of(spec, route_maps=maps, mcp_names={"add_note": "create"})
    assert [tool.name for tool in await app.list_tools()] == ["create"]
    assert [item.uri for item in await app.list_resources()] == ["resource://all_notes"]
    [template] = await app.list_resource_templates()
    assert template.uri_template == "resource://one_note/{note_id}"
    async with connect(app.server) as client:
        [content] = (await client.read_resource("resource://one_note/a%20b")).contents
    assert (json.loads(content.text), requests[0].url.raw_path) == ({"ok": True}, b"/v1/notes/a%20b")


def test_a_function_can_change_what_an_operation_becomes() -> None:
    spec = document({"GET /a": {"operationId": "a"}, "GET /b": {"operationId": "b"}})
    app, _ = app_of(spec, route_map_fn=lambda route, kind: MCPType.EXCLUDE if route.path == "/a" else None)
    assert [*app.registry.tools] == ["b"]


async def test_names_are_distinct_and_short() -> None:
    spec = document(
        {
            "GET /a": {"operationId": "x" * 90},
            "GET /b": {"operationId": "x" * 91},
            "GET /c": {"operationId": "repos/get"},
        }
    )
    names = [tool.name for tool in await app_of(spec)[0].list_tools()]
    assert len({*names}) == 3 and max(map(len, names)) <= 64
    assert names[2] == "repos_get"
