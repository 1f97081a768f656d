"""Serves the app with all features in one revision only: REVISION stdio, or REVISION http."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def main(revision: str, transport: str) -> None:
    """Serve until the client closes the connection, or until a signal."""
    app = import_module("feature_server").app
    if transport == "stdio":
        asyncio.run(app.run_async("stdio", revisions=[revision]))
    else:
        asyncio.run(app.run_async("http", revisions=[revision], port=0, legacy_sse=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
