"""Two apps at one endpoint: /mcp, and HTTP+SSE at /sse and /messages for clients of 2024-11-05.

Run it: `python examples/web/legacy_sse.py 8000`.
"""

from __future__ import annotations

import logging
import sys

from mcp_generated import App

words = App("words", "Counts words.", version="1.0")
numbers = App("numbers", "Adds numbers.", version="1.0")


@words.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


@numbers.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


words.mount(numbers, "numbers")

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    words.run("http", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, legacy_sse=True)
