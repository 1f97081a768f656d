"""The commands `mcp-generated` and `mcp-codegen`, whose code is a distribution of its own: this says how to install it
where it is missing."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Run `mcp-codegen`. Without its distribution, exit with code 2 and the line that installs it."""
    alone = not sys.argv[1:] or sys.argv[1].startswith("-")
    _run("mcp-codegen", "main", "codegen" if alone else "cli")


def authors() -> None:
    """Run `mcp-generated`, in the same way."""
    _run("mcp-generated", "authors", "cli")


def _run(program: str, entry: str, extra: str) -> None:
    if find_spec("mcp_codegen") is None:
        print(f"error: {program} needs mcp-generated-codegen: pip install 'mcp-generated[{extra}]'", file=sys.stderr)
        sys.exit(2)
    getattr(import_module("mcp_codegen.__main__"), entry)()
