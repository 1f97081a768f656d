"""A server in a Python file or module of this machine: the command that runs it.

The process that runs it imports the runtime; the generator does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..errors import CodegenError

_LAUNCH: Final = (sys.executable, "-P", "-m", "mcp_runtime.launch")  # -P: the current folder hides no module.


def is_python_file(text: str) -> bool:
    """Return True for `server.py` and `server.py:app`, whether they exist or not. A command has more words."""
    path, _ = split_server(text)
    return path.endswith(".py") and (" " not in text or Path(path).is_file())


def split_server(text: str) -> tuple[str, str]:
    """Return the file or module, and the name of the server in it, empty if there is none."""
    place, colon, name = text.rpartition(":")
    return (place, name) if colon and len(place) > 1 and name.isidentifier() else (text, "")


def require_python_file(text: str) -> Path:
    """Return the file of `server.py` or `server.py:app`. Raises CodegenError if it does not exist."""
    path = Path(split_server(text)[0])
    if not path.is_file():
        raise CodegenError(f"{path}: this file does not exist; pass the Python file of a server, or -m MODULE")
    if path.suffix != ".py":
        raise CodegenError(f"{path}: is not a Python file (.py); a command is passed after --, a module with -m")
    return path


def launch_command(
    server: str,
    *,
    module: bool = False,
    http: bool = False,
    host: str | None = None,
    port: int | None = None,
    path: str | None = None,
    arguments: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the command that runs this server: `file.py[:name]`, or `package.module[:name]` with `module`."""
    options = {"--host": host, "--port": None if port is None else str(port), "--path": path}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    flags = ["--module"] * module + ["--http"] * http
    return (*_LAUNCH, *flags, *words, "--", server, *arguments)


def environment() -> dict[str, str]:
    """Return the environment of this process: a server that its author starts gets all of it."""
    return dict(os.environ)
