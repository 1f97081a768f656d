"""Tools that list, read and create files in the folders of the command line, within the client's roots.

Run it: `python examples/filesystem/server.py /a/folder /another`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from folders import AccessDeniedError, Folders, folder_of_root

from mcp_generated import JSONRPCError, RemoteJSONRPCError
from mcp_generated.v2025_11_25 import Context, Server
from mcp_generated.v2025_11_25 import types as t

INVALID_PARAMS: Final = -32602
READS: Final = t.ToolAnnotations(read_only_hint=True, open_world_hint=False)
CREATES: Final = t.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def _tool(name: str, description: str, hints: t.ToolAnnotations, *arguments: str) -> t.Tool:
    properties: dict[str, dict[str, Any]] = {name: {"type": "string"} for name in arguments}
    schema = t.ToolInputSchema(properties=properties, required=list(arguments))
    return t.Tool(name=name, description=description, input_schema=schema, annotations=hints)


TOOLS: Final = {
    tool.name: tool
    for tool in (
        _tool("list_allowed_directories", "The folders that may be used.", READS),
        _tool("list_directory", "The entries of a folder, given its absolute path.", READS, "path"),
        _tool("read_file", "The text of a file, given its absolute path.", READS, "path"),
        _tool("create_file", "Write a new file; an existing file is not changed.", CREATES, "path", "text"),
    )
}


class Filesystem(Server):
    """A server for the given folders. It requests the client's roots at every call, because they may change."""

    def __init__(self, allowed: Sequence[Path]) -> None:
        super().__init__(name="filesystem", version="1.0")
        self._allowed = [folder.resolve() for folder in allowed]

    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        return t.ListToolsResult(tools=list(TOOLS.values()))

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        arguments = _texts(params)
        try:
            folders = Folders(self._allowed, await _roots(ctx))
            # In a thread, because a disk may be slow.
            text = await asyncio.to_thread(_run_tool, folders, params.name, arguments)
        except AccessDeniedError as error:
            return t.CallToolResult(content=[t.TextContent(text=str(error))], is_error=True)
        return t.CallToolResult(content=[t.TextContent(text=text)])


async def _roots(ctx: Context) -> list[Path] | None:
    """Return the client's roots, or None if the client has no roots."""
    if "roots" not in ctx.capabilities:
        return None
    try:
        roots = (await ctx.list_roots()).roots
    except RemoteJSONRPCError:
        raise AccessDeniedError("The client did not list its roots, so no folder is allowed.") from None
    return [folder for root in roots if (folder := folder_of_root(root.uri)) is not None]


def _run_tool(folders: Folders, tool: str, arguments: dict[str, str]) -> str:
    match tool:
        case "list_directory":
            return folders.listing(arguments["path"])
        case "read_file":
            return folders.read(arguments["path"])
        case "create_file":
            return folders.create(arguments["path"], arguments["text"])
        case _:
            return "\n".join(map(str, folders.allowed))


def _texts(params: t.CallToolRequestParams) -> dict[str, str]:
    """Return the arguments. Raises JSONRPCError if they do not match the tool."""
    if params.name not in TOOLS:
        raise JSONRPCError(INVALID_PARAMS, f"there is no tool {params.name!r}")
    arguments = params.arguments or {}
    required = TOOLS[params.name].input_schema.required or []
    if set(arguments) != set(required) or not all(isinstance(value, str) for value in arguments.values()):
        raise JSONRPCError(INVALID_PARAMS, f"{params.name} takes these texts: {', '.join(required) or 'none'}")
    return arguments


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:]]
    if not folders or not all(folder.is_dir() for folder in folders):
        sys.exit("Name the allowed folders: server.py FOLDER …")
    Filesystem(folders).run("stdio")
