"""The scenario of skills that the suite runs goes in, what its client reads of a server's skills follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mcp_generated.extensions.skills import Client
from mcp_generated.extensions.skills.types import Skill
from mcp_products.skills.client import VerifiedSkill
from mcp_runtime.errors import SkillVerificationError


async def list_skills(client: Client) -> list[Skill]:
    """List the skills, and read none."""
    return [skill async for skill in client.iter_skills()]


async def read_skills(client: Client) -> None:
    """Load every skill that is what its entry says, and read all its files."""
    for skill in await list_skills(client):
        try:
            held = VerifiedSkill(client, skill)
            await held.load()
            for path in held.paths:
                await held.read(path)
        except SkillVerificationError as error:
            print(f"not loaded: {error}")


_SKILLS: Final[Mapping[str, Callable[[Client], Awaitable[object]]]] = {
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": read_skills,
    "sep-2640-client-verify-size": read_skills,
    "sep-2640-client-verify-frontmatter": read_skills,
}


async def use_skills(scenario: str, url: str) -> None:
    """Do what a scenario is about, with the skills of a server."""
    async with Client.http(url) as client:
        await _SKILLS[scenario](client)
