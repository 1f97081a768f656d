"""The tools of the filesystem server of the tutorials, in the folders of the command line, within the client's roots.

Run it: `python examples/filesystem/server.py /a/folder /another`, or without folders for clients with roots.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from file_operations import FileOperations, listing
from folders import AccessDeniedError, Folders, folder_of_root
from line_diffs import Edit
from pydantic import BaseModel, ConfigDict, Field

from mcp_generated import App, Context, Depends, JSONRPCError, ToolError
from mcp_generated.v2026_07_28 import types as t

READS: Final = {"readOnlyHint": True, "openWorldHint": False}
WRITES: Final = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}
CREATES: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}

# The MIME types of what clients can show; anything else is an embedded resource.
MEDIA: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".svg": "image/svg+xml",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
}

app = App(
    "secure-filesystem-server",
    "Paths are absolute, or relative to the first allowed folder that fits.",
    version="1.0",
    tool_errors=(AccessDeniedError,),
)
command_line: list[str] = []  # The folders of the command line, as absolute paths.


class TextOutput(TypedDict):
    """The text of the result."""

    content: str


class MediaOutput(TypedDict):
    """The content block of the result."""

    content: list[dict[str, Any]]


class EditOperation(BaseModel):
    """A text to replace."""

    model_config = ConfigDict(extra="forbid")

    old_text: Annotated[
        str, Field(alias="oldText", description="The text to replace; white space at line ends may differ")
    ]
    new_text: Annotated[str, Field(alias="newText", description="The text to write instead")]


Text = Annotated[t.CallToolResult, TextOutput]
Lines = Annotated[int | None, Field(ge=0, description="The number of lines; 0 is the whole file")]
Patterns = Annotated[list[str] | None, Field(alias="excludePatterns", description="Glob patterns to leave out")]


async def find_folders(ctx: Context) -> Folders:
    """Return the allowed folders. The roots are requested at each call, because they may change."""
    if "roots" not in ctx.capabilities:
        return Folders(command_line)
    try:
        roots = (await ctx.list_roots()).roots  # pyright: ignore[reportDeprecated] - older clients have no other way
    except JSONRPCError:
        raise ToolError("The client did not list its roots, so no folder is allowed.") from None
    return Folders(command_line, [folder for root in roots if (folder := folder_of_root(root.uri)) is not None])


Allowed = Annotated[Folders, Depends(find_folders)]


def text_result(text: str) -> t.CallToolResult:
    """Return a result with a text, also as structured content. Bytes of names that are not UTF-8 are replaced."""
    text = text.encode(errors="surrogateescape").decode(errors="replace")
    return t.CallToolResult(content=[t.TextContent(text=text)], structured_content={"content": text})


def _read(folders: Folders, path: str, tail: int | None, head: int | None) -> Text:
    files, real = FileOperations(folders), folders.resolve(path)
    if head and tail:
        raise ToolError("Cannot specify both head and tail parameters simultaneously")
    if tail:
        return text_result(files.tail(real, tail))
    return text_result(files.head(real, head) if head else files.read(real).decode(errors="replace"))


@app.tool(title="Read file (deprecated)", annotations=READS)
def read_file(folders: Allowed, path: str, tail: Lines = None, head: Lines = None) -> Text:
    """Read the text of a file. Deprecated: use read_text_file."""
    return _read(folders, path, tail, head)


@app.tool(title="Read text file", annotations=READS)
def read_text_file(folders: Allowed, path: str, tail: Lines = None, head: Lines = None) -> Text:
    """Read the text of a file: all of it, or its first (`head`) or last (`tail`) lines."""
    return _read(folders, path, tail, head)


@app.tool(title="Read media file", annotations=READS)
def read_media_file(folders: Allowed, path: str) -> Annotated[t.CallToolResult, MediaOutput]:
    """Read an image or sound as content of its own, any other file as an embedded resource. Bytes are in base64."""
    real = folders.resolve(path)
    data = base64.b64encode(FileOperations(folders).read(real)).decode()
    mime_type = MEDIA.get(Path(real).suffix.lower(), "application/octet-stream")
    resource = t.BlobResourceContents(uri=Path(real).as_uri(), mime_type=mime_type, blob=data)
    block: t.ContentBlock = t.EmbeddedResource(resource=resource)
    if mime_type.startswith("image/"):
        block = t.ImageContent(data=data, mime_type=mime_type)
    elif mime_type.startswith("audio/"):
        block = t.AudioContent(data=data, mime_type=mime_type)
    return t.CallToolResult(content=[block], structured_content={"content": [block.to_dict()]})


@app.tool(title="Read multiple files", annotations=READS)
def read_multiple_files(folders: Allowed, paths: Annotated[list[str], Field(min_length=1)]) -> Text:
    """Read the texts of several files. A file that cannot be read has the reason in its place."""
    files = FileOperations(folders)
    parts: list[str] = []
    for path in paths:
        try:
            parts.append(f"{path}:\n{files.read(folders.resolve(path)).decode(errors='replace')}\n")
        except AccessDeniedError as error:
            parts.append(f"{path}: Error - {error}")
    return text_result("\n---\n".join(parts))


@app.tool(title="Write file", annotations={**WRITES, "idempotentHint": True})
def write_file(folders: Allowed, path: str, content: str) -> Text:
    """Create a file, or replace all of its content."""
    FileOperations(folders).write(folders.resolve(path), content)
    return text_result(f"Successfully wrote to {path}")


@app.tool(title="Edit file", annotations={**WRITES, "idempotentHint": False})
def edit_file(
    folders: Allowed,
    path: str,
    edits: list[EditOperation],
    dry_run: Annotated[bool, Field(alias="dryRun", description="Only show the diff")] = False,
) -> Text:
    """Replace texts of a file one after another, and return the changes as a unified diff."""
    replacements = [Edit(edit.old_text, edit.new_text) for edit in edits]
    return text_result(FileOperations(folders).edit(folders.resolve(path), replacements, dry_run))


@app.tool(title="Create directory", annotations=CREATES)
def create_directory(folders: Allowed, path: str) -> Text:
    """Create a folder, and the folders that it is in. One that exists is not an error."""
    FileOperations(folders).make_folder(folders.resolve(path))
    return text_result(f"Successfully created directory {path}")


@app.tool(title="List directory", annotations=READS)
def list_directory(folders: Allowed, path: str) -> Text:
    """List the entries of a folder, with [DIR] or [FILE] in front."""
    return text_result(listing(FileOperations(folders).entries(folders.resolve(path))))


@app.tool(title="List directory with sizes", annotations=READS)
def list_directory_with_sizes(
    folders: Allowed, path: str, sort_by: Annotated[str, Field(alias="sortBy", pattern="^(name|size)$")] = "name"
) -> Text:
    """List the entries of a folder with their sizes, by name or by size (the largest first), and the total."""
    return text_result(FileOperations(folders).sizes(folders.resolve(path), sort_by == "size"))


@app.tool(title="Directory tree", annotations=READS)
def directory_tree(folders: Allowed, path: str, exclude_patterns: Patterns = None) -> Text:
    """Return all files and folders below a folder as JSON: `name`, `type`, and the `children` of folders."""
    tree = FileOperations(folders).tree(folders.resolve(path), exclude_patterns or [])
    return text_result(json.dumps(tree, indent=2, ensure_ascii=False))


@app.tool(title="Move file", annotations={**WRITES, "idempotentHint": False})
def move_file(folders: Allowed, source: str, destination: str) -> Text:
    """Move or rename a file or folder. It fails if the destination exists."""
    FileOperations(folders).move(folders.resolve(source), folders.resolve(destination))
    return text_result(f"Successfully moved {source} to {destination}")


@app.tool(title="Search files", annotations=READS)
def search_files(folders: Allowed, path: str, pattern: str, exclude_patterns: Patterns = None) -> Text:
    """Find the paths below a folder that match a glob pattern; `**/*.txt` searches in every folder."""
    matching = FileOperations(folders).search(folders.resolve(path), pattern, exclude_patterns or [])
    return text_result("\n".join(matching) or "No matches found")


@app.tool(title="Get file info", annotations=READS)
def get_file_info(folders: Allowed, path: str) -> Text:
    """Return size, times, kind and permissions of a file or folder."""
    return text_result(FileOperations(folders).info(folders.resolve(path)))


@app.tool(title="List allowed directories", annotations=READS)
def list_allowed_directories(folders: Allowed) -> Text:
    """List the folders that may be used."""
    return text_result("\n".join(["Allowed directories:", *folders.allowed]))


def main() -> None:
    """Serve the folders of the command line."""
    for argument in sys.argv[1:]:
        folder = Path(argument).expanduser()
        if not folder.is_dir():
            sys.exit(f"{argument!r} is not a folder. Name the allowed folders: server.py FOLDER …")
        command_line.append(str(folder.absolute()))
    app.run("stdio")


if __name__ == "__main__":
    main()
