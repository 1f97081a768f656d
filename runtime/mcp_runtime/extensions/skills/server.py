"""Folders of skills go in; the answers of a server that publishes them come out, as types of the skills extension."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel

from ...aio.threads import WORKER_THREADS
from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.revision import Request, Revision
from ...server.lists import paginate
from .provider import SkillDirectory

METHOD_NAMES: Final = ("list_skills", "get_skill", "read_directory")
"""The handlers of the extension."""


def skills_extension(revision: Revision) -> Any:
    """The generated package of the skills extension. Raises LocalError where there is none."""
    try:
        return import_module(f"{revision.package}.extensions.skills")
    except ImportError as fault:
        raise LocalError(f"{revision.package} has no skills extension for {revision.id}") from fault


class SkillHandlers:
    """What a server answers that publishes the skills of these shelves; reading them runs in worker threads."""

    def __init__(self, revision: Revision, directories: list[SkillDirectory], page_size: int = 50) -> None:
        """`revision` is the extension's."""
        rows = (row for row in revision.rows if isinstance(row, Request))
        self.results: Mapping[str, type[BaseModel]] = {row.name: row.result for row in rows}
        self.directories = directories
        self._page_size = page_size

    def add(self, directory: SkillDirectory) -> None:
        """Publish another shelf as well. Raises LocalError where a skill of it has the URI of one that is there."""
        if both := {*directory.uris()} & {uri for each in self.directories for uri in each.uris()}:
            raise LocalError(f"there is a skill at {min(both)!r} already; put the folder `under` a path")
        self.directories.append(directory)

    async def list_skills(self, params: Any) -> Any:
        def found() -> tuple[list[Any], str | None]:
            places = [(shelf, uri) for shelf in self.directories for uri in shelf.uris()]
            here, cursor = paginate(places, params.cursor, self._page_size)
            return [entry for shelf, uri in here if (entry := shelf.entry(uri)) is not None], cursor

        skills, cursor = await WORKER_THREADS.run(found)
        return self.results["list_skills"](skills=skills, next_cursor=cursor)

    async def get_skill(self, params: Any) -> Any:
        entry = await WORKER_THREADS.run(self._find, SkillDirectory.entry, params.uri)
        if entry is None:
            raise JSONRPCError(INVALID_PARAMS, f"skill not found: {params.uri!r}", {"uri": params.uri})
        return self.results["get_skill"](skill=entry)

    async def read_directory(self, params: Any) -> Any:
        children = await WORKER_THREADS.run(self._find, SkillDirectory.children, params.uri)
        if children is None:
            raise JSONRPCError(INVALID_PARAMS, f"no directory: {params.uri!r}", {"uri": params.uri})
        resources, cursor = paginate(children, params.cursor, self._page_size)
        return self.results["read_directory"](resources=resources, next_cursor=cursor)

    async def resources(self) -> list[dict[str, Any]]:
        """What a list of resources says of each SKILL.md."""

        def found() -> list[dict[str, Any]]:
            shown = (shelf.resource(uri) for shelf in self.directories for uri in shelf.uris())
            return [each for each in shown if each is not None]

        listed: list[dict[str, Any]] = await WORKER_THREADS.run(found)
        return listed

    async def read(self, uri: str) -> Any:
        """The answer to a request for the file at this URI; None where no skill has one."""
        content = await WORKER_THREADS.run(self._find, SkillDirectory.content, uri)
        if content is None:
            return None
        said: dict[str, Any] = {"uri": uri, "mimeType": content.kind}
        if content.text is None:
            said["blob"] = base64.b64encode(content.data).decode()
        else:
            said["text"] = content.text
        return self.results["read_resource"](contents=[said])

    def _find(self, method: Any, uri: str) -> Any:
        found = (method(shelf, uri) for shelf in self.directories)
        return next((each for each in found if each is not None), None)


class SkillServerMixin:
    """Put before a server class, and with the extension among its `extensions`, this publishes the skills of `shelves`:

    `class Team(SkillServerMixin, Server): directories = [Shelf("skills")]`
    """

    directories: Sequence[SkillDirectory]
    revision: Any

    @cached_property
    def _skills(self) -> SkillHandlers:
        return SkillHandlers(self.revision, [*self.directories])

    async def list_skills(self, ctx: Any, params: Any) -> Any:
        return await self._skills.list_skills(params)

    async def get_skill(self, ctx: Any, params: Any) -> Any:
        return await self._skills.get_skill(params)

    async def read_directory(self, ctx: Any, params: Any) -> Any:
        return await self._skills.read_directory(params)

    async def list_resources(self, ctx: Any, params: Any) -> Any:
        resources, cursor = paginate(await self._skills.resources(), params.cursor)
        return self._skills.results["list_resources"](resources=resources, next_cursor=cursor)

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        answer = await self._skills.read(params.uri)
        if answer is None:
            raise JSONRPCError(INVALID_PARAMS, f"resource not found: {params.uri!r}", {"uri": params.uri})
        return answer
