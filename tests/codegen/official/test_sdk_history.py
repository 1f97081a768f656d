"""What the official SDK changed in its types when the draft changed is what regeneration changes.

MCP_SPECIFICATION and MCP_PYTHON_SDK name clones of the two repositories.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import ROOT

CLONES = [Path(os.environ.get(name, "absent")) for name in ("MCP_SPECIFICATION", "MCP_PYTHON_SDK")]


@pytest.mark.long
@pytest.mark.skipif(
    not all(clone.is_dir() for clone in CLONES), reason="MCP_SPECIFICATION and MCP_PYTHON_SDK name no two clones"
)
def test_the_page_has_what_the_sdk_changed_and_what_regeneration_changes() -> None:
    command = [sys.executable, ROOT / "docs/upstream/sdk_history.py", "--specification", CLONES[0], "--sdk", CLONES[1]]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    rows = [line for line in printed.splitlines() if line.startswith("| `")]
    page = (ROOT / "docs" / "official-types.md").read_text(encoding="utf-8")
    assert len(rows) >= 3
    assert [row for row in rows if row not in page] == []
