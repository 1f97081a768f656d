"""A server with a route for Prometheus, for tests: `python workers_program.py WORKERS STORE`. It writes its URL.

STORE is `default` for none.
"""

from __future__ import annotations

import os
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from mcp_generated import App, ToolError

trace.set_tracer_provider(TracerProvider())
app = App("measured")


@app.tool
def process(number: int) -> int:
    """Return the id of the process that serves the call."""
    return os.getpid()


@app.tool
def fail() -> None:
    raise ToolError("it has failed")


if __name__ == "__main__":
    if sys.argv[2] == "default":
        app.run("http", port=0, workers=int(sys.argv[1]), metrics_path="/metrics")
    else:
        app.run("http", port=0, workers=int(sys.argv[1]), store=sys.argv[2], metrics_path="/metrics")
