"""README's server, for counting instructions: how long it waits is scaled to the speed of valgrind.

    counted_server.py stdio
    counted_server.py http PORT [stateless]

A process that valgrind runs is some 50 times slower, so that waits of microseconds would end too soon: an event loop
would leave a function that it waits for, as it never does otherwise. How often a loop polls before it sleeps would
depend on when the client writes; it does not poll here. The ticks of uvicorn, ten a second, come less often.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

from mcp_generated import App

app = App("calculator")


@app.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool()
async def add_soon(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# The modules that wait, of this commit and of earlier ones; the names of what they wait for have stayed.
_MODULES = (
    *("mcp_products.fast.stdio", "mcp_products.fast.worker_threads", "mcp_runtime.aio.threads"),
    *(f"mcp_runtime.aio.workers.{name}" for name in ("handover", "reading_thread", "selector", "threads")),
    "mcp_runtime.aio.workers.worker_results",
)
_WAITS = ("_WAIT_SECONDS", "_BATCH_SECONDS", "_SLICE_SECONDS", "_QUICK_SECONDS", "_TICK_SECONDS", "_STALL_SECONDS")
_SCALES = dict.fromkeys((*_WAITS, "IDLE_SECONDS"), 200.0) | {"_SPIN_SECONDS": 0.0}


def scale_waits() -> None:
    """Scale the waits in each module that has one, whether its own or one that it has imported."""
    modules = [module for name in _MODULES if (module := _imported(name)) is not None]
    scaled = {_scale(module, name) for module in modules for name in _SCALES if hasattr(module, name)}
    if scaled != _SCALES.keys():
        raise SystemExit(f"no module has {sorted(_SCALES.keys() - scaled)} any more: look for what waits now")


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def _scale(module: Any, name: str) -> str:
    setattr(module, name, getattr(module, name) * _SCALES[name])
    return name


def slow_ticks() -> None:
    """Let uvicorn look less often whether it shall end."""
    import uvicorn.server  # Over stdio there may be none.

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(200 * seconds)

    vars(uvicorn.server)["asyncio"] = Slow()


if __name__ == "__main__":
    scale_waits()
    if sys.argv[1] == "stdio":
        app.run("stdio")
    else:
        slow_ticks()
        app.run("http", port=int(sys.argv[2]), stateless_http=sys.argv[3:] == ["stateless"])
