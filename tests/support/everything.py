"""The server of examples/everything/app.py: its command, its tools, and its URL over HTTP."""

from __future__ import annotations

import threading
from functools import cache
from typing import Final

from conformance.wires import served

from support.processes import end_with_session
from support.project import ROOT

APP: Final = str(ROOT / "examples" / "everything" / "app.py")
TOOLS: Final = [
    *("echo", "statistics", "image", "audio", "mixed", "fail", "long_running", "log_something", "write_note"),
    *("toggle_extra", "sample", "list_roots", "elicit_name"),
]


@cache
def origin() -> str:
    """Where a server of this process serves over HTTP."""
    process, url = served((APP, "http", "--port", "0"), "everything")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url
