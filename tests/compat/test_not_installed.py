"""Without anyio, the names of the official SDK say what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

READ: Final = """
import sys
sys.modules["anyio"] = None
try:
    import mcp_generated.compat
except ImportError as error:
    print(error)
"""


def test_a_program_that_was_moved_says_which_extra_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("mcp_generated.compat needs anyio: pip install 'mcp-generated[compat]'"), done.stderr
