"""Small names of the official SDK 2.x: cache hints in milliseconds, errors of resources, safe paths, capabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from support.clients import connect

from mcp_generated import LocalError, RemoteJSONRPCError, compat
from mcp_generated.compat import (
    CacheHint,
    MCPServer,
    PathEscapeError,
    ResourceNotFoundError,
    Server,
    contains_path_traversal,
    create_connected_server_and_client_session,
    is_absolute_path,
    safe_join,
)
from mcp_generated.compat.types import (
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    ListToolsResult,
    RootsCapability,
    SamplingCapability,
    TextContent,
    Tool,
)


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    """Serve the list of a low-level server."""
    return ListToolsResult(tools=[Tool(name="one", input_schema={"type": "object"})])


async def call_tool(ctx: Any, params: Any) -> CallToolResult:
    """Serve the calls of a low-level server."""
    return CallToolResult(content=[TextContent(type="text", text="done")])


@pytest.mark.parametrize("kind", ["high", "low"])
async def test_cache_hints_have_milliseconds_and_methods(kind: str) -> None:
    hints = {"tools/list": CacheHint(ttl_ms=60_000, scope="public")}
    server: Any
    if kind == "high":
        app = MCPServer("shop", cache_hints=hints)
        app.add_tool(lambda: "x", "one")
        server = app
    else:
        server = Server("shop", on_list_tools=list_tools, on_call_tool=call_tool, cache_hints=hints).bind()
    async with connect(server) as client:
        result: Any = await client.list_tools()
    assert (result.ttl_ms, result.cache_scope) == (60_000, "public")


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(LocalError, match="seconds from 0"):
        CacheHint(ttl_ms=-1)


async def test_a_resource_that_is_not_there_gives_invalid_params() -> None:
    app = MCPServer("shop")

    @app.resource("books://{title}")
    def book(title: str) -> str:
        raise ResourceNotFoundError(f"no book {title}")

    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match="no book dune") as caught:
            await client.read_resource("books://dune")
    assert caught.value.code == -32602


async def test_middleware_of_a_low_level_server_is_around_its_handlers() -> None:
    server: Any = Server("shop", on_list_tools=list_tools, on_call_tool=call_tool)
    seen: list[str] = []

    def named(name: str) -> Any:
        async def record(ctx: Any, call_next: Any) -> Any:
            seen.append(f"{name} before {ctx.method}")
            result = await call_next(ctx)
            seen.append(f"{name} after")
            return result

        return record

    server.middleware.append(named("outer"))
    server.middleware.append(named("inner"))
    async with create_connected_server_and_client_session(server) as session:
        result: Any = await session.call_tool("one", {})
    assert result.content[0].text == "done"
    # The session lists the tools after the call, for their output schemas.
    begins = seen.index("outer before tools/call")
    calls = seen[begins : begins + 4]
    assert calls == ["outer before tools/call", "inner before tools/call", "inner after", "outer after"]


@pytest.mark.parametrize(
    ("value", "leaves", "absolute"),
    [
        ("a/b", False, False),
        ("a/../b", False, False),
        ("a/../../b", True, False),
        ("..\\b", True, False),
        ("..", True, False),
        ("1..2", False, False),
        ("/etc", False, True),
        ("\\\\host\\share", False, True),
        ("C:x", False, True),
        ("", False, False),
    ],
)
def test_paths_that_leave_their_folder_are_recognized(value: str, leaves: bool, absolute: bool) -> None:
    assert (contains_path_traversal(value), is_absolute_path(value)) == (leaves, absolute)


def test_a_joined_path_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "secret")
    assert safe_join(tmp_path / "docs", "a", "b.txt") == (tmp_path / "docs" / "a" / "b.txt").resolve()
    for parts in (("..", "secret"), ("/etc/passwd",), ("a\0b",), ("link",), ("C:\\x",)):
        with pytest.raises(PathEscapeError, match="safe_join"):
            safe_join(tmp_path / "docs", *parts)


def test_parts_of_capabilities_have_types() -> None:
    declared = ClientCapabilities(
        elicitation=ElicitationCapability(), sampling=SamplingCapability(), roots=RootsCapability()
    )
    assert set(declared.model_dump(exclude_none=True)) == {"elicitation", "sampling", "roots"}


def test_the_type_of_middleware_takes_that_of_the_state() -> None:
    kind: Any = getattr(compat, "ServerMiddleware")  # noqa: B009 - Type checkers do not know it.
    assert get_args(kind[dict[str, int]]) == (dict[str, int],)
