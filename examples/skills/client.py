"""Lists the skills of a server and loads the first one. Run it: `python examples/skills/client.py`.

Each file is checked against the entry of its skill before anybody sees it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp_generated.extensions.skills import Client
from mcp_runtime.extensions.skills import VerifiedSkill


async def main() -> None:
    server = str(Path(__file__).parent / "server.py")
    async with Client.stdio(sys.executable, server) as client:
        skills = [skill async for skill in client.iter_skills()]
        for skill in skills:
            print(f"{skill.uri}: {skill.frontmatter.description}")
        held = VerifiedSkill(client, skills[0])
        print(f"\napproved as {held.approval[:16]}…, loaded:\n\n{await held.load()}")
        for path in held.paths:
            print(f"{path}: {len(await held.read(path))} bytes")


if __name__ == "__main__":
    asyncio.run(main())
