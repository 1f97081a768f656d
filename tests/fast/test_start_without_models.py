"""A server over stdio starts, lists its tools and answers calls without pydantic's models, which take longer to load
than it, and without what only HTTP, clients and tasks need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_generated import App
from mcp_generated.v2026_07_28 import types as t
from mcp_products.fast import switches

SERVER = '''
import sys
from mcp_generated import App

app = App("Demo")

@app.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b

@app.tool()
def loaded() -> str:
    """Return what is loaded of what this server does without: models, HTTP, a client, and tasks."""
    parts = ("pydantic.", "email.", "mcp_runtime.transports.http", "mcp_runtime.http.headers", "mcp_runtime.client.",
             "mcp_products.extensions.")
    return " ".join(name for name in sys.modules if name.startswith(parts) or ".types." in name)

if __name__ == "__main__":
    app.run()
'''
PREFIX = "io.modelcontextprotocol/"
INFO = {"name": "x", "version": "1"}
META = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientInfo": INFO, f"{PREFIX}clientCapabilities": {}}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "add", "arguments": {"a": 1}}),
    ("tools/call", {"name": "add", "arguments": {"a": "x", "c": 2}}),
    ("tools/call", {"name": "loaded"}),
]
CONVERSATIONS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    **{
        version: [
            ("initialize", {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": INFO}),
            ("notifications/initialized", {}),
            ("ping", {}),
            *CALLS,
        ]
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    },
    "2026-07-28": [(method, {**params, "_meta": META}) for method, params in [("server/discover", {}), *CALLS]],
}


@pytest.mark.skipif(not switches.ENABLED, reason="this is what the fast paths are for")
@pytest.mark.parametrize("version", CONVERSATIONS)
def test_nothing_is_loaded_that_the_first_answers_do_not_need(version: str, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe = subprocess.PIPE
    answers: list[Any] = []
    with subprocess.Popen([sys.executable, server], stdin=pipe, stdout=pipe, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        for number, (method, params) in enumerate(CONVERSATIONS[version]):
            id = {} if method.startswith("notifications/") else {"id": number}
            message = {"jsonrpc": "2.0", **id, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if id:
                answers.append(json.loads(process.stdout.readline()))
    *_, listed, added, refused, loaded = [answer["result"] for answer in answers]
    assert [tool["name"] for tool in listed["tools"]] == ["add", "loaded"]
    assert added["content"] == [{"type": "text", "text": "3"}]
    assert refused["isError"] is True
    assert "a: Input should be a valid integer" in refused["content"][0]["text"]
    assert loaded["content"] == [{"type": "text", "text": ""}]


def app_with(*middleware: Any) -> App:
    app = App("x", instructions="Use it.")
    for function in middleware:
        app.middleware(function)

    @app.tool(title="Add", tags={"numbers"})
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @app.tool()
    def text() -> str:
        return "text \u20ac"

    @app.tool(structured_output=False)
    def unstructured(value: str) -> str:
        return value

    @app.tool()
    def nothing() -> None:
        return None

    @app.tool(annotations={"readOnlyHint": True})
    def fails(ratio: float) -> bool:
        raise ValueError(ratio)

    return app


async def seen(app: App) -> list[Any]:
    """Return what a client sees: the list, right and wrong calls."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add", {"a": 1}),
        ("add", {"a": 5.0, "b": 7}),
        ("add", {"a": "1", "c": 3}),
        ("text", {}),
        ("unstructured", {"value": "[1]"}),
        ("nothing", {}),
        ("fails", {"ratio": 1}),
    ]
    results = [await app.call_tool(name, arguments) for name, arguments in calls]
    return [[tool.to_dict() for tool in await app.list_tools()], [result.to_dict() for result in results]]


async def test_what_is_written_without_models_is_what_models_write() -> None:
    async def pass_on(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        return await call_next(ctx, params)

    assert await seen(app_with()) == await seen(app_with(pass_on))


async def test_middleware_gets_models() -> None:
    seen_by_middleware: list[Any] = []

    async def record(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        result = await call_next(ctx, params)
        seen_by_middleware.append((params, result))
        return result

    app = app_with(record)
    await app.call_tool("add", {"a": 1})
    await app.list_tools()
    (call, added), (page, listed) = seen_by_middleware[0], seen_by_middleware[-1]
    assert isinstance(call, t.CallToolRequestParams) and isinstance(added, t.CallToolResult)
    assert isinstance(page, t.PaginatedRequestParams) and isinstance(listed, t.ListToolsResult)


async def test_a_tool_that_is_added_disabled_or_in_pages_is_listed_as_before() -> None:
    app = App("x", page_size=2)
    for number in range(5):
        app.add_tool(lambda: "", name=f"tool{number}")
    assert [tool.name for tool in await app.list_tools()] == [f"tool{number}" for number in range(5)]
    app.disable(names=["tool1"])
    assert [tool.name for tool in await app.list_tools()] == ["tool0", "tool2", "tool3", "tool4"]
