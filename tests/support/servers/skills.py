"""Servers of skills for tests: one that publishes those of the example, and gives what it is told to instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.project import ROOT

from mcp_generated.extensions.skills import Server
from mcp_generated.extensions.skills import types as t
from mcp_products.skills.directory import SkillDirectory
from mcp_products.skills.server import SkillServerMixin

EXAMPLE = ROOT / "examples" / "skills"
NOTES = "skill://release-notes/SKILL.md"
ENTRY = "skill://release-notes/templates/entry.md"


class Other(SkillServerMixin, Server):
    """Gives other contents than it publishes."""

    directories = [SkillDirectory(EXAMPLE / "skills")]
    read: list[str]
    contents: Callable[[str, str], list[dict[str, Any]]]

    async def read_resource(self, ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        self.read.append(params.uri)
        answer = await super().read_resource(ctx, params)
        return t.ReadResourceResult.model_validate(
            {**answer.model_dump(), "contents": self.contents(params.uri, answer.contents[0].text)}
        )


def other(contents: Callable[[str, str], list[dict[str, Any]]]) -> Other:
    server = Other(name="other", version="1")
    server.read = []
    server.contents = contents
    return server
