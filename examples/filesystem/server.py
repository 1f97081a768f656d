"""Folders go in as arguments; tools that list, read and create files in them come out, within the client's roots.

Run it: `python examples/filesystem/server.py /a/folder /another`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from folders import Denied, Folders, folder_of

from mcp_generated.v2025_11_25 import Context, Server
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import RemoteJSONRPCError, JSONRPCError

INVALID_PARAMS: Final = -32602
READS: Final = t.ToolAnnotations(read_only_hint=True, open_world_hint=False)
CREATES: Final = t.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def _tool(name: str, description: str, hints: t.ToolAnnotations, *arguments: str) -> t.Tool:
    properties: dict[str, dict[str, Any]] = {each: {"type": "string"} for each in arguments}
    schema = t.ToolInputSchema(properties=properties, required=list(arguments))
    return t.Tool(name=name, description=description, input_schema=schema, annotations=hints)


TOOLS: Final = {
    tool.name: tool
    for tool in (
        _tool("list_allowed_directories", "The folders that may be used.", READS),
        _tool("list_directory", "The entries of a folder, given by its absolute path.", READS, "path"),
        _tool("read_file", "The text of a file, given by its absolute path.", READS, "path"),
        _tool("create_file", "Write a new file; one that exists is left as it is.", CREATES, "path", "text"),
    )
}


class Filesystem(Server):
    """Works in the folders given. If the client has roots it is asked for them, each time, since they may change."""

    def __init__(self, allowed: Sequence[Path]) -> None:
        super().__init__(name="filesystem", version="1.0")
        self._allowed = [each.resolve() for each in allowed]

    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        return t.ListToolsResult(tools=list(TOOLS.values()))

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        arguments = _texts(params)
        try:
            folders = Folders(self._allowed, await _roots(ctx))
            # In a thread, because a disk may take its time.
            text = await asyncio.to_thread(_answer, folders, params.name, arguments)
        except Denied as fault:
            return t.CallToolResult(content=[t.TextContent(text=str(fault))], is_error=True)
        return t.CallToolResult(content=[t.TextContent(text=text)])


async def _roots(ctx: Context) -> list[Path] | None:
    """The folders that the client allows; None where it has no roots to tell."""
    if "roots" not in ctx.capabilities:
        return None
    try:
        told = (await ctx.list_roots()).roots
    except RemoteJSONRPCError:
        raise Denied("The client does not say what its roots are, so nothing may be used.") from None
    return [folder for each in told if (folder := folder_of(each.uri)) is not None]


def _answer(folders: Folders, tool: str, arguments: dict[str, str]) -> str:
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
    """The arguments, if they are as the tool says."""
    if params.name not in TOOLS:
        raise JSONRPCError(INVALID_PARAMS, f"there is no tool {params.name!r}")
    given = params.arguments or {}
    wanted = TOOLS[params.name].input_schema.required or []
    if set(given) != set(wanted) or not all(isinstance(each, str) for each in given.values()):
        raise JSONRPCError(INVALID_PARAMS, f"{params.name} takes these texts: {', '.join(wanted) or 'none'}")
    return given


if __name__ == "__main__":
    folders = [Path(each) for each in sys.argv[1:]]
    if not folders or not all(each.is_dir() for each in folders):
        sys.exit("Say which folders may be used: server.py FOLDER …")
    Filesystem(folders).run("stdio")
