"""Where the app with all features serves a cell: a command, or the URL of a process that ends with the tests."""

from __future__ import annotations

import threading
from functools import cache

from conformance.wires import served

from support.feature_cells import own_peer
from support.feature_cells.cell_runs import SERVER
from support.feature_cells.cells import Cell
from support.processes import end_with_session


@cache
def origin(mode: str) -> str:
    """Return where a server of this process serves over HTTP."""
    process, url = served((SERVER, mode), "an app with all features")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


def target(cell: Cell) -> list[str]:
    """Return the command or the URL of the server for a cell."""
    if cell.transport == "stdio":
        return own_peer.stdio_command(SERVER)
    return [origin(cell.transport) + ("/mcp" if cell.revision >= "2025-03-26" else "/sse")]
