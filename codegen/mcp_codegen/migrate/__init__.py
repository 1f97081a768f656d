"""Move programs of the official SDK and of FastMCP to this project: source, requirements, and marks."""
