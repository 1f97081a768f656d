"""The command `mcp-codegen`, which is a distribution of its own: this says how to install it where it is missing."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Run `mcp-codegen`. Without its distribution, exit with code 2 and the line that installs it."""
    if find_spec("mcp_codegen") is None:
        extra = "codegen" if not sys.argv[1:] or sys.argv[1].startswith("-") else "cli"
        print(
            f"mcp-codegen needs mcp-generated-codegen: pip install 'mcp-generated[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(2)
    import_module("mcp_codegen.entry").main()
