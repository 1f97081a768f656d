"""Thoughts go in one by one; how far they are, and what was revised or branched off, comes out.

Run it: `python examples/thinking/server.py`.
"""

from __future__ import annotations

import threading
from typing import Annotated, Final

from pydantic import BaseModel, Field

from mcp_generated import App, ToolError

MOST: Final = 1000  # Thoughts that are kept.
Number = Annotated[int, Field(ge=1, le=MOST)]

app = App("sequential-thinking", "Think step by step; revise, branch, and say when it is done.", version="1.0")


class Progress(BaseModel):
    """How far the thoughts are."""

    number: int
    total: int
    kept: int
    branches: list[str]
    done: bool


class Chain:
    """The thoughts so far: the branch of each, and its number; the lock is for tools that run in worker threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.thoughts: dict[tuple[str, int], str] = {}

    def add(
        self, branch: str, number: int, thought: str, start: int | None, revises: int | None
    ) -> tuple[int, list[str]]:
        """Keep a thought. Returns how many there are, and the branches."""
        with self._lock:
            for earlier, home in ((start, ""), (revises, branch)):
                if earlier is not None and (home, earlier) not in self.thoughts and ("", earlier) not in self.thoughts:
                    raise ToolError(f"There is no thought {earlier} yet.")
            if len(self.thoughts) >= MOST:
                raise ToolError("These are too many thoughts.")
            self.thoughts[branch, number] = thought
            return len(self.thoughts), sorted({name for name, _ in self.thoughts if name})


chain = Chain()


@app.tool("sequentialthinking", annotations={"openWorldHint": False, "destructiveHint": False})
def think(
    thought: Annotated[str, Field(min_length=1, max_length=10_000)],
    number: Number,
    total: Number,
    more: bool,
    revises: Number | None = None,
    branch: Annotated[str, Field(max_length=100)] = "",
    branch_from: Number | None = None,
) -> Progress:
    """Write down one step of thinking.

    Args:
        thought: The step itself.
        number: Its number, from 1.
        total: How many there will be, as far as is known now.
        more: Whether another one is needed.
        revises: The number of the thought that this one replaces.
        branch: The name of the branch it belongs to, if it is not the trunk.
        branch_from: The thought of the trunk where that branch begins.
    """
    kept, branches = chain.add(branch, number, thought, branch_from, revises)
    return Progress(number=number, total=max(number, total), kept=kept, branches=branches, done=not more)


@app.resource("thinking://thoughts", mime_type="text/plain")
def thoughts() -> str:
    """All thoughts, in the order of their branches and numbers."""
    return "\n".join(
        f"{branch or 'trunk'} {number}: {said}" for (branch, number), said in sorted(chain.thoughts.items())
    )


if __name__ == "__main__":
    app.run("stdio")
