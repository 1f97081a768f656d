"""One of several servers of a file, which share a store: `python shared_server.py FILE STORE PORT`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    file, store, port = sys.argv[1:]
    sys.path.insert(0, str(Path(file).parent))  # As if the file was run itself.
    app = runpy.run_path(file, run_name="shared")["app"]
    app.run("http", port=int(port), store=store, legacy_sse=True, health_path="/healthz", ready_path="/readyz")
