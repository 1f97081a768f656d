"""List the skills of a server and load the first one. Run it: `python examples/skills/client.py`.

Each file is verified against the entry of its skill before it is used. What a server sends cannot steer the terminal.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp_generated import printable
from mcp_generated.extensions.skills import Client
from mcp_generated.skills import VerifiedSkill


async def main() -> None:
    """Print the skills, then the files of the first one."""
    server = str(Path(__file__).parent / "server.py")
    async with Client.stdio(sys.executable, server) as client:
        entries = [entry async for entry in client.iter_skills()]
        for entry in entries:
            print(printable(f"{entry.uri}: {entry.frontmatter.description}"))
        skill = VerifiedSkill(client, entries[0])
        print(printable(f"\napproved as {skill.approval[:16]}…, loaded:\n\n{await skill.load()}"))
        for path in skill.paths:
            print(printable(f"{path}: {len(await skill.read(path))} bytes"))


if __name__ == "__main__":
    asyncio.run(main())
