"""How stdio is read and written: by the event loop or by threads. `MCP_STDIO=threads` in the environment selects the
threads where both work, which tests them."""

from __future__ import annotations

import os
import sys

from ..errors import LocalError


def uses_threads(*descriptors: int) -> bool:
    """Return True if threads read and write these descriptors.

    They do on Windows, where nothing watches a pipe; for a terminal, which macOS cannot watch; and with
    `MCP_STDIO=threads`. Raises LocalError for another value of that variable.
    """
    mode = os.environ.get("MCP_STDIO", "")
    if mode not in ("", "threads"):
        raise LocalError(f"MCP_STDIO={mode}: there is no such mode of stdio; set it to threads, or remove it")
    if sys.platform == "win32" or mode == "threads":
        return True
    return sys.platform != "linux" and any(map(os.isatty, descriptors))
