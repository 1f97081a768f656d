"""The handlers of a server that publishes skills, with the types of the skills extension."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel

from mcp_runtime.aio.threads import worker_threads
from mcp_runtime.errors import JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.protocol.revision import Request, Revision
from mcp_runtime.server.lists import paginate
from mcp_runtime.usage.texts import quoted

from .directory import SkillDirectory

METHOD_NAMES: Final = ("list_skills", "get_skill", "read_directory")
"""The names of the extension's handlers."""


class SkillHandlers:
    """The request handlers for the skills in some directories; files are read in worker threads."""

    def __init__(self, revision: Revision, directories: list[SkillDirectory], page_size: int = 50) -> None:
        """Create the handlers; `revision` is that of the extension package."""
        rows = (row for row in revision.rows if isinstance(row, Request))
        self.results: Mapping[str, type[BaseModel]] = {row.name: row.result for row in rows}
        self.directories = directories
        self._page_size = page_size

    def add(self, directory: SkillDirectory) -> None:
        """Publish another directory. Raises LocalError if two skills have the same URI."""
        if duplicates := {*directory.uris()} & {uri for other in self.directories for uri in other.uris()}:
            raise LocalError(f"there is a skill at {min(duplicates)!r} already; set `under` to another path")
        self.directories.append(directory)

    async def list_skills(self, params: Any) -> Any:
        def read() -> tuple[list[Any], str | None]:
            skills_ = [(directory, uri) for directory in self.directories for uri in directory.uris()]
            page, cursor = paginate(skills_, params.cursor, self._page_size)
            return [entry for directory, uri in page if (entry := directory.entry(uri)) is not None], cursor

        skills, cursor = await worker_threads().run(read)
        return self.results["list_skills"](skills=skills, next_cursor=cursor)

    async def get_skill(self, params: Any) -> Any:
        entry = await worker_threads().run(self._find, SkillDirectory.entry, params.uri)
        if entry is None:
            raise JSONRPCError(INVALID_PARAMS, f"skill not found: {quoted(params.uri)}", {"uri": params.uri})
        return self.results["get_skill"](skill=entry)

    async def read_directory(self, params: Any) -> Any:
        children = await worker_threads().run(self._find, SkillDirectory.children, params.uri)
        if children is None:
            raise JSONRPCError(INVALID_PARAMS, f"directory not found: {quoted(params.uri)}", {"uri": params.uri})
        resources, cursor = paginate(children, params.cursor, self._page_size)
        return self.results["read_directory"](resources=resources, next_cursor=cursor)

    async def resources(self) -> list[dict[str, Any]]:
        """Return each SKILL.md as an item of the resources list."""

        def read() -> list[dict[str, Any]]:
            resources = (directory.resource(uri) for directory in self.directories for uri in directory.uris())
            return [resource for resource in resources if resource is not None]

        result: list[dict[str, Any]] = await worker_threads().run(read)
        return result

    async def read(self, uri: str) -> Any:
        """Return the ReadResourceResult of the file at a URI, None if no skill has this file."""
        content = await worker_threads().run(self._find, SkillDirectory.content, uri)
        if content is None:
            return None
        fields: dict[str, Any] = {"uri": uri, "mimeType": content.mime_type}
        if content.text is None:
            fields["blob"] = base64.b64encode(content.data).decode()
        else:
            fields["text"] = content.text
        return self.results["read_resource"](contents=[fields])

    def _find(self, method: Any, uri: str) -> Any:
        results = (method(directory, uri) for directory in self.directories)
        return next((result for result in results if result is not None), None)


class SkillServerMixin:
    """A mixin for a server class that publishes skills; pass the skills extension in `extensions` to the server.

    `class Team(SkillServerMixin, Server): directories = [SkillDirectory("skills")]`
    """

    directories: Sequence[SkillDirectory]
    revision: Any

    @cached_property
    def _skills(self) -> SkillHandlers:
        return SkillHandlers(self.revision, [*self.directories])

    async def list_skills(self, ctx: Any, params: Any) -> Any:
        """Return a page of the skills."""
        return await self._skills.list_skills(params)

    async def get_skill(self, ctx: Any, params: Any) -> Any:
        """Return one skill."""
        return await self._skills.get_skill(params)

    async def read_directory(self, ctx: Any, params: Any) -> Any:
        """Return the entries of a folder of a skill."""
        return await self._skills.read_directory(params)

    async def list_resources(self, ctx: Any, params: Any) -> Any:
        """Return a page of the resources: the files of the skills."""
        resources, cursor = paginate(await self._skills.resources(), params.cursor)
        return self._skills.results["list_resources"](resources=resources, next_cursor=cursor)

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        """Return a file of a skill. Raises JSONRPCError (invalid params) if there is none at this URI."""
        result = await self._skills.read(params.uri)
        if result is None:
            raise JSONRPCError(INVALID_PARAMS, f"resource not found: {quoted(params.uri)}", {"uri": params.uri})
        return result
