"""Sequential thinking: a model writes one thought after the other, with revisions and branches.

Run it: `python examples/thinking/server.py`.
"""

from __future__ import annotations

import threading
from typing import Annotated, Final

from pydantic import BaseModel, Field

from mcp_generated import App, ToolError

MAX_THOUGHTS: Final = 1000
Number = Annotated[int, Field(ge=1, le=MAX_THOUGHTS)]

app = App("sequential-thinking", "Think step by step; revise, branch, and report the end.", version="1.0")


class Progress(BaseModel):
    """The progress: the number of this thought, the expected total, the number of stored thoughts, and the branches."""

    number: int
    total: int
    stored: int
    branches: list[str]
    done: bool


class Chain:
    """The thoughts so far, by branch and number. A lock protects them, because tools run in worker threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.thoughts: dict[tuple[str, int], str] = {}

    def add(
        self, branch: str, number: int, thought: str, start: int | None, revises: int | None
    ) -> tuple[int, list[str]]:
        """Store a thought. Return the number of thoughts, and the branches."""
        with self._lock:
            for earlier, home in ((start, ""), (revises, branch)):
                if earlier is not None and (home, earlier) not in self.thoughts and ("", earlier) not in self.thoughts:
                    raise ToolError(f"There is no thought {earlier} yet.")
            if len(self.thoughts) >= MAX_THOUGHTS:
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
        total: The expected number of thoughts.
        more: True if another thought is needed.
        revises: The number of the thought that this one replaces.
        branch: The name of its branch, empty for the trunk.
        branch_from: The thought of the trunk where that branch begins.
    """
    stored, branches = chain.add(branch, number, thought, branch_from, revises)
    return Progress(number=number, total=max(number, total), stored=stored, branches=branches, done=not more)


@app.resource("thinking://thoughts", mime_type="text/plain")
def thoughts() -> str:
    """Return all thoughts, by branch and number."""
    return "\n".join(
        f"{branch or 'trunk'} {number}: {thought}" for (branch, number), thought in sorted(chain.thoughts.items())
    )


if __name__ == "__main__":
    app.run("stdio")
