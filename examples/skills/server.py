"""A server that publishes the skills of the folder `skills`. Run it: `python examples/skills/server.py`."""

from __future__ import annotations

from pathlib import Path

from mcp_generated import App

app = App("skills", "Skills of the team: release-notes, and code-review for changes.", version="1.0")
app.skills(Path(__file__).parent / "skills")

if __name__ == "__main__":
    app.run("stdio")
