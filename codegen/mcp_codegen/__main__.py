"""The entry points of `mcp-codegen`, `python -m mcp_codegen` and `mcp-generated`. They say what to install where a
package is missing."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Final

# The extra that brings a package. Servers and clients need none of these, so the base installation has none.
_EXTRAS: Final = {
    **dict.fromkeys(("click", "rich"), "cli"),
    **dict.fromkeys(
        ("datamodel_code_generator", "jinja2", "jsonschema", "ruff", "tree_sitter", "tree_sitter_typescript"), "codegen"
    ),
    "uritemplate": "codegen",
    "libcst": "migrate",
}


def main() -> None:
    """Run `mcp-codegen`. Without one of its packages, exit with code 2 and the line that installs them."""
    _run("mcp-codegen", "main:main")


def authors() -> None:
    """Run `mcp-generated`, in the same way."""
    _run("mcp-generated", "authors:authors")


def _run(program: str, place: str) -> None:
    module, _, attribute = place.partition(":")
    _write_all_text()
    try:
        getattr(import_module(f".cli.{module}", __package__), attribute)(prog_name=program)
    except KeyboardInterrupt:  # While a command is imported.
        sys.exit(130)
    except ModuleNotFoundError as error:
        # A module, or the distribution whose version is asked for.
        package = (error.name or "").partition(".")[0].replace("-", "_")
        if package not in _EXTRAS:
            raise
        alone = program == "mcp-codegen" and (not sys.argv[1:] or sys.argv[1].startswith("-"))
        extra = "codegen" if alone else _EXTRAS[package]
        print(f"error: {program} needs {package}: pip install 'mcp-generated[{extra}]'", file=sys.stderr)
        sys.exit(2)


def _write_all_text() -> None:
    """Let what servers say be written whatever the encoding of the output is: a pipe of Windows has a code page.

    There UTF-8 is written instead, as by other programs, unless the user has chosen. What an encoding lacks is escaped.
    """
    encoding = "utf-8" if sys.platform == "win32" and "PYTHONIOENCODING" not in os.environ else None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


if __name__ == "__main__":
    main()
