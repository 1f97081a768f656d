"""A proxy over stdio, in front of the command in the arguments."""

from __future__ import annotations

import os
import sys

from mcp_generated import App

if __name__ == "__main__":
    App.proxy(sys.argv[1:], "proxy", env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")}).run("stdio")
