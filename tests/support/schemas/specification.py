"""The official files of the releases, from the specification's repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import SOURCE
from mcp_codegen.update.repository import read_snapshot


def official_schemas(folder: Path) -> Path:
    """Return the folder with the official schema of each release: of the clone that MCP_SPECIFICATION names, or else of
    the official repository. Skips the test where that cannot be reached."""
    source = os.environ.get("MCP_SPECIFICATION", "")
    try:
        return read_snapshot(source or SOURCE, "HEAD", folder).folder
    except CodegenError as error:
        if source:
            raise
        pytest.skip(f"MCP_SPECIFICATION names no clone of the specification, and {error}")
