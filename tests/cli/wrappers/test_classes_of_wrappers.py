"""The classes of wrappers have good names, equal ones are there once, and the rest of a result can be had."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mcp_codegen.paths import template_folders
from mcp_codegen.servers.contract import read_contract
from mcp_codegen.servers.wrappers import wrap
from mcp_generated import App, LocalError, ToolResultError
from mcp_generated.v2025_11_25 import Client
from mcp_generated.v2026_07_28 import types as t

TEXT = {"type": "string"}
PLACE = {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}


def listed(name: str, items: Any, **more: Any) -> Any:
    schema = {"type": "object", "properties": {name: {"type": "array", "items": items}}, "required": [name], **more}
    return {"name": "get", "inputSchema": {"type": "object"}, "outputSchema": schema}


def source(tools: list[Any]) -> str:
    return wrap(read_contract(tools, "x"), "x", template_folders())


def classes(tools: list[Any]) -> list[str]:
    nodes = ast.parse(source(tools)).body
    names = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    return [name for name in names if name not in ("Tools", "SyncTools")]


def module(tools: list[Any], folder: Path) -> ModuleType:
    path = folder / "wrapped_classes.py"
    path.write_text(source(tools))
    spec = importlib.util.spec_from_file_location("wrapped_classes", path)
    assert spec is not None and spec.loader is not None
    wrappers = sys.modules["wrapped_classes"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wrappers)
    return wrappers


@pytest.mark.parametrize(
    ("name", "items", "expected"),
    [
        ("forecasts", PLACE, "GetResultForecast"),
        ("entries", PLACE, "GetResultEntry"),
        ("boxes", PLACE, "GetResultBox"),
        ("classes", PLACE, "GetResultClass"),
        ("branches", PLACE, "GetResultBranch"),
        ("address", PLACE, "GetResultAddress"),
        ("status", PLACE, "GetResultStatus"),
        ("data", PLACE, "GetResultDataItem"),
        ("s", PLACE, "GetResultSItem"),
        ("forecasts", {**PLACE, "title": "Day"}, "Day"),
        ("forecasts", {"$ref": "#/$defs/Day"}, "Day"),
    ],
)
def test_an_item_is_named_after_its_list_in_the_singular_or_its_title(name: str, items: Any, expected: str) -> None:
    assert classes([listed(name, items, **{"$defs": {"Day": PLACE}})]) == ["GetResult", expected]


def test_equal_classes_of_several_tools_are_there_once_and_different_ones_have_names_of_their_own() -> None:
    places = {"type": "object", "properties": {"from": PLACE, "to": PLACE, "via": {**PLACE, "required": []}}}
    tools = [
        {"name": "go", "inputSchema": places},
        {"name": "drive", "inputSchema": {**places, "required": ["to"]}},
        {"name": "fly", "inputSchema": {"properties": {"to": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": PLACE}}},
        {"name": "look", "inputSchema": {"properties": {"at": {**PLACE, "description": "Another text."}}}},
    ]
    assert classes(tools) == ["DriveArgumentFrom", "DriveArgumentVia", "LookArgumentAt"]
    assert source(tools).count("to: DriveArgumentFrom") >= 6


def test_classes_that_contain_others_under_equal_names_differ() -> None:
    def tool(name: str, leaf: Any) -> Any:
        node = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Inner"}}}
        inner = {"type": "object", "properties": {"leaf": leaf, "outer": {"$ref": "#/$defs/Node"}}}
        schema = {"type": "object", "properties": {"node": {"$ref": "#/$defs/Node"}}}
        return {"name": name, "inputSchema": {**schema, "$defs": {"Node": node, "Inner": inner}}}

    assert classes([tool("a", TEXT), tool("b", TEXT)]) == ["Node", "Inner"]
    assert classes([tool("a", TEXT), tool("b", {"type": "integer"})]) == ["Node", "Inner", "Node_", "Inner_"]


async def test_content_and_metadata_are_beside_the_structured_content(tmp_path: Path) -> None:
    app = App("x")

    @app.tool
    def get(n: int) -> t.CallToolResult:
        content = [t.TextContent(text=f"{n} days")]
        return t.CallToolResult(content=content, structured_content={"days": []}, meta={"n": n}, is_error=n == 0)

    wrappers = module([{**listed("days", PLACE), "inputSchema": {"properties": {"n": {"type": "integer"}}}}], tmp_path)
    async with Client.memory(app) as client:
        tools = wrappers.Tools(client)
        with pytest.raises(LocalError, match="last_result: no call of this Tools"):
            tools.last_result

        async def call(n: int) -> tuple[str, Any]:
            assert (await tools.get(n=n)).days == []
            await asyncio.sleep(0)
            return tools.last_result.content[0].text, tools.last_result.meta

        expected = [(f"{n} days", {"n": n}) for n in (1, 2, 3)]
        assert await asyncio.gather(*(call(n) for n in (1, 2, 3))) == expected
        assert await call(4) == ("4 days", {"n": 4})
        with pytest.raises(ToolResultError) as failed:
            await tools.get(n=0)
        assert failed.value.result.meta == {"n": 0} and tools.last_result.meta == {"n": 4}


def test_a_tool_of_that_name_gets_another_one() -> None:
    assert "def last_result_(" in source([{"name": "last_result", "inputSchema": {"type": "object"}}])
