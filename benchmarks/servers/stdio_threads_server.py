"""The same server as stdio_ours_server.py, with the transport of threads that Windows uses."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

os.environ["MCP_STDIO"] = "threads"
runpy.run_path(str(Path(__file__).with_name("stdio_ours_server.py")), run_name="__main__")
