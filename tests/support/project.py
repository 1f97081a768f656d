"""The project as tests see it: its folders, the official schemas, and the generated packages."""

from __future__ import annotations

import importlib
import json
import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mcp_generated import REVISIONS

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SERVERS = TESTS / "support" / "servers"  # Programs that tests run as processes of their own.
PEER_DRIVERS = TESTS / "support" / "peer_drivers"
OFFICIAL = Path(os.environ.get("MCP_OFFICIAL_SCHEMA", ROOT.parent / "shared" / "schema"))

needs_official = pytest.mark.skipif(
    not OFFICIAL.is_dir(), reason=f"the official schemas are not at {OFFICIAL} (set MCP_OFFICIAL_SCHEMA)"
)


@cache
def official(revision: str) -> dict[str, Any]:
    """Return the official schema.json of a revision."""
    schema: dict[str, Any] = json.loads((OFFICIAL / revision / "schema.json").read_text(encoding="utf-8"))
    return schema


def package(revision: str, module: str) -> ModuleType:
    """Return one module of the generated package of a revision."""
    return importlib.import_module(f"mcp_generated.{REVISIONS[revision]}.{module}")
