"""The entry point of `mcp-codegen`: it says what to install where a package that the command needs is missing."""

from __future__ import annotations

import sys
from typing import Final

# The extra that brings a package. Servers and clients need none of these, so the base installation has none.
_EXTRAS: Final = {
    **dict.fromkeys(("click", "jinja2", "rich"), "cli"),
    **dict.fromkeys(
        ("black", "datamodel_code_generator", "jsonschema", "tree_sitter", "tree_sitter_typescript"), "codegen"
    ),
    "uritemplate": "codegen",
}


def main() -> None:
    """Run the command line. Without one of its packages, exit with code 2 and the line that installs them."""
    try:
        from .cli.main import main as run

        run()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra = "codegen" if not sys.argv[1:] or sys.argv[1].startswith("-") else _EXTRAS[package]
        print(f"mcp-codegen needs {package}: pip install 'mcp-generated[{extra}]'", file=sys.stderr)
        sys.exit(2)
