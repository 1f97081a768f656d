"""A server whose tools do what handlers must not: hang, block, print, die, flood, and leave children behind.

`python server.py 2025-11-25` is one of that revision.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import threading
import time
from typing import Any

from mcp_generated import REVISIONS

MIB = 1 << 20


def faulty(revision: str) -> Any:
    """A server of a revision."""
    package = importlib.import_module(f"mcp_generated.{REVISIONS[revision]}")
    t = package.types

    class Faulty(package.Server):  # type: ignore[misc, name-defined]
        async def call_tool(self, ctx: Any, params: Any) -> Any:
            text = await do(params.name, params.arguments or {})
            return t.CallToolResult(content=[t.TextContent(text=text)])

    return Faulty(name="faulty", version="1")


async def do(name: str, arguments: dict[str, object]) -> str:
    match name:
        case "hang":
            await asyncio.Event().wait()
        case "deaf":  # Does not end when it is cancelled.
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        case "executor":  # Python waits for the thread when the process exits.
            await asyncio.to_thread(time.sleep, 120)
        case "thread":
            threading.Thread(target=time.sleep, args=[120]).start()
        case "block":  # Keeps the event loop from running.
            time.sleep(120)
        case "print":
            print("printed by a handler")
            subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
        case "raise":
            raise ValueError("a secret of the server")
        case "die":
            os._exit(7)
        case "last words":
            print("Traceback: the disk is full", file=sys.stderr, flush=True)
            os._exit(1)
        case "half":  # A message that never ends.
            os.write(_protocol_output(), b'{"jsonrpc":"2.0","id":')
            os._exit(0)
        case "flood":
            line = b"x" * 1023 + b"\n"
            for _ in range(100 * MIB // 1024):
                os.write(2, line)
        case "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
            return str(child.pid)
        case "large":
            return "x" * int(str(arguments["size"]))
    return name


def _protocol_output() -> int:
    """The descriptor that standard output was moved to."""
    return max(int(name) for name in os.listdir("/proc/self/fd") if _is_pipe(int(name)))


def _is_pipe(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:") and descriptor > 2
    except OSError:
        return False


if __name__ == "__main__":
    faulty(sys.argv[1] if len(sys.argv) > 1 else "2025-06-18").run("stdio")
