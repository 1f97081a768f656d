"""docs/generate.md, as somebody follows it in an empty folder.

Each file is saved, each command is run, and its output is what the page shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.project import ROOT

PAGE: Final = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
_STEP: Final = re.compile(
    r"<!-- file: (?P<file>\S+) -->\n```\w+\n(?P<content>.*?)^```$"
    r"|^```sh\n(?P<commands>.*?)^```$(?:\n```text\n(?P<output>.*?)^```$)?",
    re.M | re.S,
)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_the_page_on_generating_bindings_can_be_followed(tmp_path: Path) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    shown = []
    for step in _STEP.finditer(PAGE):
        if step["file"]:
            (tmp_path / step["file"]).write_text(step["content"], encoding="utf-8")
            continue
        commands = [line for line in step["commands"].splitlines() if not line.startswith("pip ")]
        done = subprocess.run(
            ["bash", "-euc", "\n".join(commands)],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == (step["output"] or "")
        shown.append(step["commands"])
    assert len(shown) == 5
    assert {path.name for path in tmp_path.iterdir() if path.suffix} == {
        *("weather.py", "ask.py", "clock.json", "protocol.toml", "clock_server.py", "what_time.py")
    }
