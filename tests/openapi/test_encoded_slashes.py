"""A slash in a value of the path is refused, unless the parameter is said to take it: as `%2F`, or as it is."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients import connect
from support.servers.apis import app_of, document

from mcp_generated import LocalError, MCPType, RouteMap

STRING: dict[str, Any] = {"type": "string"}


def parameter(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": STRING, **more}


def gitlab(**more: Any) -> dict[str, Any]:
    return document(
        {
            "GET /projects/{id}": {"operationId": "getProject", "parameters": [parameter("id", **more)]},
            "GET /projects/{id}/files/{path}": {"parameters": [parameter("id", **more), parameter("path")]},
        }
    )


SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"encoded_slashes": {"getProject": {"id"}}}, {}),
    ({"encoded_slashes": {"GET /projects/{id}": ["id"]}}, {}),
    ({"encoded_slashes": {"*": {"id"}}}, {}),
    ({}, {"x-encoded-slash": True}),
    ({}, {"x-encoded-slash": True, "x-multi-segment": True}),
]


async def test_by_default_a_slash_is_refused() -> None:
    app, requests = app_of(gitlab())
    result = await app.call_tool("getProject", {"id": "group/project"})
    assert result.is_error and "would leave its path" in result.content[0].text and requests == []


@pytest.mark.parametrize(("settings", "more"), SETTINGS)
async def test_a_parameter_that_is_named_sends_a_slash_encoded(settings: Any, more: Any) -> None:
    app, requests = app_of(gitlab(**more), **settings)
    for value, sent in {"group/project": "group%2Fproject", "a/b c/é": "a%2Fb%20c%2F%C3%A9", "plain": "plain"}.items():
        assert not (await app.call_tool("getProject", {"id": value})).is_error
        assert requests[-1].url.raw_path.decode() == f"/v1/projects/{sent}"
    number = len(requests)
    hostile = [
        "../admin",
        "a/../../admin",
        "/etc",
        "a//b",
        "a/",
        "..",
        "a\\b",
        "a%2f..%2fb",
        "a/%2e%2e/b",
        "a%2Fb",
        "\0",
        "",
    ]
    for value in hostile:
        result = await app.call_tool("getProject", {"id": value})
        assert result.is_error and "path" in result.content[0].text, value
    assert len(requests) == number


async def test_only_the_parameter_that_is_named_does() -> None:
    app, requests = app_of(gitlab(), encoded_slashes={"GET /projects/{id}/files/{path}": {"path"}})
    tool = "get_projects_id_files_path"
    assert not (await app.call_tool(tool, {"id": "1", "path": "src/a.py"})).is_error
    assert requests[-1].url.raw_path == b"/v1/projects/1/files/src%2Fa.py"
    for name, arguments in ((tool, {"id": "a/b", "path": "x"}), ("getProject", {"id": "a/b"})):
        assert (await app.call_tool(name, arguments)).is_error
    assert len(requests) == 1


async def test_the_uri_of_a_resource_can_have_it_too() -> None:
    maps = [RouteMap(mcp_type=MCPType.RESOURCE_TEMPLATE)]
    app, requests = app_of(gitlab(), route_maps=maps, encoded_slashes={"*": {"id"}})
    async with connect(app) as client:
        await client.get_resource("getProject", {"id": "group/project"})
    assert requests[-1].url.raw_path == b"/v1/projects/group%2Fproject"


@pytest.mark.parametrize("slashes", [{"getProjekt": {"id"}}, {"getProject": {"ID"}}, {"*": {"name"}}])
def test_a_parameter_that_there_is_not_is_refused(slashes: Any) -> None:
    with pytest.raises(LocalError, match="encoded_slashes has"):
        app_of(gitlab(), encoded_slashes=slashes)


@pytest.mark.parametrize("names", [{"id"}, ["getProject"], "id", 1])
def test_names_without_their_operation_are_refused(names: Any) -> None:
    with pytest.raises(TypeError, match=r"encoded_slashes=.* must be a dict, such as \{'getProject'"):
        app_of(gitlab(), encoded_slashes=names)


def test_one_string_is_no_set_of_names() -> None:
    with pytest.raises(TypeError, match="encoded_slashes"):
        app_of(gitlab(), encoded_slashes={"getProject": "id"})
