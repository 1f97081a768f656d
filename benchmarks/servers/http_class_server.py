"""The echo server of the benchmark over HTTP, with the connections of `run`; the port is the argument."""

from __future__ import annotations

import sys

from http_ours_server import LIMITS, echo

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_runtime.bindings.server import run

run(echo(v2025_11_25), echo(v2026_07_28), transport="http", port=int(sys.argv[1]), limits=LIMITS)
