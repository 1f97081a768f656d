"""The page "Many tools, few tokens": its commands show what it says, with the server of the page before code mode."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.docs.console import blocks_of, run_block, shows
from support.project import ROOT

pytestmark = pytest.mark.long


@pytest.mark.deadline(300)
def test_the_commands_write_what_the_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs/tokens.md").read_text(encoding="utf-8")
    [server] = re.findall(r"^<!-- test: file=server.py.*?-->\n```python\n(.*?)^```$", page, re.M | re.S)
    lines = [line for line in server.splitlines() if "CodeMode" not in line]
    (tmp_path / "server.py").write_text("\n".join(lines))
    shown = [(commands, text) for commands, text in blocks_of("tokens.md") if text]
    assert len(shown) == 1
    for commands, text in shown:
        output = run_block(commands, tmp_path)
        assert shows(text, output), output
