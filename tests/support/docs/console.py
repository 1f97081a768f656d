"""Pages whose blocks of commands are run one after another, and compared with the output below each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.cli.commands import INSTALLED
from support.project import ROOT

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_LIMIT: Final = 120  # Seconds of one block.


def blocks_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of each `console` block of a page, and the `text` block below, empty without one."""
    found = _BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    for number, (kind, text) in enumerate(found):
        if kind == "console":
            below = found[number + 1] if number + 1 < len(found) else ("", "")
            commands = "\n".join(line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ "))
            yield commands, below[1] if below[0] == "text" else ""


def run_block(commands: str, folder: Path) -> str:
    """Return what the commands of a block write; the commands of this checkout are on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **INSTALLED, "PATH": path, "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT,
    )
    return done.stdout


def shows(page: str, output: str) -> bool:
    """Return True if an output is what a page shows; `…` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in page.strip().split("…"))
    return re.fullmatch(pattern, output.strip(), re.S) is not None
