"""The page "Ship your server", followed block by block with a server of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from support.docs.console import blocks_of, run_block, shows

pytestmark = pytest.mark.long

FILES: Final = {
    "server.py": """from mcp_generated import App

app = App("shop", version="1.2.0")

@app.tool()
def price(name: str) -> int:
    \"\"\"Return the price of something.\"\"\"
    return len(name)

def main() -> None:
    app.run("stdio")

if __name__ == "__main__":
    main()
""",
    "pyproject.toml": """[project]
name = "shop"
version = "1.2.0"
description = "What the shop sells."
readme = "README.md"
dependencies = ["mcp-generated"]

[project.scripts]
shop = "server:main"
""",
    "README.md": "# The shop\n",
}


@pytest.mark.deadline(300)
def test_each_block_writes_what_the_page_shows(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    blocks = list(blocks_of("ship.md"))
    assert len(blocks) >= 4
    for commands, shown in blocks:
        output = run_block(commands, tmp_path)
        last = output.strip().splitlines()[-len(shown.strip().splitlines()) :] if shown else []
        assert not shown or shows(shown, "\n".join(last)), f"{commands}\n{output}"
